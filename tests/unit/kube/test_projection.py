from __future__ import annotations

import copy
import re
from typing import Any

import msgspec
import pytest

from tidewright.events.autoscaler import WatermarkPodAutoscalerObserved
from tidewright.events.facts import (
    LocalVolume,
    NodeObserved,
    Owner,
    PodObserved,
    Removal,
    ShapeObserved,
    WorkloadObserved,
)
from tidewright.events.placement import PlacementObjectObserved
from tidewright.kube import kinds
from tidewright.kube.projection import nodes, pods, reading, workloads
from tidewright.kube.projection.placement import KEPT, placement
from tidewright.kube.projection.reading import Malformed

STAMP = "2026-11-21T12:00:00Z"
AT = 1795262400.0

POD: dict[str, Any] = {
    "metadata": {
        "name": "web-1",
        "namespace": "shop",
        "uid": "u1",
        "resourceVersion": "7",
        "creationTimestamp": STAMP,
        "labels": {"app": "web", "pod-template-hash": "abc"},
        "annotations": {"cni.example/ip": "10.0.0.1", "controller.kubernetes.io/pod-deletion-cost": "5"},
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "r", "controller": True}
        ],
        "managedFields": [{"manager": "x"}],
    },
    "spec": {
        "nodeName": "n1",
        "nodeSelector": {"disk": "ssd"},
        "priority": 3,
        "restartPolicy": "OnFailure",
        "terminationGracePeriodSeconds": 5,
        "containers": [
            {"name": "a", "image": "i", "resources": {"requests": {"cpu": "250m", "memory": "1Gi"}}}
        ],
        "volumes": [
            {"name": "v", "projected": {}},
            {"name": "c", "persistentVolumeClaim": {"claimName": "x"}},
            {"name": "tmp", "emptyDir": {"medium": "Memory"}},
            {"name": "log", "hostPath": {"path": "/var/log"}},
        ],
    },
    "status": {
        "phase": "Running",
        "startTime": STAMP,
        "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-21T12:00:05Z"},
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": STAMP},
        ],
        "containerStatuses": [{"restartCount": 2}, {"restartCount": 1}],
    },
}


def raw(content: object) -> bytes:
    return msgspec.json.encode(content)


def test_a_pod_carries_what_deciders_use() -> None:
    found = pods.pod(raw(POD))
    assert found.resource_version == "7"
    assert found.shape is not None
    assert found.fact == PodObserved(
        at=0.0,
        namespace="shop",
        name="web-1",
        uid="u1",
        shape=found.shape.digest,
        phase="Running",
        node="n1",
        ready=True,
        ready_changed_at=AT + 5,
        created_at=AT,
        started_at=AT,
        restarts=2,
        labels={"app": "web", "pod-template-hash": "abc"},
        annotations={"controller.kubernetes.io/pod-deletion-cost": "5"},
        owners=(Owner(kind="ReplicaSet", name="web", uid="r", api_version="apps/v1", controller=True),),
        removal=Removal(
            restart_policy="OnFailure",
            grace_s=5,
            volumes=(
                LocalVolume(name="tmp", kind="emptyDir", medium="Memory"),
                LocalVolume(name="log", kind="hostPath"),
            ),
        ),
    )


def test_restarts_are_the_most_of_one_container_and_apart_the_most_of_one_sidecar() -> None:
    """What ReplicaSets compare (`maxContainerRestarts`): an init container that ended does not count."""
    spec = POD["spec"] | {"initContainers": [{"name": "init"}, {"name": "proxy", "restartPolicy": "Always"}]}
    statuses = [{"name": "proxy", "restartCount": 4}, {"name": "init", "restartCount": 9}]
    status = POD["status"] | {"initContainerStatuses": statuses}
    fact = pods.pod(raw(POD | {"spec": spec, "status": status})).fact
    assert isinstance(fact, PodObserved)
    assert (fact.restarts, fact.sidecar_restarts) == (2, 4)


