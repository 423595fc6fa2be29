"""Nodes that are seen before their cloud is: there once, and not on their way as well."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.vectors.provisioning_life import Cluster
from tidewright.events import provisioning as p

ATOMIC = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
CHECK = "check-capacity.autoscaling.x-k8s.io"


def ordered(nodes: int = 2) -> Cluster:
    """Nodes of a group are under way for a request that fills them."""
    cluster = Cluster(boots=False)
    cluster.add_group("workers", cpu=4000, maximum=nodes, labels={"pool": "workers"})
    cluster.template("three", "3")
    cluster.request("r", ATOMIC, [("three", nodes)])
    cluster.settle()
    return cluster


def comes(cluster: Cluster, name: str, **different: Any) -> None:
    """A node is ready before the cloud says which instance it is."""
    cluster.tell(msgspec.structs.replace(cluster.node_fact("workers", name), **different))


def test_its_room_is_given_out_once() -> None:
    cluster = ordered()
    comes(cluster, "workers-new-1")
    cluster.request("check", CHECK, [("three", 1)])
    cluster.settle()
    assert cluster.conditions("check")["Provisioned"].status == "False"
    comes(cluster, "workers-new-2")
    cluster.settle()
    assert cluster.conditions("r")["CapacityReady"].status == "True"  # there is nothing to wait for
    cluster.observe_group("workers")
    cluster.advance(15)
    assert {node.group for node in cluster.state.nodes.values()} == {"workers"}
    assert len(cluster.of(p.IncreaseNodeGroup)) == 1


@pytest.mark.parametrize(
    "different",
    [
        {"labels": {"pool": "others"}},
        {"allocatable": {"cpu": 8000, "memory": 2**34, "pods": 110}},
        {"provider_id": ""},
    ],
)
def test_a_node_that_does_not_look_like_what_was_ordered_is_another(different: dict[str, Any]) -> None:
    cluster = ordered()
    comes(cluster, "stranger", **different)
    cluster.request("check", CHECK, [("three", 1)])
    cluster.settle()
    assert cluster.conditions("check")["Provisioned"].status == "True"


def test_a_node_that_its_group_does_not_know_when_it_is_seen_again_is_another() -> None:
    cluster = ordered()
    comes(cluster, "stranger")
    cluster.advance(1)
    cluster.observe_group("workers")
    cluster.request("check", CHECK, [("three", 1)])
    cluster.settle()
    assert cluster.conditions("check")["Provisioned"].status == "True"
    assert "CapacityReady" not in cluster.conditions("r")


def test_no_more_are_taken_for_a_group_than_it_waits_for() -> None:
    cluster = ordered(1)
    for name in ("workers-new-1", "stranger"):
        comes(cluster, name)
    cluster.request("check", CHECK, [("three", 1)])
    cluster.settle()
    assert cluster.conditions("check")["Provisioned"].status == "True"
