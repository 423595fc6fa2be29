"""Nodes."""

from __future__ import annotations

import msgspec

from tidewright.events.facts import NodeObserved
from tidewright.kube.podspecs import amounts
from tidewright.kube.projection.reading import (
    UNREADABLE,
    Bytes,
    Meta,
    Projection,
    ReportedCondition,
    checked,
    malformed,
    wanted,
)
from tidewright.kube.times import seconds_if_set

DELAY_DELETION = "delay-deletion.cluster-autoscaler.kubernetes.io/"
"""Prefix of the annotations by which something asks to wait with the deletion of a node's instance."""


class _Taint(msgspec.Struct):
    key: str
    value: str = ""
    effect: str = ""


class _NodeSpec(msgspec.Struct):
    providerID: str = ""  # noqa: N815
    unschedulable: bool = False
    taints: list[_Taint] | None = None


class _NodeStatus(msgspec.Struct):
    allocatable: dict[str, str | int | float] | None = None
    conditions: list[ReportedCondition] | None = None


class _Node(msgspec.Struct):
    metadata: Meta
    spec: _NodeSpec = msgspec.field(default_factory=_NodeSpec)
    status: _NodeStatus = msgspec.field(default_factory=_NodeStatus)


_node = msgspec.json.Decoder(_Node)


def node(raw: Bytes) -> Projection:
    """A Node."""
    try:
        fields = _node.decode(raw)
        meta = fields.metadata
        checked(meta)
        ready = next((c for c in fields.status.conditions or () if c.type == "Ready"), None)
        taints = tuple({"key": t.key, "value": t.value, "effect": t.effect} for t in fields.spec.taints or ())
        fact = NodeObserved(
            at=0.0,
            name=meta.name,
            uid=meta.uid,
            labels=meta.labels or {},
            annotations=wanted(meta.annotations),
            allocatable=amounts(fields.status.allocatable or {}),
            taints=taints,
            unschedulable=fields.spec.unschedulable,
            ready=ready.status == "True" if ready else None,
            ready_changed_at=seconds_if_set(ready.lastTransitionTime) if ready else None,
            created_at=seconds_if_set(meta.creationTimestamp),
            deleting_at=seconds_if_set(meta.deletionTimestamp),
            provider_id=fields.spec.providerID,
            delays=tuple(sorted(name for name in meta.annotations or () if name.startswith(DELAY_DELETION))),
        )
        return Projection(fact, meta.resourceVersion)
    except UNREADABLE as error:
        raise malformed("Node", raw, error) from error
