"""Pods that hold the room of chunks, in the profile `hold`: any ordinary pod displaces them. [B3]

They have a PriorityClass below all others, so that the scheduler itself preempts them for whatever lacks room, and it
is below the cut-off of expendable pods, so that placement here does not see them: a chunk counts once, as a chunk.
Where the class is not installed there are none: a pod of ordinary priority would keep others out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tidewright.events.base import Decision, JsonObject, ObjectRef
from tidewright.events.decisions import CreateObject, DeleteObject
from tidewright.kube.keys import BufferKey, PodKey, parts
from tidewright.kube.podshape import PodShape
from tidewright.provisioning.buffers.kept import CHUNK, HeldChunk
from tidewright.provisioning.buffers.work import BufferWork
from tidewright.provisioning.requests.placeholders import FreeRoom, manifest_spec, new_name
from tidewright.provisioning.settings import Settings
from tidewright.provisioning.state import State
from tidewright.provisioning.tell.sentences import because

REFUSED_S = 60.0
"""For so long a node that refused a placeholder of a buffer is not tried again for it."""
WAIT_S = 10.0
"""How soon it is looked again whether there is room for a placeholder that waits for somebody to go."""


def possible(state: State, settings: Settings) -> str:
    """Why no placeholders hold chunks; empty when they do."""
    name = settings.buffer_priority_class
    if not settings.placeholders:
        return "placeholders is false"
    found = state.objects.get("PriorityClass", {}).get(name)
    if found is None:
        return f"PriorityClass {name} is not there (`tidewright crds` installs it)"
    value, cutoff = int(found.get("value") or 0), settings.expendable_cutoff
    if value >= cutoff:
        return f"PriorityClass {name} has value {value}: it has to be below expendable-pods-priority-cutoff ({cutoff})"
    return ""


def arranged(work: BufferWork, places: Mapping[BufferKey, Mapping[str, int]]) -> list[Decision]:
    """Placeholders for chunks on nodes that are there, and none for others.

    Args:
        work: the buffers.
        places: of each buffer whose chunks take room, node to chunks, as this evaluation has placed them.
    """
    settings = work.settings
    holds = settings.hold and not settings.dry_run and not possible(work.state, settings)
    wanted: Counter[tuple[BufferKey, str, str]] = Counter()
    for key, nodes in places.items() if holds else ():
        shape = work.wanted[key].shape
        if not shape.devices:  # a placeholder has no claims: it would hold all but the devices
            wanted.update({(key, shape.digest, node): chunks for node, chunks in nodes.items()})
    decisions: list[Decision] = []
    for name in sorted(work.state.held_chunks):
        held = work.state.held_chunks[name]
        place = (held.buffer, held.shape, held.node)
        if held.leaving:
            continue
        if held.refused_at is not None and work.now < held.refused_at + REFUSED_S and held.buffer in places:
            wanted[place] = 0  # a sign that the node does not take one now
            work.dues.append(held.refused_at + REFUSED_S)
        elif held.refused_at is None and wanted[place] > 0:
            wanted[place] -= 1
        else:
            decisions.append(_removal(work, name, held))
    return decisions + _made(work, wanted)


def _made(work: BufferWork, wanted: Mapping[tuple[BufferKey, str, str], int]) -> list[Decision]:
    room, decisions = FreeRoom(work.state, work.index), list[Decision]()
    many = Counter(held.buffer for held in work.state.held_chunks.values() if not held.leaving)
    for (key, _, node), chunks in sorted(wanted.items()):
        shape = work.wanted[key].shape if key in work.wanted else None
        for number in range(chunks if shape is not None else 0):
            if many[key] >= work.settings.placeholder_limit:
                break
            if shape is None or not room.fits(node, shape):  # somebody who goes is still there
                work.dues.append(work.now + WAIT_S)
                break
            many[key] += 1
            decisions.append(_creation(work, key, shape, node, number))
    return decisions


def _creation(work: BufferWork, key: BufferKey, shape: PodShape, node: str, number: int) -> CreateObject:
    settings = work.settings
    what = f"{work.state.buffers[key].uid}/{shape.digest}/{node}/{work.now:.6f}"
    name = new_name(work.state, settings, what, number)
    spec = manifest_spec(shape, node, settings.placeholder_image)
    spec["priorityClassName"] = settings.buffer_priority_class
    metadata: JsonObject = {
        "name": name,
        "namespace": settings.status_namespace,
        "labels": {"app.kubernetes.io/managed-by": "tidewright"},
        "annotations": {CHUNK: f"{key}/{shape.digest}"},
    }
    return CreateObject(
        at=work.now,
        target=ObjectRef(api_version="v1", kind="Pod", namespace=settings.status_namespace, name=name),
        manifest={"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec},
        because=(because("ChunkHeld", buffer=key, node=node),),
    )


def _removal(work: BufferWork, name: PodKey, held: HeldChunk) -> DeleteObject:
    namespace, pod = parts(name)
    known = work.state.pods.get(name)
    uid = known.uid if known is not None else ""
    return DeleteObject(
        at=work.now,
        target=ObjectRef(api_version="v1", kind="Pod", namespace=namespace, name=pod, uid=uid),
        grace_period_s=0,
        because=(because("ChunkFreed", buffer=held.buffer, node=held.node),),
    )
