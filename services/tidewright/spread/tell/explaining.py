"""What spread tells about spreads and pods (`tidewright.host.fold.explainer.Explainer`). Pure.

Why a pod is where it is stands on the ledger, with the subsets that were passed over; who goes next is
computed from the state by the order of the workload's own controller.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tidewright.events.base import Because, Decision, Event, ObjectRef, target_of
from tidewright.events.decisions import DeleteObject, EvictPod, PatchObject, RecordObjectEvent
from tidewright.events.spread import (
    ChangeLedger,
    EntriesAppended,
    ForeseeScaleIn,
    LedgerChange,
    LedgerEntry,
    PassedOver,
    PodLeaving,
    PodPlaced,
    RecordSpread,
)
from tidewright.host.fold.explainer import Explainer, Reference, Told
from tidewright.kube.times import rfc3339
from tidewright.kube.workloadspreads.spec import KIND
from tidewright.spread import holding
from tidewright.spread.control.rescheduling import CLOSED_FOR_S
from tidewright.spread.control.victims import leaving
from tidewright.spread.state import Row, SpreadState, State, spread_key
from tidewright.spread.tell.sentences import foreseen, many, passed_over, placement, sentences

SPREAD, POD = KIND.lower(), "pod"
WORKLOADS = frozenset(("deployment", "replicaset", "statefulset", "cloneset", "job"))
"""Kinds that spreads have as targets."""
TOLD = 20
"""Changes of one decision that are told."""
NEXT = 5
"""Pods that are named as the next to go."""


class SpreadExplainer:
    """Sentences about WorkloadSpreads, and about the pods that they place."""

    kinds = frozenset((SPREAD, POD)) | WORKLOADS

    def told(self, state: State, asked: Reference) -> Told:
        """A spread and its pods are on its ledger; who leaves is said about the spread."""
        if asked.kind == SPREAD:
            return Told(ledgers=(Reference("", asked.namespace, asked.name),))
        if asked.kind in WORKLOADS:
            return _on([spread.name for spread in _targeting(state, asked)], asked.namespace)
        spread, row = state.find(asked.namespace, asked.name)
        name = spread.name if spread is not None else row.placed_by if row is not None else ""
        if not name:
            # It may be gone: any spread of its namespace may have placed it.
            names = sorted(s.name for s in state.spreads.values() if s.namespace == asked.namespace)
        else:
            names = [name]
        return _on(names, asked.namespace)

    def concerns(self, event: Event, asked: Reference) -> bool:
        """Of a spread: its rules, what it found, who leaves. Of a pod: what became of it. No bookkeeping."""
        if asked.kind == POD:
            return _about_pod(event, asked.name)
        match event:
            case ChangeLedger():
                return bool(event.because)
            case RecordSpread() | RecordObjectEvent():
                return bool(event.message)
            case PodPlaced():
                return not event.subset or event.unfenced
            case EntriesAppended():
                return any(self.concerns(entry, asked) for entry in event.entries)
            case ForeseeScaleIn():
                return True
        return False

    def sentences(self, event: Event) -> Sequence[str]:
        """What was done, and each rule that led to it."""
        match event:
            case PodPlaced():
                return [placement(event)]
            case PodLeaving(evicted=True):
                return [
                    f"The eviction of {event.pod} was admitted: its place in {event.subset} is free once it is seen leaving."
                ]
            case PodLeaving():
                return [
                    f"The delete of {event.pod} was admitted: its place in {event.subset} is offered again."
                ]
            case ChangeLedger():
                changes = [text for text in map(_change, event.changes) if text]
                more = [f"And {len(changes) - TOLD} pods more."] if len(changes) > TOLD else []
                return [*sentences(event.because), *changes[:TOLD], *more]
            case EntriesAppended():
                return [text for entry in event.entries[:TOLD] for text in self.sentences(entry)]
            case ForeseeScaleIn():
                return [*sentences(event.because), foreseen(event)]
            case RecordSpread() | RecordObjectEvent():
                return [_sentence(event.message)] if event.message else []
        return sentences(event.because) if isinstance(event, Decision) else ()

    def part(self, state: State, event: Event, asked: Reference) -> Event:
        """All of it: decisions here are about one object."""
        return event

    def facts(self, state: State, event: Event) -> Sequence[Reference]:
        """The spread, its target, and the pod."""
        where = _subject(event)
        if where is None:
            return ()
        spread = state.spreads.get(spread_key(where.namespace, where.name))
        references = [Reference(SPREAD, where.namespace, where.name)] if where.kind == KIND else []
        if where.kind == "Pod":
            spread, _ = state.find(where.namespace, where.name)
            references = [Reference(POD, where.namespace, where.name)]
            if spread is not None:
                references.append(Reference(SPREAD, where.namespace, spread.name))
        if spread is not None and spread.spread is not None and spread.spread.target is not None:
            target = spread.spread.target
            references.append(Reference(target.kind.lower(), where.namespace, target.name))
        return references

    def opposite(self, state: State, event: Event) -> Sequence[str]:
        """For a placement: which limit would have had to be larger for an earlier subset; else which time longer."""
        if isinstance(event, PodPlaced):
            return [text for text in map(_turned, event.passed) if text]
        if isinstance(event, EntriesAppended):
            return [text for entry in event.entries for text in self.opposite(state, entry)]
        turned: list[str] = []
        if isinstance(event, ChangeLedger):
            turned = [text for change in event.changes for text in map(_turned, change.passed) if text]
        if isinstance(event, Decision):
            turned += [text for reason in event.because if (text := _in_time(reason))]
        return turned

    def aggregate(self, state: State, asked: Reference) -> Mapping[str, object] | None:
        """The spread with its ledger and pods; of a pod: its row, and the spread that has it."""
        if asked.kind == POD:
            spread, row = state.find(asked.namespace, asked.name)
            return (
                None if row is None else {"pod": row, "spread": spread.name if spread is not None else None}
            )
        if asked.kind in WORKLOADS:
            names = [spread.name for spread in _targeting(state, asked)]
            return {"spreads": names} if names else None
        spread = state.spreads.get(spread_key(asked.namespace, asked.name))
        if spread is None:
            return None
        return {"spread": spread, "target": state.workloads.get(spread.target_uid)}

    def standing(self, state: State, asked: Reference, now: float) -> Sequence[str]:
        """How full each subset is and why it is closed; who goes next on scale-in; of a pod, its turn."""
        if asked.kind == POD:
            spread, row = state.find(asked.namespace, asked.name)
            return list(_pod_standing(state, spread, row)) if row is not None else ()
        if asked.kind in WORKLOADS:
            lines: list[str] = []
            for target_of in _targeting(state, asked):
                lines += [
                    f"It is the target of WorkloadSpread {target_of.name}.",
                    *_standing(state, target_of, now),
                ]
            return lines
        spread = state.spreads.get(spread_key(asked.namespace, asked.name))
        return list(_standing(state, spread, now)) if spread is not None else ()


EXPLAINER: Explainer[State] = SpreadExplainer()


def _on(spreads: Sequence[str], namespace: str) -> Told:
    return Told(
        tuple(Reference(SPREAD, namespace, name) for name in spreads),
        tuple(Reference("", namespace, name) for name in spreads),
    )


def _targeting(state: State, workload: Reference) -> list[SpreadState]:
    """The spreads whose target a workload is."""

    def is_target(spread: SpreadState) -> bool:
        target = spread.spread.target if spread.spread is not None else None
        if target is None or spread.namespace != workload.namespace:
            return False
        return (target.kind.lower(), target.name) == (workload.kind, workload.name)

    return [spread for _, spread in sorted(state.spreads.items()) if is_target(spread)]


def _about_pod(event: Event, name: str) -> bool:
    match event:
        case PodPlaced() | PodLeaving():
            return event.pod == name
        case EntriesAppended():
            return any(entry.pod == name for entry in event.entries)
        case ChangeLedger():
            return any(change.pod == name and _change(change) for change in event.changes)
        case PatchObject() if {step.rule for step in event.because} == {"WithinLimit"}:
            return False  # how it stands says that, too
        case PatchObject() | DeleteObject() | EvictPod():
            return event.target.kind == "Pod" and event.target.name == name
        case ForeseeScaleIn():
            return any(pod.pod == name for pod in event.pods)
    return False


def _change(change: LedgerChange) -> str:
    """What became of one pod's place; "" when that was told when it was placed."""
    match change.kind, change.reason:
        case "Seen", _:
            if change.key == change.pod:
                return ""
            after = f", after {passed_over(change.passed)}" if change.passed else ""
            return f"{change.pod} went to {change.subset}: the first subset with room{after}."
        case "Held", "Adopted":
            return ""  # its rule says so
        case "Held", "Found":
            return f"{change.pod} was found in {change.subset}: it holds a place there."
        case "Held", "DeleteRefused":
            return f"{change.pod} is still there after its delete was admitted: it holds its place in {change.subset} again."
        case "Released", "Finished":
            return f"{change.pod} has finished: its place in {change.subset} is free."
        case "Released", "Deleted":
            return f"{change.pod} is being deleted: its place in {change.subset} is free."
    return ""


