"""The node that a resource would make (scale from zero), from annotations and infrastructure templates. Pure.

Annotations on the scalable resource override `status.capacity` of the infrastructure machine template.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from tidewright.cloud.clusterapi.objects import Scalable
from tidewright.cloud.errors import Invalid
from tidewright.cloud.provider import GroupOptions, NodeTemplate, Taint
from tidewright.kube.durations import parse_duration
from tidewright.kube.quantities import NotAQuantity, whole
from tidewright.kube.volumes import attached

PREFIX: Final = "capacity.cluster-autoscaler.kubernetes.io/"
MAX_PODS: Final = 110
MOST_DEVICES: Final = 1024
"""More on one node is a slip of the pen, and each is an object."""
DEVICE_TYPE: Final = {"type": {"string": "gpu"}}
_PROPAGATED: Final = ("node-role.kubernetes.io/", "node-restriction.kubernetes.io", "node.cluster.x-k8s.io")
_QUANTITIES: Final = {"cpu": "cpu", "memory": "memory", "ephemeral-disk": "ephemeral-storage"}
"""Annotation to resource."""
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_TAINT = re.compile(r"([^=:]+)(?:=([^:]*))?:([A-Za-z]+)")
_THRESHOLDS: Final = {
    "scaledownutilizationthreshold": "scale_down_utilization_threshold",
    "scaledowngpuutilizationthreshold": "scale_down_gpu_utilization_threshold",
}
_TIMES: Final = {
    "scaledownunneededtime": "scale_down_unneeded_s",
    "scaledownunreadytime": "scale_down_unready_s",
    "maxnodeprovisiontime": "max_node_provision_s",
    "maxnodestartuptime": "max_node_startup_s",
}


def template_of(
    resource: Scalable, infrastructure: Mapping[str, Any] | None, architecture: str
) -> NodeTemplate | None:
    """An empty node as it would join; None where nothing says its cpu and memory.

    Args:
        resource: with the annotations.
        infrastructure: the machine template that it refers to, as an object; None where it cannot be read.
        architecture: where nothing says it.

    Raises:
        Invalid: an annotation, or a field of the machine template, cannot be read; the message names it.
    """
    notes = resource.metadata.notes
    status = (infrastructure or {}).get("status") or {}
    capacity = {str(name): str(amount) for name, amount in _map(status, "capacity").items()}
    for name, resource_name in _QUANTITIES.items():
        if PREFIX + name in notes:
            capacity[resource_name] = _quantity(notes, name)
    if "cpu" not in capacity or "memory" not in capacity:
        return None
    if f"{PREFIX}maxPods" in notes or "pods" not in capacity:
        capacity["pods"] = str(_number(notes, "maxPods", MAX_PODS))
    count = _number(notes, "gpu-count", 0)
    driver, gpu = notes.get(f"{PREFIX}dra-driver", ""), notes.get(f"{PREFIX}gpu-type", "")
    if driver and count > MOST_DEVICES:
        raise Invalid(
            f"annotation {PREFIX}gpu-count: {count}: valid is a number of devices up to {MOST_DEVICES}"
        )
    if gpu and count and not driver:
        capacity[gpu] = str(count)
    for name, limit in _pairs(notes.get(f"{PREFIX}csi-driver", "")):
        if limit.isdecimal() and len(limit) < 10 and int(limit):  # 0: as many as one likes
            capacity[attached(name)] = limit
    devices = tuple(
        {"driver": driver, "name": f"gpu-{n}", "attributes": DEVICE_TYPE}
        for n in range(count if driver else 0)
    )
    return NodeTemplate(
        capacity=capacity,
        labels=_labels(resource, _map(status, "nodeInfo"), architecture),
        taints=_taints(resource),
        devices=devices,
    )


def _map(status: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    found = status.get(field) or {}
    if not isinstance(found, Mapping):
        raise Invalid(f"infrastructure template: status.{field}: {found!r}: valid is a map")
    return found


def _labels(resource: Scalable, info: Mapping[str, Any], architecture: str) -> dict[str, str]:
    own = resource.spec.template.metadata.labels or {}
    return {
        "kubernetes.io/arch": str(info.get("architecture") or architecture),
        "kubernetes.io/os": str(info.get("operatingSystem") or "linux"),
        **{name: value for name, value in own.items() if name.startswith(_PROPAGATED)},
        **dict(_pairs(resource.metadata.notes.get(f"{PREFIX}labels", ""))),
    }


def _taints(resource: Scalable) -> tuple[Taint, ...]:
    text = resource.metadata.notes.get(f"{PREFIX}taints")
    if text is None:
        return tuple(
            Taint(key=taint.key, value=taint.value, effect=taint.effect)
            for taint in resource.spec.template.spec.taints or ()
        )
    taints: list[Taint] = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        match = _TAINT.fullmatch(item)
        if match is None or match[3] not in _EFFECTS:
            raise Invalid(
                f"annotation {PREFIX}taints: {item!r}: valid is KEY=VALUE:EFFECT, EFFECT one of {', '.join(_EFFECTS)}"
            )
        taints.append(Taint(key=match[1], value=match[2] or "", effect=match[3]))
    return tuple(taints)


def _pairs(text: str) -> list[tuple[str, str]]:
    """Of `a=b,c=d`; what is none is passed over."""
    parts = (part.strip().partition("=") for part in text.split(","))
    return [(name.strip(), value.strip()) for name, given, value in parts if name.strip() and given]


def _quantity(notes: Mapping[str, str], name: str) -> str:
    text = notes[PREFIX + name].strip()
    try:
        whole(text)
    except NotAQuantity as error:
        raise Invalid(f"annotation {PREFIX}{name}: {error}") from error
    return text


def _number(notes: Mapping[str, str], name: str, default: int) -> int:
    text = notes.get(PREFIX + name, str(default)).strip()
    if not text.isdecimal() or len(text) > 9:
        raise Invalid(f"annotation {PREFIX}{name}: {text!r}: valid is a whole number from 0")
    return int(text)


def options_of(resource: Scalable, prefix: str, defaults: GroupOptions) -> GroupOptions:
    """`defaults` with what the annotations `PREFIX/autoscaling-options-...` say; what cannot be read says nothing."""
    changes: dict[str, float] = {}
    for name, text in resource.metadata.notes.items():
        changes |= _option(name, text, prefix) or {}
    return msgspec.structs.replace(defaults, **changes)


def ignored(resource: Scalable, prefix: str) -> tuple[str, ...]:
    """Annotations of options that say nothing, since they cannot be read; each with what would be valid."""
    valid = f"a value of its kind, as in 0.5 or 10m; options are {', '.join((*_THRESHOLDS, *_TIMES))}"
    return tuple(
        f"annotation {name}: {text!r}: valid is {valid}"
        for name, text in sorted(resource.metadata.notes.items())
        if _option(name, text, prefix) is None
    )


def _option(annotation: str, text: str, prefix: str) -> dict[str, float] | None:
    """The option that an annotation says, empty for another annotation; None where it cannot be read."""
    start = f"{prefix}/autoscaling-options-"
    if not annotation.startswith(start):
        return {}
    name, value = annotation.removeprefix(start).lower(), text.strip().lower()
    try:
        if name in _THRESHOLDS:
            return {_THRESHOLDS[name]: _share(value)}
        return {_TIMES[name]: parse_duration(value)} if name in _TIMES else None
    except ValueError:
        return None


def _share(text: str) -> float:
    """Raises ValueError for what is none."""
    share = float(text)
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"{text!r} is not between 0 and 1")
    return share
