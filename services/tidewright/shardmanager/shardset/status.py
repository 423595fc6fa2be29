"""The status of a ShardSet: the assignment as workers read it, and the conditions."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

import msgspec

from tidewright.events.base import JsonObject
from tidewright.kube.conditions import entry, transition
from tidewright.kube.times import rfc3339
from tidewright.sharding.document import Document, MemberState
from tidewright.sharding.wire import assignment_of
from tidewright.shardmanager.shardset.state import ShardSetState

_encoder = msgspec.json.Encoder(order="deterministic")

# Condition type to the findings that make it true.
_CONDITIONS = {
    "Ready": (),
    "InvalidSpec": ("InvalidSpec",),
    "Orphaned": ("UnownedSlots",),
    "DoublyClaimed": ("DoublyClaimedSlots",),
    "Stuck": (
        "DrainOverdue",
        "ShardStuck",
        "TemplateUnusable",
        "TemplateMissing",
        "WorkloadMissing",
        "EffectRefused",
        "ForeignPod",
        "GateLost",
    ),
    "RolloutPaused": ("RolloutPaused",),
    "PinUnmet": ("PinnedToNobody",),
    "NotExhaustive": ("NotExhaustive",),
    "GateRefused": ("GateRefused",),
    "HotSlot": ("HotSlot",),
    "Unlabelled": ("UnlabelledObjects", "IllegalSlotLabels"),
}
_NOTICES = frozenset({"PinnedToNobody", "NotExhaustive", "GateRefused", "HotSlot"})
"""Worth a condition, and no trouble: every slot has its owner all the same."""


def digest(status: JsonObject) -> str:
    """A digest of a status, so that an equal one is not written again."""
    return blake2b(_encoder.encode(status), digest_size=12).hexdigest()


def conditions_of(shard_set: ShardSetState, reports: Mapping[str, str], now: float) -> list[JsonObject]:
    """The conditions for what is reported (reason to message, empty when all is well)."""
    said = {reason: message for reason, message in reports.items() if message}
    trouble = {reason: message for reason, message in said.items() if reason not in _NOTICES}
    conditions: list[JsonObject] = []
    for kind, reasons in _CONDITIONS.items():
        if kind == "Ready":
            status, reason = ("False", min(trouble)) if trouble else ("True", "AllSlotsOwned")
            message = trouble.get(reason, "every slot has an owner")
        else:
            hits = [r for r in reasons if r in said]
            status, reason = ("True", hits[0]) if hits else ("False", "AsExpected")
            message = "; ".join(said[r] for r in hits)
        before = shard_set.conditions.get(kind)
        since = transition(
            (before.get("status"), before.get("lastTransitionTime") or rfc3339(now))
            if before is not None
            else None,
            status,
            rfc3339(now),
        )
        condition = entry(kind, status, since, reason=reason, message=message)
        conditions.append({**condition, "observedGeneration": shard_set.generation})
    return conditions


def status_of(
    shard_set: ShardSetState,
    document: Document,
    conditions: list[JsonObject],
    rollout: JsonObject | None = None,
) -> JsonObject:
    """The whole status."""
    ready = sum(m.state is MemberState.READY for m in document.members.values())
    return {
        "observedGeneration": shard_set.generation,
        "shards": shard_set.size,
        "readyMembers": ready,
        "unownedSlots": len(document.unowned()),
        "movingSlots": len(document.moving),
        "assignment": assignment_of(document),
        "conditions": conditions,
        **({"rollout": rollout} if rollout else {}),
    }
