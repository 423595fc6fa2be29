"""What was read of a subject is not asked for again, and is what the log has."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from hypothesis import given
from hypothesis import strategies as st

from tidewright.asking.remembered import BESIDE, Remembered
from tidewright.log.reader import Record


class Log:
    """Records of one subject, and how many of them were read."""

    def __init__(self, *seqs: int) -> None:
        self.seqs, self.read = list(seqs), 0

    async def records(self, subject: str, after: int) -> AsyncGenerator[Record, None]:
        for seq in [seq for seq in self.seqs if seq > after]:
            await asyncio.sleep(0)
            self.read += 1
            yield Record(seq, subject, b"", {})


async def found(remembered: Remembered, after: int, most: int = 1_000, subject: str = "a") -> list[int]:
    seqs = []
    async for record in remembered.records(subject, after):
        seqs.append(record.seq)
        if len(seqs) == most:
            break
    return seqs


async def test_the_past_is_read_once_and_what_comes_is_read_on() -> None:
    log = Log(10, 20, 30, 40)
    remembered = Remembered(log.records)
    assert await found(remembered, 25) == [30, 40]
    assert await found(remembered, 5) == [10, 20, 30, 40]
    read = log.read
    assert await found(remembered, 5) == [10, 20, 30, 40]
    assert await found(remembered, 20) == [30, 40]
    assert log.read == read
    log.seqs.append(50)
    assert await found(remembered, 0) == [10, 20, 30, 40, 50]
    assert await found(remembered, 45) == [50]
    remembered.forget()
    assert remembered.bytes == 0
    log.seqs = [1, 2]
    assert await found(remembered, 0) == [1, 2]


async def test_what_is_kept_is_bounded() -> None:
    log = Log(*range(1, 11))
    remembered = Remembered(log.records, most_bytes=25 * BESIDE)
    for subject in ("a", "b", "c", "d"):
        assert await found(remembered, 0, subject=subject) == list(range(1, 11))
        assert remembered.bytes <= 25 * BESIDE
    read = log.read
    await found(remembered, 0, subject="d")
    assert log.read == read
    await found(remembered, 0, subject="a")
    assert log.read == read + 10


async def test_who_asks_for_more_than_another_at_the_same_time_finds_it() -> None:
    remembered = Remembered(Log(10, 25, 40, 50).records)
    assert await found(remembered, 30) == [40, 50]
    shorter, deeper = await asyncio.gather(found(remembered, 20), found(remembered, 5))
    assert shorter == [25, 40, 50]
    assert deeper == [10, 25, 40, 50]
    assert await found(remembered, 0) == [10, 25, 40, 50]


@given(
    st.lists(
        st.tuples(st.sampled_from(("read", "grow")), st.integers(0, 60), st.integers(1, 12)), max_size=12
    )
)
def test_whoever_reads_when_finds_what_the_log_has(steps: list[tuple[str, int, int]]) -> None:
    async def all_of() -> None:
        log = Log()
        remembered = Remembered(log.records)
        asked = []
        for what, number, most in steps:
            if what == "grow":
                log.seqs += [(log.seqs[-1] if log.seqs else 0) + 1 + number % 7]
            else:
                there = [seq for seq in log.seqs if seq > number][:most]
                task = asyncio.create_task(found(remembered, number, most))
                asked.append((number, most, len(there), task))
                assert await found(remembered, number, most) == there
        for number, most, least, task in asked:
            result = await task
            assert result == [seq for seq in log.seqs if seq > number][:most][: len(result)]
            assert len(result) >= least  # what came meanwhile may be missing
        assert await found(remembered, 0) == log.seqs

    asyncio.run(all_of())
