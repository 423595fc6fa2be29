"""The columns of the built-in kinds' tables: what each shows, and how its cells are made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from tidewright.kube.selectors import LabelSelector, SelectorError
from tidewright.kube.times import seconds
from tidewright.sim.api.http.ages import age, duration

Object = dict[str, Any]
NONE = "<none>"


class Column(msgspec.Struct, frozen=True):
    """One column; priority 1 and more is shown with `-o wide` only."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0


class Printer(msgspec.Struct, frozen=True):
    """The columns behind the name, and the function that fills them."""

    columns: tuple[Column, ...]
    cells: Callable[[Object, float], list[Any]]


COLUMNS: dict[str, Printer] = {}


def _printer(
    table: str, names: str
) -> Callable[[Callable[[Object, float], list[Any]]], Callable[[Object, float], list[Any]]]:
    """Register a kind's columns: names by blanks, `#` marks numbers, `?` truths, `@` dates, `+` the wide ones, `_` a space."""

    def register(cells: Callable[[Object, float], list[Any]]) -> Callable[[Object, float], list[Any]]:
        columns = []
        for name in names.split(" "):
            wide, number = "+" in name, "#" in name
            columns.append(
                Column(
                    name.strip("+#?@").replace("_", " "),
                    "integer"
                    if number
                    else "boolean"
                    if "?" in name
                    else "date"
                    if "@" in name
                    else "string",
                    priority=1 if wide else 0,
                )
            )
        COLUMNS[table] = Printer(tuple(columns), cells)
        return cells

    return register


def _part(obj: Object, name: str) -> Object:
    part = obj.get(name)
    return part if isinstance(part, dict) else {}


def _age(obj: Object, now_s: float) -> str:
    return age(obj["metadata"].get("creationTimestamp"), now_s)


def _labels(labels: Any) -> str:
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels)) if labels else NONE


def _selector(selector: Any) -> str:
    if not selector:
        return NONE
    try:
        return str(LabelSelector.of(selector)) or NONE
    except SelectorError:
        return "<error>"


def _containers(template: Object) -> tuple[str, str]:
    containers = _part(template, "spec").get("containers") or []
    return ",".join(c.get("name", "") for c in containers), ",".join(c.get("image", "") for c in containers)


@_printer("/pods", "Ready Status Restarts Age IP+ Node+ Nominated_Node+ Readiness_Gates+")
def _pods(obj: Object, now_s: float) -> list[Any]:
    spec, status = _part(obj, "spec"), _part(obj, "status")
    ready, restarts, reason = pod_summary(obj)
    gates = spec.get("readinessGates") or []
    met = sum(
        1
        for gate in gates
        for condition in status.get("conditions") or ()
        if condition.get("type") == gate.get("conditionType") and condition.get("status") == "True"
    )
    return [
        f"{ready}/{len(spec.get('containers') or ())}",
        reason,
        str(restarts),
        _age(obj, now_s),
        status.get("podIP") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        f"{met}/{len(gates)}" if gates else NONE,
    ]


def pod_summary(obj: Object) -> tuple[int, int, str]:
    """Ready containers, restarts and the one word that says how the pod is."""
    spec, status = _part(obj, "spec"), _part(obj, "status")
    reason: str = status.get("reason") or status.get("phase") or "Unknown"
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            reason = "SchedulingGated"
    restarts, ready, initialising = 0, 0, False
    planned = len(spec.get("initContainers") or ())
    for index, container in enumerate(status.get("initContainerStatuses") or ()):
        restarts += container.get("restartCount") or 0
        state = _part(container, "state")
        terminated, waiting = state.get("terminated"), state.get("waiting")
        if terminated is not None and not terminated.get("exitCode"):
            continue
        if terminated is not None:
            reason = "Init:" + (terminated.get("reason") or f"ExitCode:{terminated.get('exitCode')}")
        elif waiting and waiting.get("reason") and waiting["reason"] != "PodInitializing":
            reason = "Init:" + waiting["reason"]
        else:
            reason = f"Init:{index}/{planned}"
        initialising = True
        break
    if not initialising:
        restarts, running = 0, False
        for container in reversed(status.get("containerStatuses") or ()):
            restarts += container.get("restartCount") or 0
            state = _part(container, "state")
            terminated, waiting = state.get("terminated"), state.get("waiting")
            if waiting and waiting.get("reason"):
                reason = waiting["reason"]
            elif terminated is not None:
                reason = terminated.get("reason") or (
                    f"Signal:{terminated['signal']}"
                    if terminated.get("signal")
                    else f"ExitCode:{terminated.get('exitCode', 0)}"
                )
            elif container.get("ready") and "running" in state:
                running = True
                ready += 1
        if reason == "Completed" and running:
            reason = "Running"
    if "deletionTimestamp" in obj["metadata"]:
        reason = "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return ready, restarts, reason


