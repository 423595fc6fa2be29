"""Nodes that cost less take the place of one that costs more: they stand before it is drained, or it is left as it was."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests import waiting
from tests.e2e.provisioning.test_removals import QUICK, budgets, never_broken, our_marks, running
from tests.e2e.provisioning.world import LOOK_EVERY_S, World
from tests.e2e.sim.world import NODES, merge, send, until
from tidewright.events import registry
from tidewright.events.decisions import EvictPod
from tidewright.events.facts import NodeObserved
from tidewright.events.provisioning import EndReplacement, MarkNode, RemoveNode, ReplaceNodes
from tidewright.provisioning.consolidation.protection import YOUNG_S

SPEED = 30
"""Log seconds in one of the wall's: rounds that must agree lie minutes apart."""
REPLICAS = 3
SETTINGS = QUICK | {
    "consolidation": "replace",
    "consolidation-budgets": "100%",
    "max-node-provision-time": "10m",
    "initial-node-group-backoff-duration": "1h",
    "max-bulk-soft-taint-count": 0,
}


async def one_dear_node(world: World, settings: dict[str, Any] = SETTINGS, **cheap: Any) -> tuple[str, str]:
    """A node that costs three times what one would that its pods would do with; the two groups."""
    dear = await world.group("dear", cpu="8", initial=1, max=2, price_per_hour=1.0)
    other = await world.group("cheap", cpu="4", max=2, price_per_hour=0.3, **cheap)
    await world.nodes(1)
    await world.configure(**settings)
    labels = {"app": "web"}
    made = labels | {
        "made-by": "web"
    }  # a pod with all labels of a ReplicaSet would be taken for one of its own
    template = world.template("1")
    template["metadata"] = {"labels": made}
    template["spec"]["terminationGracePeriodSeconds"] = 1
    await send(
        world.kube, "POST", f"/apis/apps/v1/namespaces/{world.namespace}/replicasets",
        {
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"},
            "spec": {"replicas": REPLICAS, "selector": {"matchLabels": made}, "template": template},
        },
    )  # fmt: skip
    await send(
        world.kube, "POST", budgets(world),
        {
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}},
        },
    )  # fmt: skip
    small = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}}
    await send(
        world.kube, "POST", world.pods,
        {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "beside", "labels": labels},
            "spec": {"containers": [small]},
        },
    )  # fmt: skip
    await until(world.kube, world.pods, lambda found: len(running(found)) == REPLICAS + 1, timeout_s=60)
    # The nodes are as old as this when the services first see them.
    start = time.time() + 2 * YOUNG_S
    clock = ("--speed", str(SPEED), "--log-start", str(start), "--clock-wall", str(time.time()))
    await world.start(watcher=clock)
    return dear, other


def replicas(pods: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Of the pods those that run and are made by the ReplicaSet."""
    return [pod for pod in running(pods) if pod["metadata"].get("ownerReferences")]


async def told(world: World) -> list[object]:
    """Everything that has happened by the log, in order: schedules, and that they are taken back, are the server's business."""
    log = await world.services.log()
    async with log, log.reader([log.subjects.everything], after=0) as reader:
        records = [record async for record in reader.until_current()]
    return [
        registry.decode(record.body)
        for record in records
        if log.subjects.class_token(record.subject) != "schedule"
    ]


async def given_up(world: World) -> EndReplacement:
    """How a replacement ended, that did not come to its end."""
    ended = await world.until_decided(EndReplacement, lambda _: True)
    assert ended.result == "GivenUp"
    return ended


async def assert_left_alone(world: World, group: str) -> None:
    """Nothing was ever done to the node of the group that was to be replaced, nor to its pods.

    What had come for it by then may go again: it is empty.
    """
    assert await world.decided(EvictPod) == []
    marked = [mark.target.name for mark in await world.decided(MarkNode) if mark.present]
    assert [name for name in marked if name.startswith(f"{group}-")] == []
    nodes = await until(world.kube, NODES, lambda nodes: our_marks(world, nodes) == [])
    assert not any(node["spec"].get("unschedulable") for node in nodes.values())
    pods = await until(world.kube, world.pods, lambda found: len(replicas(found)) == REPLICAS, timeout_s=60)
    assert len({pod["spec"]["nodeName"] for pod in replicas(pods)}) == 1


async def test_the_replacement_stands_before_anything_is_drained_and_no_budget_is_broken(
    world: World,
) -> None:
    # Ten minutes are twenty seconds here, in which a busy machine may not have the node ready.
    dear, cheap = await one_dear_node(world, SETTINGS | {"max-node-provision-time": "60m"})
    async with never_broken(world):
        await world.until_decided(EndReplacement, lambda ended: ended.result == "Done")
    (new,) = await world.nodes(1)
    assert (await world.target(dear), await world.target(cheap)) == (0, 1)
    pods = await until(
        world.kube, world.pods, lambda found: len(running(found)) == REPLICAS + 1, timeout_s=60
    )
    assert {pod["spec"]["nodeName"] for pod in replicas(pods)} == {new}
    said = await told(world)
    stands = next(
        number
        for number, event in enumerate(said)
        if isinstance(event, NodeObserved) and event.name == new and event.ready
    )
    ordered = next(number for number, event in enumerate(said) if isinstance(event, ReplaceNodes))
    first = next(
        number for number, event in enumerate(said) if isinstance(event, MarkNode | EvictPod | RemoveNode)
    )
    assert ordered < stands < first
    (removal,) = [event for event in said if isinstance(event, RemoveNode)]
    assert removal.node.startswith(dear)
    assert (removal.rule, len(removal.pods)) == ("replacement", REPLICAS)
    (replaced,) = [event for event in said if isinstance(event, ReplaceNodes)]
    assert (replaced.before_micro, replaced.after_micro, replaced.pods) == (1_000_000, 300_000, REPLICAS)


async def test_a_replacement_that_never_comes_leaves_the_node_as_it_was(world: World) -> None:
    dear, cheap = await one_dear_node(world, boot="3600")
    ended = await given_up(world)
    assert (ended.reason, set(ended.groups)) == ("NotInTime", {cheap})
    await waiting.until(lambda: world.target(cheap), lambda target: target == 0)
    assert await world.target(dear) == 1
    await assert_left_alone(world, dear)


@pytest.mark.parametrize("what", ["pod", "annotation"])
async def test_what_comes_in_between_keeps_the_node(world: World, what: str) -> None:
    """A pod that takes the room on the way, or somebody who asks that a pod be left alone."""
    dear, _ = await one_dear_node(world, boot="10")
    await world.until_decided(ReplaceNodes, lambda _: True)
    if what == "pod":
        for i in range(2):  # one finds room beside the others
            pod = {"apiVersion": "v1", "kind": "Pod", **world.template("3500m")}
            pod["metadata"] = {"name": f"large-{i}"}
            await send(world.kube, "POST", world.pods, pod)
    else:
        pods = await until(world.kube, world.pods, lambda found: len(replicas(found)) == REPLICAS)
        change = {"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}
        await merge(world.kube, f"{world.pods}/{replicas(pods)[0]['metadata']['name']}", change)
    await given_up(world)
    assert await world.target(dear) >= 1
    await waiting.until(
        lambda: world.decided(EndReplacement), lambda ended: len(ended) == 1, every_s=LOOK_EVERY_S
    )
    await assert_left_alone(world, dear)
