"""A decision to scale a workload has its nodes ordered before anybody carries it out."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from tests import waiting
from tests.e2e.autoscaler.world import shell
from tests.e2e.conftest import tidewright
from tests.e2e.provisioning.world import LOOK_EVERY_S, World
from tests.e2e.sim.world import merge, send, until
from tests.e2e.spread.world import Object, clean, places, spread, subset
from tidewright.events.autoscaler import HoldReplicas
from tidewright.events.decisions import RecordObjectEvent, ScaleWorkload
from tidewright.events.facts import NodeObserved, PodObserved, WorkloadObserved
from tidewright.events.outcomes import Rejected
from tidewright.events.provisioning import IncreaseNodeGroup, PlanScaleUp
from tidewright.events.spread import ChangeLedger
from tidewright.provisioning.fold.common import DID_NOT_COME

pytestmark = pytest.mark.timeout(400)  # a dozen programs and waits, one after the other

LABELS = {"app": "tw"}
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
STEPS = [
    "it began with", "it was decided", "pods were expected by it", "nodes were ordered",
    "the order was answered", "the first of 6 nodes was ready", "the last of 6 nodes was ready",
    "the first of 84 pods had its place", "the last of 84 pods had its place",
]  # fmt: skip
"""What is told of a jump from four pods to a hundred."""
SUBSET = "tw-e2e/subset"


class Jump:
    """A workload of four pods that all run, and a metric by which it is to have a hundred."""

    def __init__(self, world: World, target: tuple[str, str, str] = ("apps/v1", "Deployment", "web")) -> None:
        """`target` is what the autoscaler scales: its API version, kind and name."""
        self.world, self.target = world, target
        self.metric = f"{world.namespace}.requests"
        self.deployments = f"/apis/apps/v1/namespaces/{world.namespace}/deployments"
        self.before: int = 0
        self._actuator, self._autoscaler = world.services.beside(), world.services.beside()
        self._scaled = False

    async def start(self, *more: str) -> None:
        await self.world.configure(foresight="decisions", **{"scale-down-enabled": False})
        often = ("--metrics-interval", "0.3")
        await self.world.start("watcher", "provisioning", *more, watcher=often)
        await self._autoscaler.start("autoscaler")
        await self.act()

    async def decided(self) -> None:
        """Nothing is decided any more: what is refused would be decided again."""
        await self._autoscaler.supervisor.stop()

    async def act(self) -> None:
        cloud = ("--cloud", f"simulated={self.world.cluster.side_url}", "--retry-for", "20")
        await self._actuator.start("actuator", actuator=cloud)

    async def four(self) -> None:
        template = self.world.template("500m")
        spec = {"replicas": 4, "selector": {"matchLabels": LABELS}, "template": template}
        manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
        await send(self.world.kube, "POST", self.deployments, manifest)
        await self.all_four(self.deployments)

    async def all_four(self, collection: str) -> None:
        """Wait until the four run, of the one workload of a collection."""
        await until(
            self.world.kube, collection,
            lambda them: [one.get("status", {}).get("readyReplicas") for one in them.values()] == [4], timeout_s=90,
        )  # fmt: skip
        self.before = len(await self.world.decided(IncreaseNodeGroup))

    async def up(self) -> PlanScaleUp:
        """The plan that answers the decision, which nobody has carried out."""
        world = self.world
        there = await self.pods()
        await self._actuator.supervisor.stop()
        self.measured(1000)
        await self.scaled()
        plan = await world.until_decided(PlanScaleUp, lambda plan: any(e.decision for e in plan.expected))
        assert (await self.pods()).keys() == there.keys()
        assert len(there) == 4
        return plan

    def measured(self, value: int) -> None:
        world = self.world
        world.cluster.push(
            {"name": self.metric, "value": value, "namespace": world.namespace, "labels": LABELS}
        )

    async def scaled(self) -> None:
        """An autoscaler for it, where there is none."""
        if self._scaled:
            return
        self._scaled, world = True, self.world
        external = {
            "metricName": self.metric, "metricSelector": {"matchLabels": LABELS}, "highWatermark": "10",
            "lowWatermark": "5",
        }  # fmt: skip
        spec = {
            "scaleTargetRef": dict(zip(("apiVersion", "kind", "name"), self.target, strict=True)),
            "algorithm": "average", "minReplicas": 1, "maxReplicas": 100, "scaleUpLimitFactor": "5000",
            "upscaleForbiddenWindowSeconds": 1, "metrics": [{"type": "External", "external": external}],
        }  # fmt: skip
        await send(
            world.kube, "POST", f"/apis/datadoghq.com/v1alpha1/namespaces/{world.namespace}/watermarkpodautoscalers",
            {
                "apiVersion": "datadoghq.com/v1alpha1", "kind": "WatermarkPodAutoscaler",
                "metadata": {"name": "web"}, "spec": spec,
            },
        )  # fmt: skip

    async def held(self) -> None:
        """An autoscaler that has looked at it, and left it at four."""
        self.measured(30)
        await self.scaled()
        await self.world.until_decided(HoldReplicas, lambda held: held.replicas == 4)

    async def placed(self) -> dict[str, Object]:
        """All hundred, once the decision is carried out, and the log says so, which is asked next."""
        await self.act()
        pods = await until(
            self.world.kube, self.world.pods,
            lambda pods: len(pods) == 100 and all(p["spec"].get("nodeName") for p in pods.values()),
            timeout_s=90,
        )  # fmt: skip
        # Of nodes that are ready and of pods that have their place two watches tell.
        nodes = {pod["spec"]["nodeName"] for pod in pods.values()}
        await waiting.until(
            lambda: self.world.observed(PodObserved, NodeObserved),
            lambda facts: (
                {fact.name for fact in facts if isinstance(fact, PodObserved) and fact.node} >= pods.keys()
                and {fact.name for fact in facts if isinstance(fact, NodeObserved) and fact.ready} >= nodes
            ),
            every_s=LOOK_EVERY_S,
        )
        return pods

    async def pods(self) -> dict[str, Object]:
        return await until(self.world.kube, self.world.pods, bool)

    async def orders(self) -> set[tuple[str, int, int]]:
        """Those since `four`; each group is ordered at once."""
        orders = (await self.world.decided(IncreaseNodeGroup))[self.before :]
        assert len({order.target.name for order in orders}) == len(orders)
        return {(order.target.name, order.from_size, order.size) for order in orders}

    async def explained(self, asked: str) -> str:
        services = self.world.services
        code, said, complaint = await shell(
            *tidewright("explain", asked, "-n", self.world.namespace, "--nats", services.nats_url),
            *("--cluster", services.name),
        )
        assert code == 0, complaint
        return said


async def test_nodes_for_a_jump_to_a_hundred_pods_are_ordered_before_the_first_of_them_exists(
    world: World,
) -> None:
    group = await world.group("web", max=20)
    jump = Jump(world)
    await jump.start()
    await jump.four()
    there = await jump.pods()
    (expected,) = (await jump.up()).expected
    # Of the 96 pods that are to come the node that is there takes 12.
    assert (expected.workload, expected.pods) == (f"Deployment/{world.namespace}/web", 84)
    (scaled,) = [
        decision for decision in await world.decided(ScaleWorkload) if decision.id == expected.decision
    ]
    assert scaled.replicas == 100
    came = sorted((await jump.placed()).keys() - there.keys())
    said = await jump.explained(f"pod/{came[-1]}")
    assert expected.decision in said  # by which the pod's node was ordered
    assert jump.metric in said  # the sample that led to it
    for asked in ("wpa/web", "deployment/web"):  # and the other way, each step with its time
        said = await jump.explained(asked)
        steps = said.partition("Step by step")[2].splitlines()[1:]
        assert [step.strip().partition(":")[0] for step in steps][:9] == STEPS
    assert await jump.orders() == {(group, 1, 7)}


async def test_nodes_for_a_jump_are_ordered_where_the_subsets_of_a_spread_will_have_its_pods(
    world: World,
) -> None:
    few, rest = [await world.group(name, max=20, labels={SUBSET: name}) for name in ("few", "rest")]
    jump = Jump(world)
    try:
        await jump.start("spread")
        await world.services.start("spread-admission")
        await send(
            world.kube, "POST", f"/apis/apps.kruise.io/v1alpha1/namespaces/{world.namespace}/workloadspreads",
            spread("web", ("apps/v1", "Deployment", "web"), in_group("few", "30%"), in_group("rest")),
        )  # fmt: skip
        await world.until_decided(ChangeLedger, lambda change: change.rules is not None)
        await jump.four()
        assert places((await jump.pods()).values()) == {"few": 2, "rest": 2}
        # Of 28 and 68 pods the two nodes that are there take 14 each.
        assert [expected.pods for expected in (await jump.up()).expected] == [28 + 68 - 2 * 14]
        assert places((await jump.placed()).values()) == {"few": 30, "rest": 70}
        assert await jump.orders() == {(few, 1, 2), (rest, 1, 5)}
    finally:
        await world.services.supervisor.stop()
        await clean(world.kube)


FLEET = ("e2e.example.com/v1", "Fleet", "arena")


class Fleet:
    """A workload of a kind that nobody built in, and its controller: pods by a ReplicaSet of its."""

    def __init__(self, world: World, most: int | None = None) -> None:
        """`most` is how many replicas its definition lets one have."""
        self.world = world
        group, _, version = FLEET[0].partition("/")
        self.definition = f"{CRDS}/fleets.{group}"
        self.collection = f"/apis/{FLEET[0]}/namespaces/{world.namespace}/fleets"
        self.replica_sets = f"/apis/apps/v1/namespaces/{world.namespace}/replicasets"
        free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        replicas = {"type": "integer"} if most is None else {"type": "integer", "maximum": most}
        spec = free | {"properties": {"replicas": replicas}}
        schema = {"type": "object", "properties": {"spec": spec, "status": free}}
        scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
        served = {
            "name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema},
            "subresources": {"scale": scale | {"labelSelectorPath": ".status.selector"}},
        }  # fmt: skip
        names = {"kind": FLEET[1], "plural": "fleets", "singular": "fleet", "listKind": "FleetList"}
        self.manifest: Object = {
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": f"fleets.{group}"},
            "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [served]},
        }  # fmt: skip

    async def define(self) -> None:
        kube, name = self.world.kube, self.manifest["metadata"]["name"]
        await send(kube, "POST", CRDS, self.manifest)
        await until(kube, CRDS, lambda them: "Established" in str(them.get(name, {}).get("status")))

    async def make(self, replicas: int) -> None:
        kube, template = self.world.kube, self.world.template("500m")
        spec = {"replicas": replicas, "template": template}
        fleet = {"apiVersion": FLEET[0], "kind": FLEET[1], "metadata": {"name": FLEET[2]}, "spec": spec}
        made = await send(kube, "POST", self.collection, fleet)
        owner = {
            "apiVersion": FLEET[0], "kind": FLEET[1], "name": FLEET[2], "uid": made["metadata"]["uid"], "controller": True,
        }  # fmt: skip
        replica_set = {
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"name": "arena-1", "ownerReferences": [owner]},
            "spec": spec | {"selector": {"matchLabels": LABELS}},
        }  # fmt: skip
        await send(kube, "POST", self.replica_sets, replica_set)

    async def control(self) -> None:
        """As its controller does, until cancelled."""
        kube, fleet = self.world.kube, f"{self.collection}/{FLEET[2]}"
        said: Object = {}
        while True:
            wanted = (await send(kube, "GET", fleet))["spec"]["replicas"]
            replica_set = await send(kube, "GET", f"{self.replica_sets}/arena-1")
            if replica_set["spec"]["replicas"] != wanted:
                await merge(kube, f"{self.replica_sets}/arena-1", {"spec": {"replicas": wanted}})
            status = replica_set.get("status", {})
            now = {key: status.get(key, 0) for key in ("replicas", "readyReplicas")} | {"selector": "app=tw"}
            if now != said:
                await merge(kube, fleet, {"status": now})
                said = now
            await asyncio.sleep(0.1)


@contextlib.asynccontextmanager
async def four_of_a_fleet(world: World, fleet: Fleet) -> AsyncIterator[Jump]:
    """A Fleet of four pods that all run, of which an autoscaler has decided that it stays so, until the end of the block."""
    jump = Jump(world, FLEET)
    await fleet.define()
    try:
        await jump.start()
        await fleet.make(4)
        controlling = asyncio.create_task(fleet.control())
        try:
            await jump.all_four(fleet.collection)
            await jump.held()
            await waiting.until(
                lambda: world.observed(WorkloadObserved),
                lambda facts: any(fact.kind == FLEET[1] and fact.template for fact in facts),
                every_s=LOOK_EVERY_S,
            )
            yield jump
        finally:
            controlling.cancel()
            await asyncio.gather(controlling, return_exceptions=True)
    finally:
        await world.services.supervisor.stop()
        await world.kube.request("DELETE", fleet.definition)


async def test_nodes_for_a_jump_of_a_kind_that_nobody_built_in_are_ordered_before_its_pods_exist(
    world: World,
) -> None:
    group = await world.group("fleet", max=20)
    async with four_of_a_fleet(world, Fleet(world)) as jump:
        there = await jump.pods()
        (expected,) = (await jump.up()).expected
        assert (expected.workload, expected.pods) == (f"Fleet/{world.namespace}/arena", 84)
        (scaled,) = [d for d in await world.decided(ScaleWorkload) if d.id == expected.decision]
        assert (scaled.target.kind, scaled.replicas) == ("Fleet", 100)
        came = sorted((await jump.placed()).keys() - there.keys())
        said = await jump.explained(f"pod/{came[-1]}")
        assert expected.decision in said
        assert jump.metric in said
        for asked in ("wpa/web", "fleet/arena"):
            said = await jump.explained(asked)
            steps = said.partition("Step by step")[2].splitlines()[1:]
            assert [step.strip().partition(":")[0] for step in steps][:9] == STEPS
        assert await jump.orders() == {(group, 1, 7)}


async def test_a_jump_that_the_api_server_refuses_ends_what_was_expected_with_what_it_said(
    world: World,
) -> None:
    await world.group("there", initial=1, max=1)
    slow = await world.group("slow", max=20, boot="3600")  # whether its nodes come is not what is waited for
    async with four_of_a_fleet(world, Fleet(world, most=50)) as jump:
        (expected,) = (await jump.up()).expected
        assert (expected.workload, expected.pods) == (f"Fleet/{world.namespace}/arena", 84)
        await jump.decided()
        await jump.act()
        told = await world.until_decided(RecordObjectEvent, lambda event: event.reason == DID_NOT_COME)
        (refused,) = [o for o in await world.outcomes(Rejected) if o.decision == expected.decision]
        assert "50" in refused.message  # as many as a Fleet may have
        assert told.message.endswith(f"they have not come: Rejected: {refused.message}")
        assert (told.target.kind, told.target.name) == FLEET[1:]
        assert (await world.said(DID_NOT_COME))[DID_NOT_COME] == told.message
        await waiting.until(lambda: world.target(slow), lambda target: target == 0)
        assert await jump.orders() == {(slow, 0, 6)}  # and none since


def in_group(name: str, limit: int | str | None = None) -> Object:
    term = {"matchExpressions": [{"key": SUBSET, "operator": "In", "values": [name]}]}
    return subset(name, limit, requiredNodeSelectorTerm=term)
