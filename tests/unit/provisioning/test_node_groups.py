"""Node groups as facts: only what is new, errors only when they last, and what is gone."""

from __future__ import annotations

from typing import Any

from tests.unit.provisioning.cloud import Cloud, group
from tidewright.cloud.errors import CloudError, Forbidden, Invalid, Unavailable
from tidewright.cloud.provider import Promise
from tidewright.cloud.providers import CloudSpec
from tidewright.events import registry
from tidewright.events.facts import ObjectFact
from tidewright.events.provisioning import CloudObserved, Instance, NodeGroupGone, NodeGroupObserved
from tidewright.log.clock import Clock
from tidewright.provisioning.fold.evolve import evolve
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.state import State
from tidewright.watcher.claims import Claims
from tidewright.watcher.clouds import AGAIN_S, FAILURES_BEFORE_SAID, INTERVAL_S, PART, CloudReader, Names
from tidewright.watcher.log_time import Stamp
from tidewright.watcher.nodegroups import busy


class Groups(CloudReader):
    """A cloud of which what is said of itself is kept apart."""

    said: list[CloudObserved]

    async def news(self) -> list[ObjectFact]:
        facts = await self.poll()
        self.said = [fact for fact in facts if isinstance(fact, CloudObserved)]
        return [fact for fact in facts if not isinstance(fact, CloudObserved)]


def poller(cloud: Cloud, name: str = "c", names: Names | None = None, claims: Claims | None = None) -> Groups:
    clock = Clock(lambda: 1000.0 + cloud.now)
    stamp = Stamp(clock.now, lambda: cloud.now, lambda: 1.0)
    provider: Any = cloud
    return Groups(CloudSpec(name, "books"), provider, names or Names(), stamp, claims=claims)


async def one(groups: Groups) -> NodeGroupObserved:
    (fact,) = await groups.news()
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
    assert await groups.news() == []
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
    assert len(await groups.news()) == 2
    cloud.engine.vanish("a", cloud.now)
    assert await groups.news() == [NodeGroupGone(at=0.0, namespace="", name="a")]
    assert await groups.news() == []


async def test_a_group_that_cannot_be_read_is_said_only_when_that_lasts() -> None:
    cloud = Cloud(group(initial=3))
    groups = poller(cloud)
    await groups.news()

    def refuse(name: str) -> None:
        if name == "target":
            raise Unavailable("no answer")

    cloud.refuse = refuse
    for _ in range(FAILURES_BEFORE_SAID - 1):
        assert await groups.news() == []
    fact = await one(groups)
    assert (fact.error, fact.target_size) == ("Unavailable", 3)
    assert await groups.news() == []
    cloud.refuse = lambda name: None
    assert (await one(groups)).error == ""


async def test_a_cloud_that_is_away_is_an_error_of_every_group() -> None:
    cloud = Cloud(group("a"), group("b"))
    groups = poller(cloud)
    await groups.news()

    def refuse(name: str) -> None:
        raise Unavailable("no answer")

    cloud.refuse = refuse
    said = [await groups.news() for _ in range(FAILURES_BEFORE_SAID)]
    assert [len(facts) for facts in said] == [0, 0, 2]


async def test_a_cloud_is_said_when_its_state_changes() -> None:
    cloud = Cloud(group())
    groups = poller(cloud)
    await groups.news()
    (ready,) = groups.said
    assert (ready.name, ready.kind, ready.promise, ready.state) == ("c", "books", "key", "ready")
    cloud.pass_time(1000)
    await groups.news()
    assert groups.said == []

    def refuse(name: str) -> None:
        raise Unavailable("no answer")

    cloud.refuse = refuse
    said = []
    for _ in range(FAILURES_BEFORE_SAID + 2):
        await groups.news()
        said += groups.said
    (failing,) = said
    assert (failing.state, failing.error, failing.message) == ("failing", "Unavailable", "no answer")
    assert failing.refreshed == 2000.0  # when it was last read
    cloud.refuse = lambda name: None
    await groups.news()
    assert [(fact.state, fact.error) for fact in groups.said] == [("ready", "")]


async def test_what_only_people_change_is_said_at_once_and_looked_at_seldom() -> None:
    cloud = Cloud(group())
    groups = poller(cloud)
    await groups.news()
    assert groups.pause_s[1] < 1.0

    def refuse(name: str) -> None:
        raise Forbidden("expired", code="ExpiredToken")

    cloud.refuse = refuse
    (fact,) = await groups.news()
    assert isinstance(fact, NodeGroupObserved)
    assert fact.error == "Forbidden"
    assert [fact.error for fact in groups.said] == ["Forbidden"]
    assert groups.pause_s[1] == 30.0


