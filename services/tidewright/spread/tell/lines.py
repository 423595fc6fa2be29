"""What events of spread say, in one line, for lists of events. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from tidewright.events.base import Event
from tidewright.events.decisions import PatchObject
from tidewright.events.spread import (
    ChangeLedger,
    EntriesAppended,
    ForeseeScaleIn,
    KindRefused,
    LedgerChange,
    LedgerRules,
    PodLeaving,
    PodPlaced,
    RecordSpread,
    TargetReplicasObserved,
)
from tidewright.kube.workloadspreads.placements import placement_of
from tidewright.kube.workloadspreads.spec import DELETION_COST_ANNOTATION, MATCHED_ANNOTATION
from tidewright.spread.tell.sentences import many, passed_over

NAMED = 3
"""Pods that a line names."""


def line(event: Event) -> str:
    """What an event says, without its time and object; "" when it is none of spread's."""
    match event:
        case PodPlaced():
            return _placed(event)
        case PodLeaving():
            what = "eviction" if event.evicted else "delete"
            return f"{what} of {event.pod} from {event.subset} admitted"
        case EntriesAppended():
            placed = Counter(e.subset or "no subset" for e in event.entries if isinstance(e, PodPlaced))
            parts = [f"{count} placed in {subset}" for subset, count in placed.items()]
            if leaving := sum(isinstance(e, PodLeaving) for e in event.entries):
                parts.append(f"{leaving} admitted to leave")
            return ", ".join(parts)
        case ChangeLedger():
            return "; ".join(_ledger(event)) or "counts said again"
        case ForeseeScaleIn():
            pods = _some([pod.pod for pod in event.pods], event.count)
            leave = "1 pod leaves" if event.count == 1 else f"{event.count} pods leave"
            return f"at {many(event.replicas, 'replica')} {leave}: {pods}"
        case RecordSpread():
            return f"{event.reason}: {event.message}" if event.message else event.reason
        case TargetReplicasObserved():
            return event.error or f"{event.replicas} at the target's paths"
        case KindRefused():
            return event.error or "can be read"
        case PatchObject() if event.target.kind == "Pod":
            return _patch(event)
    return ""


def _placed(entry: PodPlaced) -> str:
    after = f", after {passed}" if (passed := passed_over(entry.passed)) else ""
    where = f"placed in {entry.subset}" if entry.subset else "in no subset"
    return f"{entry.pod} {where}{after}" + (" (recorded afterwards)" if entry.unfenced else "")


def _ledger(event: ChangeLedger) -> Iterator[str]:
    if event.rules is not None:
        yield _rules(event.rules)
    groups: dict[tuple[str, str, str], list[LedgerChange]] = {}
    for change in event.changes:
        groups.setdefault((change.kind, change.reason, change.subset), []).append(change)
    for (kind, reason, subset), changes in groups.items():
        pods = _some([c.pod or c.key for c in changes], len(changes))
        match kind:
            case "Seen":
                yield f"{pods} seen in {subset}"
            case "Held":
                yield f"{pods} in {subset} counted ({reason})"
            case "Released":
                yield f"place of {pods} in {subset} free ({reason})"
            case "Gone":
                yield f"{pods} gone from {subset}"
            case "Uncounted":
                yield f"{pods} held no place in {subset}"


def _rules(rules: LedgerRules) -> str:
    if rules.gone:
        return "places nobody any more"
    limits = ", ".join(
        f"{rule.name} {'unlimited' if rule.limit is None else rule.limit}{' (closed)' if rule.closed else ''}"
        for rule in rules.subsets
    )
    return f"limits {limits}"


def _patch(event: PatchObject) -> str:
    metadata = event.patch.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    if MATCHED_ANNOTATION in annotations:
        placement = placement_of(annotations[MATCHED_ANNOTATION])
        return "take annotation and cost off" if placement is None else f"adopt into {placement.subset}"
    if DELETION_COST_ANNOTATION in annotations:
        return f"set deletion cost {annotations[DELETION_COST_ANNOTATION]}"
    return ""


def _some(names: Iterable[str], count: int) -> str:
    shown = list(names)[:NAMED]
    return ", ".join(shown) + (f" and {count - len(shown)} more" if count > len(shown) else "")
