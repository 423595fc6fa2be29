"""Prometheus series of a state: those of the propeller manager under its own names, and ours (3.12). Pure.

Counters count since the fold began, snapshots included; times are log time. Those of fleets are the process's (`tally`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tidewright.sharding.document import MemberState, SlotState
from tidewright.shardmanager.shardset.state import ShardSetState, doubly_claimed, weights_of
from tidewright.shardmanager.state import State
from tidewright.shardmanager.tell.metric_names import metrics, scope
from tidewright.shardmanager.tell.samples import Sample, histogram

TOP = 20
"""Slots whose load is told."""

HELP: dict[str, str] = {
    "shards_slots": "Slots by state.",
    "shards_unowned_slots": "Slots that nobody may act on.",
    "shards_doubly_claimed_slots": "Slots on which two members report to act.",
    "shards_moves_total": "Slots that were given an owner, by cause.",
    "shards_forced_total": "Slots that were taken from a member whose lease was taken.",
    "shards_imbalance_ratio": "Slots by weight of the member with most, over the mean.",
    "shards_slot_load": "Busy percent of a worker, of the busiest slots.",
    "shards_desired": "Wanted number of shards.",
    "shards_ready": "Members that can own slots.",
    "shards_rollout_state": "0: none or complete, 1: under way, 2: paused.",
    "shards_lease_age_seconds": "Since the last renewal of a member was seen.",
    "shards_unlabelled_objects": "Objects without a legal slot label at the last look.",
    "shards_document_revision": "Changes of the assignment so far.",
    "shards_handover_seconds": "How long the phases of hand-overs took, by slot.",
    "shards_gap_seconds": "How long slots were without an owner that acts, by cause.",
    "shards_pass_seconds": "How long passes over propeller fleets took, in log time.",
    "shards_document_conflicts_total": "Changes that were refused: decided on another revision.",
    "shards_fenced_writes_total": "Writes that sinks refused for their epoch, as workers tell.",
}


def series(state: State) -> Iterator[Sample]:
    """Everything that a state tells."""
    for _key, fleet in sorted(state.fleets.items()):
        last = fleet.recorded
        if fleet.local and last is not None and last.running is not None:
            yield Sample(f"{scope(fleet.metrics_prefix)}pods_running_count", {}, last.running)
    for _key, shard_set in sorted(state.sets.items()):
        if shard_set.present:
            yield from _set(state, shard_set)


def help_of_fleets() -> dict[str, str]:
    """What the original's names say, under the prefixes of both brands."""
    texts = {m.name: m.help for prefix in ("flyte", "kozmo") for m in metrics(prefix)}
    return {**texts, **HELP}


def types_of_fleets() -> dict[str, str]:
    """The types of the original's series that stand for several lines each."""
    return {f"{scope(prefix)}round_time_ms": "summary" for prefix in ("flyte", "kozmo")}


def _set(state: State, shard_set: ShardSetState) -> Iterator[Sample]:
    mine = {"namespace": shard_set.namespace, "name": shard_set.name}
    document = shard_set.document
    states = Counter(record.state for record in document.slots)
    for each in SlotState:
        yield Sample("shards_slots", {**mine, "state": each.value}, states[each])
    yield Sample("shards_unowned_slots", mine, states[SlotState.FREE])
    yield Sample("shards_doubly_claimed_slots", mine, len(doubly_claimed(shard_set, state.now)))
    for cause, count in sorted(shard_set.moves_made.items()):
        yield Sample("shards_moves_total", {**mine, "cause": cause}, count, counter=True)
    yield Sample("shards_forced_total", mine, shard_set.forced_slots, counter=True)
    yield Sample("shards_imbalance_ratio", mine, _imbalance(shard_set))
    loads = Counter({s: busy for m in shard_set.members.values() for s, busy in m.load.items()})
    for slot, busy in loads.most_common(TOP):
        yield Sample("shards_slot_load", {**mine, "slot": str(slot)}, busy)
    yield Sample("shards_desired", mine, shard_set.size)
    ready = sum(m.state is MemberState.READY for m in document.members.values())
    yield Sample("shards_ready", mine, ready)
    rollout = shard_set.rollout
    under_way = rollout.template is not None and not rollout.complete
    yield Sample("shards_rollout_state", mine, 2 if rollout.paused else int(under_way))
    for member, seen in sorted(shard_set.members.items()):
        if seen.record and not seen.lost and not seen.gone:
            age = max(0.0, state.now - seen.changed_at)
            yield Sample("shards_lease_age_seconds", {**mine, "member": member}, age)
    if shard_set.lacking is not None:
        lacking = len(shard_set.lacking.objects) + shard_set.lacking.remaining
        yield Sample("shards_unlabelled_objects", mine, lacking)
    for phase, took in sorted(shard_set.timing.phases.items()):
        yield from histogram("shards_handover_seconds", {**mine, "phase": phase}, took)
    for cause, took in sorted(shard_set.timing.gaps.items()):
        yield from histogram("shards_gap_seconds", {**mine, "cause": cause}, took)
    yield Sample("shards_document_conflicts_total", mine, shard_set.conflicts, counter=True)
    fenced = shard_set.fenced + sum(
        m.signals.fenced for i, m in shard_set.members.items() if i in document.members
    )
    yield Sample("shards_fenced_writes_total", mine, fenced, counter=True)
    yield Sample("shards_document_revision", mine, document.revision, counter=True)


def _imbalance(shard_set: ShardSetState) -> float:
    weights = weights_of(shard_set, shard_set.document)
    held = Counter(record.owner for record in shard_set.document.slots)
    ratios = [held[member] / weight for member, weight in weights.items()]
    mean = sum(ratios) / len(ratios) if ratios else 0.0
    return max(ratios) / mean if mean else 1.0
