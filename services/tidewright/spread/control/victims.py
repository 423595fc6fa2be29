"""Who leaves when a workload shrinks: the order in which its own controller picks victims.

leaving        the active pods of a spread's workload, those first that go first
picked         the same of any pods of a workload
Order          that order, and how many pods are alike in all that it looks at

A ReplicaSet's controller asks, in turn: not bound to a node; Pending before Unknown before Running; not ready; lower
deletion cost; more pods of the workload on its node; ready for a shorter time, by the binary logarithm of the span
in nanoseconds, equal ones by uid; more restarts; younger, likewise. That of CloneSets and others is taken to do so,
too. A Job's knows no cost, no node and no logarithm. A StatefulSet's goes by ordinals from the top.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cmp_to_key
from heapq import nsmallest
from typing import NamedTuple, TypeAlias

from tidewright.kube.digits import whole_number
from tidewright.kube.workloadspreads.choose import ordinal_of
from tidewright.spread.fold.owners import pods_of_target
from tidewright.spread.state import READY, Row, SpreadState, State

INT32 = 2**31

_Compare: TypeAlias = Callable[[Row, Row], int]


class Order(NamedTuple):
    """Pods that leave, first one first.

    Attributes:
        alike: how many of those that stay are like the last one that leaves, in all that its controller
            compares: any of them may go instead.
    """

    rows: list[Row]
    alike: int = 0


def leaving(state: State, spread: SpreadState, count: int | None = None) -> Order:
    """The first `count` active pods of a spread's workload to leave, its own or not; all for None. The time is the state's."""
    active = [row for row in pods_of_target(state, spread) if row.active]
    count = len(active) if count is None else max(0, min(count, len(active)))
    kind = spread.spread.target.kind if spread.spread is not None and spread.spread.target is not None else ""
    return picked(active, kind, count, state.now)


def picked(active: Sequence[Row], kind: str, count: int, now: float) -> Order:
    """The first `count` of these pods of a workload of this kind; `now` is in log seconds."""
    if kind == "StatefulSet":
        return Order(sorted(active, key=_from_the_top)[:count])
    coarse: Callable[[Row], tuple[int, ...]]
    if kind == "Job":
        coarse, compare = _state_of, _by_time(_span_in_seconds)
    else:
        crowd = Counter(row.node for row in active)
        coarse = _of_replica_set(crowd)
        compare = _by_time(_span_in_powers(now))
    return _first(active, count, coarse, compare)


def _first(
    rows: Iterable[Row], count: int, coarse: Callable[[Row], tuple[int, ...]], compare: _Compare
) -> Order:
    """The first rows by two steps: most pods differ in the first one, which is cheap."""
    groups: dict[tuple[int, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(coarse(row), []).append(row)
    first: list[Row] = []
    for key in sorted(groups):
        missing = count - len(first)
        if missing <= 0:
            break
        group = groups[key]
        named = sorted(group, key=lambda row: row.name)  # the order of arrival is not to matter
        first += nsmallest(missing, named, key=cmp_to_key(compare)) if missing < len(named) else sorted(
            named, key=cmp_to_key(compare)
        )  # fmt: skip
    if not first or len(first) < count:
        return Order(first)
    last = first[-1]
    taken = {row.name for row in first}
    like = groups[coarse(last)]
    return Order(first, sum(row.name not in taken and compare(row, last) == 0 for row in like))


def _from_the_top(row: Row) -> tuple[int, str]:
    return -ordinal_of(row.name), row.name


def _state_of(row: Row) -> tuple[int, ...]:
    return int(row.node != ""), row.phase, int(row.flags & READY)


def _of_replica_set(crowd: Counter[str]) -> Callable[[Row], tuple[int, ...]]:
    def coarse(row: Row) -> tuple[int, ...]:
        return *_state_of(row), cost_of(row), -crowd[row.node]

    return coarse


def cost_of(row: Row) -> int:
    """The pod's cost as controllers read it: what is no 32-bit integer in plain form counts as 0."""
    text = row.asked or row.cost
    digits = text.removeprefix("-")
    amount = whole_number(digits)
    if amount is None or (digits[0] == "0" and text != "0"):
        return 0
    value = -amount if text.startswith("-") else amount
    return value if -INT32 <= value < INT32 else 0


def _by_time(difference: Callable[[float, float, Row, Row], int]) -> _Compare:
    """The rest of the order: ready for a shorter time, more restarts, younger."""

    def compare(row: Row, other: Row) -> int:
        if row.flags & other.flags & READY and row.ready_at != other.ready_at:
            return _since(row.ready_at, other.ready_at, row, other)
        if row.restarts != other.restarts:
            return other.restarts - row.restarts
        if row.sidecar_restarts != other.sidecar_restarts:
            return other.sidecar_restarts - row.sidecar_restarts
        if row.created_at != other.created_at:
            return _since(row.created_at, other.created_at, row, other)
        return 0

    def _since(first: float | None, second: float | None, row: Row, other: Row) -> int:
        if first is None or second is None:
            return -1 if first is None else 1
        return difference(first, second, row, other)

    return compare


def _span_in_seconds(first: float, second: float, row: Row, other: Row) -> int:
    return -1 if first > second else 1


def _span_in_powers(now: float) -> Callable[[float, float, Row, Row], int]:
    def power(since: float) -> int:
        nanos = (now - since) * 1e9
        return int(math.log2(nanos)) if nanos >= 1 else -1

    def difference(first: float, second: float, row: Row, other: Row) -> int:
        return power(first) - power(second) or (-1 if row.uid < other.uid else 1)

    return difference