async def test_a_cloud_that_only_adds_is_said_again_now_and_then() -> None:
    cloud = Cloud(group())
    cloud.promise = Promise.DELTA
    groups = poller(cloud)
    said = []
    for _ in range(4):
        await groups.news()
        said += [fact.refreshed for fact in groups.said]
        cloud.pass_time(AGAIN_S / 2)
    assert said == [1000.0, 1000.0 + AGAIN_S]


async def test_the_first_cloud_has_the_id_as_a_name_and_another_one_says_its_own_before() -> None:
    names = Names()
    east, west = poller(Cloud(group()), "east", names), poller(Cloud(group()), "west", names)
    first, second = await one(east), await one(west)
    assert (first.name, first.cloud, first.id) == ("g", "east", "")
    assert (second.name, second.cloud, second.id) == ("west/g", "west", "g")
    # After a restart each keeps its name, whichever is read first.
    again = Names()
    again.keep("g", "east", "g")
    again.keep("west/g", "west", "g")
    assert again.name("west", "g") == "west/g"
    assert again.name("east", "g") == "g"
    again.forget("g")
    assert again.name("north", "g") == "g"


async def test_a_group_whose_machines_are_of_another_group_already_cannot_be_read_and_names_both() -> None:
    names, claims = Names(), Claims()
    first, second = Cloud(group(initial=2)), Cloud(group(initial=2))
    first.pass_time(60)
    second.pass_time(60)
    east, west = (poller(cloud, name, names, claims) for cloud, name in ((first, "east"), (second, "west")))
    assert not (await one(east)).error
    held = await one(west)
    machine = min(machine.id for machine in second.engine.instances("g"))
    assert (held.name, held.error, held.instances) == ("west/g", "Conflict", ())
    assert f"its machines {machine}, " in held.message
    assert "are of node group g of cloud east already: give each group to one cloud alone" in held.message
    assert [fact.name for fact in west.unreadable] == ["west/g"]
    assert west.pause_s[0] == INTERVAL_S  # nothing is under way there
    assert await east.news() == await west.news() == []
    first.engine.vanish("g", 0.0)
    await east.news()
    freed = await one(west)
    assert (freed.error, freed.message, len(freed.instances)) == ("", "", 2)


def test_a_machine_that_comes_is_of_the_group_that_has_the_others_whoever_is_read_first() -> None:
    claims = Claims()

    def read(name: str, *machines: str) -> str:
        there = tuple(Instance(id=machine, state="running") for machine in machines)
        return claims.judged(NodeGroupObserved(at=0.0, name=name, cloud="c", instances=there)).error

    assert (read("g", "one"), read("west/g", "one")) == ("", "Conflict")
    assert (read("west/g", "one", "two"), read("g", "one", "two")) == ("Conflict", "")


async def test_a_group_of_which_something_is_under_way_for_long_is_looked_at_more_and_more_seldom() -> None:
    cloud = Cloud(group(initial=3))
    groups = poller(cloud)
    pauses = []
    for passed in (0.0, 5.0, 15.0, 10.0, 200.0):
        cloud.now += passed  # and nothing comes
        await groups.news()
        pauses.append(groups.pause_s[0])
    assert pauses == [1.0, 1.0, 2.0, 3.0, INTERVAL_S]
    cloud.engine.increase("g", 1, cloud.now, key="k")
    await groups.news()
    assert groups.pause_s[0] == 1.0


async def test_a_group_that_cannot_be_read_is_looked_at_ever_more_seldom() -> None:
    cloud = Cloud(group(initial=3))
    cloud.pass_time(60)
    groups = poller(cloud)
    await groups.news()
    wrong: CloudError = Unavailable("no answer")

    def refuse(name: str) -> None:
        if name == "target":
            raise wrong

    cloud.refuse = refuse
    pauses = []
    for _ in range(6):
        await groups.news()
        pauses.append(groups.pause_s[0])
    assert pauses == [1.0, 2.0, 4.0, 8.0, INTERVAL_S, INTERVAL_S]
    wrong = Invalid("annotation min-size: 'x': valid is a decimal number from 0")
    fact = await one(groups)
    assert (fact.error, fact.message) == ("Invalid", wrong.message)
    assert groups.pause_s[0] == INTERVAL_S  # people have to change it
    cloud.refuse = lambda name: None
    fact = await one(groups)
    assert (fact.error, fact.message) == ("", "")


async def test_groups_are_told_as_they_are_read_and_not_all_at_the_end() -> None:
    cloud = Cloud(*(group(f"g{number:03}") for number in range(PART + 1)))
    parts = poller(cloud).parts()
    first = await anext(parts)
    assert [fact.name for fact in first] == [f"g{number:03}" for number in range(PART)]
    assert "target" in cloud.calls
    before = len(cloud.calls)
    second = await anext(parts)
    assert [fact.name for fact in second] == [f"g{PART:03}"]
    assert len(cloud.calls) > before  # it was asked about only now
    await parts.aclose()
