"""Pods that are about to be of workloads whose kinds nobody built in."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.unit.provisioning.test_foreseen_decisions import DECIDED
from tests.unit.provisioning.workloads import Workloads, replica_set
from tidewright.events import provisioning as p
from tidewright.events.base import ObjectRef
from tidewright.events.decisions import ScaleWorkload
from tidewright.events.facts import WorkloadGone
from tidewright.events.spread import KindRefused

FLEET = ObjectRef(
    api_version="games.example.com/v1", kind="Fleet", namespace="ns", name="arena", uid="uid-arena"
)
CUSTOM: dict[str, Any] = {"api_version": FLEET.api_version}


def orders(cluster: Workloads) -> list[tuple[str, int]]:
    return [(order.target.name, order.size) for order in cluster.of(p.IncreaseNodeGroup)]


def fleet(replicas: int, **more: Any) -> Workloads:
    cluster = Workloads(DECIDED, boots=False)
    cluster.add_group("g", maximum=20)
    cluster.workload("Fleet", "arena", replicas, **{**CUSTOM, **more})
    cluster.settle()
    return cluster


def test_nodes_are_ordered_for_a_custom_workload_when_it_is_decided_to_scale_it() -> None:
    cluster = Workloads(DECIDED, boots=False)
    cluster.add_group("g", maximum=20)
    cluster.workload("Fleet", "arena", 0, **CUSTOM, template=cluster.form())
    cluster.settle()
    decided = cluster.scaled("arena", 6, kind="Fleet")
    cluster.settle()
    assert orders(cluster) == [("g", 6)]
    (plan,) = cluster.of(p.PlanScaleUp)
    assert [(share.workload, share.decision) for share in plan.expected] == [("Fleet/ns/arena", decided)]


@pytest.mark.parametrize("between", [True, False])
def test_pods_that_come_over_a_replica_set_or_directly_are_expected_no_longer(between: bool) -> None:
    cluster = Workloads(DECIDED)
    cluster.add_group("g", maximum=20)
    cluster.workload("Fleet", "arena", 4, **CUSTOM, template=cluster.form())
    cluster.settle()
    owner = replica_set("arena", kind="Fleet", **CUSTOM)
    if between:
        cluster.workload("ReplicaSet", "arena-7", 4, owners=(owner,), template=cluster.form())
        owner = replica_set("arena-7")
    for number in range(4):
        cluster.made(f"arena-{number}", cluster.shape({"cpu": 3000}), owner)
    cluster.settle()
    assert orders(cluster) == [("g", 4)]
    assert cluster.object_events("ExpectedPodsDidNotCome") == []


def test_without_a_template_of_its_own_what_it_owns_says_what_its_pods_are_like() -> None:
    """An operator that makes a StatefulSet of what it is asked for."""
    cluster = fleet(0)
    owner = replica_set("arena", kind="Fleet", **CUSTOM)
    cluster.workload("StatefulSet", "arena-set", 0, owners=(owner,), template=cluster.form())
    cluster.workload("Fleet", "arena", 3)
    cluster.settle()
    assert orders(cluster) == [("g", 3)]
    assert cluster.object_events("PodTemplateUnreadable") == []


def test_that_there_is_no_template_is_told_once() -> None:
    cluster = fleet(3)
    cluster.pod("alone", cluster.shape({"cpu": 3000}))
    cluster.settle()
    (told,) = cluster.object_events("PodTemplateUnreadable")
    assert (told.target.kind, told.target.name) == ("Fleet", "arena")
    assert "there is none at spec.template" in told.message
    assert orders(cluster) == [("g", 1)]  # for the pod that waits


def grows(cluster: Workloads, **more: Any) -> None:
    fields: dict[str, Any] = {"target": FLEET, "replicas": 9, "from_replicas": 4, "owner": "w", **more}
    cluster.tell(ScaleWorkload(at=cluster.now, id=f"autoscaler.3.{len(cluster.log)}.0", **fields))
    cluster.settle()


def refused(cluster: Workloads, error: str, *, scaled: bool = False) -> None:
    fleets = KindRefused(
        at=cluster.now, name="Fleet.games.example.com", group="games.example.com", kind="Fleet", error=error,
        scaled=scaled,
    )  # fmt: skip
    cluster.tell(fleets)


def test_that_a_kind_may_not_be_read_is_told_on_what_grows_once() -> None:
    cluster = Workloads(DECIDED, boots=False)
    refused(cluster, "403: let the watcher read them")
    grows(cluster, replicas=2)
    assert cluster.object_events("WorkloadUnreadable") == []
    grows(cluster)
    grows(cluster)
    (told,) = cluster.object_events("WorkloadUnreadable")
    assert told.target == FLEET
    assert "403: let the watcher read them" in told.message
    refused(cluster, "")
    grows(cluster)
    assert len(cluster.object_events("WorkloadUnreadable")) == 1
    refused(cluster, "403: let the watcher read them")
    grows(cluster)
    assert len(cluster.object_events("WorkloadUnreadable")) == 2


@pytest.mark.parametrize("config", [{"foresight": "off"}, {"foresight": "workloads"}])
def test_that_a_kind_may_not_be_read_is_not_told_where_decisions_do_not_count(config: Any) -> None:
    cluster = Workloads(config, boots=False)
    refused(cluster, "403")
    grows(cluster)
    assert cluster.object_events("WorkloadUnreadable") == []


def test_of_a_workload_that_is_told_to_be_gone_nothing_is_expected_or_kept() -> None:
    cluster = Workloads(DECIDED, boots=False)
    cluster.add_group("g", maximum=20)
    cluster.workload("Fleet", "arena", 3, **CUSTOM, template=cluster.form())
    cluster.settle()
    assert cluster.state.foreseen
    cluster.tell(
        WorkloadGone(
            at=cluster.now, namespace="ns", name="arena", uid="uid-arena", kind="Fleet", api_version="g/v1"
        )
    )
    cluster.advance(100)
    assert (cluster.state.workloads, cluster.state.foreseen) == ({}, {})


def test_what_one_part_of_the_watcher_may_not_read_stands_whatever_the_other_one_may() -> None:
    """Spread's whitelist has the kind, and nobody scales it any longer; or the other way round."""
    cluster = Workloads(DECIDED, boots=False)
    refused(cluster, "403: as whitelisted")
    refused(cluster, "403: as scaled", scaled=True)
    refused(cluster, "", scaled=True)
    grows(cluster)
    (told,) = cluster.object_events("WorkloadUnreadable")
    assert "403: as whitelisted" in told.message
    refused(cluster, "403: as scaled", scaled=True)
    refused(cluster, "")
    grows(cluster)
    assert "403: as scaled" in cluster.object_events("WorkloadUnreadable")[1].message
    refused(cluster, "", scaled=True)
    grows(cluster)
    assert len(cluster.object_events("WorkloadUnreadable")) == 2
    assert cluster.state.said == {}