def test_a_shape_is_content_addressed_and_leaves_out_what_differs_per_pod() -> None:
    first = pods.pod(raw(POD)).shape
    other = copy.deepcopy(POD)
    other["metadata"]["name"] = "web-2"
    other["metadata"]["labels"]["pod-template-hash"] = "def"
    other["spec"]["nodeName"] = "n2"
    other["spec"]["containers"][0]["image"] = "j"
    second = pods.pod(raw(other)).shape
    assert isinstance(first, ShapeObserved)
    assert first == second
    assert first.requests == {"cpu": 250, "memory": 2**30}
    assert first.labels == {"app": "web"}
    assert first.priority == 3
    assert first.scheduling == {
        "nodeSelector": {"disk": "ssd"},
        "volumes": [{"persistentVolumeClaim": {"claimName": "x"}}],
    }


@pytest.mark.parametrize(
    "change",
    [
        {"priority": 4},
        {"nodeSelector": {"disk": "hdd"}},
        {"tolerations": [{"operator": "Exists"}]},
        {"overhead": {"cpu": "10m"}},
        {"containers": [{"resources": {"requests": {"cpu": "251m", "memory": "1Gi"}}}]},
        {"initContainers": [{"resources": {"requests": {"cpu": "1"}}}]},
        {"volumes": []},
    ],
)
def test_a_change_that_scheduling_sees_is_another_shape(change: dict[str, Any]) -> None:
    first = pods.pod(raw(POD)).shape
    other = pods.pod(raw(POD | {"spec": POD["spec"] | change})).shape
    assert first is not None
    assert other is not None
    assert first.digest != other.digest


def test_requests_follow_the_rules_for_init_containers_sidecars_and_overhead() -> None:
    spec = {
        "containers": [{"resources": {"requests": {"cpu": "100m"}}}],
        "initContainers": [
            {"resources": {"requests": {"cpu": "50m"}}, "restartPolicy": "Always"},
            {"resources": {"requests": {"cpu": "300m"}}},
        ],
        "overhead": {"cpu": "5m"},
    }
    shape = pods.pod(raw(POD | {"spec": spec})).shape
    assert isinstance(shape, ShapeObserved)
    assert shape.requests == {"cpu": 355}  # max(100 + 50, 300 + 50) + 5


def test_an_unschedulable_pod_says_since_when() -> None:
    status = {
        "phase": "Pending",
        "conditions": [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "lastTransitionTime": STAMP,
            }
        ],
    }
    fact = pods.pod(raw(POD | {"status": status})).fact
    assert isinstance(fact, PodObserved)
    assert (fact.unschedulable_since, fact.ready) == (AT, None)


def test_a_pod_without_spec_and_status_is_still_a_pod() -> None:
    fact = pods.pod(raw({"metadata": {"name": "a", "namespace": "b"}})).fact
    assert isinstance(fact, PodObserved)
    assert fact.phase == "Pending"


def test_a_node_keeps_what_scheduling_needs() -> None:
    fact = nodes.node(
        raw(
            {
                "metadata": {
                    "name": "n1",
                    "uid": "u",
                    "labels": {"zone": "a"},
                    "annotations": {"delay-deletion.cluster-autoscaler.kubernetes.io/csi": "", "other": ""},
                },
                "spec": {
                    "providerID": "sim:///1",
                    "unschedulable": True,
                    "taints": [{"key": "k", "effect": "NoSchedule"}],
                },
                "status": {
                    "allocatable": {"cpu": "3920m", "memory": "2Gi", "pods": "110"},
                    "conditions": [
                        {
                            "type": "Ready",
                            "status": "False",
                            "lastTransitionTime": STAMP,
                            "lastHeartbeatTime": STAMP,
                        }
                    ],
                },
            }
        )
    ).fact
    assert fact == NodeObserved(
        at=0.0,
        name="n1",
        uid="u",
        labels={"zone": "a"},
        allocatable={"cpu": 3920, "memory": 2**31, "pods": 110},
        taints=({"key": "k", "value": "", "effect": "NoSchedule"},),
        unschedulable=True,
        ready=False,
        ready_changed_at=AT,
        provider_id="sim:///1",
        delays=("delay-deletion.cluster-autoscaler.kubernetes.io/csi",),
    )


def test_a_pod_that_says_nothing_of_its_end_has_the_defaults() -> None:
    mirror = {"kubernetes.io/config.mirror": "x"}
    plain = pods.pod(raw({"metadata": {"name": "a", "namespace": "b"}, "spec": {"containers": []}})).fact
    static = pods.pod(raw({"metadata": {"name": "a", "namespace": "b", "annotations": mirror}})).fact
    assert isinstance(plain, PodObserved)
    assert isinstance(static, PodObserved)
    assert plain.removal == Removal(restart_policy="Always", grace_s=30)
    assert static.removal == Removal(mirror=True)


