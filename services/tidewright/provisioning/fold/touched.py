"""What an event touched: all that `decide` is told beside the state."""

from __future__ import annotations

import msgspec

from tidewright.kube.keys import NO_REQUEST, PodKey, RequestKey
from tidewright.provisioning.group_ids import NO_GROUP, NodeGroupId


class Touched(msgspec.Struct):
    """Made anew for every event.

    Attributes:
        woken: something came that an evaluation may answer.
        taken: a pod has a place that the last evaluation did not give it, while others wait: it may be theirs.
        plans: increases of which an order was answered, or that have lost a group.
        not_decreased: a group of which an order could not be taken back.
        kept: a group has more nodes after an answer than it was to have: not all of an order was taken back.
        respecified: a request whose spec was changed for the first time.
        removals: nodes that go, or carry a mark of ours, about which something has changed.
        workloads: a workload wants another thing than before, or its controller says it has.
        wishes: what it wants, or is to want, is another.
        unsoftened: a soft taint could not be set: what is set with the next pass needs none.
        marked: those that now carry it.
        evicted: pods that were asked to leave, with their uids.
        deleted: nodes whose instances will be deleted: name, uid, and whether they were drained.
    """

    woken: bool = False
    taken: bool = False
    plans: tuple[str, ...] = ()
    not_decreased: NodeGroupId = NO_GROUP
    kept: bool = False
    respecified: RequestKey = NO_REQUEST
    removals: list[str] = []
    workloads: bool = False
    wishes: bool = False
    unsoftened: bool = False
    marked: list[str] = []
    evicted: list[tuple[PodKey, str]] = []
    deleted: list[tuple[str, str, bool]] = []
