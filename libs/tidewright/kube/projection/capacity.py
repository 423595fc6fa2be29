"""Projections for what provisioning and the shard manager look at. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from tidewright.events.provisioning import (
    DaemonSetObserved,
    PodDisruptionBudgetObserved,
    PodTemplateObserved,
    ProvisioningRequestObserved,
    ResourceQuotaObserved,
)
from tidewright.kube import quantities
from tidewright.kube.projection.forms import LabelSelectorForm, PodTemplate, ScopeSelector
from tidewright.kube.projection.reading import (
    UNREADABLE,
    Bytes,
    Meta,
    Projection,
    checked,
    malformed,
    owners,
)
from tidewright.kube.projection.resources import resource
from tidewright.kube.quotascopes import limits_of, scopes_of

_UNSCHEDULED_FIELDS = frozenset(
    {
        "image",
        "imagePullPolicy",
        "command",
        "args",
        "env",
        "envFrom",
        "volumeMounts",
        "livenessProbe",
        "readinessProbe",
        "startupProbe",
        "lifecycle",
        "securityContext",
        "terminationMessagePath",
        "terminationMessagePolicy",
        "workingDir",
    }
)
"""Fields of a container that say nothing about where its pod may run."""


BUFFER = "CapacityBuffer"
"""Kind of the only owners of PodTemplates that somebody asks about."""


class _PodTemplate(msgspec.Struct):
    metadata: Meta
    template: dict[str, Any] = {}


class _DaemonSetSpec(msgspec.Struct):
    template: dict[str, Any] = {}


class _DaemonSet(msgspec.Struct):
    metadata: Meta
    spec: _DaemonSetSpec = msgspec.field(default_factory=_DaemonSetSpec)


class _QuotaStatus(msgspec.Struct):
    hard: dict[str, quantities.QuantityText] | None = None
    used: dict[str, quantities.QuantityText] | None = None


class _QuotaSpec(msgspec.Struct):
    hard: dict[str, quantities.QuantityText] | None = None
    scopes: list[str] | None = None
    scopeSelector: dict[str, Any] | None = None  # noqa: N815 - the API's name


class _Quota(msgspec.Struct):
    metadata: Meta
    spec: _QuotaSpec = msgspec.field(default_factory=_QuotaSpec)
    status: _QuotaStatus = msgspec.field(default_factory=_QuotaStatus)


class _BudgetSpec(msgspec.Struct):
    selector: dict[str, Any] | None = None
    unhealthyPodEvictionPolicy: str | None = None  # noqa: N815 - the API's names


class _BudgetStatus(msgspec.Struct):
    disruptionsAllowed: int = 0  # noqa: N815
    observedGeneration: int = 0  # noqa: N815


class _Budget(msgspec.Struct):
    metadata: Meta
    spec: _BudgetSpec = msgspec.field(default_factory=_BudgetSpec)
    status: _BudgetStatus = msgspec.field(default_factory=_BudgetStatus)


class _Owner(msgspec.Struct):
    controller: bool | None = None


class _OwnedMeta(msgspec.Struct):
    ownerReferences: list[_Owner] | None = None  # noqa: N815 - the API's name


class _Owned(msgspec.Struct):
    metadata: _OwnedMeta


_pod_template = msgspec.json.Decoder(_PodTemplate)
_daemon_set = msgspec.json.Decoder(_DaemonSet)
_quota = msgspec.json.Decoder(_Quota)
_budget = msgspec.json.Decoder(_Budget)
_owned = msgspec.json.Decoder(_Owned)
_request = resource("ProvisioningRequest", ProvisioningRequestObserved)


def pod_template(raw: Bytes) -> Projection:
    """A PodTemplate, whole: pods are made of it."""
    try:
        fields = _pod_template.decode(raw)
        meta = fields.metadata
        checked(meta, fields.template)
        msgspec.convert(fields.template, PodTemplate)
        limits_of(fields.template.get("spec") or {})
        fact = PodTemplateObserved(
            at=0.0,
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            template=fields.template,
            resource_version=meta.resourceVersion,
            generation=meta.generation,
            owners=tuple(o for o in owners(meta.ownerReferences) if o.kind == BUFFER),
        )
        return Projection(fact, meta.resourceVersion)
    except UNREADABLE as error:
        raise malformed("PodTemplate", raw, error) from error


def daemon_set(raw: Bytes) -> Projection:
    """A DaemonSet: of its template what scheduling looks at."""
    try:
        fields = _daemon_set.decode(raw)
        meta = fields.metadata
        checked(meta, fields.spec.template)
        msgspec.convert(fields.spec.template, PodTemplate)
        fact = DaemonSetObserved(
            at=0.0,
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            template=for_scheduling(fields.spec.template),
        )
        return Projection(fact, meta.resourceVersion)
    except UNREADABLE as error:
        raise malformed("DaemonSet", raw, error) from error


def resource_quota(raw: Bytes) -> Projection:
    """A ResourceQuota: the limits in force (those of the spec until the status has them) and their use.

    One with scopes holds for some pods only, and says for which.
    """
    try:
        fields = _quota.decode(raw)
        meta = fields.metadata
        if fields.spec.scopeSelector is not None:
            msgspec.convert(fields.spec.scopeSelector, ScopeSelector)
        hard = fields.status.hard if fields.status.hard is not None else fields.spec.hard
        fact = ResourceQuotaObserved(
            at=0.0,
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            hard=_amounts(hard or {}),
            used=_amounts(fields.status.used or {}),
            scopes=tuple(
                scopes_of({"scopes": fields.spec.scopes, "scopeSelector": fields.spec.scopeSelector})
            ),
        )
        return Projection(fact, meta.resourceVersion)
    except UNREADABLE as error:
        raise malformed("ResourceQuota", raw, error) from error


def disruption_budget(raw: Bytes) -> Projection:
    """A PodDisruptionBudget: whose pods it protects, and how many of them may go now."""
    try:
        fields = _budget.decode(raw)
        meta, spec, status = fields.metadata, fields.spec, fields.status
        checked(meta, spec.selector)
        if spec.selector is not None:
            msgspec.convert(spec.selector, LabelSelectorForm)
        fact = PodDisruptionBudgetObserved(
            at=0.0,
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            selector=spec.selector,
            allowed=status.disruptionsAllowed,
            behind=status.observedGeneration < meta.generation,
            unhealthy_always=spec.unhealthyPodEvictionPolicy == "AlwaysAllow",
        )
        return Projection(fact, meta.resourceVersion)
    except UNREADABLE as error:
        raise malformed("PodDisruptionBudget", raw, error) from error


def provisioning_request(raw: Bytes) -> Projection:
    """A ProvisioningRequest, and whether a controller owns it."""
    projected = _request(raw)
    try:
        owners = _owned.decode(raw).metadata.ownerReferences or ()
    except (msgspec.MsgspecError, RecursionError) as error:
        raise malformed("ProvisioningRequest", raw, error) from error
    if not any(owner.controller for owner in owners):
        return projected
    fact = msgspec.structs.replace(projected.fact, controlled=True)
    return msgspec.structs.replace(projected, fact=fact)


def _amounts(resources: dict[str, quantities.QuantityText]) -> dict[str, int]:
    """Cpu (`cpu`, `requests.cpu`, `limits.cpu`) in milli-cores, everything else in whole units."""
    return {
        name: quantities.milli(value) if name.rpartition(".")[2] == "cpu" else quantities.whole(value)
        for name, value in resources.items()
    }


def for_scheduling(template: dict[str, Any]) -> dict[str, Any]:
    """A pod or pod template without what says nothing about where it may run."""
    spec = dict(template.get("spec") or {})
    for name in ("containers", "initContainers"):
        if spec.get(name):
            spec[name] = [
                {field: value for field, value in container.items() if field not in _UNSCHEDULED_FIELDS}
                for container in spec[name]
            ]
    return {**template, "spec": spec}
