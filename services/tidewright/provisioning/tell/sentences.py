"""Decisions in words: messages of object events as users know them, and the sentences of `explain`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from tidewright.events.acting import HELD_BACK, held_back
from tidewright.events.base import Because, Scalar
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.scaleup.plans import Target

TRIGGERED = "TriggeredScaleUp"
NOT_TRIGGERED = "NotTriggerScaleUp"


def triggered_message(targets: Iterable[Target]) -> str:
    """For a pod whose order went out: group, sizes and maximum."""
    parts = " ".join(f"{t.group} {t.from_size}->{t.size} (max: {t.max_size})" for t in targets)
    return f"pod triggered scale-up: [{{{parts}}}]" if parts else "pod triggered scale-up"


def not_triggered_message(reasons: Mapping[NodeGroupId, str], limit: str = "") -> str:
    """For a pod that no group could help: how many groups for which reason, the most first; or the limit."""
    if limit:
        return f"pod didn't trigger scale-up: {limit}"
    counted = Counter(reason for reason in reasons.values() if reason)
    items = [f"{n} {text}" for text, n in sorted(counted.items(), key=lambda e: (-e[1], e[0]))]
    return "pod didn't trigger scale-up: " + (", ".join(items) if items else "no node group is known")


_SENTENCES: dict[str, str] = {
    "ClassIsOurs": "its class {class_name} is decided here ({mode})",
    "TemplatesMissing": "{missing} of {referenced} pod templates are missing: {names}",
    "FitsNow": "all {pods} pods fit on nodes that exist or are on their way",
    "RoomShort": "{placed} of {pods} pods fit on nodes that exist or are on their way",
    "GroupChosen": "group {group} holds them with {nodes} nodes (from {from_size} to {size}, of at most {maximum})",
    "PlannedAsOne": "{pods} pods are planned as one over {groups} groups: their nodes cost {price} an hour, and none for them cost less than {bound}",
    "ValuedAsOne": "{pods} pods are planned as one over {groups} groups, those without a price at what the others cost: their nodes cost {price} an hour, and none for them cost less than {bound}",
    "WeighedAsOne": "{pods} pods are planned as one over {groups} groups; as none has a price, nodes count by what they have, the more the less of it is asked for: they come to {price}, and none for them to less than {bound}",
    "OneByOne": "groups chosen one after the other cost {price}, planned as one {other}",
    "ChosenFor": "group {group} is chosen for {pods} pods (shapes: {shapes}; most ask for {asks}), at {price} a node",
    "NoGroup": "no group can take them",
    "GroupOut": "group {group}: {reason}",
    "RetryLater": "it is tried again in {wait_s} s (attempt {attempt})",
    "NoRetry": "it is not tried again, as its parameters say",
    "Expired": "it was not provisioned within {limit_s} s of its creation",
    "BookedFor": "room for {pods} pods is kept for {seconds} s",
    "BookingOver": "room was kept for {seconds} s",
    "BookingUsed": "all {pods} pods have a node",
    "OrderFailed": "the order for group {group} failed: {error}",
    "TimedOut": "{missing} of {increase} nodes of group {group} did not come within {limit_s} s",
    "CreationFailed": "{count} instances of group {group} could not be created ({code})",
    "TakenBack": "{count} nodes of group {group} that had not come are taken back",
    "CapacityLost": "room for {pods} pods that were provisioned is gone",
    "Growing": "it has its minimum and lacks {pods} pods more, of which {placed} can be had",
    "Ordered": "the cloud has taken the order for {nodes} nodes",
    "RoomHeld": "room on node {node} is held for request {request}",
    "RoomFreed": "room on node {node} is held no longer for request {request}",
    "NodeReserved": "room on it is kept for {requests}",
    "NodeFree": "no room on it is kept any longer",
    "NoneCame": "none of the nodes that were ordered of group {group} came",
    "NodesShort": "{nodes} of them could not be made, or never became nodes",
    "GroupFailed": "group {group} failed: {error}",
    "RoomMissed": "it had found room on those of others in group {groups}",
    "GroupGone": "group {group} is no longer there",
    "Idle": "node {node} was empty for {idle_s} s",
    "Unneeded": "nobody needed node {node} for {unneeded_s} s",
    "GivenUp": "group {group} is given up, and node {node} goes with it when nothing on it would be lost",
    "PodsFitElsewhere": "its {pods} pods fit on {nodes} other nodes: {places}",
    "Consolidated": "by consolidation: {used} is asked for, {pods} pods move; the node costs {before} an hour before and {after} after, which saves {saving}",
    "ConsolidatedUnpriced": "by consolidation: {used} is asked for, {pods} pods move; what node {node} costs is not known: group {group} has no price",
    "Replaced": "by consolidation: {before} an hour for {nodes}, and {after} for {others}, with room for what of their {pods} pods fits on no other node: that saves {saving}; that both run while pods move costs {overlap}",
    "ReplacementStands": "by consolidation: in its place there is now {others} ({replacement}); the whole costs {after} an hour instead of {before}, which saves {saving}",
    "ReplacementOver": "in place of {nodes} there is now {others}: {after} an hour instead of {before}",
    "ReplacementGivenUp": "in place of {nodes} there will not be {others} after all: {message}; nodes that have come for it go when nobody needs them",
    "RemovalBegins": "node {node} is to be removed ({removal})",
    "LeftOver": "node {node} carries the mark of {removal}, which is not under way",
    "SoftTainted": "node {node} is not needed, and waits",
    "SoftUntainted": "node {node} is needed again, or waits no more",
    "MovesAway": "it leaves node {node}, which is to be removed",
    "Drained": "node {node} is marked, and no pod is left on it that would have to move",
    "StillEmpty": "node {node} is marked, and still empty",
    "Undone": "node {node} stays: {message}",
    "Collected": "it ended {age_s} s ago",
    "ChunkUnknown": "admission is asked what a pod of {source} is like",
    "TemplateKept": "a PodTemplate is kept that says what a chunk of buffer {buffer} is like",
    "NotReady": "it keeps no room: {error}",
    "ChunksWanted": "{chunks} chunks are wanted",
    "OutsideWindows": "none of them now: it is outside the windows of its annotation buffer-schedule{until}",
    "ChunksLimited": "quotas leave room for {chunks} of them: {quotas}",
    "ChunksPlaced": "{ready} of {chunks} chunks have room on ready nodes, {upcoming} on nodes that are on their way, {missing} have none",
    "ChunksMissing": "nothing helps {missing} of them: {why}",
    "ChunksSpared": "{chunks} of them are not ordered while pods wait that its annotation buffer-for means ({pods})",
    "ChunksLacking": "{chunks} chunks of buffers lack room: {buffers}",
    "ChunkHeld": "room on node {node} is held for a chunk of buffer {buffer}",
    "ChunkFreed": "room on node {node} is held no longer for a chunk of buffer {buffer}",
    "PodsPending": "{pods} pods of {shapes} shapes are waiting",
    "PodsExpected": "{pods} pods of {workload} are about to come",
    "PodsDecided": "{pods} pods of {workload} are about to come, by decision {decision}",
    "MoreExpected": "{pods} pods of {workloads} more workloads are about to come",
    "Beginning": "group {group} has {target} nodes and is to begin with {initial}",
    "BelowMinimum": "group {group} has {target} nodes, its minimum is {minimum}",
    "WouldDelay": "what it would take is what request {head}, which comes before it, waits for",
    "DryRun": "nothing is ordered: the request asks for an answer only",
    "Gone": "the request was deleted",
    "NodesReady": "all {nodes} nodes of group {group} are ready",
    "QuotaExceeded": "namespace {namespace} may not have more: quota {quota}",
    "ClusterUnhealthy": "too many nodes are unready: nothing is ordered",
}
RULES = frozenset(_SENTENCES)
"""Every rule that provisioning names as a reason."""


def because(rule: str, **values: Scalar) -> Because:
    """One application of a rule, with the numbers that its sentence mentions."""
    return Because(rule=rule, values=values)


def sentence(reason: Because) -> str:
    """A rule application in words; one of a newer version reads as its name and values."""
    if reason.rule == HELD_BACK:
        return held_back(reason.values).removesuffix(".")  # like the others: who tells it ends it
    text = _SENTENCES.get(reason.rule)
    if text is not None:
        try:
            return text.format(**reason.values)
        except (KeyError, IndexError):
            pass
    shown = ", ".join(f"{key}={value}" for key, value in reason.values.items())
    return f"{reason.rule}({shown})"
