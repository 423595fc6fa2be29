"""The simulated cloud through the provider's interface: orders become nodes, faults become errors."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.e2e.sim.world import APPS, NODES, PODS, ready_pods, send, small, template, until, workload
from tidewright.cloud.errors import Conflict, Invalid, OutOfCapacity, Throttled, Unavailable
from tidewright.cloud.provider import InstanceState, NodeTemplate, Provider, Taint
from tidewright.cloud.simulated.client import SimulatedProvider
from tidewright.sim.cloud.config import CloudConfig, GroupConfig, GroupFaults, MachineConfig
from tidewright.sim.cluster import SimCluster

SHAPE = NodeTemplate(
    capacity={"cpu": "4", "memory": "16Gi", "pods": "110"}, labels={"node.kubernetes.io/instance-type": "m4"}
)

CLOUD = CloudConfig(
    groups=(
        GroupConfig(
            id="plain", max=10, boot="0.05", delete="0.05", zones=("zone-a", "zone-b"), template=SHAPE
        ),
        GroupConfig(
            id="whole", max=10, boot="0.05", atomic=True, template=SHAPE, faults=GroupFaults(stock=2)
        ),
        GroupConfig(
            id="scarce",
            max=10,
            boot="0.05",
            template=SHAPE,
            faults=GroupFaults(stock=1, stock_refuses=False),
        ),
    ),
    machines=(MachineConfig(name="large", template=SHAPE, zones=("zone-a",), boot="0.05"),),
)


@pytest.fixture
async def cluster() -> AsyncIterator[SimCluster]:
    async with SimCluster(small(0), cloud=CLOUD) as running:
        yield running


@pytest.fixture
async def cloud(cluster: SimCluster) -> AsyncIterator[SimulatedProvider]:
    async with SimulatedProvider(cluster.side_url) as provider:
        await provider.refresh()
        yield provider


async def test_an_order_becomes_ready_nodes_that_take_pods(cluster: SimCluster, cloud: Provider) -> None:
    await send(
        cluster.kube,
        "POST",
        f"{APPS}/deployments",
        workload("Deployment", "web", replicas=6, template=template("web", cpu="1500m")),
    )
    group = next(one for one in cloud.node_groups() if one.id == "plain")
    await group.increase_size(3, key="d1", expect=0)
    assert await group.target_size() == 3
    pods = await until(cluster.kube, PODS, lambda pods: len(ready_pods(pods)) == 6)
    nodes = {pod["spec"]["nodeName"] for pod in pods.values()}
    assert nodes == {"plain-00001", "plain-00002", "plain-00003"}
    instances = await group.nodes()
    found = await until(cluster.kube, NODES, lambda nodes: len(nodes) == 3)
    assert sorted(one.id for one in instances) == sorted(
        node["spec"]["providerID"] for node in found.values()
    )
    assert {one.state for one in instances} == {InstanceState.RUNNING}
    assert found["plain-00002"]["metadata"]["labels"]["topology.kubernetes.io/zone"] == "zone-b"


async def test_the_same_key_orders_once(cloud: Provider) -> None:
    group = next(one for one in cloud.node_groups() if one.id == "plain")
    await group.increase_size(2, key="same")
    await group.increase_size(2, key="same")
    assert await group.target_size() == 2
    with pytest.raises(Conflict, match="target size is 2, not 0"):
        await group.increase_size(2, key="other", expect=0)


async def test_deleting_instances_removes_their_nodes_and_lowers_the_target(
    cluster: SimCluster, cloud: Provider
) -> None:
    group = next(one for one in cloud.node_groups() if one.id == "plain")
    await group.increase_size(3, key="up")
    await until(cluster.kube, NODES, lambda nodes: len(nodes) == 3)
    chosen = (await group.nodes())[0].id
    await group.delete_nodes([chosen], key="down")
    assert await group.target_size() == 2
    nodes = await until(cluster.kube, NODES, lambda nodes: len(nodes) == 2)
    assert chosen not in {node["spec"]["providerID"] for node in nodes.values()}
    assert chosen not in {one.id for one in await (await cloud.group("plain")).nodes()}


async def test_only_unfulfilled_orders_can_be_cancelled(cluster: SimCluster, cloud: Provider) -> None:
    group = next(one for one in cloud.node_groups() if one.id == "plain")
    await group.increase_size(1, key="up")
    await until(cluster.kube, NODES, lambda nodes: len(nodes) == 1)
    with pytest.raises(Invalid, match="only 0 orders are unfulfilled"):
        await group.decrease_target_size(-1, key="down")


async def test_an_atomic_order_beyond_the_stock_leaves_nothing(cloud: Provider) -> None:
    group = next(one for one in cloud.node_groups() if one.id == "whole")
    with pytest.raises(OutOfCapacity):
        await group.atomic_increase_size(3, key="d1")
    assert await group.target_size() == 0
    assert await group.nodes() == ()


async def test_instances_without_stock_report_an_error_and_can_be_deleted(
    cluster: SimCluster, cloud: Provider
) -> None:
    group = next(one for one in cloud.node_groups() if one.id == "scarce")
    await group.increase_size(3, key="d1")
    await until(cluster.kube, NODES, lambda nodes: len(nodes) == 1)
    broken = [one for one in await group.nodes() if one.error is not None]
    assert [one.error.error_class for one in broken if one.error] == [1, 1]
    await group.delete_nodes([one.id for one in broken], key="d2")
    assert await group.target_size() == 1


async def test_a_lost_answer_is_unavailable_and_its_repeat_does_nothing_again(
    cluster: SimCluster, cloud: Provider
) -> None:
    assert cluster.cloud is not None
    faults = cluster.cloud.engine.group("plain").config
    faults.faults = GroupFaults(lost_answer=1.0)
    group = next(one for one in cloud.node_groups() if one.id == "plain")
    with pytest.raises(Unavailable):
        await group.increase_size(2, key="d1")
    faults.faults = GroupFaults()
    await group.increase_size(2, key="d1")
    assert await group.target_size() == 2


async def test_a_throttled_call_says_when_to_come_back(cluster: SimCluster, cloud: Provider) -> None:
    assert cluster.cloud is not None
    cluster.cloud.engine.group("plain").config.faults = GroupFaults(throttled=1.0)
    group = next(one for one in cloud.node_groups() if one.id == "plain")
    with pytest.raises(Throttled) as refused:
        await group.increase_size(1, key="d1")
    assert refused.value.retry_after_s == 1.0
    cluster.cloud.engine.group("plain").config.faults = GroupFaults()


async def test_no_more_calls_are_spoiled_than_the_faults_say(cluster: SimCluster, cloud: Provider) -> None:
    assert cluster.cloud is not None
    cluster.cloud.engine.group("plain").config.faults = GroupFaults(call_failure=1.0, spoils=1)
    with pytest.raises(Unavailable):
        await cloud.group("plain")
    assert (await cloud.group("plain")).max_size


async def test_a_group_can_be_made_from_a_machine_type_and_removed_when_empty(
    cluster: SimCluster, cloud: Provider
) -> None:
    wanted = await cloud.new_node_group(
        "large", group_id="nap-a", zone="zone-a", max_size=5, taints=(Taint(key="dedicated", value="x"),)
    )
    assert not await wanted.exists()
    made = await wanted.create(key="c1")
    assert await made.exists()
    await made.increase_size(1, key="c2")
    nodes = await until(cluster.kube, NODES, lambda nodes: len(nodes) == 1)
    taints = next(iter(nodes.values()))["spec"]["taints"]
    assert {"key": "dedicated", "value": "x", "effect": "NoSchedule"} in taints
    with pytest.raises(Conflict, match="still has 1 instances"):
        await made.delete(key="c3")
    await made.delete_nodes([one.id for one in await made.nodes()], key="c4")
    await until(cluster.kube, NODES, lambda nodes: not nodes)


async def test_a_reclaimed_instance_is_replaced(cluster: SimCluster, cloud: SimulatedProvider) -> None:
    group = next(one for one in cloud.node_groups() if one.id == "plain")
    await group.increase_size(1, key="up")
    await until(cluster.kube, NODES, lambda nodes: len(nodes) == 1)
    first = (await group.nodes())[0].id
    await cloud.ask("POST", "/lose", dict, query={"id": first})
    await until(cluster.kube, NODES, lambda nodes: "plain-00002" in nodes)
    assert await group.target_size() == 1
