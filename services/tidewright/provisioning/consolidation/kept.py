"""What is remembered of consolidation: a function of the log, which judges nothing."""

from __future__ import annotations

import msgspec

from tidewright.kube.keys import PodKey
from tidewright.provisioning.group_ids import NodeGroupId

MOVED_REST_S = 3600.0
"""For how long a pod that was evicted for a removal, and made anew, is not moved again."""
GIVEN_UP_REST_S = 3600.0
"""For how long a node is not tried again after its replacement was given up."""
BEGIN_S = 1800.0
"""When the removal of one of several nodes has begun, those of the others must have after so long."""
REMEMBERED_S = 86_400.0
"""For how long it is remembered that a spot node was taken away."""


class Proposal(msgspec.Struct, frozen=True):
    """Nodes that others could replace for less, as rounds have found since then.

    Attributes:
        groups: what would be ordered instead: group to nodes.
    """

    nodes: tuple[str, ...]
    groups: dict[str, int]
    since: float


class Replacement(msgspec.Struct):
    """Nodes for which others were ordered.

    Attributes:
        decision: id of the `ReplaceNodes` that began it.
        plan: the plan that orders the others.
        nodes: those that are to go, with their uids.
        groups: what was ordered: group to nodes.
        until: it is given up when the others are not there, and able to take the pods, by then; later, when
            nothing more could begin by then.
        begun: those of `nodes` of which the removal has begun, since the others are there.
        past: nodes that came for others which are over.
    """

    decision: str
    plan: str
    nodes: dict[str, str]
    groups: dict[str, int]
    begun_at: float
    until: float
    before_micro: int = 0
    after_micro: int = 0
    begun: list[str] = []
    past: list[str] = []


class Kept(msgspec.Struct):
    """Attributes:
    proposals, replacements: in the order in which they were found, and ordered.
    stirred: node to when a pod last came to it, or left it.
    took: node to when room for a request or a buffer was last put on it.
    awaited: workload (`owner_key`) to when pods of it were evicted for a removal, and none was made in their place yet.
    moved: pod to when it was seen that was made in place of one of them.
    given_up: node to when a replacement of it was given up.
    revoked: group of spot nodes to when one of them was taken away.
    """

    proposals: list[Proposal] = []
    replacements: list[Replacement] = []
    stirred: dict[str, float] = {}
    took: dict[str, float] = {}
    awaited: dict[str, list[float]] = {}
    moved: dict[PodKey, float] = {}
    given_up: dict[str, float] = {}
    revoked: dict[NodeGroupId, list[float]] = {}
