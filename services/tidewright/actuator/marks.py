"""Marks on nodes that go: our taints, the cordon, and the annotation that says that they are ours. Pure.

A mark is made and taken off in one write of the whole object under its resourceVersion: a merge patch would
replace the list of taints, with what others have put into it since.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidewright.actuator.allowed.fields import CHUNK
from tidewright.actuator.requests import Mismatch, check_uid
from tidewright.events.base import JsonObject
from tidewright.events.provisioning import MarkNode
from tidewright.kube.taints import CORDONED, DRAIN, MARKS, TO_BE_DELETED

MIRROR = "kubernetes.io/config.mirror"
DAEMON_SET_POD = "cluster-autoscaler.kubernetes.io/daemonset-pod"

UNINITIALIZED = "node.cloudprovider.kubernetes.io/uninitialized"


class TaintOfAnother(ValueError):
    """The taint is there, and no mark of ours: an incumbent set it."""


def marked(node: JsonObject, effect: MarkNode) -> JsonObject | None:
    """The node as it shall be; None when it is so.

    Raises:
        TaintOfAnother: it has that taint, and not from us.
        Mismatch: another node of the same name is to be marked.
    """
    try:
        check_uid(node, effect.target)
    except Mismatch:
        if effect.present:
            raise
        return None  # the one that carried the mark is gone
    return _with(node, effect) if effect.present else _without(node, effect)


def _with(node: JsonObject, effect: MarkNode) -> JsonObject | None:
    annotation, taint_effect = MARKS[effect.key]
    mark, taints, spec = _annotations(node).get(annotation), _taints(node), node.get("spec") or {}
    if mark is None and any(taint.get("key") == effect.key for taint in taints):
        raise TaintOfAnother(f"node {effect.target.name} has the taint {effect.key}, and no mark of ours")
    cordoned = effect.cordon and not spec.get("unschedulable")
    ours = cordoned or (mark or "").endswith(CORDONED)
    value = effect.drain + (CORDONED if ours else "")
    taint = {"key": effect.key, "value": effect.value, "effect": taint_effect}
    there = [t for t in taints if t.get("key") == effect.key]
    if mark == value and not cordoned and [_plain(t) for t in there] == [taint]:
        return None
    kept = [t for t in taints if t.get("key") != effect.key]
    return _made(
        node,
        {**_annotations(node), annotation: value},
        {**spec, "taints": [*kept, taint], **({"unschedulable": True} if cordoned else {})},
    )


def _without(node: JsonObject, effect: MarkNode) -> JsonObject | None:
    annotation, _ = MARKS[effect.key]
    annotations = _annotations(node)
    mark = annotations.get(annotation)
    if mark is None or (effect.drain and mark.removesuffix(CORDONED) != effect.drain):
        return None
    spec = dict(node.get("spec") or {})
    taints = [taint for taint in _taints(node) if taint.get("key") != effect.key]
    spec.pop("taints", None)
    if taints:
        spec["taints"] = taints
    if mark.endswith(CORDONED):
        spec.pop("unschedulable", None)
    kept = {name: value for name, value in annotations.items() if name != annotation}
    return _made(node, kept, spec)


def _made(node: JsonObject, annotations: Mapping[str, str], spec: Mapping[str, Any]) -> JsonObject:
    metadata = {**node.get("metadata", {}), "annotations": dict(annotations)}
    return {**node, "metadata": metadata, "spec": dict(spec)}


def _annotations(node: JsonObject) -> dict[str, str]:
    return (node.get("metadata") or {}).get("annotations") or {}


def _taints(node: JsonObject) -> list[JsonObject]:
    return (node.get("spec") or {}).get("taints") or []


def _plain(taint: JsonObject) -> JsonObject:
    return {"key": taint.get("key"), "value": taint.get("value", ""), "effect": taint.get("effect")}


def not_drained(node: JsonObject, uid: str) -> str:
    """What is wrong with a node whose instance is to be deleted; empty when it is the one, and carries our mark."""
    current = (node.get("metadata") or {}).get("uid", "")
    if current != uid:
        return f"has uid {current}, not {uid}: another node of the same name"
    tainted = any(taint.get("key") == TO_BE_DELETED for taint in _taints(node))
    return "" if tainted and DRAIN in _annotations(node) else "carries no mark of ours any more"


def uninitialized(node: JsonObject) -> bool:
    """Whether a node waits for its cloud to say what instance it is."""
    return any(taint.get("key") == UNINITIALIZED for taint in _taints(node))


def would_move(pod: JsonObject) -> bool:
    """Whether a pod would be lost with its node: it runs, nobody has asked it to end, and it is on no other node too."""
    metadata = pod.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    if (
        metadata.get("deletionTimestamp")
        or MIRROR in annotations
        or annotations.get(DAEMON_SET_POD) == "true"
        or CHUNK in annotations  # it holds room of a buffer, and does nothing
    ):
        return False
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return False
    owners = metadata.get("ownerReferences") or ()
    return not any(o.get("controller") and o.get("kind") in ("DaemonSet", "Node") for o in owners)
