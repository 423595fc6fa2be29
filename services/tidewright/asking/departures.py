"""What became of a node's removal, step by step: its mark, its pods and where others came for them, its instance, its end; or that it was undone.

As in `aftermath` each step is a record of the log, of many pods the first and the last are shown, and how far is looked is bounded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from tidewright.asking import lookups
from tidewright.asking.following import PROVISIONING, Step, behind, ends
from tidewright.asking.lookups import Found, decoded
from tidewright.asking.source import Source
from tidewright.asking.told_time import told
from tidewright.events.base import Event
from tidewright.events.decisions import EvictPod
from tidewright.events.facts import NodeGone, PodObserved
from tidewright.events.provisioning import DeleteInstances, MarkNode, PodToEvict, RemoveNode, UndoRemoval
from tidewright.host.fold.explainer import Reference
from tidewright.log.subjects import ALL, escape, slot_of

SHOWN = 5
"""So many pods that left are followed to where others came for them."""
DECISIONS_LOOKED_AT = 1_000
"""So many decisions about pods of a namespace are looked at behind it; then pods are asked for by their names."""
ASKED_TOGETHER = 100
"""So many pods are asked about in one question."""
NOT_ALL = "not all that was decided about pods then was looked at"


async def chain(source: Source, removed: Found, up_to: int) -> list[Step]:
    """From the decision to remove a node to its end, up to a sequence (0: the end)."""
    event = removed.event
    if not isinstance(event, RemoveNode):
        return []
    steps = await _marked(source, removed, event, up_to)
    evicted, complete = await _evicted(source, removed, event, up_to)
    steps += ends("pod", f"was asked to leave{'' if complete else f' ({NOT_ALL})'}", evicted)
    taken: set[str] = set()
    for pod, entry in zip(_of(event, evicted), evicted[:SHOWN], strict=False):
        if (came := await _replaced(source, entry, pod, taken, up_to)) is not None:
            steps.append(Step(f"in place of {pod.namespace}/{pod.name} came", came))
    steps += await _deleted(source, removed, event, up_to)
    steps.sort(key=lambda step: (told(step.found.event), step.found.seq))
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


async def _evicted(source: Source, removed: Found, event: RemoveNode, up_to: int) -> tuple[list[Found], bool]:
    """The first eviction of each pod of the decision, in their order; False: there may be others.

    Where many nodes go at once, those that are not among the first decisions are asked for by their names: their last.
    """
    uids, found, looked = {pod.uid for pod in event.pods}, dict[str, Found](), Counter[str]()

    def leaves(said: Event) -> bool:
        return isinstance(said, EvictPod) and said.node == event.node and said.target.uid in uids

    for namespace in sorted({pod.namespace for pod in event.pods}):
        pattern = f"{source.subjects.root}.decision.{ALL}.{PROVISIONING}.pod.{escape(namespace)}.>"
        wanted = {pod.uid for pod in event.pods if pod.namespace == namespace}

        def counted(said: Event, namespace: str = namespace) -> bool:
            looked[namespace] += 1
            return leaves(said)

        async for entry in behind(source, pattern, removed.seq, up_to, counted, most=DECISIONS_LOOKED_AT):
            found.setdefault(entry.event.target.uid, entry)  # type: ignore[union-attr]  # an EvictPod
            if wanted <= found.keys():
                break
    cut = {namespace for namespace, records in looked.items() if records >= DECISIONS_LOOKED_AT}
    missing = [pod for pod in event.pods if pod.namespace in cut and pod.uid not in found]
    if missing:
        abouts = [Reference("pod", pod.namespace, pod.name) for pod in missing]
        subjects = [lookups.decided_about(source, PROVISIONING, about) for about in dict.fromkeys(abouts)]
        for record in await source.last(subjects, up_to):
            last = decoded(record)
            if (
                last is not None
                and last.seq > removed.seq
                and isinstance(last.event, Event)
                and leaves(last.event)
            ):
                found.setdefault(last.event.target.uid, last)  # type: ignore[attr-defined]  # an EvictPod
    complete = all(pod.uid in found for pod in missing)
    return sorted(found.values(), key=lambda entry: entry.seq), complete


def _of(event: RemoveNode, evicted: Iterable[Found]) -> list[PodToEvict]:
    pods = {pod.uid: pod for pod in event.pods}
    return [pods[entry.event.target.uid] for entry in evicted]  # type: ignore[union-attr]  # EvictPods


async def _replaced(
    source: Source, evicted: Found, pod: PodToEvict, taken: set[str], up_to: int
) -> Found | None:
    """The first pod of the same owner that is new and ran after this one was asked to leave, and is in place of no other one yet."""
    slot = slot_of(pod.namespace, source.slots)

    async def before(names: Iterable[str]) -> dict[str, PodObserved]:
        subjects = [source.subjects.fact(slot, "pod", pod.namespace, name) for name in dict.fromkeys(names)]
        entries = [decoded(record) for record in await source.last(subjects, evicted.seq)]
        return {e.event.name: e.event for e in entries if e is not None and isinstance(e.event, PodObserved)}

    known = (await before([pod.name])).get(pod.name)
    owner = next((one.uid for one in known.owners if one.controller), "") if known is not None else ""
    if not owner:
        return None

    def came(said: Event) -> bool:
        owners = said.owners if isinstance(said, PodObserved) and said.node else ()
        return any(one.controller and one.uid == owner for one in owners)

    async def new_of(waiting: dict[str, Found]) -> Found | None:
        """The first that was not there before; from here on it, and those that were, are in nobody's place."""
        there = await before(entry.event.name for entry in waiting.values())  # type: ignore[union-attr]
        for uid, entry in waiting.items():
            taken.add(uid)
            was = there.get(entry.event.name)  # type: ignore[union-attr]  # PodObserved, by `came`
            if was is None or was.uid != uid:
                return entry
        return None

    pattern = f"{source.subjects.root}.fact.{slot}.pod.{escape(pod.namespace)}.>"
    waiting, most = dict[str, Found](), 1
    async for entry in behind(source, pattern, evicted.seq, up_to, came):
        uid = entry.event.uid  # type: ignore[union-attr]  # PodObserved
        if uid in taken:
            continue
        waiting.setdefault(uid, entry)
        if len(waiting) < most:
            continue
        if (new := await new_of(waiting)) is not None:
            return new
        waiting, most = {}, min(2 * most, ASKED_TOGETHER)  # of an owner with many pods: few questions
    return await new_of(waiting) if waiting else None


