"""Nodes that are used more than scale-down looks at, and that the others have room for."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.provisioning.removalworld import Removing
from tests.unit.provisioning.watched import OWNER, Watched
from tidewright.events import facts as f
from tidewright.events import provisioning as p
from tidewright.events.base import JsonObject
from tidewright.kube.times import readable
from tidewright.provisioning.consolidation import budgets, modes, protection
from tidewright.provisioning.consolidation.budgets import EMPTY, UNDERUTILISED, left, read_budgets
from tidewright.provisioning.flags import read
from tidewright.provisioning.settings import Settings
from tidewright.provisioning.state import State
from tidewright.provisioning.tell import what_if_scaledown

ON: JsonObject = {"consolidation": "underutilised", "scale-down-unneeded-time": "1m"}
SATURDAY, MONDAY_NOON = 1_700_308_800.0, 1_700_481_600.0


def used(config: JsonObject, *, counts: tuple[int, ...] = (5, 5, 5), **group: Any) -> Watched:
    """Nodes that are used by so many pods of an eighth of a node each, of which some fit on the others."""
    cluster = Watched(config)
    cluster.silent = True
    cluster.nodes(len(counts), **group)
    for node, count in enumerate(counts):
        for pod in range(count):
            cluster.placed(f"p{node}-{pod}", f"g{node}")
    return cluster


def begun(cluster: Watched, after_s: float = 200) -> list[str]:
    cluster.advance(after_s)
    return [removal.node for removal in cluster.of(p.RemoveNode)]


def test_a_node_that_is_used_stays_by_default() -> None:
    assert begun(used({"scale-down-unneeded-time": "1m"})) == []


def test_a_node_that_is_used_goes_where_its_pods_fit_on_the_others_with_its_arithmetic() -> None:
    cluster = used(ON, price_micro=200_000)
    assert len(begun(cluster)) == 1
    (removal,) = cluster.of(p.RemoveNode)
    reasons = {reason.rule: reason.values for reason in removal.because}
    assert reasons["Consolidated"] == {
        "node": removal.node,
        "used": "62 % of its cpu",
        "pods": 5,
        "before": "0.2000",
        "after": "0",
        "saving": "0.2000",
    }
    assert reasons["PodsFitElsewhere"]["pods"] == 5


def test_a_group_without_a_price_says_so() -> None:
    cluster = used(ON)
    begun(cluster)
    assert "ConsolidatedUnpriced" in {r.rule for one in cluster.of(p.RemoveNode) for r in one.because}


@pytest.mark.parametrize(("counts", "goes"), [((5, 5, 5), True), ((7, 7, 7), False), ((8, 5, 4), False)])
def test_every_pod_must_fit_on_the_others(counts: tuple[int, ...], goes: bool) -> None:
    assert bool(begun(used({**ON, "scale-down-utilization-threshold": 0}, counts=counts))) is goes


def test_groups_have_modes_of_their_own() -> None:
    assert begun(used({**ON, "consolidation": {"g": "off", "*": "underutilised"}})) == []
    assert begun(used({**ON, "consolidation": {"g": "underutilised"}})) != []


def test_empty_leaves_a_node_with_pods() -> None:
    assert begun(used({**ON, "consolidation": "empty"})) == []


def test_a_young_node_is_left_alone_until_it_is_ten_minutes_old() -> None:
    cluster = used(ON)
    template = cluster.groups["g"].template
    for node in ("g0", "g1", "g2"):
        cluster.again(node, template.allocatable, created_at=cluster.now)
    assert begun(cluster, 590) == []
    until = readable(cluster.state.nodes["g0"].created_at + protection.YOUNG_S)
    assert (
        f"younger than 600 s: consolidation leaves it alone, until {until} UTC at least"
        in cluster.standing("g0")
    )
    assert len(begun(cluster, 200)) == 1


def test_a_group_that_goes_as_a_whole_is_left_alone() -> None:
    assert begun(used(ON, zero_or_max=True, maximum=3)) == []


def test_a_group_in_backoff_is_left_alone() -> None:
    cluster = used({**ON, "initial-node-group-backoff-duration": "1h"})
    cluster.refuse["g"] = "OutOfCapacity"
    cluster.silent = False
    cluster.pod("large", cluster.shape({"cpu": 4000}))
    cluster.settle()
    assert cluster.of(p.BackOffGroup)
    cluster.silent = True
    cluster.gone("large")
    assert begun(cluster, 900) == []


PROTECTED = {protection.DO_NOT_DISRUPT: "true"}


def test_do_not_disrupt_on_a_node_keeps_it() -> None:
    cluster = used(ON)
    template = cluster.groups["g"].template
    for node in ("g0", "g1", "g2"):
        cluster.again(node, template.allocatable, annotations=PROTECTED)
    assert begun(cluster) == []
    assert protection.DO_NOT_DISRUPT in cluster.standing("g0")


@pytest.mark.parametrize(
    ("value", "after_s", "goes"),
    [
        ("true", 1000, False),
        ("20m", 1000, False),
        ("1m", 1000, True),
        ("soon", 1000, False),
        ("false", 200, True),
    ],
)
def test_do_not_disrupt_on_a_pod_keeps_its_node(value: str, after_s: float, goes: bool) -> None:
    cluster = used(ON)
    for node in range(3):
        cluster.placed(f"p{node}-0", f"g{node}", annotations={protection.DO_NOT_DISRUPT: value})
    assert bool(begun(cluster, after_s)) is goes
    if not goes:
        assert "DoNotDisrupt" in cluster.standing("g0")


def test_a_pod_of_two_disruption_budgets_keeps_its_node() -> None:
    cluster = used(ON)
    cluster.budget(9)
    second = p.PodDisruptionBudgetObserved(
        at=cluster.now, namespace="ns", name="second", selector={"matchLabels": {"app": "web"}}, allowed=9
    )
    cluster.tell(second)
    assert begun(cluster) == []


def test_two_rounds_must_agree_that_lie_apart() -> None:
    cluster = used({**ON, "scale-down-unneeded-time": "0s"})
    cluster.advance(0.1 + 10)
    (found,) = cluster.unneeded
    assert "has to agree" in cluster.standing(found)
    assert begun(cluster, protection.ROUNDS_S - 5) == []
    assert begun(cluster, 20) == [found]


@pytest.mark.parametrize(("after", "goes"), [("0s", True), ("30m", False), ("Never", False)])
def test_a_node_rests_as_long_as_pods_come_and_go(after: str, goes: bool) -> None:
    cluster = used({**ON, "consolidate-after": after}, counts=(6, 6, 6))
    for node in range(3):
        cluster.gone(f"p{node}-5")
    left_at = cluster.now
    assert bool(begun(cluster, 1700)) is goes
    if not goes:
        (found,) = cluster.unneeded
        said = (
            "consolidate-after is Never"
            if after == "Never"
            else f"until {readable(left_at + 1800)} UTC at least"
        )
        assert said in cluster.standing(found)
    assert bool(begun(cluster, 200)) is (after != "Never")


def test_a_pod_that_comes_has_its_node_rest_anew() -> None:
    cluster = used({**ON, "consolidate-after": "30m"})
    for node in range(3):
        cluster.placed(f"short{node}", f"g{node}")
        cluster.gone(f"short{node}")
    assert begun(cluster, 1700) == []
    (found,) = cluster.unneeded
    came_at = cluster.now
    cluster.placed("late", found)
    assert begun(cluster, 1700) == []
    assert f"until {readable(came_at + 1800)} UTC at least" in cluster.standing(found)
    assert begun(cluster, 200) == [found]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("0", "It stays: consolidation-budgets let no node of group g go now."),
        ([{"nodes": "0", "schedule": "@daily", "duration": "23h59m"}], "let no node of group g go until 20"),
        ([{"nodes": "0", "schedule": "@daily", "duration": "24h"}], "let no node of group g go now."),
        ([{"nodes": "0"}, {"nodes": "0", "schedule": "@daily", "duration": "1h"}], "group g go now."),
        (
            [
                {"nodes": "0", "reasons": ["Underutilized"]},
                {"nodes": "0", "reasons": ["Empty"], "schedule": "@daily", "duration": "23h59m"},
            ],
            "let no node of group g go now.",
        ),
        ([{"nodes": "0", "reasons": ["Underutilized"]}], "let no used node of group g go now."),
    ],
)
def test_a_node_that_budgets_keep_says_so_and_until_when(given: Any, said: str) -> None:
    cluster = used({**ON, "consolidation-budgets": given})
    assert begun(cluster) == []
    (found,) = cluster.unneeded
    assert said in cluster.standing(found)


def test_a_node_on_which_room_was_booked_rests() -> None:
    cluster = used(ON)
    cluster.state.consolidating.took.update(dict.fromkeys(("g0", "g1", "g2"), cluster.now))
    assert begun(cluster, protection.YOUNG_S - 10) == []
    (found,) = cluster.unneeded
    assert "room for a request or a buffer" in cluster.standing(found)
    assert begun(cluster, 30) == [found]


def test_more_pods_than_a_budget_has_left_are_never_planned() -> None:
    cluster = used(ON)
    cluster.budget(4)
    assert begun(cluster) == []
    cluster.budget(5)
    assert len(begun(cluster, 600)) == 1


def test_groups_have_budgets_of_their_own() -> None:
    assert begun(used({**ON, "consolidation-budgets": {"g": "0", "*": "100%"}})) == []
    assert begun(used({**ON, "consolidation-budgets": {"h": "0"}})) != []


@pytest.mark.parametrize(("budget", "most"), [("0", 0), ("0%", 0), ("10%", 1), ("2", 2), ("100%", 3)])
def test_no_more_go_at_a_time_than_budgets_allow(budget: str, most: int) -> None:
    config = {
        **ON,
        "consolidation-budgets": budget,
        "max-drain-parallelism": 9,
        "scale-down-utilization-threshold": 0,
    }
    cluster = used(config, counts=(1, 1, 1, 1))
    cluster.advance(75)
    assert len(begun(cluster, 0)) == most
    if not most:
        assert "consolidation-budgets" in " ".join(cluster.standing(f"g{i}") for i in range(4))


def test_a_node_whose_instance_is_being_deleted_counts_as_away_until_it_is_gone() -> None:
    config = {**ON, "consolidation-budgets": "1", "scale-down-utilization-threshold": 0}
    cluster = used(config, counts=(1, 1, 1, 1))
    group = cluster.groups["g"]
    group.instances = [
        msgspec.structs.replace(i, state="deleting") if i.id.endswith("g3") else i for i in group.instances
    ]
    cluster.observe_group("g")
    assert begun(cluster) == []
    cluster.gone("p3-0")
    cluster.tell(f.NodeGone(at=cluster.now, name="g3"))
    assert len(begun(cluster)) == 1


@given(
    numbers=st.lists(st.sampled_from(["0", "1", "3", "10%", "34%", "100%"]), max_size=4),
    size=st.integers(0, 60),
    away=st.integers(0, 60),
)
def test_what_is_left_never_exceeds_any_budget_nor_what_is_there(
    numbers: list[str], size: int, away: int
) -> None:
    several = read_budgets([{"nodes": number} for number in numbers])
    free = left(several, UNDERUTILISED, size, away, 0.0)
    assert 0 <= free <= max(0, size - away)
    assert all(free == 0 or free + away <= budget.amount(size) for budget in several)


def test_budgets_hold_in_their_windows_and_for_their_reasons() -> None:
    closed = {"nodes": "0", "schedule": "0 9 * * mon-fri", "duration": "8h"}
    (weekdays,) = read_budgets([closed])
    assert weekdays.holds(UNDERUTILISED, MONDAY_NOON)
    assert not weekdays.holds(UNDERUTILISED, SATURDAY)
    (empties,) = read_budgets([{"nodes": 1, "reasons": ["Empty"]}])
    assert empties.holds(EMPTY, 0.0)
    assert not empties.holds(UNDERUTILISED, 0.0)
    assert budgets.next_change({"g": (weekdays,)}, MONDAY_NOON) == MONDAY_NOON + 5 * 3600


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("consolidation", "some", "expected off, empty, underutilised or replace, not 'some'"),
        (
            "consolidation",
            {"g": "all"},
            "of group g expected off, empty, underutilised or replace, not 'all'",
        ),
        ("consolidate-after", -1, "expected a duration, as 90s or 10m, or Never"),
        ("consolidate-after", "never", "expected a duration, as 90s or 10m, or Never"),
        ("min-saving", "120%", "expected a percentage from 0% to 100%"),
        ("min-saving", "much", "expected a percentage from 0% to 100%"),
        ("spot-types-min", -1, "expected 0 or more"),
    ],
)
def test_what_cannot_be_read_keeps_its_default_and_says_what_may(key: str, value: Any, said: str) -> None:
    settings, (warning,) = read({key: value})
    assert settings == Settings()
    assert warning.startswith(f"{key}={value!r}: {said}")


def timed(schedule: Any, duration: Any) -> list[JsonObject]:
    return [{"nodes": 0, "schedule": schedule, "duration": duration}]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"g": "x"}, "of group g nodes='x': expected 0 or more"),
        ("-1", "nodes='-1': expected 0 or more"),
        ("101%", "nodes='101%': expected 0 or more, or a percentage from 0% to 100%"),
        ([{"nodes": True}], "nodes=True: expected 0 or more"),
        ([{"reasons": ["Empty"]}], "nodes is missing: expected 0 or more"),
        ([{"node": 1}], "node: no field of a budget; it has nodes, schedule, duration and reasons"),
        ([{"nodes": 1, "reasons": ["Drifted"]}], "reasons: expected Empty or Underutilized, or both, not Drifted"),
        ([{"nodes": 1, "reasons": "Empty"}], "reasons='Empty': expected a list, with Empty or Under"),
        (["x"], "'x': expected an object with nodes"),
        ('[{"nodes": 1}]', "it is text: a list of budgets stands there as it is"),
        ({"nodes": 0}, "expected budgets in a list, as [{nodes: 10%}]"),
        ({"nodes": 0, "reasons": ["Empty"]}, "expected budgets in a list, as [{nodes: 10%}]"),
        (timed("0 9 * * *", None), "schedule stands there without duration: they belong together"),
        (timed("", "8h"), "duration stands there without schedule: they belong together"),
        (timed("0 25 * * *", "8h"), "schedule='0 25 * * *': its hour cannot be read; expected minute, hour"),
        (timed("@dayly", "8h"), "schedule='@dayly': it has 1 instead of 5 parts; expected minute, hour"),
        (timed(9, "8h"), "schedule=9: it has 1 instead of 5 parts"),
        (timed("0 9 * * * 2h; 0 8 * * *", "8h"), "schedule='0 9 * * * 2h; 0 8 * * *': it has 11 instead of 5 parts"),
        (timed("0 9 * * *", "8 hours"), "duration='8 hours': expected a minute or more, as 8h or 1h30m"),
        (timed("0 9 * * *", 8), "duration=8: expected a minute or more"),
        (timed("0 9 * * *", "30s"), "duration='30s': expected a minute or more"),
    ],
)  # fmt: skip
def test_budgets_that_cannot_be_read_let_nothing_go_and_say_what_may_stand_there(
    value: Any, said: str
) -> None:
    settings, (warning,) = read({"consolidation-budgets": value})
    for reason in budgets.REASONS:
        assert left(budgets.of_group(settings.consolidation_budgets, "g"), reason, 60, 0, 0.0) == 0
    assert warning.startswith(f"consolidation-budgets={value!r}: {said}")
    assert warning.endswith("; consolidation lets no node go until it can be read")


def test_a_group_may_be_called_as_a_field_of_a_budget_is() -> None:
    assert budgets.read_by_group({"nodes": [{"nodes": 3}]})["nodes"] == read_budgets(3)


@pytest.mark.parametrize("mode", ["replace", {"g": "empty"}])
def test_consolidation_without_scale_down_is_said_to_come_to_nothing(mode: Any) -> None:
    _, (warning,) = read({"consolidation": mode, "scale-down-enabled": False})
    assert warning.startswith(f"consolidation={mode!r}: with scale-down-enabled=false no node goes")
    assert read({"consolidation": "off", "scale-down-enabled": False})[1] == ()


def test_a_mode_that_yaml_reads_as_false_is_off() -> None:
    assert modes.read_modes(False) == {"*": "off"}


def test_plan_names_the_rule_and_what_is_saved() -> None:
    cluster = used({**ON, "scale-down-unneeded-time": "0s"}, price_micro=200_000)
    cluster.advance(12)
    copied = msgspec.json.decode(msgspec.json.encode(cluster.state), type=State)
    answer = what_if_scaledown.preview(copied, cluster.now + protection.ROUNDS_S)
    (going,) = answer.going
    assert (going.rule, going.saves_micro, going.pods) == ("consolidation", 200_000, 5)
    assert "(drain, consolidation): 5 pods go to" in what_if_scaledown.as_text(answer)


def test_a_node_is_drained_and_deleted_and_the_rest_is_still_then() -> None:
    cluster = Removing({**ON, "consolidation-budgets": "100%", "max-bulk-soft-taint-count": 0})
    cluster.grown(3)
    for node in range(3):
        shape = cluster.shape({"cpu": 800 if node else 700}, labels={"app": "web"})
        for pod in range(3):
            cluster.run_pod(f"p{node}-{pod}", f"n{node}", shape=shape, owners=(OWNER,), removal=f.Removal())
    for node in range(3):
        cluster.tell(msgspec.structs.replace(cluster.fact_of(f"n{node}"), created_at=cluster.now - 3600))
    cluster.advance(1200)
    decided = len(cluster.of(p.RemoveNode))
    assert decided == len(cluster.deleted) == 1
    assert all(pod not in cluster.evicted for pod in cluster.placed)
    cluster.advance(3600)
    assert len(cluster.of(p.RemoveNode)) == decided
