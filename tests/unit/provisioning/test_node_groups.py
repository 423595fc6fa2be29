"""Node groups as facts: only what is new, errors only when they last, and what is gone."""

from __future__ import annotations

from typing import Any

from tests.unit.provisioning.cloud import Cloud, group
from tidewright.cloud.errors import Unavailable
from tidewright.events import registry
from tidewright.events.provisioning import NodeGroupGone, NodeGroupObserved
from tidewright.log.clock import Clock
from tidewright.provisioning.fold.evolve import evolve
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.state import State
from tidewright.watcher.log_time import Stamp
from tidewright.watcher.nodegroups import FAILURES_BEFORE_SAID, NodeGroups, busy

UNUSED: Any = None


def poller(cloud: Cloud) -> NodeGroups:
    clock = Clock(lambda: 1000.0 + cloud.now)
    stamp = Stamp(clock.now, lambda: cloud.now, lambda: 1.0)
    provider: Any = cloud
    return NodeGroups(provider, UNUSED, UNUSED, stamp, clock)


async def one(groups: NodeGroups) -> NodeGroupObserved:
    (fact,) = await groups.poll()
    assert isinstance(fact, NodeGroupObserved)
    return fact


async def test_a_group_is_said_when_it_changes_and_not_otherwise() -> None:
    cloud = Cloud(group(max=7, price_per_hour=0.25, atomic=True, zones=("z",)))
    groups = poller(cloud)
    fact = await one(groups)
    assert (fact.name, fact.max_size, fact.target_size, fact.price_micro) == ("g", 7, 0, 250_000)
    assert fact.atomic_increase
    assert fact.zone == "z"
    assert fact.template is not None
    assert fact.template.allocatable == {"cpu": 4000, "memory": 16 * 2**30, "pods": 110}
    assert await groups.poll() == []
    cloud.engine.increase("g", 2, cloud.now, key="k")
    fact = await one(groups)
    assert [i.state for i in fact.instances] == ["creating", "creating"]
    assert busy(fact)
    cloud.pass_time(60)
    fact = await one(groups)
    assert [i.state for i in fact.instances] == ["running", "running"]
    assert not busy(fact)


async def test_a_large_group_is_written_shortly_and_reads_as_it_is() -> None:
    cloud = Cloud(group(max=50_000))
    groups = poller(cloud)
    cloud.engine.increase("g", 40_000, cloud.now, key="k")
    fact = await one(groups)
    assert not fact.instances
    assert len(registry.encode(fact)) < 1_000_000
    assert busy(fact)
    cloud.pass_time(60)
    fact = await one(groups)
    assert {(i.id, i.state) for i in fact.machines} == {
        (i.id, "running") for i in cloud.engine.instances("g")
    }
    assert not busy(fact)
    state = State()
    evolve(state, fact)
    assert {i.id for i in state.groups[NodeGroupId("g")].instances} == {i.id for i in fact.machines}


async def test_instances_that_failed_say_why() -> None:
    cloud = Cloud(group())
    cloud.engine.group("g").config.faults.instance_failure = 1.0
    cloud.engine.increase("g", 1, cloud.now, key="k")
    (instance,) = (await one(poller(cloud))).instances
    assert (instance.state, instance.error_class, instance.error_code) == ("creating", 99, "BootFailed")


async def test_a_group_that_is_gone_is_said_once() -> None:
    cloud = Cloud(group("a"), group("b"))
    groups = poller(cloud)
    assert len(await groups.poll()) == 2
    cloud.engine.vanish("a", cloud.now)
    assert await groups.poll() == [NodeGroupGone(at=0.0, namespace="", name="a")]
    assert await groups.poll() == []


async def test_a_group_that_cannot_be_read_is_said_only_when_that_lasts() -> None:
    cloud = Cloud(group(initial=3))
    groups = poller(cloud)
    await groups.poll()

    def refuse(name: str) -> None:
        if name == "target":
            raise Unavailable("no answer")

    cloud.refuse = refuse
    for _ in range(FAILURES_BEFORE_SAID - 1):
        assert await groups.poll() == []
    fact = await one(groups)
    assert (fact.error, fact.target_size) == ("Unavailable", 3)
    assert await groups.poll() == []
    cloud.refuse = lambda name: None
    assert (await one(groups)).error == ""


async def test_a_cloud_that_is_away_is_an_error_of_every_group() -> None:
    cloud = Cloud(group("a"), group("b"))
    groups = poller(cloud)
    await groups.poll()

    def refuse(name: str) -> None:
        raise Unavailable("no answer")

    cloud.refuse = refuse
    said = [await groups.poll() for _ in range(FAILURES_BEFORE_SAID)]
    assert [len(facts) for facts in said] == [0, 0, 2]
