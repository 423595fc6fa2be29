"""A group as its objects tell it: limits, instances, what the next node will look like, options. Pure."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from tidewright.cloud.errors import ErrorClass, Invalid
from tidewright.cloud.provider import (
    GroupOptions,
    Instance,
    InstanceError,
    InstanceState,
    NodeTemplate,
    Taint,
)
from tidewright.kube.durations import parse_duration

GROUP: Final = "cluster.x-k8s.io"
CAPACITY: Final = "capacity.cluster-autoscaler.kubernetes.io/"
GPU_LABEL: Final = "cluster-api/accelerator"
MAX_PODS: Final = "110"
_CAPACITIES: Final = {
    "cpu": "cpu",
    "memory": "memory",
    "ephemeral-disk": "ephemeral-storage",
    "maxPods": "pods",
}
_PROPAGATED: Final = ("node-role.kubernetes.io/", "node-restriction.kubernetes.io", "node.cluster.x-k8s.io")
_ARCHITECTURES: Final = ("amd64", "arm64", "ppc64le", "s390x")
_EXHAUSTED = re.compile(
    r"InsufficientInstanceCapacity|insufficient.*capacity|out of (?:capacity|stock|resources)|"
    r"quota|LimitExceeded|ZONE_RESOURCE_POOL_EXHAUSTED|AllocationFailed|No valid host",
    re.IGNORECASE,
)
"""What infrastructure providers say when there is no machine of the kind, or no more are allowed."""

Object = Mapping[str, Any]


class Machines(msgspec.Struct, frozen=True):
    """How many machines a group has that are, or will be, nodes; and all of them."""

    nodes: int
    total: int


def metadata(resource: Object) -> Mapping[str, Any]:
    return resource.get("metadata") or {}


def notes_of(resource: Object) -> Mapping[str, str]:
    return metadata(resource).get("annotations") or {}


def limits_of(resource: Object, api_group: str = GROUP) -> tuple[int, int]:
    """Least and most nodes, of the annotations; a missing one is 0.

    Raises:
        Invalid: one cannot be used.
    """
    prefix = f"{api_group}/cluster-api-autoscaler-node-group-"
    low = _limit(notes_of(resource).get(f"{prefix}min-size"), "min")
    high = _limit(notes_of(resource).get(f"{prefix}max-size"), "max")
    if high < low:
        raise Invalid(f"invalid max annotation: {high} is below the minimum {low}")
    return low, high


def _limit(text: str | None, which: str) -> int:
    if text is None:
        return 0
    if not text.isdecimal():
        raise Invalid(f"invalid {which} annotation: {text!r} is no number of nodes")
    return int(text)


def is_paused(resource: Object, api_group: str = GROUP) -> bool:
    return f"{api_group}/paused" in notes_of(resource) or bool((resource.get("spec") or {}).get("paused"))


def replicas(resource: Object) -> int:
    return int((resource.get("spec") or {}).get("replicas") or 0)


def owner_of(resource: Object, kind: str) -> str:
    """The name of its owner of that kind; empty when it has none."""
    for owner in metadata(resource).get("ownerReferences") or ():
        if owner.get("kind") == kind:
            return str(owner.get("name", ""))
    return ""


# --- Instances ----------------------------------------------------------------------------------


def is_deleting(machine: Object) -> bool:
    return bool(metadata(machine).get("deletionTimestamp"))


def is_failed(machine: Object) -> bool:
    return (machine.get("status") or {}).get("phase") == "Failed"


def provider_id(machine: Object) -> str:
    return str((machine.get("spec") or {}).get("providerID") or "")


def has_node(machine: Object) -> bool:
    return bool((machine.get("status") or {}).get("nodeRef"))


def counted(machines: Iterable[Object]) -> Machines:
    """Machines that are pending, failed or being deleted do not count as nodes."""
    listed = list(machines)
    nodes = sum(
        not is_deleting(one) and not is_failed(one) and bool(provider_id(one)) and has_node(one)
        for one in listed
    )
    return Machines(nodes, len(listed))


def instances_of(machines: Iterable[Object]) -> list[Instance]:
    """All machines of a group, by id."""
    return sorted(map(instance_of, machines), key=lambda instance: instance.id)


def instance_of(machine: Object) -> Instance:
    """One machine; one without a provider id has an id made of its state and name."""
    deleting, failed = is_deleting(machine), is_failed(machine)
    zone = str((machine.get("spec") or {}).get("failureDomain") or "")
    state: InstanceState | None
    error = None
    if deleting:
        state, prefix = InstanceState.DELETING, "deleting-machine-"
        if failed:
            error = _error(machine, "DeletingFailed", "Machine deletion failed")
    elif failed:
        prefix = "failed-machine-"
        state = None
        if not has_node(machine):
            state, error = (
                InstanceState.CREATING,
                _error(machine, "ProvisioningFailed", "Machine provisioning failed"),
            )
    elif not provider_id(machine) or not has_node(machine):
        state, prefix = InstanceState.CREATING, "pending-machine-"
    else:
        state, prefix = InstanceState.RUNNING, ""
    return Instance(
        id=provider_id(machine) or synthetic(machine, prefix), state=state, error=error, zone=zone
    )


def synthetic(machine: Object, prefix: str) -> str:
    about = metadata(machine)
    return f"{prefix}{about.get('namespace', '')}_{about.get('name', '')}"


def _error(machine: Object, code: str, message: str) -> InstanceError:
    said = reason_of(machine)
    exhausted = code == "ProvisioningFailed" and _EXHAUSTED.search(said) is not None
    return InstanceError(
        error_class=ErrorClass.OUT_OF_RESOURCES if exhausted else ErrorClass.OTHER,
        code=code,
        message=f"{message}: {said}" if said else message,
    )


def reason_of(machine: Object) -> str:
    """What the infrastructure said of a machine that failed; empty when it said nothing."""
    status = machine.get("status") or {}
    if status.get("failureMessage"):
        return str(status["failureMessage"])
    for condition in status.get("conditions") or ():
        if condition.get("type") in ("InfrastructureReady", "Ready") and condition.get("status") == "False":
            return str(condition.get("message") or condition.get("reason") or "")
    return ""


# --- Templates ----------------------------------------------------------------------------------


def template_of(resource: Object, infrastructure: Object | None) -> NodeTemplate | None:
    """An empty node as it would join, from annotations over what the infrastructure's template says.

    None when cpu or memory is said by neither.
    """
    notes = notes_of(resource)
    status = (infrastructure or {}).get("status") or {}
    capacity = {str(name): str(amount) for name, amount in (status.get("capacity") or {}).items()}
    for name, key in _CAPACITIES.items():
        if value := notes.get(f"{CAPACITY}{name}"):
            capacity[key] = value
    if not capacity.get("cpu") or not capacity.get("memory"):
        return None
    capacity.setdefault("pods", MAX_PODS)
    devices: list[dict[str, Any]] = []
    count = notes.get(f"{CAPACITY}gpu-count", "")
    if count.isdecimal() and int(count):
        if kind := notes.get(f"{CAPACITY}gpu-type"):
            capacity[kind] = count
        if driver := notes.get(f"{CAPACITY}dra-driver"):
            devices = [{"driver": driver, "name": f"gpu-{number}"} for number in range(int(count))]
    for driver, limit in _pairs(notes.get(f"{CAPACITY}csi-driver", "")):
        if limit.isdecimal() and int(limit):
            capacity[f"attachable-volumes-csi-{driver}"] = limit
    own = (resource.get("spec") or {}).get("template") or {}
    return NodeTemplate(
        capacity=capacity,
        labels={**_system(status), **_propagated(own), **dict(_pairs(notes.get(f"{CAPACITY}labels", "")))},
        taints=_taints(notes.get(f"{CAPACITY}taints"), own),
        devices=tuple(devices),
    )


def _system(status: Object) -> dict[str, str]:
    info = status.get("nodeInfo") or {}
    wanted = os.environ.get("CAPI_SCALE_ZERO_DEFAULT_ARCH", "")
    default = wanted if wanted in _ARCHITECTURES else "amd64"
    return {
        "kubernetes.io/arch": str(info.get("architecture") or default),
        "kubernetes.io/os": str(info.get("operatingSystem") or "linux"),
    }


def _propagated(template: Object) -> dict[str, str]:
    labels = metadata(template).get("labels") or {}
    return {str(key): str(value) for key, value in labels.items() if str(key).startswith(_PROPAGATED)}


def _taints(said: str | None, template: Object) -> tuple[Taint, ...]:
    if said is None:
        listed = (template.get("spec") or {}).get("taints") or ()
        return tuple(
            Taint(key=t["key"], value=t.get("value", ""), effect=t.get("effect", "NoSchedule"))
            for t in listed
        )
    found = []
    for part in filter(None, said.split(",")):
        rest, _, effect = part.rpartition(":")
        key, _, value = rest.partition("=")
        if key and effect:
            found.append(Taint(key=key.strip(), value=value, effect=effect))
    return tuple(found)


def _pairs(text: str) -> list[tuple[str, str]]:
    """`k=v,k2=v2`; what is no pair is passed over."""
    pairs = (part.partition("=") for part in text.split(","))
    return [(key.strip(), value.strip()) for key, equals, value in pairs if key.strip() and equals]


def infrastructure_of(resource: Object) -> tuple[str, str, str] | None:
    """Group (or group/version), kind and name of the infrastructure's template; None when there is none."""
    said = ((resource.get("spec") or {}).get("template") or {}).get("spec") or {}
    ref = said.get("infrastructureRef") or {}
    where = str(ref.get("apiVersion") or ref.get("apiGroup") or "")
    return (
        (where, str(ref["kind"]), str(ref["name"])) if where and ref.get("kind") and ref.get("name") else None
    )