@_printer(
    "/nodes",
    "Status Roles Age Version Internal-IP+ External-IP+ OS-Image+ Kernel-Version+ Container-Runtime+",
)
def _nodes(obj: Object, now_s: float) -> list[Any]:
    spec, status = _part(obj, "spec"), _part(obj, "status")
    condition = next((c for c in status.get("conditions") or () if c.get("type") == "Ready"), None)
    state = "Unknown" if condition is None else "Ready" if condition.get("status") == "True" else "NotReady"
    if spec.get("unschedulable"):
        state += ",SchedulingDisabled"
    labels = obj["metadata"].get("labels") or {}
    prefix = "node-role.kubernetes.io/"
    roles = sorted(
        {key.removeprefix(prefix) for key in labels if key.startswith(prefix) and key != prefix}
        | ({labels["kubernetes.io/role"]} if labels.get("kubernetes.io/role") else set())
    )
    info = _part(status, "nodeInfo")
    addresses = {a.get("type"): a.get("address") for a in reversed(status.get("addresses") or ())}
    return [
        state,
        ",".join(roles) or NONE,
        _age(obj, now_s),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP") or NONE,
        addresses.get("ExternalIP") or NONE,
        info.get("osImage") or "<unknown>",
        info.get("kernelVersion") or "<unknown>",
        info.get("containerRuntimeVersion") or "<unknown>",
    ]


@_printer("/namespaces", "Status Age")
def _namespaces(obj: Object, now_s: float) -> list[Any]:
    return [_part(obj, "status").get("phase", ""), _age(obj, now_s)]


@_printer("/configmaps", "Data Age")
def _config_maps(obj: Object, now_s: float) -> list[Any]:
    return [len(_part(obj, "data")) + len(_part(obj, "binaryData")), _age(obj, now_s)]


@_printer("/secrets", "Type Data Age")
def _secrets(obj: Object, now_s: float) -> list[Any]:
    return [obj.get("type", ""), len(_part(obj, "data")), _age(obj, now_s)]


@_printer("/services", "Type Cluster-IP External-IP Port(s) Age Selector+")
def _services(obj: Object, now_s: float) -> list[Any]:
    spec = _part(obj, "spec")
    ports = []
    for port in spec.get("ports") or ():
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        ports.append(f"{port.get('port')}{node}/{port.get('protocol', 'TCP')}")
    ingress = _part(_part(obj, "status"), "loadBalancer").get("ingress") or []
    external = ",".join(i.get("ip") or i.get("hostname") or "" for i in ingress) or NONE
    if spec.get("type") == "LoadBalancer" and not ingress:
        external = "<pending>"
    if spec.get("type") == "ExternalName":
        external = spec.get("externalName", NONE)
    if spec.get("externalIPs"):
        external = ",".join(spec["externalIPs"])
    return [
        spec.get("type", ""),
        spec.get("clusterIP") or NONE,
        external,
        ",".join(ports) or NONE,
        _age(obj, now_s),
        _labels(spec.get("selector")),
    ]


@_printer("/serviceaccounts", "Age")
def _service_accounts(obj: Object, now_s: float) -> list[Any]:
    return [_age(obj, now_s)]


@_printer("/endpoints", "Endpoints Age")
def _endpoints(obj: Object, now_s: float) -> list[Any]:
    addresses = [
        f"{address.get('ip')}:{port.get('port')}"
        for subset in obj.get("subsets") or ()
        for address in subset.get("addresses") or ()
        for port in subset.get("ports") or [{"port": ""}]
    ]
    text = ",".join(addresses[:3]) + (f" + {len(addresses) - 3} more..." if len(addresses) > 3 else "")
    return [text or NONE, _age(obj, now_s)]


