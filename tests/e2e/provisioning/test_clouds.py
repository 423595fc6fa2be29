"""Without any cloud: what needs none works."""

from __future__ import annotations

from tests import waiting
from tests.e2e.provisioning.world import LOOK_EVERY_S, World
from tidewright.events.provisioning import CloudObserved


async def test_without_a_cloud_requests_that_only_check_are_answered(world: World) -> None:
    config = ("--config-map", f"{world.namespace}/tidewright")
    await world.configure()
    await world.services.start("watcher", "provisioning", "actuator", watcher=config)
    await world.pod_template(cpu="10m")
    spec = {"provisioningClassName": "check-capacity.autoscaling.x-k8s.io"}
    await world.ask("fits", ("worker", 1), cls=spec["provisioningClassName"])
    await world.request("fits", lambda request: bool(request.get("status", {}).get("conditions")))
    (fact,) = await waiting.until(lambda: world.observed(CloudObserved), every_s=LOOK_EVERY_S)
    assert (fact.name, fact.state) == ("none", "absent")
