"""The PodTemplate that is kept for a buffer: made, changed when the chunk changes, and nobody else's. Spec 2.3, [B7]."""

from __future__ import annotations

import hashlib

import msgspec

from tidewright.events.base import Decision, JsonObject, ObjectRef
from tidewright.events.decisions import CreateObject, PatchObject
from tidewright.kube.keys import BufferKey, key_of, name_of, namespace_of, parts
from tidewright.kube.mergepatch import merged
from tidewright.kube.podtemplates import essentials, replacing
from tidewright.provisioning.buffers.naming import template_name
from tidewright.provisioning.buffers.work import RETRY_S, BufferWork
from tidewright.provisioning.state import State
from tidewright.provisioning.tell.sentences import because

_FAILED = "failed to create or update managed pod template: "


class Managed(msgspec.Struct, frozen=True):
    """A buffer's template as it stands: its generation once it says what it shall; `error`: it cannot be had."""

    generation: int | None = None
    error: str = ""


def managed(work: BufferWork, key: BufferKey, template: JsonObject) -> tuple[Managed, list[Decision]]:
    """How a buffer's template stands, and what makes it say what a chunk is like."""
    state, buffer = work.state, work.state.buffers[key]
    name = template_name(name_of(key))
    where = key_of(namespace_of(key), name)
    meta, content = state.template_meta.get(where), state.templates.get(where)
    if content is not None and meta is not None:
        if meta.owner_name != name_of(key):
            error = f"PodTemplate {name} is there already, and is not of CapacityBuffer {name_of(key)}: remove it, or name the buffer otherwise"
            return Managed(error=f"{_FAILED}{error}"), []
        written = buffer.accepted == accepted(digest_of(template), meta.generation)
        if meta.owner == buffer.uid and (written or _alike(content, template)):
            return Managed(meta.generation), []
    if buffer.making == digest_of(template):
        return Managed(), []  # until it is seen
    if buffer.template_error:
        again = buffer.template_failed_at + RETRY_S
        if work.now < again or not work.acts(key):
            work.dues.append(max(again, work.now + RETRY_S))
            return Managed(error=f"{_FAILED}{buffer.template_error}"), []
    owner = _owner(key, buffer.uid)
    reference = ObjectRef(
        api_version="v1",
        kind="PodTemplate",
        namespace=namespace_of(key),
        name=name,
        uid=meta.uid if meta is not None else "",
    )
    why = (because("TemplateKept", buffer=key),)
    if content is None:
        manifest: JsonObject = {
            "apiVersion": "v1",
            "kind": "PodTemplate",
            "metadata": {"name": name, "namespace": namespace_of(key), "ownerReferences": [owner]},
            "template": template,
        }
        return Managed(), [CreateObject(at=work.now, target=reference, manifest=manifest, because=why)]
    patch = {"metadata": {"ownerReferences": [owner]}, "template": replacing(content, template)}
    expect = {
        "/metadata/ownerReferences/0/kind": "CapacityBuffer",
        "/metadata/ownerReferences/0/name": name_of(key),
    }
    change = PatchObject(at=work.now, target=reference, patch=patch, expect=expect, because=why)
    return Managed(), [change]


def _owner(key: BufferKey, uid: str) -> JsonObject:
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "kind": "CapacityBuffer",
        "name": name_of(key),
        "uid": uid,
        "controller": True,
    }


def _alike(content: JsonObject, template: JsonObject) -> bool:
    """Whether a template says what it shall, as far as it says where a pod may run."""
    try:
        return essentials(content) == essentials(template)
    except (AttributeError, TypeError, KeyError):
        return False


def accepted(digest: str, generation: int) -> str:
    """Names a template that was written and then seen with a generation."""
    return f"{digest}@{generation}"


def digest_of(template: JsonObject) -> str:
    """Names the content of a template."""
    text = msgspec.json.encode(template, order="deterministic")
    return hashlib.blake2b(text, digest_size=12).hexdigest()


def wanted_by(state: State, event: CreateObject | PatchObject) -> tuple[BufferKey, JsonObject] | None:
    """The buffer for which a PodTemplate is made or changed, and what it shall say; None for another's."""
    namespace, name = event.target.namespace, event.target.name
    for key in state.buffers:
        if namespace_of(key) == namespace and template_name(parts(key)[1]) == name:
            whole = event.manifest if isinstance(event, CreateObject) else merged({}, event.patch)
            return key, whole.get("template") or {}
    return None
