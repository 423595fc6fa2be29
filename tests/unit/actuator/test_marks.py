"""Marks on nodes: made and undone as a whole, and nothing of what others set is touched."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewright.actuator.marks import TaintOfAnother, marked, not_drained, would_move
from tidewright.actuator.requests import Mismatch
from tidewright.events.base import JsonObject, ObjectRef
from tidewright.events.provisioning import MarkNode
from tidewright.kube.taints import CORDONED, DELETION_CANDIDATE, DRAIN, TO_BE_DELETED, UNNEEDED

GPU = {"key": "gpu", "value": "yes", "effect": "NoExecute", "timeAdded": "2026-11-21T12:00:00Z"}
OURS = {"key": TO_BE_DELETED, "value": "7", "effect": "NoSchedule"}


def node(*taints: JsonObject, cordoned: bool = False, mark: str = "") -> JsonObject:
    spec: JsonObject = {"providerID": "p", **({"taints": list(taints)} if taints else {})}
    if cordoned:
        spec["unschedulable"] = True
    return {
        "metadata": {
            "name": "n1",
            "uid": "u",
            "resourceVersion": "9",
            "annotations": {"a": "b", **({DRAIN: mark} if mark else {})},
        },
        "spec": spec,
        "status": {"x": 1},
    }


def mark(key: str = TO_BE_DELETED, **more: Any) -> MarkNode:
    target = ObjectRef(api_version="v1", kind="Node", name="n1", uid=more.pop("uid", "u"))
    given = {"present": True, "value": "7", "drain": "d.1", **more}
    return MarkNode(at=1.0, target=target, key=key, **given)


def test_taint_cordon_and_mark_are_one_write() -> None:
    made = marked(node(GPU), mark(cordon=True))
    assert made is not None
    assert made["spec"] == {"providerID": "p", "taints": [GPU, OURS], "unschedulable": True}
    assert made["metadata"]["annotations"] == {"a": "b", DRAIN: f"d.1{CORDONED}"}
    assert made["metadata"]["resourceVersion"] == "9"
    assert made["status"] == {"x": 1}
    assert marked(made, mark(cordon=True)) is None


@given(
    cordoned=st.booleans(),
    cordon=st.booleans(),
    taints=st.lists(
        st.sampled_from([GPU, {"key": DELETION_CANDIDATE, "value": "1", "effect": "PreferNoSchedule"}]),
        unique_by=str,
    ),
)
def test_a_drain_undone_leaves_the_node_as_it_was(
    cordoned: bool, cordon: bool, taints: list[JsonObject]
) -> None:
    before = node(*taints, cordoned=cordoned)
    made = marked(before, mark(cordon=cordon))
    assert made is not None
    assert marked(made, mark(present=False)) == before


def test_the_taint_of_another_is_left_alone_and_never_taken_off() -> None:
    with pytest.raises(TaintOfAnother, match=TO_BE_DELETED):
        marked(node(OURS), mark())
    assert marked(node(OURS), mark(present=False)) is None


def test_the_mark_of_another_drain_is_not_taken_off() -> None:
    made = marked(node(), mark(drain="d.2"))
    assert made is not None
    assert marked(made, mark(present=False, drain="d.1")) is None
    assert marked(made, mark(present=False, drain="")) == node()


def test_a_mark_of_a_drain_of_before_is_taken_over_with_its_cordon() -> None:
    before = marked(node(), mark(drain="d.1", value="3", cordon=True))
    assert before is not None
    made = marked(before, mark(drain="d.2", cordon=True))
    assert made is not None
    assert made["metadata"]["annotations"][DRAIN] == f"d.2{CORDONED}"
    assert marked(made, mark(present=False, drain="d.2")) == node()


def test_another_node_of_the_name_is_not_marked_and_needs_no_unmarking() -> None:
    with pytest.raises(Mismatch, match="uid is u, not v"):
        marked(node(), mark(uid="v"))
    assert marked(node(OURS, mark="d.1"), mark(uid="v", present=False)) is None


def test_the_soft_taint_has_a_mark_of_its_own() -> None:
    made = marked(node(), mark(DELETION_CANDIDATE))
    assert made is not None
    assert made["spec"]["taints"] == [{"key": DELETION_CANDIDATE, "value": "7", "effect": "PreferNoSchedule"}]
    assert UNNEEDED in made["metadata"]["annotations"]
    assert marked(made, mark(DELETION_CANDIDATE, present=False)) == node()


def test_an_instance_is_deleted_of_the_node_that_was_drained_alone() -> None:
    drained = marked(node(), mark())
    assert drained is not None
    assert not_drained(drained, "u") == ""
    assert "another node" in not_drained(drained, "v")
    assert "no mark of ours" in not_drained(node(), "u")
    assert "no mark of ours" in not_drained(node(OURS), "u")


@pytest.mark.parametrize(
    ("pod", "moves"),
    [
        ({}, True),
        ({"metadata": {"deletionTimestamp": "2026-11-21T12:00:00Z"}}, False),
        ({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}}, False),
        ({"metadata": {"ownerReferences": [{"kind": "DaemonSet", "controller": True}]}}, False),
        ({"metadata": {"ownerReferences": [{"kind": "ReplicaSet", "controller": True}]}}, True),
        ({"status": {"phase": "Succeeded"}}, False),
        ({"status": {"phase": "Running"}}, True),
        ({"metadata": {"annotations": {"tidewright.dev/buffer": "ns/b/shape"}}}, False),
    ],
)
def test_a_pod_that_would_be_lost_with_its_node(pod: JsonObject, moves: bool) -> None:
    assert would_move(pod) is moves


def test_our_cordon_comes_off_although_it_is_not_asked_for_any_more() -> None:
    before = marked(node(), mark(drain="d.0", cordon=True))
    assert before is not None
    taken_over = marked(before, mark(cordon=False))
    assert taken_over is not None
    assert taken_over["metadata"]["annotations"][DRAIN] == f"d.1{CORDONED}"
    undone = marked(taken_over, mark(present=False))
    assert undone is not None
    assert "unschedulable" not in undone["spec"]
