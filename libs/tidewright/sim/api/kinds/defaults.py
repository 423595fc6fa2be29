"""Defaults and server-set fields of the built-in kinds.

`DEFAULTS` fills in what an object leaves out, `ADMIT_CREATE` does what the server's own admission does to a new
object (accounts, priorities, tolerations), `PREPARE_CREATE` sets what only the server decides for one (initial status,
cluster IPs), `PREPARE_UPDATE` restores what an update of that kind cannot change. All change the object in place; keys are table names (`apps/deployments`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tidewright.sim.api.kinds.pod_defaults import admit_pod, canonical_quantities, create_pod, pod, pod_spec

if TYPE_CHECKING:
    from tidewright.sim.api.api import Api

Object = dict[str, Any]

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


def _replication_controller(obj: Object) -> None:
    _replica_set(obj)
    template = (obj.get("spec") or {}).get("template") or {}
    labels = (template.get("metadata") or {}).get("labels")
    if labels and not obj["metadata"].get("labels"):
        obj["metadata"]["labels"] = dict(labels)


def _stateful_set(obj: Object) -> None:
    spec = obj.get("spec")
    if isinstance(spec, dict):
        spec.setdefault("replicas", 1)
        spec.setdefault("serviceName", "")
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
    spec.setdefault("manualSelector", False)
    spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")
    _template(spec)


def _job(obj: Object) -> None:
    if isinstance(obj.get("spec"), dict):
        _job_spec(obj["spec"])


def _create_job(api: Api, obj: Object) -> None:
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
    of_pods = template.setdefault("metadata", {}).setdefault("labels", {})
    of_pods.update(labels)
    if not obj["metadata"].get("labels"):
        obj["metadata"]["labels"] = dict(of_pods)
    spec.setdefault("selector", {}).setdefault("matchLabels", {})["batch.kubernetes.io/controller-uid"] = uid


def _cron_job(obj: Object) -> None:
    spec = obj.get("spec")
    if isinstance(spec, dict):
        spec.setdefault("concurrencyPolicy", "Allow")
        spec.setdefault("suspend", False)
        spec.setdefault("successfulJobsHistoryLimit", 3)
        spec.setdefault("failedJobsHistoryLimit", 1)
        jobs = spec.get("jobTemplate")
        if isinstance(jobs, dict):
            jobs.setdefault("metadata", {})
            if isinstance(jobs.get("spec"), dict):
                _template(jobs["spec"])


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
                canonical_quantities(status[part])
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
        if not spec.get("metrics") and obj.get("apiVersion") != "autoscaling/v1":
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
        canonical_quantities(spec["hard"])


def _limit_range(obj: Object) -> None:
    for item in (obj.get("spec") or {}).get("limits") or ():
        for part in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio"):
            if isinstance(item.get(part), dict):
                canonical_quantities(item[part])
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
    if isinstance(obj.get("roleRef"), dict):
        obj["roleRef"].setdefault("apiGroup", "rbac.authorization.k8s.io")
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


def _lease(obj: Object) -> None:
    obj.setdefault("spec", {})


def _endpoints(obj: Object) -> None:
    for subset in obj.get("subsets") or ():
        for port in subset.get("ports") or ():
            port.setdefault("protocol", "TCP")


def _endpoint_slice(obj: Object) -> None:
    for endpoint in obj.get("endpoints") or ():
        endpoint.setdefault("conditions", {})
    for port in obj.get("ports") or ():
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")


def _network_policy(obj: Object) -> None:
    spec = obj.get("spec")
    if isinstance(spec, dict):
        egress = bool(spec.get("egress"))
        spec.setdefault("policyTypes", ["Ingress", "Egress"] if egress else ["Ingress"])
        for rule in (*(spec.get("ingress") or ()), *(spec.get("egress") or ())):
            for port in rule.get("ports") or ():
                port.setdefault("protocol", "TCP")


def _event(obj: Object) -> None:
    obj.setdefault("source", {})


DEFAULTS: dict[str, Callable[[Object], None]] = {
    "/pods": pod,
    "/podtemplates": _template,
    "/services": _service,
    "/namespaces": _namespace,
    "/nodes": _node,
    "/secrets": _secret,
    "/persistentvolumes": _volume_object,
    "/persistentvolumeclaims": _claim,
    "/resourcequotas": _quota,
    "/limitranges": _limit_range,
    "/replicationcontrollers": _replication_controller,
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
    "coordination.k8s.io/leases": _lease,
    "/endpoints": _endpoints,
    "discovery.k8s.io/endpointslices": _endpoint_slice,
    "networking.k8s.io/networkpolicies": _network_policy,
}
ADMIT_CREATE: dict[str, Callable[[Api, Object], None]] = {"/pods": admit_pod}
PREPARE_CREATE: dict[str, Callable[[Api, Object], None]] = {
    "/pods": create_pod,
    "/services": _create_service,
    "/namespaces": _create_namespace,
    "/persistentvolumeclaims": _create_claim,
    "batch/jobs": _create_job,
}


FIRST_STATUS: dict[str, Object] = {
    "apps/deployments": {},
    "apps/replicasets": {"replicas": 0},
    "apps/statefulsets": {"replicas": 0, "availableReplicas": 0},
    "apps/daemonsets": {
        "currentNumberScheduled": 0,
        "numberMisscheduled": 0,
        "desiredNumberScheduled": 0,
        "numberReady": 0,
    },
    "batch/jobs": {},
    "batch/cronjobs": {},
    "/replicationcontrollers": {"replicas": 0},
    "/resourcequotas": {},
    "policy/poddisruptionbudgets": {
        "disruptionsAllowed": 0,
        "currentHealthy": 0,
        "desiredHealthy": 0,
        "expectedPods": 0,
    },
    "autoscaling/horizontalpodautoscalers": {"desiredReplicas": 0, "currentMetrics": None},
    "networking.k8s.io/ingresses": {"loadBalancer": {}},
}
"""The status of a new object that no controller has seen: what the API's own types never leave out."""


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