async def _deleted(source: Source, removed: Found, event: RemoveNode, up_to: int) -> list[Step]:
    """That its instance was asked to be deleted, first and last where that was refused, and that the node is gone."""

    def deletes(said: Event) -> bool:
        return isinstance(said, DeleteInstances) and event.node in said.nodes and event.uid in said.uids

    def goes(said: Event) -> bool:
        return isinstance(said, NodeGone) and said.uid in ("", event.uid)

    gone = await _first(source, source.subjects.fact(ALL, "node", "", event.node), removed.seq, up_to, goes)
    about = lookups.decided_about(source, PROVISIONING, Reference("nodegroup", "", event.group))
    until = gone.seq if gone is not None else up_to
    orders = [order async for order in behind(source, about, removed.seq, until, deletes)]
    if not orders:
        return []
    steps: list[Step] = []
    for order in orders if len(orders) == 1 else (orders[0], orders[-1]):
        again = f", for the last of {len(orders)} times" if steps else ""
        steps.append(Step(f"its instance was to be deleted{again}", order))
        outcome = await lookups.outcome_of(source, order)
        if outcome is not None and (not up_to or outcome.seq <= up_to):
            steps.append(Step("the cloud answered", outcome))
    return [*steps, Step("it was gone", gone)] if gone is not None else steps


async def _first(
    source: Source, pattern: str, after: int, up_to: int, accepts: Callable[[Event], bool]
) -> Found | None:
    async for entry in behind(source, pattern, after, up_to, accepts, enough=1):
        return entry
    return None
