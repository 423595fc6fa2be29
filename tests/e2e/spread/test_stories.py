"""The published examples, from manifests to pods: placement, costs, scale-in, rollouts, flapping."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.e2e.conftest import Services
from tests.e2e.spread.world import World, active, deployment, places, spread, subset, subset_of
from tidewright.events import registry
from tidewright.events.spread import ChangeLedger
from tidewright.kube.listwatch import Added, Deleted, Modified, Page, list_watch
from tidewright.kube.workloadspreads.spec import MATCHED_ANNOTATION

pytestmark = pytest.mark.asyncio(loop_scope="session")

WEB = ("apps/v1", "Deployment", "web")
NOBODY = {"schedulerName": "nobody"}
"""Pods of a scheduler that does not exist have no node, so nobody adopts those without a place."""


def unscheduled(name: str, replicas: int) -> dict[str, Any]:
    made = deployment(name, replicas)
    made["spec"]["template"]["spec"].update(NOBODY)
    return made


async def limits(world: World, *numbers: int | None) -> None:
    """Change the limits, and wait until they are in force."""
    subsets = [subset(name, limit) for name, limit in zip("abcdef", numbers, strict=False)]
    await world.patch(f"{world.spreads}/web", {"spec": {"subsets": subsets}})
    await world.until(
        f"{world.spreads}/web",
        lambda ws: ws.get("status", {}).get("observedGeneration") == ws["metadata"]["generation"],
    )


def having(replicas: int) -> Callable[[dict[str, Any]], bool]:
    return lambda found: found.get("status", {}).get("replicas", 0) == replicas


async def ready(world: World, replicas: int) -> None:
    """Scale-in takes pods that are not ready first, so the order of costs shows among ready ones only."""
    await world.until(
        f"{world.deployments}/web", lambda d: d.get("status", {}).get("readyReplicas", 0) == replicas
    )


async def test_the_demo_of_three_subsets(world: World, spreading: Services) -> None:
    await world.make(world.spreads, spread("web", WEB, subset("a", 10), subset("b", 10), subset("c")))
    await world.make(world.deployments, deployment("web", 30))
    await world.until_spread({"a": 10, "b": 10, "c": 10})
    await world.until_costs({("a", "300"): 10, ("b", "200"): 10, ("c", "100"): 10})
    await limits(world, 20, 20, None)
    await world.scale("web", 60)
    await world.until_spread({"a": 20, "b": 20, "c": 20})
    await ready(world, 60)
    await limits(world, 10, 10, None)
    await world.until_costs(
        {("a", "300"): 10, ("a", "-100"): 10, ("b", "200"): 10, ("b", "-200"): 10, ("c", "100"): 20}
    )
    for replicas, wanted in (
        (50, {"a": 20, "b": 10, "c": 20}),
        (40, {"a": 10, "b": 10, "c": 20}),
        (20, {"a": 10, "b": 10}),
        (10, {"a": 10}),
    ):
        await world.scale("web", replicas)
        await world.until_spread(wanted)
    status = await world.until(
        f"{world.spreads}/web",
        lambda ws: [s["replicas"] for s in ws["status"]["subsetStatuses"]] == [10, 0, 0],
    )
    assert [s["missingReplicas"] for s in status["status"]["subsetStatuses"]] == [0, 10, -1]


async def test_the_elastic_example(world: World, spreading: Services) -> None:
    await world.make(world.spreads, spread("web", WEB, subset("a", 10), subset("b")))
    await world.make(world.deployments, deployment("web", 8))
    await world.until_spread({"a": 8})
    for replicas, wanted in (
        (10, {"a": 10}),
        (13, {"a": 10, "b": 3}),
        (11, {"a": 10, "b": 1}),
        (9, {"a": 9}),
        (18, {"a": 10, "b": 8}),
    ):
        await world.scale("web", replicas)
        await world.until_spread(wanted)
        await ready(world, replicas)
        costs = {("a", "200"): wanted["a"]} | ({("b", "100"): wanted["b"]} if "b" in wanted else {})
        await world.until_costs(costs)
    await limits(world, 6, None)
    await world.until_costs({("a", "200"): 6, ("a", "-100"): 4, ("b", "100"): 8})
    await world.scale("web", 14)
    await world.until_spread({"a": 6, "b": 8})
    await world.scale("web", 10)
    await world.until_spread({"a": 6, "b": 4})


async def test_the_multi_domain_example(world: World, spreading: Services) -> None:
    await world.make(world.spreads, spread("web", WEB, subset("a", 10), subset("b", 10)))
    await world.in_force()
    await world.make(world.deployments, unscheduled("web", 20))
    await world.until_spread({"a": 10, "b": 10})
    await limits(world, 6, 14)
    await world.until_costs({("a", "200"): 6, ("a", "-100"): 4, ("b", "100"): 10})
    await world.scale("web", 16)
    await world.until_spread({"a": 6, "b": 10})
    await world.scale("web", 20)
    await world.until_spread({"a": 6, "b": 14})
    await limits(world, 10, 10)
    await world.until_costs({("a", "200"): 6, ("b", "100"): 10, ("b", "-200"): 4})
    await world.scale("web", 25)
    await world.until_spread({"a": 10, "b": 14, "": 1})
    await world.until_costs({("a", "200"): 10, ("b", "100"): 10, ("b", "-200"): 4, ("", "-300"): 1})
    await world.scale("web", 20)
    await world.until_spread({"a": 10, "b": 10})


async def test_a_rolling_update_keeps_the_subsets(world: World, spreading: Services) -> None:
    await world.make(world.spreads, spread("web", WEB, subset("a", 3), subset("b")))
    one_by_one = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    await world.make(world.deployments, deployment("web", 10, strategy=one_by_one))
    await world.until_spread({"a": 3, "b": 7})
    await ready(world, 10)
    container = {"name": "c", "image": "pause:2", "resources": {"requests": {"cpu": "1m"}}}
    await world.patch(
        f"{world.deployments}/web", {"spec": {"template": {"spec": {"containers": [container]}}}}
    )

    def new(pod: dict[str, Any]) -> bool:
        return bool(pod["spec"]["containers"][0]["image"] == "pause:2")

    await world.until_spread({"a": 3, "b": 7}, new)
    await world.until_spread({"a": 3, "b": 7})

    def settled(ws: dict[str, Any]) -> bool:  # the old version goes before the last new pod is known
        counts = [s["replicas"] for s in ws["status"]["subsetStatuses"]]
        return len(ws["status"].get("versionedSubsetStatuses", {})) == 1 and counts == [3, 7]

    await world.until(f"{world.spreads}/web", settled)


async def test_flapping_replicas_never_exceed_a_limit(world: World, spreading: Services) -> None:
    await world.make(world.spreads, spread("web", WEB, subset("a", 5), subset("b", 8), subset("c")))
    await world.in_force()
    await world.make(world.deployments, unscheduled("web", 4))
    await world.until_spread({"a": 4})
    most = {"a": 0}

    async def watch() -> None:
        seen: dict[str, dict[str, Any]] = {}
        async for item in list_watch(world.kube, world.pods):
            match item:
                case Page(objects=objects):
                    for raw in objects:
                        note(seen, bytes(raw))
                case Added() | Modified():
                    note(seen, bytes(item.raw))
                case Deleted():
                    note(seen, bytes(item.raw), gone=True)
            for name, count in places(seen.values()).items():
                most[name] = max(most.get(name, 0), count)

    watching = asyncio.create_task(watch())
    for replicas in (12, 3, 15, 7, 18, 2, 9, 16):
        await world.scale("web", replicas)
        await world.until(f"{world.deployments}/web", having(replicas))
    await world.scale("web", 20)
    await world.until_spread({"a": 5, "b": 8, "c": 7})
    watching.cancel()
    assert most["a"] == 5
    assert most["b"] == 8


async def test_percentages_follow_the_replicas_at_once(world: World, spreading: Services) -> None:
    await world.make(world.spreads, spread("web", WEB, subset("a", "50%"), subset("b", "50%")))
    await world.in_force()
    await world.make(world.deployments, unscheduled("web", 4))
    await world.until_spread({"a": 2, "b": 2})
    await world.scale("web", 20)
    await world.until_spread({"a": 10, "b": 10})
    await world.scale("web", 21)
    await world.until_spread({"a": 11, "b": 10})


async def until_ended(services: Services, world: World) -> None:
    """Wait until the spread's ledger says that it is gone."""
    async with await services.log() as log:
        subject = log.subjects.ledger(log.slot_of(world.namespace), "spread", world.namespace, "web")
        async with asyncio.timeout(90), log.reader([subject]) as reader:
            while True:
                for record in await reader.fetch(100, timeout_s=1):
                    event = registry.decode(record.body)
                    if isinstance(event, ChangeLedger) and event.rules is not None and event.rules.gone:
                        return