@_printer("/events", "Last_Seen Type Reason Object Subobject+ Source+ Message First_Seen+ Count+ Name+")
def _events(obj: Object, now_s: float) -> list[Any]:
    involved = _part(obj, "involvedObject")
    series = _part(obj, "series")
    first = obj.get("firstTimestamp") or obj.get("eventTime") or obj["metadata"].get("creationTimestamp")
    last = series.get("lastObservedTime") or obj.get("lastTimestamp") or first
    source = _part(obj, "source")
    component = source.get("component") or obj.get("reportingComponent") or ""
    if source.get("host"):
        component += f", {source['host']}"
    elif not source.get("component") and obj.get("reportingInstance"):
        component += f", {obj['reportingInstance']}"
    target = f"{involved.get('kind', '').lower()}/{involved.get('name', '')}"
    return [
        age(last, now_s),
        obj.get("type", ""),
        obj.get("reason", ""),
        target,
        involved.get("fieldPath", ""),
        component,
        (obj.get("message") or "").strip(),
        age(first, now_s),
        series.get("count") or obj.get("count") or 1,
        obj["metadata"].get("name", ""),
    ]


@_printer(
    "/persistentvolumes",
    "Capacity Access_Modes Reclaim_Policy Status Claim StorageClass VolumeAttributesClass Reason Age VolumeMode+",
)
def _volumes(obj: Object, now_s: float) -> list[Any]:
    spec, status = _part(obj, "spec"), _part(obj, "status")
    claim = _part(spec, "claimRef")
    return [
        _part(spec, "capacity").get("storage", ""),
        _modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        "Terminating" if "deletionTimestamp" in obj["metadata"] else status.get("phase", ""),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        spec.get("storageClassName", ""),
        "<unset>",
        status.get("reason", ""),
        _age(obj, now_s),
        spec.get("volumeMode", "<unset>"),
    ]


def _modes(modes: Any) -> str:
    short = {
        "ReadWriteOnce": "RWO",
        "ReadOnlyMany": "ROX",
        "ReadWriteMany": "RWX",
        "ReadWriteOncePod": "RWOP",
    }
    return ",".join(short.get(mode, mode) for mode in modes or ())


@_printer(
    "/persistentvolumeclaims",
    "Status Volume Capacity Access_Modes StorageClass VolumeAttributesClass Age VolumeMode+",
)
def _claims(obj: Object, now_s: float) -> list[Any]:
    spec, status = _part(obj, "spec"), _part(obj, "status")
    return [
        "Terminating" if "deletionTimestamp" in obj["metadata"] else status.get("phase", ""),
        spec.get("volumeName", ""),
        _part(status, "capacity").get("storage", ""),
        _modes(status.get("accessModes")),
        spec.get("storageClassName", ""),
        "<unset>",
        _age(obj, now_s),
        spec.get("volumeMode", "<unset>"),
    ]


@_printer("/resourcequotas", "Request Limit Age")
def _quotas(obj: Object, now_s: float) -> list[Any]:
    status = _part(obj, "status")
    hard, used = _part(status, "hard") or _part(_part(obj, "spec"), "hard"), _part(status, "used")
    requests: list[str] = []
    limits: list[str] = []
    for name in sorted(hard):
        text = f"{name}: {used.get(name, '0')}/{hard[name]}"
        (limits if name.startswith("limits.") else requests).append(text)
    return [", ".join(requests), ", ".join(limits), _age(obj, now_s)]


@_printer("/limitranges", "Created_At")
def _limit_ranges(obj: Object, now_s: float) -> list[Any]:
    del now_s
    return [obj["metadata"].get("creationTimestamp", "")]


@_printer("/podtemplates", "Containers Images Pod_Labels")
def _pod_templates(obj: Object, now_s: float) -> list[Any]:
    del now_s
    template = _part(obj, "template")
    return [*_containers(template), _labels(_part(template, "metadata").get("labels"))]


@_printer("apps/deployments", "Ready Up-to-date Available Age Containers+ Images+ Selector+")
def _deployments(obj: Object, now_s: float) -> list[Any]:
    spec, status = _part(obj, "spec"), _part(obj, "status")
    return [
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        _age(obj, now_s),
        *_containers(_part(spec, "template")),
        _selector(spec.get("selector")),
    ]


