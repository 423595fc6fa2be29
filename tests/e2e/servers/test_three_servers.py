"""A log that three servers keep together, while one of them answers nothing."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.chaos.servers import Servers
from tests.waiting import until
from tidewright.host.loop.membership import BucketMembership
from tidewright.log.connection import Log, Message
from tidewright.log.errors import LogUnavailable
from tidewright.log.identity import BusClient
from tidewright.log.install import Plan, install_log


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
        await membership.leave()
        assert (await log.bounds())[1] >= 1
