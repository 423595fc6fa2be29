"""A pod that waits had room on a node that came for it, and another pod has that: nothing more is heard of the one that waits."""

from __future__ import annotations

import pytest

from tests.vectors.provisioning_life import Cluster
from tidewright.events import facts as f
from tidewright.events import provisioning as p

CONFIG = {"scale-down-enabled": False}


def waits_for_its_node() -> Cluster:
    cluster = Cluster(CONFIG)
    cluster.add_group("g", maximum=20)
    cluster.pod("waits", cluster.shape({"cpu": 3000}))
    cluster.advance(60)
    assert sizes(cluster) == [1]
    assert cluster.state.due is not None
    assert cluster.state.due > cluster.now + 60  # nothing else comes in between
    return cluster


def sizes(cluster: Cluster) -> list[int]:
    return [order.size for order in cluster.of(p.IncreaseNodeGroup)]


@pytest.mark.parametrize("seen_before", [False, True])
def test_a_node_is_ordered_for_a_pod_whose_place_another_one_has_taken(seen_before: bool) -> None:
    cluster = waits_for_its_node()
    (node,) = cluster.state.nodes
    shape = cluster.shape({"cpu": 3000})
    if seen_before:  # the scheduler had not looked at it
        at = cluster.now
        cluster.tell(
            f.PodObserved(
                at=at,
                namespace="ns",
                name="takes",
                uid="uid-takes",
                shape=shape,
                phase="Pending",
                created_at=at,
            )
        )
    cluster.pod("takes", shape, node=node)
    cluster.advance(15)
    assert sizes(cluster) == [1, 2]


def test_where_nobody_waits_a_pod_that_has_its_place_is_no_evaluation() -> None:
    cluster = waits_for_its_node()
    (node,) = cluster.state.nodes
    cluster.pod("waits", cluster.shape({"cpu": 3000}), node=node)
    due = cluster.state.due
    cluster.pod("small", cluster.shape({"cpu": 10}), node=node)
    assert cluster.state.due == due
