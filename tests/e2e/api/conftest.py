"""The cluster that the conformance tests run against: KUBECONFIG's, or an embedded one.

The embedded one is what a real control plane without machines is: API server, controllers and scheduler,
and not a single node. It serves all tests, which have namespaces of their own; so a test sees what it would
see elsewhere: the scheduler's conditions, the controllers' statuses, other people's objects.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.e2e.api.client import Client, Object
from tests.e2e.api.crontabs import definition
from tests.e2e.conftest import GONE_WITHIN_S, running
from tests.e2e.sim.world import until
from tidewright.kube.client import Kube
from tidewright.kube.errors import KubeError


@pytest.fixture(scope="session")
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Path, bool]]:
    """A kubeconfig, and whether it is of an embedded cluster."""
    given = request.config.getoption("--kubeconfig") or os.environ.get("KUBECONFIG")
    if given:
        yield Path(given), False
        return
    folder = tmp_path_factory.mktemp("api")
    kubeconfig = folder / "kubeconfig"
    arguments = ["sim", "up", "--nodes", "0", "--write-kubeconfig", str(kubeconfig)]
    with running(arguments, folder / "cluster.log"):
        yield kubeconfig, True


@pytest.fixture(scope="session")
def namespaces(cluster: tuple[Path, bool]) -> Iterator[set[str]]:
    """The namespaces that tests have made and deleted; at the end of the session all are gone."""
    made: set[str] = set()
    yield made
    kubeconfig, embedded = cluster
    if made and not embedded:
        asyncio.run(_gone(kubeconfig, made))


async def _gone(kubeconfig: Path, names: set[str]) -> None:
    async with await Kube.connect(kubeconfig) as kube:
        await until(kube, "/api/v1/namespaces", lambda there: not there.keys() & names, GONE_WITHIN_S)


@pytest.fixture
async def client(cluster: tuple[Path, bool], namespaces: set[str]) -> AsyncIterator[Client]:
    """A client in a fresh namespace, which is deleted afterwards; its end is waited for once, after all tests."""
    kubeconfig, embedded = cluster
    namespace = f"tidewright-{uuid.uuid4().hex[:8]}"
    async with await Kube.connect(kubeconfig) as kube:
        client = Client(kube, namespace, kubeconfig, embedded=embedded)
        namespaces.add(namespace)
        await client.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        # pods are refused until the namespace has its default account
        await client.until(lambda: _exists(client, client.path("serviceaccounts", "default")))
        try:
            yield client
        finally:
            await client.delete(f"/api/v1/namespaces/{namespace}")


async def _exists(client: Client, path: str) -> bool:
    try:
        await client.get(path)
    except KubeError:
        return False
    return True


@pytest.fixture
async def crontabs(client: Client) -> AsyncIterator[Object]:
    """A definition of CronTabs in a group of its own, established; deleted afterwards."""
    group = f"g{uuid.uuid4().hex[:8]}.tidewright.test"
    wanted = definition(group)
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    await client.create(path, wanted)
    name = wanted["metadata"]["name"]

    async def served() -> bool:
        try:
            await client.get(client.path("crontabs", group=group))
            found = await client.get(f"/apis/{group}/v1")  # what clients discover follows in its own time
            groups = await client.get("/apis")
        except KubeError:
            return False
        known = {one["name"] for one in groups["groups"]}
        return group in known and any(one["name"] == "crontabs" for one in found["resources"])

    await client.until(served)
    if not client.embedded:
        await asyncio.sleep(1)  # a real API server needs a moment until its caches follow
    try:
        yield await client.get(f"{path}/{name}")
    finally:
        await client.delete(f"{path}/{name}")