def _subject(event: Event) -> ObjectRef | None:
    if isinstance(event, LedgerEntry | EntriesAppended):
        return ObjectRef(api_version="", kind=KIND, namespace=event.namespace, name=event.name)
    return target_of(event)


def _turned(passed: PassedOver) -> str:
    match passed.why:
        case "Full" if passed.limit is not None:
            return f"With maxReplicas {passed.held + 1} instead of {passed.limit}, {passed.subset} would have taken it."
        case "Closed":
            return f"Had {passed.subset} not been closed, it would have been asked first."
    return ""


def _in_time(reason: Because) -> str:
    """What would have had to come within a limit of time; empty where none decided."""
    match reason.rule, reason.values:
        case "NeverSeen", {"bound_s": int() | float() as bound_s}:
            return f"Had its pod appeared within {bound_s:g} s, the place would have been kept for it."
        case "SubsetClosed", {"subset": str(subset), "after_s": int() | float() as after_s}:
            return f"With rescheduleCriticalSeconds greater than {after_s:g}, {subset} would still be open."
        case "Rescheduled", {"pod": str(pod), "after_s": int() | float() as after_s}:
            return f"Scheduled within {after_s:g} s of its creation, {pod} would have stayed where it was."
    return ""


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}" + ("" if text.endswith(".") else ".")


