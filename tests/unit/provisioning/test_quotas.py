"""Quotas: those of the cloud that are learnt and fade, and those of a namespace."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.vectors.provisioning_life import Cluster
from tidewright.events import provisioning as p
from tidewright.provisioning.limits import Learnt, believed

HOUR = 3600.0


@given(st.integers(0, 50), st.integers(0, 50), st.floats(60, 86_400))
def test_what_was_learnt_fades_by_half_each_half_life(nodes: int, room: int, half_life_s: float) -> None:
    learnt, maximum = Learnt(nodes=nodes, at=1000.0), nodes + room
    limits = []
    for step in range(12):
        quota = believed("g", learnt, maximum, 1000.0 + step * half_life_s, half_life_s)
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
