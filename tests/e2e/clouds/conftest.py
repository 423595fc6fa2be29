"""One log, services and a cloud of one kind for the scenes of that kind: each scene has groups and pods of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.e2e.clouds.stages import AWAY, STAGES, Stage
from tests.e2e.conftest import Cluster, Services, log_server, made_namespace, services_on
from tests.e2e.provisioning.world import World
from tests.e2e.sim.world import send, until
from tidewright.kube.client import Kube

QUICK = {
    "scale-down-unneeded-time": "1s",
    "scale-down-delay-after-add": "1s",
    "unremovable-node-recheck-timeout": "1s",
    "scan-interval": "1s",
    "node-delete-delay-after-taint": "0s",
    "balance-similar-node-groups": True,
}


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def kube(cluster: Cluster) -> AsyncIterator[Kube]:
    """A client of the cluster, for the session."""
    async with await Kube.connect(cluster.kubeconfig) as client:
        yield client


@pytest_asyncio.fixture(scope="module", loop_scope="session", params=STAGES, ids=lambda kind: kind.kind)
async def running(
    request: pytest.FixtureRequest,
    cluster: Cluster,
    kube: Kube,
    installed: list[str],
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Stage]:
    """A cloud, and watcher, provisioning and actuator that have it."""
    del installed  # wanted for being there
    folder: Path = tmp_path_factory.mktemp("stage")
    async with (
        made_namespace(kube) as namespace,
        log_server(folder) as nats,
        services_on(cluster, nats.url) as services,
    ):
        world = World(kube, cluster, namespace, services)
        async with request.param(world, folder) as stage:
            await world.configure(**QUICK)
            await world.start(clouds=(f"away=simulated:{AWAY}", f"{stage.kind}={stage.cloud}"))
            yield stage
            await services.supervisor.stop()


@pytest_asyncio.fixture(loop_scope="session")
async def stage(running: Stage, kube: Kube, request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    """The cloud with nothing in it, for one scene."""
    scene = request.function.__name__.removeprefix("test_")
    if scene in running.lacks:
        pytest.skip(running.lacks[scene])
    before: Services = running.services
    running.world = World(kube, running.world.cluster, running.world.namespace, before)
    yield running
    running.proxy.let_go()
    world = running.world
    await send(kube, "DELETE", world.requests)
    await send(kube, "DELETE", world.templates)
    await send(kube, "DELETE", world.pods, {"gracePeriodSeconds": 0})
    await until(kube, world.pods, lambda pods: not pods)
    await running.clear()
    await world.nodes(0)
