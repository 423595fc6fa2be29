"""A log that three servers keep together, while one of them answers nothing."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from tests.chaos.servers import Servers
from tests.waiting import until
from tidewright.host.loop.membership import BucketMembership
from tidewright.host.process import copies
from tidewright.log.connection import Log, Message
from tidewright.log.errors import LogUnavailable
from tidewright.log.identity import BusClient
from tidewright.log.install import Plan, install_log, members_of
from tidewright.log.snapshots import bucket


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[Servers]:
    async with Servers(tmp_path) as three:
        yield three


async def test_a_client_leaves_a_server_that_is_paused(servers: Servers) -> None:
    async with await Log.connect(servers.url, "test", timeout_s=5.0, patience_s=60.0) as log:
        await install_log(log, Plan(slots=4, replicas=3))
        log.timeout_s, log.patience_s = 1.0, 0.0
        membership = BucketMembership(log, "watcher", "one")
        await membership.join()
        client = log.client
        assert isinstance(client, BusClient)
        paused = next(server for server in servers.all if server.url == client.server)
        servers.signal(paused.number, signal.SIGSTOP)

        async def appended() -> bool:
            try:
                await log.commit([Message(log.subjects.config("clock"), b"{}", {})])
            except LogUnavailable:
                return False
            return client.server != paused.url

        await until(appended, every_s=0.2)
        servers.signal(paused.number, signal.SIGCONT)
        log.timeout_s, log.patience_s = 5.0, 60.0  # the log may have no leader, or another one, for a while
        await membership.leave()
        # The one that was paused may have led the log, and goes on answering for a while by what was so before.
        await until(log.bounds, lambda bounds: bounds[1] >= 1)


async def test_everything_is_kept_by_as_many_servers_as_was_said_and_one_that_is_away_is_missed(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "EVERY_S", 0.5)
    deciders = ("autoscaler", "spread")
    async with await Log.connect(servers.url, "test", timeout_s=5.0, patience_s=60.0) as log:
        await install_log(log, Plan(slots=4, replicas=1, deciders=deciders))
        # Who adds servers says it once more.
        await install_log(log, Plan(slots=4, replicas=3, deciders=deciders))
        await servers.in_sync()
        names = [
            log.stream, f"KV_{members_of(log.stream)}", *(f"OBJ_{bucket(log.stream, d)}" for d in deciders),
        ]  # fmt: skip
        assert sorted(names) == sorted(await servers.streams(0))
        registry = CollectorRegistry()
        watching = asyncio.create_task(copies.watch(log, names, registry))

        def kept() -> set[tuple[float | None, ...]]:
            return {
                tuple(
                    registry.get_sample_value(f"tidewright_log_copies_{what}", {"stream": name})
                    for what in ("wanted", "current")
                )
                for name in names
            }

        try:
            await until(kept, lambda found: found == {(3.0, 3.0)})
            gone = (await servers.leader(log.stream) + 1) % len(servers.all)
            await servers.kill(gone)
            await until(kept, lambda found: found == {(3.0, 2.0)})
            await servers.start(gone)
            await until(kept, lambda found: found == {(3.0, 3.0)})
        finally:
            watching.cancel()
