"""Defaults of pods and of pod templates, and what the server's own admission makes of a new pod."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tidewright.kube import quantities
from tidewright.kube.conditions import entry
from tidewright.sim.api import errors
from tidewright.sim.api.store import residents

if TYPE_CHECKING:
    from tidewright.sim.api.api import Api

Object = dict[str, Any]

_SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_NOT_READY = "node.kubernetes.io/not-ready"
_UNREACHABLE = "node.kubernetes.io/unreachable"
_EVICTION_TOLERANCE_S = 300


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
    for container in _containers(spec):
        _container(container)
    for amounts in (spec.get("overhead"), *_amounts(spec.get("resources"))):
        if isinstance(amounts, dict):
            canonical_quantities(amounts)
    for volume in spec.get("volumes") or ():
        _volume(volume)


def _containers(spec: Object) -> Iterator[Object]:
    for part in ("initContainers", "containers"):
        yield from spec.get(part) or ()


def _amounts(resources: Any) -> Iterator[Any]:
    if isinstance(resources, dict):
        yield resources.get("limits")
        yield resources.get("requests")


def _own_defaults(spec: Object) -> None:
    """What is filled in for a pod and not for a template: requests from limits, ports of the host."""
    host_network = spec.get("hostNetwork") is True
    for container in _containers(spec):
        resources = container["resources"]
        for name, amount in (resources.get("limits") or {}).items():
            resources.setdefault("requests", {}).setdefault(name, amount)
        if host_network:
            for port in container.get("ports") or ():
                port.setdefault("hostPort", port.get("containerPort"))


def _container(container: Object) -> None:
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    resources = container.setdefault("resources", {})
    for amounts in _amounts(resources):
        if amounts:
            canonical_quantities(amounts)
    if "imagePullPolicy" not in container:
        image: str = container.get("image") or ""
        tag = image.rpartition("/")[2].partition("@")[0].partition(":")[2]
        latest = tag in {"", "latest"} and "@" not in image
        container["imagePullPolicy"] = "Always" if latest else "IfNotPresent"
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if isinstance(container.get(probe), dict):
            _probe(container[probe])
    for variable in container.get("env") or ():
        _reference(variable.get("valueFrom"))
    for hook in (container.get("lifecycle") or {}).values():
        if isinstance(hook, dict):
            _http(hook.get("httpGet"))


def _reference(source: Any) -> None:
    """Defaults of a field or a resource that a variable or a file shows."""
    if isinstance(source, dict) and isinstance(source.get("fieldRef"), dict):
        source["fieldRef"].setdefault("apiVersion", "v1")
    if isinstance(source, dict) and isinstance(source.get("resourceFieldRef"), dict):
        source["resourceFieldRef"].setdefault("divisor", "0")


def _http(action: Any) -> None:
    if isinstance(action, dict):
        action.setdefault("path", "/")
        action.setdefault("scheme", "HTTP")


def _probe(probe: Object) -> None:
    for field, value in (
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ):
        probe.setdefault(field, value)
    _http(probe.get("httpGet"))
    if isinstance(probe.get("grpc"), dict):
        probe["grpc"].setdefault("service", "")


def _volume(volume: Object) -> None:
    for kind in ("configMap", "secret", "downwardAPI", "projected"):
        if isinstance(volume.get(kind), dict):
            volume[kind].setdefault("defaultMode", 420)
    for source in (volume, *((volume.get("projected") or {}).get("sources") or ())):
        for item in (source.get("downwardAPI") or {}).get("items") or ():
            _reference(item)
        if isinstance(source.get("serviceAccountToken"), dict):
            source["serviceAccountToken"].setdefault("expirationSeconds", 3600)
    if isinstance(volume.get("hostPath"), dict):
        volume["hostPath"].setdefault("type", "")
    claim = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
    if isinstance(claim, dict):
        claim.setdefault("metadata", {})
        claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
    if set(volume) == {"name"}:
        volume["emptyDir"] = {}


def canonical_quantities(amounts: Object) -> None:
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


def pod(obj: Object) -> None:
    spec = obj.get("spec")
    if isinstance(spec, dict):
        if spec.get("nodeName") == "":
            del spec["nodeName"]
        pod_spec(spec)
        _own_defaults(spec)
        spec.setdefault("enableServiceLinks", True)


def admit_pod(api: Api, obj: Object) -> None:
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        return
    spec["serviceAccountName"] = spec["serviceAccount"] = (
        spec.get("serviceAccountName") or residents.DEFAULT_ACCOUNT
    )
    residents.admit_account(api, obj)
    _admit_priority(api, obj, spec)
    _admit_tolerations(spec)


def create_pod(api: Api, obj: Object) -> None:
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        return
    whole = spec.get("resources")
    resources = [whole] if whole else [part.get("resources") or {} for part in _containers(spec)]
    status: Object = {"phase": "Pending", "qosClass": quality_of_service(resources)}
    obj["status"] = status
    if spec.get("schedulingGates"):
        status["conditions"] = [
            {
                **entry(
                    "PodScheduled",
                    False,
                    api.stamps.now(),
                    reason="SchedulingGated",
                    message="Scheduling is blocked due to non-empty scheduling gates",
                ),
                "lastProbeTime": None,
            }
        ]


def quality_of_service(resources: list[Object]) -> str:
    """Guaranteed, Burstable or BestEffort, from the cpu and memory of all containers, or of the pod as a whole."""
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
            priority_class = record.decode()
            value, policy = priority_class.get("value", 0), priority_class.get("preemptionPolicy", policy)
        elif name in _SYSTEM_PRIORITIES:
            value = _SYSTEM_PRIORITIES[name]
        else:
            raise errors.forbidden(
                "", "pods", obj["metadata"].get("name", ""), f"no PriorityClass with name {name} was found"
            )
    else:
        value = 0
        for record in classes.scan():
            priority_class = record.decode()
            if priority_class.get("globalDefault"):
                value, policy = priority_class.get("value", 0), priority_class.get("preemptionPolicy", policy)
                spec["priorityClassName"] = record.name
    given = spec.get("priority")
    if given is not None and given != value:
        raise errors.forbidden(
            "",
            "pods",
            obj["metadata"].get("name", ""),
            f"the integer value of priority ({given}) must not be provided in pod spec; priority admission controller "
            f"computed {value} from the given PriorityClass name",
        )
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
