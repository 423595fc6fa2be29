"""Log time that hurries: a closed subset takes pods again, and they are brought back, minutes later."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.e2e.conftest import Services
from tests.e2e.spread.test_adaptive import WEB, conditions
from tests.e2e.spread.world import World, clean, deployment, spread, subset

pytestmark = pytest.mark.asyncio(loop_scope="session")
SPEED = 40
"""Log seconds per second: a subset is closed for 300 s of them."""
LABEL = "tidewright.dev/e2e-room"


@pytest_asyncio.fixture(loop_scope="session")
async def hurried(world: World, services: Services) -> AsyncIterator[Services]:
    """Spread in hurried log time, which brings a pod back every 20 s of it."""
    await world.make(
        world.config_maps, {"metadata": {"name": "tidewright"}, "data": {"spread": "bringBackSeconds: 20"}}
    )
    watcher = ("--config-map", f"{world.namespace}/tidewright", "--speed", str(SPEED))
    await services.start("watcher", "spread", "actuator", watcher=watcher)
    await services.start("spread-admission")
    yield services
    await services.supervisor.stop()
    await clean(world.kube)


async def test_a_subset_reopens_and_pods_are_brought_back_once_it_has_room(
    world: World, hurried: Services
) -> None:
    room = {"matchExpressions": [{"key": LABEL, "operator": "In", "values": [world.namespace]}]}
    adaptive = {"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": 2}}
    subsets = (subset("a", 2, requiredNodeSelectorTerm=room), subset("b"))
    await world.make(world.spreads, spread("web", WEB, *subsets, scheduleStrategy=adaptive))
    await world.in_force()
    await world.make(world.deployments, deployment("web", 4))
    await world.until_spread({"b": 4})
    await world.until(f"{world.spreads}/web", lambda ws: conditions(ws) == {"a": "False", "b": "True"})
    nodes = (await world.get("/api/v1/nodes"))["items"]
    node = next(n["metadata"]["name"] for n in nodes if "sim.tidewright.dev/node" in n["metadata"]["labels"])
    await world.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {LABEL: world.namespace}}})
    try:
        await world.until_event("RecoverSchedulable", "subset a takes pods again")
        await world.until_spread({"a": 2, "b": 2})
        await world.until(f"{world.spreads}/web", lambda ws: conditions(ws) == {"a": "True", "b": "True"})
    finally:
        await world.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {LABEL: None}}})
