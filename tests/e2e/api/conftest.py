"""The cluster that the conformance tests run against: KUBECONFIG's, or an embedded one per test."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.e2e.api.client import Client, Object
from tests.e2e.api.crontabs import definition
from tidewright.kube.client import Kube
from tidewright.kube.errors import KubeError
from tidewright.sim.api.server import ApiServer


@pytest.fixture
async def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Path, bool]]:
    """A kubeconfig, and whether it is of an embedded cluster."""
    given = request.config.getoption("--kubeconfig") or os.environ.get("KUBECONFIG")
    if given:
        yield Path(given), False
        return
    async with ApiServer(bookmark_interval_s=0.2) as server:
        kubeconfig = tmp_path / "kubeconfig"
        server.write_kubeconfig(kubeconfig)
        yield kubeconfig, True


@pytest.fixture
async def client(cluster: tuple[Path, bool]) -> AsyncIterator[Client]:
    """A client in a fresh namespace, which is deleted afterwards."""
    kubeconfig, embedded = cluster
    namespace = f"tidewright-{uuid.uuid4().hex[:8]}"
    async with await Kube.connect(kubeconfig) as kube:
        client = Client(kube, namespace, kubeconfig, embedded=embedded)
        await client.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        if not embedded:  # pods are refused until the controller has made the default account
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
        except KubeError:
            return False
        return True

    await client.until(served)
    if not client.embedded:
        await asyncio.sleep(1)  # a real API server needs a moment until its caches follow
    try:
        yield await client.get(f"{path}/{name}")
    finally:
        await client.delete(f"{path}/{name}")
