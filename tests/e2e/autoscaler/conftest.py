"""One log and one set of services for all tests of a module: each test has a namespace of its own.

Metrics are polled twice a second, so that a test need not wait. Everything runs in the session's loop.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import AsyncIterator

import msgspec
import pytest
import pytest_asyncio

from tests.e2e.autoscaler.world import MONITORS, RACKS, World, definition
from tests.e2e.conftest import GONE_WITHIN_S, Cluster, Services
from tests.e2e.sim.world import until
from tests.nats_server import EmbeddedServer
from tests.ports import free_port
from tidewright.kube.client import Kube
from tidewright.kube.errors import KubeError

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def kube(cluster: Cluster) -> AsyncIterator[Kube]:
    """A client of the cluster, for the session."""
    async with await Kube.connect(cluster.kubeconfig) as client:
        yield client


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def definitions(kube: Kube, cluster: Cluster) -> AsyncIterator[None]:
    """A kind with a scale of its own, and monitors; those that were not there before go at the end."""
    made = []
    for manifest in (RACKS, MONITORS):
        path = f"{DEFINITIONS}/{manifest['metadata']['name']}"
        try:
            await kube.request("POST", DEFINITIONS, body=msgspec.json.encode(manifest))
            made.append(path)
        except KubeError as error:
            if error.status != 409:
                raise
        await definition(kube, path)
    yield
    for path in made:
        with contextlib.suppress(KubeError):
            await kube.request("DELETE", path)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def running(
    cluster: Cluster, installed: list[str], definitions: None, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Services]:
    """Watcher, autoscaler and actuator on a log of their own, for one module.

    They act on the whole cluster: a module whose tests have services of their own does not use them.
    """
    del installed, definitions  # wanted for being there
    nats = EmbeddedServer(tmp_path_factory.mktemp("nats"))
    await nats.start()
    made = Services(cluster, nats.url)
    made.push_port, made.metrics_port = free_port(), free_port()  # type: ignore[attr-defined]  # of these tests
    await made.start(
        "watcher", "autoscaler", "actuator",
        watcher=(
            *("--metrics-interval", "0.5", "--health-port", str(made.push_port)),  # type: ignore[attr-defined]  # set above
            *("--recommender-hosts", "127.0.0.1"),
        ),
        autoscaler=("--health-port", str(made.metrics_port)),  # type: ignore[attr-defined]  # set above
    )  # fmt: skip
    yield made
    await made.supervisor.stop()
    await nats.stop()


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def namespaces(kube: Kube) -> AsyncIterator[list[str]]:
    """The namespaces that tests have made and deleted; at the end all are gone."""
    made: list[str] = []
    yield made
    if made:
        await until(kube, "/api/v1/namespaces", lambda there: not there.keys() & set(made), GONE_WITHIN_S)


@pytest_asyncio.fixture(loop_scope="session")
async def world(kube: Kube, cluster: Cluster, namespaces: list[str]) -> AsyncIterator[World]:
    """A namespace, deleted at the end; that it is gone is waited for once, after all tests."""
    name = f"tw-wpa-{uuid.uuid4().hex[:8]}"
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await kube.request("POST", "/api/v1/namespaces", body=msgspec.json.encode(manifest))
    yield World(kube, cluster, name)
    await kube.request("DELETE", f"/api/v1/namespaces/{name}")
    namespaces.append(name)
