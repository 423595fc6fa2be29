"""Without any cloud: what needs none works."""

from __future__ import annotations

from tests.e2e.provisioning.world import World
from tidewright.events.provisioning import CloudObserved


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
