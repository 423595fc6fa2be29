"""Spread on a cluster: a namespace for each test, and services for each module or for one test.

Everything runs in the session's loop: services outlive a test, and are looked after meanwhile.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.e2e.conftest import Cluster, Services, log_server, made_namespace, services_on
from tests.e2e.spread.world import WHITELIST, World, clean
from tests.nats_server import EmbeddedServer
from tidewright.kube.client import Kube
from tidewright.kube.errors import KubeError


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def kube(cluster: Cluster) -> AsyncIterator[Kube]:
    """A client of the cluster."""
    async with await Kube.connect(cluster.kubeconfig) as client:
        yield client


@pytest_asyncio.fixture(loop_scope="session")
async def namespace(kube: Kube) -> AsyncIterator[str]:
    """A namespace of the test's own, gone at the end."""
    async with made_namespace(kube) as name:
        yield name


@pytest_asyncio.fixture(loop_scope="session")
async def nats(tmp_path: Path) -> AsyncIterator[EmbeddedServer]:
    """A log server of the test's own."""
    async with log_server(tmp_path) as server:
        yield server


@pytest_asyncio.fixture(loop_scope="session")
async def services(cluster: Cluster, installed: list[str], nats: EmbeddedServer) -> AsyncIterator[Services]:
    """Services of the test's own, not started yet."""
    del installed  # wanted for being there
    async with services_on(cluster, nats.url) as made:
        yield made


@pytest.fixture
def world(kube: Kube, namespace: str) -> World:
    """The namespace of the test."""
    return World(kube, namespace)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def running(
    kube: Kube, cluster: Cluster, installed: list[str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Services]:
    """Services for the tests of one module, with one replica of admission; afterwards the cluster calls nobody.

    Modules whose tests have services of their own do not use them: they act on the whole cluster.
    """
    del installed  # wanted for being there
    async with log_server(tmp_path_factory.mktemp("nats")) as nats, services_on(cluster, nats.url) as made:
        await made.start("watcher", "spread", "actuator", watcher=("--whitelist-config-map", WHITELIST))
        await made.start("spread-admission")
        yield made
        await made.supervisor.stop()
        await clean(kube)


@pytest_asyncio.fixture(loop_scope="session")
async def spreading(kube: Kube, running: Services) -> AsyncIterator[Services]:
    """The services of the module, with no whitelist but what the test makes."""
    yield running
    namespace, _, name = WHITELIST.partition("/")
    with contextlib.suppress(KubeError):  # most tests make none
        await kube.request("DELETE", f"/api/v1/namespaces/{namespace}/configmaps/{name}")
