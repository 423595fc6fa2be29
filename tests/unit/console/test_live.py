"""A console of a log that is being written: now moves, and what has passed stays."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import pytest
from aiohttp import ClientSession, CookieJar, StreamReader

from tests.unit.console.conftest import ONCE, Browser
from tests.waiting import until
from tidewright.asking.running_log import RunningLog
from tidewright.console.access import Access, named
from tidewright.console.server import Console
from tidewright.events import registry
from tidewright.events.provisioning import NodeGroupObserved
from tidewright.log.connection import Log, Message
from tidewright.log.install import Plan, install_log
from tidewright.log.subjects import ALL

BEGUN = 1_770_000_000.0


def group(log: Log, name: str, size: int, at: float) -> Message:
    fact = NodeGroupObserved(at=BEGUN + at, name=name, min_size=0, max_size=9, target_size=size)
    return Message(log.subjects.fact(ALL, "nodegroup", "", name), registry.encode(fact))


@pytest.fixture
async def live(log: Log) -> AsyncIterator[Browser]:
    """A browser that is let in to a console of a log that is written."""
    await log.commit([group(log, "small", 2, 0.0)])
    log.directly = True
    console = Console(RunningLog(log), Access(frozenset(), once=ONCE))
    await console.start("127.0.0.1", 0)
    console.access.hosts = named("127.0.0.1", console.port, ())
    async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as session:
        yield await Browser(console, session).enter()
    await console.stop()


async def test_what_comes_is_told_and_shown(live: Browser, log: Log) -> None:
    assert "seq 1" in (await live.get("/objects/nodegroup")).words
    async with live.session.get(f"{live.root}/live") as stream:
        told = asyncio.create_task(_numbers(stream.content, 2))
        await until(lambda: _done(live), lambda looking: looking)
        await log.commit([group(log, "large", 7, 5.0)])
        assert await asyncio.wait_for(told, 60) == [1, 2]
    found: list[str] = []

    async def words() -> str:
        found.append((await live.get("/objects/nodegroup")).words)
        return found[-1]

    assert "large 7" in await until(words, lambda text: "seq 2" in text)
    before = (await live.get("/objects/nodegroup?at=seq:1")).words
    assert "small 2" in before
    assert "large" not in before


async def test_what_was_asked_before_hides_nothing_that_came(live: Browser, log: Log) -> None:
    for size in range(3, 7):
        await log.commit([group(log, "small", size, float(size))])

        async def words() -> str:
            return (await live.get("/object/nodegroup/_/small")).words

        await until(words, partial(_ends_with, seq=size - 1))
        assert f"targetSize: {size}" in await words()
    assert "targetSize: 4" in (await live.get("/object/nodegroup/_/small?at=seq:3")).words


async def test_of_a_log_that_was_made_anew_nothing_of_the_one_before_is_shown(
    live: Browser, log: Log
) -> None:
    pages = ("/objects/nodegroup", "/objects/nodegroup?at=seq:1", "/events", "/events?at=seq:2")
    await log.commit([group(log, "medium", 3, 100.0), group(log, "large", 4, 200.0)])

    async def words() -> str:
        return " ".join([(await live.get(page)).words for page in pages])

    assert "medium" in await until(words, lambda text: "seq 3" in text)
    await log.api(f"STREAM.DELETE.{log.stream}", {})
    await install_log(log, Plan(slots=8, deciders=("counting", "reminding")))
    await log.commit([group(log, name, 5, 300.0) for name in ("first", "second", "third")])
    shown = await until(words, lambda text: "third" in text)
    assert not {"small", "medium", "large"} & set(shown.split())
    assert live.console.source.remade == 2


async def test_whoever_leaves_is_no_error(live: Browser, log: Log, caplog: pytest.LogCaptureFixture) -> None:
    async with live.session.get(f"{live.root}/live") as stream:
        assert await asyncio.wait_for(_numbers(stream.content, 1), 60) == [1]
        stream.close()
    size = 3

    async def watchers() -> int:
        nonlocal size
        size += 1
        await log.commit([group(log, "small", size, float(size))])
        return live.console.live._watchers

    await until(watchers, lambda count: count == 0)
    assert [record.getMessage() for record in caplog.records if record.name == "aiohttp.server"] == []


def _ends_with(words: str, seq: int) -> bool:
    return f"seq {seq} " in words


async def _done(live: Browser) -> bool:
    return live.console.live._last == 1


async def _numbers(stream: StreamReader, count: int) -> list[int]:
    """The sequences that are told, so many of them."""
    found: list[int] = []
    while len(found) < count:
        line = (await stream.readline()).decode()
        if line.startswith("data: "):
            found.append(int(line.removeprefix("data: ")))
    return found
