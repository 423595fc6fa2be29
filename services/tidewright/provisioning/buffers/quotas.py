"""How many chunks the ResourceQuotas of a namespace leave, the older buffer first. Spec 4.

Every quota whose scopes all mean a chunk counts, in all that one pod takes of it: requests, limits, and the pod
itself. What a buffer is granted is taken from all of them, so that the next one finds less.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tidewright.kube.podshape import PODS
from tidewright.kube.quotascopes import Traits, in_scopes
from tidewright.provisioning.state import QuotaState

_LISTING = ("In", "NotIn")
_OPERATORS = (*_LISTING, "Exists", "DoesNotExist")


class Asking(NamedTuple):
    """A buffer and what one chunk of it takes.

    Attributes:
        requests, limits: resource to amount, as in `ResourceQuotaObserved`.
    """

    buffer: str
    chunks: int
    requests: Mapping[str, int]
    limits: Mapping[str, int]
    traits: Traits


class Granted(NamedTuple):
    """What a buffer gets; `quotas` are the names of those that leave less than it asks for."""

    chunks: int
    quotas: tuple[str, ...] = ()


def granted(
    asking: Sequence[Asking], quotas: Mapping[str, QuotaState], *, pods: bool = True
) -> dict[str, Granted | None]:
    """What each buffer gets of the quotas of its namespace; None for one that takes nothing of any.

    Args:
        asking: in the order in which they are served.
        quotas: those of the namespace, by name.
        pods: count the pods themselves, and limits; the reference looks at requests alone.
    """
    taken: dict[tuple[str, str], int] = {}
    answers: dict[str, Granted | None] = {}
    for one in asking:
        charged = {
            name: {resource: amount for resource in quota.hard if (amount := _takes(one, resource, pods)) > 0}
            for name, quota in sorted(quotas.items())
            if matches(quota.scopes, one.traits) is True
        }
        asks = any(amount > 0 for name, amount in one.requests.items() if name != PODS)
        if not asks and not any(charged.values()):
            answers[one.buffer] = None
            continue
        chunks, named = one.chunks, []
        for name, amounts in charged.items():
            quota = quotas[name]
            fits = [
                max(0, quota.hard[r] - quota.used.get(r, 0) - taken.get((name, r), 0)) // amount
                for r, amount in amounts.items()
            ]
            if fits and min(fits) < one.chunks:
                named.append(name)
                chunks = min(chunks, *fits)
        for name, amounts in charged.items():
            for resource, amount in amounts.items():
                taken[name, resource] = taken.get((name, resource), 0) + chunks * amount
        answers[one.buffer] = Granted(chunks, tuple(named))
    return answers


def _takes(one: Asking, resource: str, pods: bool) -> int:
    """What one chunk takes of a quota's resource."""
    if resource in (PODS, "count/pods"):
        return int(pods)
    if resource.startswith("limits."):
        return one.limits.get(resource.removeprefix("limits."), 0) if pods else 0
    return one.requests.get(resource.removeprefix("requests."), 0)


def matches(scopes: Sequence[Mapping[str, object]], traits: Traits) -> bool | str:
    """Whether all scopes of a quota mean a chunk; for one that cannot be read, what is wrong with it."""
    for scope in scopes:
        operator = scope.get("operator")
        if scope.get("scopeName") != "PriorityClass":
            continue
        if operator not in _OPERATORS:
            return f"scope PriorityClass: operator {operator!r} is none of {', '.join(_OPERATORS)}"
        if operator in _LISTING and not scope.get("values"):
            return f"scope PriorityClass: operator {operator} needs values, and has none"
    return in_scopes(scopes, traits)
