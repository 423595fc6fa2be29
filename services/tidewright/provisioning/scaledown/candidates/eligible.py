"""What keeps a node from being looked at: the first hit is the reason. Spec 4.2, addendum 1."""

from __future__ import annotations

from collections.abc import Mapping

from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.scaledown.candidates.utilisation import Use
from tidewright.provisioning.scaledown.scene import GroupTraits, SceneNode
from tidewright.provisioning.settings import Settings

SCALE_DOWN_DISABLED = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
STALE_DELETION_S = 300.0
"""A deletion taint of this age says nothing any more: who set it is gone."""

RECENTLY_UNREMOVABLE = "RecentlyUnremovable"
BEING_DELETED = "CurrentlyBeingDeleted"
DISABLED = "ScaleDownDisabledAnnotation"
NOT_AUTOSCALED = "NotAutoscaled"
UNEXPECTED = "UnexpectedError"
UNREADY_DISABLED = "ScaleDownUnreadyDisabled"
NOT_UNDERUTILIZED = "NotUnderutilized"
SHARED = "SharedProviderID"
"""Another node has its provider id, too: its instance may be that one's."""
AT_MINIMUM = "NodeGroupMinSizeReached"


def listed(node: SceneNode, groups: Mapping[NodeGroupId, GroupTraits]) -> str:
    """Why a node is no candidate whatever it is used for; empty when it is one."""
    group = groups.get(node.group)
    if group is None:
        return NOT_AUTOSCALED
    return AT_MINIMUM if group.target <= group.min else ""


def before_use(node: SceneNode, group: GroupTraits | None, *, paused: bool, now: float) -> str:
    """What is found before a node's use is looked at; empty when nothing is."""
    if paused:
        return RECENTLY_UNREMOVABLE
    if node.doomed_at is not None and now - node.doomed_at < STALE_DELETION_S:
        return BEING_DELETED
    if node.annotations.get(SCALE_DOWN_DISABLED) == "true":
        return DISABLED
    return NOT_AUTOSCALED if group is None else ""


def by_use(node: SceneNode, group: GroupTraits, use: Use | None, settings: Settings) -> str:
    """What a node's use says against it; empty when nothing. One that cannot be computed says more than that it is not ready."""
    if use is None:
        return UNEXPECTED
    if not node.ready and not settings.scale_down_unready:
        return UNREADY_DISABLED
    return NOT_UNDERUTILIZED if use.ratio > threshold(node, group, settings) else ""


def threshold(node: SceneNode, group: GroupTraits, settings: Settings) -> float:
    """Up to which part of a node may be used for it to go."""
    if node.gpu:
        own, general = group.gpu_threshold, settings.gpu_utilization_threshold
    else:
        own, general = group.threshold, settings.utilization_threshold
    return general if own is None else own


def startup_s(group: GroupTraits | None, settings: Settings) -> float:
    """How long a node may take to become ready."""
    own = group.startup_s if group is not None else None
    return settings.max_node_startup_s if own is None else own


def ignores_daemonsets(group: GroupTraits | None, settings: Settings) -> bool:
    own = group.ignore_daemonsets if group is not None else None
    return settings.ignore_daemonsets if own is None else own
