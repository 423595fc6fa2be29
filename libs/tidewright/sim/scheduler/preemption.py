"""Whom a pod displaces that finds no room: pods of lower priority, as few and as unimportant as possible.

On each node where it could run all pods of lower priority are taken away in thought; those beside which it still fits are
put back, the ones first whose disruption budget has nothing left, then by priority. Of the nodes the best is taken
by the real scheduler's order: budgets broken, the highest priority, the sum of priorities, the number of pods, and of
what is equal the one whose most important pod started last.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from tidewright.kube.selectors import LabelSelector, SelectorError
from tidewright.kube.times import seconds_or_none
from tidewright.sim.controllers.objects import Pod, PodDisruptionBudget
from tidewright.sim.scheduler.placement import Placer, Shape

NEVER = "Never"
MOST_NODES = 100
"""Nodes on which victims are looked for, at most, as in the real scheduler."""
_SHIFT = 2**31
"""Added to each priority before they are summed, so that two pods of a negative one weigh more than one."""

Placed = tuple[Pod, Shape, str]
"""A pod that is placed, its shape, and its node."""


class Victims(NamedTuple):
    """Pods that leave a node so that another one may run there."""

    row: int
    pods: list[Pod]


class Preemption:
    """The placed pods by priority, and whom of them another pod displaces."""

    def __init__(self, placer: Placer) -> None:
        self._placer = placer
        self._by_priority: dict[int, dict[str, Placed]] = {}

    def placed(self, pod: Pod, shape: Shape, node: str) -> None:
        """A pod has a node."""
        self._by_priority.setdefault(pod.spec.priority, {})[pod.metadata.uid] = (pod, shape, node)

    def gone(self, pod: Pod) -> None:
        """It has none any more."""
        there = self._by_priority.get(pod.spec.priority, {})
        there.pop(pod.metadata.uid, None)
        if not there:
            self._by_priority.pop(pod.spec.priority, None)

    def victims(self, pod: Pod, shape: Shape, budgets: Iterable[PodDisruptionBudget]) -> Victims | None:
        """Who goes, and where, so that a pod that fits nowhere may run; None where nobody's going would help."""
        if pod.spec.preemption_policy == NEVER:
            return None
        below: dict[str, list[Placed]] = {}
        for priority, there in self._by_priority.items():
            if priority < pod.spec.priority:
                for entry in there.values():
                    below.setdefault(entry[2], []).append(entry)
        if not below:
            return None
        allowed = _Allowed(budgets)
        found: list[tuple[tuple[float, ...], Victims]] = []
        hopeful = self._placer.hopeful(pod, shape)
        for node in sorted(below, key=lambda name: self._placer.table.row_of.get(name, -1)):
            row = self._placer.table.row_of.get(node)
            if row is None or not hopeful[row]:
                continue
            tried = self._on(row, pod, shape, below[node], allowed)
            if tried is not None:
                found.append(tried)
                if len(found) == MOST_NODES:
                    break
        return min(found, key=lambda one: one[0])[1] if found else None

    def _on(
        self, row: int, pod: Pod, shape: Shape, below: Collection[Placed], allowed: _Allowed
    ) -> tuple[tuple[float, ...], Victims] | None:
        """Who would leave one node, and how bad that is."""
        placer = self._placer
        away = {other.metadata.uid: (other, its) for other, its, _ in below}
        for other, its in away.values():
            placer.unplace(other, its, row)
        breaking: set[str] = set()
        gone: list[Pod] = []
        if placer.fits(pod, shape, row):
            breaking = allowed.broken_by(other for other, _ in away.values())
            for uid, (other, its) in sorted(away.items(), key=lambda one: _importance(one[1][0], breaking)):
                placer.place(other, its, row)
                del away[uid]
                if not placer.fits(pod, shape, row):
                    placer.unplace(other, its, row)
                    away[uid] = (other, its)
                    gone.append(other)
        for other, its in away.values():
            placer.place(other, its, row)
        if not gone:
            return None
        victims = sorted(gone, key=lambda one: -one.spec.priority)
        highest = victims[0].spec.priority
        worst = min(_started(one) for one in victims if one.spec.priority == highest)
        cost = (
            float(sum(one.metadata.uid in breaking for one in victims)),
            float(highest),
            float(sum(one.spec.priority + _SHIFT for one in victims)),
            float(len(victims)),
            -worst,
            float(row),
        )
        return cost, Victims(row, victims)


class _Allowed:
    """What disruption budgets allow, counted anew for each node."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        self._of: dict[str, list[tuple[LabelSelector, PodDisruptionBudget]]] = {}
        for budget in budgets:
            try:
                selector = LabelSelector.of(budget.spec.selector)
            except SelectorError:
                continue
            self._of.setdefault(budget.metadata.namespace, []).append((selector, budget))

    def broken_by(self, pods: Iterable[Pod]) -> set[str]:
        """Uids of those whose budget has nothing left when all of these go, the most important ones first."""
        if not self._of:
            return set()
        left: dict[str, int] = {}
        broken: set[str] = set()
        for pod in sorted(pods, key=lambda one: (-one.spec.priority, _started(one))):
            for selector, budget in self._of.get(pod.metadata.namespace, ()):
                if selector.matches(pod.metadata.labels):
                    uid = budget.metadata.uid
                    left[uid] = left.get(uid, budget.status.disruptions_allowed) - 1
                    if left[uid] < 0:
                        broken.add(pod.metadata.uid)
        return broken


def _importance(pod: Pod, breaking: Collection[str]) -> tuple[bool, int, float, str]:
    """Sorts pods: those first that are put back before others."""
    return pod.metadata.uid not in breaking, -pod.spec.priority, _started(pod), pod.metadata.uid


def _started(pod: Pod) -> float:
    return seconds_or_none(pod.status.start_time) or pod.metadata.created
