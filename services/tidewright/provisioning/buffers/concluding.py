"""The controller's half: a buffer's template, its number and what quotas leave of it become its status. Spec 2 to 4."""

from __future__ import annotations

from itertools import groupby

import msgspec

from tidewright.events.base import Decision, JsonObject
from tidewright.kube.keys import BufferKey, name_of, namespace_of
from tidewright.kube.podshape import PODS, PodShape
from tidewright.kube.quotascopes import limits_of, traits_of
from tidewright.kube.times import readable
from tidewright.provisioning.buffers import conditions as cond
from tidewright.provisioning.buffers import extras
from tidewright.provisioning.buffers import spec as specs
from tidewright.provisioning.buffers.managed import managed
from tidewright.provisioning.buffers.naming import template_name
from tidewright.provisioning.buffers.quotas import Asking, granted
from tidewright.provisioning.buffers.resolving import chunk_of
from tidewright.provisioning.buffers.sizing import NoCount, chunks, without_number
from tidewright.provisioning.buffers.spec import ACTIVE, BufferSpec
from tidewright.provisioning.buffers.work import BufferWork, Status
from tidewright.provisioning.tell.sentences import because

NEITHER = (
    "neither spec.podTemplateRef nor spec.scalableRef is set: one of them says what a chunk is like, "
    "a PodTemplate or a workload of the namespace"
)
BOTH = "both spec.podTemplateRef ({template}) and spec.scalableRef ({kind} {name}) are set: one of them says what a chunk is like"


class Ready(msgspec.Struct, frozen=True):
    """A buffer with a template and a number, before quotas."""

    key: BufferKey
    chunks: int
    template: JsonObject
    shape: PodShape


def conclude(work: BufferWork) -> list[Decision]:
    """Conclude the status of every buffer whose chunk is known, and ask for what is not."""
    decisions: list[Decision] = []
    for _, keys in groupby(work.mine, key=namespace_of):
        ready: list[Ready] = []
        for key in keys:
            one, asked = _concluded(work, key)
            decisions += asked
            ready += [one] if one is not None else []
        _limit(work, ready)
    return decisions


def _concluded(work: BufferWork, key: BufferKey) -> tuple[Ready | None, list[Decision]]:
    buffer = work.state.buffers[key]
    try:
        spec = specs.parse(buffer.spec)
        extras.parse(buffer.annotations)
    except ValueError as error:
        _fail(work, key, Status(strategy=specs.strategy_of(buffer.spec)), str(error))
        return None, []
    status = Status(strategy=spec.strategy or (ACTIVE if spec.strategy == "" else None))
    if not spec.template and spec.scalable is None:
        if "CB1" not in work.settings.as_reference:
            _fail(work, key, status, NEITHER)
        return None, []
    if spec.template and spec.scalable is not None:
        workload = spec.scalable
        _fail(work, key, status, BOTH.format(template=spec.template, kind=workload.kind, name=workload.name))
        return None, []
    chunk, decisions = chunk_of(work, key, spec)
    if chunk.error:
        _fail(work, key, status, chunk.error)
        return None, decisions
    if chunk.template is None:
        return None, decisions
    shape = work.shape_of(key, "chunk", chunk.template)
    if shape.error:
        _fail(work, key, status, f"failed to create fake pod: {shape.error}")
        return None, decisions
    template, changes = managed(work, key, chunk.template)
    if work.acts(key) or not work.binding:
        decisions += changes
    if template.error:
        _fail(work, key, status, template.error)
        return None, decisions
    generation = template.generation
    if generation is None and work.binding and not work.acts(key):
        work.assumed[key], generation = chunk.template, 0  # what would be done is told as if it were there
    if generation is None:
        return None, decisions
    status = msgspec.structs.replace(status, template=template_name(name_of(key)), generation=generation)
    return _counted(work, key, spec, status, template=chunk.template, shape=shape), decisions


def _counted(
    work: BufferWork,
    key: BufferKey,
    spec: BufferSpec,
    status: Status,
    *,
    template: JsonObject,
    shape: PodShape,
) -> Ready | None:
    """The number of chunks, as the spec has it, and at most as many as one buffer may have."""
    base = work.state.buffers[key].base if spec.scalable is not None else None
    try:
        wanted = chunks(spec.size, shape.requests, base)
    except NoCount as error:
        more = "" if "CB3" in work.settings.as_reference else f": {without_number(spec, shape.requests)}"
        _fail(work, key, status, f"{cond.NO_COUNT}{error}{more}")
        return None
    most = work.settings.buffer_max_chunks
    ready = cond.IS_READY if wanted <= most else cond.capped(most, wanted)
    if spec.scalable is None and spec.size.percentage is not None and "CB3" not in work.settings.as_reference:
        ready = cond.without_percentage(ready, spec.size.percentage)
    work.put(key, ready)
    wanted = min(wanted, most)
    work.why[key] = [because("ChunksWanted", chunks=wanted)]
    window = work.window_of(key)
    if not window.open:
        until = "" if window.until is None else f" until {readable(window.until)} UTC"
        work.why[key].append(because("OutsideWindows", chunks=wanted, until=until))
        wanted = 0
    work.statuses[key] = msgspec.structs.replace(status, replicas=wanted)
    return Ready(key, wanted, template, shape)


def _limit(work: BufferWork, ready: list[Ready]) -> None:
    """Lower the numbers of a namespace's buffers to what its quotas leave."""
    if not ready:
        return
    namespace = namespace_of(ready[0].key)
    quotas = {name_of(key): q for key, q in work.state.quotas.items() if namespace_of(key) == namespace}
    asking = []
    for one in ready:
        pod_spec = one.template.get("spec") or {}
        requests = {name: amount for name, amount in one.shape.requests.items() if name != PODS}
        asking.append(Asking(one.key, one.chunks, requests, limits_of(pod_spec), traits_of(pod_spec)))
    answers = granted(asking, quotas, pods="CB2" not in work.settings.as_reference)
    for one in ready:
        answer = answers[one.key]
        if answer is None:
            work.drop(one.key, cond.LIMITED)
            continue
        generation = work.state.buffers[one.key].generation
        condition = cond.NOT_LIMITED
        if answer.quotas:
            condition = cond.limited(one.chunks, answer.chunks, answer.quotas)
            work.why[one.key].append(
                because("ChunksLimited", chunks=answer.chunks, quotas=", ".join(answer.quotas))
            )
        work.put(one.key, condition, generation=generation)
        work.statuses[one.key] = msgspec.structs.replace(work.statuses[one.key], replicas=answer.chunks)


def _fail(work: BufferWork, key: BufferKey, status: Status, error: str) -> None:
    """It is not ready, and why. What quotas once left of it says nothing any more."""
    work.drop(key, cond.LIMITED)
    work.put(key, cond.not_ready(error))
    work.statuses[key] = status
    work.why[key] = [because("NotReady", error=error)]
