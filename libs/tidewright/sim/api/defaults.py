"""Defaults and server-set fields of the built-in kinds.

`DEFAULTS` fills in what an object leaves out, `ADMIT_CREATE` does what the server's own admission does to a new
object (accounts, priorities, tolerations), `PREPARE_CREATE` sets what only the server decides for one (initial status,
cluster IPs), `PREPARE_UPDATE` restores what an update of that kind cannot change. All change the object in place; keys are table names (`apps/deployments`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tidewright.kube import quantities
from tidewright.sim.api import errors, residents

if TYPE_CHECKING:
    from tidewright.sim.api.api import Api

Object = dict[str, Any]

_SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_NOT_READY = "node.kubernetes.io/not-ready"
_UNREACHABLE = "node.kubernetes.io/unreachable"
_EVICTION_TOLERANCE_S = 300


# -- pods ---------------------------------------------------------------------------------------------


def pod_spec(spec: Object) -> None:
    """Defaults of a pod's spec, in a pod or in a template."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    if "serviceAccountName" in spec or "serviceAccount" in spec:
        name = spec.get("serviceAccountName") or spec.get("serviceAccount")
        spec["serviceAccountName"] = spec["serviceAccount"] = name
    host_network = spec.get("hostNetwork") is True
    for containers in ("initContainers", "containers"):
        for container in spec.get(containers) or ():
            _container(container, host_network)
    if "overhead" in spec:
        _quantities(spec["overhead"])
    for volume in spec.get("volumes") or ():
        _volume(volume)


def _container(container: Object, host_network: bool) -> None:
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    resources = container.setdefault("resources", {})
    for part in ("limits", "requests"):
        if resources.get(part):
            _quantities(resources[part])
    limits = resources.get("limits")
    if limits:
        requests = resources.setdefault("requests", {})
        for name, amount in limits.items():
            requests.setdefault(name, amount)
    if "imagePullPolicy" not in container:
        image: str = container.get("image") or ""
        tag = image.rpartition("/")[2].partition("@")[0].partition(":")[2]
        latest = tag in {"", "latest"} and "@" not in image
        container["imagePullPolicy"] = "Always" if latest else "IfNotPresent"
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if host_network:
            port.setdefault("hostPort", port.get("containerPort"))
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if isinstance(container.get(probe), dict):
            _probe(container[probe])
    for variable in container.get("env") or ():
        source = variable.get("valueFrom")
        if isinstance(source, dict) and isinstance(source.get("fieldRef"), dict):
            source["fieldRef"].setdefault("apiVersion", "v1")


def _probe(probe: Object) -> None:
    for field, value in (
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ):
        probe.setdefault(field, value)
    if isinstance(probe.get("httpGet"), dict):
        probe["httpGet"].setdefault("path", "/")
        probe["httpGet"].setdefault("scheme", "HTTP")


def _volume(volume: Object) -> None:
    for kind in ("configMap", "secret", "downwardAPI", "projected"):
        if isinstance(volume.get(kind), dict):
            volume[kind].setdefault("defaultMode", 420)
    if isinstance(volume.get("hostPath"), dict):
        volume["hostPath"].setdefault("type", "")
    if set(volume) == {"name"}:
        volume["emptyDir"] = {}


def _quantities(amounts: Object) -> None:
    for name, amount in amounts.items():
        amounts[name] = canonical_quantity(amount)


def canonical_quantity(amount: Any) -> Any:
    """The form in which the API server writes a quantity. Raises NotAQuantity."""
    if isinstance(amount, int | float) and not isinstance(amount, bool):
        amount = repr(amount)
    return _canonical_text(amount) if isinstance(amount, str) else amount


@lru_cache(maxsize=4096)
def _canonical_text(text: str) -> str:
    return quantities.canonical(quantities.parse(text))


def _pod(obj: Object) -> None:
    spec = obj.get("spec")
    if isinstance(spec, dict):
        pod_spec(spec)
        spec.setdefault("enableServiceLinks", True)


def _admit_pod(api: Api, obj: Object) -> None:
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        return
    spec["serviceAccountName"] = spec["serviceAccount"] = (
        spec.get("serviceAccountName") or residents.DEFAULT_ACCOUNT
    )
    residents.admit_account(api, obj)
    _admit_priority(api, obj, spec)
    _admit_tolerations(spec)


