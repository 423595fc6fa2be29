"""What a pod of a template will be like, once admission has had it: as far as that decides where it may run.

That is what the API server does to every pod: requests that are missing (limits, then the namespace's LimitRanges), the
priority of its class, and the tolerations that all pods are given; and what the subset of a WorkloadSpread adds. What
other webhooks change is seen in the first pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tidewright.events.base import JsonObject
from tidewright.kube.shapes import Shapes, SpecFields
from tidewright.kube.workloadspreads.inject import inject
from tidewright.kube.workloadspreads.spec import Subset
from tidewright.provisioning.foresight.kept import Form
from tidewright.provisioning.state import ShapeFields

_shapes = Shapes()
_USUAL = tuple(
    {
        "key": f"node.kubernetes.io/{what}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }
    for what in ("not-ready", "unreachable")
)


class Unreadable(ValueError):
    """A template of which no pod's shape can be told: why."""


def shape_of(
    form: Form,
    namespace: str,
    labels: Mapping[str, str],
    objects: Mapping[str, Mapping[str, JsonObject]],
    subset: Subset | None = None,
) -> tuple[str, ShapeFields]:
    """The digest and the shape of a pod of a template.

    Args:
        form: the template.
        namespace: of its pods.
        labels: of its pods.
        objects: kind to name to what placement knows of LimitRanges and PriorityClasses (`State.objects`).
        subset: of a WorkloadSpread, that its pods are put into.

    Raises:
        Unreadable: it cannot be read.
    """
    if form.error:
        raise Unreadable(form.error)
    try:
        spec = _admitted(form.spec, namespace, objects)
        if subset is not None:
            injected = inject({"metadata": {"labels": dict(labels)}, "spec": spec}, "", subset)
            labels = injected["metadata"].get("labels") or {}
            spec = _admitted(injected.get("spec") or {}, namespace, objects)
        told = _shapes.of(namespace, labels, _fields(spec))
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise Unreadable(f"{type(error).__name__}: {error}") from error
    return told.digest, ShapeFields(
        requests=told.requests,
        scheduling=told.scheduling,
        namespace=namespace,
        labels=told.labels,
        priority=told.priority,
    )


def _fields(spec: JsonObject) -> SpecFields:
    """The part of a pod spec that shapes are made of, as the watcher reads it from a pod."""
    return msgspec.json.decode(msgspec.json.encode(spec), type=SpecFields)


def _admitted(
    spec: Mapping[str, Any], namespace: str, objects: Mapping[str, Mapping[str, JsonObject]]
) -> JsonObject:
    admitted: JsonObject = dict(spec)
    ranges = [
        limit
        for name, limits in sorted(objects.get("LimitRange", {}).items())
        if name.partition("/")[0] == namespace
        for limit in limits.get("limits") or ()
        if limit.get("type") == "Container"
    ]
    for kind in ("containers", "initContainers"):
        if spec.get(kind):
            admitted[kind] = [_limited(container, ranges) for container in spec[kind]]
    classes = objects.get("PriorityClass", {})
    named = classes.get(str(spec.get("priorityClassName") or ""))
    if named is None and not spec.get("priorityClassName"):
        named = next((c for _, c in sorted(classes.items()) if c.get("globalDefault")), None)
    if named is not None:
        admitted["priority"] = named.get("value") or 0
    tolerated = list(spec.get("tolerations") or ())
    admitted["tolerations"] = tolerated + [
        one for one in _USUAL if not _tolerates(tolerated, str(one["key"]))
    ]
    return admitted


def _limited(container: Mapping[str, Any], ranges: Iterable[Mapping[str, Any]]) -> JsonObject:
    """A container with the requests and limits that it is given where it says none."""
    resources = container.get("resources") or {}
    limits, requests = dict(resources.get("limits") or {}), dict(resources.get("requests") or {})
    requests = {**limits, **requests}
    for limit in ranges:
        requests = {**(limit.get("defaultRequest") or limit.get("default") or {}), **requests}
        limits = {**(limit.get("default") or {}), **limits}
    given = {kind: values for kind, values in (("requests", requests), ("limits", limits)) if values}
    return {**container, "resources": given} if given else dict(container)


def _tolerates(tolerations: Iterable[Mapping[str, Any]], key: str) -> bool:
    """Whether the usual toleration of a taint is not added: there is one, or one for all of them."""
    return any(
        t.get("effect") in (None, "", "NoExecute") and t.get("key") in (None, "", key) for t in tolerations
    )
