"""What to do with one CustomResourceDefinition: create it, bring it up to date, or leave it. Pure.

Ours to change is only what we created. The evidence is the annotation `tidewright.dev/crd-version`, which our manifests
carry and only a creation writes; neither a name nor a field manager is evidence. Even then it is left when somebody
else has written its spec since, or when a version would be dropped in which objects are stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from tidewright.asking.services import SERVICES
from tidewright.kube.kinds import BY_NAME, KINDS
from tidewright.kube.ownership import CRD_VERSION, crd_version

Object: TypeAlias = dict[str, Any]

Policy: TypeAlias = Literal["skip", "missing", "ours"]
"""skip: touch nothing; missing: create what is absent; ours: also bring up to date what we created."""

POLICY_HELP = (
    "skip: touch nothing; missing: create what is absent; ours: also update those that Tidewright created."
)

MANAGER = "tidewright"
"""Our field manager."""
SYSTEM_MANAGERS = frozenset((MANAGER, "kube-apiserver"))
"""Who may have written a spec that is still ours."""


@dataclass(frozen=True)
class Step:
    """What to do with one.

    Attributes:
        verb: `keep` where it is ours and as we would have it, `leave` where it is not ours to change.
        why: for people.
        body: the object to send; empty when nothing is sent.
    """

    verb: Literal["create", "update", "keep", "leave"]
    why: str
    body: Object


def step(manifest: Object, current: Object | None, policy: Policy) -> Step:
    """What to do with one, given our manifest and what is there."""
    ours = manifest["metadata"]["annotations"][CRD_VERSION]
    if current is None:
        if policy == "skip":
            return Step("leave", "absent, and --crds skip creates nothing", {})
        return Step("create", f"it was absent (crd-version {ours})", manifest)
    reason = _not_ours(current)
    if reason:
        return Step("leave", reason, {})
    theirs = crd_version(current)
    if theirs is None:
        text = current["metadata"]["annotations"][CRD_VERSION]
        return Step("leave", f"annotation {CRD_VERSION} is {text!r}, which is no number", {})
    if theirs == int(ours):
        return Step("keep", f"created by Tidewright, crd-version {ours} as here", {})
    if theirs > int(ours):
        return Step(
            "leave", f"created by a newer Tidewright: crd-version {theirs}, this one brings {ours}", {}
        )
    if policy != "ours":
        return Step(
            "leave", f"crd-version {theirs}, and {ours} is here: --crds ours brings it up to date", {}
        )
    if lost := sorted(stored_versions(current) - {version["name"] for version in versions(manifest)}):
        return Step(
            "leave",
            f"crd-version {theirs}; {ours} has no {', '.join(lost)}, in which objects are stored: "
            "migrate them, then take it out of status.storedVersions",
            {},
        )
    return Step("update", f"crd-version {theirs} -> {ours}", _updated(manifest, current))


def _not_ours(current: Object) -> str:
    """Why one that is there is not ours to change; empty when it is ours."""
    metadata = current["metadata"]
    if CRD_VERSION not in (metadata.get("annotations") or {}):
        return f"not created by Tidewright (no annotation {CRD_VERSION})"
    if metadata.get("deletionTimestamp"):
        return "it is being deleted: run this again when it is gone"
    others = sorted({str(entry.get("manager")) for entry in managers_of_spec(current)} - SYSTEM_MANAGERS)
    if others:
        return f"its spec was written by {', '.join(others)}: it is theirs to change, annotation or not"
    return ""


def _updated(manifest: Object, current: Object) -> Object:
    """What is there with our present spec; the conversion that our own endpoint keeps there stays in force."""
    spec = dict(manifest["spec"])
    conversion = (current["spec"].get("conversion") or {}) if isinstance(current.get("spec"), dict) else {}
    if conversion.get("strategy") == "Webhook":
        served = {version["name"] for version in versions(current) if version.get("served")}
        spec["conversion"] = conversion
        spec["versions"] = [
            {**version, "served": bool(version.get("served")) or version["name"] in served}
            for version in versions(manifest)
        ]
    annotations = {
        **(current["metadata"].get("annotations") or {}),
        **manifest["metadata"]["annotations"],
    }
    # With the resourceVersion that was read: a write in between is refused, and looked at anew.
    return {**current, "metadata": {**current["metadata"], "annotations": annotations}, "spec": spec}


def unmet(manifest: Object, current: Object | None) -> str:
    """What will not work with a definition that is there or absent; empty when all does."""
    kind, service = manifest["spec"]["names"]["kind"], _service(manifest)
    if current is None:
        return f"{service} does nothing about a {kind} until it is there"
    needed = _needed(manifest)
    served = [version for version in versions(current) if version.get("served")]
    match = next((version for version in served if version["name"] == needed), None)
    if match is None:
        names = ", ".join(version["name"] for version in served) or "no version"
        return f"it serves {names} and not {needed}: {service} does nothing about a {kind} until {needed} is served"
    if "status" in _subresources(manifest, needed) and "status" not in (match.get("subresources") or {}):
        return f"{needed} has no status subresource: {service} cannot write the status of a {kind}"
    return ""


def versions(definition: Object) -> list[Object]:
    """The entries of `spec.versions`."""
    entries = (definition.get("spec") or {}).get("versions")
    return [dict(version) for version in entries or ()]


def stored_versions(definition: Object) -> set[str]:
    """The versions in which objects may be stored."""
    return set((definition.get("status") or {}).get("storedVersions") or ())


def managers_of_spec(definition: Object) -> Iterator[Object]:
    """The entries of `managedFields` of those who have written something of the spec."""
    for entry in definition["metadata"].get("managedFields") or ():
        if "f:spec" in (entry.get("fieldsV1") or {}) and not entry.get("subresource"):
            yield entry


def _needed(manifest: Object) -> str:
    """The version through which our services read and write the kind."""
    spec = manifest["spec"]
    for kind in KINDS:
        if (kind.group, kind.plural) == (spec["group"], spec["names"]["plural"]):
            return kind.version
    return str(next(version["name"] for version in versions(manifest) if version.get("storage")))


def _subresources(manifest: Object, name: str) -> Object:
    return next((v.get("subresources") or {} for v in versions(manifest) if v["name"] == name), {})


def _service(manifest: Object) -> str:
    """The service whose API the definition is part of."""
    group, own = manifest["spec"]["group"], manifest["spec"]["names"]["kind"].lower()
    for service in sorted(SERVICES, key=lambda service: own not in service.lists):
        for name in sorted(service.explains):
            if name in BY_NAME and BY_NAME[name].group == group:
                return service.name
    return "Tidewright"
