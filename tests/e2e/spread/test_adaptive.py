"""Adaptive: a subset whose pods cannot be scheduled is left, and closed, at its time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.e2e.conftest import Services
from tests.e2e.spread.world import World, deployment, places, spread, subset

pytestmark = pytest.mark.asyncio(loop_scope="session")

WEB = ("apps/v1", "Deployment", "web")
NOWHERE = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["nowhere"]}]}


def conditions(found: dict[str, Any]) -> dict[str, str]:
    entries = found.get("status", {}).get("subsetStatuses", ())
    return {
        e["name"]: c["status"] for e in entries for c in e.get("conditions", ()) if c["type"] == "Schedulable"
    }


async def test_unschedulable_pods_move_on_and_the_subset_is_closed(world: World, spreading: Services) -> None:
    adaptive = {"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": 2}}
    await world.make(
        world.spreads,
        spread(
            "web",
            WEB,
            subset("a", 3, requiredNodeSelectorTerm=NOWHERE),
            subset("b"),
            scheduleStrategy=adaptive,
        ),
    )
    await world.in_force()
    seen: list[dict[str, int]] = []

    def moved_on(pods: dict[str, dict[str, Any]]) -> bool:
        seen.append(places(pods.values()))
        return seen[-1] == {"b": 5}

    watching = asyncio.create_task(world.until_pods(moved_on))  # where they are at first does not last
    await world.make(world.deployments, deployment("web", 5))
    await watching
    assert {"a": 3, "b": 2} in seen
    found = await world.until(
        f"{world.spreads}/web", lambda ws: conditions(ws) == {"a": "False", "b": "True"}
    )
    (closed,) = [e for e in found["status"]["subsetStatuses"] if e["name"] == "a"]
    assert closed["conditions"][0]["reason"] == "PodUnschedulable"
    # While it is closed nobody goes there.
    await world.scale("web", 7)
    await world.until_spread({"b": 7})


async def test_fixed_leaves_unschedulable_pods_where_they_are(world: World, spreading: Services) -> None:
    await world.make(
        world.spreads, spread("web", WEB, subset("a", 2, requiredNodeSelectorTerm=NOWHERE), subset("b"))
    )
    await world.in_force()
    await world.make(world.deployments, deployment("web", 4))
    await world.until(f"{world.deployments}/web", lambda d: d.get("status", {}).get("readyReplicas", 0) == 2)
    pods = await world.until_spread({"a": 2, "b": 2})
    assert len(pods) == 4
    assert conditions(await world.get(f"{world.spreads}/web")) == {}