@_printer("apps/replicasets", "Desired# Current# Ready# Age Containers+ Images+ Selector+")
def _replica_sets(obj: Object, now_s: float) -> list[Any]:
    spec, status = _part(obj, "spec"), _part(obj, "status")
    return [
        spec.get("replicas", 0),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        _age(obj, now_s),
        *_containers(_part(spec, "template")),
        _selector(spec.get("selector")),
    ]


@_printer("apps/statefulsets", "Ready Age Containers+ Images+")
def _stateful_sets(obj: Object, now_s: float) -> list[Any]:
    spec, status = _part(obj, "spec"), _part(obj, "status")
    return [
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
        _age(obj, now_s),
        *_containers(_part(spec, "template")),
    ]


@_printer(
    "apps/daemonsets",
    "Desired# Current# Ready# Up-to-date# Available# Node_Selector Age Containers+ Images+ Selector+",
)
def _daemon_sets(obj: Object, now_s: float) -> list[Any]:
    spec, status = _part(obj, "spec"), _part(obj, "status")
    template = _part(spec, "template")
    return [
        status.get("desiredNumberScheduled", 0),
        status.get("currentNumberScheduled", 0),
        status.get("numberReady", 0),
        status.get("updatedNumberScheduled", 0),
        status.get("numberAvailable", 0),
        _labels(_part(template, "spec").get("nodeSelector")),
        _age(obj, now_s),
        *_containers(template),
        _selector(spec.get("selector")),
    ]


@_printer("batch/jobs", "Status Completions Duration Age Containers+ Images+ Selector+")
def _jobs(obj: Object, now_s: float) -> list[Any]:
    spec, status = _part(obj, "spec"), _part(obj, "status")
    done, desired = status.get("succeeded", 0), spec.get("completions")
    if desired is not None:
        completions = f"{done}/{desired}"
    else:
        parallel = spec.get("parallelism") or 1
        completions = f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"
    conditions = {c.get("type") for c in status.get("conditions") or () if c.get("status") == "True"}
    state = next(
        (word for word in ("Complete", "Failed", "Suspended", "FailureTarget") if word in conditions), ""
    ) or ("Terminating" if "deletionTimestamp" in obj["metadata"] else "Running")
    took = ""
    if status.get("startTime"):
        begun = seconds(status["startTime"])
        end = seconds(status["completionTime"]) if status.get("completionTime") else now_s
        took = duration(end - begun)
    return [
        state,
        completions,
        took,
        _age(obj, now_s),
        *_containers(_part(spec, "template")),
        _selector(spec.get("selector")),
    ]


@_printer(
    "batch/cronjobs", "Schedule Timezone Suspend? Active# Last_Schedule Age Containers+ Images+ Selector+"
)
def _cron_jobs(obj: Object, now_s: float) -> list[Any]:
    spec, status = _part(obj, "spec"), _part(obj, "status")
    job = _part(_part(spec, "jobTemplate"), "spec")
    return [
        spec.get("schedule", ""),
        spec.get("timeZone") or NONE,
        str(bool(spec.get("suspend"))),
        len(status.get("active") or ()),
        age(status["lastScheduleTime"], now_s) if status.get("lastScheduleTime") else NONE,
        _age(obj, now_s),
        *_containers(_part(job, "template")),
        _selector(job.get("selector")),
    ]


@_printer("policy/poddisruptionbudgets", "Min_Available Max_Unavailable Allowed_Disruptions# Age")
def _budgets(obj: Object, now_s: float) -> list[Any]:
    spec, status = _part(obj, "spec"), _part(obj, "status")
    return [
        str(spec.get("minAvailable", "N/A")),
        str(spec.get("maxUnavailable", "N/A")),
        status.get("disruptionsAllowed", 0),
        _age(obj, now_s),
    ]


