"""What an object of the cluster shows of an incumbent. Pure.

    Deployment                      it runs, where, and on which namespaces it acts
    Lease, ConfigMap, Endpoints     a leader holds it, and renewed it then
    the status ConfigMap            Cluster Autoscaler's own stamp on it
    metadata.managedFields          who wrote the status of an object last, and when
    MutatingWebhookConfiguration    pods are sent to it

Ours are told apart: our images are no rival's; our holder begins with our name; a status that our
actuator applied under the name of Cluster Autoscaler carries the id of our decision.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, TypeAlias

import msgspec

from tidewright.events.incumbents import Evidence
from tidewright.kube.projection.reading import UNREADABLE, malformed
from tidewright.kube.times import seconds
from tidewright.watcher.incumbents.rivals import RIVALS, Program, Rival, Scope

OURS = "tidewright"
"""In the image of our own Deployments, at the begin of our holder's name, and our field manager."""
LEADER = "control-plane.alpha.kubernetes.io/leader"
"""The annotation by which ConfigMaps and Endpoints are locks."""
LAST_UPDATED = "cluster-autoscaler.kubernetes.io/last-updated"
"""The annotation that Cluster Autoscaler writes with its status, and we do not."""
LONGEST_LEASE_S = 3600.0
"""No lock is believed to be held for longer than twice that after it was renewed, whatever its record says."""
LEASE_S = 15.0
"""The duration of a lock that states none, seconds: what the usual election libraries take."""
STATUS_MAP_S = 180.0
"""For how long a status ConfigMap speaks for its writer: a loop over a large cluster takes minutes."""
WRITES_S = 300.0
"""For how long a written status speaks for its writer: an object in which nothing changes is not written."""


class Weight(Enum):
    """How much a sign says."""

    RUNS = "runs"  # a Deployment: until it runs no more
    LOCK = "lock"  # a leader: while it renews
    WRITES = "writes"  # a field manager: while it writes
    TRACE = "trace"  # left behind by one that runs, and maybe by one that ran


class Sign(msgspec.Struct, frozen=True, kw_only=True):
    """One sign of a rival.

    Attributes:
        holds: it is shown to be at work; False: it is known here, and stands still.
        beat: changes with each renewal; empty for what needs none.
        beat_at: when the rival says that it renewed it, seconds of its own clock.
        lasts_s: how long one beat counts, seconds.
    """

    rival: Rival
    weight: Weight
    evidence: Evidence
    holds: bool = True
    scope: Scope = None
    beat: str = ""
    beat_at: float | None = None
    lasts_s: float = 0.0


class _Variable(msgspec.Struct):
    name: str
    value: str = ""
    valueFrom: dict[str, Any] | None = None  # noqa: N815 - the API's name


class _Container(msgspec.Struct):
    image: str = ""
    command: list[str] | None = None
    args: list[str] | None = None
    env: list[_Variable] | None = None