def _standing(state: State, spread_state: SpreadState, now: float) -> Iterator[str]:
    spread, rules = spread_state.spread, spread_state.ledger.rules
    if spread is None or rules is None:
        yield _sentence(spread_state.invalid or "its rules are not on the ledger yet")
        return
    if spread_state.taken_by:
        yield f"It places nobody: {spread_state.invalid}."
        return
    if rules.gone:
        yield "It places nobody: it has no target, or is being deleted."
        return
    for rule in rules.subsets:
        held = spread_state.ledger.held_in_all(rule.name)
        active = spread_state.active_in(rule.name)
        limit = "without a limit" if rule.limit is None else f"of {many(rule.limit, 'place')}"
        text = f"{rule.name}: {many(active, 'pod')}, {many(held, 'place')} held {limit}"
        if rule.closed:
            since = spread_state.conditions[rule.name].at if rule.name in spread_state.conditions else now
            text += (
                f"; closed until {rfc3339(since + CLOSED_FOR_S)} because pods could not be scheduled there"
            )
        yield text + "."
    outside = spread_state.active_in("")
    if outside:
        are = "is in no subset: it" if outside == 1 else "are in no subset: they"
        yield (
            f"{many(outside, 'pod')} {are} found every one full, or came before the spread and fit nowhere yet."
        )
    if spread_state.ledger.placed:
        yield f"{len(spread_state.ledger.placed)} pods were admitted and have not been seen yet."
    if spread_state.ledger.leaving:
        yield f"{len(spread_state.ledger.leaving)} pods are leaving; their places are offered again."
    if spread_state.path_fault:
        yield _sentence(f"the target's replicas cannot be read: {spread_state.path_fault}")
    of_workload = leaving(state, spread_state).rows
    order = [row for row in of_workload if row.name in spread_state.pods]
    if others := len(of_workload) - len(order):
        yield f"{many(others, 'pod')} of its workload {'is' if others == 1 else 'are'} not this spread's."
    if order:
        pods = ", ".join(f"{row.name} ({row.subset or 'no subset'})" for row in order[:NEXT])
        more = f", and {len(order) - NEXT} more" if len(order) > NEXT else ""
        yield f"On scale-in these go next, first one first: {pods}{more}."
    holds = holding.held(state, spread_state)
    if not holds.acts:
        yield f"Nothing is written ({holds.mode}): {holds.why}."


def _pod_standing(state: State, spread: SpreadState | None, row: Row) -> Iterator[str]:
    if spread is None:
        yield "No spread has it: none is there for its workload, or its filter leaves it out."
        return
    cost = row.asked or row.cost or "none"
    if row.placed_by == spread.name and row.subset:
        yield f"It is in subset {row.subset} of spread {spread.name}, with deletion cost {cost}."
    else:
        yield f"It belongs to spread {spread.name} and is in none of its subsets, with deletion cost {cost}."
    order = [other.name for other in leaving(state, spread).rows]
    if row.name in order:
        yield f"On scale-in it goes as number {order.index(row.name) + 1} of {len(order)}."
    elif not row.active:
        yield "It has ended, or is on its way out."
