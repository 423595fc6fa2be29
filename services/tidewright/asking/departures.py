"""What became of a node's removal, step by step: its mark, its pods and where others came for them, its instance, its end; or that it was undone.

As in `aftermath` each step is a record of the log, of many pods the first and the last are shown, and how far is looked is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tidewright.asking import lookups
from tidewright.asking.following import PLANS_LOOKED_AT, PROVISIONING, Step, behind, ends
from tidewright.asking.lookups import Found, decoded
from tidewright.asking.source import Source
from tidewright.events.base import Event
from tidewright.events.decisions import EvictPod
from tidewright.events.facts import NodeGone, PodObserved
from tidewright.events.provisioning import DeleteInstances, MarkNode, PodToEvict, RemoveNode, UndoRemoval
from tidewright.host.fold.explainer import Reference
from tidewright.log.subjects import ALL, escape, slot_of

SHOWN = 5
"""So many pods that left are followed to where others came for them."""


async def chain(source: Source, removed: Found, up_to: int) -> list[Step]:
    """From the decision to remove a node to its end, up to a sequence (0: the end)."""
    event = removed.event
    if not isinstance(event, RemoveNode):
        return []
    steps = await _marked(source, removed, event, up_to)
    evicted = await _evicted(source, removed, event, up_to)
    steps += ends("pod", "was asked to leave", evicted)
    taken: set[str] = set()
    for pod, entry in zip(_of(event, evicted), evicted[:SHOWN], strict=False):
        if (came := await _replaced(source, entry, pod, taken, up_to)) is not None:
            steps.append(Step(f"in place of {pod.namespace}/{pod.name} came", came))
    steps += await _deleted(source, removed, event, up_to)
    steps.sort(key=lambda step: step.found.seq)
    return steps


async def _marked(source: Source, removed: Found, event: RemoveNode, up_to: int) -> list[Step]:
    """That it takes no pods any more, and what undid that."""
    about = lookups.decided_about(source, PROVISIONING, Reference("node", "", event.node))

    def marks(said: Event) -> bool:
        return isinstance(said, MarkNode) and said.present and said.drain == event.id

    def undoes(said: Event) -> bool:
        return isinstance(said, UndoRemoval) and said.removal == event.id

    mark = await _first(source, about, removed.seq, up_to, marks)
    records = lookups.decided_about(source, PROVISIONING, Reference("none", "", ""))
    undone = await _first(source, records, removed.seq, up_to, undoes)
    steps = []
    if mark is not None:
        outcome = await lookups.outcome_of(source, mark)
        if outcome is not None and (not up_to or outcome.seq <= up_to):
            steps.append(Step("it was marked, and takes no pods", outcome))
    if undone is not None:
        steps.append(Step("it was undone", undone))
    return steps


async def _evicted(source: Source, removed: Found, event: RemoveNode, up_to: int) -> list[Found]:
    """The first eviction of each pod of the decision, in their order."""
    uids, found = {pod.uid for pod in event.pods}, dict[str, Found]()
    for namespace in sorted({pod.namespace for pod in event.pods}):
        pattern = f"{source.subjects.root}.decision.{ALL}.{PROVISIONING}.pod.{escape(namespace)}.>"

        def leaves(said: Event) -> bool:
            return isinstance(said, EvictPod) and said.node == event.node and said.target.uid in uids

        async for entry in behind(source, pattern, removed.seq, up_to, leaves, most=PLANS_LOOKED_AT):
            found.setdefault(entry.event.target.uid, entry)  # type: ignore[union-attr]  # an EvictPod
            if len(found) == len(uids):
                break
    return sorted(found.values(), key=lambda entry: entry.seq)


def _of(event: RemoveNode, evicted: Iterable[Found]) -> list[PodToEvict]:
    pods = {pod.uid: pod for pod in event.pods}
    return [pods[entry.event.target.uid] for entry in evicted]  # type: ignore[union-attr]  # EvictPods


async def _replaced(
    source: Source, evicted: Found, pod: PodToEvict, taken: set[str], up_to: int
) -> Found | None:
    """The first pod of the same owner that is new and ran after this one was asked to leave, and is in place of no other one yet."""
    slot = slot_of(pod.namespace, source.slots)

    async def before(name: str) -> PodObserved | None:
        subject = source.subjects.fact(slot, "pod", pod.namespace, name)
        records = await source.last([subject], evicted.seq)
        entry = decoded(records[0]) if records else None
        return entry.event if entry is not None and isinstance(entry.event, PodObserved) else None

    known = await before(pod.name)
    owner = next((one.uid for one in known.owners if one.controller), "") if known is not None else ""

    def came(said: Event) -> bool:
        owners = said.owners if isinstance(said, PodObserved) and said.node else ()
        return any(one.controller and one.uid == owner for one in owners)

    pattern = f"{source.subjects.root}.fact.{slot}.pod.{escape(pod.namespace)}.>"
    if not owner:
        return None
    async for entry in behind(source, pattern, evicted.seq, up_to, came):
        new = entry.event
        if not isinstance(new, PodObserved) or new.uid in taken:
            continue
        there = await before(new.name)
        if there is None or there.uid != new.uid:
            taken.add(new.uid)
            return entry
        taken.add(new.uid)  # it was there before
    return None


async def _deleted(source: Source, removed: Found, event: RemoveNode, up_to: int) -> list[Step]:
    """That its instance was asked to be deleted, and that the node is gone."""

    def deletes(said: Event) -> bool:
        return isinstance(said, DeleteInstances) and event.node in said.nodes and event.uid in said.uids

    about = lookups.decided_about(source, PROVISIONING, Reference("nodegroup", "", event.group))
    order = await _first(source, about, removed.seq, up_to, deletes)
    if order is None:
        return []
    steps = [Step("its instance was to be deleted", order)]
    outcome = await lookups.outcome_of(source, order)
    if outcome is not None and (not up_to or outcome.seq <= up_to):
        steps.append(Step("the cloud answered", outcome))
    subject = source.subjects.fact(ALL, "node", "", event.node)
    gone = await _first(source, subject, order.seq, up_to, lambda said: isinstance(said, NodeGone))
    return [*steps, Step("it was gone", gone)] if gone is not None else steps


async def _first(
    source: Source, pattern: str, after: int, up_to: int, accepts: Callable[[Event], bool]
) -> Found | None:
    async for entry in behind(source, pattern, after, up_to, accepts, enough=1):
        return entry
    return None
