"""Kind `scale-down-plan`: whole passes over a cluster, computed by the reference's own code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.vectors.provisioning_scaledown import Ways, refusal_of
from tests.vectors.provisioning_world import GPU, NOW, Entry, Found
from tests.vectors.suite import Case, differences
from tidewright.kube.keys import pod_key
from tidewright.kube.podshape import NodeView, PodShape
from tidewright.kube.podspecs import amounts, of_template
from tidewright.kube.selectors import LabelSelector
from tidewright.kube.taints import Taint
from tidewright.provisioning.cluster.cluster_state import Readiness, readiness
from tidewright.provisioning.cluster.limits import GPU_RESOURCES
from tidewright.provisioning.differences import DIFFERENCES
from tidewright.provisioning.group_ids import NO_GROUP, NodeGroupId
from tidewright.provisioning.pack.grid import Grid
from tidewright.provisioning.scaledown import passes
from tidewright.provisioning.scaledown.drain.budgets import Allowance
from tidewright.provisioning.scaledown.drain.rules import sort_pods
from tidewright.provisioning.scaledown.scene import (
    GroupTraits,
    Owner,
    Owners,
    Resident,
    SceneBudget,
    SceneNode,
)
from tidewright.provisioning.settings import GIB, Settings

_SETTINGS = {
    "unneeded_time": "unneeded_s",
    "unready_time": "unready_s",
    "utilization_threshold": "utilization_threshold",
    "gpu_utilization_threshold": "gpu_utilization_threshold",
    "ignore_daemonsets_utilization": "ignore_daemonsets",
    "ignore_mirror_pods_utilization": "ignore_mirror",
    "scale_down_unready_enabled": "scale_down_unready",
    "skip_nodes_with_system_pods": "skip_system",
    "skip_nodes_with_local_storage": "skip_local",
    "skip_nodes_with_custom_controller_pods": "skip_custom",
    "min_replica_count": "min_replicas",
    "blocking_system_pod_timeout": "system_timeout_s",
    "max_scale_down_parallelism": "max_parallelism",
    "max_drain_parallelism": "max_drains",
    "unremovable_node_recheck_timeout": "recheck_s",
    "daemonset_eviction_for_occupied_nodes": "ds_eviction_occupied",
    "daemonset_eviction_for_empty_nodes": "ds_eviction_empty",
    "expendable_pods_priority_cutoff": "expendable_cutoff",
    "min_cores": "min_cores",
}
_TRAITS = {
    "utilization_threshold": "threshold",
    "gpu_utilization_threshold": "gpu_threshold",
    "unneeded_time": "unneeded_s",
    "unready_time": "unready_s",
    "ignore_daemonsets_utilization": "ignore_daemonsets",
}
_READY = ({"type": "Ready", "status": "True"},)
_UNREADY = ("DiskPressure", "NetworkUnavailable")
"""Conditions that the node controller tells as taints, too."""
DELETION = "ToBeDeletedByClusterAutoscaler"


def settings_of(case: Case, ways: Ways) -> Settings:
    given = {_SETTINGS[key]: v for key, v in case.get("settings", {}).items() if key in _SETTINGS}
    least = case.get("settings", {}).get("min_memory_gib", 0) * GIB
    return Settings(**given, min_memory_bytes=least, as_reference=ways)


def resident_of(entry: Entry) -> Resident:
    metadata, spec = entry["metadata"], entry["spec"]
    namespace = metadata.get("namespace", "default")
    owner = next((o for o in metadata.get("ownerReferences", ()) if o.get("controller")), None)
    created, deleting = metadata.get("creationTimestamp"), metadata.get("deletionTimestamp")
    return Resident(
        key=pod_key(namespace, metadata["name"]),
        shape=_shape(entry, namespace),
        owner=Owner(owner["kind"], owner["name"], owner["apiVersion"].rpartition("/")[0]) if owner else None,
        annotations=metadata.get("annotations", {}),
        phase=entry.get("status", {}).get("phase", "Running"),
        restart_policy=spec.get("restartPolicy", "Always"),
        created_at=NOW + created if created is not None else None,
        deleting_at=NOW + deleting if deleting is not None else None,
        grace_s=spec.get("terminationGracePeriodSeconds", 30),
        local=tuple(
            v["name"]
            for v in spec.get("volumes", ())
            if "hostPath" in v or ("emptyDir" in v and v["emptyDir"].get("medium") != "Memory")
        ),
    )


def _shape(entry: Entry, namespace: str) -> PodShape:
    """Without its node: it is to be placed elsewhere."""
    spec = {key: value for key, value in entry["spec"].items() if key not in ("nodeName", "volumes")}
    return of_template({"metadata": entry["metadata"], "spec": spec}, namespace)


class Places:
    """What the groups of a case say about its nodes."""

    def __init__(self, case: Case) -> None:
        self.group_of = {name: g["id"] for g in case["groups"] for name in g["nodes"]}
        going = case.get("state", {}).get("in_progress", {})
        self.empty_going, self.drains_going = going.get("empty", []), going.get("drain", [])
        self.deleting = {*self.empty_going, *self.drains_going}
        self.groups = {NodeGroupId(g["id"]): self._traits(g) for g in case["groups"]}

    def _traits(self, entry: Entry) -> GroupTraits:
        options = entry.get("options", {})
        return GroupTraits(
            id=NodeGroupId(entry["id"]),
            min=entry["min"],
            target=entry["target"],
            registered=len(entry["nodes"]),
            leaving=sum(name in self.deleting for name in entry["nodes"]),
            zero_or_max=options.get("zero_or_max", False),
            **{_TRAITS[key]: value for key, value in options.items() if key in _TRAITS},
        )

    def node(self, entry: Entry) -> SceneNode:
        metadata, spec = entry["metadata"], entry.get("spec", {})
        allocatable = amounts(entry["status"].get("allocatable", {}))
        taints = {taint["key"]: taint for taint in spec.get("taints", ())}
        gpu = next((name for name in GPU_RESOURCES if allocatable.get(name)), "")
        if not gpu and "gpu-type" in metadata.get("labels", {}):
            gpu = GPU
        ready = _ready(entry)
        if gpu and not allocatable.get(gpu) and not spec.get("unschedulable"):
            ready = False
        return SceneNode(
            name=metadata["name"],
            group=NodeGroupId(self.group_of.get(metadata["name"], NO_GROUP)),
            allocatable=allocatable,
            capacity=amounts(entry["status"]["capacity"]) if "capacity" in entry["status"] else allocatable,
            labels=metadata.get("labels", {}),
            annotations=metadata.get("annotations", {}),
            ready=ready,
            gpu=gpu,
            doomed_at=NOW + float(taints[DELETION]["value"]) if DELETION in taints else None,
            deleting=metadata["name"] in self.deleting,
        )


def _ready(entry: Entry) -> bool:
    """Whether a node is ready: what its conditions say, then the product's own look at its taints."""
    conditions = {c["type"]: c["status"] for c in entry["status"].get("conditions", _READY)}
    ready = conditions.get("Ready") == "True" and not any(conditions.get(kind) == "True" for kind in _UNREADY)
    stage = readiness(ready=ready, age_s=0.0, taints=_taints(entry), startup_s=0.0)
    return stage is Readiness.READY


