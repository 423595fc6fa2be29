"""Facts that are appended apart from their checkpoint: only while it is ours, and once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from tidewright.host.loop.fenced import Fenced, InFlight
from tidewright.log.connection import Committed, Log, Message
from tidewright.log.envelope import POSITION, Writer
from tidewright.log.errors import LogUnavailable
from tidewright.log.reader import Record
from tidewright.log.subjects import ALL
from tidewright.watcher.appender import COVERED_S, Appender, WatchPosition


class Deaf:
    """A log of which the answer to the next append is lost, be it stored or not."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.loses: bool | None = None
        """Whether the next append is lost as well as its answer; None: neither is."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def commit(self, messages: Sequence[Message]) -> Committed:
        loses, self.loses = self.loses, None
        committed = None if loses else await self._log.commit(messages)
        if loses is not None or committed is None:
            raise LogUnavailable("no answer in time")
        return committed


def appender(log: Any, part: str = "pod") -> Appender:
    return Appender(log, Writer("watcher"), part, InFlight())


def fact(log: Log, name: str, body: bytes = b"{}") -> tuple[str, bytes]:
    return log.subjects.fact(ALL, "pod", "", name), body


async def stored(log: Log) -> list[Record]:
    async with log.reader([log.subjects.everything]) as reader:
        return [record async for record in reader.until_current()]


def said(records: Sequence[Record]) -> list[tuple[str, str]]:
    """Names of facts, and the position that each names; `checkpoint` where one is."""
    tokens = [(record.subject.split("."), record) for record in records]
    return [
        ("checkpoint" if parts[2] == "checkpoint" else parts[-1], record.headers.get(POSITION, ""))
        for parts, record in tokens
    ]


async def checkpoint(log: Log) -> WatchPosition:
    position, _ = await appender(log).look()
    return position


async def test_a_few_facts_are_appended_without_the_checkpoint_until_it_is_due(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = appender(log)
    await one.claim(WatchPosition.seen)
    await one.say([fact(log, "a")], resource_version="5", at=1.0)
    await one.say([fact(log, "b"), fact(log, "c")], resource_version="7", at=2.0, apart=True)
    await one.say([fact(log, str(n)) for n in range(20)], resource_version="8", at=3.0, apart=True)
    monkeypatch.setattr("tidewright.watcher.appender.COVERED_S", COVERED_S - COVERED_S)
    await one.say([fact(log, "d")], resource_version="9", at=4.0, apart=True)
    many = [(str(n), "") for n in range(20)]
    assert said(await stored(log)) == [
        ("checkpoint", ""), ("a", ""), ("checkpoint", ""), ("b", ""), ("c", "7"), *many, ("checkpoint", ""), ("d", ""), ("checkpoint", ""),
    ]  # fmt: skip
    last = await checkpoint(log)
    assert (last.resource_version, last.at, last.apart) == ("9", 4.0, 0)


async def test_nothing_is_appended_apart_by_who_was_taken_over(log: Log) -> None:
    one, other = appender(log), appender(log)
    await one.claim(WatchPosition.seen)
    await one.say([fact(log, "a")], resource_version="5", at=1.0, apart=True)
    found = await other.claim(WatchPosition.seen)
    last = await log.last(log.subjects.facts("*", "pod"))
    assert last is not None
    assert found.apart < last.seq
    assert found.resumed(last).resource_version == "5"
    with pytest.raises(Fenced):
        await one.say([fact(log, "late")], resource_version="6", at=2.0, apart=True)
    assert said(await stored(log)) == [("checkpoint", ""), ("a", "5"), ("checkpoint", "")]
    # Whoever claims it before anything is covered finds it as well.
    assert (await appender(log).claim(WatchPosition.seen)).resumed(last).resource_version == "5"


async def test_who_appended_a_part_of_what_was_seen_together_leaves_no_position() -> None:
    position = WatchPosition(resource_version="3").seen(10)
    assert position.resumed(None).resource_version == "3"
    assert position.resumed(Record(9, "s", b"", {POSITION: "4"})).resource_version == "3"
    assert position.resumed(Record(11, "s", b"", {POSITION: "4"})).resource_version == "4"
    assert not position.resumed(Record(11, "s", b"", {})).resource_version, "a list says what there is"


@pytest.mark.parametrize("loses", [True, False])
async def test_a_fact_whose_answer_was_lost_is_on_the_log_once(log: Log, loses: bool) -> None:
    deaf = Deaf(log)
    one = appender(cast("Any", deaf))
    await one.claim(WatchPosition.seen)
    deaf.loses = loses
    await one.say([fact(log, "a"), fact(log, "b")], resource_version="5", at=1.0, apart=True)
    names = [name for name, _ in said(await stored(log)) if name != "checkpoint"]
    assert names == ["a", "b"]
    last = await checkpoint(log)
    assert (last.resource_version, last.apart) == ("5", 0)
