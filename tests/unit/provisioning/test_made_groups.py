"""Node auto-provisioning: which groups come into being for what, in which zones."""

from __future__ import annotations

import pytest

from tests.vectors.provisioning_life import Cluster
from tidewright.events import provisioning as p

ATOMIC = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
ZONE = "topology.kubernetes.io/zone"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
MACHINE = {
    "name": "m4",
    "resources": {"cpu": 4000, "memory": 16 * 2**30, "pods": 110},
    "labels": {OLD_ZONE: "?"},
    "zones": ["zone-a", "zone-b", "zone-c"],
}


def pinned(key: str, zone: str) -> dict[str, object]:
    return {"nodeSelector": {key: zone}}


@pytest.mark.parametrize("key", [ZONE, OLD_ZONE])
@pytest.mark.parametrize(("zone", "group"), [("zone-a", ""), ("zone-b", "-1"), ("zone-c", "-2")])
def test_pods_of_one_zone_get_the_group_of_that_zone_alone(key: str, zone: str, group: str) -> None:
    cluster = Cluster({"machine-types": [MACHINE]})
    shape = cluster.shape({"cpu": 3000}, pinned(key, zone))
    for i in range(5):
        cluster.pod(f"p{i}", shape)
    cluster.settle()
    orders = cluster.of(p.IncreaseNodeGroup)
    assert [(d.target.name, d.size) for d in orders] == [(f"autoprovisioned-m4{group}", 5)]
    made = {d.target.name: d for d in cluster.of(p.CreateNodeGroup)}
    labels = made[f"autoprovisioned-m4{group}"].template.labels
    assert labels[ZONE] == labels[OLD_ZONE] == zone
    assert not cluster.object_events("NotTriggerScaleUp")


def test_pods_that_may_go_anywhere_are_spread_over_the_zones() -> None:
    cluster = Cluster({"machine-types": [MACHINE]})
    shape = cluster.shape({"cpu": 3000})
    for i in range(6):
        cluster.pod(f"p{i}", shape)
    cluster.settle()
    orders = cluster.of(p.IncreaseNodeGroup)
    assert sorted((d.target.name, d.size) for d in orders) == [
        ("autoprovisioned-m4", 2),
        ("autoprovisioned-m4-1", 2),
        ("autoprovisioned-m4-2", 2),
    ]
    assert {d.zone for d in cluster.of(p.CreateNodeGroup)} == set(MACHINE["zones"])


def test_a_zone_that_no_machine_is_in_is_said() -> None:
    cluster = Cluster({"machine-types": [MACHINE]})
    cluster.pod("p", cluster.shape({"cpu": 3000}, pinned(ZONE, "zone-x")))
    cluster.settle()
    assert not cluster.of(p.CreateNodeGroup)
    (said,) = cluster.object_events("NotTriggerScaleUp")
    assert said.message == "pod didn't trigger scale-up: 3 node selector or affinity does not match"


def test_a_group_that_the_cloud_does_not_make_is_forgotten_and_made_when_it_can_be() -> None:
    cluster = Cluster({"machine-types": [{**MACHINE, "zones": ["zone-a"]}]})
    cluster.makes_no_groups = True
    cluster.template("t", "3")
    cluster.request("r", ATOMIC, [("t", 2)])
    cluster.settle()
    refused = cluster.conditions("r")["Provisioned"]
    assert (refused.status, refused.reason) == ("False", "CapacityIsNotFound")
    (event,) = cluster.object_events("CapacityNotFound")
    assert event.message == "the order for group autoprovisioned-m4 failed: no such machine type"
    assert (cluster.state.groups, cluster.state.open) == ({}, {})
    cluster.makes_no_groups = False
    cluster.advance(500)
    assert cluster.conditions("r")["Provisioned"].status == "True"
    assert len(cluster.of(p.CreateNodeGroup)) == 2
    assert cluster.groups["autoprovisioned-m4"].target == 2


def test_groups_that_cannot_be_made_are_tried_at_the_pace_of_their_backoff() -> None:
    cluster = Cluster({"machine-types": [{**MACHINE, "zones": ["zone-a"]}]})
    cluster.makes_no_groups = True
    cluster.pod("p", cluster.shape({"cpu": 3000}))
    cluster.advance(890)
    assert len(cluster.of(p.CreateNodeGroup)) == 2  # five minutes, then ten
    assert {d.verdicts[0].reason for d in cluster.of(p.DeclineScaleUp)} == {
        "in backoff after failed scale-up"
    }
    cluster.makes_no_groups = False
    cluster.advance(20)
    assert cluster.groups["autoprovisioned-m4"].target == 1
