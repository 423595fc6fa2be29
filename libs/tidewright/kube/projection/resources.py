"""Custom resources: spec and status as they are stored."""

from __future__ import annotations

from typing import Any

import msgspec

from tidewright.events.autoscaler import DatadogMonitorObserved
from tidewright.events.facts import ResourceFact
from tidewright.kube.projection.reading import (
    AGENT,
    UNREADABLE,
    Bytes,
    Meta,
    Project,
    Projection,
    checked,
    malformed,
    unapplied,
)
from tidewright.kube.shapes import NULL
from tidewright.kube.times import seconds_if_set


class _Managed(msgspec.Struct):
    manager: str | None = None
    subresource: str | None = None
    time: str | None = None


class _WrittenMeta(Meta):
    managedFields: msgspec.Raw = NULL  # noqa: N815


class _Resource(msgspec.Struct):
    metadata: _WrittenMeta
    spec: dict[str, Any] | None = None
    status: dict[str, Any] | None = None


_resource = msgspec.json.Decoder(_Resource)
_managed = msgspec.json.Decoder(list[_Managed] | None)


def resource(kind: str, fact_type: type[ResourceFact], *, own_status: bool = False) -> Project:
    """A projection for a custom resource: spec and status as they are stored.

    Args:
        kind: its name.
        fact_type: of its facts.
        own_status: it is looked at who was the last to write the status.
    """

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
            ours = own_status and _is_ours(meta.managedFields)
            return Projection(fact, meta.resourceVersion, status_is_ours=ours)
        except UNREADABLE as error:
            raise malformed(kind, raw, error) from error

    return project


def _is_ours(managed: msgspec.Raw) -> bool:
    """Whether we were the last to write a status. Times are whole seconds: not where somebody else wrote in the same one."""
    try:
        entries = _managed.decode(managed) or ()
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    writers = [(entry.time or "", entry.manager) for entry in entries if entry.subresource == "status"]
    last = max((time for time, _ in writers), default="")
    return {manager for time, manager in writers if time == last} == {AGENT}


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
