"""Explanations name the cause: who keeps the room, which label does not match, how many more nodes would do."""

from __future__ import annotations

import pytest

from tests.unit.provisioning.test_buffers import CHUNKS, buffered
from tests.unit.provisioning.test_explaining import ATOMIC, CHECK, copied, tried
from tests.unit.provisioning.watched import Watched
from tests.vectors.capacity_buffers import Buffers, pod_spec
from tests.vectors.provisioning_life import Cluster
from tidewright.events import provisioning as p
from tidewright.host.fold.explainer import Reference
from tidewright.provisioning.tell import folding, room
from tidewright.provisioning.tell.explaining import EXPLAINER
from tidewright.provisioning.tell.what_if_buffers import preview

BOOKED = "but for the booking of ns/first, held until 2026-09-21 14:23:20 UTC."


def standing(cluster: Cluster, kind: str, name: str) -> list[str]:
    space = "" if kind in ("node", "nodegroup") else "ns"
    return list(EXPLAINER.standing(copied(cluster), Reference(kind, space, name), cluster.now))


def attempts(cluster: Cluster, name: str) -> list[str]:
    """What would have turned the last attempt at a request."""
    last = [d for d in cluster.of(p.AttemptRequest) if d.name == name][-1]
    return list(EXPLAINER.opposite(copied(cluster), last))


def booked(profile: str, **config: object) -> Cluster:
    """Three nodes that a request has booked but for a little, and a group that could have larger ones."""
    cluster = Cluster({"profile": profile, **config})
    cluster.add_group("large", cpu=8000, maximum=0, labels={"pool": "large"})
    cluster.add_group("general", cpu=4000, maximum=3)
    for number in (1, 2, 3):
        cluster.add_node(f"general-{number}", "general")
    cluster.groups["general"].target = 3
    cluster.observe_group("general")
    cluster.template("worker", "1900m")
    cluster.template("small", "700m")
    cluster.request("first", CHECK, [("worker", 6)])
    cluster.settle()
    return cluster


def test_a_pod_without_room_names_the_booking_that_has_it_and_its_end() -> None:
    cluster = booked("hold")
    shape = cluster.shape({"cpu": 700})
    for number in range(10):
        cluster.pod(f"p{number}", shape)
    cluster.settle()
    assert standing(cluster, "pod", "p3") == [
        "Nothing is ordered for it.",
        "Groups general, large: max node group size reached.",
        f"10 pods of 700m cpu would fit on general-1..3 {BOOKED}",
        "With 1 more node in group large, which is as large as it may be, all pods like it would fit.",
        "With 2 more nodes in group general, which is as large as it may be, all pods like it would fit.",
    ]


@pytest.mark.parametrize("profile", ["compat", "hold"])
@pytest.mark.parametrize("cls", [CHECK, ATOMIC])
def test_a_request_without_room_names_the_booking_that_has_it(profile: str, cls: str) -> None:
    cluster = booked(profile)
    cluster.request("second", cls, [("small", 10)])
    cluster.settle()
    told = f"10 pods of 700m cpu, 1Mi memory would fit on general-1..3 {BOOKED}"
    more = "With 2 more nodes in group general, which is as large as it may be, all would"
    assert told in standing(cluster, "provisioningrequest", "second")
    assert f"{more} fit." in standing(cluster, "provisioningrequest", "second")
    assert told in attempts(cluster, "second")
    assert f"{more} have fitted." in attempts(cluster, "second")


def test_in_compat_no_booking_keeps_a_pod_from_its_room() -> None:
    cluster = booked("compat")
    cluster.pod("p", cluster.shape({"cpu": 5000}))
    cluster.settle()
    assert not any("booking" in text for text in standing(cluster, "pod", "p"))


def test_a_request_names_the_buffer_whose_room_it_may_not_use() -> None:
    cluster = buffered(8, {**CHUNKS, "replicas": 6}, **{"requests-use-buffers": False})
    (node,) = cluster.state.nodes
    cluster.template("four", "4")
    cluster.request("r", CHECK, [("four", 1)])
    cluster.settle()
    kept = "the buffer ns/b, which holds it as long as it is there"
    assert f"1 pod of 4 cpu, 1Mi memory would fit on {node} but for {kept}." in standing(
        cluster, "provisioningrequest", "r"
    )


