"""What may stand in an effect, field by field: each answers why not, "" when it may. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from tidewright.actuator.plan import leaves
from tidewright.events.base import JsonObject
from tidewright.events.decisions import (
    MOST_MESSAGES,
    CreateObject,
    DeleteObject,
    EvictPod,
    HoldLease,
    PatchObject,
    RecordObjectEvent,
    ScaleWorkload,
    SetStatus,
)
from tidewright.events.provisioning import MarkNode
from tidewright.kube.taints import MARKS, TO_BE_DELETED

FINALIZER: Final = "finalizer.watermarkpodautoscaler.datadoghq.com"
RESERVED: Final = "tidewright.dev/reservation"
PLACEHOLDER: Final = "tidewright.dev/placeholder"
CHUNK: Final = "tidewright.dev/buffer"
"""Of placeholders that hold the room of a buffer's chunk."""
BUFFER: Final = "CapacityBuffer"
MATCHED: Final = "apps.kruise.io/matched-workloadspread"
DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
SHARD_SET: Final = "shards.tidewright.dev/set"
CONFIG_HASH: Final = "shardConfigHash"
OUR_HOLDER: Final = "tidewright-shard-manager"
"""How the shard manager's name on a lease begins."""
DEEPEST: Final = 8
"""Members from a status down to where the decision's id is put."""
_LOCK: Final = re.compile(r".+-[0-9a-f]{8}-leader-\d+")
_PLACEHOLDER_NAME: Final = re.compile(r"hold-[0-9a-f]{16}")
_MANAGED: Final = re.compile(r"capacitybuffer-.+-pod-template")
_SLOT: Final = re.compile(r"\d{1,6}")
_OF_KUBERNETES: Final = re.compile(r"(^|\.)(kubernetes|k8s)\.io$")
_OF_THE_CLUSTER: Final = frozenset(
    ("rbac.authorization.k8s.io", "admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io",
     "certificates.k8s.io", "authentication.k8s.io", "authorization.k8s.io", "policy", "node.k8s.io",
     "flowcontrol.apiserver.k8s.io")
)  # fmt: skip
"""Groups by which a cluster is governed: their objects are nobody's shards."""
_NOT_SHARDED: Final = frozenset(
    ("Namespace", "Node", "Secret", "ServiceAccount", "PersistentVolume", "Event")
)
"""Kinds of the core group that are nobody's shards either."""
_DEFAULTED: Final = (
    "minReplicas", "algorithm", "tolerance", "scaleUpLimitFactor", "scaleDownLimitFactor",
    "upscaleForbiddenWindowSeconds", "downscaleForbiddenWindowSeconds", "replicaScalingAbsoluteModulo",
)  # fmt: skip
"""Members of an autoscaler's spec that defaulting fills in."""


def _text(path: tuple[str, ...]) -> str:
    return "/" + "/".join(part.replace("~", "~0").replace("/", "~1") for part in path)


def _beside(patch: JsonObject, allowed: Collection[tuple[str, ...]]) -> str:
    others = sorted(_text(path) for path in leaves(patch) - set(allowed))
    return (
        f"it sets {', '.join(others[:3])}: allowed are {', '.join(sorted(map(_text, allowed)))}"
        if others
        else ""
    )


def noting(*keys: str) -> Callable[[PatchObject], str]:
    """Patches of these annotations alone."""
    allowed = [("metadata", "annotations", key) for key in keys]
    return lambda effect: _beside(effect.patch, allowed)


def autoscaler_patch(effect: PatchObject) -> str:
    """Defaults of the spec, as the reference writes them, and its finalizer taken off."""
    if effect.patch.keys() == {"metadata"}:
        kept = (effect.patch.get("metadata") or {}).get("finalizers") or ()
        if FINALIZER in kept:
            return "it sets /metadata/finalizers with our own in it: it may only be taken off"
        return _beside(effect.patch, [("metadata", "finalizers")])
    return _beside(effect.patch, [("spec", name) for name in _DEFAULTED])


def lease_patch(effect: PatchObject) -> str:
    """Renewing or giving away a lease that is ours; whose it is, the API server's object must say then, too."""
    if not str(effect.expect.get("/spec/holderIdentity") or "").startswith(OUR_HOLDER):
        return f"it does not expect a /spec/holderIdentity that begins with {OUR_HOLDER}"
    if (effect.patch.get("spec") or {}).get("holderIdentity"):
        return "it sets /spec/holderIdentity to somebody: a lease is held by the decision HoldLease"
    return _beside(
        effect.patch, [("spec", name) for name in ("holderIdentity", "leaseDurationSeconds", "renewTime")]
    )


