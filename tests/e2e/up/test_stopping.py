"""Every service ends when it is told to, whatever has become of NATS: soon, and without a failure."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.unit.watcher.cluster import Cluster
from tidewright.cli.services import SERVICES, Role
from tidewright.log.connection import Log
from tidewright.log.server import EmbeddedServer

WITHIN_S = 10.0
"""What a service is given, as the issue says it. Kubernetes gives 30 s."""
SLACK_S = 50.0
"""For a machine that does much else."""
NAMES = tuple(service.name for service in SERVICES)


class Run:
    """A service's process, and what it has said."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.said = ""
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.said += line.decode()

    async def until(self, *words: str) -> None:
        async with asyncio.timeout(90):
            while not any(word in self.said for word in words):
                assert self.process.returncode is None, self.said
                await asyncio.sleep(0.05)

    async def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(WITHIN_S + SLACK_S):
            code = await self.process.wait()
        await self._reading
        return code


@asynccontextmanager
async def running(name: str, url: str, kubeconfig: Path, *more: str) -> AsyncIterator[Run]:
    role = next(service.role for service in SERVICES if service.name == name)
    arguments = [
        "run",
        name,
        "--nats",
        url,
        "--cluster",
        "test",
        "--health-port",
        "0",
        "--log-level",
        "debug",
    ]
    if role in (Role.WATCHER, Role.ACTUATOR):
        arguments += ["--kubeconfig", str(kubeconfig)]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tidewright.cli.main", *arguments, *more,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    run = Run(process)
    try:
        yield run
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


AT_WORK = {
    Role.DECIDER: "slots claimed", Role.WATCHER: "listed", Role.ACTUATOR: "acting",
    Role.ENDPOINT: "listens",
}  # fmt: skip


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with Cluster().serving() as serving:
        yield serving


async def killed(nats: EmbeddedServer) -> None:
    await nats.kill()


async def frozen(nats: EmbeddedServer) -> None:
    os.kill(nats.pid, signal.SIGSTOP)


@pytest.mark.parametrize(("gone", "away_s"), [(killed, 0.0), (frozen, 9.0)])
@pytest.mark.parametrize("name", NAMES)
async def test_a_service_ends_while_nats_is_away(
    nats: EmbeddedServer, log: Log, cluster: Cluster, tmp_path: Path, name: str, away_s: float,
    gone: Callable[[EmbeddedServer], Awaitable[None]],
) -> None:  # fmt: skip
    role = next(service.role for service in SERVICES if service.name == name)
    async with running(name, nats.url, cluster.kubeconfig(tmp_path)) as run:
        await run.until(AT_WORK[role])
        await gone(nats)
        try:
            await asyncio.sleep(away_s)
            assert await run.end() == 0, run.said
        finally:
            if gone is frozen:
                os.kill(nats.pid, signal.SIGCONT)


@pytest.mark.parametrize("name", NAMES)
async def test_a_service_ends_while_it_waits_for_nats(cluster: Cluster, tmp_path: Path, name: str) -> None:
    """At its start: nobody listens yet, or somebody who says nothing."""

    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    server = await asyncio.start_server(mute, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        for url in (f"nats://127.0.0.1:{port}", "nats://127.0.0.1:1"):
            async with running(name, url, cluster.kubeconfig(tmp_path)) as run:
                await run.until('"started"')
                assert await run.end() == 0, run.said
    finally:
        server.close()