def _create_pod(api: Api, obj: Object) -> None:
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        return
    resources = [
        part.get("resources") or {} for part in spec.get("containers") or () if isinstance(part, dict)
    ]
    status: Object = {"phase": "Pending", "qosClass": quality_of_service(resources)}
    obj["status"] = status
    if spec.get("schedulingGates"):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
                "lastProbeTime": None,
                "lastTransitionTime": api.stamps.now(),
            }
        ]


def quality_of_service(resources: list[Object]) -> str:
    """Guaranteed, Burstable or BestEffort, from the containers' cpu and memory."""
    compute = ("cpu", "memory")
    any_set = any(
        (part.get(kind) or {}).get(name)
        for part in resources
        for kind in ("requests", "limits")
        for name in compute
    )
    if not any_set:
        return "BestEffort"
    for part in resources:
        limits = part.get("limits") or {}
        requests = part.get("requests") or limits
        for name in compute:
            if name not in limits or canonical_quantity(
                requests.get(name, limits[name])
            ) != canonical_quantity(limits[name]):
                return "Burstable"
    return "Guaranteed"


def _admit_priority(api: Api, obj: Object, spec: Object) -> None:
    name = spec.get("priorityClassName")
    policy = "PreemptLowerPriority"
    classes = api.store.table("scheduling.k8s.io/priorityclasses")
    if name:
        record = classes.get("", name)
        if record is not None:
            found = record.decode()
            value, policy = found.get("value", 0), found.get("preemptionPolicy", policy)
        elif name in _SYSTEM_PRIORITIES:
            value = _SYSTEM_PRIORITIES[name]
        else:
            raise errors.forbidden(
                "", "pods", obj["metadata"].get("name", ""), f"no PriorityClass with name {name} was found"
            )
    else:
        value = 0
        for record in classes.scan():
            found = record.decode()
            if found.get("globalDefault"):
                value, policy = found.get("value", 0), found.get("preemptionPolicy", policy)
                spec["priorityClassName"] = record.name
    spec["priority"] = value
    spec.setdefault("preemptionPolicy", policy)


def _admit_tolerations(spec: Object) -> None:
    tolerations = spec.get("tolerations") or []
    for key in (_NOT_READY, _UNREACHABLE):
        tolerated = any(
            isinstance(item, dict)
            and (item.get("key") in (key, None, ""))
            and item.get("effect") in ("NoExecute", None, "")
            for item in tolerations
        )
        if not tolerated:
            tolerations.append(
                {
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": _EVICTION_TOLERANCE_S,
                }
            )
    spec["tolerations"] = tolerations


# -- workloads ----------------------------------------------------------------------------------------


def _template(spec: Object) -> None:
    template = spec.get("template")
    if not isinstance(template, dict):
        return
    if isinstance(template.get("spec"), dict):
        pod_spec(template["spec"])
    if not isinstance(template.get("metadata"), dict):
        template["metadata"] = {}


