"""From the version before to this one and back, one service after the other, with both of each side by side meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
from asyncio.subprocess import PIPE
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from tests.e2e.autoscaler.world import World, wants
from tests.e2e.conftest import Cluster, Services, tidewright
from tests.e2e.up.versions import Version, before
from tests.nats_server import EmbeddedServer
from tidewright.asking.services import DECIDERS
from tidewright.cli.supervisor import Program
from tidewright.kube.client import Kube


class Running(Services):
    """One service of a version; None is this one."""

    version: Version | None = None

    def _program(self, name: str, more: Sequence[str]) -> Program:
        program = super()._program(name, more)
        if self.version is None:
            return program
        _, _, _, *arguments = program.command
        return dataclasses.replace(
            program, command=self.version.tidewright(*arguments), env=self.version.environment
        )


@pytest.mark.slow
@pytest.mark.timeout(400)  # thirty starts and ends of processes, one after the other
async def test_every_service_is_upgraded_and_put_back_while_both_versions_run(
    kube: Kube,
    namespace: str,
    cluster: Cluster,
    installed: list[str],
    nats: EmbeddedServer,
    tmp_path: Path,
) -> None:
    del installed
    old = before(tmp_path / "before")
    world, name = World(kube, cluster, namespace), "upgraded"
    loads = itertools.cycle(((80.0, 8), (20.0, 4)))

    def running(version: Version | None) -> Running:
        service = Running(cluster, nats.url)
        service.version, service.name, service.installed = version, name, True
        return service

    async def start(version: Version | None, service: str) -> Running:
        run = running(version)
        more = {"watcher": ("--metrics-interval", "0.5")} if service == "watcher" else {}
        await run.start(service, **more)
        ends.push_async_callback(run.supervisor.stop)
        return run

    async def scales() -> None:
        """The way of a sample to the cluster, and of what comes of it to the status, is open."""
        load, count = next(loads)
        world.measure(load)
        await world.until(web, wants(count))
        await world.until(wpa, lambda scaler: scaler.get("status", {}).get("desiredReplicas") == count)

    async def replaced(service: str, version: Version | None) -> None:
        """One more of a version beside the one that runs, which is then ended."""
        other = await start(version, service)
        await scales()
        await runs[service].supervisor.stop()
        runs[service] = other
        await scales()

    install = ("install", "--nats", nats.url, "--cluster", name, "--kubeconfig", str(cluster.kubeconfig))
    old.run("-m", "tidewright.cli.main", *install, "--slots", "4")
    async with contextlib.AsyncExitStack() as ends:
        runs = {service: await start(old, service) for service in ("watcher", *DECIDERS, "actuator")}
        web = await world.deployment()
        wpa = await world.autoscaler(maxReplicas=60)
        await scales()

        await said(tidewright(*install))
        for service in (*DECIDERS, "actuator", "watcher"):
            await replaced(service, None)
        # States of the version before are brought up to date, not folded anew.
        assert not any("snapshot ignored" in line for run in runs.values() for _, line in run.lines)

        for service in ("actuator", "watcher", *reversed(DECIDERS)):
            await replaced(service, old)

    told = await said(tidewright("verify", "--nats", nats.url, "--cluster", name, "--output", "json"))
    verified = msgspec.json.decode(told)
    assert verified["verified"], told
    # What each version decided, the other went on from.
    assert len([who for who in verified["writtenBy"] if who.startswith("autoscaler ")]) == 2, told


async def said(command: Sequence[str]) -> str:
    """What a command prints."""
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE)
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    assert process.returncode == 0, err
    return out.decode()