def member_taken(effect: PatchObject) -> str:
    """The mark on a member's record by which its slots are taken from it."""
    return (
        "" if effect.patch == {"spec": {"taken": True}} else "allowed is /spec/taken, true, and nothing else"
    )


def slot_label(effect: PatchObject) -> str:
    """One label with the number of a slot."""
    group = effect.target.api_version.rpartition("/")[0]
    if group in _OF_THE_CLUSTER or (not group and effect.target.kind in _NOT_SHARDED):
        return f"objects of kind {effect.target.kind} ({group or 'core'}) are nobody's shards"
    labels = (effect.patch.get("metadata") or {}).get("labels") or {}
    if effect.patch != {"metadata": {"labels": labels}} or len(labels) != 1:
        return "allowed is one label, and nothing else"
    ((key, value),) = labels.items()
    if not isinstance(value, str) or not _SLOT.fullmatch(value):
        return f"label {key} is set to {value!r}: allowed is the number of a slot"
    return of_kubernetes(key)


def of_kubernetes(key: str) -> str:
    """Why a label or annotation of Kubernetes' own may not be set; "" for any other."""
    domain = key.partition("/")[0] if "/" in key else ""
    return f"{key} is Kubernetes' own" if _OF_KUBERNETES.search(domain) else ""


def spread_patch(effect: PatchObject) -> str:
    """A pod's place and cost, and with a place what its subset says of labels and annotations (see `grounds`)."""
    metadata = effect.patch.get("metadata")
    if not isinstance(metadata, Mapping) or effect.patch.keys() != {"metadata"}:
        return "allowed are /metadata/labels and /metadata/annotations"
    if others := sorted(set(metadata) - {"labels", "annotations"}):
        return f"it sets /metadata/{others[0]}: allowed are labels and annotations"
    given = [*(metadata.get("labels") or ()), *(metadata.get("annotations") or ())]
    wrong = [said for key in given if key != DELETION_COST and (said := of_kubernetes(key))]
    return wrong[0] if wrong else ""


def hold(effect: HoldLease) -> str:
    """A lease under our own name."""
    if not effect.holder.startswith(OUR_HOLDER):
        return f"holder {effect.holder!r} is not ours: it begins with {OUR_HOLDER}"
    return ""


def lock_made(effect: CreateObject) -> str:
    """The lock of a worker in gate mode, held by us."""
    manifest, target = effect.manifest, effect.target
    spec = manifest.get("spec") or {}
    times = ("leaseDurationSeconds", "acquireTime", "renewTime")
    if not _LOCK.fullmatch(target.name):
        return f"{target.name} is no name of a gate's lock: SET-GENERATION-leader-INDEX"
    if set(manifest) - {"apiVersion", "kind", "metadata", "spec"} or set(spec) - {"holderIdentity", *times}:
        return f"allowed are holderIdentity, {', '.join(times)}"
    if set(manifest.get("metadata") or ()) - {"name", "namespace", "ownerReferences"}:
        return "allowed are name, namespace and ownerReferences"
    if not str(spec.get("holderIdentity") or "").startswith(OUR_HOLDER):
        return f"its holder is not ours: it begins with {OUR_HOLDER}"
    return same_object(effect)


def lock_deleted(effect: DeleteObject) -> str:
    """The lock of a worker in gate mode."""
    if _LOCK.fullmatch(effect.target.name):
        return ""
    return f"{effect.target.name} is no name of a gate's lock: SET-GENERATION-leader-INDEX"


def placeholder_deleted(effect: DeleteObject) -> str:
    """A pod that holds room."""
    if _PLACEHOLDER_NAME.fullmatch(effect.target.name):
        return ""
    return f"{effect.target.name} is no name of a placeholder: hold-DIGEST"


def marking(effect: MarkNode) -> str:
    """One of our taints, on the node that is meant."""
    if effect.key not in MARKS:
        return f"taint {effect.key!r} is none of ours: {', '.join(sorted(MARKS))}"
    if effect.cordon and effect.key != TO_BE_DELETED:
        return f"it cordons with the taint {effect.key}: allowed with {TO_BE_DELETED}"
    if effect.present and not (effect.target.uid and effect.drain):
        return "it does not say the uid of the node that is meant, and on behalf of which decision"
    return ""


def drained_pod(effect: EvictPod) -> str:
    """One pod, and no other of its name, of a node that is drained."""
    return "" if effect.target.uid and effect.node else "it does not say the pod's uid and its node"


