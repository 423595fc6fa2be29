"""The status ConfigMap: what it says, how often it is written, and where."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.vectors.provisioning_life import Cluster
from tidewright.events import outcomes as o
from tidewright.events import provisioning as p
from tidewright.provisioning.cluster import status_map
from tidewright.provisioning.unanswered import ReportOrder


def reports(cluster: Cluster) -> list[dict[str, Any]]:
    return [yaml.safe_load(d.text) for d in cluster.of(p.ReportClusterStatus)]


def world() -> Cluster:
    cluster = Cluster(boots=False)
    cluster.add_group("workers", cpu=4000, minimum=0, maximum=9)
    cluster.pod("p", cluster.shape({"cpu": 3000}))
    cluster.settle()
    return cluster


def test_groups_say_their_sizes_health_and_what_is_under_way() -> None:
    cluster = world()
    cluster.advance(11)
    cluster.boot("workers")
    cluster.advance(61)
    first, *_, last = reports(cluster)
    assert first["autoscalerStatus"] == "Running"
    assert first["clusterWide"]["scaleUp"]["status"] == "NoActivity"
    (group,) = last["nodeGroups"]
    assert group["name"] == "workers"
    health = group["health"]
    assert (health["cloudProviderTarget"], health["minSize"], health["maxSize"]) == (1, 0, 9)
    assert health["nodeCounts"]["registered"]["ready"] == 1
    assert health["status"] == last["clusterWide"]["health"]["status"] == "Healthy"
    assert any(r["clusterWide"]["scaleUp"]["status"] == "InProgress" for r in reports(cluster))
    assert group["scaleUp"]["status"] == "NoActivity"
    assert group["scaleUp"]["lastTransitionTime"] > health["lastTransitionTime"]
    assert last["time"] == health["lastProbeTime"]


def test_a_group_in_backoff_says_why() -> None:
    cluster = Cluster()
    cluster.add_group("workers", cpu=4000, maximum=9)
    cluster.refuse["workers"] = "OutOfCapacity"
    cluster.pod("p", cluster.shape({"cpu": 3000}))
    cluster.advance(30)
    scale_up = reports(cluster)[-1]["nodeGroups"][0]["scaleUp"]
    assert scale_up["status"] == "Backoff"
    assert scale_up["backoffInfo"] == {"errorCode": "OutOfCapacity", "errorMessage": "OutOfCapacity here"}


def test_it_is_written_when_it_changes_and_at_most_every_ten_seconds() -> None:
    cluster = world()
    cluster.advance(700)
    told = cluster.of(p.ReportClusterStatus)
    assert all(b.at - a.at >= status_map.EVERY_S for a, b in pairwise(told))
    assert all(a.digest != b.digest for a, b in pairwise(told))
    assert len(told) <= 6


def test_a_write_that_failed_is_made_again() -> None:
    cluster = world()
    before = len(cluster.of(p.ReportClusterStatus))
    last = cluster.of(p.ReportClusterStatus)[-1]
    cluster.state.orders[last.id] = ReportOrder()
    cluster.tell(o.Failed(at=cluster.now, decision=last.id, reason="Unavailable"))
    cluster.advance(30)
    assert len(cluster.of(p.ReportClusterStatus)) > before


def test_it_and_the_events_about_groups_are_where_the_configuration_says() -> None:
    cluster = Cluster({"namespace": "team", "status-config-map-name": "nodes"})
    cluster.add_group("workers", cpu=4000, maximum=9)
    cluster.pod("p", cluster.shape({"cpu": 3000}))
    cluster.settle()
    targets = {(d.target.namespace, d.target.name) for d in cluster.of(p.ReportClusterStatus)}
    assert targets == {("team", "nodes")}
    assert {e.target.namespace for e in cluster.object_events("ScaledUpGroup")} == {"team"}


SCALARS = st.text() | st.integers() | st.booleans() | st.none()
TREES = st.recursive(
    SCALARS,
    lambda inner: (
        st.dictionaries(st.from_regex(r"k[a-z]{1,6}", fullmatch=True), inner, min_size=1, max_size=3)
        | st.lists(st.dictionaries(st.just("k"), inner, min_size=1, max_size=1), max_size=2)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.from_regex(r"k[a-z]{1,6}", fullmatch=True), TREES, min_size=1, max_size=4))
def test_what_is_written_reads_back(tree: dict[str, Any]) -> None:
    assert yaml.safe_load(status_map.yaml(tree)) == tree
