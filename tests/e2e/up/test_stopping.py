"""Every service ends when it is told to, whatever has become of NATS: soon, and without a failure."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from tests.e2e.up.processes import MODULE, Run, started
from tests.nats_server import EmbeddedServer
from tests.pausing import pause
from tests.unit.watcher.cluster import Cluster
from tidewright.asking.services import SERVICES, Role
from tidewright.log.connection import Log

FULL = "the outbound buffer is full"
FILLING = (
    "-c",
    f"""
import asyncio, sys
from nats.errors import OutboundBufferLimitError
from tidewright.cli.main import run
from tidewright.log.connection import Log

connect, filling = Log.connect.__func__, []

async def fill(client):
    while client.is_connected:
        await asyncio.sleep(0.05)
    try:
        while not client.is_connected:
            await client.publish("test.fill", bytes(50_000))
    except OutboundBufferLimitError:
        print({FULL!r}, file=sys.stderr, flush=True)

async def connected(*arguments, **options):
    log = await connect(*arguments, **options)
    filling.append(asyncio.create_task(fill(log.client)))
    return log

Log.connect = classmethod(connected)
sys.exit(run())
""",
)
"""The same program, whose client has as much to say to a server that is away as after hours: all that it will keep."""


@asynccontextmanager
async def running(
    name: str, url: str, kubeconfig: Path, program: Sequence[str] = MODULE
) -> AsyncIterator[Run]:
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
    async with started(*arguments, program=program) as run:
        yield run


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
    await pause(nats.pid)


@asynccontextmanager
async def all_running(
    url: str, kubeconfig: Path, ready: Callable[[Role], str], program: Sequence[str] = MODULE
) -> AsyncIterator[dict[str, Run]]:
    """Every service at once: what each waits for is mostly the clock."""
    async with AsyncExitStack() as stack:
        runs = {
            service.name: await stack.enter_async_context(running(service.name, url, kubeconfig, program))
            for service in SERVICES
        }
        await asyncio.gather(*(runs[service.name].until(ready(service.role)) for service in SERVICES))
        yield runs


async def all_end(runs: dict[str, Run]) -> None:
    codes = await asyncio.gather(*(run.end() for run in runs.values()))
    failed = [(name, code, runs[name].said) for name, code in zip(runs, codes, strict=True) if code != 0]
    assert not failed, failed


@pytest.mark.slow
@pytest.mark.parametrize(("gone", "away_s"), [(killed, 0.0), (frozen, 9.0)])
async def test_every_service_ends_while_nats_is_away(
    nats: EmbeddedServer, log: Log, cluster: Cluster, tmp_path: Path, away_s: float,
    gone: Callable[[EmbeddedServer], Awaitable[None]],
) -> None:  # fmt: skip
    async with all_running(nats.url, cluster.kubeconfig(tmp_path), AT_WORK.__getitem__) as runs:
        await gone(nats)
        try:
            await asyncio.sleep(away_s)
            await all_end(runs)
        finally:
            if gone is frozen:
                os.kill(nats.pid, signal.SIGCONT)


@pytest.mark.slow
async def test_every_service_ends_when_nats_has_been_away_for_so_long_that_nothing_more_is_kept_for_it(
    nats: EmbeddedServer, log: Log, cluster: Cluster, tmp_path: Path
) -> None:
    kubeconfig = cluster.kubeconfig(tmp_path)
    async with all_running(nats.url, kubeconfig, AT_WORK.__getitem__, FILLING) as runs:
        await nats.kill()
        await asyncio.gather(*(run.until(FULL) for run in runs.values()))
        await all_end(runs)


@pytest.mark.slow
@pytest.mark.parametrize("listens", [True, False])
async def test_every_service_ends_while_it_waits_for_nats(
    cluster: Cluster, tmp_path: Path, listens: bool
) -> None:
    """At its start: nobody listens yet, or somebody who says nothing."""

    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    server = await asyncio.start_server(mute, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1] if listens else 1
    try:
        url = f"nats://127.0.0.1:{port}"
        said = '"started"' if listens else "waiting for the log"
        async with all_running(url, cluster.kubeconfig(tmp_path), lambda role: said) as runs:
            await all_end(runs)
    finally:
        server.close()
