"""Pods and pod templates cut down to what decides where a pod may run: what is kept of them for a CapacityBuffer. Pure.

    essentials(...)   of a pod or a pod template, as `{metadata, spec}` that the API takes as a template again
    defaulted(...)    requests in place of those that are missing where there is a limit, as the API server has them
    replacing(...)    the merge patch that makes one of these another

Variables, arguments, probes and whatever else may hold a secret are left out, so that a decision can carry the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidewright.events.base import JsonObject
from tidewright.kube.shapes import REVISION_LABELS

_OF_SPEC = (
    "nodeSelector", "affinity", "tolerations", "topologySpreadConstraints", "schedulingGates", "resourceClaims",
    "priorityClassName", "priority", "preemptionPolicy", "runtimeClassName", "overhead", "resources", "hostNetwork",
    "schedulerName", "activeDeadlineSeconds",
)  # fmt: skip
_OF_ANNOTATIONS = ("cluster-autoscaler.kubernetes.io/", "autoscaling.x-k8s.io/", "tidewright.dev/")
"""Prefixes of the annotations by which the autoscaler goes."""
ACCOUNT_VOLUME = "kube-api-access-"
"""How the names of volumes begin that the server adds to each pod, with another suffix each time."""
_BY_CLAIM = ("persistentVolumeClaim", "ephemeral")


def essentials(pod: Mapping[str, Any], *, live: bool = False) -> JsonObject:
    """What decides where such a pod may run.

    Args:
        pod: a pod or pod template, `metadata` and `spec`.
        live: it is one pod of a workload: labels of its revision, its node and its own claims are left out, or the
            chunk would be tied to the volume and zone of this one pod.

    Raises:
        AttributeError, TypeError: it has not the form of one.
    """
    metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    kept: JsonObject = {name: spec[name] for name in _OF_SPEC if spec.get(name)}
    if kept.get("schedulerName") == "default-scheduler":
        del kept["schedulerName"]  # the API server fills it in
    for kind in ("containers", "initContainers"):
        if spec.get(kind):
            kept[kind] = [_container(container) for container in spec[kind]]
    volumes = [
        {"name": volume.get("name"), kind: volume[kind]}
        for volume in spec.get("volumes") or ()
        for kind in _BY_CLAIM
        if volume.get(kind) and not str(volume.get("name")).startswith(ACCOUNT_VOLUME)
    ]
    if live:
        volumes = [volume for volume in volumes if "ephemeral" in volume]
    if volumes:
        kept["volumes"] = volumes
    named = str(spec.get("affinity")) + str(spec.get("topologySpreadConstraints"))
    labels = {
        key: value
        for key, value in sorted((metadata.get("labels") or {}).items())
        if key not in REVISION_LABELS or key in named
    }
    annotations = {
        key: value
        for key, value in sorted((metadata.get("annotations") or {}).items())
        if key.startswith(_OF_ANNOTATIONS)
    }
    about = {"labels": labels, "annotations": annotations}
    return {"metadata": {name: value for name, value in about.items() if value}, "spec": kept}


def _container(container: Mapping[str, Any]) -> JsonObject:
    kept: JsonObject = {"name": container.get("name") or "", "image": container.get("image") or ""}
    if container.get("resources"):
        resources = container["resources"]
        kept["resources"] = {kind: resources[kind] for kind in ("requests", "limits") if resources.get(kind)}
        if not kept["resources"]:
            del kept["resources"]
    if container.get("restartPolicy"):
        kept["restartPolicy"] = container["restartPolicy"]
    ports = [
        {
            "containerPort": port.get("containerPort"), "hostPort": port["hostPort"],
            "protocol": port.get("protocol") or "TCP", **({"hostIP": port["hostIP"]} if port.get("hostIP") else {}),
        }
        for port in container.get("ports") or ()
        if port.get("hostPort")
    ]  # fmt: skip
    if ports:
        kept["ports"] = ports
    return kept


def defaulted(template: Mapping[str, Any]) -> JsonObject:
    """A pod template whose missing requests are its limits, per container, and those of the pod."""
    spec = dict(template.get("spec") or {})
    for kind in ("containers", "initContainers"):
        if spec.get(kind):
            spec[kind] = [_with_requests(container) for container in spec[kind]]
    return {**template, "spec": _with_requests(spec)}


def _with_requests(part: Mapping[str, Any]) -> JsonObject:
    resources = part.get("resources") or {}
    limits = resources.get("limits") or {}
    if not limits:
        return dict(part)
    return {
        **part,
        "resources": {**resources, "requests": {**limits, **(resources.get("requests") or {})}},
    }


def replacing(current: Mapping[str, Any], wanted: Mapping[str, Any]) -> JsonObject:
    """The merge patch (RFC 7386) that makes an object another: all that is wanted, and null for what is not."""
    patch: JsonObject = {name: None for name in current if name not in wanted}
    for name, value in wanted.items():
        before = current.get(name)
        nested = isinstance(before, Mapping) and isinstance(value, Mapping)
        patch[name] = replacing(before, value) if nested and before is not None else value
    return patch