def managed_template(effect: CreateObject) -> str:
    """The PodTemplate that is kept for a CapacityBuffer, and is that one's."""
    manifest, target = effect.manifest, effect.target
    metadata = manifest.get("metadata") or {}
    if wrong := _template_name(target.name) or same_object(effect):
        return wrong
    if others := sorted(set(manifest) - {"apiVersion", "kind", "metadata", "template"}):
        return f"manifest.{others[0]}: a PodTemplate has metadata and a template"
    if others := sorted(set(metadata) - {"name", "namespace", "ownerReferences"}):
        return f"manifest.metadata.{others[0]}: it has a name, a namespace and an owner"
    return _of_a_buffer(metadata.get("ownerReferences"))


def managed_template_patch(effect: PatchObject) -> str:
    """A change of such a template, which must be a buffer's as it stands."""
    if wrong := _template_name(effect.target.name):
        return wrong
    if effect.expect.get("/metadata/ownerReferences/0/kind") != BUFFER:
        return f"it does not expect a /metadata/ownerReferences/0/kind of {BUFFER}"
    metadata = effect.patch.get("metadata")
    if set(effect.patch) - {"metadata", "template"} or set(metadata or ()) - {"ownerReferences"}:
        return "allowed are /metadata/ownerReferences and /template"
    return _of_a_buffer((metadata or {}).get("ownerReferences"))


def _template_name(name: str) -> str:
    return "" if _MANAGED.fullmatch(name) else f"{name} is no name of a template that is kept for a buffer"


def _of_a_buffer(owners: Any) -> str:
    """Why owner references do not say that one CapacityBuffer controls the object; "" when they do."""
    if not isinstance(owners, list) or len(owners) != 1 or not isinstance(owners[0], Mapping):
        return "it has one owner, a CapacityBuffer"
    owner = owners[0]
    mine = str(owner.get("apiVersion") or "").startswith("autoscaling.x-k8s.io/")
    if owner.get("kind") != BUFFER or not mine or owner.get("controller") is not True or not owner.get("uid"):
        return f"its owner is {owner.get('kind')} {owner.get('name')}: allowed is a {BUFFER} that controls it"
    return ""


def with_uid(effect: DeleteObject) -> str:
    """One object, and no other of its name."""
    return "" if effect.target.uid else "it does not say the uid of the object that is meant"


def same_object(effect: CreateObject) -> str:
    """A manifest that is about its target, if it says about what it is."""
    manifest, target = effect.manifest, effect.target
    metadata = manifest.get("metadata") or {}
    for what, said, meant in (
        ("apiVersion", manifest.get("apiVersion"), target.api_version),
        ("kind", manifest.get("kind"), target.kind),
        ("metadata.name", metadata.get("name"), target.name),
        ("metadata.namespace", metadata.get("namespace"), target.namespace),
    ):
        if said and said != meant:
            return f"manifest.{what} is {said!r}, and the target's is {meant!r}"
    if metadata.get("generateName"):
        return "manifest.metadata.generateName is set: an object has the name of its target"
    return ""


def told_by(component: str) -> Callable[[RecordObjectEvent], str]:
    """Object events of one component."""

    def check(effect: RecordObjectEvent) -> str:
        if effect.component != component:
            return f"component {effect.component!r} is another's: allowed is {component}"
        if len(effect.also) >= MOST_MESSAGES:
            return f"it asks for {1 + len(effect.also)} object events: allowed are {MOST_MESSAGES}"
        return "" if effect.event_type in ("Normal", "Warning") else f"type {effect.event_type!r} is none"

    return check


def told_as(component: str, *reasons: str) -> Callable[[RecordObjectEvent], str]:
    """Object events of one component that say one of some things."""
    by = told_by(component)

    def check(effect: RecordObjectEvent) -> str:
        if effect.reason not in reasons:
            return f"reason {effect.reason!r} is not told of objects of any kind: allowed is {' or '.join(reasons)}"
        return by(effect)

    return check


def status_as(manager: str) -> Callable[[SetStatus], str]:
    """A status under one field manager; "": written whole."""

    def check(effect: SetStatus) -> str:
        if effect.apply_as != manager:
            return f"it is applied as {effect.apply_as!r}: allowed is {manager!r}"
        if len(effect.stamp) > DEEPEST:
            return f"its stamp lies {len(effect.stamp)} members deep: allowed are {DEEPEST}"
        return ""

    return check


def own_service(effect: ScaleWorkload) -> str:
    """The number of replicas of one of our services, which stays running."""
    if not effect.owner.startswith("service/"):
        return f"owner {effect.owner!r} is none of our services"
    return "" if effect.replicas >= 1 else "our own services are not scaled to nothing"
