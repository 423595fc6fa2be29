"""Many clients and several replicas at once: every limit is met exactly, whatever dies meanwhile."""

from __future__ import annotations

import asyncio
import base64
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.e2e.conftest import Services, tidewright
from tests.e2e.sim.world import until
from tests.e2e.spread.front import Front
from tests.e2e.spread.world import World, clean, places, spread, subset
from tests.ports import free_port
from tidewright.cli.supervisor import Program
from tidewright.host.webhook.announce import Address, Announcer
from tidewright.kube.client import Kube
from tidewright.log.clock import Clock
from tidewright.log.envelope import Writer
from tidewright.spread.api import hooks

pytestmark = pytest.mark.asyncio(loop_scope="session")

PODS, CLIENTS, KILL_AFTER = 500, 8, 200
MUTATING = f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{hooks.NAME}"
GROUP, KIND, PLURAL = "apps.kruise.io", "CloneSet", "clonesets"


def definition() -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1alpha1", "served": True, "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": schema, "status": schema}}},
    }  # fmt: skip
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"kind": KIND, "plural": PLURAL, "singular": "cloneset", "listKind": f"{KIND}List"},
            "versions": [version],
        },
    }


@pytest_asyncio.fixture(loop_scope="session")
async def clone_sets(kube: Kube, installed: list[str]) -> AsyncIterator[None]:
    """CloneSets without a controller, so that only the test makes pods of them."""
    del installed
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    world = World(kube, "")
    await world.make(crds, definition())

    def established(found: dict[str, Any]) -> bool:
        conditions = found.get("status", {}).get("conditions") or ()
        return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)

    await world.until(f"{crds}/{PLURAL}.{GROUP}", established)
    yield
    await kube.request("DELETE", f"{crds}/{PLURAL}.{GROUP}")
    await until(kube, crds, lambda found: f"{PLURAL}.{GROUP}" not in found)


@pytest_asyncio.fixture(loop_scope="session")
async def front() -> AsyncIterator[Front]:
    made = Front()
    await made.start()
    yield made
    await made.stop()


async def test_500_pods_by_8_clients_at_3_replicas_one_killed_land_exactly(
    kube: Kube, world: World, clone_sets: None, services: Services, front: Front
) -> None:
    ports = [free_port() for _ in range(3)]
    url = f"https://127.0.0.1:{front.port}"
    try:
        await services.start("watcher", "spread", "actuator")
        await front_trusted(services, front, url)
        on = ("--nats", services.nats_url, "--cluster", services.name, "--log-format", "json")
        await services.supervisor.start(
            *(
                Program(
                    f"admission-{port}",
                    tidewright("run", "spread-admission", *on, "--port", str(port), "--url", url),
                )
                for port in ports
            )
        )
        configuration = await world.get(MUTATING)
        bundle = base64.b64decode(configuration["webhooks"][0]["clientConfig"]["caBundle"]).decode()
        assert bundle.count("BEGIN CERTIFICATE") == 4  # three replicas, and what stands before them
        front.to(ports, bundle)
        await burst(world, services)
    finally:
        await services.supervisor.stop()
        await clean(kube)
    assert front.passed_over > 0  # the killed replica was missed
    assert sorted(front.answered) == sorted(ports)


async def front_trusted(services: Services, front: Front, url: str) -> None:
    async with await services.log() as log:
        announcement = hooks.announcement(Address(url), conversion=False)
        announcer = Announcer(log, Writer("spread-admission"), Clock(), announcement)
        async with asyncio.timeout(90):
            await announcer.trust(front.certificate.ca_pem)


async def burst(world: World, services: Services) -> None:
    owner = await world.make(
        world.collection(f"{GROUP}/v1alpha1", PLURAL),
        {"apiVersion": f"{GROUP}/v1alpha1", "kind": KIND, "metadata": {"name": "fleet"}, "spec": {"replicas": PODS}},
    )  # fmt: skip
    await world.make(
        world.spreads,
        spread(
            "fleet", (f"{GROUP}/v1alpha1", KIND, "fleet"), subset("a", 100), subset("b", 150), subset("c")
        ),
    )
    await world.until(f"{world.spreads}/fleet", lambda ws: "status" in ws)
    reference = {
        "apiVersion": f"{GROUP}/v1alpha1", "kind": KIND, "name": "fleet", "uid": owner["metadata"]["uid"],
        "controller": True, "blockOwnerDeletion": False,
    }  # fmt: skip
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "fleet-", "labels": {"app": "fleet"}, "ownerReferences": [reference]},
        # Nobody has to run them: no scheduler is of this name.
        "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "pause"}], "terminationGracePeriodSeconds": 0},
    }  # fmt: skip
    made: list[dict[str, Any]] = []
    numbers = iter(range(PODS))

    async def client() -> None:
        for n in numbers:
            if n == KILL_AFTER:
                victim = next(
                    c for c in services.supervisor.children() if c.program.name.startswith("admission-")
                )
                assert victim.pid is not None
                os.kill(victim.pid, signal.SIGKILL)
            made.append(await world.make(world.pods, pod))  # a refusal would raise

    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    assert places(made) == {"a": 100, "b": 150, "c": 250}
    await world.until(
        f"{world.spreads}/fleet",
        lambda ws: (
            Counter({s["name"]: s["replicas"] for s in ws["status"]["subsetStatuses"]})
            == {"a": 100, "b": 150, "c": 250}
        ),
    )
