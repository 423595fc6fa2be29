"""Spread on a cluster: its services, with admission last, and a namespace to try it in."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.e2e.conftest import Services
from tests.e2e.spread.world import World, clean
from tidewright.kube.client import Kube


@pytest.fixture
async def world(kube: Kube, namespace: str) -> World:
    """The namespace of the test."""
    return World(kube, namespace)


@pytest.fixture
async def spreading(kube: Kube, namespace: str, services: Services) -> AsyncIterator[Services]:
    """Services that run, with one replica of admission; afterwards the cluster calls nobody.

    The whitelist is in the test's own namespace.
    """
    whitelist = ("--whitelist-config-map", f"{namespace}/kruise-configuration")
    await services.start("watcher", "spread", "actuator", watcher=whitelist)
    await services.start("spread-admission")
    yield services
    await services.supervisor.stop()
    await clean(kube)
