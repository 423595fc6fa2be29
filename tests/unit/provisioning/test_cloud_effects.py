"""Effects on node groups: absolute, done once, and nothing is left of what was refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.provisioning.cloud import SHAPE, Cloud, group
from tidewright.actuator.allowance import Allowance
from tidewright.actuator.cloud import CloudApplier, Clouds
from tidewright.actuator.verdict import Again, Done, Lost, Refused, Result
from tidewright.cloud.errors import Conflict, OutOfCapacity, Throttled, Unavailable
from tidewright.cloud.provider import MachineType, Promise
from tidewright.events.base import ObjectRef
from tidewright.events.decisions import Effect
from tidewright.events.provisioning import (
    CreateNodeGroup,
    DecreaseNodeGroup,
    DeleteInstances,
    DeleteNodeGroup,
    IncreaseNodeGroup,
    TemplateNode,
)


def ref(name: str = "g") -> ObjectRef:
    return ObjectRef(api_version="cloud/v1", kind="NodeGroup", name=name)


def increase(size: int, from_size: int, **more: Any) -> IncreaseNodeGroup:
    return IncreaseNodeGroup(at=1.0, id=f"d{size}", target=ref(), size=size, from_size=from_size, **more)


def decrease(size: int, from_size: int) -> DecreaseNodeGroup:
    return DecreaseNodeGroup(at=1.0, id=f"e{size}", target=ref(), size=size, from_size=from_size)


async def spend() -> None:
    """The budget of a test has no end."""


async def attempt(cloud: Cloud, effect: Effect) -> Result:
    provider: Any = cloud  # a part of it
    return await CloudApplier(provider).attempt(effect, Allowance(spend), effect.target.name)


async def test_an_increase_sets_the_size_and_its_repeat_finds_it() -> None:
    cloud = Cloud(group())
    assert await attempt(cloud, increase(3, 0)) == Done(result={"size": 3})
    assert await attempt(cloud, increase(3, 0)) == Done(found=True, result={"size": 3})
    assert cloud.engine.group("g").target == 3
    assert cloud.calls.count("increase") == 1


async def test_an_increase_whose_answer_was_lost_is_found_by_the_next_attempt() -> None:
    cloud = Cloud(group())
    cloud.lose = [("increase", Unavailable("no answer"))]
    assert await attempt(cloud, increase(3, 0)) == Again("Unavailable", "no answer")
    assert await attempt(cloud, increase(3, 0)) == Done(found=True, result={"size": 3})
    assert cloud.engine.group("g").target == 3


async def test_a_group_of_another_size_than_the_decision_saw_is_left_alone() -> None:
    cloud = Cloud(group(initial=5))
    refused = await attempt(cloud, increase(3, 0))
    assert isinstance(refused, Refused)
    assert refused.reason == "Conflict"
    assert refused.message == "target size of g is 5, not 0 as the decision saw"
    assert cloud.engine.group("g").target == 5


async def test_a_change_between_look_and_order_is_looked_at_again() -> None:
    cloud = Cloud(group())
    refusals = [Conflict("changed")]

    def refuse(name: str) -> None:
        if name == "increase" and refusals:
            raise refusals.pop()

    cloud.refuse = refuse
    assert await attempt(cloud, increase(3, 0)) == Done(result={"size": 3})


async def test_what_was_ordered_of_a_refused_increase_is_taken_back() -> None:
    cloud = Cloud(group())
    cloud.lose = [("increase", OutOfCapacity("no more", code="StockOut"))]
    order = cloud.engine.increase

    def half(name: str, delta: int, now: float, **more: Any) -> None:
        order(name, delta // 2, now, **more)

    setattr(cloud.engine, "increase", half)  # noqa: B010 - a cloud that does half of what it is asked
    refused = await attempt(cloud, increase(4, 0))
    assert refused == Refused("OutOfCapacity", "no more; 2 nodes that were ordered are taken back")
    assert cloud.engine.group("g").target == 0
    assert cloud.engine.instances("g") == []


async def test_the_clouds_answers_become_reasons() -> None:
    over_stock = Cloud(group(max=2))
    refused = await attempt(over_stock, increase(3, 0))
    assert isinstance(refused, Refused)
    assert refused.reason == "Invalid"
    over_quota = Cloud(group(), quotas={"cpu": 8})
    refused = await attempt(over_quota, increase(3, 0))
    assert isinstance(refused, Refused)
    assert refused.reason == "QuotaExceeded"
    assert "(cpuQuotaExceeded)" in refused.message
    gone = await attempt(Cloud(group("other")), increase(3, 0))
    assert gone == Refused("NotFound", "no node group 'g'; there are: other")
    throttled = Cloud(group())

    def refuse(name: str) -> None:
        raise Throttled("slowly", retry_after_s=2.0)

    throttled.refuse = refuse
    assert await attempt(throttled, increase(3, 0)) == Again("Throttled", "slowly", 2.0)


async def test_an_atomic_increase_uses_the_native_call_where_there_is_one() -> None:
    native, plain = Cloud(group(atomic=True)), Cloud(group())
    await attempt(native, increase(3, 0, atomic=True))
    await attempt(plain, increase(3, 0, atomic=True))
    assert "atomic" in native.calls
    assert "increase" not in native.calls
    assert "increase" in plain.calls
    assert "atomic" not in plain.calls


async def test_a_decrease_takes_back_only_what_has_not_come() -> None:
    cloud = Cloud(group())
    await attempt(cloud, increase(3, 0))
    cloud.pass_time(60)  # three have come
    await attempt(cloud, increase(5, 3))
    assert await attempt(cloud, decrease(0, 5)) == Done(result={"size": 3})
    assert await attempt(cloud, decrease(0, 5)) == Done(found=True, result={"size": 3})
    assert len(cloud.engine.instances("g")) == 3


async def test_a_decrease_leaves_a_group_alone_that_grew_meanwhile() -> None:
    cloud = Cloud(group(initial=7))
    refused = await attempt(cloud, decrease(2, 5))
    assert isinstance(refused, Refused)
    assert refused.reason == "Conflict"
    assert cloud.engine.group("g").target == 7


async def test_deleting_instances_that_are_gone_is_done_already() -> None:
    cloud = Cloud(group(initial=2))
    cloud.pass_time(60)
    ids = tuple(one.id for one in cloud.engine.instances("g"))
    effect = DeleteInstances(at=1.0, id="x", target=ref(), instances=ids[:1])
    assert await attempt(cloud, effect) == Done(result={"size": 1, "deleted": 1})
    assert await attempt(cloud, effect) == Done(found=True, result={"size": 1})


async def test_deleting_below_the_minimum_is_refused_unless_forced() -> None:
    cloud = Cloud(group(min=2, initial=2))
    cloud.pass_time(60)
    ids = tuple(one.id for one in cloud.engine.instances("g"))
    refused = await attempt(cloud, DeleteInstances(at=1.0, id="x", target=ref(), instances=ids))
    assert isinstance(refused, Refused)
    assert "below the minimum 2" in refused.message
    forced = DeleteInstances(at=1.0, id="y", target=ref(), instances=ids, force=True)
    assert await attempt(cloud, forced) == Done(result={"size": 0, "deleted": 2})


async def test_a_group_is_made_and_removed_once() -> None:
    cloud = Cloud()
    template = TemplateNode(labels={"a": "b"}, allocatable={"cpu": 4000})
    make = CreateNodeGroup(at=1.0, id="c", target=ref(), machine_type="m4", template=template, max_size=5)
    assert await attempt(cloud, make) == Done()
    assert await attempt(cloud, make) == Done()
    assert cloud.calls.count("create") == 1
    other = CreateNodeGroup(at=1.0, id="o", target=ref(), machine_type="m8", template=template, max_size=5)
    refused = await attempt(cloud, other)
    assert isinstance(refused, Refused)
    assert refused.reason == "Conflict"
    remove = DeleteNodeGroup(at=2.0, id="r", target=ref())
    assert await attempt(cloud, remove) == Done()
    assert await attempt(cloud, remove) == Done(found=True)


async def test_an_effect_reads_its_group_once_and_writes_once() -> None:
    cloud = Cloud(group(initial=2), group("other"))
    cloud.pass_time(60)
    ids = tuple(one.id for one in cloud.engine.instances("g"))
    for effect, calls in (
        (increase(4, 2), ["group", "target", "increase"]),
        (decrease(2, 4), ["group", "target", "nodes", "decrease"]),
        (
            DeleteInstances(at=1.0, id="x", target=ref(), instances=ids[:1]),
            ["group", "nodes", "delete", "target"],
        ),
    ):
        cloud.calls.clear()
        assert isinstance(await attempt(cloud, effect), Done)
        # What a group said when it was read, and its instances, are that read: `target` is no call of its own.
        assert cloud.calls == calls


@pytest.mark.parametrize("promise", Promise)
async def test_a_lost_answer_is_never_repeated_at_a_cloud_that_only_adds(promise: Promise) -> None:
    only_adds = promise is Promise.DELTA
    cloud = Cloud(group(initial=2))
    cloud.promise = promise
    cloud.pass_time(60)
    ids = tuple(one.id for one in cloud.engine.instances("g"))
    for call, effect in (
        ("increase", increase(5, 2)),
        ("decrease", decrease(2, 5)),
        ("delete", DeleteInstances(at=1.0, id="x", target=ref(), instances=ids[:1])),
    ):
        cloud.lose = [(call, Unavailable("no answer"))]
        result = await attempt(cloud, effect)
        assert isinstance(result, Lost if only_adds else Again)
        assert result.reason == ("Unknown" if only_adds else "Unavailable")
        if not only_adds:
            assert await attempt(cloud, effect) == Done(
                found=True, result={"size": cloud.engine.group("g").target}
            )


async def test_what_a_cloud_refuses_clearly_is_tried_again_whatever_it_promises() -> None:
    cloud = Cloud(group())
    cloud.promise = Promise.DELTA

    def refuse(name: str) -> None:
        if name == "increase":
            raise Throttled("slowly", retry_after_s=2.0)

    cloud.refuse = refuse
    assert await attempt(cloud, increase(3, 0)) == Again("Throttled", "slowly", 2.0)


def clouds(**providers: Any) -> Clouds:
    async def whose(name: str) -> tuple[str, str]:
        cloud, slash, group_id = name.partition("/")
        return (cloud, group_id) if slash else ("", name)

    return Clouds(providers, whose)


async def at_its_cloud(among: Clouds, effect: Effect) -> Result:
    return await among.attempt(effect, Allowance(spend), await among.whose(effect.target.name))


async def test_an_effect_goes_to_the_cloud_that_has_its_group() -> None:
    east, west = Cloud(group()), Cloud(group())
    both = clouds(east=east, west=west)
    effect = IncreaseNodeGroup(at=1.0, id="d", target=ref("west/g"), size=3, from_size=0)
    assert await at_its_cloud(both, effect) == Done(result={"size": 3})
    assert (east.engine.group("g").target, west.engine.group("g").target) == (0, 3)
    assert east.calls == []
    elsewhere = IncreaseNodeGroup(at=1.0, id="e", target=ref("north/g"), size=3, from_size=0)
    refused = await at_its_cloud(both, elsewhere)
    assert isinstance(refused, Refused)
    assert refused.message == (
        "node group north/g is of cloud north, which the actuator was not started with (--cloud); it has: east, west"
    )


async def test_a_group_is_made_by_the_cloud_that_has_its_machine_type() -> None:
    east, west = Cloud(), Cloud()
    machine = MachineType(name="m4", template=SHAPE)

    async def machine_types() -> tuple[MachineType, ...]:
        return (machine,)

    west.machine_types = machine_types  # type: ignore[method-assign]
    template = TemplateNode(labels={"a": "b"}, allocatable={"cpu": 4000})
    make = CreateNodeGroup(at=1.0, id="c", target=ref(), machine_type="m4", template=template, max_size=5)
    assert await at_its_cloud(clouds(east=east, west=west), make) == Done()
    assert (list(east.engine.groups), list(west.engine.groups)) == ([], ["g"])
