"""[B2] in the profile `hold`: nodes on which room is kept say for whom, and until when."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.unit.provisioning.test_placeholders import ATOMIC, CHECK, consumer, hold
from tests.vectors.provisioning_life import NOW, Cluster
from tidewright.events import facts as f
from tidewright.events import outcomes as o
from tidewright.events.decisions import PatchObject
from tidewright.kube.times import rfc3339
from tidewright.provisioning.decide import DECIDER
from tidewright.provisioning.state import RESERVED, State


def notes(cluster: Cluster) -> dict[str, str]:
    """What the nodes say."""
    found = {name: node.annotations.get(RESERVED, "") for name, node in cluster.state.nodes.items()}
    return {name: note for name, note in found.items() if note}


def annotate(cluster: Cluster, name: str, annotations: dict[str, str]) -> None:
    """A node is observed with these annotations."""
    fact = f.NodeObserved(
        at=cluster.now,
        name=name,
        labels={"kubernetes.io/hostname": name},
        annotations=annotations,
        allocatable={"cpu": 4000, "memory": 16 * 2**30, "pods": 110},
        ready=True,
        ready_changed_at=cluster.now - 120,
        provider_id=f"sim://{name}",
    )
    cluster.tell(fact)


def test_nodes_say_for_whom_they_keep_room_and_until_when_as_the_detail_does() -> None:
    cluster = hold(3)
    cluster.request("r", CHECK, [("three", 2)], {"BookingSeconds": "120"})
    cluster.settle()
    until = cluster.statuses["ns/r"]["provisioningClassDetails"]["reservation"]
    assert until in {rfc3339(NOW + 120 + s) for s in (0, 1, 2)}
    assert notes(cluster) == {"n0": f"ns/r until {until}", "n1": f"ns/r until {until}"}
    said = len(cluster.of(PatchObject))
    assert said == 2
    cluster.advance(60)
    assert len(cluster.of(PatchObject)) == said
    cluster.advance(70)
    assert cluster.conditions("r")["BookingExpired"].status == "True"
    assert notes(cluster) == {}
    assert len(cluster.of(PatchObject)) == 2 * said


def test_several_requests_on_one_node_are_all_named_and_each_goes_with_its_end() -> None:
    cluster = hold(1)
    cluster.template("one", "1")
    cluster.request("a", CHECK, [("one", 1)], {"BookingSeconds": "60"})
    cluster.settle()
    cluster.request("b", CHECK, [("one", 1)])
    cluster.settle()
    both = notes(cluster)["n0"]
    assert [line.split(" until ")[0] for line in both.split(", ")] == ["ns/a", "ns/b"]
    cluster.advance(70)
    assert notes(cluster)["n0"] == both.split(", ")[1]
    cluster.delete_request("b")
    cluster.settle()
    assert notes(cluster) == {}


def test_annotations_of_others_stay_and_a_node_that_its_consumer_took_says_nothing() -> None:
    cluster = hold(0)
    annotate(cluster, "n0", {"karpenter.sh/x": "theirs"})
    cluster.request("r", CHECK, [("three", 1)])
    cluster.settle()
    assert cluster.state.nodes["n0"].annotations["karpenter.sh/x"] == "theirs"
    assert set(notes(cluster)) == {"n0"}
    for made in cluster.of(PatchObject):
        assert set(made.patch["metadata"]) == {"annotations"}
        assert set(made.patch["metadata"]["annotations"]) == {RESERVED}
    consumer(cluster, "p0", "n0")
    cluster.settle()
    assert cluster.state.nodes["n0"].annotations == {"karpenter.sh/x": "theirs"}


def test_nodes_that_were_ordered_say_it_once_they_are_provisioned() -> None:
    cluster = hold(0)
    cluster.boots = False
    cluster.add_group("g", cpu=4000, maximum=5)
    cluster.request("r", ATOMIC, [("three", 2)])
    cluster.settle()
    cluster.boot("g")
    cluster.advance(15)
    assert cluster.conditions("r")["Provisioned"].status == "True"
    assert set(notes(cluster)) == {"g-new-1", "g-new-2"}


@pytest.mark.parametrize("profile", ["hold", "compat"])
def test_what_another_life_left_behind_is_taken_away(profile: str) -> None:
    cluster = hold(0, profile=profile)
    annotate(cluster, "n0", {RESERVED: "ns/gone until 2020-01-01T00:00:00Z"})
    cluster.settle()
    assert notes(cluster) == {}


@pytest.mark.parametrize("setting", [{"profile": "compat"}, {"dry-run": True}])
def test_no_node_is_marked_where_nothing_is_held(setting: dict[str, Any]) -> None:
    cluster = hold(**setting)
    cluster.request("r", CHECK, [("three", 2)])
    cluster.advance(60)
    assert not cluster.of(PatchObject)


def test_room_without_placeholders_is_marked_where_it_was_found() -> None:
    cluster = hold(3, placeholders=False)
    cluster.request("r", CHECK, [("three", 2)])
    cluster.settle()
    assert len(notes(cluster)) == 2
    cluster.advance(610)
    assert notes(cluster) == {}


def test_a_patch_under_way_is_not_repeated_one_that_failed_is_and_a_refused_one_waits_for_the_node() -> None:
    cluster = hold(1)
    cluster.silent = True
    cluster.request("r", CHECK, [("three", 1)])
    cluster.settle()
    cluster.advance(30)
    (first,) = cluster.of(PatchObject)
    assert notes(cluster) == {}
    cluster.state.nodes["n0"].annotations = {}
    annotate(cluster, "n0", {"tidewright.dev/other": "seen meanwhile"})
    cluster.settle()
    assert len(cluster.of(PatchObject)) == 1
    cluster.tell(o.Failed(at=cluster.now, decision=first.id, reason="Unavailable"))
    cluster.settle()
    _, second = cluster.of(PatchObject)
    assert second.patch == first.patch
    cluster.tell(o.Rejected(at=cluster.now, decision=second.id, reason="Forbidden"))
    cluster.advance(60)
    assert len(cluster.of(PatchObject)) == 2
    annotate(cluster, "n0", {})
    cluster.settle()
    assert len(cluster.of(PatchObject)) == 3
    cluster.tell(f.NodeGone(at=cluster.now, name="n0"))
    cluster.settle()
    assert cluster.state.marks == {}


def test_a_state_that_was_saved_in_between_goes_on_where_it_was() -> None:
    cluster = hold(1)
    cluster.silent = True
    cluster.request("r", CHECK, [("three", 1)])
    cluster.settle()
    assert cluster.state.marks["n0"].value.startswith("ns/r until ")
    saved = msgspec.json.decode(msgspec.json.encode(cluster.state), type=State)
    assert saved.marks == cluster.state.marks
    cluster.fold.state = saved
    cluster.advance(60)
    assert len(cluster.of(PatchObject)) == 1
    assert DECIDER.state_type is State