def test_what_does_not_match_is_named_with_its_label() -> None:
    cluster = Cluster()
    cluster.add_group("a", labels={"pool": "cpu"})
    cluster.add_group("b", labels={"pool": "cpu"})
    cluster.add_group("c", maximum=0)
    cluster.pod("p", cluster.shape({"cpu": 100}, {"nodeSelector": {"pool": "gpu"}}))
    terms = [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["x", "y"]}, {"key": "disk", "operator": "Exists"}]},
        {"matchExpressions": [{"key": "pool", "operator": "NotIn", "values": ["cpu"]}]},
    ]  # fmt: skip
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    cluster.pod("q", cluster.shape({"cpu": 100}, {"affinity": {"nodeAffinity": required}}))
    cluster.settle()
    unmatched = "node selector or affinity does not match"
    assert standing(cluster, "pod", "p") == [
        "Nothing is ordered for it.",
        f"Groups a, b: {unmatched}: it asks for pool=gpu, its nodes have pool=cpu.",
        f"Group c: max node group size reached; {unmatched}: it asks for pool=gpu, its nodes have no label pool.",
    ]
    assert f"Groups a, b: {unmatched}: it asks for pool!=cpu, its nodes have pool=cpu." in standing(
        cluster, "pod", "q"
    )


@pytest.mark.parametrize("profile", ["compat", "hold"])
def test_a_buffer_without_room_names_the_booking_that_has_it_and_its_end(profile: str) -> None:
    cluster = Buffers({"profile": profile})
    cluster.add_group("large", cpu=8000, maximum=0)
    cluster.add_node("general-1", cpu=4000)
    cluster.template("worker", "1900m")
    cluster.request("first", CHECK, [("worker", 2)])
    cluster.settle()
    cluster.pod_template("t", pod_spec({"cpu": "1"}))
    cluster.buffer("b", {"podTemplateRef": {"name": "t"}, "replicas": 3})
    cluster.settle()
    told = [
        "3 have no room: large: max node group size reached.",
        f"3 pods of 1 cpu would fit on general-1 {BOOKED}",
        "With 1 more node in group large, which is as large as it may be, all its chunks would have room.",
    ]
    assert standing(cluster, "capacitybuffer", "b")[1:4] == told
    spec = {"podTemplateRef": {"name": "t"}, "replicas": 3}
    state = copied(cluster)
    answer = preview(state, "ns", "another", spec, templates={}, now=cluster.now)
    assert told[1].removesuffix(".") in answer.sentences


def test_a_buffer_and_a_request_name_pods_that_come_first() -> None:
    cluster = Buffers({"profile": "hold"})
    cluster.add_node("n1", cpu=4000)
    cluster.pod_template("t", pod_spec({"cpu": "1"}))
    cluster.buffer("b", {"podTemplateRef": {"name": "t"}, "replicas": 4})
    for number in range(6):
        cluster.pod(f"p{number}", cluster.shape({"cpu": 1000}))
    cluster.template("one", "1")
    cluster.request("r", CHECK, [("one", 2)])
    cluster.settle()
    first = "would fit on n1 but for 4 pods that wait and come first."
    assert f"4 pods of 1 cpu {first}" in standing(cluster, "capacitybuffer", "b")
    assert f"2 pods of 1 cpu, 1Mi memory {first}" in standing(cluster, "provisioningrequest", "r")


def test_a_pod_that_is_spread_over_a_label_that_no_group_has_names_it() -> None:
    cluster = Cluster()
    for number in range(3):
        cluster.add_group(f"g{number}")
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
              "labelSelector": {"matchLabels": {"app": "x"}}}  # fmt: skip
    cluster.pod("p", cluster.shape({"cpu": 100}, {"topologySpreadConstraints": [spread]}))
    cluster.settle()
    assert standing(cluster, "pod", "p") == [
        "Nothing is ordered for it.",
        "Groups g0..2: its nodes have no label zone, over which it is spread.",
    ]


def test_an_opposite_of_many_groups_is_one_line() -> None:
    cluster = Cluster()
    for number in range(30):
        cluster.add_group(f"g{number}", cpu=4000 if number else 8000)
    cluster.pod("p", cluster.shape({"cpu": 9000}))
    cluster.settle()
    assert standing(cluster, "pod", "p") == [
        "Nothing is ordered for it.",
        "Groups g0..29: Insufficient cpu.",
        "With cpu at 8 cores or less instead of 9 cores, a pod would fit on a new node of group g0.",
        "With cpu at 4 cores or less instead of 9 cores, a pod would fit on a new node of groups g1..29.",
    ]


