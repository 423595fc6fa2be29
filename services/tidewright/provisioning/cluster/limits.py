"""Cluster-wide limits and quotas over node capacity: what is used, what is left. Spec 3.8, [B10].

Usage counts all nodes, also not autoscaled ones, and upcoming ones. A node adds its capacity, cores
rounded up to whole ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from tidewright.provisioning.group_ids import NO_GROUP, NodeGroupId
from tidewright.provisioning.settings import Quota, Settings

CLUSTER_WIDE = "cluster-wide"
NODES = "nodes"
GPU_LABELS = (
    "cloud.google.com/gke-accelerator",
    "k8s.amazonaws.com/accelerator",
    "cluster-api/accelerator",
    "accelerator",
)
"""Labels by which clouds mark nodes with GPUs; the value is their type."""
GPU_RESOURCES = (
    "nvidia.com/gpu",
    "habana.ai/gaudi",
    "gpu.intel.com/xe",
    "amd.com/gpu",
    "microsoft.com/directx",
)
"""What device plugins call them; of the first one that a node has its number of GPUs is taken."""
_BIG = 2**62


class Countable(Protocol):
    """A group, as far as limits count its nodes."""

    @property
    def id(self) -> NodeGroupId: ...
    @property
    def labels(self) -> Mapping[str, str]: ...
    @property
    def node_capacity(self) -> Mapping[str, int]: ...


class NodeAmounts(msgspec.Struct, frozen=True, kw_only=True):
    """What one node adds to usage.

    Attributes:
        capacity: cpu in milli-cores, memory in bytes, others as counts.
        count: so many equal nodes.
    """

    capacity: dict[str, int]
    group: NodeGroupId = NO_GROUP
    labels: dict[str, str] = {}
    count: int = 1


def quota_amounts(capacity: Mapping[str, int], labels: Mapping[str, str]) -> dict[str, int]:
    """One node in the units of quotas: whole cores, bytes, counts, one node. GPUs count by resource and by type."""
    amounts = {name: amount for name, amount in capacity.items() if name not in ("pods", "cpu")}
    amounts["cpu"] = -(-capacity.get("cpu", 0) // 1000)
    amounts[NODES] = 1
    gpu_type = next((labels[key] for key in GPU_LABELS if labels.get(key)), "")
    if gpu_type:
        gpus = next((capacity[name] for name in GPU_RESOURCES if capacity.get(name)), 0)
        if gpus:
            amounts.setdefault(gpu_type, gpus)
    return amounts


class Limits:
    """Quotas with what is used of each. Consuming changes it in place; `fork` for a trial."""

    def __init__(self, quotas: Iterable[Quota]) -> None:
        self.quotas = list(quotas)
        self.used: list[dict[str, int]] = [{} for _ in self.quotas]

    def fork(self) -> Limits:
        other = Limits(self.quotas)
        other.used = [dict(used) for used in self.used]
        return other

    def count(self, nodes: Iterable[NodeAmounts]) -> None:
        """Add nodes that exist, or are on their way, to what is used."""
        for node in nodes:
            self.consume(node.group, node.labels, node.capacity, node.count)

    def consume(
        self, group: NodeGroupId, labels: Mapping[str, str], capacity: Mapping[str, int], nodes: int
    ) -> None:
        if not self.quotas:
            return
        amounts = quota_amounts(capacity, labels)
        for quota, used in zip(self.quotas, self.used, strict=True):
            if _covers(quota, group, labels):
                for name in quota.limits:
                    used[name] = used.get(name, 0) + amounts.get(name, 0) * nodes

    def allowed(self, group: NodeGroupId, labels: Mapping[str, str], capacity: Mapping[str, int]) -> int:
        """How many more nodes of a group every quota allows."""
        amounts = quota_amounts(capacity, labels)
        best = _BIG
        for quota, used in zip(self.quotas, self.used, strict=True):
            if _covers(quota, group, labels):
                for name, limit in quota.limits.items():
                    per_node = amounts.get(name, 0)
                    if per_node > 0:
                        best = min(best, max(0, limit - used.get(name, 0)) // per_node)
        return best

    def lefts(self, groups: Sequence[Countable]) -> list[tuple[tuple[int, ...], int]]:
        """Per limit what a node of each group takes of it, and how much is left; without those that no group takes of."""
        amounts = [quota_amounts(group.node_capacity, group.labels) for group in groups]
        lefts = []
        for quota, used in zip(self.quotas, self.used, strict=True):
            covered = [_covers(quota, group.id, group.labels) for group in groups]
            for name, limit in quota.limits.items():
                each = tuple(
                    amount.get(name, 0) if here else 0 for amount, here in zip(amounts, covered, strict=True)
                )
                if any(each):
                    lefts.append((each, max(0, limit - used.get(name, 0))))
        return lefts

    def exceeded(
        self, group: NodeGroupId, labels: Mapping[str, str], capacity: Mapping[str, int], nodes: int
    ) -> str:
        """The reason why `nodes` more are not allowed, naming the first quota; empty when they are."""
        amounts = quota_amounts(capacity, labels)
        for quota, used in zip(self.quotas, self.used, strict=True):
            if _covers(quota, group, labels):
                short = sorted(
                    name
                    for name, limit in quota.limits.items()
                    if amounts.get(name, 0) > 0 and used.get(name, 0) + amounts[name] * nodes > limit
                )
                if short:
                    return f'exceeded quota: "{quota.id}", resources: {", ".join(short)}'
        return ""


def _covers(quota: Quota, group: NodeGroupId, labels: Mapping[str, str]) -> bool:
    if quota.groups is not None and group not in quota.groups:
        return False
    return all(labels.get(key) == value for key, value in quota.node_selector.items())


class Learnt(msgspec.Struct, frozen=True):
    """Where a cloud's quota for a group was found, by an order that it refused.

    Attributes:
        nodes: the group's size then.
        at: log time of the refusal.
    """

    nodes: int
    at: float


def believed(
    group: NodeGroupId, learnt: Learnt, maximum: int, now: float, half_life_s: float
) -> Quota | None:
    """The limit that is believed in now; None once it limits nothing. [B10]

    What lies between the size at which the cloud refused and the group's maximum is thought to be
    out of reach at first, and half of it less after every half-life.
    """
    lacking = max(0, maximum - learnt.nodes)
    withheld = lacking * 0.5 ** ((now - learnt.at) / half_life_s) if half_life_s > 0 else 0.0
    if withheld <= 0.5:
        return None
    limit = maximum - min(lacking, math.ceil(withheld - 1e-9))
    return Quota(id=f"cloud-{group}", limits={NODES: limit}, groups=(group,))


def quotas_of(settings: Settings, learnt: Iterable[Quota] = ()) -> list[Quota]:
    """The built-in limits as a quota, then the configured ones, then what was learnt from the cloud."""
    built_in = {"cpu": settings.max_cores, "memory": settings.max_memory_bytes, **settings.gpu_limits}
    return [
        Quota(id=CLUSTER_WIDE, limits=built_in),
        *settings.quotas,
        *sorted(learnt, key=lambda quota: quota.id),
    ]
