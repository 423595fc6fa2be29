"""Cases that are told to the decider as events, and answered by its decisions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.vectors.provisioning_life import Cluster
from tests.vectors.provisioning_world import NOW, Entry, Found, wanted
from tests.vectors.suite import Case, differences
from tidewright.events import facts as f
from tidewright.events import provisioning as p
from tidewright.events.decisions import DeleteObject, RecordObjectEvent
from tidewright.kube.times import rfc3339

CLASS = "check-capacity.autoscaling.x-k8s.io"


def class_support(case: Case) -> Found:
    """A request is ours when it is taken up."""
    cluster = Cluster({"check-capacity-processor-instance": case["options"]["processor_instance"]})
    cluster.template("t", "1")
    cluster.request("r", case["class"], [("t", 1)], case["parameters"])
    cluster.settle()
    return differences(wanted(case), {"supported": bool(cluster.of(p.AcceptRequest))})


def collect(case: Case) -> Found:
    """Old requests that ended are deleted."""
    cluster = Cluster({})
    cluster.template("t", "1")
    for request in case["requests"]:
        cluster.tell(
            p.ProvisioningRequestObserved(
                at=NOW, namespace="ns", name=request["name"], uid=request["name"], generation=1,
                created_at=NOW + request["created"], spec=_spec(request),
                status={"conditions": [_condition(entry) for entry in request["conditions"]]},
            )
        )  # fmt: skip
    cluster.settle()
    gone = {decision.target.name for decision in cluster.of(DeleteObject)}
    names = [request["name"] for request in case["requests"]]
    actual = {"deleted": [n for n in names if n in gone], "kept": [n for n in names if n not in gone]}
    return differences(wanted(case), actual)


def _spec(request: Entry) -> dict[str, Any]:
    pod_sets = [{"podTemplateRef": {"name": "t"}, "count": 1}]
    return {"provisioningClassName": request["class"], "podSets": pod_sets}


def _condition(entry: Entry) -> dict[str, Any]:
    return {
        "type": entry["type"],
        "status": entry["status"],
        "reason": entry["reason"],
        "message": entry["message"],
        "lastTransitionTime": rfc3339(NOW + entry["ltt"]),
    }


def young_pods(case: Case) -> Found:
    """Pods that are old enough cause an increase."""
    delay = case["options"]["new_pod_scale_up_delay"]
    cluster = Cluster({"new-pod-scale-up-delay": delay, "quiet-window": 0})
    cluster.add_group("g", maximum=100)
    shape = cluster.shape({"cpu": 3000})
    cluster.advance(case["at"])
    for pod in case["pods"]:
        cluster.tell(
            f.PodObserved(
                at=cluster.now, namespace="ns", name=pod["name"], uid=pod["name"], shape=shape, phase="Pending",
                created_at=NOW - pod["age"], unschedulable_since=cluster.now, annotations=pod.get("annotations", {}),
            )
        )  # fmt: skip
    cluster.advance(0.0)
    told = [event for event in cluster.of(RecordObjectEvent) if event.reason == "TriggeredScaleUp"]
    return differences(
        wanted(case), {"kept": [event.target.name for event in told if event.target.kind == "Pod"]}
    )


def creation_errors(case: Case) -> Found:
    """Machines that cannot come up are deleted; as the reference has it (B24), with those of their group that did."""
    options, instances = case["options"], case["instances"]
    cluster = Cluster({"as-reference": ["B24"]}, boots=False)
    cluster.add_group(
        "g", target=len(instances), zero_or_max=options["zero_or_max"],
        allow_non_atomic=options["allow_non_atomic_to_max"],
    )  # fmt: skip
    cluster.groups["g"].instances = [_instance(entry) for entry in instances]
    cluster.observe_group("g")
    for entry in instances:
        if "error" not in entry:
            cluster.tell(cluster.node_fact("g", entry["id"]))
    cluster.settle()
    deleted = [name.removeprefix("sim://") for d in cluster.of(p.DeleteInstances) for name in d.instances]
    return differences(wanted(case), {"deleted": deleted})


def _instance(entry: Entry) -> p.Instance:
    error = entry.get("error") or {}
    return p.Instance(
        id=f"sim://{entry['id']}",
        state=entry["state"],
        error_class=error.get("class", 0),
        error_code=error.get("code", ""),
    )


KINDS: dict[str, Callable[[Case], Found]] = {
    "provreq-class": class_support,
    "provreq-gc": collect,
    "young-pods": young_pods,
    "creation-errors": creation_errors,
}