def test_of_how_many_it_is_remembered_that_they_were_told_to_be_unreadable_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That they are gone is not heard of."""
    monkeypatch.setattr("tidewright.provisioning.fold.forgetting.MOST_UNREAD", 5)
    cluster = Workloads(DECIDED, boots=False)
    refused(cluster, "403")
    for number in range(8):
        grows(cluster, target=msgspec.structs.replace(FLEET, name=f"arena-{number}"))
    assert len(cluster.object_events("WorkloadUnreadable")) == 8
    assert list(cluster.state.said) == [f"Fleet/ns/arena-{number}" for number in range(3, 8)]


def test_of_two_kinds_of_one_name_the_end_of_the_one_leaves_the_other() -> None:
    """A StatefulSet of Kruise's that nobody scales any longer, or of which the last word is read again at a restart."""
    cluster = Workloads(DECIDED, boots=False)
    cluster.add_group("g", maximum=20)
    cluster.workload("StatefulSet", "arena", 3, template=cluster.form())
    other = WorkloadGone(
        at=cluster.now, namespace="ns", name="arena", uid="of-kruise", kind="StatefulSet",
        api_version="apps.kruise.io/v1beta1",
    )  # fmt: skip
    cluster.tell(other)
    assert cluster.state.workloads.keys() == cluster.state.replicas.keys() == {"StatefulSet/ns/arena"}
    cluster.settle()
    assert orders(cluster) == [("g", 3)]
    cluster.tell(msgspec.structs.replace(other, uid="uid-arena", api_version="apps/v1"))
    assert (cluster.state.workloads, cluster.state.replicas) == ({}, {})
