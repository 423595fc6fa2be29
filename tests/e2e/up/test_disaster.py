"""The servers of the log are lost with their disks: it comes back from the archive, the services act on, and nothing is done twice."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.chaos.servers import Servers
from tests.e2e.conftest import Cluster, Services, services_on, tidewright
from tests.e2e.pipeline.test_pipeline import DEPLOYMENT, LABELS, World, autoscaler, ready
from tests.nats_server import EmbeddedServer
from tests.waiting import until
from tidewright.archive.chain import LATEST
from tidewright.archive.store import FolderStore
from tidewright.asking.services import DECIDERS
from tidewright.kube.client import Kube
from tidewright.log.connection import Log
from tidewright.log.install import Plan, install_log

RUN = ("watcher", "autoscaler", "spread", "actuator")
OFTEN = ("--metrics-interval", "1")
SOON: dict[str, Any] = {"upscaleForbiddenWindowSeconds": 1}
"""Nobody here waits for a window of a minute."""


async def command(*arguments: str) -> str:
    """What a command prints that must succeed."""
    process = await asyncio.create_subprocess_exec(
        *tidewright(*arguments), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    async with asyncio.timeout(100):
        out, _ = await process.communicate()
    assert process.returncode == 0, (arguments, out.decode())
    return out.decode()


class Kept(Protocol):
    """Who keeps the log."""

    @property
    def url(self) -> str: ...
    async def lose(self) -> None:
        """All servers are killed, their disks are gone, and empty ones take their places."""


class One(EmbeddedServer):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.folder = folder

    async def lose(self) -> None:
        await self.kill()
        shutil.rmtree(self.folder)
        await self.start()


class Three(Servers):
    async def lose(self) -> None:
        for server in self.all:
            await self.kill(server.number)
            self.wipe(server.number)
        for server in self.all:
            await self.start(server.number)
        await self.formed()


@pytest.fixture(params=[1, 3], ids=["one server", "three servers"])
async def kept(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Kept, int]]:
    if request.param == 1:
        one = One(tmp_path / "nats")
        await one.start()
        yield one, 1
        await one.stop()
    else:
        async with Three(tmp_path / "nats") as three:
            yield three, 3


@pytest.fixture
async def services(cluster: Cluster, installed: list[str], kept: tuple[Kept, int]) -> AsyncIterator[Services]:
    del installed  # wanted for being there
    async with services_on(cluster, kept[0].url) as stack:
        async with await Log.connect(stack.nats_url, stack.name, name="install", timeout_s=10.0) as log:
            await install_log(log, Plan(slots=4, replicas=kept[1], deciders=DECIDERS))
        stack.installed = True
        yield stack


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_a_lost_log_comes_back_from_the_archive_and_nothing_is_done_twice(
    kube: Kube, namespace: str, cluster: Cluster, services: Services, kept: tuple[Kept, int], tmp_path: Path
) -> None:
    world, archive, (nats, copies) = World(kube, namespace), tmp_path / "archive", kept

    async def scaled(name: str, replicas: int) -> Any:
        return await world.until(f"{world.deployments}/{name}", lambda d: d["spec"]["replicas"] == replicas)

    def load(name: str, value: float) -> None:
        cluster.push(
            {"name": f"{namespace}.{name}", "value": value, "namespace": namespace, "labels": LABELS}
        )

    for name in ("web", "later"):
        await world.make(world.deployments, DEPLOYMENT | {"metadata": {"name": name}})
        load(name, 60.0)
        await world.until(f"{world.deployments}/{name}", ready(2))
    where = ["--archive", str(archive), "--cluster", services.name, "--nats", nats.url]
    await services.start(*RUN, watcher=OFTEN)
    archiver = services.beside()
    sealing = ("--archive", str(archive), "--key", str(tmp_path / "key"), "--every", "0.5")
    await archiver.start("archiver", archiver=sealing)
    await world.make(world.autoscalers, autoscaler(f"{namespace}.web", **SOON))
    await scaled("web", 6)
    async with await services.log() as log:
        _, end = await log.bounds()
    store = FolderStore(archive / services.name)

    async def sealed_to() -> int:
        data = await store.read(LATEST)
        return int(data.split(b'"last":')[1].split(b",")[0]) if data else 0

    await until(sealed_to, lambda last: last >= end)
    await archiver.supervisor.stop()
    last = await sealed_to()

    # What is done now is on no segment.
    more = autoscaler(f"{namespace}.later", target="later", **SOON) | {"metadata": {"name": "later"}}
    await world.make(world.autoscalers, more)
    before = await scaled("later", 6)
    await nats.lose()

    # Whoever runs on notices, and appends nothing to what is put back.
    anew = ("--archive-key", str(tmp_path / "key.pub"), "--replicas", str(copies))
    said = await command("restore", *where, *anew)
    assert f"sequences 1 to {last}" in said
    for service in ("autoscaler", "actuator"):
        await services.until_said(service, "Nothing is acted on")
    await services.supervisor.stop()
    again = services.beside()
    try:
        await again.start(*RUN, watcher=OFTEN)
        await again.start("archiver", archiver=sealing)
        async with await again.log() as log:
            decided = f"{log.subjects.root}.decision.*.autoscaler.*.{namespace}.later"
            await until(lambda: log.subjects_of(log.stream, decided), what="a decision about what was lost")
            load("web", 90.0)
            await world.until(f"{world.deployments}/web", lambda d: d["spec"]["replicas"] > 6)
            await again.until_said("archiver", "sealed")
            assert (await log.bounds())[0] == 1
            assert ((await log.settings(log.stream)) or {})["num_replicas"] == copies
        after = await world.get(f"{world.deployments}/later")
        assert (after["spec"]["replicas"], after["metadata"]["generation"]) == (
            6,
            before["metadata"]["generation"],
        )
        await command("verify", *where)
    finally:
        await again.supervisor.stop()
        for name, line in again.lines:
            print(f"{name}: {line}")
