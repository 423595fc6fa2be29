"""The place of a log time on the log, found by a few looks."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import AsyncGenerator, Callable
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewright.asking.point_in_time import last_before
from tidewright.asking.source import Source
from tidewright.events import registry
from tidewright.events.facts import PodGone
from tidewright.log.reader import Record
from tidewright.log.subjects import Slot, Subjects

SUBJECTS = Subjects("x")
SUBJECT = SUBJECTS.fact(Slot("1"), "pod", "shop", "a")


class Long:
    """A log of facts alone, each at its time."""

    subjects = SUBJECTS

    def __init__(self, last: int, at: Callable[[int], float]) -> None:
        self.last_seq, self.at, self.looks = last, at, 0

    def record(self, seq: int) -> Record:
        return Record(seq, SUBJECT, registry.encode(PodGone(at=self.at(seq), namespace="shop", name="a")), {})

    async def first_of(self, pattern: str, seq: int) -> Record | None:
        self.looks += 1
        return self.record(seq) if seq <= self.last_seq else None

    async def records(
        self, pattern: str = "", after: int = 0, ahead: int = 0
    ) -> AsyncGenerator[Record, None]:
        for seq in range(after + 1, self.last_seq + 1):
            yield self.record(seq)


def place(log: Long, at: float) -> int:
    times = (log.at(1), log.at(log.last_seq))
    return asyncio.run(last_before(cast("Source", log), 1, log.last_seq, at, times=times))


def rushed(seq: int) -> float:
    """A night in which hardly anything happens, and a morning."""
    return seq * 1.0 if seq < 10_000 else 10_000 + (seq - 10_000) * 0.001


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.77, 0.999])
def test_few_looks_find_it_where_time_passes_evenly(share: float) -> None:
    log = Long(1_000_000, lambda seq: 5.0 + seq * 0.02)
    seq = 1 + int(share * 999_998)
    assert place(log, log.at(seq) + 0.01) == seq
    assert log.looks <= 6


@pytest.mark.parametrize("seq", [1, 9_000, 10_001, 500_000, 999_999])
def test_not_many_more_are_needed_where_it_does_not(seq: int) -> None:
    log = Long(1_000_000, rushed)
    assert place(log, rushed(seq)) == seq
    assert log.looks <= 20


@given(st.lists(st.floats(0, 1_000), min_size=2, max_size=2_000), st.floats(-1, 1_001))
def test_it_is_found_however_time_passes(times: list[float], at: float) -> None:
    times.sort()
    log = Long(len(times), lambda seq: times[seq - 1])
    later = bisect_left(times, True, key=lambda each: each > at)
    assert place(log, at) == (min(len(times), later))
