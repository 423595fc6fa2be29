"""What the decider remembers of buffers, part of its state."""

from __future__ import annotations

import msgspec

from tidewright.events.base import JsonObject
from tidewright.events.decisions import CreateObject
from tidewright.kube.keys import BufferKey, PodKey, buffer_key, pod_key

CHUNK = "tidewright.dev/buffer"
"""Annotation of pods that hold the room of a chunk: `namespace/name/shape`."""


class TemplateMeta(msgspec.Struct, frozen=True, omit_defaults=True):
    """Of a PodTemplate: its generation, its uid, and the CapacityBuffer that controls it (`owner`: its uid)."""

    generation: int = 0
    uid: str = ""
    owner: str = ""
    owner_name: str = ""


class Resolution(msgspec.Struct, frozen=True, omit_defaults=True):
    """What came of asking admission what a chunk is like.

    Attributes:
        key: of what was asked for, as in `ResolvePod`.
        template: `metadata` and `spec`; empty where it failed, or was not asked.
        live: a running pod was the model.
        error, stage: why it failed, and where: `template`, `workload`, `admission`; empty for none.
        unasked: nobody may ask here: what the source says by itself holds.
        at: log time of the answer; tries: how many in a row have failed.
    """

    key: str
    template: JsonObject = {}
    live: bool = False
    error: str = ""
    stage: str = ""
    unasked: bool = False
    at: float = 0.0
    tries: int = 0


class Buffer(msgspec.Struct):
    """A CapacityBuffer.

    Attributes:
        seen_at: log time of its first observation.
        observed: its status as it was last seen.
        written: its status as it was last decided here; None before.
        asked, asked_at: key and log time of the question to admission that has no answer yet; empty for none.
        resolution: the last answer.
        base: pods of its workload that are wanted, and `base_at` when that was told; None where it is not known.
        workload: digest of the workload's pod template, as facts tell it.
        making: digest of the managed template that was asked for and has not been seen yet; empty for none.
        accepted: digest and generation of what was written last: what the server makes of it holds, until somebody edits it.
        template_error, template_failed_at: why it could not be made or changed, and when; empty for nothing.
        shape: digest of a chunk's shape while room is kept.
        places: node to chunks, as decided last; `ready`, `upcoming`, `missing` of `wanted` chunks.
        why: the reasons for what is missing, as recorded last.
        lacking_since: since when chunks have been missing or upcoming; None while all are ready.
        rewrite: the last status did not reach the object.
    """

    uid: str
    generation: int = 0
    created_at: float = 0.0
    seen_at: float = 0.0
    spec: JsonObject = {}
    annotations: dict[str, str] = {}
    deleting: bool = False
    observed: JsonObject = {}
    written: JsonObject | None = None
    asked: str = ""
    asked_at: float = 0.0
    resolution: Resolution | None = None
    base: int | None = None
    base_at: float = 0.0
    workload: str = ""
    making: str = ""
    accepted: str = ""
    template_error: str = ""
    template_failed_at: float = 0.0
    shape: str = ""
    places: dict[str, int] = {}
    wanted: int = 0
    ready: int = 0
    upcoming: int = 0
    missing: int = 0
    why: str = ""
    lacking_since: float | None = None
    rewrite: bool = False


class HeldChunk(msgspec.Struct):
    """A pod of ours that holds the room of a chunk on a node.

    Attributes:
        leaving: its deletion was decided.
        refused_at: when its node was seen not to take it, or it was not allowed.
    """

    buffer: BufferKey
    shape: str
    node: str
    leaving: bool = False
    refused_at: float | None = None


def held_by(event: CreateObject) -> tuple[PodKey, HeldChunk] | None:
    """Name and content of a placeholder of a buffer that is made; None for what is none."""
    note = event.manifest.get("metadata", {}).get("annotations", {}).get(CHUNK)
    if event.target.kind != "Pod" or not isinstance(note, str):
        return None
    namespace, _, rest = note.partition("/")
    name, _, shape = rest.partition("/")
    held = HeldChunk(buffer=buffer_key(namespace, name), shape=shape, node=event.manifest["spec"]["nodeName"])
    return pod_key(event.target.namespace, event.target.name), held
