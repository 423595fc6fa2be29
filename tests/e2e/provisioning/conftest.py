"""A world per test, whose groups and nodes are gone at its end."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.e2e.conftest import Cluster, Services
from tests.e2e.provisioning.world import World
from tidewright.kube.client import Kube


@pytest.fixture
async def world(kube: Kube, cluster: Cluster, namespace: str, services: Services) -> AsyncIterator[World]:
    made = World(kube, cluster, namespace, services)
    yield made
    await services.supervisor.stop()
    await made.no_cloud()