class _Meta(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    managedFields: list[dict[str, Any]] | None = None  # noqa: N815 - the API's name


class _PodSpec(msgspec.Struct):
    containers: list[_Container] | None = None


class _Template(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    spec: _PodSpec = msgspec.field(default_factory=_PodSpec)


class _DeploymentSpec(msgspec.Struct):
    template: _Template = msgspec.field(default_factory=_Template)


class _DeploymentStatus(msgspec.Struct):
    replicas: int = 0


class _Deployment(msgspec.Struct):
    metadata: _Meta
    spec: _DeploymentSpec = msgspec.field(default_factory=_DeploymentSpec)
    status: _DeploymentStatus = msgspec.field(default_factory=_DeploymentStatus)


class _LeaseSpec(msgspec.Struct):
    holderIdentity: str | None = None  # noqa: N815
    leaseDurationSeconds: int | None = None  # noqa: N815
    renewTime: str | None = None  # noqa: N815


class _Lease(msgspec.Struct):
    metadata: _Meta
    spec: _LeaseSpec = msgspec.field(default_factory=_LeaseSpec)


class _Bare(msgspec.Struct):
    metadata: _Meta


class _Rule(msgspec.Struct):
    resources: list[str] | None = None


class _Webhook(msgspec.Struct):
    rules: list[_Rule] | None = None


class _Webhooks(msgspec.Struct):
    metadata: _Meta
    webhooks: list[_Webhook] | None = None


_deployment = msgspec.json.Decoder(_Deployment)
_lease = msgspec.json.Decoder(_Lease)
_record = msgspec.json.Decoder(_LeaseSpec)
_bare = msgspec.json.Decoder(_Bare)
_webhooks = msgspec.json.Decoder(_Webhooks)


Key: TypeAlias = tuple[str, str, str]
"""Kind, namespace and name of what shows a sign; without a name: the objects of that kind and namespace."""


def read(kind: str, raw: bytes | msgspec.Raw) -> tuple[Key, Sign | None]:
    """Which object this is, and what it shows; None when it has nothing to do with a rival.

    Raises:
        Malformed: it cannot be read; a lock may be the text of an annotation, which nobody checks.
    """
    try:
        return _read(kind, raw)
    except UNREADABLE as error:
        raise malformed(kind, raw, error) from error


def _read(kind: str, raw: bytes | msgspec.Raw) -> tuple[Key, Sign | None]:
    match kind:
        case "Deployment":
            deployment = _deployment.decode(raw)
            return _key(kind, deployment.metadata), _of_deployment(deployment)
        case "Lease":
            lease = _lease.decode(raw)
            return _key(kind, lease.metadata), _of_lock(kind, lease.metadata, lease.spec)
        case "MutatingWebhookConfiguration":
            webhooks = _webhooks.decode(raw)
            return _key(kind, webhooks.metadata), _of_webhooks(webhooks)
    meta = _bare.decode(raw).metadata
    for rival in RIVALS:
        if kind == "ConfigMap" and meta.name == rival.status_map:
            return _key(kind, meta), _of_status_map(rival, meta)
    leader = (meta.annotations or {}).get(LEADER)
    return _key(kind, meta), None if leader is None else _of_lock(kind, meta, _record.decode(leader.encode()))


def _key(kind: str, meta: _Meta) -> Key:
    return kind, meta.namespace, meta.name


# -- Deployments ---------------------------------------------------------------------------------


def _of_deployment(deployment: _Deployment) -> Sign | None:
    containers = deployment.spec.template.spec.containers or []
    if any(OURS in _repository(container.image) for container in containers):
        return None
    for rival in RIVALS:
        container = next((c for c in containers if _is_of(rival, c)), None)
        if container is None and not _is_named(rival, deployment):
            continue
        program = _program(
            deployment.metadata.namespace, [container] if container is not None else containers
        )
        if rival.off(program):
            return None
        image = container.image if container is not None else ", ".join(c.image for c in containers)
        return Sign(
            rival=rival,
            weight=Weight.RUNS,
            evidence=Evidence(
                kind="Deployment",
                namespace=deployment.metadata.namespace,
                name=deployment.metadata.name,
                shows=f"runs {image}",
            ),
            holds=deployment.status.replicas > 0,
            scope=rival.scope(program),
        )
    return None


def _repository(image: str) -> str:
    """An image's name without registry, tag and digest: its path's last part."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0]


def _is_of(rival: Rival, container: _Container) -> bool:
    words = [*(container.command or ()), *(container.args or ())]
    started = words[0].rpartition("/")[2] if words else ""
    return bool(rival.image.match(_repository(container.image)) or rival.program.match(started))


def _is_named(rival: Rival, deployment: _Deployment) -> bool:
    labels = {**(deployment.metadata.labels or {}), **(deployment.spec.template.metadata.labels or {})}
    return deployment.metadata.name in rival.deployments or not rival.labels.isdisjoint(labels.items())


def _program(namespace: str, containers: Iterable[_Container]) -> Program:
    words: list[str] = []
    variables: dict[str, str | None] = {}
    for container in containers:
        words += [*(container.command or ()), *(container.args or ())]
        for variable in container.env or ():
            field = ((variable.valueFrom or {}).get("fieldRef") or {}).get("fieldPath")
            if variable.valueFrom is None:
                variables[variable.name] = variable.value
            elif field == "metadata.namespace":
                variables[variable.name] = None
    return Program(namespace, tuple(words), variables)


# -- locks ---------------------------------------------------------------------------------------


def _of_lock(kind: str, meta: _Meta, record: _LeaseSpec) -> Sign | None:
    rival = next((rival for rival in RIVALS if meta.name in rival.locks), None)
    if rival is None or kind not in ("Lease", rival.old_lock):
        return None
    holder, renewed = record.holderIdentity or "", record.renewTime or ""
    if holder.startswith(OURS) or _is_a_worker(rival, holder, meta):
        holder = ""
    return Sign(
        rival=rival,
        weight=Weight.LOCK,
        evidence=Evidence(
            kind=kind, namespace=meta.namespace, name=meta.name, shows=f"is held and renewed by {holder}"
        ),
        holds=bool(holder),
        scope=None if rival.lock_everywhere else (meta.namespace,),
        beat=f"{holder} {renewed}",
        beat_at=_time(renewed),
        lasts_s=2.0 * min(record.leaseDurationSeconds or LEASE_S, LONGEST_LEASE_S),
    )


def _is_a_worker(rival: Rival, holder: str, meta: _Meta) -> bool:
    """Whether the lock is held by a worker and not by its manager: one without a manager elects by the same name."""
    if not rival.worker:
        return False
    writers = {str(entry.get("manager")) for entry in meta.managedFields or ()}
    managers = {writer for writer in writers if rival.program.match(writer)}
    if rival.worker in writers and not managers:
        return True
    return not managers and holder.startswith(f"{rival.worker}-") and "-manager" not in holder


def _time(text: str) -> float | None:
    try:
        return seconds(text) if text else None
    except ValueError:
        return None


# -- what is written, and left behind ------------------------------------------------------------


def _of_status_map(rival: Rival, meta: _Meta) -> Sign | None:
    stamp = (meta.annotations or {}).get(LAST_UPDATED)
    writes = list(_foreign_writes(rival, {"managedFields": meta.managedFields}, ""))
    if stamp is None and not writes:
        return None
    beat = stamp or max(text for _, text in writes)
    # `2023-08-17 19:05:01.231858842 +0000 UTC`, as Go prints a time.
    words = beat.split()
    text = f"{words[0]}T{words[1][:15]}+00:00" if len(words) >= 3 else beat
    return Sign(
        rival=rival,
        weight=Weight.WRITES,
        evidence=Evidence(
            kind="ConfigMap",
            namespace=meta.namespace,
            name=meta.name,
            shows="is written by its status report",
        ),
        beat=beat,
        beat_at=_time(text),
        lasts_s=STATUS_MAP_S,
    )


def sign_of_writes(
    rival: Rival, kind: str, namespace: str, objects: Iterable[Mapping[str, Any]]
) -> Sign | None:
    """What the field managers of some objects of one kind and namespace show, given their metadata.

    None when none of them was written by the rival.
    """
    latest = max(
        (write for meta in objects for write in _foreign_writes(rival, meta, "status")),
        default=None,
        key=lambda w: w[1],
    )
    if latest is None:
        return None
    manager, text = latest
    return Sign(
        rival=rival,
        weight=Weight.WRITES,
        evidence=Evidence(
            kind=kind, namespace=namespace, shows=f"status is written by field manager {manager}"
        ),
        scope=None if rival.writes_everywhere else (namespace,),
        beat=text,
        beat_at=_time(text),
        lasts_s=WRITES_S,
    )


def _foreign_writes(rival: Rival, meta: Mapping[str, Any], subresource: str) -> Iterable[tuple[str, str]]:
    """Field manager and time of each of the rival's writes of an object, as far as they are noted."""
    for entry in meta.get("managedFields") or ():
        manager, fields = str(entry.get("manager") or ""), entry.get("fieldsV1") or {}
        if manager not in rival.managers or (entry.get("subresource") or "") != subresource:
            continue
        if _is_stamped(fields):
            continue
        yield manager, str(entry.get("time") or "")


def _is_stamped(fields: Mapping[str, Any]) -> bool:
    """Whether a set of fields has the stamp of our decisions in it: ours, under the name of Cluster Autoscaler."""
    details = (fields.get("f:status") or {}).get("f:provisioningClassDetails") or {}
    return "f:decision" in details


def _of_webhooks(configuration: _Webhooks) -> Sign | None:
    rival = next((rival for rival in RIVALS if configuration.metadata.name in rival.webhooks), None)
    if rival is None or not any(
        "pods" in (rule.resources or ())
        for webhook in configuration.webhooks or ()
        for rule in webhook.rules or ()
    ):
        return None
    return Sign(
        rival=rival,
        weight=Weight.TRACE,
        evidence=Evidence(
            kind="MutatingWebhookConfiguration", name=configuration.metadata.name, shows="is called for pods"
        ),
    )
