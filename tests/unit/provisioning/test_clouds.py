"""What is decided and said while a cloud is away, an answer is lost, or there is no cloud."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.vectors.provisioning_life import Cluster
from tidewright.events import facts as f
from tidewright.events import outcomes as o
from tidewright.events import provisioning as p
from tidewright.host.fold.explainer import Reference
from tidewright.provisioning.cluster.view import look
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.index.indexing import index_of
from tidewright.provisioning.requests import conditions as cond
from tidewright.provisioning.state import State
from tidewright.provisioning.tell.explaining import EXPLAINER
from tidewright.provisioning.tell.lines import line
from tidewright.provisioning.tell.what_if import preview

CHECK = "check-capacity.autoscaling.x-k8s.io"
ATOMIC = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
ABSENT = p.CloudObserved(at=1.0, name="none", state="absent")


def cloud(at: float, **more: Any) -> p.CloudObserved:
    return p.CloudObserved(
        at=at, **{"name": "east", "kind": "externalgrpc", "promise": "delta only", "state": "ready", **more}
    )


def standing(cluster: Cluster, kind: str, name: str) -> str:
    state = msgspec.json.decode(msgspec.json.encode(cluster.state), type=State)
    space = "" if kind in ("nodegroup", "node") else "ns"
    return " ".join(EXPLAINER.standing(state, Reference(kind, space, name), cluster.now))


def ordered(cluster: Cluster) -> list[p.IncreaseNodeGroup]:
    return [decision for decision in cluster.said if isinstance(decision, p.IncreaseNodeGroup)]


def growing() -> tuple[Cluster, p.IncreaseNodeGroup]:
    """A group of a cloud that only adds, and an order for it that has no answer."""
    cluster = Cluster()
    cluster.tell(cloud(cluster.now, refreshed=cluster.now))
    cluster.add_group("g", cpu=4000, maximum=10, cloud="east")
    cluster.silent = True
    cluster.template("t", "3500m")
    cluster.request("train", ATOMIC, [("t", 2)])
    cluster.settle()
    (order,) = ordered(cluster)
    return cluster, order


def test_a_group_whose_answer_was_lost_rests_until_two_looks_have_shown_one_size() -> None:
    cluster, order = growing()
    before = cluster.now
    cluster.advance(5)
    cluster.tell(o.Failed(at=cluster.now, decision=order.id, reason="Unknown", message="no answer"))
    name = NodeGroupId("g")
    assert not [d for d in cluster.said if isinstance(d, p.BackOffGroup)]
    assert "the group is left alone until two looks in a row have shown one size" in standing(
        cluster, "nodegroup", "g"
    )

    def may_grow() -> bool:
        return look(cluster.state, index_of(cluster.state), cluster.now).groups[name].group.size_known

    assert not may_grow()
    cluster.tell(cloud(cluster.now, refreshed=before))  # of before the order: it says nothing
    cluster.tell(cloud(cluster.now, refreshed=cluster.now + 1))
    assert not may_grow()
    cluster.groups["g"].target = 2  # it was done after all, and is seen only now
    cluster.observe_group("g")
    cluster.tell(cloud(cluster.now, refreshed=cluster.now + 2))
    assert not may_grow()
    cluster.advance(100)
    assert len(ordered(cluster)) == 1
    cluster.tell(cloud(cluster.now, refreshed=cluster.now + 3))
    assert may_grow()


def test_looks_that_could_not_read_the_group_do_not_count() -> None:
    cluster, order = growing()
    cluster.tell(o.Failed(at=cluster.now, decision=order.id, reason="Unknown", message="no answer"))
    group = cluster.state.groups[NodeGroupId("g")]
    group.error = "Unavailable"
    for later in (1, 2, 3):
        cluster.tell(cloud(cluster.now, refreshed=cluster.now + later))
    assert group.rest is not None


def test_it_is_said_that_no_cloud_is_configured_and_requests_that_only_check_work_all_the_same() -> None:
    cluster = Cluster()
    cluster.tell(ABSENT)
    cluster.add_node("n1", cpu=4000)
    cluster.template("t", "1")
    cluster.request("fits", CHECK, [("t", 3)])
    cluster.request("big", ATOMIC, [("t", 30)])
    cluster.settle()
    fits = cluster.state.requests["ns/fits"]  # type: ignore[index]
    assert cond.is_true(fits.conditions, cond.PROVISIONED)
    assert "No cloud is configured" in standing(cluster, "provisioningrequest", "big")
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}
    spec = {"provisioningClassName": ATOMIC, "podSets": [{"podTemplateRef": {"name": "t"}, "count": 30}]}
    answer = preview(cluster.state, "ns", "try", spec, templates={"t": template}, now=cluster.now)
    assert answer.clouds == (
        "No cloud is configured (--cloud of watcher and actuator): no nodes are ordered.",
    )
    cluster.tell(p.CloudGone(at=cluster.now, name="none"))
    assert cluster.state.clouds == {}


def test_a_pending_pod_is_told_that_there_is_no_cloud() -> None:
    cluster = Cluster()
    cluster.pod("p", "s")

    def said() -> str:
        return " ".join(EXPLAINER.standing(cluster.state, Reference("pod", "ns", "p"), cluster.now))

    assert "no node group is known" in said()
    cluster.tell(ABSENT)
    assert said() == "No cloud is configured (--cloud of watcher and actuator): no nodes are ordered."


def test_a_group_tells_its_cloud_and_what_that_last_said() -> None:
    cluster = Cluster()
    cluster.tell(cloud(cluster.now, refreshed=cluster.now))
    cluster.add_group("g", cloud="east")
    assert "It is a group of cloud east (externalgrpc). Cloud east (externalgrpc) answers." in standing(
        cluster, "nodegroup", "g"
    )
    away = cloud(
        cluster.now,
        state="failing",
        error="Forbidden",
        message="the token has expired",
        refreshed=1_000_000.0,
    )
    cluster.tell(away)
    assert (
        "Cloud east (externalgrpc) does not answer (Forbidden: the token has expired): what was read of it at"
        " 1970-01-12 13:46:40 UTC stays in force." in standing(cluster, "nodegroup", "g")
    )
    assert line(away) == "externalgrpc cloud does not answer (Forbidden): the token has expired"
    assert line(ABSENT) == "no cloud is configured: nothing is ordered"


def test_what_cannot_be_read_is_an_event_that_names_cloud_group_and_remedy() -> None:
    cluster = Cluster()
    cluster.tell(cloud(cluster.now, refreshed=cluster.now))
    cluster.add_group("g", cpu=4000, maximum=10, cloud="east")
    cluster.settle()
    assert not said_of_clouds(cluster)
    wrong = "annotation min-size: 'x': valid is a decimal number from 0"
    group = p.NodeGroupObserved(at=cluster.now, name="g", cloud="east", error="Invalid", message=wrong)
    cluster.tell(group)
    cluster.settle()
    (event,) = said_of_clouds(cluster)
    assert event.message.startswith(f"node group g of cloud east: {wrong}: ")
    assert wrong in standing(cluster, "nodegroup", "g")
    assert wrong in line(group)
    cluster.advance(5)
    cluster.tell(
        cloud(cluster.now, state="failing", error="Forbidden", message="who are you; give credentials")
    )
    cluster.settle()
    assert said_of_clouds(cluster)[-1].message.startswith(
        "cloud east (externalgrpc): who are you; give credentials: "
    )


def said_of_clouds(cluster: Cluster) -> list[Any]:
    return [one for one in cluster.said if getattr(one, "reason", "") == "CloudUnreadable"]


def test_a_node_without_a_provider_id_is_told_apart_from_one_that_nobody_has() -> None:
    cluster = Cluster()
    for name, provided in (("bare", ""), ("foreign", "moon:///foreign")):
        cluster.tell(f.NodeObserved(at=cluster.now, name=name, ready=True, provider_id=provided))
    assert "It has no spec.providerID, by which clouds know their machines" in standing(
        cluster, "node", "bare"
    )
    assert "--provider-id" in standing(cluster, "node", "bare")
    assert "No group of a cloud has a machine moon:///foreign: it is never removed." in standing(
        cluster, "node", "foreign"
    )


def test_an_instance_that_never_registers_is_an_event_that_names_its_group_and_goes() -> None:
    cluster = Cluster(boots=False)
    cluster.add_group("g", cpu=4000, maximum=10, target=1, cloud="east")
    cluster.groups["g"].instances.append(p.Instance(id="sim://ghost", state="running"))
    cluster.observe_group("g")
    cluster.settle()
    cluster.advance(16 * 60)
    cluster.settle()
    told = [
        getattr(one, "message", "")
        for one in cluster.said
        if getattr(one, "reason", "") == "DeleteUnregistered"
    ]
    assert told[0].startswith(
        "group g of cloud east: 1 instance never registered as a node and is deleted: sim://ghost; look at what they say"
    )
    assert "--provider-id" in told[0]
    gone = [one for one in cluster.said if isinstance(one, p.DeleteInstances)]
    assert [(one.target.name, one.instances) for one in gone[:1]] == [("g", ("sim://ghost",))]
