"""What a pod may contain that we create. Pure.

Two services ask for pods. Placeholders do nothing, so they are told field by field. Workers of shards are the
pods of a PodTemplate that a user has put into their namespace, and a few things more: then a service that is
taken over cannot choose an image, an account, a volume or a secret. And whatever a template says, such a pod
shares nothing with its node: who may write a PodTemplate need not be allowed to make privileged pods.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tidewright.actuator.allowed.fields import CHUNK, CONFIG_HASH, PLACEHOLDER, same_object
from tidewright.events.base import JsonObject
from tidewright.events.decisions import CreateObject

_ADDED_LABELS: Final = frozenset(("app", "shards.tidewright.dev/set", "shards.tidewright.dev/index"))
_ADDED_ANNOTATIONS: Final = re.compile(
    rf"shards\.tidewright\.dev/.+|podTemplateResourceVersion|{CONFIG_HASH}"
)
_FLAG: Final = re.compile(r"--[A-Za-z0-9].*", re.DOTALL)
_VALUE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*|")
_NUMBERS: Final = re.compile(r"[0-9,-]*")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OF_THE_LOADER: Final = ("LD_", "PATH", "PYTHON", "NODE_", "JAVA_", "GODEBUG", "KUBE", "HTTP", "SSL_")
"""How names of variables begin that change what a process loads, or whom it trusts."""
POD_UID: Final = {"name": "POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}
_CAPABILITIES: Final = frozenset(
    ("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP",
     "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT")
)  # fmt: skip
"""Those that Kubernetes' baseline profile lets a container add."""


def containers(spec: JsonObject) -> Iterator[JsonObject]:
    """All containers of a pod's spec, of whatever kind."""
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(kind) or ()


def shares(spec: JsonObject) -> str:
    """What of its node a pod would share, or take over; "" for nothing: Kubernetes' baseline profile."""
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(name):
            return f"spec.{name} is true"
    for volume in spec.get("volumes") or ():
        if "hostPath" in volume:
            return f"volume {volume.get('name')!r} is a hostPath"
    security = [("spec", spec.get("securityContext") or {})]
    security += [(f"container {c.get('name')!r}", c.get("securityContext") or {}) for c in containers(spec)]
    for what, context in security:
        if context.get("privileged"):
            return f"{what} is privileged"
        if wide := set((context.get("capabilities") or {}).get("add") or ()) - _CAPABILITIES:
            return f"{what} adds the capability {min(wide)}"
        if context.get("procMount") not in (None, "Default"):
            return f"{what} has procMount {context['procMount']}"
        if (context.get("windowsOptions") or {}).get("hostProcess"):
            return f"{what} is a process of its host"
        for profile in ("seccompProfile", "appArmorProfile"):
            if (context.get(profile) or {}).get("type") == "Unconfined":
                return f"{what} has an unconfined {profile}"
        if context.get("sysctls"):
            return f"{what} sets sysctls"
    for container in containers(spec):
        if any(port.get("hostPort") for port in container.get("ports") or ()):
            return f"container {container.get('name')!r} has a hostPort"
    return ""


def worker(effect: CreateObject) -> str:
    """The pod of a shard, as far as it can be judged without its template (see `made_from`)."""
    manifest = effect.manifest
    if others := sorted(set(manifest) - {"apiVersion", "kind", "metadata", "spec"}):
        return f"manifest.{others[0]}: a pod has metadata and spec"
    spec = manifest.get("spec") or {}
    if spec.get("nodeName"):
        return "spec.nodeName is set: pods of shards are scheduled"
    return same_object(effect)


def placeholder(effect: CreateObject) -> str:
    """A pod that does nothing on one node, but for its image (see `grounds`)."""
    manifest, name = effect.manifest, effect.target.name
    metadata, spec = manifest.get("metadata") or {}, manifest.get("spec") or {}
    if wrong := same_object(effect):
        return wrong
    if not re.fullmatch(r"hold-[0-9a-f]{16}", name):
        return f"{name} is no name of a placeholder: hold-DIGEST"
    if set(manifest) - {"apiVersion", "kind", "metadata", "spec"}:
        return "a placeholder has metadata and spec"
    if set(metadata) - {"name", "namespace", "labels", "annotations"}:
        return "its metadata has a name, a namespace, labels and annotations"
    if set(metadata.get("annotations") or ()) not in ({PLACEHOLDER}, {CHUNK}) or (
        metadata.get("labels") or {}
    ) != {"app.kubernetes.io/managed-by": "tidewright"}:
        return f"its labels and annotations are app.kubernetes.io/managed-by and {PLACEHOLDER} or {CHUNK}"
    fixed = {
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "tolerations": [{"operator": "Exists"}],
    }
    for key, value in fixed.items():
        if spec.get(key) != value:
            return f"spec.{key} is {spec.get(key)!r}: of a placeholder it is {value!r}"
    if others := sorted(set(spec) - {*fixed, "nodeName", "containers", "priorityClassName"}):
        return f"spec.{others[0]}: a placeholder has none"
    if not spec.get("nodeName"):
        return "spec.nodeName is missing: a placeholder is bound to its node"
    containers: list[JsonObject] = list(spec.get("containers") or ())
    if (
        len(containers) != 1
        or set(containers[0]) != {"name", "image", "resources"}
        or containers[0].get("name") != "hold"
    ):
        return "it has one container, hold, with an image and resources"
    if set(containers[0]["resources"]) - {"requests", "limits"}:
        return "its resources are requests and limits"
    return ""