def _rolling(spec: Object, field: str, **values: Any) -> None:
    strategy = spec.setdefault(field, {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.get("rollingUpdate") or {}
        for key, value in values.items():
            rolling.setdefault(key, value)
        strategy["rollingUpdate"] = rolling


def _deployment(obj: Object) -> None:
    spec = obj.get("spec")
    if isinstance(spec, dict):
        spec.setdefault("replicas", 1)
        _rolling(spec, "strategy", maxUnavailable="25%", maxSurge="25%")
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("progressDeadlineSeconds", 600)
        _template(spec)


def _replica_set(obj: Object) -> None:
    spec = obj.get("spec")
    if isinstance(spec, dict):
        spec.setdefault("replicas", 1)
        _template(spec)


def _stateful_set(obj: Object) -> None:
    spec = obj.get("spec")
    if isinstance(spec, dict):
        spec.setdefault("replicas", 1)
        spec.setdefault("podManagementPolicy", "OrderedReady")
        _rolling(spec, "updateStrategy", partition=0)
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault(
            "persistentVolumeClaimRetentionPolicy", {"whenDeleted": "Retain", "whenScaled": "Retain"}
        )
        _template(spec)
        for claim in spec.get("volumeClaimTemplates") or ():
            claim.setdefault("apiVersion", "v1")
            claim.setdefault("kind", "PersistentVolumeClaim")
            _claim(claim)
            claim.setdefault("status", {"phase": "Pending"})


def _daemon_set(obj: Object) -> None:
    spec = obj.get("spec")
    if isinstance(spec, dict):
        _rolling(spec, "updateStrategy", maxUnavailable=1, maxSurge=0)
        spec.setdefault("revisionHistoryLimit", 10)
        _template(spec)


def _job_spec(spec: Object) -> None:
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")
    _template(spec)


def _job(obj: Object) -> None:
    if isinstance(obj.get("spec"), dict):
        _job_spec(obj["spec"])


def _create_job(api: Api, obj: Object) -> None:
    obj.pop("status", None)
    spec = obj.get("spec")
    if not isinstance(spec, dict) or spec.get("manualSelector"):
        return
    uid, name = obj["metadata"]["uid"], obj["metadata"]["name"]
    template = spec.setdefault("template", {})
    if not isinstance(template, dict):
        return
    labels = {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }
    template.setdefault("metadata", {}).setdefault("labels", {}).update(labels)
    spec.setdefault("selector", {}).setdefault("matchLabels", {})["batch.kubernetes.io/controller-uid"] = uid


def _cron_job(obj: Object) -> None:
    spec = obj.get("spec")
    if isinstance(spec, dict):
        spec.setdefault("concurrencyPolicy", "Allow")
        spec.setdefault("suspend", False)
        spec.setdefault("successfulJobsHistoryLimit", 3)
        spec.setdefault("failedJobsHistoryLimit", 1)


# -- services, nodes, storage and the rest -----------------------------------------------------------


def _service(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port"))
    if spec["type"] != "ExternalName":
        spec.setdefault("ipFamilyPolicy", "SingleStack")
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("internalTrafficPolicy", "Cluster")


def _create_service(api: Api, obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    obj["status"] = {"loadBalancer": {}}
    if spec.get("type") != "ExternalName" and not spec.get("clusterIP"):
        spec["clusterIP"] = api.next_cluster_ip()
    if spec.get("clusterIP"):
        spec["clusterIPs"] = [spec["clusterIP"]]


def _update_service(api: Api, new: Object, old: Object, subresource: str) -> None:
    del api, subresource
    for key in ("clusterIP", "clusterIPs"):
        if key in (old.get("spec") or {}) and not (new.get("spec") or {}).get(key):
            new.setdefault("spec", {})[key] = old["spec"][key]


def _namespace(obj: Object) -> None:
    if "name" in obj["metadata"]:
        obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = obj["metadata"]["name"]


def _create_namespace(api: Api, obj: Object) -> None:
    del api
    _namespace(obj)  # again, for one whose name was generated
    obj.setdefault("spec", {})["finalizers"] = ["kubernetes"]
    obj["status"] = {"phase": "Active"}


def _update_namespace(api: Api, new: Object, old: Object, subresource: str) -> None:
    del api
    if subresource != "finalize":
        new["spec"] = old.get("spec", {})


def _node(obj: Object) -> None:
    status = obj.get("status")
    if isinstance(status, dict):
        for part in ("capacity", "allocatable"):
            if isinstance(status.get(part), dict):
                _quantities(status[part])
        if "capacity" in status:
            status.setdefault("allocatable", status["capacity"])


def _claim(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("volumeMode", "Filesystem")


def _create_claim(api: Api, obj: Object) -> None:
    del api
    obj["status"] = {"phase": "Pending"}


def _volume_object(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("volumeMode", "Filesystem")
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    obj.setdefault("status", {}).setdefault("phase", "Pending")


def _storage_class(obj: Object) -> None:
    obj.setdefault("reclaimPolicy", "Delete")
    obj.setdefault("volumeBindingMode", "Immediate")


def _secret(obj: Object) -> None:
    obj.setdefault("type", "Opaque")
    texts = obj.pop("stringData", None)
    if texts:
        import base64

        data = obj.get("data") or {}
        for key, text in texts.items():
            data[key] = base64.b64encode(str(text).encode()).decode()
        obj["data"] = data


def _autoscaler(obj: Object) -> None:
    spec = obj.get("spec")
    if isinstance(spec, dict):
        spec.setdefault("minReplicas", 1)
        if not spec.get("metrics"):
            spec["metrics"] = [
                {
                    "type": "Resource",
                    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
                }
            ]


def _priority_class(obj: Object) -> None:
    obj.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _quota(obj: Object) -> None:
    spec = obj.get("spec")
    if isinstance(spec, dict) and isinstance(spec.get("hard"), dict):
        _quantities(spec["hard"])


def _limit_range(obj: Object) -> None:
    for item in (obj.get("spec") or {}).get("limits") or ():
        for part in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio"):
            if isinstance(item.get(part), dict):
                _quantities(item[part])
        if item.get("type") == "Container" and item.get("max"):
            for name, amount in item["max"].items():
                item.setdefault("default", {}).setdefault(name, amount)
        if item.get("type") == "Container":
            for source in ("default", "min"):
                for name, amount in (item.get(source) or {}).items():
                    item.setdefault("defaultRequest", {}).setdefault(name, amount)


def _webhooks(reinvoke: bool) -> Callable[[Object], None]:
    def fill(obj: Object) -> None:
        for hook in obj.get("webhooks") or ():
            hook.setdefault("failurePolicy", "Fail")
            hook.setdefault("matchPolicy", "Equivalent")
            hook.setdefault("namespaceSelector", {})
            hook.setdefault("objectSelector", {})
            hook.setdefault("timeoutSeconds", 10)
            if reinvoke:
                hook.setdefault("reinvocationPolicy", "Never")
            for rule in hook.get("rules") or ():
                rule.setdefault("scope", "*")
            service = (hook.get("clientConfig") or {}).get("service")
            if isinstance(service, dict):
                service.setdefault("port", 443)

    return fill


def _role_binding(obj: Object) -> None:
    for subject in obj.get("subjects") or ():
        if "apiGroup" not in subject:
            subject["apiGroup"] = (
                "" if subject.get("kind") == "ServiceAccount" else "rbac.authorization.k8s.io"
            )
        if subject["apiGroup"] == "":
            del subject["apiGroup"]


def _definition(obj: Object) -> None:
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        return
    names = spec.get("names")
    if isinstance(names, dict) and isinstance(names.get("kind"), str):
        names.setdefault("singular", names["kind"].lower())
        names.setdefault("listKind", names["kind"] + "List")
    conversion = spec.setdefault("conversion", {})
    conversion.setdefault("strategy", "None")


def _event(obj: Object) -> None:
    obj.setdefault("source", {})


DEFAULTS: dict[str, Callable[[Object], None]] = {
    "/pods": _pod,
    "/podtemplates": _template,
    "/services": _service,
    "/namespaces": _namespace,
    "/nodes": _node,
    "/secrets": _secret,
    "/persistentvolumes": _volume_object,
    "/persistentvolumeclaims": _claim,
    "/resourcequotas": _quota,
    "/limitranges": _limit_range,
    "/replicationcontrollers": _replica_set,
    "/events": _event,
    "apps/deployments": _deployment,
    "apps/replicasets": _replica_set,
    "apps/statefulsets": _stateful_set,
    "apps/daemonsets": _daemon_set,
    "batch/jobs": _job,
    "batch/cronjobs": _cron_job,
    "autoscaling/horizontalpodautoscalers": _autoscaler,
    "scheduling.k8s.io/priorityclasses": _priority_class,
    "storage.k8s.io/storageclasses": _storage_class,
    "admissionregistration.k8s.io/mutatingwebhookconfigurations": _webhooks(reinvoke=True),
    "admissionregistration.k8s.io/validatingwebhookconfigurations": _webhooks(reinvoke=False),
    "rbac.authorization.k8s.io/rolebindings": _role_binding,
    "rbac.authorization.k8s.io/clusterrolebindings": _role_binding,
    "apiextensions.k8s.io/customresourcedefinitions": _definition,
}
ADMIT_CREATE: dict[str, Callable[[Api, Object], None]] = {"/pods": _admit_pod}
PREPARE_CREATE: dict[str, Callable[[Api, Object], None]] = {
    "/pods": _create_pod,
    "/services": _create_service,
    "/namespaces": _create_namespace,
    "/persistentvolumeclaims": _create_claim,
    "batch/jobs": _create_job,
}


def _without_zeros(*fields: str) -> Callable[[Api, Object, Object, str], None]:
    """Counts that the API's own types leave out of a status when they are 0."""

    def prepare(api: Api, new: Object, old: Object, subresource: str) -> None:
        del api, old
        status = new.get("status")
        if subresource == "status" and isinstance(status, dict):
            for field in fields:
                if status.get(field) == 0:
                    del status[field]

    return prepare


PREPARE_UPDATE: dict[str, Callable[[Api, Object, Object, str], None]] = {
    "apps/deployments": _without_zeros(
        "replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas"
    ),
    "apps/replicasets": _without_zeros("fullyLabeledReplicas", "readyReplicas", "availableReplicas"),
    "apps/statefulsets": _without_zeros("readyReplicas", "currentReplicas", "updatedReplicas"),
    "apps/daemonsets": _without_zeros("updatedNumberScheduled", "numberAvailable", "numberUnavailable"),
    "batch/jobs": _without_zeros("active", "succeeded", "failed"),
    "/services": _update_service,
    "/namespaces": _update_namespace,
}