def options_of(resource: Object, defaults: GroupOptions, api_group: str = GROUP) -> GroupOptions:
    """The defaults with what annotations say; what cannot be read is ignored."""
    own: dict[str, Any] = {}
    for name, (field, read) in _OPTIONS.items():
        text = notes_of(resource).get(f"{api_group}/autoscaling-options-{name}")
        if text is None:
            continue
        try:
            own[field] = read(text.lower())
        except ValueError:
            continue
    return msgspec.structs.replace(defaults, **own)


_OPTIONS: Final[dict[str, tuple[str, Any]]] = {
    "scaledownutilizationthreshold": ("scale_down_utilization_threshold", float),
    "scaledowngpuutilizationthreshold": ("scale_down_gpu_utilization_threshold", float),
    "scaledownunneededtime": ("scale_down_unneeded_s", parse_duration),
    "scaledownunreadytime": ("scale_down_unready_s", parse_duration),
    "maxnodeprovisiontime": ("max_node_provision_s", parse_duration),
    "maxnodestartuptime": ("max_node_startup_s", parse_duration),
}


def new_size(size: int, delta: int, machines: Sequence[Object], group_id: str) -> int:
    """The size after cancelling `-delta` orders.

    Raises:
        Invalid: fewer are unfulfilled.
    """
    if delta >= 0:
        raise Invalid(f"{group_id}: decrease by {delta}; the delta must be < 0")
    there = counted(machines).nodes
    if size + delta < there:
        raise Invalid(
            f"{group_id}: decrease by {-delta}, but only {max(0, size - there)} orders are unfulfilled;"
            " existing machines are deleted by id"
        )
    return size + delta