def made_from(template: JsonObject, manifest: JsonObject) -> str:
    """Why a pod is not one of a PodTemplate's (its `template`); "" when it is."""
    return _metadata(template.get("metadata") or {}, manifest.get("metadata") or {}) or _spec(
        template.get("spec") or {}, manifest.get("spec") or {}
    )


def _metadata(base: JsonObject, pod_metadata: JsonObject) -> str:
    for name, pattern in (("labels", None), ("annotations", _ADDED_ANNOTATIONS)):
        before, after = base.get(name) or {}, pod_metadata.get(name) or {}
        for key in sorted({*before, *after}):
            added = pattern.fullmatch(key) if pattern else key in _ADDED_LABELS
            if not added and before.get(key) != after.get(key):
                return (
                    f"metadata.{name} {key} is {after.get(key)!r}, and the template's is {before.get(key)!r}"
                )
    ours = {"labels", "annotations", "name", "namespace", "ownerReferences"}
    for key in sorted({*base, *pod_metadata} - ours):
        if base.get(key) != pod_metadata.get(key):
            return f"metadata.{key} differs from the template's"
    return ""


def _spec(base: JsonObject, pod_spec: JsonObject) -> str:
    for key in sorted({*base, *pod_spec} - {"containers"}):
        if base.get(key) != pod_spec.get(key):
            return f"spec.{key} differs from the template's"
    before, after = base.get("containers") or (), pod_spec.get("containers") or ()
    if len(before) != len(after):
        return f"it has {len(after)} containers, and the template {len(before)}"
    changed = [(original, other) for original, other in zip(before, after, strict=True) if original != other]
    if len(changed) > 1:
        return "more than one container differs from the template's"
    return next((said for original, other in changed if (said := _container(original, other))), "")


def _container(base: JsonObject, container: JsonObject) -> str:
    what = f"container {base.get('name')!r}"
    for key in sorted({*base, *container} - {"args", "env"}):
        if base.get(key) != container.get(key):
            return f"{what}: {key} differs from the template's"
    before, after = list(base.get("args") or ()), list(container.get("args") or ())
    if after[: len(before)] != before:
        return f"{what}: args do not begin with the template's"
    return _arguments(what, after[len(before) :]) or _environment(
        what, base.get("env") or (), container.get("env") or ()
    )


def _arguments(what: str, added: Sequence[Any]) -> str:
    for place, argument in enumerate(added):
        flag = isinstance(argument, str) and _FLAG.fullmatch(argument)
        value = isinstance(argument, str) and place and _VALUE.fullmatch(argument)
        if not flag and not value:
            return f"{what}: argument {argument!r} is neither a flag nor a flag's value"
    return ""


def _environment(what: str, base: Sequence[JsonObject], variables: Sequence[JsonObject]) -> str:
    known = {str(declared.get("name")): declared for declared in base}
    if lost := sorted(known.keys() - {str(entry.get("name")) for entry in variables}):
        return f"{what}: variable {lost[0]} of the template is missing"
    for variable in variables:
        name, value = str(variable.get("name")), variable.get("value")
        if known.get(name) == variable or variable == POD_UID:
            continue
        plain = isinstance(value, str) and variable.keys() == {"name", "value"} and _NUMBERS.fullmatch(value)
        if not plain or not _VARIABLE.fullmatch(name) or name.upper().startswith(_OF_THE_LOADER):
            return f"{what}: variable {name} is neither the template's nor numbers of slots"
    return ""


def marked(obj: Mapping[str, Any], marks: Sequence[str]) -> bool:
    """Whether an object carries one of these labels or annotations."""
    metadata = obj.get("metadata") or {}
    return any(mark in (metadata.get(part) or ()) for mark in marks for part in ("labels", "annotations"))
