"""Unneeded for long enough, and what must be left: of groups and of the cluster. Spec 4.2, addendum 1."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidewright.provisioning.cluster.limits import quota_amounts
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.scaledown.candidates.eligible import (
    AT_MINIMUM,
    DISABLED,
    NOT_AUTOSCALED,
    SCALE_DOWN_DISABLED,
)
from tidewright.provisioning.scaledown.scene import GroupTraits, SceneNode
from tidewright.provisioning.settings import Settings

NOT_UNNEEDED = "NotUnneededLongEnough"
NOT_UNREADY = "NotUnreadyLongEnough"
LIMIT = "MinimalResourceLimitExceeded"


def wait_s(node: SceneNode, group: GroupTraits, settings: Settings) -> float:
    """For how long a node must have been unneeded; whether it is ready now decides which time it is."""
    if node.ready:
        return settings.unneeded_s if group.unneeded_s is None else group.unneeded_s
    return settings.unready_s if group.unready_s is None else group.unready_s


class Floors:
    """What of the cluster's resources may still go, and of each group's nodes. Taking changes it in place."""

    def __init__(
        self, nodes: Iterable[SceneNode], groups: Mapping[NodeGroupId, GroupTraits], settings: Settings
    ) -> None:
        floors = {"cpu": settings.min_cores, "memory": settings.min_memory_bytes, **settings.gpu_floors}
        self.groups = groups
        self.spare = {name: -floor for name, floor in floors.items() if floor}
        self._alike: dict[NodeGroupId, SceneNode] = {}
        if self.spare and "B25" in settings.as_reference:
            nodes = list(nodes)
            for node in sorted(nodes, key=lambda node: node.name):
                if node.group:
                    self._alike.setdefault(node.group, node)
        for node in nodes if self.spare else ():
            if node.labels.get("type") == "virtual-kubelet":
                continue
            amounts = self._amounts(node)
            for name in self.spare:
                self.spare[name] += amounts.get(name, 0)
        self.sizes = {name: group.target - group.leaving for name, group in groups.items()}

    def refusal(self, node: SceneNode) -> str:
        """What keeps a node that has waited long enough; empty when nothing does."""
        if self.sizes[node.group] <= self.groups[node.group].min:
            return AT_MINIMUM
        amounts = self._amounts(node) if self.spare else {}
        over = any(left - amounts.get(name, 0) < 0 for name, left in self.spare.items() if amounts.get(name))
        return LIMIT if over else ""

    def take(self, node: SceneNode, by: int = 1) -> None:
        """A node goes; -1: it does not after all."""
        self.sizes[node.group] -= by
        if self.spare:
            amounts = self._amounts(node)
            for name in self.spare:
                self.spare[name] -= by * amounts.get(name, 0)

    def _amounts(self, node: SceneNode) -> dict[str, int]:
        """What a node counts for. [B25] As the reference has it all nodes of a group count as the first of them by name."""
        counted = self._alike.get(node.group, node)
        return quota_amounts(counted.capacity, counted.labels)


def too_early(
    node: SceneNode, group: GroupTraits | None, settings: Settings, since: float, now: float
) -> str:
    """Why an unneeded node waits; empty when its time has come: strictly longer, where there is a time to wait."""
    if node.annotations.get(SCALE_DOWN_DISABLED) == "true":
        return DISABLED
    if group is None:
        return NOT_AUTOSCALED
    wait = wait_s(node, group, settings)
    if wait and since + wait >= now:
        return NOT_UNNEEDED if node.ready else NOT_UNREADY
    return ""
