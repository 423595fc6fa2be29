"""CapacityBuffers: what facts say of them and of what they refer to, and what was decided about them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tidewright.events import outcomes as o
from tidewright.events import provisioning as p
from tidewright.events.acting import NOT_DONE
from tidewright.events.base import JsonObject
from tidewright.events.decisions import CreateObject, DeleteObject, PatchObject, SetStatus
from tidewright.events.facts import WorkloadGone, WorkloadObserved
from tidewright.kube.keys import BufferKey, buffer_key, key_of, name_of, namespace_of, pod_key
from tidewright.provisioning.buffers.kept import Buffer, Resolution, TemplateMeta, held_by
from tidewright.provisioning.buffers.managed import accepted, digest_of, wanted_by
from tidewright.provisioning.buffers.naming import template_name
from tidewright.provisioning.fold import consolidating
from tidewright.provisioning.fold.common import BUFFER_KIND, wake
from tidewright.provisioning.fold.forgetting import forget_shape
from tidewright.provisioning.fold.touched import Touched
from tidewright.provisioning.index.indexing import index_of
from tidewright.provisioning.state import ShapeFields, State
from tidewright.provisioning.tell import counts
from tidewright.provisioning.unanswered import (
    BufferStatusOrder,
    FreeChunkOrder,
    HoldChunkOrder,
    Order,
    ResolveOrder,
    TemplateOrder,
)

NOT_ALLOWED = "NotAllowed"
FILLED = "tidewright_provisioning_buffer_filled_seconds"


def observed(state: State, event: p.CapacityBufferObserved, touched: Touched) -> None:
    """A buffer: another spec, or other annotations, may be answered; our own status is not."""
    key = buffer_key(event.namespace, event.name)
    buffer = state.buffers.get(key)
    if buffer is None or buffer.uid != event.uid:
        if buffer is not None:
            _keep_shape(state, buffer, "", {})
        buffer = state.buffers[key] = Buffer(
            uid=event.uid, created_at=event.created_at or event.at, seen_at=event.at
        )
        wake(state, touched)
    elif (buffer.spec, buffer.annotations) != (event.spec, event.annotations) or _of_others(
        buffer, buffer.observed
    ) != _of_others(buffer, event.status):
        wake(state, touched)
    buffer.generation, buffer.spec, buffer.annotations = event.generation, event.spec, event.annotations
    buffer.observed = event.status
    buffer.deleting = event.deleting_at is not None


def _of_others(buffer: Buffer, status: JsonObject) -> tuple[JsonObject, list[list[object]]]:
    """What a status says beside what we last wrote: what somebody else has written into it."""
    written = buffer.written or {}
    ours = [_said(condition) for condition in written.get("conditions") or ()]
    theirs = [_said(condition) for condition in status.get("conditions") or ()]
    members = {n: v for n, v in status.items() if n != "conditions" and written.get(n) != v}
    return members, [condition for condition in theirs if condition not in ours]


def _said(condition: object) -> list[object]:
    if not isinstance(condition, dict):
        return [condition]
    return [condition.get(name) for name in ("type", "status", "reason", "message")]


def gone(state: State, event: p.CapacityBufferGone, touched: Touched) -> None:
    buffer = state.buffers.pop(buffer_key(event.namespace, event.name), None)
    if buffer is not None:
        _keep_shape(state, buffer, "", {})
        for what in ("chunk", "room"):
            index_of(state).read.pop((what, buffer_key(event.namespace, event.name)), None)
        wake(state, touched)


def template_seen(state: State, event: p.PodTemplateObserved, touched: Touched) -> None:
    """A PodTemplate: what it is like is kept where somebody may ask, and whoever refers to it is looked at."""
    key = key_of(event.namespace, event.name)
    owner = next((one for one in event.owners if one.controller), None)
    if event.generation:
        state.template_meta[key] = TemplateMeta(
            generation=event.generation,
            uid=event.uid,
            owner=owner.uid if owner is not None else "",
            owner_name=owner.name if owner is not None else "",
        )
    _template_changed(state, event.namespace, event.name, touched)


def template_gone(state: State, event: p.PodTemplateGone, touched: Touched) -> None:
    state.template_meta.pop(key_of(event.namespace, event.name), None)
    _template_changed(state, event.namespace, event.name, touched)


def _template_changed(state: State, namespace: str, name: str, touched: Touched) -> None:
    for key, buffer in _of_namespace(state, namespace):
        reference = buffer.spec.get("podTemplateRef")
        if template_name(name_of(key)) == name:
            meta = state.template_meta.get(key_of(namespace, name))
            if buffer.making and meta is not None:
                buffer.accepted = accepted(buffer.making, meta.generation)
            buffer.making = buffer.template_error = ""
        elif not isinstance(reference, dict) or reference.get("name") != name:
            continue
        wake(state, touched)


def workload(state: State, event: WorkloadObserved | WorkloadGone, touched: Touched) -> None:
    """A workload: buffers that refer to it know how many pods it wants."""
    for _, buffer in _of_namespace(state, event.namespace):
        reference = buffer.spec.get("scalableRef")
        if not isinstance(reference, dict) or reference.get("name") != event.name:
            continue
        group = event.api_version.rpartition("/")[0]
        named = reference.get("apiGroup") or ""
        if reference.get("kind") != event.kind or (named != "core" and named) != group:
            continue
        template, base = "", None
        if isinstance(event, WorkloadObserved):
            template, base = event.template or f"generation {event.generation}", event.replicas
        if (buffer.workload, buffer.base) != (template, base):
            wake(state, touched)
        buffer.workload, buffer.base, buffer.base_at = template, base, event.at


def _of_namespace(state: State, namespace: str) -> Iterator[tuple[BufferKey, Buffer]]:
    return ((key, buffer) for key, buffer in state.buffers.items() if namespace_of(key) == namespace)


def quota_changed(state: State, namespace: str, touched: Touched) -> None:
    """A ResourceQuota is another, or used otherwise."""
    if any(True for _ in _of_namespace(state, namespace)):
        wake(state, touched)


def status_decided(state: State, event: SetStatus) -> None:
    """The status of a buffer, as far as it is ours, is this from now on."""
    key = buffer_key(event.target.namespace, event.target.name)
    buffer = state.buffers.get(key) if event.target.kind == BUFFER_KIND else None
    if buffer is not None and buffer.uid == event.target.uid:
        buffer.written = msgspec.json.decode(msgspec.json.encode(event.status, order="deterministic"))
        buffer.rewrite = False
        state.orders[event.id] = BufferStatusOrder(key)


def asked(state: State, event: p.ResolvePod, _touched: Touched) -> None:
    key = buffer_key(event.target.namespace, event.target.name)
    buffer = state.buffers.get(key)
    if buffer is not None and buffer.uid == event.target.uid:
        buffer.asked, buffer.asked_at = event.key, event.at
        state.orders[event.id] = ResolveOrder(key, event.key)


def object_made(state: State, event: CreateObject | PatchObject) -> None:
    """A managed template, or a placeholder, is asked for."""
    if event.target.kind == "PodTemplate":
        asking = wanted_by(state, event)
        if asking is not None:
            key, template = asking
            state.buffers[key].making = digest_of(template)
            state.orders[event.id] = TemplateOrder(key)
        return
    held = held_by(event) if isinstance(event, CreateObject) else None
    if held is not None:
        name, chunk = held
        state.held_chunks[name] = chunk
        state.orders[event.id] = HoldChunkOrder(name)


def object_deleted(state: State, event: DeleteObject) -> None:
    name = pod_key(event.target.namespace, event.target.name)
    if event.target.kind == "Pod" and name in state.held_chunks:
        state.held_chunks[name].leaving = True
        state.orders[event.id] = FreeChunkOrder(name)


def filled(state: State, event: p.FillBuffer, _touched: Touched) -> None:
    buffer = state.buffers.get(buffer_key(event.namespace, event.name))
    if buffer is None or buffer.uid != event.uid:
        return
    _keep_shape(state, buffer, event.shape, event.fields)
    lacking = event.ready < event.replicas
    if lacking and buffer.lacking_since is None:
        buffer.lacking_since = event.at
    elif not lacking and buffer.lacking_since is not None:
        counts.observe(state.histograms, FILLED, event.at - buffer.lacking_since)
        buffer.lacking_since = None
    buffer.wanted, buffer.ready = event.replicas, event.ready
    buffer.upcoming, buffer.missing = event.upcoming, event.missing
    consolidating.room_taken(state, event.places, buffer.places)
    buffer.places = dict(sorted(event.places.items()))
    buffer.why = "; ".join(f"{verdict.group}: {verdict.reason}" for verdict in event.verdicts)


def _keep_shape(state: State, buffer: Buffer, digest: str, fields: JsonObject) -> None:
    """The chunks of a buffer have this shape from now on; an empty one: it keeps no room."""
    if digest and digest not in state.shapes and fields:
        stored = msgspec.json.decode(
            msgspec.json.encode(fields, order="deterministic"), type=ShapeFields
        )  # as it is read back with its decision
        state.shapes[digest] = msgspec.structs.replace(stored, told=False)
    before, buffer.shape = buffer.shape, digest
    if before == digest:
        return
    index = index_of(state)
    if digest:
        index.use(digest, 1)
    if before:
        index.use(before, -1)
        forget_shape(state, before)


def answered(
    state: State, event: o.Applied | o.Rejected | o.Failed | o.Superseded, order: Order, touched: Touched
) -> bool:
    """Take in what came of a decision about a buffer; False for one about something else."""
    if isinstance(order, HoldChunkOrder | FreeChunkOrder):
        _chunk_answered(state, event, order, touched)
        return True
    if not isinstance(order, BufferStatusOrder | ResolveOrder | TemplateOrder):
        return False
    buffer = state.buffers.get(order.buffer)
    if buffer is None:
        return True
    if isinstance(order, ResolveOrder):
        if not isinstance(event, o.Superseded):  # by a later question, which is answered then
            _resolved(buffer, event, order.asked)
            wake(state, touched)
    elif isinstance(order, TemplateOrder):
        meta = state.template_meta.get(
            key_of(namespace_of(order.buffer), template_name(name_of(order.buffer)))
        )
        if not isinstance(event, o.Applied) or event.reason in NOT_DONE:
            buffer.making = buffer.accepted = ""
            buffer.template_error, buffer.template_failed_at = event.message or event.reason, event.at
            wake(state, touched)
        elif event.found and buffer.making and meta is not None:  # then nothing more is seen of it
            buffer.accepted, buffer.making = accepted(buffer.making, meta.generation), ""
            wake(state, touched)
    elif isinstance(event, o.Failed):
        buffer.rewrite = True
        wake(state, touched)
    return True


def _resolved(buffer: Buffer, event: o.Applied | o.Rejected | o.Failed, key: str) -> None:
    before = buffer.resolution
    if buffer.asked == key:
        buffer.asked = ""
    answer = {} if isinstance(event, o.Failed) else event.result
    if isinstance(event, o.Applied) and event.reason not in NOT_DONE:
        template = answer.get("template")
        buffer.resolution = Resolution(
            key=key,
            template=template if isinstance(template, dict) else {},
            live=bool(answer.get("live")),
            at=event.at,
        )
        replicas = answer.get("replicas")
        if isinstance(replicas, int) and buffer.base_at <= buffer.asked_at:
            buffer.base, buffer.base_at = replicas, event.at
        return
    if event.reason in NOT_DONE or event.reason == NOT_ALLOWED:
        buffer.resolution = Resolution(key=key, unasked=True, at=event.at)
        return
    buffer.resolution = Resolution(
        key=key,
        error=event.message or event.reason,
        stage=str(answer.get("stage") or "admission"),
        at=event.at,
        tries=(before.tries if before is not None and before.error else 0) + 1,
    )


def _chunk_answered(
    state: State,
    event: o.Applied | o.Rejected | o.Failed | o.Superseded,
    order: HoldChunkOrder | FreeChunkOrder,
    touched: Touched,
) -> None:
    """What came of a placeholder that was made or taken away."""
    held = state.held_chunks.get(order.pod)
    if held is None:
        return
    applied = isinstance(event, o.Applied) and event.reason not in NOT_DONE
    if isinstance(event, o.Rejected) and event.reason == NOT_ALLOWED:
        held.refused_at, held.leaving = state.now, False  # asked again at once it would be refused at once
        return
    if isinstance(order, HoldChunkOrder):
        if applied:
            return
        del state.held_chunks[order.pod]
    elif not applied:
        held.leaving = False
    elif order.pod not in state.pods:
        del state.held_chunks[order.pod]
    else:
        return
    wake(state, touched)
