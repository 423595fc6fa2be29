"""A decision to scale a workload has its nodes ordered before anybody carries it out."""

from __future__ import annotations

from tests.e2e.autoscaler.world import shell
from tests.e2e.conftest import tidewright
from tests.e2e.provisioning.world import World
from tests.e2e.sim.world import send, until
from tests.e2e.spread.world import Object, clean, places, spread, subset
from tidewright.events.decisions import ScaleWorkload
from tidewright.events.provisioning import IncreaseNodeGroup, PlanScaleUp
from tidewright.events.spread import ChangeLedger

LABELS = {"app": "tw"}
SUBSET = "tw-e2e/subset"


class Jump:
    """A Deployment of four pods that all run, and a metric by which it is to have a hundred."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.metric = f"{world.namespace}.requests"
        self.deployments = f"/apis/apps/v1/namespaces/{world.namespace}/deployments"
        self.before: int = 0
        self._actuator = world.services.beside()

    async def start(self, *more: str) -> None:
        await self.world.configure(foresight="decisions", **{"scale-down-enabled": False})
        await self.world.start("watcher", "provisioning", "autoscaler", *more)
        await self._act()

    async def _act(self) -> None:
        cloud = ("--cloud", f"simulated={self.world.cluster.side_url}", "--retry-for", "20")
        await self._actuator.start("actuator", actuator=cloud)

    async def four(self) -> None:
        template = self.world.template("500m")
        spec = {"replicas": 4, "selector": {"matchLabels": LABELS}, "template": template}
        manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
        await send(self.world.kube, "POST", self.deployments, manifest)
        await until(
            self.world.kube, self.deployments,
            lambda them: them["web"].get("status", {}).get("readyReplicas") == 4, timeout_s=90,
        )  # fmt: skip
        self.before = len(await self.world.decided(IncreaseNodeGroup))

    async def up(self) -> PlanScaleUp:
        """The plan that answers the decision, which nobody has carried out."""
        world = self.world
        there = await self.pods()
        await self._actuator.supervisor.stop()
        world.cluster.push(
            {"name": self.metric, "value": 1000, "namespace": world.namespace, "labels": LABELS}
        )
        external = {
            "metricName": self.metric, "metricSelector": {"matchLabels": LABELS}, "highWatermark": "10",
            "lowWatermark": "5",
        }  # fmt: skip
        spec = {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
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
        plan = await world.until_decided(PlanScaleUp, lambda plan: any(e.decision for e in plan.expected))
        assert (await self.pods()).keys() == there.keys()
        assert len(there) == 4
        return plan

    async def placed(self) -> dict[str, Object]:
        """All hundred, once the decision is carried out."""
        await self._act()
        return await until(
            self.world.kube, self.world.pods,
            lambda pods: len(pods) == 100 and all(p["spec"].get("nodeName") for p in pods.values()),
            timeout_s=90,
        )  # fmt: skip

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
        begun = [step.strip().partition(":")[0] for step in steps][:9]
        assert begun == [
            "it began with", "it was decided", "pods were expected by it", "nodes were ordered",
            "the order was answered", "the first of 6 nodes was ready", "the last of 6 nodes was ready",
            "the first of 84 pods had its place", "the last of 84 pods had its place",
        ]  # fmt: skip
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


def in_group(name: str, limit: int | str | None = None) -> Object:
    term = {"matchExpressions": [{"key": SUBSET, "operator": "In", "values": [name]}]}
    return subset(name, limit, requiredNodeSelectorTerm=term)
