"""Nodes are ordered for pods that wait, and for those that are about to come: one plan for all of them. Spec 3.3."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from tidewright.events.base import Because, Decision
from tidewright.events.provisioning import DeclineScaleUp, PlanScaleUp
from tidewright.kube.keys import PodKey
from tidewright.provisioning.buffers import room
from tidewright.provisioning.buffers.room import Fillings
from tidewright.provisioning.buffers.work import BufferWork
from tidewright.provisioning.cluster.view import View
from tidewright.provisioning.foresight import room as coming_room
from tidewright.provisioning.foresight.shares import Share
from tidewright.provisioning.index.index import Index
from tidewright.provisioning.pack.classes import Demand, Item
from tidewright.provisioning.pack.classes import items as merged
from tidewright.provisioning.pack.demands import in_order, place_all
from tidewright.provisioning.pending.pods import EVENTS_PER_PLAN
from tidewright.provisioning.scaleup.orders import Orders, lasting, ordered_plan, pod_event, verdicts_of
from tidewright.provisioning.scaleup.plans import MAX_NODES_TOTAL, Plan, World
from tidewright.provisioning.scaleup.refusals import signature
from tidewright.provisioning.scaleup.rounds import enact, plan_all
from tidewright.provisioning.settings import LEAST_COST
from tidewright.provisioning.state import Pod
from tidewright.provisioning.tell.sentences import because, not_triggered_message, triggered_message


class Ordering:
    """What is ordered for pods in an evaluation, and what is said of those that it does not help."""

    def __init__(
        self, index: Index, view: View, orders: Orders, shares: Sequence[Share], decisions: list[Decision]
    ) -> None:
        """`shares`: pods that are about to come; `decisions`: those of the evaluation so far, to which these are added."""
        self.state, self.now = orders.state, orders.now
        self.index = index
        self.view = view
        self.orders = orders
        self.shares = shares
        self.decisions = decisions

    def as_one(
        self,
        world: World,
        pool: dict[str, Demand],
        waiting: Sequence[tuple[PodKey, Pod]],
        chunks: BufferWork,
        fillings: Fillings | None,
    ) -> Fillings | None:
        """At least cost: one plan for pods that wait and for chunks without room, and the chunks' room with it.

        None, and nothing done, where there is nothing to be planned as one, or limits leave some of it over: then pods come first.
        """
        if LEAST_COST not in self.index.settings.expander:
            return None
        if any(isinstance(decision, PlanScaleUp) for decision in self.decisions):
            place_all(world.grid, pool)  # where requests leave room on the nodes that are ordered for them
        real = [Item(d.shape, d.count) for d in in_order(pool.values()) if d.count]
        pods = _with(real, coming_room.asked(self.shares))
        if not chunks.wanted or not pods:
            return None
        trial = msgspec.structs.replace(world, grid=world.grid.fork())
        placed = room.place(chunks, trial) if fillings is None else fillings
        keys = room.lacking(chunks, placed)
        if not keys:
            return None
        items = merged((i.shape, i.count) for i in (*pods, *room.asked(chunks, placed, keys)))
        plan = plan_all(items, trial, redistribute=self.index.settings.hold)
        left = (n for n, item in enumerate(items) if plan.placed[n] < item.count)
        if not plan.targets or any(plan.awaiting(n) for n in left):
            return None
        of_pods, of_chunks = _parted(items, pods, plan)
        of_real, of_coming = _parted(pods, real, of_pods)
        helped = coming_room.helped(self.shares, of_coming)
        why = [
            *_pending(real),
            *coming_room.why(helped),
            room.why_ordered(room.asked(chunks, placed, keys), keys),
        ]
        filled = room.share(chunks, placed, keys, of_chunks)
        names = _names(waiting, real, of_real)
        made = ordered_plan(self.orders, plan, trial, pods=[key for keys in names for key in keys], why=why)
        made = coming_room.for_expected(made, helped)
        self.decisions += [room.for_buffers(decision, filled) for decision in made]
        self._tell_triggered(plan, names)
        world.grid = trial.grid
        enact(world, plan, {item.shape.digest: item.shape for item in items})
        self._decline(of_real, real, waiting, "")
        digests = [item.shape.digest for item in items]
        self.decisions += room.said(chunks, placed, plan, digests, placed=filled)
        return placed

    def scale_up(self, world: World, pool: dict[str, Demand], waiting: Sequence[tuple[PodKey, Pod]]) -> None:
        """One plan for pods that wait, and for those that are about to come; where limits leave some that wait over, they come first."""
        real = [Item(d.shape, d.count) for d in in_order(pool.values()) if d.count]
        coming = coming_room.asked(self.shares)
        if self._ordered(world, real, coming, waiting) or not real or not coming:
            return
        self._ordered(world, real, [], waiting)
        coming_room.place(self.shares, world.grid, {})
        self._ordered(world, [], coming_room.asked(self.shares), waiting)

    def _ordered(
        self,
        world: World,
        real: Sequence[Item],
        coming: Sequence[Item],
        waiting: Sequence[tuple[PodKey, Pod]],
    ) -> bool:
        """Nodes for pods that wait (`real`) and that are about to come. False, and nothing done: not for all that wait."""
        items = _with(real, coming)
        if not items:
            return True
        plan = plan_all(items, world, redistribute=self.index.settings.hold)
        of_real, of_coming = _parted(items, real, plan)
        if coming and any(item.count > n for item, n in zip(real, of_real.placed, strict=True)):
            return False
        self._limited(plan, world, real)
        helped = coming_room.helped(self.shares, of_coming)
        names = _names(waiting, real, of_real)
        if plan.targets:
            pods = [key for keys in names for key in keys]
            why = [*_pending(real), *coming_room.why(helped)]
            made = ordered_plan(self.orders, plan, world, pods=pods, why=why)
            self.decisions += coming_room.for_expected(made, helped)
            self._tell_triggered(plan, names)
            enact(world, plan, {item.shape.digest: item.shape for item in items})
        self._decline(of_real, real, waiting, MAX_NODES_TOTAL if self._full(plan, world) else "")
        return True

    def _full(self, plan: Plan, world: World) -> bool:
        return 0 < self.index.settings.max_nodes_total <= world.current_nodes and not plan.targets

    def _limited(self, plan: Plan, world: World, real: Sequence[Item]) -> None:
        """What there is to say about limits, and priorities of groups, to pods that wait."""
        for reason in dict.fromkeys(note.reason for note in plan.notes):
            message = "; ".join(note.sentence for note in plan.notes if note.reason == reason)
            self.decisions += lasting(self.state, self.now, reason, message)
        most = self.index.settings.max_nodes_total
        if real and (self._full(plan, world) or plan.event):
            self.decisions += lasting(
                self.state,
                self.now,
                "MaxNodesTotalReached",
                f"{MAX_NODES_TOTAL}: {world.current_nodes} of {most}",
            )

    def _tell_triggered(self, plan: Plan, names: Sequence[Sequence[PodKey]]) -> None:
        message = triggered_message(plan.targets)
        count = 0
        for keys in names:
            for key in keys:
                if count == EVENTS_PER_PLAN:
                    return
                count += 1
                pod = self.state.pods[key]
                self.decisions.append(
                    pod_event(self.now, key, pod.uid, reason="TriggeredScaleUp", message=message)
                )

    def _decline(
        self, plan: Plan, items: Sequence[Item], waiting: Sequence[tuple[PodKey, Pod]], limit: str
    ) -> None:
        """Pods for which nothing is ordered: recorded when the reasons change, and told to the pod."""
        events = 0
        existing = [g.group.id for _, g in sorted(self.view.groups.items()) if g.group.exists]
        first: dict[str, tuple[PodKey, Pod]] = {}
        for key, pod in waiting:
            first.setdefault(pod.shape, (key, pod))
        for index, item in enumerate(items):
            lacking = item.count - plan.placed[index]
            if lacking <= 0:
                continue
            why = dict.fromkeys(existing, limit) if limit else plan.why_not(index)
            verdicts = verdicts_of(why, plan)
            if self.state.declined.get(item.shape.digest) == signature(verdicts):
                continue
            self.decisions.append(
                DeclineScaleUp(
                    at=self.now,
                    shape=item.shape.digest,
                    count=lacking,
                    verdicts=verdicts,
                    because=(
                        because("NoGroup"),
                        *(because("GroupOut", group=g, reason=r) for g, r in sorted(why.items())[:20]),
                    ),
                )
            )
            key, pod = first[item.shape.digest]
            if events < EVENTS_PER_PLAN and item.shape.digest in first:
                events += 1
                counted = {g: r for g, r in why.items() if g in existing} or why
                message = not_triggered_message(counted, limit)
                self.decisions.append(
                    pod_event(self.now, key, pod.uid, reason="NotTriggerScaleUp", message=message)
                )


def _parted(items: Sequence[Item], pods: Sequence[Item], plan: Plan) -> tuple[Plan, dict[str, int]]:
    """Of a plan for pods and chunks the part of the pods, whose items come first, and chunks placed by shape."""
    mine = tuple(min(pod.count, n) for pod, n in zip(pods, plan.placed, strict=False))
    rest = {
        item.shape.digest: n - (mine[number] if number < len(mine) else 0)
        for number, (item, n) in enumerate(zip(items, plan.placed, strict=True))
    }
    return msgspec.structs.replace(plan, placed=mine), rest


def _with(real: Iterable[Item], coming: Iterable[Item]) -> list[Item]:
    """Pods that wait, and behind them those that are about to come, by shape."""
    return merged((item.shape, item.count) for item in (*real, *coming))


def _pending(items: Sequence[Item]) -> list[Because]:
    pods = sum(item.count for item in items)
    return [because("PodsPending", pods=pods, shapes=len(items))] if items else []


def _names(waiting: Sequence[tuple[PodKey, Pod]], items: Sequence[Item], plan: Plan) -> list[list[PodKey]]:
    """Per item the pods that the plan places: of those without a place, the first ones."""
    by_shape: dict[str, list[PodKey]] = {}
    for key, pod in waiting:
        by_shape.setdefault(pod.shape, []).append(key)
    names: list[list[PodKey]] = []
    for item, placed in zip(items, plan.placed, strict=True):
        keys = by_shape.get(item.shape.digest, [])
        lacking = keys[len(keys) - item.count :]
        names.append(lacking[:placed])
    return names
