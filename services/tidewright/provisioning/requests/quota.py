"""Quotas of namespaces, with what will count against them once pods are created. [B10]

`RequestWork.claims` collects what is booked or was promised in this evaluation. A quota with scopes
means the pods that all of its scopes mean: what others will take does not count against it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from tidewright.kube.keys import ObjectKey, RequestKey, name_of, namespace_of
from tidewright.kube.quotascopes import in_scopes
from tidewright.provisioning.pack.classes import Item
from tidewright.provisioning.requests.work import RequestWork
from tidewright.provisioning.state import Cost


def claim_booked(work: RequestWork) -> None:
    """[B10]: what is kept for pods that are still to be created will count against their quota."""
    if not work.state.quotas:
        return
    unborn = Counter({key: sum(item.count for item in items) for key, items in work.kept.items()}) - Counter(
        work.state.pods[pod].consumes for pod in work.index.waiting
    )
    for key, items in work.kept.items():
        remaining = unborn[key]
        costs = {
            shape.digest: cost
            for (shape, _), cost in zip(work.kept_sets_of(key), work.costs_of(key), strict=True)
        }
        for item in items:
            pods = min(remaining, item.count)
            remaining -= pods
            _claim(work, namespace_of(key), Item(item.shape, pods), costs.get(item.shape.digest, Cost()))


def claim(work: RequestWork, key: RequestKey, sets: tuple[Item, ...]) -> None:
    """Count the pods of a request, which will be created, against what their namespace may have."""
    if not work.state.quotas:
        return
    for item, cost in zip(sets, work.costs_of(key), strict=True):
        _claim(work, namespace_of(key), item, cost)


def _claim(work: RequestWork, namespace: str, item: Item, cost: Cost) -> None:
    claimed = work.claims.setdefault((namespace, cost.traits), {})
    for name, amount in _amounts(item, cost).items():
        claimed[name] = claimed.get(name, 0) + amount


def _amounts(item: Item, cost: Cost) -> dict[str, int]:
    """What so many pods ask of quotas, limits under their own names."""
    amounts = {name: amount * item.count for name, amount in item.shape.requests.items()}
    return amounts | {f"limits.{name}": amount * item.count for name, amount in cost.limits.items()}


def over_quota(work: RequestWork, key: RequestKey, sets: tuple[Item, ...]) -> str:
    """[B10]: the ResourceQuota of the namespace that a request's pods would exceed; empty for none."""
    quota = next(exceeded(work, key, sets), None)
    return f'exceeded quota: "{name_of(quota[0])}", resources: {", ".join(quota[1])}' if quota else ""


def wants_of(work: RequestWork, key: RequestKey, quota: tuple[ObjectKey, tuple[str, ...]]) -> bool:
    """Whether the pods of a request count against a quota in one of these resources."""
    name, resources = quota
    if namespace_of(name) != namespace_of(key):
        return False
    for (shape, count), cost in zip(work.sets_of(key), work.costs_of(key), strict=True):
        amounts = _amounts(Item(shape, count), cost)
        if in_scopes(work.state.quotas[name].scopes, cost.traits) and any(
            _asked_of(amounts, resource) for resource in resources
        ):
            return True
    return False


def exceeded(
    work: RequestWork,
    key: RequestKey,
    sets: tuple[Item, ...],
    *,
    beside: tuple[RequestKey, tuple[Item, ...]] | None = None,
) -> Iterator[tuple[ObjectKey, tuple[str, ...]]]:
    """The quotas that a request's pods would exceed, by name, and in which resources.

    `beside` is another request and its pods, as if room were kept for them.
    """
    if beside is not None:
        claims, work.claims = work.claims, {pods: dict(amounts) for pods, amounts in work.claims.items()}
        claim(work, *beside)
        quotas = list(exceeded(work, key, sets))
        work.claims = claims
        yield from quotas
        return
    namespace = namespace_of(key)
    names = [name for name in sorted(work.state.quotas) if namespace_of(name) == namespace]
    costs = work.costs_of(key) if names else ()
    for name in names:
        quota = work.state.quotas[name]
        asked: Counter[str] = Counter()
        for item, cost in zip(sets, costs, strict=True):
            if in_scopes(quota.scopes, cost.traits):
                asked.update(_amounts(item, cost))
        claimed: Counter[str] = Counter()
        for (where, traits), amounts in work.claims.items():
            if where == namespace and in_scopes(quota.scopes, traits):
                claimed.update(amounts)
        short = sorted(
            resource
            for resource, limit in quota.hard.items()
            if _asked_of(asked, resource)
            and quota.used.get(resource, 0) + _asked_of(claimed, resource) + _asked_of(asked, resource)
            > limit
        )
        if short:
            yield name, tuple(short)


def _asked_of(amounts: Mapping[str, int], quota_name: str) -> int:
    """What pods ask of a quota's resource: `requests.cpu` and `cpu` are the same."""
    name = quota_name.removeprefix("requests.")
    return amounts.get("pods" if name == "count/pods" else name, 0)
