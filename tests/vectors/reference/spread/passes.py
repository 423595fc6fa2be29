"""One pass over a spread's pods: what its status, costs, adoptions and deletions shall be (3.4, 3.8).

A pure function of the pods, the target, the previous status and the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from tests.vectors.reference.spread.groups import UNMATCHED, Groups, PodObject, grouped, version_costs
from tests.vectors.reference.spread.matching import TargetView
from tests.vectors.reference.spread.pods import ListedPod
from tests.vectors.reference.spread.status import Entry, Recount, Status, entry_named, subset_entry
from tidewright.kube.podapi.nodeterms import Node
from tidewright.kube.workloadspreads import limits
from tidewright.kube.workloadspreads.spec import Spread
from tidewright.spread.control.costs import COST_KINDS
from tidewright.spread.control.rescheduling import CLOSED_FOR_S
from tidewright.spread.match.pods import VERSIONED_KINDS, pod_version
from tidewright.spread.state import Condition

EventReason = Literal[
    "CreatePodFailed", "DeletePodFailed", "RecoverSchedulable", "PatchPodDeletionCostFailed"
]


class Pass(msgspec.Struct):
    """What one pass concluded.

    Attributes:
        costs: pod name to the wanted deletion cost; pods not named are left alone.
        adopted: pod name to subset.
        delete: names of pods to delete for being unschedulable too long.
        events: reasons of object events, one each.
        again_s: look again after so many seconds, 0 for not.
        invalid: why the status has no subsets [Q-2]; "" when it has.
    """

    status: Status
    costs: dict[str, int]
    adopted: dict[str, str]
    delete: list[str]
    events: list[str]
    again_s: float
    invalid: str = ""


def reconcile(
    spread: Spread,
    target: TargetView,
    old: Status,
    nodes: Mapping[str, Node],
    obj_of: PodObject,
    now: float,
    *,
    versioned_kinds: frozenset[str] = VERSIONED_KINDS,
) -> Pass:
    """Conclude one pass. `now` is log time, seconds."""
    by_version: dict[str, list[ListedPod]] = {}
    for pod in target.pods:
        by_version.setdefault(pod_version(pod.owner, pod.labels, versioned_kinds), []).append(pod)
    groups = {v: grouped(spread, p, target.replicas, nodes, obj_of) for v, p in by_version.items()}
    recount = Recount([], [])
    done = Pass(
        status=Status(None, {}, spread.generation),
        costs=_costs(spread, target, groups),
        adopted={pod: subset for g in groups.values() for pod, subset in g.adopted.items()},
        delete=[],
        events=recount.events,
        again_s=0.0,
    )
    everyone = _together(spread, target.pods, groups)
    lists = _Lists(spread, target.replicas, now, recount)
    overall = lists.entries(everyone, old.subsets)
    versions: dict[str, tuple[Entry, ...]] = {}
    for version in sorted({*groups, *old.versions}):
        pods = groups[version].pods if version in groups else {}
        entries = lists.entries(pods, old.versions.get(version))
        if version in groups or any(e.replicas + len(e.creating) + len(e.deleting) for e in entries or ()):
            versions[version] = entries or ()
    done.status = Status(overall, versions, spread.generation)
    if overall is None:
        done.invalid = lists.invalid
        return done
    if spread.adaptive:
        for subset in spread.subsets[:-1]:
            done.delete.extend(p.name for p in timed_out(everyone.get(subset.name, ()), spread, now))
    done.again_s = min((d for d in recount.delays_s if d > 0), default=0.0)
    return done


def _costs(spread: Spread, target: TargetView, groups: Mapping[str, Groups]) -> dict[str, int]:
    if spread.target is None or spread.target.kind not in COST_KINDS:
        return {}
    return {
        pod.name: cost
        for version, g in groups.items()
        for pod, cost in version_costs(spread, g.pods, target.replicas, latest=version == target.version)
    }


def _together(
    spread: Spread, pods: Sequence[ListedPod], groups: Mapping[str, Groups]
) -> dict[str, list[ListedPod]]:
    """The pods of all versions by subset, in list order."""
    subset_of = {p.name: name for g in groups.values() for name, members in g.pods.items() for p in members}
    together: dict[str, list[ListedPod]] = {s.name: [] for s in spread.subsets}
    together[UNMATCHED] = []
    for pod in pods:
        together[subset_of[pod.name]].append(pod)
    return together


class _Lists(msgspec.Struct):
    """Computes the lists of one pass; `invalid` says why one could not be computed."""

    spread: Spread
    replicas: int
    now: float
    recount: Recount
    invalid: str = ""

    def entries(
        self, groups: Mapping[str, Sequence[ListedPod]], old: Sequence[Entry] | None
    ) -> tuple[Entry, ...] | None:
        """One list; None when a limit is no number, which drops the whole list [Q-2]."""
        found = []
        for index, subset in enumerate(self.spread.subsets):
            before = entry_named(old, subset.name)
            pods = groups.get(subset.name, ())
            try:
                entry = subset_entry(subset, pods, before, self.replicas, self.now, self.recount)
            except limits.NotALimit as error:
                self.invalid = f"subset {subset.name!r}: {error}"
                return None
            if self.spread.adaptive:
                last = index == len(self.spread.subsets) - 1
                failed = False if last else _failed(pods, self.spread, self.now, self.recount)
                condition = next_condition(
                    None if before is None else before.condition, failed, last, self.now, self.recount
                )
                entry = msgspec.structs.replace(entry, condition=condition)
            found.append(entry)
        return tuple(found)


def timed_out(pods: Iterable[ListedPod], spread: Spread, now: float) -> list[ListedPod]:
    """Pods that stay unschedulable for longer than `rescheduleCriticalSeconds` after their creation."""
    return [p for p in pods if waiting(p) and (p.created_at or 0.0) + spread.reschedule_after_s < now]


def waiting(pod: ListedPod) -> bool:
    """Pending, on no node, and refused by the scheduler."""
    return not pod.deleting and pod.phase == "Pending" and not pod.node and pod.unschedulable


def _failed(pods: Iterable[ListedPod], spread: Spread, now: float, recount: Recount) -> bool:
    failed = False
    for pod in pods:
        if waiting(pod):
            left = (pod.created_at or 0.0) + spread.reschedule_after_s - now
            failed = failed or left < 0
            recount.delays_s.append(left)
    return failed


def next_condition(
    old: Condition | None, failed: bool, last: bool, now: float, recount: Recount
) -> Condition:
    """The Schedulable condition after a pass (3.8)."""
    if last:
        return old if old is not None and old.open else Condition(True, now)
    if failed:
        return old if old is not None and not old.open else Condition(False, now)
    if old is None:
        return Condition(True, now)
    if old.open:
        return old
    if old.at + CLOSED_FOR_S < now:
        recount.events.append("RecoverSchedulable")
        return Condition(True, now)
    recount.delays_s.append(old.at + CLOSED_FOR_S - now)
    return old
