"""The story of nodes, its pure parts: what happened, what it cost, and what standing nodes had cost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.answers import fits
from tidewright.asking.errors import BadInput
from tidewright.cli.demo.command import demo
from tidewright.cli.demo.nodes.play import TIMETABLE, WORKLOADS, groups, settings
from tidewright.cli.demo.nodes.story import NodesStory
from tidewright.cli.demo.nodes.summary import NodesRun, as_text, summary
from tidewright.cli.demo.nodes.view import NodesLines
from tidewright.events.base import Because, ObjectRef
from tidewright.events.decisions import EvictPod
from tidewright.events.facts import NodeGone, NodeObserved, PodGone, PodObserved
from tidewright.events.outcomes import Applied
from tidewright.events.provisioning import (
    Increase,
    NodeGroupObserved,
    PlanScaleUp,
    PodToEvict,
    RemoveNode,
    UndoRemoval,
)
from tidewright.provisioning.flags import read

HOUR = 3600.0


def node(at: float, name: str, group: str) -> NodeObserved:
    return NodeObserved(at=at, name=name, labels={"pool": group})


def removal(at: float, name: str, *pods: str) -> RemoveNode:
    leaving = tuple(PodToEvict(namespace="demo", name=pod, uid=pod) for pod in pods)
    because = (Because(rule="Unneeded", values={"node": name, "unneeded_s": 240}),)
    return RemoveNode(
        at=at, id=f"remove.{name}.{at:g}", because=because, node=name, uid="u", provider_id="p", group="small",
        kind="drain" if pods else "empty", pods=leaving, size=3,
    )  # fmt: skip


def told(*events: object) -> NodesStory:
    story = NodesStory()
    for event in events:
        story.fold(event)  # type: ignore[arg-type]  # events of all classes
    return story


PLAN = PlanScaleUp(
    at=1.0,
    id="plan.1",
    plan="1",
    placed=3,
    increases=(Increase(group="small", from_size=1, size=3),),
)
FIRST = removal(HOUR, "small-b", "shop-1")
SECOND = removal(2 * HOUR, "small-c")
THIRD = removal(2 * HOUR, "small-a")
EVENTS = (
    NodeGroupObserved(at=0.0, name="small", price_micro=200_000),
    node(0.0, "small-a", "small"),
    PodObserved(at=0.5, namespace="demo", name="shop-1", uid="1"),
    PodObserved(at=0.5, namespace="elsewhere", name="shop-1", uid="2"),
    PLAN,
    node(HOUR, "small-b", "small"),
    node(HOUR, "small-c", "small"),
    FIRST,
    EvictPod(
        at=HOUR,
        id="evict.1",
        because=(),
        target=ObjectRef(api_version="v1", kind="Pod", namespace="demo", name="shop-1"),
    ),
    Applied(at=HOUR, decision="evict.1"),
    NodeGone(at=2 * HOUR, name="small-b"),
    SECOND,
    THIRD,
    UndoRemoval(
        at=2 * HOUR, id="undo.1", because=(), node="small-a", uid="u", group="small", removal=THIRD.id,
        reason="PodsPending", message="a pod needs it",
    ),
)  # fmt: skip
RUN = NodesRun(start=0.0, end=4 * HOUR, speed=360.0, folder="/data", cluster="demo")


def test_nodes_are_paid_while_they_are_there_and_standing_ones_for_ever() -> None:
    story = told(*EVENTS, NodeGone(at=3 * HOUR, name="small-c"))
    paid, standing = story.paid(0.0, 4 * HOUR), story.standing(0.0, 4 * HOUR)
    assert (paid.hours, paid.price) == pytest.approx((1 + 3 + 2 + 1, 7 * 0.2))
    assert (standing.hours, standing.price) == pytest.approx((1 + 3 * 3, 10 * 0.2))


def test_a_node_that_came_again_would_have_been_one_that_stands() -> None:
    story = told(node(0.0, "a", "small"), NodeGone(at=HOUR, name="a"), node(2 * HOUR, "b", "small"))
    assert story.paid(0.0, 3 * HOUR).hours == pytest.approx(2)
    assert story.standing(0.0, 3 * HOUR).hours == pytest.approx(3)


def test_only_what_is_within_the_story_is_paid() -> None:
    story = told(node(-HOUR, "a", "small"))
    assert story.paid(0.0, 2 * HOUR).hours == pytest.approx(2)
    assert story.paid(0.0, HOUR / 2).hours == pytest.approx(0.5)


def test_it_is_settled_when_every_removal_is_done_or_undone() -> None:
    assert not told(*EVENTS).settled
    assert told(*EVENTS).under_way == [SECOND]
    assert told(*EVENTS, NodeGone(at=3 * HOUR, name="small-c")).settled


def test_pods_of_the_demo_are_counted() -> None:
    story = told(*EVENTS)
    assert (story.pods, story.waiting, story.evicted) == (1, 1, 1)
    story.fold(PodObserved(at=3.0, namespace="demo", name="shop-1", uid="1", node="small-a"))
    assert (story.pods, story.waiting) == (1, 0)
    story.fold(PodGone(at=4.0, namespace="demo", name="shop-1"))
    assert [count for _, count in story.counts] == [1, 0]


def test_the_summary_says_how_many_why_and_what_was_saved() -> None:
    story = told(*EVENTS, NodeGone(at=3 * HOUR, name="small-c"))
    content, text = summary(story, RUN), as_text(story, RUN)
    assert content.decisions.nodes_ordered == 2
    assert content.decisions.nodes_removed == 2
    assert content.decisions.nodes_drained == 1
    assert content.scale_down is not None
    assert content.scale_down.node == "small-b"
    fits("demo.nodes", content)
    fits("demo.nodes", summary(NodesStory(), RUN))
    assert content.saved.node_hours == pytest.approx(3)
    assert "Saved: 3.00 node-hours and 0.60 (30% of the price)" in text
    assert "obody needed node small-b for 240 s" in text
    assert "1 removal was undone." in text
    assert "explain node/small-b --data /data" in text


def test_a_story_without_nodes_is_told_too() -> None:
    text = as_text(NodesStory(), RUN)
    assert "No scale-up: no pod ever lacked a node." in text
    assert "Saved: 0.00 node-hours" in text


def test_each_decision_is_said_once_and_one_that_was_undone_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines, story = NodesLines(quiet_stdout=False), told(*EVENTS)
    lines.update(story)
    lines.update(story)
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 5
    assert "grow small 1 -> 3 for 3 pending pods" in said[0]
    assert "keep node small-a of group small after all" in said[-1]


def test_the_timetable_is_in_order_and_asks_for_no_more_than_the_cloud_has() -> None:
    minutes = [minute for minute, _, _ in TIMETABLE]
    assert minutes == sorted(minutes)
    assert {name for _, name, _ in TIMETABLE} == set(WORKLOADS)
    cpus = sum(g["max"] * int(g["template"]["capacity"]["cpu"]) for g in groups()["groups"])
    most = {name: max(n for _, who, n in TIMETABLE if who == name) for name in WORKLOADS}
    assert sum(count * int(WORKLOADS[name][0]) for name, count in most.items()) < cpus


@pytest.mark.parametrize("speed", [1.0, 120.0, 2000.0])
def test_its_settings_are_read_at_every_speed(speed: float) -> None:
    _, complaints = read(settings(speed))
    assert complaints == ()


def test_a_load_is_not_for_this_story(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"--metrics .*only with --story load"):
        demo(story="nodes", metrics=tmp_path / "load.csv", data=tmp_path / "d")
