"""Nodes that are replaced by others that cost less."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.unit.provisioning.replaceworld import Pools, dear_and_cheap
from tidewright.events import provisioning as p
from tidewright.events.base import JsonObject
from tidewright.events.config import ModesSet
from tidewright.kube.keys import request_key
from tidewright.kube.times import readable, seconds
from tidewright.provisioning.consolidation import budgets, protection, spot
from tidewright.provisioning.consolidation.kept import MOVED_REST_S
from tidewright.provisioning.state import State
from tidewright.provisioning.tell import what_if_scaledown
from tidewright.provisioning.tell.sentences import sentence

PROTECTED = {protection.DO_NOT_DISRUPT: "true"}


def small_and_big(config: JsonObject | None = None, nodes: int = 4) -> Pools:
    """Nodes with one pod each that fits on none of the others, and a group of which one node holds all of them."""
    cluster = Pools(config)
    cluster.pool("small", nodes, cpu=2000, price=300_000)
    cluster.pool("big", 0, cpu=8000, price=700_000)
    for i in range(nodes):
        cluster.running(f"p{i}", f"small{i}", 1500)
    cluster.boots_s("big", 60)
    return cluster


def test_a_dear_node_is_replaced_by_a_cheap_one_that_stands_first_with_the_arithmetic() -> None:
    cluster = dear_and_cheap()
    cluster.advance(600)
    assert cluster.deleted == ["dear0"]
    assert cluster.ended() == [("Done", "")]
    assert (cluster.price_micro, cluster.without_place) == (300_000, [])
    (begun,) = cluster.of(p.ReplaceNodes)
    assert (begun.nodes, begun.groups, begun.pods) == (("dear0",), {"cheap": 1}, 3)
    assert {reason.rule: reason.values for reason in begun.because}["Replaced"] == {
        "nodes": "dear0",
        "others": "1 of group cheap",
        "pods": 3,
        "before": "1.0000",
        "after": "0.3000",
        "saving": "0.7000",
        "overlap": "0.0079",
    }
    (removal,) = cluster.of(p.RemoveNode)
    assert (removal.rule, len(removal.pods)) == ("replacement", 3)
    said = [type(decision) for decision in cluster.said]
    assert said.index(p.ReplaceNodes) < said.index(p.IncreaseNodeGroup) < said.index(p.RemoveNode)


def test_several_nodes_are_replaced_by_fewer_one_drain_after_the_other() -> None:
    cluster = small_and_big()
    cluster.advance(1200)
    (begun,) = cluster.of(p.ReplaceNodes)
    assert (sorted(begun.nodes), begun.groups) == ([f"small{i}" for i in range(4)], {"big": 1})
    assert sorted(cluster.deleted) == [f"small{i}" for i in range(4)]
    assert (cluster.ended(), cluster.price_micro, cluster.without_place) == ([("Done", "")], 700_000, [])


def test_nodes_stay_that_others_of_their_own_group_would_replace_and_large_pods_are_packed_first() -> None:
    cluster = Pools({"max-drain-parallelism": 3})
    cluster.pool("dear", 2, cpu=2000, price=1_000_000)
    cluster.pool("cheap", 1, cpu=2000, price=200_000)
    for number, node in enumerate(("dear0", "dear1", "cheap0")):
        cluster.running(f"a{number}", node, 500)
        cluster.running(f"b{number}", node, 1200)
    cluster.boots_s("cheap", 60)
    cluster.advance(1200)
    (begun,) = cluster.of(p.ReplaceNodes)
    assert (sorted(begun.nodes), begun.groups) == (["dear0", "dear1"], {"cheap": 2})
    assert (cluster.ended(), cluster.price_micro) == ([("Done", "")], 600_000)


def test_it_is_off_by_default_and_in_other_modes() -> None:
    for mode in ("off", "empty", "underutilised", {"*": "replace", "dear": "underutilised"}):
        cluster = dear_and_cheap({"consolidation": mode})
        cluster.advance(1200)
        assert cluster.of(p.ReplaceNodes) == cluster.deleted == []


@pytest.mark.parametrize("which", ["dear", "cheap"])
def test_without_a_price_nothing_is_replaced(which: str) -> None:
    cluster = Pools()
    cluster.pool("dear", 1, cpu=8000, price=None if which == "dear" else 1_000_000)
    cluster.pool("cheap", 0, cpu=4000, price=None if which == "cheap" else 300_000)
    cluster.running("p", "dear0", 3500)
    cluster.advance(1200)
    assert cluster.of(p.ReplaceNodes) == []


@pytest.mark.parametrize(
    ("price", "boot_s", "config", "goes"),
    [
        (951_000, 1, {}, False),
        (949_000, 1, {}, True),
        (940_000, 600, {}, False),
        (949_000, 1, {"min-saving": "10%"}, False),
        (300_000, 0, {}, True),
    ],
)
def test_enough_is_saved_within_the_hour_beside_what_the_overlap_costs(
    price: int, boot_s: float, config: JsonObject, goes: bool
) -> None:
    cluster = Pools(config)
    cluster.pool("dear", 1, cpu=8000, price=1_000_000)
    cluster.pool("cheap", 0, cpu=4000, price=price)
    cluster.running("p", "dear0", 3500)
    cluster.boots_s("cheap", boot_s)
    cluster.advance(300)
    assert bool(cluster.of(p.ReplaceNodes)) is goes


def test_what_nothing_is_cheaper_for_is_looked_at_once_a_recheck_for_ever() -> None:
    """However often something changes that passes look at, from the second time on, too."""
    cluster = Pools({"scan-interval": "10s"})
    cluster.pool("dear", 1, cpu=8000, price=1_000_000)
    cluster.pool("cheap", 0, cpu=4000, price=990_000)
    cluster.running("p", "dear0", 3500)
    for number in range(120):
        cluster.advance(10)
        cluster.again("p", labels={"app": "web", "number": str(number)})
    assert 2 <= len(cluster.of(p.TrackUnneededNodes)) <= 2 * (1200 / 300 + 1)


def test_a_node_that_something_keeps_says_what_and_not_that_others_cost_too_much() -> None:
    """More of its pods would leave than their budget has room for."""
    cluster = dear_and_cheap()
    cluster.budget("web", 2)
    cluster.advance(300)
    assert cluster.of(p.ReplaceNodes) == []
    said = cluster.standing("dear0")
    assert "NotEnoughPdb" in said
    assert "cost enough less" not in said


@pytest.mark.parametrize("group", ["dear", "cheap"])
def test_a_group_that_vanishes_meanwhile_ends_it(group: str) -> None:
    """What its nodes cost is not known any more; they are there as before."""
    cluster = dear_and_cheap()
    while not cluster.of(p.ReplaceNodes):
        cluster.advance(1)
    cluster.tell(p.NodeGroupGone(at=cluster.now, name=group))
    cluster.advance(300)
    assert [result for result, _ in cluster.ended()] == ["GivenUp"]
    assert cluster.evicted == []
    assert "dear0" not in {removal.node for removal in cluster.of(p.RemoveNode)}


def test_what_does_not_come_in_time_is_taken_back_and_said_and_the_group_left_alone() -> None:
    cluster = dear_and_cheap({"max-node-provision-time": "5m", "initial-node-group-backoff-duration": "1h"})
    cluster.comes = False
    cluster.advance(2400)
    assert cluster.ended() == [("GivenUp", "NotInTime")]
    assert cluster.groups["cheap"].target == 0
    assert cluster.of(p.RemoveNode) == cluster.evicted == []
    assert cluster.marked() == set()
    assert len(cluster.of(p.BackOffGroup)) == 1
    (said,) = cluster.object_events("ReplacementGivenUp")
    assert "in place of dear0 there will not be 1 of group cheap after all" in said.message
    given_up_at = cluster.of(p.EndReplacement)[0].at
    assert f"it is not tried again before {readable(given_up_at + 3600)} UTC." in cluster.standing("dear0")
    assert len(cluster.of(p.ReplaceNodes)) == 1


def test_a_node_on_which_room_is_booked_while_others_come_stays() -> None:
    cluster = dear_and_cheap(maximum=1)
    cluster.comes = False
    while not cluster.of(p.ReplaceNodes):
        cluster.advance(1)
    cluster.template("t", "2")
    cluster.request("r", "check-capacity.autoscaling.x-k8s.io", [("t", 2)])
    cluster.advance(2)
    assert any("dear0" in nodes for nodes in cluster.state.requests[request_key("ns", "r")].places.values())
    cluster.comes = True
    for event in cluster._grow("cheap", 1):
        cluster.tell(event)
    cluster.advance(300)
    assert "dear0" not in cluster.deleted
    assert cluster.evicted == []


def test_an_order_that_is_refused_ends_it() -> None:
    cluster = dear_and_cheap({"initial-node-group-backoff-duration": "1h"})
    cluster.refuse["cheap"] = "OutOfCapacity"
    cluster.advance(600)
    assert cluster.ended() == [("GivenUp", "OrderFailed")]
    assert cluster.of(p.RemoveNode) == []


@pytest.mark.parametrize("whose", ["node", "pod"])
def test_who_asks_not_to_be_disrupted_while_others_come_ends_it_and_those_go_again(whose: str) -> None:
    cluster = dear_and_cheap()
    cluster.comes = False
    cluster.advance(100)
    assert cluster.of(p.ReplaceNodes)
    if whose == "node":
        cluster.annotate("dear0", PROTECTED)
    else:
        cluster.again("p0", annotations=PROTECTED)
    cluster.comes = True
    cluster._inbox += cluster._grow("cheap", 1)
    cluster.advance(1200)
    assert [result for result, _ in cluster.ended()] == ["GivenUp"]
    assert cluster.deleted == ["cheap-new-1"]
    assert cluster.evicted == []


@pytest.mark.parametrize("whose", ["node", "pod"])
def test_who_asks_not_to_be_disrupted_while_its_node_is_drained_keeps_it(whose: str) -> None:
    cluster = dear_and_cheap()
    while not cluster.of(p.RemoveNode):
        cluster.advance(1)
    cluster.refuse_evictions = "DisruptionBudget"
    cluster.advance(5)
    if whose == "node":
        cluster.annotate("dear0", PROTECTED)
    else:
        cluster.again("p0", annotations=PROTECTED)
    cluster.refuse_evictions = ""
    cluster.advance(300)
    assert (cluster.deleted, cluster.evicted) == (["cheap-new-1"], [])
    (undone,) = cluster.of(p.UndoRemoval)
    assert undone.reason in (protection.NODE_PROTECTED, protection.POD_PROTECTED)
    assert [result for result, _ in cluster.ended()] == ["GivenUp"]


def test_pods_that_were_moved_rest() -> None:
    cluster = dear_and_cheap()
    cluster.advance(300)
    assert cluster.deleted == ["dear0"]
    cluster.pool("tiny", 0, cpu=4000, price=100_000)
    cluster.boots_s("tiny", 60)
    cluster.advance(MOVED_REST_S - 600)
    assert "moved" in cluster.standing("cheap-new-1") or "MovedLately" in cluster.standing("cheap-new-1")
    assert len(cluster.of(p.ReplaceNodes)) == 1
    cluster.advance(1800)
    assert len(cluster.of(p.ReplaceNodes)) == 2
    assert cluster.price_micro == 100_000


@pytest.mark.parametrize(
    ("types", "config", "goes"), [(14, {}, False), (15, {}, True), (2, {"spot-types-min": 2}, True)]
)
def test_spot_nodes_are_replaced_by_spot_nodes_alone_where_enough_types_are_cheaper(
    types: int, config: JsonObject, goes: bool
) -> None:
    label = {"karpenter.sh/capacity-type": "spot"}
    cluster = Pools(config)
    cluster.pool("dear", 1, cpu=8000, price=1_000_000, labels=label)
    cluster.pool("ondemand", 0, cpu=4000, price=10_000)
    for i in range(types):
        cluster.pool(f"spot{i:02}", 0, cpu=4000, price=300_000 + i, labels=label, machine_type=f"m{i}")
    cluster.running("p", "dear0", 3500)
    cluster.advance(300)
    assert [one.groups for one in cluster.of(p.ReplaceNodes)] == ([{"spot00": 1}] if goes else [])


def test_spot_nodes_that_were_taken_away_make_their_group_dearer() -> None:
    assert spot.risk_price(100, [50.0, 950.0], 4, 1000.0, 100.0) == 125
    assert spot.risk_price(100, [], 0, 1000.0, 100.0) == 100


@pytest.mark.parametrize("budget", ["0", {"dear": "0"}])
def test_budgets_let_none_go(budget: Any) -> None:
    cluster = dear_and_cheap({"consolidation-budgets": budget})
    cluster.advance(600)
    assert cluster.of(p.ReplaceNodes) == []
    assert "consolidation-budgets let no node of group dear go now." in cluster.standing("dear0")


def test_a_budget_for_used_nodes_says_so_and_one_for_empty_ones_lets_them_go() -> None:
    cluster = dear_and_cheap({"consolidation-budgets": [{"nodes": "0", "reasons": ["Underutilized"]}]})
    cluster.advance(600)
    assert cluster.of(p.ReplaceNodes) == []
    assert "consolidation-budgets let no used node of group dear go now." in cluster.standing("dear0")
    cluster = dear_and_cheap({"consolidation-budgets": [{"nodes": "0", "reasons": ["Empty"]}]})
    cluster.advance(1200)
    assert cluster.ended() == [("Done", "")]


def test_nodes_that_disruption_budgets_keep_from_being_replaced_together_say_so() -> None:
    cluster = Pools()
    cluster.pool("dear", 3, cpu=8000, price=1_000_000)
    cluster.pool("big", 0, cpu=16000, price=1_500_000)
    for i in range(3):
        cluster.running(f"p{i}", f"dear{i}", 5000)
    cluster.boots_s("big", 60)
    cluster.budget("guard", 1)
    cluster.advance(600)
    assert cluster.of(p.ReplaceNodes) == []
    assert (
        "It is one of 3 such nodes, which are not all replaced together: "
        "of the pods on them disruption budget ns/guard lets 1 of 3 go."
    ) in cluster.standing("dear0")
    cluster.budget("guard", 3)
    cluster.advance(1200)
    assert "of the pods on them" not in cluster.standing("dear0")
    assert cluster.of(p.ReplaceNodes)


def test_it_is_said_until_when_budgets_let_none_go() -> None:
    closed = [{"nodes": "50%"}, {"nodes": "0", "schedule": "@daily", "duration": "23h59m"}]
    cluster = dear_and_cheap({"consolidation-budgets": closed})
    cluster.advance(600)
    assert "let no node of group dear go until 20" in cluster.standing("dear0")
    cluster = dear_and_cheap()
    cluster.advance(5)
    assert "consolidation-budgets" not in cluster.standing("dear0")


@pytest.mark.parametrize(
    "word", ["@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually"]
)
def test_schedules_may_be_words_of_cron(word: str) -> None:
    (budget,) = budgets.read_budgets([{"nodes": "0", "schedule": word, "duration": "30m"}])
    start = seconds("2034-01-01T00:00:00Z")  # a Sunday
    assert budget.holds("Empty", start + 1799.0)
    assert not budget.holds("Empty", start + 1801.0)


def test_a_group_at_its_minimum_keeps_its_nodes() -> None:
    cluster = Pools()
    cluster.pool("dear", 1, cpu=8000, price=1_000_000, minimum=1)
    cluster.pool("cheap", 0, cpu=4000, price=300_000)
    cluster.running("p", "dear0", 3500)
    cluster.advance(600)
    assert cluster.of(p.ReplaceNodes) == []


def test_nothing_is_ordered_while_pods_wait() -> None:
    cluster = dear_and_cheap()
    cluster.pod("huge", cluster.shape({"cpu": 90_000}))
    cluster.advance(900)
    assert cluster.of(p.ReplaceNodes) == []


def test_what_is_cheap_already_is_looked_at_seldom_and_says_why_it_stays() -> None:
    cluster = Pools()
    cluster.pool("cheap", 2, cpu=4000, price=300_000)
    for i in range(2):
        cluster.running(f"p{i}", f"cheap{i}", 3500)
    cluster.advance(100)
    assert "do not cost enough less" in cluster.standing("cheap0")
    assert cluster.of(p.ProposeReplacement) == []


def test_held_back_it_is_recorded_once_what_would_be_replaced() -> None:
    cluster = dear_and_cheap()
    cluster.tell(ModesSet(at=cluster.now, mode="shadow"))
    cluster.advance(1200)
    recorded = cluster.of(p.ReplaceNodes)
    assert recorded
    assert all(one.shadow for one in recorded)
    assert cluster.groups["cheap"].target == 0
    assert not cluster.state.consolidating.replacements


def test_plan_and_explain_tell_of_it_before_and_while_it_is_under_way() -> None:
    cluster = dear_and_cheap()
    cluster.comes = False
    cluster.advance(20)
    answer = preview(cluster)
    (one,) = answer.replacing
    assert (one.nodes, one.groups, one.saves_micro, one.under_way) == (
        ("dear0",),
        {"cheap": 1},
        700_000,
        False,
    )
    assert "Would be replaced once later rounds agree (replace): dear0 by 1 of group cheap" in (
        what_if_scaledown.as_text(answer)
    )
    assert "could be replaced by 1 of group cheap for less" in cluster.standing("dear0")
    cluster.advance(100)
    (one,) = preview(cluster).replacing
    assert (one.under_way, one.saves_micro) == (True, 700_000)
    assert "dear0 is being replaced by 1 of group cheap" in cluster.standing("dear0")


def preview(cluster: Pools) -> what_if_scaledown.ScaleDownAnswer:
    copied = msgspec.json.decode(msgspec.json.encode(cluster.state), type=State)
    return what_if_scaledown.preview(copied, cluster.now)


# --- Several at once ---

AT_ONCE: JsonObject = {"max-drain-parallelism": 4, "scale-down-unneeded-time": "1m"}


def two_that_go_alone(config: JsonObject | None = None) -> Pools:
    """Two dear nodes of which one is no candidate at first: it is too young. Cheaper ones are of one group."""
    cluster = Pools({**AT_ONCE, **(config or {})})
    for name in ("dear", "late"):
        cluster.pool(name, 1, cpu=4000, price=1_000_000)
        for i in range(3):
            cluster.running(f"{name}{i}", f"{name}0", 1200)
    cluster.born["late0"] = cluster.now - protection.YOUNG_S + 120
    cluster.tell(cluster.fact_of("late0"))
    cluster.pool("cheap", 0, cpu=4000, price=300_000)
    cluster.boots_s("cheap", 60)
    return cluster


@pytest.mark.parametrize(("drains", "at_once"), [(1, 1), (4, 2)])
def test_as_many_are_replaced_at_once_as_may_be_drained(drains: int, at_once: int) -> None:
    cluster = two_that_go_alone({"max-drain-parallelism": drains})
    cluster.comes = False
    cluster.advance(600)
    assert len(cluster.state.consolidating.replacements) == at_once
    cluster.comes = True
    cluster._inbox += cluster._grow("cheap", at_once)
    cluster.advance(1200)
    assert cluster.most_at_once() == at_once
    assert sorted(cluster.deleted) == ["dear0", "late0"]
    assert cluster.ended() == [("Done", "")] * 2
    assert (cluster.price_micro, cluster.without_place) == (600_000, [])


def test_each_waits_for_a_node_of_its_own_though_both_are_of_one_group() -> None:
    """The first node that comes is for the replacement that was ordered first, also once that is over."""
    cluster = two_that_go_alone()
    cluster.comes = False
    cluster.advance(300)
    assert len(cluster.state.consolidating.replacements) == 2
    cluster.comes = True
    cluster._inbox += cluster._grow("cheap", 1)
    cluster.comes = False
    cluster.advance(240)
    assert (cluster.deleted, cluster.ended()) == (["dear0"], [("Done", "")])
    (left,) = cluster.state.consolidating.replacements
    assert (list(left.nodes), left.begun, left.past) == (["late0"], [], ["cheap-new-1"])
    assert "late0 is being replaced by 1 of group cheap" in cluster.standing("late0")
    cluster.comes = True
    cluster._inbox += cluster._grow("cheap", 2)
    cluster.advance(600)
    assert cluster.ended() == [("Done", "")] * 2
    assert cluster.without_place == []


def test_budgets_of_a_group_count_what_is_being_replaced() -> None:
    cluster = two_that_go_alone({"consolidation-budgets": {"*": "1"}})
    cluster.tell(msgspec.structs.replace(cluster.fact_of("late0"), labels=cluster.fact_of("dear0").labels))
    cluster.group_of["late0"] = "dear"
    cluster.groups["dear"].target = 2
    cluster.groups["dear"].instances.append(p.Instance(id="sim://late0", state="running"))
    cluster.groups["late"].target, cluster.groups["late"].instances = 0, []
    cluster.observe_group("dear")
    cluster.observe_group("late")
    cluster.comes = False
    cluster.advance(600)
    (only,) = cluster.state.consolidating.replacements
    assert list(only.nodes) == ["dear0"]


def test_what_keeps_one_leaves_the_other() -> None:
    cluster = two_that_go_alone()
    cluster.comes = False
    cluster.advance(300)
    cluster.annotate("dear0", PROTECTED)
    cluster.comes = True
    cluster._inbox += cluster._grow("cheap", 2)
    cluster.advance(900)
    assert sorted(result for result, _ in cluster.ended()) == ["Done", "GivenUp"]
    assert "late0" in cluster.deleted
    assert "dear0" not in cluster.deleted
    assert cluster.without_place == []


def test_a_budget_of_pods_that_one_uses_up_keeps_the_other_from_being_planned() -> None:
    cluster = two_that_go_alone()
    cluster.budget("web", 4)
    cluster.comes = False
    cluster.advance(600)
    (only,) = cluster.state.consolidating.replacements
    assert list(only.nodes) == ["dear0"]


def test_a_proposal_that_lapses_leaves_the_other() -> None:
    cluster = two_that_go_alone({"scale-down-unneeded-time": "10m"})
    while len(cluster.state.consolidating.proposals) < 2:
        cluster.advance(1)
    cluster.annotate("dear0", PROTECTED)
    cluster.advance(60)
    (left,) = cluster.state.consolidating.proposals
    assert left.nodes == ("late0",)
    (lapsed,) = [one for one in cluster.of(p.ProposeReplacement) if one.instead]
    assert (lapsed.nodes, lapsed.instead) == ((), ("dear0",))


def test_what_is_replaced_or_would_be_is_not_said_to_stay() -> None:
    cluster = dear_and_cheap()
    cluster.pool("other", 1, cpu=8000, price=None)
    cluster.running("large", "other0", 7000)
    cluster.comes = False
    for under_way in (False, True):
        cluster.advance(300 if under_way else 40)
        answer = preview(cluster)
        assert [(one.nodes, one.under_way) for one in answer.replacing] == [(("dear0",), under_way)]
        assert answer.staying == {"NoPlaceToMovePods": ("other0",)}


def test_what_is_said_of_a_replacement_that_is_over_begins_with_no_name() -> None:
    cluster = dear_and_cheap()
    cluster.advance(1200)
    (over,) = cluster.of(p.EndReplacement)
    assert [sentence(why) for why in over.because] == [
        "in place of dear0 there is now 1 of group cheap: 0.3000 an hour instead of 1.0000"
    ]


def test_nodes_that_wait_for_one_reason_are_one_line_of_the_plan() -> None:
    nodes = [f"n{i}" for i in range(7)]
    answer = what_if_scaledown.ScaleDownAnswer(
        going=(), later=dict.fromkeys(nodes, budgets.EXHAUSTED), staying={}, saves_micro=None, cooling=False, healthy=True
    )  # fmt: skip
    (line,) = [one for one in what_if_scaledown.as_text(answer).splitlines() if budgets.EXHAUSTED in one]
    assert line.startswith(f"  - {budgets.EXHAUSTED}: n0, n1, n2, n3, n4 and 2 more. It goes when")
