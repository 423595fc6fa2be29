"""Quotas: those of the cloud that are learnt and fade, and those of a namespace."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.vectors.provisioning_life import Cluster
from tidewright.events import provisioning as p
from tidewright.provisioning.cluster.limits import Learnt, believed
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.requests import conditions as cond

HOUR = 3600.0


@given(st.integers(0, 50), st.integers(0, 50), st.floats(60, 86_400))
def test_what_was_learnt_fades_by_half_each_half_life(nodes: int, room: int, half_life_s: float) -> None:
    learnt, maximum = Learnt(nodes=nodes, at=1000.0), nodes + room
    limits = []
    for step in range(12):
        quota = believed(NodeGroupId("g"), learnt, maximum, 1000.0 + step * half_life_s, half_life_s)
        limits.append(maximum if quota is None else quota.limits["nodes"])
        expected = maximum - room * 0.5**step
        assert expected - 1 <= limits[-1] <= max(expected, maximum if room * 0.5**step <= 0.5 else expected)
    assert limits[0] == nodes or room == 0
    assert all(b >= a for a, b in pairwise(limits))
    assert limits[-1] == maximum


def test_a_cloud_that_refuses_for_quota_is_believed_and_tried_again_bit_by_bit() -> None:
    cluster = Cluster({"initial-node-group-backoff-duration": "1m", "scale-down-enabled": False})
    cluster.add_group("g", cpu=4000, maximum=8)
    cluster.refuse["g"] = "QuotaExceeded"
    shape = cluster.shape({"cpu": 3000})
    for i in range(8):
        cluster.pod(f"p{i}", shape)
    cluster.settle()
    assert len(cluster.of(p.IncreaseNodeGroup)) == 1
    del cluster.refuse["g"]
    cluster.advance(120)  # the backoff is over, the memory is not
    (_, last) = cluster.object_events("NotTriggerScaleUp")[-2:]
    assert last.message == 'pod didn\'t trigger scale-up: 1 exceeded quota: "cloud-g", resources: nodes'
    cluster.advance(HOUR)
    assert cluster.of(p.IncreaseNodeGroup)[1].size <= 4
    cluster.advance(6 * HOUR)
    assert cluster.groups["g"].target == 8


# --- Quotas of a namespace ---


CHECK = "check-capacity.autoscaling.x-k8s.io"


def quota(
    cluster: Cluster, hard: dict[str, int], *scopes: dict[str, Any], used: dict[str, int] | None = None
) -> None:
    cluster.tell(
        p.ResourceQuotaObserved(
            at=cluster.now, namespace="ns", name="q", hard=hard, used=used or {}, scopes=scopes
        )
    )


def answered(cluster: Cluster, name: str, **spec: Any) -> bool:
    """Whether a request for three pods of a cpu each is provisioned."""
    cluster.template(f"t-{name}", "1", **spec)
    cluster.request(name, CHECK, [(f"t-{name}", 3)])
    cluster.settle()
    return cond.is_true(cluster.conditions(name).values(), cond.PROVISIONED)


def large() -> Cluster:
    cluster = Cluster()
    cluster.add_node("n", cpu=64_000)
    return cluster


@pytest.mark.parametrize(
    ("scope", "meant", "other"),
    [
        ({"scopeName": "Terminating", "operator": "Exists"}, {"activeDeadlineSeconds": 60}, {}),
        ({"scopeName": "NotTerminating", "operator": "Exists"}, {}, {"activeDeadlineSeconds": 60}),
        (
            {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]},
            {"priorityClassName": "high"},
            {"priorityClassName": "low"},
        ),
    ],
)
def test_a_quota_with_scopes_holds_for_the_pods_that_they_mean(
    scope: dict[str, Any], meant: dict[str, Any], other: dict[str, Any]
) -> None:
    cluster = large()
    quota(cluster, {"requests.cpu": 2000}, scope)
    assert not answered(cluster, "meant", **meant)
    assert answered(cluster, "other", **other)
    (event,) = cluster.object_events("CapacityNotFound")
    assert 'exceeded quota: "q", resources: requests.cpu' in event.message


def test_what_is_promised_to_others_counts_where_the_same_quota_means_them() -> None:
    cluster = large()
    quota(cluster, {"pods": 5}, {"scopeName": "PriorityClass", "operator": "Exists"})
    assert answered(cluster, "plain")
    assert answered(cluster, "first", priorityClassName="high")
    assert not answered(cluster, "second", priorityClassName="low")


def test_limits_have_quotas_of_their_own() -> None:
    cluster = large()
    quota(cluster, {"limits.cpu": 6000}, used={"limits.cpu": 1000})
    limited = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}]}
    assert not answered(cluster, "limited", **limited)
    assert answered(cluster, "unlimited")
