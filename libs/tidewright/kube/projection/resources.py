"""Custom resources: spec and status as they are stored."""

from __future__ import annotations

from typing import Any

import msgspec

from tidewright.events.autoscaler import DatadogMonitorObserved
from tidewright.events.facts import ResourceFact
from tidewright.kube.projection.reading import (
    UNREADABLE,
    Bytes,
    Meta,
    Project,
    Projection,
    checked,
    malformed,
    unapplied,
)
from tidewright.kube.times import seconds_if_set


class _Resource(msgspec.Struct):
    metadata: Meta
    spec: dict[str, Any] | None = None
    status: dict[str, Any] | None = None


_resource = msgspec.json.Decoder(_Resource)


def resource(kind: str, fact_type: type[ResourceFact]) -> Project:
    """A projection for a custom resource: spec and status as they are stored."""

    def project(raw: Bytes) -> Projection:
        try:
            fields = _resource.decode(raw)
            meta = fields.metadata
            checked(meta, fields.spec, fields.status)
            fact = fact_type(
                at=0.0,
                namespace=meta.namespace,
                name=meta.name,
                uid=meta.uid,
                generation=meta.generation,
                created_at=seconds_if_set(meta.creationTimestamp),
                deleting_at=seconds_if_set(meta.deletionTimestamp),
                labels=meta.labels or {},
                annotations=unapplied(meta.annotations or {}),
                finalizers=tuple(meta.finalizers or ()),
                spec=fields.spec or {},
                status=fields.status or {},
            )
            return Projection(fact, meta.resourceVersion)
        except UNREADABLE as error:
            raise malformed(kind, raw, error) from error

    return project


def datadog_monitor(raw: Bytes) -> Projection:
    """A DatadogMonitor: its state, when that is a text."""
    try:
        fields = _resource.decode(raw)
        meta = fields.metadata
        state = (fields.status or {}).get("monitorState")
        fact = DatadogMonitorObserved(
            at=0.0,
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            state=state if isinstance(state, str) else None,
        )
        return Projection(fact, meta.resourceVersion)
    except UNREADABLE as error:
        raise malformed("DatadogMonitor", raw, error) from error
