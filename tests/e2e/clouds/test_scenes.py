"""Every kind of cloud from end to end: pods get nodes and nodes go, and what goes wrong on the way."""

from __future__ import annotations

from typing import Any

import psutil
import pytest

from tests.e2e.clouds.stages import AWAY, Stage
from tests.e2e.provisioning.world import GROUP_LABEL, LOOK_EVERY_S, World, false
from tests.e2e.sim.world import send, until
from tests.waiting import until as reached
from tidewright.events.base import Event
from tidewright.events.facts import NodeObserved
from tidewright.events.outcomes import Applied, Failed, Rejected
from tidewright.events.provisioning import (
    ANSWER_LOST,
    CloudObserved,
    DecreaseNodeGroup,
    DeleteInstances,
    IncreaseNodeGroup,
    NodeGroupObserved,
)

pytestmark = pytest.mark.asyncio(loop_scope="session")

FILLS = "3"
"""Cores of a pod that leaves no room for another one."""


async def make(world: World, *names: str) -> None:
    """Pods that take a node each."""
    for name in names:
        pod = {"apiVersion": "v1", "kind": "Pod", **world.template(FILLS)}
        pod["metadata"] = {**pod["metadata"], "name": name}
        await send(world.kube, "POST", world.pods, pod)


async def bound(world: World, *names: str) -> dict[str, str]:
    """Wait until all of these pods have nodes; pod to node."""

    def nodes(pods: dict[str, dict[str, Any]]) -> dict[str, str]:
        return {name: pod["spec"].get("nodeName", "") for name, pod in pods.items() if name in names}

    pods = await until(
        world.kube,
        world.pods,
        lambda pods: len(nodes(pods)) == len(names) and all(nodes(pods).values()),
        timeout_s=60,
    )
    return nodes(pods)


async def observed(world: World) -> set[str]:
    """Names of the groups that the watcher has told of."""
    return {fact.name for fact in await world.observed(NodeGroupObserved)}


async def ready(world: World) -> set[str]:
    """Nodes of the scene of which the log says that they are ready: of pods another watch tells."""
    return {
        fact.name
        for fact in await world.observed(NodeObserved)
        if fact.ready and fact.labels.get(GROUP_LABEL) == world.mark
    }


async def last_words(world: World) -> dict[str, CloudObserved]:
    """What was said last of each cloud."""
    return {fact.name: fact for fact in await world.observed(CloudObserved)}


async def decided(world: World, kind: type[Event], group: str) -> list[Any]:
    """Decisions about a group."""
    return [decision for decision in await world.decided(kind) if decision.target.name == group]


async def sizes(world: World, group: str) -> list[tuple[int, int]]:
    return [(order.from_size, order.size) for order in await decided(world, IncreaseNodeGroup, group)]


async def outcomes(world: World, group: str) -> list[Any]:
    """What came of the orders for a group."""
    orders = {order.id for order in await decided(world, IncreaseNodeGroup, group)}
    return [one for one in await world.outcomes(Applied, Failed, Rejected) if one.decision in orders]


async def settles_at(stage: Stage, group: str, size: int) -> None:
    await reached(lambda: stage.size(group), lambda found: found == size)


async def test_pods_get_nodes_and_nodes_that_nobody_needs_go(stage: Stage) -> None:
    world = stage.world
    group = await stage.define("one", minimum=1, size=1)
    await world.nodes(
        1
    )  # one that is on its way and that nobody here ordered counts for nothing, as in the reference (3.9)
    await reached(lambda: ready(world), lambda nodes: len(nodes) == 1, every_s=LOOK_EVERY_S)
    await make(world, "p0", "p1", "p2")
    await world.nodes(3)
    busy = (await bound(world, "p0", "p1", "p2"))["p0"]
    for name in ("p1", "p2"):
        await world.kube.request("DELETE", f"{world.pods}/{name}")
    assert await world.nodes(1) == [busy]  # and not just any of the three
    await settles_at(stage, group, 1)
    orders = await sizes(world, group)
    assert (orders[0][0], orders[-1][1]) == (1, 3)
    assert await decided(world, DeleteInstances, group)
    # That a cloud is away is said when it was for some polls.
    clouds = await reached(
        lambda: last_words(world), lambda clouds: clouds["away"].state != "ready", every_s=LOOK_EVERY_S
    )
    assert (clouds[stage.kind].kind, clouds[stage.kind].state) == (stage.kind, "ready")
    # And one that was away all the time has held up nothing.
    assert (clouds["away"].state, clouds["away"].error) == ("failing", "Unavailable")
    assert AWAY in clouds["away"].message


async def test_a_request_over_two_groups_of_which_one_refuses_leaves_nothing_behind(stage: Stage) -> None:
    world = stage.world
    good = await stage.define("a-good", maximum=2, slow=True)
    bad = await stage.define("b-bad", maximum=2, slow=True, refuses=True)
    await reached(lambda: observed(world), lambda names: {good, bad} <= names, every_s=LOOK_EVERY_S)
    await world.pod_template(cpu=FILLS)
    await world.ask("train", ("worker", 4))
    await world.request("train", false("Provisioned", "CapacityIsNotFound"))
    assert (await sizes(world, good), await sizes(world, bad)) == ([(0, 2)], [(0, 2)])
    await settles_at(stage, good, 0)
    back = [order.size for order in await decided(world, DecreaseNodeGroup, good)]
    if stage.kind == "kwok":
        return  # its machines are nodes at once: those that were seen by then go as nodes do that nobody needs
    assert back == [0]
    assert await stage.size(bad) == 0


async def test_what_a_cloud_has_no_more_of_is_ordered_elsewhere(stage: Stage) -> None:
    world = stage.world
    short = await stage.define("a-short", exhausted=True)
    await make(world, "p0")
    await reached(lambda: sizes(world, short), every_s=LOOK_EVERY_S)
    other = await stage.define("b-other")
    await bound(world, "p0")
    assert await sizes(world, other) == [(0, 1)]
    await settles_at(stage, short, 0)


async def test_an_actuator_that_dies_before_the_answer_orders_nothing_twice(stage: Stage) -> None:
    world = stage.world
    group = await stage.define("one")
    made = stage.proxy.hold()
    await make(world, "p0")
    await reached(made.is_set)
    (actuator,) = [
        child
        for child in psutil.Process().children(recursive=True)
        if {world.services.name, "actuator"} <= set(child.cmdline())
    ]
    actuator.kill()
    stage.proxy.let_go()
    await bound(world, "p0")
    assert await sizes(world, group) == [(0, 1)]
    assert await stage.size(group) == 1
    (told,) = await reached(lambda: outcomes(world, group), every_s=LOOK_EVERY_S)
    if stage.kind == "externalgrpc":  # it adds what it is asked for: it is not asked again
        assert (type(told), told.reason) == (Failed, ANSWER_LOST)
        return  # and the group rests until two looks that are minutes apart
    assert (type(told), told.found) == (Applied, True)
    await make(world, "p1")  # nothing of the first order is in the way of the next
    await bound(world, "p1")
    assert await sizes(world, group) == [(0, 1), (1, 2)]
    assert await stage.size(group) == 2
