"""The simulated cloud's books."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewright.cloud.errors import CloudError, Conflict, Invalid, NotFound, OutOfCapacity, QuotaExceeded
from tidewright.cloud.provider import InstanceState, NodeTemplate
from tidewright.sim.cloud.config import CloudConfig, ConfigError, GroupConfig, GroupFaults, parse
from tidewright.sim.cloud.engine import Engine

SHAPE = NodeTemplate(capacity={"cpu": "4", "memory": "16Gi", "pods": "110"})


def engine(
    faults: GroupFaults | None = None, quotas: dict[str, int] | None = None, **group: object
) -> Engine:
    config = GroupConfig(
        **{
            "id": "g",
            "max": 10,
            "boot": "60",
            "delete": "5",
            "template": SHAPE,
            "faults": faults or GroupFaults(),
            **group,
        }  # type: ignore[arg-type]  # a mixed bag of keywords
    )
    return Engine(CloudConfig(groups=(config,), quotas=quotas or {}), 0.0)


def test_an_order_is_creating_until_its_boot_delay_has_passed() -> None:
    cloud = engine()
    cloud.increase("g", 2, 100.0, key="a")
    assert {one.state for one in cloud.instances("g")} == {InstanceState.CREATING}
    assert cloud.next_due() == 160.0
    assert cloud.due(159.0) == []
    assert [step.create for step in cloud.due(160.0)] == [True, True]
    assert {one.state for one in cloud.instances("g")} == {InstanceState.RUNNING}
    assert cloud.due(1000.0) == []


def test_sizes_stay_within_their_bounds() -> None:
    cloud = engine(min=1, initial=1)
    with pytest.raises(Invalid, match=r"size 1 \+ 10 is above the maximum 10"):
        cloud.increase("g", 10, 0.0, key="a")
    with pytest.raises(Invalid, match="the delta must be > 0"):
        cloud.increase("g", 0, 0.0, key="b")
    cloud.due(60.0)
    instance = cloud.instances("g")[0].id
    with pytest.raises(Invalid, match="below the minimum 1"):
        cloud.delete("g", [instance], 0.0, key="c")
    cloud.delete("g", [instance], 0.0, key="d", force=True)
    assert cloud.group("g").target == 0


def test_a_refusal_is_repeated_with_its_key_even_when_it_would_succeed_now() -> None:
    cloud = engine(GroupFaults(stock=0))
    with pytest.raises(OutOfCapacity):
        cloud.increase("g", 1, 0.0, key="a")
    cloud.group("g").config.faults = GroupFaults()
    with pytest.raises(OutOfCapacity):
        cloud.increase("g", 1, 0.0, key="a")
    cloud.increase("g", 1, 0.0, key="b")
    assert cloud.group("g").target == 1


def test_a_quota_counts_all_groups_and_names_what_is_short() -> None:
    cloud = engine(quotas={"cpu": 10})
    cloud.increase("g", 2, 0.0, key="a")
    with pytest.raises(QuotaExceeded, match="1 more need 4 cpu; the quota is 10, 8 are used"):
        cloud.increase("g", 1, 0.0, key="b")


def test_failed_boots_stay_creating_with_an_error() -> None:
    cloud = engine(GroupFaults(instance_failure=1.0))
    cloud.increase("g", 1, 0.0, key="a")
    assert cloud.due(1000.0) == []
    (broken,) = cloud.instances("g")
    assert broken.state is InstanceState.CREATING
    assert broken.error is not None
    assert (broken.error.error_class, broken.error.code) == (99, "BootFailed")


def test_cancelling_takes_failed_orders_first() -> None:
    cloud = engine(GroupFaults(stock=1, stock_refuses=False))
    cloud.increase("g", 3, 0.0, key="a")
    cloud.decrease("g", -2, 0.0, key="b")
    (left,) = cloud.instances("g")
    assert left.error is None
    with pytest.raises(Conflict):
        cloud.decrease("g", -1, 0.0, key="c", expect=5)


def test_unknown_groups_are_named_with_those_there_are() -> None:
    with pytest.raises(NotFound, match="no node group 'x'; there are: g"):
        engine().increase("x", 1, 0.0, key="a")


CALLS = st.lists(
    st.tuples(st.sampled_from(["up", "down", "kill", "lose", "wait"]), st.integers(1, 4), st.integers(0, 6)),
    max_size=40,
)


@given(CALLS, st.integers(0, 12), st.booleans())
def test_the_target_is_what_exists_or_is_ordered(
    calls: list[tuple[str, int, int]], stock: int, refuses: bool
) -> None:
    cloud = engine(GroupFaults(stock=stock, stock_refuses=refuses, instance_failure=0.2))
    now = 0.0
    for count, (call, amount, key) in enumerate(calls):
        now += 13.0
        ids = [one.id for one in cloud.instances("g")]
        name = f"{call}/{key}/{count // 3}"  # some keys repeat
        try:
            match call:
                case "up":
                    cloud.increase("g", amount, now, key=name)
                case "down":
                    cloud.decrease("g", -amount, now, key=name)
                case "kill":
                    cloud.delete("g", ids[:amount], now, key=name)
                case "lose" if ids:
                    cloud.lose(ids[-1], now)
                case "wait":
                    cloud.due(now)
        except CloudError:
            pass
        group = cloud.group("g")
        alive = [one for one in group.machines.values() if one.state is not InstanceState.DELETING]
        assert group.target == len(alive)
        assert 0 <= group.target <= group.config.max


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("groups: [{id: a}]", "missing required field `template`"),
        (
            "groups: [{id: a, maximum: 3, template: {capacity: {cpu: '1'}}}]",
            "field 'maximum' is not known; valid are atomic",
        ),
        ("groups: [{id: a, min: 3, max: 2, template: {capacity: {cpu: '1'}}}]", "need 0 <= min <= max"),
        ("groups: [{id: a, boot: soon, template: {capacity: {cpu: '1'}}}]", "boot: delay 'soon'"),
        (
            "groups: [{id: a, price_per_hour: -2, template: {capacity: {cpu: '1'}}}]",
            "group 'a': price_per_hour -2: expected 0 or more",
        ),
        (
            "machines: [{name: m, price_per_hour: .inf, template: {capacity: {cpu: '1'}}}]",
            "machine 'm': price_per_hour inf: expected 0 or more",
        ),
        ("groups: [", "cloud.yaml"),
    ],
)
def test_a_configuration_that_cannot_be_is_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse(text, "cloud.yaml")
    assert message in str(refused.value)
    assert "cloud.yaml" in str(refused.value)


def test_orders_survive_a_restart_and_names_are_never_given_twice() -> None:
    import msgspec

    from tidewright.sim.cloud.engine import Books

    config = CloudConfig(
        groups=(GroupConfig(id="g", boot="10", template=NodeTemplate(capacity={"cpu": "4"})),)
    )
    before = Engine(config, 0.0)
    before.increase("g", 2, 0.0, key="first")
    before.due(20.0)
    before.increase("g", 1, 20.0, key="second")
    kept = msgspec.json.decode(msgspec.json.encode(before.books()), type=Books)
    after = Engine(config, 100.0)
    after.restore(kept)
    after.increase("g", 1, 100.0, key="second")
    assert after.group("g").target == 3
    assert [step.machine.node for step in after.due(100.0)] == ["g-00003"]
    fresh = Engine(config, 200.0)  # its books are lost, the nodes are not
    fresh.adopt("sim://zone/g-00003", "g-00003", "g", "")
    fresh.increase("g", 1, 200.0, key="third")
    assert sorted(m.node for m in fresh.group("g").machines.values()) == ["g-00003", "g-00004"]