def test_a_deployment_is_its_scale_and_more() -> None:
    found = kinds.BY_NAME["deployment"].project(
        raw(
            {
                "metadata": {
                    "name": "web",
                    "namespace": "shop",
                    "generation": 4,
                    "annotations": {
                        reading.REVISION: "3",
                        reading.LAST_APPLIED: "{...}",
                        "owner": "team",
                    },
                },
                "spec": {
                    "replicas": 5,
                    "selector": {
                        "matchLabels": {"b": "2", "a": "1"},
                        "matchExpressions": [{"key": "c", "operator": "Exists"}],
                    },
                    "template": {"metadata": {"labels": {"a": "1"}}},
                },
                "status": {"replicas": 6, "readyReplicas": 4, "observedGeneration": 4},
            }
        )
    )
    assert found.fact == WorkloadObserved(
        at=0.0,
        namespace="shop",
        name="web",
        api_version="apps/v1",
        kind="Deployment",
        replicas=5,
        status_replicas=6,
        ready_replicas=4,
        selector="a=1,b=2,c",
        generation=4,
        observed_generation=4,
        revision="3",
        template_labels={"a": "1"},
        annotations={"owner": "team"},
        max_surge="25%",
    )


def project(kind: str, spec: dict[str, Any], status: dict[str, Any] | None = None) -> WorkloadObserved:
    body = {"metadata": {"name": "w", "namespace": "shop"}, "spec": spec, "status": status or {}}
    fact = kinds.BY_NAME[kind].project(raw(body)).fact
    assert isinstance(fact, WorkloadObserved)
    return fact


@pytest.mark.parametrize(
    ("strategy", "surge"),
    [
        (None, "25%"),
        ({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3}}, "3"),
        ({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "10%"}}, "10%"),
        ({"type": "Recreate"}, ""),
    ],
)
def test_a_deployment_says_how_many_more_pods_it_may_have_while_it_rolls_out(
    strategy: dict[str, Any] | None, surge: str
) -> None:
    assert project("deployment", {} if strategy is None else {"strategy": strategy}).max_surge == surge


def test_a_stateful_set_says_whether_its_pods_come_one_by_one() -> None:
    assert project("statefulset", {}).ordered
    assert not project("statefulset", {"podManagementPolicy": "Parallel"}).ordered
    assert not project("replicaset", {}).ordered


def test_a_job_says_how_far_it_has_come_and_whether_it_goes_on() -> None:
    job = project("job", {"parallelism": 4, "completions": 9, "suspend": True}, {"succeeded": 3})
    assert (job.replicas, job.completions, job.succeeded, job.suspended, job.ended) == (4, 9, 3, True, False)
    assert job.failed == 0
    for text, failed in (
        ("0", 1),
        ("1,3-5,7", 5),
        ("", 0),
        ("3-", 0),
        ("7-2", 0),
        ("1,x", 0),
        ("0-99999999999999999999", 2**31),
    ):
        assert project("job", {"completions": 9}, {"failedIndexes": text}).failed == failed
    assert project("job", {"managedBy": "kueue.x-k8s.io/multikueue"}).suspended
    assert project("job", {"podReplacementPolicy": "Failed"}).after_end
    assert not project("job", {"podReplacementPolicy": "TerminatingOrFailed"}).after_end
    assert not project("job", {"managedBy": "kubernetes.io/job-controller"}).suspended
    assert project("job", {}, {"conditions": [{"type": "Complete", "status": "True"}]}).ended
    assert not project("job", {}, {"conditions": [{"type": "Suspended", "status": "True"}]}).ended


def test_a_workload_says_why_its_pods_cannot_be_made_and_how_they_ask_for_room() -> None:
    failure = {
        "type": "ReplicaFailure",
        "status": "True",
        "reason": "FailedCreate",
        "message": "exceeded quota",
    }
    notes = {"autoscaling.x-k8s.io/consume-provisioning-request": "r", "other": "x"}
    found = project(
        "replicaset", {"template": {"metadata": {"annotations": notes}}}, {"conditions": [failure]}
    )
    assert found.refused == "exceeded quota"
    assert found.template_annotations == {"autoscaling.x-k8s.io/consume-provisioning-request": "r"}
    assert project("replicaset", {}, {"conditions": [{**failure, "status": "False"}]}).refused == ""