def _taints(entry: Entry) -> tuple[Taint, ...]:
    taints = entry.get("spec", {}).get("taints", ())
    return tuple(Taint(t["key"], str(t.get("value", "")), t["effect"]) for t in taints)


def view_of(entry: Entry) -> NodeView:
    spec = entry.get("spec", {})
    return NodeView(
        name=entry["metadata"]["name"],
        labels=entry["metadata"].get("labels", {}),
        taints=_taints(entry),
        allocatable=amounts(entry["status"].get("allocatable", {})),
        unschedulable=spec.get("unschedulable", False),
    )


def scene_of(case: Case, settings: Settings) -> passes.Scene:
    places = Places(case)
    grid = Grid()
    for entry in case["nodes"]:
        grid.add_node(view_of(entry))
    residents: dict[str, list[Resident]] = {}
    for entry in case.get("pods", ()):
        pod, node = resident_of(entry), entry["spec"]["nodeName"]
        if "priority" not in entry["spec"] or pod.priority >= settings.expendable_cutoff:
            residents.setdefault(node, []).append(pod)
            grid.put(pod.shape, grid.rows[node])
            if pod.deleting_at is not None:
                grid.leave(pod.shape.digest, grid.rows[node])
    return passes.Scene(
        nodes=[places.node(entry) for entry in case["nodes"]],
        residents=residents,
        groups=places.groups,
        grid=grid,
        budgets=[
            SceneBudget(
                namespace=entry["metadata"].get("namespace", "default"),
                name=entry["metadata"]["name"],
                selector=LabelSelector.of(entry["spec"].get("selector")),
                allowed=entry["status"]["disruptionsAllowed"],
            )
            for entry in case.get("budgets", ())
        ],
        owners=Owners(
            {
                (e["kind"], e["namespace"], e["name"]): e.get("replicas", 1)
                for e in case.get("controllers", ())
            }
        ),
        empty_going=len(places.empty_going),
        drains_going=len(places.drains_going),
    )


