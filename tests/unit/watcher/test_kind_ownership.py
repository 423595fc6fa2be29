"""Parts that depend on a kind: they are taken, and kept, only where the kind is."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.nats_server import EmbeddedServer
from tests.unit.watcher.cluster import Cluster
from tests.unit.watcher.silent_log import SilentLog
from tests.waiting import until
from tidewright.host.loop import fenced
from tidewright.host.loop.fenced import Fenced, InFlight, Part, Position, present
from tidewright.kube.kinds import BY_NAME
from tidewright.log.connection import Log
from tidewright.log.envelope import Writer
from tidewright.log.subjects import ALL
from tidewright.watcher import service
from tidewright.watcher.follow import Follower
from tidewright.watcher.kind_ownership import Heard
from tidewright.watcher.service import Options

NOBODYS = cast("Any", None)
"""The follower's part, where nothing is asked of it."""


class Own:
    """A part that runs until it is stopped."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.ended = asyncio.Event()

    async def __call__(self) -> None:
        self.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()


async def test_a_part_is_taken_only_where_its_kind_is_and_given_up_with_it() -> None:
    heard, own = Heard("workloadspread", NOBODYS), Own()
    during = asyncio.create_task(heard.during(own))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not own.began.is_set()
    heard.begins()
    async with asyncio.timeout(90):
        await own.began.wait()
        heard.ends()
        await own.ended.wait()
        with pytest.raises(Fenced, match="workloadspread"):
            await during


async def test_one_that_is_cancelled_as_the_kind_goes_ends() -> None:
    """At the end of a process all parts are: one that only told of the fence would stand by for ever."""
    heard, own = Heard("workloadspread", NOBODYS), Own()
    heard.begins()
    during = asyncio.create_task(heard.during(own))
    async with asyncio.timeout(90):
        await own.began.wait()
        heard.ends()
        during.cancel()
        with pytest.raises(asyncio.CancelledError):
            await during
    assert own.ended.is_set()


async def test_the_list_is_waited_for_but_not_for_ever() -> None:
    heard, own = Heard("workloadspread", NOBODYS), Own()
    heard.begins()
    during = asyncio.create_task(heard.during(own, settling_s=60.0))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not own.began.is_set()
    heard.settled.set()
    async with asyncio.timeout(90):
        await own.began.wait()
    during.cancel()
    never, second = Heard("workloadspread", NOBODYS), Own()
    never.begins()
    waiting = asyncio.create_task(never.during(second, settling_s=0.01))
    async with asyncio.timeout(90):
        await second.began.wait()
    waiting.cancel()
    await asyncio.gather(during, waiting, return_exceptions=True)


async def test_a_part_that_ends_by_itself_is_waited_for_no_longer() -> None:
    heard = Heard("workloadspread", NOBODYS)
    heard.begins()

    async def fenced() -> None:
        raise Fenced("another has it")

    with pytest.raises(Fenced, match="another has it"):
        async with asyncio.timeout(90):
            await heard.during(fenced)


async def test_a_follower_says_from_when_and_until_when_it_hears(monkeypatch: pytest.MonkeyPatch) -> None:
    log, stamp = cast("Any", SilentLog()), cast("Any", SimpleNamespace(raise_to=lambda at: None))
    follower = Follower(BY_NAME["workloadspread"], cast("Any", None), log, log, stamp)
    going, own = asyncio.Event(), Own()

    async def follow() -> None:
        await going.wait()
        raise Fenced("another has it")

    monkeypatch.setattr(follower, "_follow", follow)
    during = asyncio.create_task(follower.heard.during(own))
    owning = asyncio.create_task(follower._own())
    async with asyncio.timeout(90):
        await own.began.wait()
        going.set()
        await own.ended.wait()
    await asyncio.gather(owning, during, return_exceptions=True)


class Process:
    """A process with a kind, and with a part that goes with it; its first claim of the part meets another one's commit."""

    def __init__(self, log: Log, *, before: bool = False) -> None:
        """`before`: as in versions that waited for the end of whoever has the part."""
        self._log, self._writer, self._in_flight = log, Writer("watcher"), InFlight()
        self.kind, self.part = self._part("watermarkpodautoscaler"), self._part("metric")
        self.heard = Heard("watermarkpodautoscaler", self.kind)
        self.owns = asyncio.Event()
        self._before = before
        self._met = False
        self._task = asyncio.create_task(self._run())

    def _part(self, name: str) -> Part[Position]:
        subject = self._log.subjects.checkpoint(ALL, "watcher", name)
        return Part(self._log, self._writer, subject, Position, self._in_flight)

    async def _run(self) -> None:
        depends = (
            self.part.keep(partial(self.heard.during, self._own))
            if self._before
            else self.heard.keep(self.part, self._own)
        )
        async with present(self._log, self._writer, self._in_flight, 0.0):
            await asyncio.gather(self.kind.keep(self._follow), depends)

    async def _follow(self) -> None:
        await self.kind.claim()
        self.heard.begins()
        try:
            await asyncio.Event().wait()
        finally:
            self.heard.ends()

    async def _own(self) -> None:
        position, _ = await self.part.look()
        if position.incarnation and not self._met:
            self._met = True
            raise Fenced("what was said meanwhile was another one's")
        await self.part.claim()
        self.owns.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.owns.clear()

    async def end(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


@pytest.mark.parametrize(("first_before", "second_before"), [(True, False), (False, True), (False, False)])
async def test_a_part_comes_to_where_its_kind_is_though_its_first_claim_met_another_ones(
    log: Log, monkeypatch: pytest.MonkeyPatch, first_before: bool, second_before: bool
) -> None:
    monkeypatch.setattr(fenced, "LOOK_S", 0.05)
    first = Process(log, before=first_before)
    await first.owns.wait()
    second = Process(log, before=second_before)
    try:
        await until(lambda: second.owns.is_set() and not first.owns.is_set())
        await asyncio.sleep(2 * fenced.ABSENT_S)
        assert second.owns.is_set()
    finally:
        for one in (second, first):
            await one.end()


async def test_spreads_that_another_process_hears_of_leave_it_the_custom_workloads(
    nats: EmbeddedServer, log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Follower.run

    async def standing_by(self: Follower) -> None:
        await (asyncio.Event().wait() if self.kind.name == "workloadspread" else run(self))

    monkeypatch.setattr(Follower, "run", standing_by)

    async def claimed(part: str) -> bool:
        return await log.last(log.subjects.checkpoint(ALL, "watcher", part)) is not None

    async with Cluster().serving() as cluster:
        options = Options(
            nats_url=nats.url, cluster="test", kubeconfig=cluster.kubeconfig(tmp_path),
            kinds=("workloadspread", "shardset", "watermarkpodautoscaler"),
        )  # fmt: skip
        watching = asyncio.create_task(service.run(options))
        try:
            await until(lambda: claimed("slotlabels"))
            await until(lambda: claimed("metric"))
            assert not await claimed("custom")
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