def test_replicas_not_given_are_one_and_zero_is_zero() -> None:
    project = kinds.BY_NAME["statefulset"].project
    for spec, wanted in (({}, 1), ({"replicas": 0}, 0)):
        fact = project(raw({"metadata": {"name": "a"}, "spec": spec})).fact
        assert isinstance(fact, WorkloadObserved)
        assert fact.replicas == wanted


def test_a_custom_resource_is_passed_on_unvalidated() -> None:
    fact = (
        kinds.BY_NAME["watermarkpodautoscaler"]
        .project(
            raw(
                {
                    "metadata": {"name": "w", "namespace": "shop", "generation": 2, "finalizers": ["f"]},
                    "spec": {"anything": [1, {"goes": None}]},
                    "status": {"x": 1},
                }
            )
        )
        .fact
    )
    assert fact == WatermarkPodAutoscalerObserved(
        at=0.0,
        namespace="shop",
        name="w",
        generation=2,
        finalizers=("f",),
        spec={"anything": [1, {"goes": None}]},
        status={"x": 1},
    )


def test_a_scale_is_a_workload_of_the_resources_kind() -> None:
    fact = workloads.scale(
        raw(
            {
                "metadata": {"name": "r", "namespace": "shop"},
                "spec": {"replicas": 2},
                "status": {"replicas": 3, "selector": "a=b"},
            }
        ),
        "argoproj.io/v1alpha1",
        "Rollout",
    )
    assert (fact.replicas, fact.status_replicas, fact.selector) == (2, 3, "a=b")
    assert (fact.api_version, fact.kind) == ("argoproj.io/v1alpha1", "Rollout")


@pytest.mark.parametrize(
    ("kind", "content", "named"),
    [
        (
            "pod",
            POD | {"spec": {"containers": [{"resources": {"requests": {"cpu": "lots"}}}]}},
            "shop/web-1.*lots",
        ),
        ("pod", POD | {"status": {"startTime": "yesterday"}}, "shop/web-1.*yesterday"),
        ("pod", POD | {"spec": {"containers": [{"ports": [1]}]}}, "shop/web-1"),
        ("node", {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "?"}}}, "Node n1"),
        ("deployment", {"metadata": {"name": "d"}, "spec": {"replicas": "two"}}, "Deployment d.*int"),
        (
            "deployment",
            {"metadata": {"name": "d"}, "spec": {"selector": {"matchExpressions": 3}}},
            "Deployment d",
        ),
        ("watermarkpodautoscaler", {"metadata": {"name": "w"}, "spec": "no"}, "WatermarkPodAutoscaler w"),
        ("pod", {"metadata": 1}, "a Pod without readable metadata"),
        ("pod", [], "a Pod without readable metadata"),
    ],
)
def test_what_cannot_be_read_names_object_and_field(kind: str, content: object, named: str) -> None:
    with pytest.raises(Malformed, match=named):
        kinds.BY_NAME[kind].project(raw(content))


def test_the_contract_names_every_kind_on_which_placement_depends() -> None:
    said = set(re.findall("`([A-Za-z]+)`", PlacementObjectObserved.__doc__ or ""))
    assert KEPT.keys() <= said, (
        f"{sorted(KEPT.keys() - said)}: not named in the docstring of PlacementObjectObserved (libs/tidewright/events/placement.py)"
    )


def test_every_kind_has_a_name_and_a_path() -> None:
    paths = {kind.name: kind.path for kind in kinds.KINDS}
    assert paths["pod"] == "/api/v1/pods"
    assert paths["deployment"] == "/apis/apps/v1/deployments"
    assert len(paths) == len(kinds.KINDS)


def test_a_namespace_says_that_it_is_being_deleted() -> None:
    metadata = {"name": "team", "uid": "u", "resourceVersion": "1", "labels": {"a": "b"}}
    gone = {**metadata, "deletionTimestamp": "2026-01-01T00:00:00Z"}
    said = [placement("Namespace")(msgspec.json.encode({"metadata": one})).fact for one in (metadata, gone)]
    assert [fact.fields for fact in said if isinstance(fact, PlacementObjectObserved)] == [
        {"labels": {"a": "b"}},
        {"labels": {"a": "b"}, "deleting": True},
    ]