def memory_of(case: Case) -> passes.Memory:
    state = case.get("state", {})
    last = state.get("last_pass")
    return passes.Memory(
        unneeded={name: NOW + at for name, at in state.get("unneeded_since", {}).items()},
        recheck_at={name: NOW + at for name, at in state.get("recheck_at", {}).items()},
        last_pass=None if last is None else NOW + last,
    )


def found_in(case: Case, ways: Ways) -> dict[str, Any]:
    """What the product finds in a case, as cases say it."""
    settings = settings_of(case, ways)
    scene, memory = scene_of(case, settings), memory_of(case)
    found = []
    for at in case["passes"]:
        candidates = passes.candidates_of(scene, memory, settings, NOW + at)
        plan = passes.evaluate(scene, memory, settings, NOW + at)
        memory = plan.memory
        found.append({**_pass(plan, at), "candidates": [node.name for node in candidates]})
    return {"drainability": _drainability(case, scene, settings), "passes": found}


def _drainability(case: Case, scene: passes.Scene, settings: Settings) -> dict[str, Any]:
    now = NOW + case["passes"][0]
    allowance = Allowance(scene.budgets)
    found: dict[str, Any] = {}
    for name, pods in ((node.name, scene.pods(node.name)) for node in scene.nodes if scene.pods(node.name)):
        ordered = sort_pods(pods, settings, scene.owners, allowance, now)
        if ordered.blocked is not None:
            pod, reason = ordered.blocked.pod, ordered.blocked.pod_reason
            found[name] = {"blocking": {"pod": pod, "reason": reason}}
            continue
        lists = {
            "move": [pod.key for pod in ordered.movers],
            "daemonset": list(ordered.daemons),
            "on_completion": list(ordered.waits),
        }
        found[name] = {key: sorted(keys) for key, keys in lists.items() if keys}
    return found


def _pass(plan: passes.PassPlan, at: float) -> dict[str, Any]:
    lists = {
        "removable": plan.ready,
        "delete": plan.going,
    }
    found: dict[str, Any] = {
        "at": at,
        "utilization": {name: {"resource": u.resource, "ratio": u.ratio} for name, u in plan.uses.items()},
        "unneeded": sorted(plan.unneeded),
        "unneeded_since": {name: since - NOW for name, since in plan.memory.unneeded.items()},
        "risky": sorted(name for name, removal in plan.unneeded.items() if removal.risky),
        "moved": {name: sorted(removal.moves) for name, removal in plan.unneeded.items() if removal.moves},
        "unremovable": {name: refusal_of(refusal, full=True) for name, refusal in plan.refused.items()},
        "budgets_left": dict(plan.budgets),
        "not_removable_now": plan.waiting,
        "evict": {
            name: {k: sorted(v) for k, v in (("pods", e.pods), ("daemonset", e.daemons)) if v}
            for name, e in plan.evictions.items()
            if e.pods or e.daemons
        },
    }
    for key, leavers in lists.items():
        found[key] = {
            kind: sorted(leaver.name for leaver in leavers if leaver.drains is drains)
            for kind, drains in (("empty", False), ("drain", True))
            if any(leaver.drains is drains for leaver in leavers)
        }
    return found


def compared(case: Case, ways: Ways) -> Found:
    """Where a case's passes come out otherwise; `ways`: in what it is done in the reference's way."""
    expected, actual = case["expected"], found_in(case, ways)
    found = _exactly(expected.get("drainability", {}), actual["drainability"], "$.drainability")
    for number, (wanted, got) in enumerate(zip(expected["passes"], actual["passes"], strict=True)):
        for key, value in got.items():
            path = f"$.passes[{number}].{key}"
            default: Any = [] if isinstance(value, list) else {}
            if key == "utilization":
                found += _near(wanted.get(key, {}), value, path)
            else:
                found += _exactly(wanted.get(key, default), value, path)
    return found


def _exactly(expected: Any, actual: Any, path: str) -> Found:
    found = differences(expected, actual, path)
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        more = sorted(set(actual) - set(expected))
        found += [f"{path}.{key}: expected nothing, found {actual[key]!r}" for key in more]
    return found


def _near(expected: Mapping[str, Any], actual: Mapping[str, Any], path: str) -> Found:
    found = _exactly(
        {name: use["resource"] for name, use in expected.items()},
        {name: use["resource"] for name, use in actual.items()},
        path,
    )
    for name, use in expected.items():
        if name in actual and abs(actual[name]["ratio"] - use["ratio"]) > 1e-6:
            found.append(f"{path}.{name}: expected {use['ratio']}, found {actual[name]['ratio']}")
    return found


def as_reference(case: Case) -> Found:
    return compared(case, tuple(DIFFERENCES))


KINDS = {"scale-down-plan": as_reference}
