"""Which pods a ResourceQuota means: its scopes against what of a pod decides about them. Pure.

traits_of(...)    what of a pod spec decides
limits_of(...)    what its containers are limited to together, as `limits.` of quotas counts it
in_scopes(...)    whether all scopes of a quota mean such a pod
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tidewright.kube import quantities
from tidewright.kube.podspecs import pod_requests


class Traits(msgspec.Struct, frozen=True, omit_defaults=True):
    """What of a pod scopes look at.

    Attributes:
        terminating: it has an active deadline.
        best_effort: no container asks for, or is limited in, cpu or memory.
        crosses_namespaces: a term of its affinity, required or preferred, names namespaces.
    """

    terminating: bool = False
    best_effort: bool = False
    priority_class: str = ""
    crosses_namespaces: bool = False


def traits_of(spec: Mapping[str, Any]) -> Traits:
    """The traits of a pod spec.

    Raises:
        NotAQuantity: an amount that cannot be read.
    """
    return Traits(
        terminating=spec.get("activeDeadlineSeconds") is not None,
        best_effort=_best_effort(spec),
        priority_class=spec.get("priorityClassName") or "",
        crosses_namespaces=any(
            term.get("namespaces") or term.get("namespaceSelector") is not None for term in _terms(spec)
        ),
    )


def _best_effort(spec: Mapping[str, Any]) -> bool:
    parts = [spec, *(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    return not any(
        name in ("cpu", "memory") and quantities.parse(amount).nanos
        for part in parts
        for kind in ("requests", "limits")
        for name, amount in ((part.get("resources") or {}).get(kind) or {}).items()
    )


def _terms(spec: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    affinity = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        pod_affinity = affinity.get(kind) or {}
        yield from pod_affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        for preferred in pod_affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            yield preferred.get("podAffinityTerm") or {}


def limits_of(spec: Mapping[str, Any]) -> dict[str, int]:
    """The limits of a pod's containers, summed as requests are.

    Raises:
        NotAQuantity: an amount that cannot be read.
    """
    return pod_requests({name: _limited(part) for name, part in spec.items() if name in _PARTS})


_PARTS = ("containers", "initContainers", "resources", "overhead")


def _limited(part: Any) -> Any:
    if isinstance(part, list):
        return [
            {**container, "resources": {"limits": (container.get("resources") or {}).get("limits") or {}}}
            for container in part
        ]
    if isinstance(part, Mapping) and ("limits" in part or "requests" in part):
        return {"limits": part.get("limits") or {}}
    return part


def scopes_of(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The scopes of a quota's spec in one form: those of `scopes` hold of whatever exists."""
    plain = [{"scopeName": name, "operator": "Exists"} for name in spec.get("scopes") or ()]
    return plain + list((spec.get("scopeSelector") or {}).get("matchExpressions") or ())


def in_scopes(scopes: Iterable[Mapping[str, Any]], traits: Traits) -> bool:
    """Whether all of these scopes mean a pod with these traits."""
    return all(_means(scope, traits) for scope in scopes)


def _means(scope: Mapping[str, Any], traits: Traits) -> bool:
    match scope.get("scopeName"):
        case "Terminating":
            return traits.terminating
        case "NotTerminating":
            return not traits.terminating
        case "BestEffort":
            return traits.best_effort
        case "NotBestEffort":
            return not traits.best_effort
        case "CrossNamespacePodAffinity":
            return traits.crosses_namespaces
        case "PriorityClass":
            return _selects(scope, traits.priority_class)
    return False  # a scope of other objects, or one that nobody knows, means no pod


def _selects(scope: Mapping[str, Any], name: str) -> bool:
    values = scope.get("values") or ()
    match scope.get("operator"):
        case "In":
            return name in values and bool(name)
        case "NotIn":
            return name not in values
        case "Exists":
            return bool(name)
        case "DoesNotExist":
            return not name
    return False