def test_a_request_that_had_room_is_told_for_how_many_more_there_was() -> None:
    cluster = Cluster()
    cluster.add_node("n1", cpu=4000)
    cluster.template("one", "1")
    cluster.request("r", CHECK, [("one", 3)])
    before = copied(cluster)
    cluster.settle()
    (attempt,) = cluster.of(p.AttemptRequest)
    assert EXPLAINER.opposite(before, attempt) == ["Of 4 pods like these all would have fitted, of more not."]


def test_a_request_lists_only_groups_that_hold_a_pod_of_it() -> None:
    cluster = Cluster()
    cluster.add_group("wide", cpu=8000, maximum=1)
    for number in range(6):
        cluster.add_group(f"tiny-{number}", cpu=1000)
    cluster.template("big", "6")
    cluster.request("r", ATOMIC, [("big", 3)])
    cluster.settle()
    assert [text for text in standing(cluster, "provisioningrequest", "r") if "roup" in text] == [
        "With 3 more nodes in group wide, which may have 1 more, all would fit.",
        "Group wide can grow from 0 to 1 node.",
    ]


def test_groups_of_one_reason_are_one_line() -> None:
    verdicts = [p.GroupVerdict(group=f"g{n}", reason="Insufficient cpu") for n in range(7)]
    verdicts += [p.GroupVerdict(group="x", reason="max node group size reached")]
    assert folding.verdicts(verdicts) == [
        "Groups g0..6 are out: Insufficient cpu.",
        "Group x is out: max node group size reached.",
    ]


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["general-1", "general-2", "general-3"], "general-1..3"),
        (["a-09", "a-10", "a-12"], "a-09..10, a-12"),
        (["b", "a"], "a, b"),
        (["n1", "n1"], "n1"),
        (["a1", "b2", "c3", "d4", "e5", "f6"], "a1, b2, c3, d4 and 2 more"),
        (["ip-10-0-0-9.local", "ip-10-0-0-10.local"], "ip-10-0-0-10.local, ip-10-0-0-9.local"),
    ],
)
def test_nodes_that_differ_by_a_number_are_a_range(names: list[str], told: str) -> None:
    assert folding.nodes(names) == told


def test_a_line_that_repeats_is_told_once_with_its_count() -> None:
    assert folding.once(["A.", "B.", "A.", "A."]) == ["A (3 times).", "B."]


def test_a_preview_says_the_same_of_a_request_that_is_not_there_yet() -> None:
    answer = tried(booked("hold"), "700m", 10, CHECK)
    assert f"10 pods of 700m cpu would fit on general-1..3 {BOOKED}".removesuffix(".") in answer.sentences


def kept_nodes(pod_cpu: int | None = None, profile: str = "hold") -> Watched:
    """A node for which a request has all room but for a little, and one with a pod."""
    cluster = Watched({"profile": profile, "placeholders": False})
    cluster.nodes(2)
    cluster.template("worker", "3500m")
    cluster.request("first", CHECK, [("worker", 1)])
    cluster.settle()
    if pod_cpu is not None:
        booked = next(iter(next(iter(cluster.state.requests.values())).places.values()))
        (other,) = set(cluster.state.nodes) - set(booked)
        cluster.placed("own", other, shape=cluster.shape({"cpu": pod_cpu}))
    cluster.advance(30)
    return cluster


def test_a_node_that_stays_for_a_booking_names_it_and_its_end() -> None:
    cluster = kept_nodes(profile="compat")
    (booked,) = next(iter(next(iter(cluster.state.requests.values())).places.values()))
    said = BOOKED.removeprefix("but for ")
    assert f"It stays, since room on it is kept for {said}" in cluster.standing(booked)


def test_a_node_that_stays_for_a_buffer_names_it() -> None:
    cluster = buffered(8, {**CHUNKS, "replicas": 2})
    (node,) = cluster.state.nodes
    assert "the buffer ns/b, which holds it as long as it is there" in room.keepers(copied(cluster), node)


def test_a_node_whose_pod_has_no_place_for_a_booking_names_it_and_its_end() -> None:
    cluster = kept_nodes(1000)
    (other,) = [name for name in cluster.state.nodes if cluster.state.paused.get(name) is not None]
    said = cluster.standing(other)
    assert "its only pod finds no room" in said
    assert f"free beside {BOOKED.removeprefix('but for ').removesuffix('.')}" in said
