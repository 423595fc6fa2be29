"""What is remembered of a removal: a function of the log, which judges nothing."""

from __future__ import annotations

import msgspec

from tidewright.kube.keys import PodKey
from tidewright.provisioning.group_ids import NodeGroupId

REMOVALS = "removals"
"""The timer that has removals looked at."""
AGAIN_S = 10.0
"""How long after a refusal the same is asked again."""
REFUSED_MOST_S = 300.0
"""How long at most, where it is refused time after time."""


class Leaving(msgspec.Struct):
    """A pod that was asked to leave.

    Attributes:
        asked_at: of the first time.
        order: an eviction that has no outcome yet.
        evicted_at: when one was admitted.
        replaced: a pod of its shape has come since.
        refused, refused_at: why and when the last one was not; it is asked again at `again_at`.
    """

    uid: str
    shape: str
    asked_at: float
    order: str = ""
    evicted_at: float | None = None
    refused: str = ""
    refused_at: float = 0.0
    replaced: bool = False

    @property
    def again_at(self) -> float:
        return self.refused_at + AGAIN_S


class Stuck(msgspec.Struct):
    """A mark of ours that may not be taken off: how often in a row that was refused, why the last time, and when."""

    times: int
    why: str
    at: float

    @property
    def wait_s(self) -> float:
        """How long it is left alone now: twice as long each time."""
        return min(AGAIN_S * 2.0 ** min(self.times - 1, 10), REFUSED_MOST_S)


class Removal(msgspec.Struct):
    """A node on its way out.

    Attributes:
        decision: id of the `RemoveNode` that began it.
        drains: it was not empty.
        whole: of a zero-or-max group, all nodes that go with it, itself among them.
        daemons: uids of the DaemonSet pods that are to go along.
        mark: id of the decision to mark it.
        marked_at: when that was done.
        seen_at: when the node's own fact first showed the mark.
        unmarked: it showed it no more since.
        failed: what failed, of the mark or the deletion.
        emptied_at: when its last pod left, while it has none.
        deletion: id of the decision to delete its instance.
        again_at: before it no deletion is decided.
        rule: see `RemoveNode`.
        places: pod to the node where a pass found room for it.
        due, delayed: see `UnneededNode`.
    """

    decision: str
    uid: str
    provider_id: str
    group: NodeGroupId
    begun_at: float
    drains: bool = False
    whole: tuple[str, ...] = ()
    daemons: dict[PodKey, str] = {}
    mark: str = ""
    marked_at: float | None = None
    seen_at: float | None = None
    unmarked: bool = False
    failed: str = ""
    pods: dict[PodKey, Leaving] = {}
    emptied_at: float | None = None
    deletion: str = ""
    again_at: float = 0.0
    rule: str = ""
    places: dict[PodKey, str] = {}
    due: float | None = None
    delayed: str = ""

    @property
    def held_at(self) -> float | None:
        """Since when nothing new is scheduled there: the mark is made, and was seen."""
        if self.marked_at is None or self.seen_at is None or self.unmarked:
            return None
        return max(self.marked_at, self.seen_at)