def note(seen: dict[str, dict[str, Any]], raw: bytes, *, gone: bool = False) -> None:
    pod = msgspec.json.decode(raw)
    name = pod["metadata"]["name"]
    if gone or not active(pod):
        seen.pop(name, None)
    else:
        seen[name] = pod


async def test_pods_older_than_the_spread_are_adopted_where_they_run(
    world: World, spreading: Services
) -> None:
    await world.make(world.deployments, deployment("web", 4))
    await ready(world, 4)
    await world.make(world.spreads, spread("web", WEB, subset("a", 3), subset("b")))
    found = await world.until_spread({"a": 3, "b": 1})
    assert all(pod["metadata"]["labels"]["subset"] == subset_of(pod) for pod in found.values())
    await world.until_costs({("a", "200"): 3, ("b", "100"): 1})
    # A spread that goes leaves its pods as they are.
    await world.delete(f"{world.spreads}/web")
    await until_ended(spreading, world)
    await world.scale("web", 6)
    await world.until_spread({"a": 3, "b": 1, "": 2})
    await world.make(world.spreads, spread("web", WEB, subset("a", 3), subset("b"), subset("c", 1)))
    pods = await world.until_spread({"a": 3, "b": 3})
    assert all(MATCHED_ANNOTATION in pod["metadata"]["annotations"] for pod in pods.values())
