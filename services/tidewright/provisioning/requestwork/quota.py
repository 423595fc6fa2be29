"""Quotas of namespaces, with what will count against them once pods are created. [B10]

`RequestWork.claims` collects what is booked or was promised in this evaluation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tidewright.kube.podshape import PodShape
from tidewright.provisioning.pack.classes import Item
from tidewright.provisioning.requestwork.work import RequestWork


def claim_booked(work: RequestWork) -> None:
    """[B10]: what is kept for pods that are still to be created will count against their quota."""
    if not work.state.quotas:
        return
    unborn = Counter({key: sum(item.count for item in items) for key, items in work.kept.items()}) - Counter(
        work.state.pods[pod].consumes for pod in work.index.waiting
    )
    for key, items in work.kept.items():
        left = unborn[key]
        for item in items:
            pods = min(left, item.count)
            left -= pods
            claim(work, key.split("/", 1)[0], item.shape, pods)


def claim(work: RequestWork, namespace: str, shape: PodShape, pods: int) -> None:
    """Count pods that will be created against what their namespace may have."""
    claimed = work.claims.setdefault(namespace, {})
    for name, amount in shape.requests.items():
        claimed[name] = claimed.get(name, 0) + amount * pods


def over_quota(work: RequestWork, namespace: str, sets: tuple[Item, ...]) -> str:
    """[B10]: the ResourceQuota of the namespace that these pods would exceed; empty for none."""
    wanted: dict[str, int] = {}
    for item in sets:
        for name, amount in item.shape.requests.items():
            wanted[name] = wanted.get(name, 0) + amount * item.count
    for key in sorted(work.state.quotas):
        if key.split("/", 1)[0] != namespace:
            continue
        hard, used = work.state.quotas[key]
        claimed = work.claims.get(namespace, {})
        short = sorted(
            name
            for name, limit in hard.items()
            if _asked_of(wanted, name)
            and used.get(name, 0) + _asked_of(claimed, name) + _asked_of(wanted, name) > limit
        )
        if short:
            return f'exceeded quota: "{key.split("/", 1)[1]}", resources: {", ".join(short)}'
    return ""


def _asked_of(wanted: Mapping[str, int], quota_name: str) -> int:
    """What pods ask of a quota's resource: `requests.cpu` and `cpu` are the same."""
    name = quota_name.removeprefix("requests.")
    return wanted.get("pods" if name == "count/pods" else name, 0)
