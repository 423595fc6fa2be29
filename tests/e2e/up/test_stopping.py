"""Every service ends when it is told to, whatever has become of NATS: soon, and without a failure."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from tests.nats_server import EmbeddedServer
from tests.unit.watcher.cluster import Cluster
from tests.waiting import until
from tidewright.asking.services import SERVICES, Role
from tidewright.log.connection import Log

WITHIN_S = 10.0
"""What a service is given, as the issue says it. Kubernetes gives 30 s."""
SLACK_S = 50.0
"""For a machine that does much else."""


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
        found = [*words]
        await until(
            lambda: self.said,
            lambda said: self.process.returncode is not None or any(word in said for word in found),
            what=f"{found} in what it says",
            within_s=90.0,
        )
        assert self.process.returncode is None, self.said

    async def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(WITHIN_S + SLACK_S):
            code = await self.process.wait()
        await self._reading
        return code


MODULE = ("-m", "tidewright.cli.main")
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
    process = await asyncio.create_subprocess_exec(
        sys.executable, *program, *arguments,
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
