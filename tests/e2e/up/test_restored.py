"""A log that was erased comes back from its archive as docs/log.md says, and the services go on with it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import nats
import pytest

from tests.e2e.conftest import Cluster, tidewright
from tests.e2e.pipeline.test_pipeline import DEPLOYMENT, LABELS, World, autoscaler, ready
from tests.e2e.up.test_permissions import CLUSTER, guarded, url
from tests.waiting import until
from tidewright.cli.contract.permissions import ARCHIVE, INSTALLER, READER
from tidewright.cli.supervisor import Program, Supervisor
from tidewright.kube.client import Kube
from tidewright.log.archive import install_archive
from tidewright.log.connection import Log

__all__ = ["guarded"]
ATTACKER = "spread"
"""Any service can: its credentials are all that it takes."""
RUN = ("watcher", "autoscaler", "spread", "actuator")


async def command(port: int, user: str, *arguments: str) -> str:
    """What a command prints that must succeed, run with a user's credentials."""
    process = await asyncio.create_subprocess_exec(
        *tidewright(*arguments, "--cluster", CLUSTER),
        env={"TIDEWRIGHT_NATS": url(port, user)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(100):
        out, _ = await process.communicate()
    assert process.returncode == 0, (arguments, out.decode())
    return out.decode()


def services(port: int, cluster: Cluster) -> Sequence[Program]:
    """The services, each with its own credentials."""
    at = ("--kubeconfig", str(cluster.kubeconfig))
    side = () if cluster.embedded else ("--external-metrics-url", cluster.side_url)
    more = {"watcher": (*at, "--mode", "enforce", *side), "actuator": at}
    return [
        Program(
            name,
            tidewright("run", name, "--cluster", CLUSTER, *more.get(name, ())),
            env={"KUBECONFIG": None, "TIDEWRIGHT_NATS": url(port, name)},
        )
        for name in RUN
    ]


async def erase(port: int) -> None:
    """Take everything away from the log, with the credentials of one service."""
    client = await nats.connect(url(port, ATTACKER))
    try:
        subject = f"tw.{CLUSTER}.checkpoint.1.{ATTACKER}.erased"
        await client.request(subject, b"{}", timeout=30, headers={"Nats-Rollup": "all"})
    finally:
        await client.close()


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_an_erased_log_comes_back_and_the_services_go_on(
    kube: Kube, namespace: str, cluster: Cluster, installed: list[str], guarded: int, tmp_path: Path
) -> None:
    del installed
    world, lines = World(kube, namespace), list[str]()
    for name in ("web", "later"):
        await world.make(world.deployments, DEPLOYMENT | {"metadata": {"name": name}})
        cluster.push({"name": f"{namespace}.{name}", "value": 60.0, "namespace": namespace, "labels": LABELS})
        await world.until(f"{world.deployments}/{name}", ready(2))
    supervisor = Supervisor(lambda name, line: lines.append(f"{name}: {line}"), stop_within_s=5.0)
    async with (
        await Log.connect(url(guarded, INSTALLER), CLUSTER, timeout_s=10.0) as log,
        await Log.connect(url(guarded, ARCHIVE), CLUSTER, timeout_s=10.0) as archive,
    ):
        await install_archive(log, archive)
        try:
            await supervisor.start(*services(guarded, cluster))
            await world.make(world.autoscalers, autoscaler(f"{namespace}.web"))
            await world.until(f"{world.deployments}/web", lambda d: d["spec"]["replicas"] == 6)
            await erase(guarded)
            _, erased = await log.bounds()
            await until(archive.bounds, lambda found: found[1] >= erased)
            await supervisor.stop()

            # As docs/log.md has it.
            file = str(tmp_path / "archive.twlog")
            await command(guarded, ARCHIVE, "export", file)
            await log.api(f"STREAM.DELETE.{log.stream}", {})
            await command(guarded, INSTALLER, "install", "--cluster-id", "none", "--slots", "4")
            assert f"{ATTACKER}.erased" in await command(guarded, INSTALLER, "import", file)
            await command(guarded, READER, "verify")

            supervisor = Supervisor(lambda name, line: lines.append(f"{name}: {line}"), stop_within_s=5.0)
            await supervisor.start(*services(guarded, cluster))
            more = autoscaler(f"{namespace}.later", target="later") | {"metadata": {"name": "later"}}
            await world.make(world.autoscalers, more)
            await world.until(f"{world.deployments}/later", lambda d: d["spec"]["replicas"] == 6)
            await command(guarded, READER, "verify")
        finally:
            await supervisor.stop()
            print("\n".join(lines))  # shown when it fails
