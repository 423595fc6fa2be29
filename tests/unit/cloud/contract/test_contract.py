"""The contract of `tidewright.cloud.provider`, held by every kind of cloud."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.unit.cloud.contract.bench import Bench, Fault
from tests.unit.cloud.contract.benches import BENCHES
from tests.unit.cloud.contract.kubernetes import KubernetesBench
from tidewright.actuator import cloud
from tidewright.actuator.allowance import Allowance
from tidewright.actuator.cloud import CloudApplier
from tidewright.actuator.verdict import Again, Done, Lost, Refused, Result
from tidewright.cloud.errors import (
    ERRORS,
    Conflict,
    Invalid,
    NotFound,
    NotImplementedByCloud,
    OutOfCapacity,
    QuotaExceeded,
    Unavailable,
)
from tidewright.cloud.provider import GroupOptions, InstanceState, Promise
from tidewright.cloud.providers import KINDS
from tidewright.events.base import ObjectRef
from tidewright.events.decisions import Effect
from tidewright.events.provisioning import DecreaseNodeGroup, DeleteInstances, IncreaseNodeGroup
from tidewright.kube.client import Kube


@pytest.fixture(params=BENCHES, ids=lambda bench: bench.kind)
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    kind: type[Bench] = request.param
    kubeconfig = request.config.getoption("--kubeconfig")
    if kubeconfig is not None and not issubclass(kind, KubernetesBench):
        pytest.skip("it is no cluster's")
    case = request.function.__name__.removeprefix("test_")
    if case in kind.skips:
        pytest.skip(kind.skips[case])
    made = kind()
    if isinstance(made, KubernetesBench):
        made.kubeconfig = kubeconfig
    async with made as running:
        yield running


@pytest.fixture(scope="module", autouse=True)
def left_as_found(request: pytest.FixtureRequest) -> Iterator[None]:
    """Definitions that were not on the given cluster before are gone after all cases."""
    yield
    kubeconfig = request.config.getoption("--kubeconfig")
    if kubeconfig is not None:

        async def remove() -> None:
            async with await Kube.connect(kubeconfig) as kube:
                for path in KubernetesBench.leftovers:
                    await kube.request("DELETE", path)

        asyncio.run(remove())


def test_every_kind_is_on_a_bench_and_what_it_skips_is_a_case_with_a_reason() -> None:
    module = sys.modules[__name__]
    cases = {
        name.removeprefix("test_")
        for name, case in inspect.getmembers(module, inspect.iscoroutinefunction)
        if "bench" in inspect.signature(case).parameters
    }
    assert {bench.kind for bench in BENCHES} == set(KINDS)
    for bench in BENCHES:
        assert set(bench.skips) <= cases, f"{bench.kind} skips what is no case"
        assert all(len(reason) > 20 for reason in bench.skips.values()), f"{bench.kind} says no reason"
        assert len(bench.skips) < len(cases) / 2, f"{bench.kind} is hardly held to anything"


# --- Looking ------------------------------------------------------------------------------------


async def test_sizes_are_as_defined(bench: Bench) -> None:
    name = await bench.define("one", minimum=1, maximum=7, size=2)
    group = await bench.group(name)
    assert (group.min_size, group.max_size, await group.target_size()) == (1, 7, 2)
    afresh = await bench.provider.group(name)
    assert (afresh.id, afresh.min_size, afresh.max_size, await afresh.target_size()) == (name, 1, 7, 2)
    ids = await bench.running(name)
    assert len(set(ids)) == 2


async def test_a_node_is_found_in_its_group_and_a_foreign_one_in_none(bench: Bench) -> None:
    name = await bench.define("one", size=1)
    await bench.define("other", size=1)
    (machine,) = await bench.running(name)
    found = await bench.provider.node_group_for_node(machine, {})
    assert found is not None
    assert found.id == name
    assert await bench.provider.node_group_for_node("elsewhere://nothing/of-ours", {}) is None


async def test_groups_change_with_a_refresh_and_not_before(bench: Bench) -> None:
    first = await bench.define("one", size=1)
    await bench.provider.refresh()
    second = await bench.define("other", size=1)
    assert [group.id for group in bench.provider.node_groups()] == [first]
    await bench.provider.refresh()
    assert [group.id for group in bench.provider.node_groups()] == sorted([first, second])
    await bench.remove(first)
    assert first in [group.id for group in bench.provider.node_groups()]
    await bench.provider.refresh()
    assert [group.id for group in bench.provider.node_groups()] == [second]


async def test_a_group_that_is_none_is_not_found(bench: Bench) -> None:
    name = await bench.define("one")
    await bench.provider.refresh()
    with pytest.raises(NotFound) as refused:
        await bench.provider.group("nowhere")
    assert name in refused.value.message


async def test_a_template_is_there_before_the_first_node_and_after_it(bench: Bench) -> None:
    name = await bench.define("one", size=0)
    before = await (await bench.group(name)).template()
    assert before.capacity["cpu"] == "4"
    assert before.capacity["memory"] in ("16Gi", f"{16 * 1024}Mi", str(16 * 2**30))
    assert "pods" in before.capacity
    await (await bench.provider.group(name)).increase_size(1, key="k", expect=0)
    await bench.come(name)
    assert (await (await bench.group(name)).template()).capacity["cpu"] == "4"


async def test_options_of_a_group_leave_the_defaults_where_it_has_none(bench: Bench) -> None:
    name = await bench.define("one")
    defaults = GroupOptions(scale_down_unneeded_s=600.0, max_node_startup_s=900.0)
    assert await (await bench.group(name)).options(defaults) == defaults


# --- Ordering -----------------------------------------------------------------------------------


async def test_an_order_is_taken_at_once_and_machines_follow(bench: Bench) -> None:
    name = await bench.define("one", size=1)
    before = await bench.running(name)
    await (await bench.provider.group(name)).increase_size(2, key="k", expect=1)
    assert await bench.size(name) == 3
    assert await bench.running(name) == before
    await bench.come(name)
    after = await bench.running(name)
    assert len(after) == 3
    assert set(before) < set(after)
    assert await bench.size(name) == 3


async def test_what_is_ordered_and_not_there_is_among_the_instances(bench: Bench) -> None:
    name = await bench.define("one", size=1)
    await (await bench.provider.group(name)).increase_size(2, key="k", expect=1)
    states = sorted(str(one.state) for one in await bench.alive(name))
    assert states == sorted(map(str, (InstanceState.RUNNING, InstanceState.CREATING, InstanceState.CREATING)))


async def test_an_order_beyond_the_maximum_is_refused_and_changes_nothing(bench: Bench) -> None:
    name = await bench.define("one", maximum=3, size=2)
    with pytest.raises(Invalid) as refused:
        await (await bench.provider.group(name)).increase_size(2, key="k", expect=2)
    assert "maximum 3" in refused.value.message
    with pytest.raises(Invalid):
        await (await bench.provider.group(name)).increase_size(0, key="l", expect=2)
    assert await bench.size(name) == 2


async def test_a_repeat_does_what_the_cloud_promises(bench: Bench) -> None:
    name = await bench.define("one", size=1)
    group = await bench.provider.group(name)
    await group.increase_size(2, key="k", expect=1)
    match bench.provider.promise:
        case Promise.KEY:
            await group.increase_size(2, key="k", expect=1)
            assert await bench.size(name) == 3
        case Promise.ABSOLUTE:
            # The size that it was founded on is no longer there, and what it wanted is.
            with pytest.raises(Conflict):
                await (await bench.provider.group(name)).increase_size(2, key="k", expect=1)
            assert await bench.size(name) == 3
        case Promise.DELTA:
            await (await bench.provider.group(name)).increase_size(2, key="k")
            assert await bench.size(name) == 5


async def test_a_size_that_is_not_as_expected_is_a_conflict(bench: Bench) -> None:
    name = await bench.define("one", size=1)
    with pytest.raises(Conflict):
        await (await bench.provider.group(name)).increase_size(2, key="k", expect=4)
    assert await bench.size(name) == 1


async def test_a_size_that_somebody_else_sets_between_look_and_order_is_a_conflict(bench: Bench) -> None:
    name = await bench.define("one", size=1)
    group = await bench.provider.group(name)
    await bench.resize(name, 2)
    with pytest.raises(Conflict):
        await group.increase_size(2, key="k", expect=1)
    assert await bench.size(name) == 2


async def test_a_stock_out_is_told_apart(bench: Bench) -> None:
    name = await bench.define("one", size=1)
    await bench.exhaust(name)
    try:
        await (await bench.provider.group(name)).increase_size(2, key="k", expect=1)
    except (OutOfCapacity, QuotaExceeded):
        assert await bench.size(name) == 1
        return
    failed = [one.error for one in await bench.alive(name) if one.error is not None]
    assert [int(error.error_class) for error in failed] == [1, 1]
    assert all(error.code for error in failed)


# --- Cancelling and deleting --------------------------------------------------------------------


async def test_orders_that_are_not_fulfilled_can_be_cancelled(bench: Bench) -> None:
    name = await bench.define("one", size=2)
    before = await bench.running(name)
    await (await bench.provider.group(name)).increase_size(3, key="k", expect=2)
    await (await bench.provider.group(name)).decrease_target_size(-2, key="l", expect=5)
    assert await bench.size(name) == 3
    assert await bench.running(name) == before


async def test_cancelling_never_deletes_a_machine(bench: Bench) -> None:
    name = await bench.define("one", size=3)
    before = await bench.running(name)
    with pytest.raises((Invalid, Conflict)):
        await (await bench.provider.group(name)).decrease_target_size(-1, key="k", expect=3)
    assert await bench.size(name) == 3
    assert await bench.running(name) == before


async def test_a_deletion_lowers_the_size_by_as_many(bench: Bench) -> None:
    name = await bench.define("one", size=3)
    first, *others = await bench.running(name)
    await (await bench.provider.group(name)).delete_nodes([first], key="k")
    assert await bench.size(name) == 2
    assert await bench.running(name) == others


async def test_a_deletion_below_the_minimum_is_refused(bench: Bench) -> None:
    name = await bench.define("one", minimum=2, size=3)
    before = await bench.running(name)
    with pytest.raises(Invalid) as refused:
        await (await bench.provider.group(name)).delete_nodes(before[:2], key="k")
    assert "minimum 2" in refused.value.message
    assert await bench.running(name) == before
    assert await bench.size(name) == 3


async def test_a_machine_of_another_group_is_not_deleted(bench: Bench) -> None:
    name, other = await bench.define("one", size=2), await bench.define("other", size=2)
    foreign = await bench.running(other)
    await bench.provider.refresh()
    with pytest.raises(Invalid):
        await (await bench.provider.group(name)).delete_nodes(foreign[:1], key="k")
    assert await bench.running(other) == foreign
    assert (await bench.size(name), await bench.size(other)) == (2, 2)


# --- Failing ------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["Throttled", "Forbidden", "Unavailable"])
async def test_refusals_have_their_class(bench: Bench, fault: Fault) -> None:
    name = await bench.define("one", size=1)
    group = await bench.group(name)
    bench.spoil(fault)
    with pytest.raises(ERRORS[fault]):
        await bench.provider.refresh()
    # What was known stays known.
    assert [one.id for one in bench.provider.node_groups()] == [name]
    bench.spoil(fault)
    with pytest.raises(ERRORS[fault]):
        await group.increase_size(1, key="k", expect=1)
    assert await bench.size(name) == 1


async def test_a_cloud_that_hangs_is_unavailable_in_time(bench: Bench) -> None:
    await bench.define("one", size=1)
    bench.hang()
    with pytest.raises(Unavailable):
        await bench.short.refresh()


async def spend() -> None:
    """The budget of a test has no end."""


async def attempt(bench: Bench, effect: Effect) -> Result:
    return await CloudApplier(bench.provider).attempt(effect, Allowance(spend), effect.target.name)


@pytest.mark.parametrize("what", ["increase", "decrease", "delete"])
async def test_a_lost_answer_leads_to_one_change(bench: Bench, what: str) -> None:
    name = await bench.define("one", size=2)
    await bench.provider.refresh()
    target = ObjectRef(api_version="cloud/v1", kind="NodeGroup", name=name)
    before = await bench.running(name)
    effect: Effect
    match what:
        case "increase":
            effect = IncreaseNodeGroup(at=1.0, id="d", target=target, size=4, from_size=2)
            wanted = 4
        case "decrease":
            await (await bench.provider.group(name)).increase_size(3, key="k", expect=2)
            effect = DecreaseNodeGroup(at=1.0, id="d", target=target, size=3, from_size=5)
            wanted = 3
        case _:
            effect = DeleteInstances(at=1.0, id="d", target=target, instances=(before[0],))
            wanted = 1
    bench.lose_answer()
    first = await attempt(bench, effect)
    if bench.provider.promise is Promise.DELTA:
        assert isinstance(first, Lost)
    elif isinstance(first, Again):
        assert first.reason == "Unavailable"
        assert isinstance(await attempt(bench, effect), Done)
    else:
        # A connection that was cut is taken up anew by the client for what may be repeated by its nature (DELETE).
        assert isinstance(first, Done)
        assert what != "increase"
    assert await bench.size(name) == wanted
    expected = before[1:] if what == "delete" else before
    assert await bench.running(name) == expected


async def test_an_instance_stays_when_something_is_found_on_it_while_its_group_is_looked_at(
    bench: Bench,
) -> None:
    name = await bench.define("one", size=2)
    await bench.provider.refresh()
    before = await bench.running(name)
    target = ObjectRef(api_version="cloud/v1", kind="NodeGroup", name=name)
    effect = DeleteInstances(at=1.0, id="d", target=target, instances=(before[0],))
    kept, applier = Refused("NodeNotEmpty", "pod shop/web is on it"), CloudApplier(bench.provider)

    async def occupied() -> Refused:
        return kept

    assert await applier.attempt(effect, Allowance(spend), name, occupied) is kept
    nowhere = await applier.attempt(effect, Allowance(spend), "no-such-group", occupied)
    assert nowhere is kept  # which is about the node, whatever becomes of the group
    assert await bench.running(name) == before
    assert isinstance(await applier.attempt(effect, Allowance(spend), name), Done)


async def test_others_are_not_kept_from_the_cloud_by_who_looks_at_nodes(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cloud, "AT_ONCE", 1)
    one, other = await bench.define("one", size=2), await bench.define("other", size=1)
    await bench.provider.refresh()
    before = await bench.running(one)
    target = ObjectRef(api_version="cloud/v1", kind="NodeGroup", name=one)
    deletion = DeleteInstances(at=1.0, id="d", target=target, instances=(before[0],))
    target = ObjectRef(api_version="cloud/v1", kind="NodeGroup", name=other)
    increase = IncreaseNodeGroup(at=1.0, id="i", target=target, size=2, from_size=1)
    applier, looks, seen = CloudApplier(bench.provider), asyncio.Event(), asyncio.Event()

    async def occupied() -> None:
        looks.set()
        await seen.wait()

    async with asyncio.timeout(60):
        deleting = asyncio.create_task(applier.attempt(deletion, Allowance(spend), one, occupied))
        await looks.wait()
        assert isinstance(await applier.attempt(increase, Allowance(spend), other), Done)
        seen.set()
        assert isinstance(await deleting, Done)


# --- What not every cloud has -------------------------------------------------------------------


async def test_optional_calls_say_that_they_are_not_there(bench: Bench) -> None:
    name = await bench.define("one", size=1)
    group = await bench.group(name)
    if not group.atomic:
        with pytest.raises(NotImplementedByCloud):
            await group.atomic_increase_size(1, key="k", expect=1)
    try:
        await bench.provider.machine_types()
    except NotImplementedByCloud:
        with pytest.raises(NotImplementedByCloud):
            await bench.provider.new_node_group("large")
    assert await bench.size(name) == 1
