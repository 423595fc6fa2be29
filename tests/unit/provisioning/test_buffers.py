"""CapacityBuffers through the whole decider: room that is kept, ordered, taken and filled again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.vectors.capacity_buffers import Buffers, lines, pod_spec, priority_class
from tidewright.events import facts as f
from tidewright.events import outcomes as o
from tidewright.events import provisioning as p
from tidewright.events.base import Decision, JsonObject
from tidewright.events.config import ConfigSet, ModesSet
from tidewright.events.decisions import CreateObject, DeleteObject, PatchObject, SetStatus
from tidewright.host.fold.explainer import Reference
from tidewright.kube.conditions import Condition, find, parse
from tidewright.kube.keys import buffer_key
from tidewright.provisioning.buffers import conditions as cond
from tidewright.provisioning.buffers.kept import Buffer
from tidewright.provisioning.buffers.room import held
from tidewright.provisioning.requests.spec import CONSUME
from tidewright.provisioning.state import State
from tidewright.provisioning.tell import exposition
from tidewright.provisioning.tell.explaining import EXPLAINER
from tidewright.provisioning.tell.what_if_buffers import preview
from tidewright.provisioning.unanswered import BufferStatusOrder

CHECK = "check-capacity.autoscaling.x-k8s.io"
CHUNKS: JsonObject = {"podTemplateRef": {"name": "t"}, "replicas": 4}


def buffered(room: int = 8, spec: JsonObject = CHUNKS, **config: Any) -> Buffers:
    """A cluster with one node of so many cpus and a buffer of chunks of one cpu."""
    cluster = Buffers(config, room=room)
    cluster.pod_template("t", pod_spec({"cpu": "1"}))
    cluster.buffer("b", spec)
    cluster.settle()
    return cluster


def kept(cluster: Buffers, name: str = "b") -> Buffer:
    return cluster.state.buffers[buffer_key("ns", name)]


def said(cluster: Buffers, kind: str, name: str = "b") -> Condition:
    condition = find(parse((cluster.status(name) or {}).get("conditions")), kind)
    assert condition is not None, f"{kind} is not in {cluster.status(name)}"
    return condition


def test_a_buffer_has_its_room_and_says_so_once() -> None:
    cluster = buffered()
    assert cluster.status("b") is not None
    assert said(cluster, cond.READY).message == "ready"
    assert said(cluster, cond.PROVISIONING).reason == "FakePodsInjected"
    assert said(cluster, cond.CAPACITY_READY).message == "4 of 4 chunks on ready nodes, 0 upcoming, 0 missing"
    assert held(cluster.state) == {"room": {kept(cluster).shape: 4}}
    before = len(cluster.said)
    cluster.buffer("b", CHUNKS, status=cluster.status("b"))  # its own status comes back
    cluster.advance(3600)
    assert cluster.said[before:] == []


def test_what_has_no_room_is_ordered_once_and_ready_when_the_nodes_are() -> None:
    cluster = Buffers({})
    cluster.boots = False
    cluster.add_group("g", cpu=2000)
    cluster.pod_template("t", pod_spec({"cpu": "1"}))
    cluster.buffer("b", CHUNKS)
    cluster.settle()
    assert [(d.from_size, d.size) for d in cluster.of(p.IncreaseNodeGroup)] == [(0, 2)]
    (plan,) = cluster.of(p.PlanScaleUp)
    assert plan.buffers == (("ns/b", 4),)
    assert said(cluster, cond.CAPACITY_READY).message == "0 of 4 chunks on ready nodes, 4 upcoming, 0 missing"
    (event,) = cluster.object_events("TriggeredScaleUp")
    assert event.message == "capacity buffer 4 fake pods triggered scale-up: [{g 0->2 (max: 10)}]"
    cluster.boot("g")
    cluster.advance(60)
    assert said(cluster, cond.CAPACITY_READY).status == "True"
    assert len(cluster.of(p.IncreaseNodeGroup)) == 1
    assert "tidewright_provisioning_buffer_filled_seconds" in cluster.state.histograms
    cluster.advance(7200)
    assert cluster.of(p.DeleteInstances) == []  # the chunks keep their nodes


def test_a_pod_takes_the_room_of_a_chunk_and_the_buffer_is_filled_again() -> None:
    cluster = Buffers({})
    cluster.add_group("g", cpu=1000)
    cluster.pod_template("t", pod_spec({"cpu": "1"}))
    cluster.buffer("b", {**CHUNKS, "replicas": 1})
    cluster.settle()
    (node,) = held(cluster.state)
    shape = cluster.shape({"cpu": 1000})
    cluster.pod("p", shape)  # unschedulable for a moment: no increase is for it
    cluster.settle()
    assert [plan.buffers for plan in cluster.of(p.PlanScaleUp)] == [(("ns/b", 1),)] * 2
    cluster.pod("p", shape, node=node)
    cluster.advance(60)
    assert cluster.groups["g"].target == 2
    assert node not in held(cluster.state)


def test_chunks_come_after_pods_of_any_priority() -> None:
    cluster = Buffers({})
    cluster.add_node("n", cpu=1000)
    cluster.pod_template("t", pod_spec({"cpu": "1"}, priority=1000))
    cluster.buffer("b", {**CHUNKS, "replicas": 1})
    cluster.settle()
    assert held(cluster.state) != {}
    cluster.pod("p", cluster.shape({"cpu": 1000}, priority=-5))
    cluster.settle()
    assert held(cluster.state) == {}
    assert cluster.object_events("NotTriggerScaleUp")[-1].target.kind == "CapacityBuffer"


@pytest.mark.parametrize("uses", [True, False])
def test_a_request_may_use_the_room_of_a_buffer_which_is_never_booked_room(uses: bool) -> None:
    cluster = buffered(8, {**CHUNKS, "replicas": 6}, **{"requests-use-buffers": uses})
    cluster.template("four", "4")
    cluster.request("r", CHECK, [("four", 1)])
    cluster.settle()
    assert cluster.conditions("r")["Provisioned"].status == str(uses)
    assert kept(cluster).ready == (4 if uses else 6)
    assert kept(cluster).missing == (2 if uses else 0)
    details = (cluster.statuses["ns/r"].get("provisioningClassDetails") or {}) if uses else {}
    assert details.get("from-buffer") == ("ns/b" if uses else None)


def test_the_oldest_buffer_of_the_highest_priority_is_filled_first() -> None:
    cluster = Buffers({}, room=3)
    for name, priority in (("old", 0), ("new", 0), ("high", 5)):
        cluster.pod_template(name, pod_spec({"cpu": "1"}, priority=priority))
        cluster.buffer(name, {"podTemplateRef": {"name": name}, "replicas": 2})
        cluster.advance(1)
    cluster.settle()
    assert {name: kept(cluster, name).ready for name in ("high", "old", "new")} == {
        "high": 2,
        "old": 1,
        "new": 0,
    }


def test_a_chunk_keeps_its_place_when_others_come_and_go() -> None:
    cluster = Buffers({})
    for name in ("a", "b", "c"):
        cluster.add_node(name, cpu=4000)
    cluster.pod_template("t", pod_spec({"cpu": "1"}))
    cluster.buffer("b", {**CHUNKS, "replicas": 2})
    cluster.settle()
    places = kept(cluster).places
    cluster.add_node("0", cpu=2000)
    cluster.pod("p", cluster.shape({"cpu": 2000}), node="c")
    cluster.settle()
    assert kept(cluster).places == places


WRONG: list[tuple[JsonObject, str]] = [
    ({"replicas": 2}, "neither spec.podTemplateRef nor spec.scalableRef is set: one of them says"),
    ({"podTemplateRef": {"name": "none"}, "replicas": 2}, 'can\'t get pod template: podtemplates "none" not found'),
    ({"podTemplateRef": {"name": ""}, "replicas": 2}, "spec.podTemplateRef.name: '' is not the name of an object"),
    ({"podTemplateRef": {"name": "t"}}, "replicas, percentage and limits are not defined"),
    ({"podTemplateRef": {"name": "t"}, "replicas": "x"}, "spec.replicas: 'x' is not an integer of 0 to 2147483647"),
    ({"podTemplateRef": {"name": "t"}, "replicas": -3}, "spec.replicas: -3 is not an integer of 0 to 2147483647"),
    ({"podTemplateRef": {"name": "t"}, "replicas": 2**31}, "spec.replicas: 2147483648 is not an integer of 0 to 2147483647"),
    ({"scalableRef": {"kind": "Job", "name": "w"}, "percentage": -20}, "spec.percentage: -20 is not an integer of 0 to 2147483647"),
    ({"scalableRef": {"kind": "Job", "name": "w"}, "percentage": "20%"}, "spec.percentage: '20%' is not an integer of 0 to 2147483647"),
    ({"podTemplateRef": {"name": "t"}, "limits": {"cpu": "-1"}}, "spec.limits[cpu]: '-1' is below 0"),
    ({"podTemplateRef": {"name": "t"}, "limits": {}}, "spec.limits names nothing, a pod asks for cpu; valid is a resource that it asks for"),
    ({"podTemplateRef": {"name": "t"}, "percentage": 20}, "spec.percentage (20) is of the pods of a workload, and spec.scalableRef names none"),
    ({"podTemplateRef": {"name": "t"}, "scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "web"}, "replicas": 1},
     "both spec.podTemplateRef (t) and spec.scalableRef (Deployment web) are set: one of them says"),
    ({"podTemplateRef": {"name": "t"}, "scalableRef": {"kind": "", "name": "web"}, "replicas": 1}, "spec.scalableRef.kind: '' is not the kind of a workload"),
    ({"podTemplateRef": "t", "replicas": 1}, "spec.podTemplateRef.name: None is not the name of an object"),
    ({"podTemplateRef": {"name": "t"}, "limits": {"gpu": "1"}}, "resources in configured limits not found"),
    ({"podTemplateRef": {"name": "t"}, "limits": {"cpu": "much"}}, "spec.limits[cpu]: 'much' is not a quantity"),
    ({"scalableRef": {"apiGroup": "x.io", "kind": "Fleet", "name": "f"}, "percentage": 5}, "kind x.io/Fleet is not supported"),
    ({"podTemplateRef": {"name": "bad"}, "replicas": 1}, "failed to create fake pod: resources: 'lots' is not a quantity"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "message"), WRONG)
def test_what_is_wrong_with_a_buffer_is_said_and_the_others_go_on(spec: JsonObject, message: str) -> None:
    cluster = Buffers({}, room=8)
    cluster.pod_template("t", pod_spec({"cpu": "1"}))
    cluster.pod_template("bad", pod_spec({"cpu": "lots"}))
    cluster.buffer("wrong", spec)
    cluster.buffer("b", CHUNKS)
    cluster.settle()
    ready = said(cluster, cond.READY, "wrong")
    assert (ready.status, ready.reason) == ("False", "error")
    assert ready.message.startswith("Buffer not ready for provisioning: ")
    assert message in ready.message
    assert kept(cluster).ready == 4


def test_a_template_that_comes_later_mends_the_buffer() -> None:
    cluster = Buffers({}, room=8)
    cluster.buffer("b", CHUNKS)
    cluster.settle()
    assert said(cluster, cond.READY).status == "False"
    cluster.pod_template("t", pod_spec({"cpu": "1"}))
    cluster.settle()
    assert kept(cluster).ready == 4


def test_another_template_makes_another_managed_one_and_room_is_kept_meanwhile() -> None:
    cluster = buffered()
    cluster.patches = False
    cluster.pod_template("t", pod_spec({"cpu": "2"}), generation=2)
    cluster.settle()
    (patch,) = cluster.of(PatchObject)
    assert patch.expect["/metadata/ownerReferences/0/name"] == "b"
    assert kept(cluster).ready == 4  # until the template is seen to have changed
    owner = f.Owner(kind="CapacityBuffer", name="b", uid="uid-b", controller=True)
    cluster.tell(
        p.PodTemplateObserved(
            at=cluster.now, namespace="ns", name=patch.target.name, uid="m", generation=2, owners=(owner,),
            template={"spec": pod_spec({"cpu": "2"})},
        )
    )  # fmt: skip
    cluster.settle()
    assert (cluster.status("b") or {})["podTemplateGeneration"] == 2
    assert cluster.state.shapes[kept(cluster).shape].requests == {"cpu": 2000}


def test_a_managed_template_that_is_gone_or_edited_is_put_right() -> None:
    cluster = buffered()
    (made,) = cluster.of(CreateObject)
    name = made.target.name
    owner = f.Owner(kind="CapacityBuffer", name="b", uid="uid-b", controller=True)
    edited = {"spec": pod_spec({"cpu": "7"})}
    cluster.tell(
        p.PodTemplateObserved(
            at=cluster.now, namespace="ns", name=name, uid="m", template=edited, generation=2, owners=(owner,)
        )
    )
    cluster.settle()
    (patch,) = cluster.of(PatchObject)
    containers = patch.patch["template"]["spec"]["containers"]
    assert containers[0]["resources"]["requests"] == {"cpu": "1"}
    cluster.tell(p.PodTemplateGone(at=cluster.now, namespace="ns", name=name, uid="m"))
    cluster.settle()
    assert len(cluster.of(CreateObject)) == 2
    assert said(cluster, cond.CAPACITY_READY).status == "True"


def test_a_template_of_somebody_else_is_not_overwritten() -> None:
    cluster = Buffers({}, room=8)
    cluster.pod_template("t", pod_spec({"cpu": "1"}))
    cluster.pod_template("capacitybuffer-b-pod-template", pod_spec({"cpu": "7"}))
    cluster.buffer("b", CHUNKS)
    cluster.settle()
    assert "is not of CapacityBuffer b" in said(cluster, cond.READY).message
    assert not cluster.of(PatchObject)
    assert not cluster.of(CreateObject)


def test_a_buffer_made_anew_takes_its_template_over() -> None:
    cluster = buffered()
    cluster.tell(p.CapacityBufferGone(at=cluster.now, namespace="ns", name="b", uid="uid-b"))
    cluster.tell(
        p.CapacityBufferObserved(
            at=cluster.now,
            namespace="ns",
            name="b",
            uid="other",
            generation=1,
            created_at=cluster.now,
            spec=CHUNKS,
        )
    )
    cluster.settle()
    (patch,) = cluster.of(PatchObject)
    (owner,) = patch.patch["metadata"]["ownerReferences"]
    assert owner["uid"] == "other"


def test_a_buffer_that_is_gone_leaves_nothing() -> None:
    cluster = buffered()
    shape = kept(cluster).shape
    cluster.tell(p.CapacityBufferGone(at=cluster.now, namespace="ns", name="b", uid="uid-b"))
    cluster.settle()
    assert cluster.state.buffers == {}
    assert held(cluster.state) == {}
    assert shape not in cluster.state.shapes


def refusing(cluster: Buffers, outcome: Callable[[Decision], o.Rejected]) -> None:
    """The actuator says this to whoever asks what a chunk is like."""
    act = cluster._act

    def acting(decision: Decision) -> None:
        if isinstance(decision, p.ResolvePod):
            cluster._inbox.append(outcome(decision))
        else:
            act(decision)

    cluster._act = acting  # type: ignore[method-assign]


def test_a_refusal_by_admission_is_said_and_asked_again_ever_more_rarely() -> None:
    cluster = Buffers({}, room=8)
    refusing(
        cluster,
        lambda d: o.Rejected(at=cluster.now, decision=d.id, reason="Invalid", message="no such class"),
    )
    cluster.pod_template("t", pod_spec({"cpu": "1"}))
    cluster.buffer("b", CHUNKS)
    cluster.advance(100)
    assert said(cluster, cond.READY).message.endswith(": failed to create fake pod: no such class")
    assert 2 <= len(cluster.of(p.ResolvePod)) <= 5
    cluster.tell(p.ResourceQuotaObserved(at=cluster.now, namespace="ns", name="q", hard={"cpu": 10}, used={}))
    before = len(cluster.of(p.ResolvePod))
    cluster.advance(2)
    assert len(cluster.of(p.ResolvePod)) == before


def test_a_quota_that_is_used_up_limits_and_does_not_refuse() -> None:
    """Quota admission judges what is only tried, too."""
    cluster = Buffers({}, room=8)
    message = 'pods "x" is forbidden: exceeded quota: q, requested: cpu=1, used: cpu=3, limited: cpu=3'
    refusing(
        cluster, lambda d: o.Rejected(at=cluster.now, decision=d.id, reason="Forbidden", message=message)
    )
    quota = p.ResourceQuotaObserved(
        at=cluster.now, namespace="ns", name="q", hard={"cpu": 3000}, used={"cpu": 3000}
    )
    cluster.tell(quota)
    cluster.pod_template("t", pod_spec({"cpu": "1"}))
    cluster.buffer("b", CHUNKS)
    cluster.settle()
    assert said(cluster, cond.READY).status == "True"
    assert said(cluster, cond.LIMITED).message == "Buffer replicas limited from 4 to 0 due to quotas: q"
    assert said(cluster, cond.PROVISIONING).reason == "BufferIsEmpty"


def test_where_nobody_may_ask_admission_the_template_says_what_a_chunk_is_like() -> None:
    cluster = Buffers({}, room=8)
    refusing(cluster, lambda d: o.Rejected(at=cluster.now, decision=d.id, reason="NotAllowed"))
    cluster.pod_template("t", pod_spec({"cpu": "1"}))
    cluster.buffer("b", CHUNKS)
    cluster.settle()
    assert kept(cluster).ready == 4


def test_a_percentage_follows_the_workload() -> None:
    cluster = Buffers({}, room=20)
    cluster.workloads["Deployment", "web"] = {
        "spec": {"replicas": 10, "template": {"spec": pod_spec({"cpu": "1"})}}
    }
    reference = {"apiGroup": "apps", "kind": "Deployment", "name": "web"}
    cluster.buffer("b", {"scalableRef": reference, "percentage": 25})
    cluster.settle()
    assert kept(cluster).ready == 3
    cluster.workloads["Deployment", "web"]["spec"]["replicas"] = 40
    cluster.tell(
        f.WorkloadObserved(
            at=cluster.now, namespace="ns", name="web", api_version="apps/v1", kind="Deployment", replicas=40
        )
    )
    cluster.settle()
    assert kept(cluster).ready == 10


def test_a_buffer_whose_workload_is_not_there_names_the_field_and_what_would_be_valid() -> None:
    cluster = Buffers({}, room=8)
    absent = 'failed to resolve scalable object: 404 NotFound: deployments.apps "none" not found'
    refusing(
        cluster,
        lambda d: o.Rejected(
            at=cluster.now, decision=d.id, reason="Gone", message=absent, result={"stage": "workload"}
        ),
    )
    reference = {"apiGroup": "apps", "kind": "Deployment", "name": "none"}
    cluster.buffer("b", {"scalableRef": reference, "percentage": 25})
    cluster.settle()
    valid = "spec.scalableRef: valid is a workload of the buffer's namespace that is there"
    assert said(cluster, cond.READY).message.endswith(f"{absent}; {valid}")


def test_too_many_chunks_are_capped_and_it_is_said() -> None:
    cluster = buffered(8, CHUNKS, **{"buffer-max-chunks": 2})
    assert said(cluster, cond.READY).message == "ready, with 2 chunks instead of 4: buffer-max-chunks is 2"
    assert kept(cluster).ready == 2


def test_an_absurd_size_is_capped_and_counted() -> None:
    cluster = buffered(8, {**CHUNKS, "replicas": 2**31 - 1})
    assert "with 50000 chunks instead of 2147483647" in said(cluster, cond.READY).message
    assert (kept(cluster).ready, kept(cluster).missing) == (8, 49_992)


def test_a_percentage_of_nothing_is_told_and_the_rest_counts() -> None:
    cluster = buffered(8, {**CHUNKS, "percentage": 20})
    ready = said(cluster, cond.READY)
    assert (ready.status, ready.message) == (
        "True",
        "ready; spec.percentage (20) is left aside: it is of the pods of a workload, and spec.scalableRef names none",
    )
    assert kept(cluster).ready == 4
    assert (
        said(buffered(8, {**CHUNKS, "percentage": 20}, **{"as-reference": "CB3"}), cond.READY).message
        == "ready"
    )


def test_a_status_that_did_not_arrive_is_written_again() -> None:
    cluster = buffered()
    status = cluster.of(SetStatus)[-1]
    cluster.state.orders[status.id] = cluster.state.orders.get(status.id) or _order()
    cluster.tell(o.Failed(at=cluster.now, decision=status.id, reason="Unavailable"))
    before = len(cluster.of(SetStatus))
    cluster.settle()
    assert len(cluster.of(SetStatus)) == before + 1


def _order() -> Any:
    return BufferStatusOrder(buffer_key("ns", "b"))


def test_in_shadow_nothing_is_asked_or_written_and_what_would_be_is_recorded() -> None:
    cluster = Buffers({}, room=0)
    cluster.tell(ModesSet(at=cluster.now, mode="shadow"))
    cluster.add_group("g", cpu=2000)
    cluster.pod_template("t", pod_spec({"cpu": "1"}))
    cluster.buffer("b", CHUNKS)
    cluster.settle()
    assert not cluster.of(SetStatus)
    assert cluster.of(p.IncreaseNodeGroup)
    assert all(d.shadow for d in cluster.of(p.PlanScaleUp) + cluster.of(p.IncreaseNodeGroup))


def holding(cluster: Buffers) -> list[str]:
    """Nodes on which placeholders of buffers are."""
    return sorted(pod.node for key, pod in cluster.state.pods.items() if key in cluster.state.held_chunks)


def held_room(nodes: int = 2, **config: Any) -> Buffers:
    """In the profile `hold`: nodes of two cpus, and a buffer of two chunks of one cpu."""
    cluster = Buffers({"profile": "hold", "namespace": "system", **config})
    cluster.tell(priority_class(cluster.now))
    for number in range(nodes):
        cluster.add_node(f"n{number}", cpu=2000)
    cluster.pod_template("t", pod_spec({"cpu": "1"}))
    cluster.buffer("b", {**CHUNKS, "replicas": 2})
    cluster.settle()
    return cluster


def test_in_hold_placeholders_stand_for_chunks_and_are_of_the_lowest_class() -> None:
    cluster = held_room()
    assert holding(cluster) == ["n0", "n0"]
    for made in cluster.of(CreateObject):
        if made.target.kind == "Pod":
            assert made.target.namespace == "system"
            assert made.manifest["spec"]["priorityClassName"] == "tidewright-buffer"
            assert made.manifest["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1000m"}
    before = len(cluster.said)
    cluster.advance(600)
    assert cluster.said[before:] == []


def test_a_pod_that_waits_has_the_room_and_chunks_move_on() -> None:
    """Also where the scheduler has not displaced them: then their pods are taken away."""
    cluster = held_room()
    shape = cluster.shape({"cpu": 2000})
    cluster.pod("p", shape)
    cluster.pod("q", shape, node="n1")
    cluster.settle()
    assert holding(cluster) == []
    assert kept(cluster).missing == 2
    cluster.pod("p", shape, node="n0")
    cluster.add_node("n2", cpu=2000)
    cluster.settle()
    assert holding(cluster) == ["n2", "n2"]
    assert kept(cluster).missing == 0


def test_a_placeholder_that_the_scheduler_displaced_comes_back_as_demand() -> None:
    cluster = held_room(1)
    gone = next(iter(cluster.state.held_chunks))
    cluster.pod("p", cluster.shape({"cpu": 1000}), node="n0")
    cluster.tell(f.PodGone(at=cluster.now, namespace="system", name=gone.partition("/")[2]))
    cluster.settle()
    assert holding(cluster) == ["n0"]
    assert (kept(cluster).ready, kept(cluster).missing) == (1, 1)


@pytest.mark.parametrize(("value", "says"), [(None, "is not there"), (5, "has value 5: it has to be below")])
def test_without_a_class_below_all_others_there_are_none_and_it_is_said(value: int | None, says: str) -> None:
    cluster = Buffers({"profile": "hold"}, room=8)
    if value is not None:
        cluster.tell(priority_class(cluster.now, value=value))
    cluster.pod_template("t", pod_spec({"cpu": "1"}))
    cluster.buffer("b", CHUNKS)
    cluster.settle()
    assert not cluster.state.held_chunks
    assert kept(cluster).ready == 4
    assert says in said(cluster, cond.CAPACITY_READY).message
    cluster.tell(priority_class(cluster.now))
    cluster.settle()
    assert len(cluster.state.held_chunks) == 4
    assert "not held" not in said(cluster, cond.CAPACITY_READY).message


def test_a_booking_has_room_that_placeholders_of_a_buffer_held() -> None:
    cluster = held_room(1)
    cluster.template("two", "2")
    cluster.request("r", CHECK, [("two", 1)])
    cluster.advance(60)
    assert cluster.conditions("r")["Provisioned"].status == "True"
    assert not cluster.state.held_chunks
    assert [held.node for held in cluster.state.held.values()] == ["n0"]


def test_a_buffer_that_goes_takes_its_placeholders_with_it_and_nothing_else() -> None:
    cluster = held_room()
    names = set(cluster.state.held_chunks)
    cluster.tell(p.CapacityBufferGone(at=cluster.now, namespace="ns", name="b", uid="uid-b"))
    cluster.settle()
    deleted = {f"{d.target.namespace}/{d.target.name}" for d in cluster.of(DeleteObject)}
    assert deleted == names
    assert cluster.state.held_chunks == {}


def explained(cluster: Buffers, name: str = "b") -> str:
    asked = Reference("capacitybuffer", "ns", name)
    return " ".join(EXPLAINER.standing(copied(cluster), asked, cluster.now))


def copied(cluster: Buffers) -> State:
    return msgspec.json.decode(msgspec.json.encode(cluster.state), type=State)


def test_explain_says_where_the_chunks_are_and_what_keeps_others_from_a_place() -> None:
    cluster = buffered(3)
    assert "3 of 4 chunks have room on ready nodes: room (3)." in explained(cluster)
    assert "1 have no room: no node group is known." in explained(cluster)
    cluster.add_group("g", cpu=500)
    cluster.advance(30)
    assert "1 have no room: g: Insufficient cpu" in explained(cluster)
    cluster.buffer("wrong", {"replicas": 1})
    cluster.buffer("other", {**CHUNKS, "provisioningStrategy": "example.com/warm"})
    cluster.settle()
    assert "neither spec.podTemplateRef nor spec.scalableRef is set" in explained(cluster, "wrong")
    assert "Its strategy example.com/warm is another controller's" in explained(cluster, "other")
    assert EXPLAINER.aggregate(copied(cluster), Reference("capacitybuffer", "ns", "none")) is None
    asked = Reference("capacitybuffer", "ns", "b")
    told = [
        text
        for d in cluster.of(p.FillBuffer)
        if EXPLAINER.concerns(d, asked)
        for text in EXPLAINER.sentences(d)
    ]
    assert "3 of 4 chunks have room on ready nodes, 0 on nodes that are on their way, 1 have none." in told


def test_chunks_are_counted_in_series() -> None:
    cluster = buffered(3)
    found = {
        (s.name, s.labels.get("state", s.labels.get("new_buffer"))): s.value
        for s in exposition.series(cluster.state)
    }
    chunks = {
        state: found["tidewright_provisioning_buffer_chunks", state]
        for state in ("wanted", "ready", "missing")
    }
    assert chunks == {"wanted": 4, "ready": 3, "missing": 1}
    looked = found["cluster_autoscaler_capacity_buffer_oldest_reconciliation_timestamp_seconds", "false"]
    assert looked == cluster.state.buffers_looked_at > 0


@pytest.mark.parametrize(
    ("spec", "result", "nodes"),
    [(CHUNKS, "Successful", 2), ({**CHUNKS, "limits": {"cpu": "1"}}, "Successful", 1), ({"replicas": 1}, "NotReady", 0)],
)  # fmt: skip
def test_plan_says_what_a_buffer_would_order(spec: JsonObject, result: str, nodes: int) -> None:
    cluster = Buffers({})
    cluster.add_group("g", cpu=2000)
    template = {"t": {"spec": pod_spec({"cpu": "1"})}}
    answer = preview(copied(cluster), "ns", "b", spec, templates=template, now=cluster.now)
    assert answer.result == result
    assert sum(i.size - i.from_size for i in answer.increases) == nodes
    assert cluster.of(p.PlanScaleUp) == []


def test_plan_of_a_buffer_that_is_there_says_what_another_spec_would_change() -> None:
    cluster = buffered()
    spec = {**CHUNKS, "replicas": 9}
    answer = preview(copied(cluster), "ns", "b", spec, templates={}, now=cluster.now)
    assert answer.chunks == {"wanted": 9, "ready": 8, "upcoming": 0, "missing": 1}


def test_in_our_way_one_case_of_the_vectors_comes_out_otherwise() -> None:
    neither: JsonObject = {
        "name": "neither", "kind": "buffer-translate", "expected": {"status": None, "requeue": False},
        "buffer": {"name": "web", "strategy": "buffer.x-k8s.io/active-capacity", "replicas": 2},
    }  # fmt: skip
    assert lines([neither]) == ["without as-reference: 1 come out otherwise", "  [CB1] neither"]


def shrinking(places: dict[str, int], busy: str = "") -> Buffers:
    """Nodes of two cpus that have been there for long, of a group, and a buffer that has its room on some of them."""
    cluster = Buffers({"scale-down-unneeded-time": "1m", "scale-down-delay-after-add": "1m"})
    cluster.add_group("g", cpu=2000, target=len(places))
    for name in places:
        cluster.groups["g"].instances.append(p.Instance(id=f"sim://{name}", state="running"))
        cluster.observe_group("g")
        cluster.tell(
            f.NodeObserved(
                at=cluster.now, name=name, uid=f"uid-{name}", allocatable={"cpu": 2000, "pods": 110, "memory": 2**33},
                labels={"kubernetes.io/hostname": name}, ready=True, ready_changed_at=cluster.now - 7200,
                created_at=cluster.now - 7200, provider_id=f"sim://{name}", delays=(),
            )
        )  # fmt: skip
    if busy:
        cluster.pod("real", cluster.shape({"cpu": 500}), node=busy)
    cluster.pod_template("t", pod_spec({"cpu": "500m"}))
    cluster.buffer("b", {**CHUNKS, "replicas": sum(places.values())})
    cluster.settle()
    buffer = kept(cluster)
    buffer.places = {name: chunks for name, chunks in places.items() if chunks}
    return cluster


def going(cluster: Buffers) -> set[str]:
    cluster.advance(600)
    return {d.node for d in cluster.of(p.RemoveNode)}


def test_nodes_with_nothing_but_chunks_go_when_the_chunks_fit_on_fewer() -> None:
    cluster = shrinking({"a": 1, "b": 2, "c": 0})
    assert going(cluster) == {"a", "c"}
    assert sum(kept(cluster).places.values()) == 3
    assert kept(cluster).missing == 0
    assert not cluster.of(p.PlanScaleUp)


def test_a_node_that_chunks_need_stays() -> None:
    assert going(shrinking({"a": 4, "b": 4})) == set()


@pytest.mark.parametrize(("chunks", "gone"), [(0, {"n0", "n1"}), (2, {"n1"}), (8, set())])
def test_nodes_go_when_their_buffer_asks_for_less_though_nothing_else_happens(
    chunks: int, gone: set[str]
) -> None:
    cluster = shrinking({"n0": 4, "n1": 4})
    assert going(cluster) == set()
    assert cluster.state.scan.due is None  # nothing that time alone changes is to be looked at
    if chunks:
        cluster.buffer("b", {**CHUNKS, "replicas": chunks})
    else:
        cluster.tell(p.CapacityBufferGone(at=cluster.now, namespace="ns", name="b"))
    assert going(cluster) == gone


def test_chunks_stand_beside_pods_when_nodes_go() -> None:
    cluster = shrinking({"a": 3, "b": 0}, busy="b")
    assert going(cluster) == {"a"}


def test_a_buffer_that_is_held_back_alone_takes_no_room_and_the_others_go_on() -> None:
    cluster = buffered(4)
    cluster.buffer("b", CHUNKS, annotations={"tidewright.dev/mode": "shadow"})
    cluster.buffer("c", CHUNKS)
    cluster.settle()
    assert kept(cluster).wanted == 0
    assert kept(cluster, "c").ready == 4
    assert "It is held back (shadow)" in explained(cluster)
    cluster.buffer("b", CHUNKS)
    cluster.settle()
    assert (kept(cluster).ready, kept(cluster, "c").ready) == (4, 0)  # it is the older one


def test_consumers_and_daemon_pods_are_none_of_a_buffers_business() -> None:
    cluster = buffered(4)
    cluster.pod("c", cluster.shape({"cpu": 2000}), annotations={CONSUME: "nobody"})
    cluster.settle()
    assert kept(cluster).ready == 4


def test_a_state_is_the_same_when_it_is_read_back() -> None:
    cluster = buffered()
    cluster.tell(ConfigSet(at=cluster.now, name="provisioning", data={"profile": "compat"}))  # a new index
    before = len(cluster.said)
    cluster.settle()
    assert [d for d in cluster.said[before:] if isinstance(d, p.FillBuffer | SetStatus)] == []
