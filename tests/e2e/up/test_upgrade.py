"""From the version before to this one and back, one service after the other, with both of each side by side meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
from asyncio.subprocess import PIPE
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.e2e.autoscaler.world import World, wants
from tests.e2e.conftest import Cluster, Services, tidewright
from tests.e2e.shards.world import maps_path, sets_path, shard_set
from tests.e2e.sim.world import send, until
from tests.e2e.spread.world import clean, places, spread
from tests.e2e.up.versions import Version, before
from tests.nats_server import EmbeddedServer
from tidewright.asking.services import DECIDERS
from tidewright.cli.supervisor import Program
from tidewright.kube.client import Kube
from tidewright.kube.errors import KubeError

LABELS_NAME = "tidewright-shard-labels"
LABEL_HOOKS = f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{LABELS_NAME}"
BY_LABEL: dict[str, Any] = {
    "keyspace": {"slots": 32, "hash": "fnv1a32", "slotLabel": "shard-key"},
    "source": {"customResource": {"kind": "ConfigMap", "key": "{name}", "selector": "example=run"}},
    "workers": {
        "driver": "pods", "injector": "propeller", "replicas": 1,
        "template": {"name": "orders-template", "container": "orders"},
    },
    "handover": {"mode": "restart"},
}  # fmt: skip
TEMPLATE: dict[str, Any] = {
    "apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "orders-template"},
    "template": {"spec": {"containers": [{"name": "orders", "image": "pause"}]}},
}  # fmt: skip


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


ENDPOINTS = ("spread-admission", "shard-labels")
"""Called by the API server of the embedded cluster alone: another one reaches nothing on this machine."""


@pytest.mark.slow
@pytest.mark.timeout(400)  # twenty-four starts and ends of processes
async def test_every_service_is_upgraded_and_put_back_while_both_versions_run(
    kube: Kube,
    namespace: str,
    cluster: Cluster,
    installed: list[str],
    nats: EmbeddedServer,
    tmp_path: Path,
) -> None:
    """All of a version are started beside those of the other, which are then ended one after the other."""
    del installed
    old = before(tmp_path / "before")
    world, name = World(kube, cluster, namespace), "upgraded"
    loads = itertools.cycle(((80.0, 8), (20.0, 4)))
    numbers = itertools.count()
    endpoints = ENDPOINTS if cluster.embedded else ()
    started = list[Running]()

    async def start(version: Version | None, service: str) -> Running:
        run = Running(cluster, nats.url)
        run.version, run.name, run.installed = version, name, True
        more = {"watcher": ("--metrics-interval", "0.5")} if service == "watcher" else {}
        ends.push_async_callback(run.supervisor.stop)
        started.append(run)
        await run.start(service, **more)
        return run

    async def beside(version: Version | None) -> dict[str, Running]:
        """One more replica of every service."""
        services = ("watcher", *DECIDERS, "actuator", *endpoints)
        return dict(zip(services, await asyncio.gather(*(start(version, s) for s in services)), strict=True))

    async def works() -> None:
        """All ways are open; where one is not, what was said last is told."""
        try:
            await goes_its_ways()
        except AssertionError as error:
            on = ("--nats", nats.url, "--cluster", name)
            error.add_note(await said(tidewright("events", *on, "--tail", "200", "-o", "wide")))
            error.add_note("\n".join(line for run in started for _, line in run.lines[-20:]))
            raise

    async def goes_its_ways() -> None:
        """The way of a sample to the cluster, of what comes of it to the status, and of what is created to the endpoints is open."""
        load, count = next(loads)
        world.measure(load)
        await world.until(web, wants(count))
        await world.until(wpa, lambda scaler: scaler.get("status", {}).get("desiredReplicas") == count)
        if endpoints:
            await until(
                kube, pods, lambda found: places(p for p in found.values() if of_web(p)) == {"few": 2, "rest": count - 2}
            )  # fmt: skip
            assert (await labelled(f"order-{next(numbers)}")) != ""

    async def labelled(order: str) -> str:
        """The slot that an object is labelled with as it is created; empty when nobody was asked."""
        metadata = {"name": order, "labels": {"example": "run"}}
        made = await send(kube, "POST", maps_path(namespace), {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})  # fmt: skip
        return str(made["metadata"]["labels"].get("shard-key", ""))

    async def ended(runs: dict[str, Running], order: Sequence[str]) -> None:
        for service in order:
            await runs[service].supervisor.stop()
            await works()

    install = ("install", "--nats", nats.url, "--cluster", name, "--kubeconfig", str(cluster.kubeconfig))
    old.run("-m", "tidewright.cli.main", *install, "--slots", "4")
    pods = f"/api/v1/namespaces/{namespace}/pods"
    async with contextlib.AsyncExitStack() as ends:
        if endpoints:
            ends.push_async_callback(called_by_nobody, kube)
            few = {"name": "few", "maxReplicas": 2}
            target = ("apps/v1", "Deployment", "web")
            await send(kube, "POST", f"/apis/apps.kruise.io/v1alpha1/namespaces/{namespace}/workloadspreads",
                       spread("web", target, few, {"name": "rest"}))  # fmt: skip
            await send(kube, "POST", f"/api/v1/namespaces/{namespace}/podtemplates", TEMPLATE)
            await send(kube, "POST", sets_path(namespace), shard_set(**BY_LABEL))
        runs = await beside(old)
        if endpoints:
            await until(kube, LABEL_HOOKS.rpartition("/")[0], lambda found: LABELS_NAME in found)
        web = await world.deployment()
        wpa = await world.autoscaler(maxReplicas=60)
        await works()

        await said(tidewright(*install))
        newer = await beside(None)
        await works()
        await ended(runs, (*DECIDERS, "actuator", "watcher", *endpoints))
        # States of the version before are brought up to date, not folded anew.
        assert not any("snapshot ignored" in line for run in newer.values() for _, line in run.lines)

        await beside(old)
        await works()
        await ended(newer, (*endpoints, "actuator", "watcher", *reversed(DECIDERS)))

    told = await said(tidewright("verify", "--nats", nats.url, "--cluster", name, "--output", "json"))
    verified = msgspec.json.decode(told)
    assert verified["verified"], told
    # What each version decided, the other went on from.
    assert len([who for who in verified["writtenBy"] if who.startswith("autoscaler ")]) == 2, told


async def called_by_nobody(kube: Kube) -> None:
    """The API server goes on without the endpoints of this test."""
    await clean(kube)
    with contextlib.suppress(KubeError):
        await send(kube, "DELETE", LABEL_HOOKS)


def of_web(pod: dict[str, Any]) -> bool:
    return str(pod["metadata"]["name"]).startswith("web-")


async def said(command: Sequence[str]) -> str:
    """What a command prints."""
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE)
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    assert process.returncode == 0, err
    return out.decode()
