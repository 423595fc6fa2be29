"""What a chunk is like: the source says it, and admission is asked what it makes of that. Spec 2.1, 2.2.

It is asked again when the source changes, or what admission goes by: LimitRanges, and after a refusal for quota the
quotas. What was answered before holds until then, so that a buffer keeps its room meanwhile.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from tidewright.events.base import Decision, JsonObject, ObjectRef
from tidewright.events.provisioning import ResolvePod
from tidewright.kube.keys import BufferKey, key_of, namespace_of
from tidewright.kube.podtemplates import defaulted, essentials
from tidewright.provisioning.buffers import conditions as cond
from tidewright.provisioning.buffers.kept import Buffer, Resolution
from tidewright.provisioning.buffers.spec import BufferSpec, ScalableRef
from tidewright.provisioning.buffers.work import MOST_S, RESYNC_S, RETRY_S, BufferWork, buffer_ref
from tidewright.provisioning.state import State
from tidewright.provisioning.tell.sentences import because

_OVER_QUOTA = "exceeded quota"
WATCHED = {
    "Deployment": "apps", "ReplicaSet": "apps", "StatefulSet": "apps", "Job": "batch", "ReplicationController": "",
}  # fmt: skip
"""Kinds of workloads whose number of pods is told by facts, and their groups."""

THERE = "spec.scalableRef: valid is a workload of the buffer's namespace that is there"


class Chunk(msgspec.Struct, frozen=True):
    """What is known of a chunk: its template, or why there is none; neither while an answer is awaited."""

    template: JsonObject | None = None
    error: str = ""


def chunk_of(work: BufferWork, key: BufferKey, spec: BufferSpec) -> tuple[Chunk, list[Decision]]:
    """What a chunk of a buffer is like, and what is asked so that it is known."""
    source: JsonObject | None = None
    if spec.template:
        source = work.state.templates.get(key_of(namespace_of(key), spec.template))
        if source is None:
            missing = f'podtemplates "{spec.template}" not found'
            work.retry(work.since(key, cond.READY))
            valid = f"spec.podTemplateRef.name: valid is a PodTemplate of namespace {namespace_of(key)}"
            return Chunk(error=f"capacity buffer client can't get pod template: {missing}; {valid}"), []
    if source is not None and (not work.settings.buffer_dry_run or not work.acts(key)):
        return _by_itself(source), []
    return _asked(work, key, spec, source)


def _asked(
    work: BufferWork, key: BufferKey, spec: BufferSpec, source: JsonObject | None
) -> tuple[Chunk, list[Decision]]:
    buffer = work.state.buffers[key]
    answer = buffer.resolution
    question = _key(work.state, key, buffer, spec, answer=answer, dry_run=work.settings.buffer_dry_run)
    decisions: list[Decision] = []
    if buffer.asked != question and (answer is None or answer.key != question or _due(work, answer, spec)):
        decisions.append(_question(work, key, spec, question))
    if answer is None:
        return Chunk(), decisions
    if answer.unasked and source is None:
        error = f"failed to resolve scalable object: nobody may ask what a pod of {_named(spec)} is like"
        return Chunk(error=error), decisions
    if answer.unasked or (source is not None and _OVER_QUOTA in answer.error):
        # Quota admission judges what is only tried, too: what the template says by itself will have to do.
        return _by_itself(source or {}), decisions
    return _answered(spec, answer), decisions


def _by_itself(template: JsonObject) -> Chunk:
    try:
        return Chunk(template=essentials(defaulted(template)))
    except (AttributeError, TypeError, KeyError) as error:
        return Chunk(error=f"failed to create fake pod: {error}")


def _answered(spec: BufferSpec, answer: Resolution) -> Chunk:
    if not answer.error:
        return Chunk(template=answer.template)
    match answer.stage:
        case "template":
            return Chunk(error=f"capacity buffer client can't get pod template: {answer.error}")
        case "workload":
            gone = spec.scalable is not None and answer.error.endswith("not found")
            return Chunk(error=f"{answer.error}; {THERE}" if gone else answer.error)
    step = "failed to create fake pod" if spec.template else "failed to resolve pod spec"
    return Chunk(error=f"{step}: {answer.error}")


def _due(work: BufferWork, answer: Resolution, spec: BufferSpec) -> bool:
    """Whether the same question is asked again: the last answer was an error some time ago, or no fact tells of it."""
    if answer.error:
        due = answer.at + min(RETRY_S * 2.0 ** min(answer.tries - 1, 10), MOST_S)
        work.dues += [due] if due > work.now else []
        return due <= work.now
    known = spec.scalable is None or (
        WATCHED.get(spec.scalable.kind) == spec.scalable.group and not answer.live
    )
    if answer.unasked:
        known = False  # somebody may allow it meanwhile
    if known:
        return False
    if work.now >= answer.at + RESYNC_S:
        return True
    work.dues.append(answer.at + RESYNC_S)
    return False


def _question(work: BufferWork, key: BufferKey, spec: BufferSpec, question: str) -> ResolvePod:
    return ResolvePod(
        at=work.now,
        target=buffer_ref(key, work.state.buffers[key].uid),
        source=_source(spec, namespace_of(key)),
        key=question,
        admission=work.settings.buffer_dry_run,
        because=(because("ChunkUnknown", source=_named(spec)),),
    )


def _source(spec: BufferSpec, namespace: str) -> ObjectRef:
    if spec.scalable is None:
        return ObjectRef(api_version="v1", kind="PodTemplate", namespace=namespace, name=spec.template)
    workload = spec.scalable
    version = f"{workload.group}/" if workload.group else "v1"
    return ObjectRef(api_version=version, kind=workload.kind, namespace=namespace, name=workload.name)


def _named(spec: BufferSpec) -> str:
    scalable: ScalableRef | None = spec.scalable
    return f"PodTemplate {spec.template}" if scalable is None else f"{scalable.kind} {scalable.name}"


def _key(
    state: State,
    key: BufferKey,
    buffer: Buffer,
    spec: BufferSpec,
    *,
    answer: Resolution | None,
    dry_run: bool,
) -> str:
    """Digest of all that the answer depends on, as far as facts tell of it."""
    namespace = namespace_of(key)
    ranges = {
        name: limits
        for name, limits in state.objects.get("LimitRange", {}).items()
        if name.startswith(f"{namespace}/")
    }
    refused = answer is not None and _OVER_QUOTA in answer.error
    quotas: dict[str, Any] = {
        name: (quota.hard, quota.used)
        for name, quota in state.quotas.items()
        if refused and namespace_of(name) == namespace
    }
    classes = state.objects.get("PriorityClass", {})
    source: Any = buffer.workload
    if spec.template:
        source = state.templates.get(key_of(namespace, spec.template))
    told = [buffer.uid, spec.template, spec.scalable, source, ranges, quotas, classes, dry_run]
    text = msgspec.json.encode(msgspec.to_builtins(told), order="deterministic")
    return hashlib.blake2b(text, digest_size=12).hexdigest()