@_printer("autoscaling/horizontalpodautoscalers", "Reference Targets MinPods MaxPods Replicas Age")
def _autoscalers(obj: Object, now_s: float) -> list[Any]:
    spec, status = _part(obj, "spec"), _part(obj, "status")
    target = _part(spec, "scaleTargetRef")
    shown = []
    for metric in spec.get("metrics") or ():
        source = _part(metric, metric.get("type", "")[:1].lower() + metric.get("type", "")[1:])
        aim = _part(source, "target")
        desired = aim.get("averageValue") or aim.get("value")
        if aim.get("averageUtilization") is not None:
            desired = f"{aim['averageUtilization']}%"
        label = f"{source.get('name')}: " if metric.get("type") == "Resource" else ""
        shown.append(f"{label}<unknown>/{desired}")
    return [
        f"{target.get('kind')}/{target.get('name')}",
        ", ".join(shown) or NONE,
        str(spec.get("minReplicas", "<unset>")),
        spec.get("maxReplicas", 0),
        status.get("currentReplicas", 0),
        _age(obj, now_s),
    ]


@_printer("scheduling.k8s.io/priorityclasses", "Value# Global-Default Age PreemptionPolicy")
def _priority_classes(obj: Object, now_s: float) -> list[Any]:
    return [
        obj.get("value", 0),
        str(bool(obj.get("globalDefault"))).lower(),
        _age(obj, now_s),
        obj.get("preemptionPolicy", ""),
    ]


@_printer("coordination.k8s.io/leases", "Holder Age")
def _leases(obj: Object, now_s: float) -> list[Any]:
    return [_part(obj, "spec").get("holderIdentity", ""), _age(obj, now_s)]


@_printer(
    "storage.k8s.io/storageclasses", "Provisioner ReclaimPolicy VolumeBindingMode AllowVolumeExpansion Age"
)
def _storage_classes(obj: Object, now_s: float) -> list[Any]:
    return [
        obj.get("provisioner", ""),
        obj.get("reclaimPolicy", "Delete"),
        obj.get("volumeBindingMode", "Immediate"),
        str(bool(obj.get("allowVolumeExpansion"))).lower(),
        _age(obj, now_s),
    ]


@_printer("storage.k8s.io/csinodes", "Drivers# Age")
def _csi_nodes(obj: Object, now_s: float) -> list[Any]:
    return [len(_part(obj, "spec").get("drivers") or ()), _age(obj, now_s)]


@_printer("apiextensions.k8s.io/customresourcedefinitions", "Created_At")
def _definitions(obj: Object, now_s: float) -> list[Any]:
    del now_s
    return [obj["metadata"].get("creationTimestamp", "")]


def _webhooks(obj: Object, now_s: float) -> list[Any]:
    return [len(obj.get("webhooks") or ()), _age(obj, now_s)]


for _name in ("mutating", "validating"):
    _printer(f"admissionregistration.k8s.io/{_name}webhookconfigurations", "Webhooks# Age")(_webhooks)


@_printer("rbac.authorization.k8s.io/roles", "Created_At@")
@_printer("rbac.authorization.k8s.io/clusterroles", "Created_At@")
def _roles(obj: Object, now_s: float) -> list[Any]:
    del now_s
    return [obj["metadata"].get("creationTimestamp", "")]


@_printer("rbac.authorization.k8s.io/rolebindings", "Role Age Users+ Groups+ ServiceAccounts+")
@_printer("rbac.authorization.k8s.io/clusterrolebindings", "Role Age Users+ Groups+ ServiceAccounts+")
def _bindings(obj: Object, now_s: float) -> list[Any]:
    role = _part(obj, "roleRef")
    subjects = obj.get("subjects") or ()

    def named(kind: str) -> str:
        return ", ".join(
            f"{subject.get('namespace')}/{subject.get('name')}"
            if kind == "ServiceAccount"
            else str(subject.get("name"))
            for subject in subjects
            if subject.get("kind") == kind
        )

    shown = [named(kind) for kind in ("User", "Group", "ServiceAccount")]
    return [f"{role.get('kind')}/{role.get('name')}", _age(obj, now_s), *shown]


@_printer("apps/controllerrevisions", "Controller Revision# Age")
def _revisions(obj: Object, now_s: float) -> list[Any]:
    owner = next((o for o in obj["metadata"].get("ownerReferences") or () if o.get("controller")), None)
    group = str(owner["apiVersion"]).rpartition("/")[0] if owner else ""
    kind = str(owner["kind"]).lower() + (f".{group}" if group else "") if owner else ""
    return [f"{kind}/{owner['name']}" if owner else NONE, obj.get("revision", 0), _age(obj, now_s)]
