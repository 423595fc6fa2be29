"""Cases about a request's object and those who go by it: its pods, what is booked for them, Kueue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.vectors import kueue
from tests.vectors import provisioning_world as w
from tests.vectors.provisioning_played import played, tell_request
from tests.vectors.provisioning_requests import condition_differences
from tests.vectors.provisioning_world import NOW, Found, wanted
from tests.vectors.reference import provisioning as reference
from tests.vectors.suite import Case, differences
from tidewright.events import facts as f
from tidewright.kube.podspecs import of_template
from tidewright.provisioning.fold.evolve import evolve
from tidewright.provisioning.index.indexing import index_of
from tidewright.provisioning.pending.pods import EVENTS_PER_PLAN, pending
from tidewright.provisioning.requests import conditions as cond
from tidewright.provisioning.requests import spec
from tidewright.provisioning.state import State


def crd(case: Case) -> Found:
    wrong = spec.validate(case["object"].get("spec"), case["old"].get("spec") if "old" in case else None)
    found = differences(wanted(case), {"valid": not wrong})
    if case.get("message") and not any(case["message"] in text for text in wrong):
        found.append(f"expected message {case['message']!r}, found {wrong}")
    return found


def expand(case: Case) -> Found:
    request = case["request"]
    pods = []
    for i, pod_set in enumerate(request["podsets"]):
        template = case["templates"][pod_set["template"]]
        container: dict[str, Any] = {"name": template["container"], "image": template.get("image", "")}
        resources = {k: template[k] for k in ("limits", "requests") if k in template}
        if resources:
            container["resources"] = resources
        counted = of_template({"spec": {"containers": [container]}}, "")  # ours: one shape for all of them
        for j in range(pod_set["count"]):
            pod = reference.virtual_pod(
                request=request["name"],
                namespace=request["namespace"],
                uid="uid",
                class_name=request["class"],
                created_at=NOW,
                pod_set=i,
                index=j,
                template={"spec": {"containers": [container]}},
            )
            made = pod.spec["containers"][0]
            assert of_template({"spec": pod.spec}, "").requests == counted.requests
            pods.append(
                {
                    "name": pod.name,
                    "generate_name": pod.generate_name,
                    "namespace": pod.namespace,
                    "uid": pod.uid,
                    "annotations": pod.annotations,
                    "owner": {"name": pod.owner_name, "controller": True},
                    "container": made["name"],
                    **made.get("resources", {}),
                }
            )
    return differences(wanted(case), {"pods": pods})


def book(case: Case) -> Found:
    """Whether room is kept, by the whole decider: where it is, another request for the same room finds none."""
    request, expected = case["request"], wanted(case)
    instance = case.get("options", {}).get("processor_instance", "")
    pods = [pod for pod in w.spread_out(case["pods"]) if pod.get("node")]
    sets = [{"count": 1, "cpu": 0, "memory": 0} | pod_set for pod_set in request["podsets"]]
    node = {
        "name": "node",
        "cpu": sum(s["count"] * s["cpu"] for s in sets) + sum(pod["cpu"] for pod in pods),
        "memory": sum(s["count"] * s["memory"] for s in sets) + sum(pod["memory"] for pod in pods),
        "pods": sum(s["count"] for s in sets) + len(pods),
    }
    settings = {"quiet-window": "0s", "check-capacity-processor-instance": instance}
    cluster = played({"nodes": [node], "pods": pods}, **settings)
    provisioned = any((c["type"], c["status"]) == (cond.PROVISIONED, "True") for c in request["conditions"])
    tell_request(cluster, request, templates=provisioned)  # without them its own turn does not come
    cluster.advance(0.0)
    stored = cluster.conditions(request["name"])
    parameters = {"processorInstance": instance} if instance else {}

    def has_room(pods: int) -> bool:
        """Whether so many pods as the request is for find room; each time it is another request."""
        probe = {"name": f"probe-{pods}", "class": spec.CHECK_NAME, "parameters": parameters}
        tell_request(cluster, probe | {"podsets": [{**sets[0], "count": pods}]})
        cluster.advance(0.0)
        return cluster.conditions(f"probe-{pods}")[cond.PROVISIONED].status == "True"

    asked = sets[0]["count"]  # each case has one set
    booked = next((asked - pods for pods in range(asked, 0, -1) if has_room(pods)), asked)
    actual = {"booked": booked > 0, "booked_pods": booked}
    plain = {k: v for k, v in expected.items() if not k.startswith("conditions")}
    return differences(plain, actual) + condition_differences(expected, tuple(stored.values()))


def state_with(pods: Sequence[w.Entry]) -> State:
    """A state that has heard of these pods: unschedulable ones, as facts tell them."""
    state = State()
    for pod in pods:
        shape = w.shape(pod)
        evolve(state, f.ShapeObserved(at=NOW, digest=shape.digest, requests=shape.requests))
        evolve(
            state,
            f.PodObserved(
                at=NOW,
                namespace=pod.get("namespace", "default"),
                name=pod["name"],
                shape=shape.digest,
                phase="Pending",
                annotations=dict(pod.get("annotations", {})),
                created_at=NOW,
                unschedulable_since=NOW,
            ),
        )
    return state


def filter_consumers(case: Case) -> Found:
    state = state_with(case["pods"])
    limit = case.get("options", {}).get("event_limit", EVENTS_PER_PLAN)
    found = pending(state, index_of(state), NOW, event_limit=limit)
    actual = {
        "kept": [key.split("/", 1)[1] for key, _ in found.pods],
        "forced": any(pod.consumes for pod in state.pods.values()),
        "events": len(found.told),
        "event_message": found.told[0].message if found.told else "",
    }
    return differences(wanted(case), actual)


def read_by_kueue(case: Case) -> Found:
    workload, config, request = case["workload"], case["config"], case["request"]
    counts = {p["name"]: p["count"] for p in workload["podsets"]} | workload.get("admitted_counts", {})
    if request is None:
        made = kueue.wanted_request(
            workload=workload["name"],
            check=workload["check"],
            attempt=1,
            class_name=config["class"],
            parameters=config.get("parameters", {}),
            annotations=workload.get("annotations", {}),
            counts=counts,
        )
        actual = {
            "request": {
                "name": made.name,
                "labels": made.labels,
                "owner": made.owner,
                "class": made.class_name,
                "parameters": made.parameters,
                "podsets": [{"template": name, "count": count} for name, count in made.pod_sets],
            }
        }
        found = differences(wanted(case), actual)
        given = wanted(case)["request"].get("parameters")
        return found + (
            [] if given is None or given == made.parameters else [f"parameters: {made.parameters}"]
        )
    retry = config.get("retry", {})
    check = kueue.read(
        request=request["name"],
        class_name=request["class"],
        conditions=w.conditions_of(request["conditions"]),
        details=request.get("provisioning_class_details", {}),
        pod_sets=list(counts),
        admitted=workload.get("admitted", False),
        attempt=int(request["name"].rsplit("-", 1)[1]),
        retry=kueue.Retry(retry.get("limit", 3), retry.get("base", 60), retry.get("max", 1800)),
        selectors={u["key"]: u["value_from"] for u in config.get("pod_set_updates", ())},
    )
    actual_check = {
        "state": check.state,
        "message": None if check.unchanged else check.message,
        "unchanged": check.unchanged,
        "requeue_after": check.requeue_after_s,
        "pod_annotations": check.pod_annotations,
        "node_selector": check.node_selector,
    }
    expected_selector = wanted(case)["check"].get("node_selector")
    found = differences(wanted(case), {"check": actual_check})
    if expected_selector is not None and expected_selector != check.node_selector:
        found.append(f"$.check.node_selector: expected {expected_selector}, found {check.node_selector}")
    return found


KINDS: dict[str, Callable[[Case], Found]] = {
    "provreq-booking": book,
    "provreq-expand": expand,
    "provreq-filter": filter_consumers,
    "kueue": read_by_kueue,
    "crd": crd,
}
