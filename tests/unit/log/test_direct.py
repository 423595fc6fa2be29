"""Reading by batched direct gets alone gives what a consumer gives, and takes none."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from tests.waiting import until
from tidewright.asking.running_log import RunningLog
from tidewright.log import batched_get
from tidewright.log.connection import Log, Message
from tidewright.log.reader import Reader, Record
from tidewright.log.subjects import Slot


async def _filled(log: Log, messages: int) -> None:
    names = log.subjects
    kinds = ("pod", "node", "metric")
    for start in range(0, messages, 300):
        await log.commit(
            [
                Message(names.fact(Slot("1"), kinds[n % 3], "team", f"one-{n % 40}"), b"%d" % n)
                for n in range(start, min(messages, start + 300))
            ]
        )


async def _read(log: Log, filters: list[str], *, after: int = 0, window: int = 1000) -> list[int]:
    async with log.reader(filters, after=after, window=window) as reader:
        return [record.seq async for record in reader.until_current()]


@pytest.mark.parametrize("window", [10, 1000])
async def test_it_reads_what_a_consumer_reads(log: Log, window: int) -> None:
    await _filled(log, 2500)
    root = log.subjects.root
    patterns = [f"{root}.fact.*.pod.>", f"{root}.fact.*.node.*.one-7", f"{root}.x.>"]
    wanted = {
        after: [await _read(log, [pattern], after=after) for pattern in patterns] for after in (0, 1234, 2500)
    }
    log.directly = True
    for after, lists in wanted.items():
        for pattern, seqs in zip(patterns, lists, strict=True):
            assert await _read(log, [pattern], after=after, window=window) == seqs
    assert len(wanted[0][0]) == 834


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """From which sequences was asked, in their order."""
    asked: list[int] = []
    ask = batched_get.ask

    async def counted(of: Log, query: Mapping[str, Any]) -> tuple[list[Record], int]:
        asked.append(query["seq"])
        return await ask(of, query)

    monkeypatch.setattr(batched_get, "ask", counted)
    return asked


async def test_it_reads_one_filter(log: Log) -> None:
    log.directly = True
    root = log.subjects.root
    for filters in ([], [f"{root}.fact.>", f"{root}.decision.>"]):
        with pytest.raises(ValueError, match="one filter"):
            log.reader(filters)


async def test_it_asks_no_more_once_it_was_told_that_this_is_all(log: Log, asked: list[int]) -> None:
    await _filled(log, 2500)
    log.directly = True
    pods = f"{log.subjects.root}.fact.*.pod.>"
    assert len(await _read(log, [pods])) == 834
    assert asked == [1]
    assert await _read(log, [pods], after=2500) == []
    assert asked == [1, 2501]


async def test_it_finds_the_last_words_of_more_subjects_than_one_answer_takes(log: Log) -> None:
    names = log.subjects
    for start in range(0, 2400, 300):
        await log.commit(
            [
                Message(names.fact(Slot("1"), "pod", "team", f"one-{n % 1200}"), b"%d" % n)
                for n in range(start, start + 300)
            ]
        )
    log.directly = True
    pattern = f"{names.root}.fact.*.pod.>"
    assert [record.seq async for record in log.last_per_subject([pattern])] == list(range(1201, 2401))


async def test_it_goes_on_with_what_comes_and_makes_no_consumer(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(_: Reader) -> None:
        pytest.fail("a consumer was made")

    monkeypatch.setattr(Reader, "_make_consumer", never)
    await _filled(log, 3)
    log.directly = True
    seen: list[int] = []

    async def follow() -> None:
        async with log.reader([log.subjects.everything]) as reader:
            while len(seen) < 6:
                seen.extend(record.seq for record in await reader.fetch())

    following = asyncio.create_task(follow())

    async def count() -> int:
        return len(seen)

    await until(count, lambda n: n == 3)
    await _filled(log, 3)
    await asyncio.wait_for(following, 60)
    assert seen == [1, 2, 3, 4, 5, 6]


async def test_who_asks_for_long_hears_the_last_word(log: Log) -> None:
    source = RunningLog(log)
    pattern = log.subjects.fact(Slot("1"), "pod", "team", "one-0")
    await _filled(log, 1)
    assert (await source.bounds())[1] == 1
    assert [record.body for record in await source.last([pattern])] == [b"0"]
    await log.commit([Message(pattern, b"later")])
    assert (await source.bounds())[1] == 2
    assert [record.body for record in await source.last([pattern])] == [b"later"]
    assert [record.body for record in await source.last([pattern], 1)] == [b"0"]


async def test_who_stops_at_the_first_answer_waits_for_no_other(log: Log, asked: list[int]) -> None:
    await _filled(log, 600)
    log.directly = True
    async with log.reader([log.subjects.everything], window=50) as reader:
        records = reader.until_current()
        assert [(await anext(records)).seq for _ in range(50)] == list(range(1, 51))
        assert asked == [1]
        assert (await anext(records)).seq == 51
        assert asked == [1, 51]
        await records.aclose()  # type: ignore[attr-defined]  # a generator
