"""Adaptive: pods that stay unschedulable, and which subsets take none on account of them (specification, 3.8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tests.vectors.reference.spread import ways as w
from tests.vectors.reference.spread.pods import ListedPod
from tests.vectors.reference.spread.status import Entry, Recount, entry_named
from tests.vectors.reference.spread.ways import Ways
from tidewright.kube.workloadspreads.spec import Spread
from tidewright.spread.control.rescheduling import CLOSED_FOR_S
from tidewright.spread.state import Condition

STILL_CLOSED_S = 30.0
"""A subset that stays closed past its time, for pods that still wait in it, is looked at again after this."""


def timed_out(pods: Iterable[ListedPod], spread: Spread, now: float, ways: Ways) -> list[ListedPod]:
    """Pods that stay unschedulable for longer than `rescheduleCriticalSeconds` after their creation."""
    return [p for p in pods if waiting(p) and _over(_late_at(p, spread), now, ways)]


def waiting(pod: ListedPod) -> bool:
    """Pending, on no node, and refused by the scheduler."""
    return not pod.deleting and pod.phase == "Pending" and not pod.node and pod.unschedulable


def _late_at(pod: ListedPod, spread: Spread) -> float:
    return (pod.created_at or 0.0) + spread.reschedule_after_s


def _over(end: float, now: float, ways: Ways) -> bool:
    return end <= now if w.AT_THE_SECOND in ways else end < now


def conditions(
    spread: Spread,
    groups: Mapping[str, Sequence[ListedPod]],
    old: Sequence[Entry],
    now: float,
    recount: Recount,
    ways: Ways,
    *,
    until: int | None = None,
) -> dict[str, Condition]:
    """The Schedulable condition of each subset after a pass, or of the first few; the last one is never closed."""
    found = {}
    for index, subset in enumerate(spread.subsets[:until]):
        entry = entry_named(old, subset.name)
        before = None if entry is None else entry.condition
        if index == len(spread.subsets) - 1:
            found[subset.name] = before if before is not None and before.open else Condition(True, now)
            continue
        pods = groups.get(subset.name, ())
        late = timed_out(pods, spread, now, ways)
        recount.delays_s.extend(_late_at(p, spread) - now for p in pods if waiting(p) and p not in late)
        found[subset.name] = _next(before, bool(late), now, recount, ways)
    return found


def _next(old: Condition | None, failed: bool, now: float, recount: Recount, ways: Ways) -> Condition:
    if failed:
        closed = old if old is not None and not old.open else Condition(False, now)
        if w.WAKES_TO_OPEN in ways:
            left = closed.at + CLOSED_FOR_S - now
            recount.delays_s.append(left if left > 0 else STILL_CLOSED_S)
        return closed
    if old is None:
        return Condition(True, now)
    if old.open:
        return old
    if _over(old.at + CLOSED_FOR_S, now, ways):
        recount.events.append("RecoverSchedulable")
        return Condition(True, now)
    recount.delays_s.append(old.at + CLOSED_FOR_S - now)
    return old
