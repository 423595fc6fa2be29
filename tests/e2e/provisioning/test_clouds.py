"""Two clouds over two protocols, and one that is away: pods get nodes, and what is wrong is said."""

from __future__ import annotations

from tests.e2e.provisioning.world import World
from tests.e2e.sim.world import send, until
from tidewright.cloud.externalgrpc.server import CloudServer
from tidewright.cloud.simulated.client import SimulatedProvider
from tidewright.events.provisioning import CloudObserved, IncreaseNodeGroup, NodeGroupObserved

AWAY = "http://127.0.0.1:9"
"""Where nobody listens."""


async def test_a_cloud_that_is_away_holds_up_no_other(world: World) -> None:
    group = await world.group("grpc", max=5)
    server = CloudServer({"behind": SimulatedProvider(world.cluster.side_url)})
    await server.start("127.0.0.1:0")
    try:
        clouds = (f"away=simulated:{AWAY}", f"rpc=externalgrpc:127.0.0.1:{server.port}")
        await world.start(clouds=clouds)
        for number in range(3):
            pod = {"apiVersion": "v1", "kind": "Pod", **world.template("7")}
            pod["metadata"] = {**pod["metadata"], "name": f"p{number}"}
            await send(world.kube, "POST", world.pods, pod)
        await world.nodes(3)
        await until(
            world.kube,
            world.pods,
            lambda pods: len(pods) == 3 and all(pod["spec"].get("nodeName") for pod in pods.values()),
            timeout_s=120,
        )
        orders = [order for order in await world.decided(IncreaseNodeGroup) if order.target.name == group]
        assert (orders[0].from_size, orders[-1].size) == (0, 3)
        told = {fact.name: fact for fact in await world.observed(CloudObserved)}
        assert (told["away"].state, told["away"].error) == ("failing", "Unavailable")
        assert AWAY in told["away"].message
        assert (told["rpc"].state, told["rpc"].kind, told["rpc"].promise) == (
            "ready",
            "externalgrpc",
            "delta only",
        )
        groups = {fact.name: fact.cloud for fact in await world.observed(NodeGroupObserved)}
        assert groups[group] == "rpc"
        await world.services.until_said("watcher", "a cloud does not answer")
    finally:
        await world.services.supervisor.stop()
        await server.stop()


async def test_without_a_cloud_requests_that_only_check_are_answered(world: World) -> None:
    config = ("--config-map", f"{world.namespace}/tidewright")
    await world.configure()
    await world.services.start("watcher", "provisioning", "actuator", watcher=config)
    await world.pod_template(cpu="10m")
    spec = {"provisioningClassName": "check-capacity.autoscaling.x-k8s.io"}
    await world.ask("fits", ("worker", 1), cls=spec["provisioningClassName"])
    await world.request("fits", lambda request: bool(request.get("status", {}).get("conditions")))
    (fact,) = await world.observed(CloudObserved)
    assert (fact.name, fact.state) == ("none", "absent")
