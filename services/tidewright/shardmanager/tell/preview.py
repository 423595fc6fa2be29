"""What a change of a ShardSet would do, before it is done (section 3.11): moves, restarts, the bound of the gap.

Works on what anybody can read: the spec before and after, the assignment in the status, and which
slots running pods were told. It asks the same functions that the manager decides with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil

import msgspec

from tidewright.events.base import JsonObject
from tidewright.sharding.document import Document, MemberState
from tidewright.sharding.keyspace import runs, shard_ranges
from tidewright.shardmanager.propeller.config import WILDCARD
from tidewright.shardmanager.shardset import mapping
from tidewright.shardmanager.shardset.assignment.assign import assign
from tidewright.shardmanager.shardset.pods import workers
from tidewright.shardmanager.shardset.spec import Driver, Mode, SetSpec, Strategy, read_spec
from tidewright.shardmanager.shardset.spec_reader import Problem
from tidewright.shardmanager.shardset.state import ShardSetState, keyspace_problems

PLANNED_GAP_S = 2.0
"""Hard target of a planned hand-over between two warm workers (section 3.5); 1 s at p99."""
GATE_GAP_S = 5.0
"""Of a shard that waits at a gate: watch delay, and one retry period of its worker's election."""
POLL_S, ACTIVATION_S = 0.5, 1.5
GRACE_S = 30.0
"""Termination grace of a pod whose template states none."""


class PlannedMove(msgspec.Struct, frozen=True, kw_only=True):
    """Slots that change from one member to another. `source` empty: they have no owner now."""

    slots: str
    count: int
    source: str
    target: str


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """What a change would do.

    Attributes:
        problems: of the spec; with any of them nothing would be done.
        moves: by source and target.
        moved: slots with an owner that change it.
        slots: of the keyspace.
        starts, stops, restarts: names of pods (or members that are to start or end).
        gap_s: the longest time that one slot is without an owner, seconds; None when it has no bound.
        gap: the same in words, with what it is made of.
        crash_gap_s: that of a member which fails meanwhile, seconds.
        notes: what else is worth knowing.
    """

    problems: tuple[Problem, ...] = ()
    moves: tuple[PlannedMove, ...] = ()
    moved: int = 0
    slots: int = 0
    starts: tuple[str, ...] = ()
    stops: tuple[str, ...] = ()
    restarts: tuple[str, ...] = ()
    gap_s: float | None = 0.0
    gap: str = "none: no slot changes its owner"
    crash_gap_s: float = 0.0
    notes: tuple[str, ...] = ()


def preview(
    name: str,
    document: Document,
    before: JsonObject,
    after: JsonObject,
    *,
    pod_slots: Mapping[int, Sequence[int]] | None = None,
    grace_s: float = GRACE_S,
) -> Preview:
    """What going from one spec to another does to a set as it stands.

    Args:
        name: of the ShardSet.
        document: its assignment, as its status says it.
        before: its spec.
        after: the spec as it would be.
        pod_slots: for workers that are told their slots: by shard index, those of the pods that run.
        grace_s: termination grace of its pods, seconds.
    """
    old, _problems = read_spec(before)
    new, problems = read_spec(after)
    if document.slots and not problems:
        problems = keyspace_problems(len(document.slots), old, new)
    if problems:
        return Preview(problems=tuple(problems), slots=len(document.slots))
    if not document.slots:
        note = "the set has no assignment yet: is the shard manager running?"
        return Preview(slots=new.slots, notes=(note,), gap_s=None, gap="none stated: nothing is assigned yet")
    crash_gap_s = new.lease.worst_gap(activation_s=ACTIVATION_S, poll_s=POLL_S)
    if new.mapped:
        change = _mapped(name, old, new, pod_slots or {}, grace_s)
    elif new.dynamic:
        change = _dynamic(name, document, old, new)
    else:
        change = _told(name, old, new, pod_slots or {}, grace_s)
    notes = [*change.notes, *([new.gate_refused] if new.gate_refused else [])]
    if new.slots == 2 * len(document.slots) and not new.mapped:
        notes.append(
            f"slot s becomes s and s + {len(document.slots)}, with the same owner: no key changes its owner"
        )
    if new.frozen:
        notes.append(
            "the set is frozen: moves begin only when it is not, lost owners are replaced all the same"
        )
    if change.moved and new.dynamic:
        rounds = ceil(change.moved / new.times.max_concurrent)
        notes.append(f"{change.moved} slots in about {rounds} round(s) of at most {new.times.max_concurrent}")
    return msgspec.structs.replace(
        change, slots=len(document.slots), crash_gap_s=crash_gap_s, notes=tuple(notes)
    )


def _dynamic(name: str, document: Document, old: SetSpec, new: SetSpec) -> Preview:
    """Workers that follow the assignment: slots are handed over one by one, nobody restarts."""
    back = old.leaving - new.leaving
    ready = {
        record.name: member
        for member, record in document.members.items()
        if _can_own(record.state) or (record.state is MemberState.DRAINING and record.name in back)
    }
    starts: list[str] = []
    stops: list[str] = []
    notes: list[str] = []
    ids = dict(ready)
    size = _size(new)
    if new.driver in (Driver.PODS, Driver.STATEFULSET) and size != _size(old):
        stem = name if new.driver is Driver.PODS else new.template
        pods = [f"{stem}-{index}" for index in range(size)]
        starts = [pod for pod in pods if pod not in ready]
        ids |= {pod: f"{pod}#new" for pod in starts}
        stops = sorted(n for n in ready if _surplus(n, stem, size))
    leaving = {*stops, *new.leaving}
    weights = {
        ids[n]: new.weights.get(n, document.members[ids[n]].weight if n in ready else 1)
        for n in ids
        if n not in leaving
    }
    previous = [record.incoming or record.owner or None for record in document.slots]
    pins = {slot: ids[n] for slot, n in new.pins.items() if n in ids}
    if missing := sorted({*new.pins.values(), *new.moves.values()} - set(ids)):
        notes.append(f"{', '.join(missing)} is no member: what is pinned or moved there stays where it is")
    if not weights:
        return Preview(
            notes=(*notes, "no member is left that could own a slot"),
            stops=tuple(stops),
            gap_s=None,
            gap="without end: nobody takes the slots over",
        )
    if new.strategy is Strategy.RANGES:
        parts = zip(sorted(weights), shard_ranges(len(previous), len(weights)), strict=True)
        table: list[str | None] = [member for member, part in parts for _slot in part]
    else:
        unchanged = _basis(old) == _basis(new) and not leaving and not starts
        table = list(previous) if unchanged else list(assign(len(previous), previous, weights, pins).table)
    for slot, n in new.moves.items():
        if n in ids and slot < len(table) and old.moves.get(slot) != n:
            table[slot] = ids[n]
    moves = _moves([record.owner for record in document.slots], table)
    moved = sum(move.count for move in moves if move.source)
    gap_s: float | None = PLANNED_GAP_S if moved else 0.0
    gap = (
        f"at most {PLANNED_GAP_S:g} s a slot (1 s at p99): its next owner is warm before the present one stops"
        if moved
        else "none: no slot changes its owner"
    )
    return Preview(
        moves=moves,
        moved=moved,
        starts=tuple(starts),
        stops=tuple(stops),
        gap_s=gap_s,
        gap=gap,
        notes=tuple(notes),
    )


def _told(
    name: str, old: SetSpec, new: SetSpec, pod_slots: Mapping[int, Sequence[int]], grace_s: float
) -> Preview:
    """Workers that are told their slots as they start: whoever is told others starts anew."""
    before, after = _state(name, old, pod_slots), _state(name, new, pod_slots)
    table = workers.tables(after)
    everybody = old.injector is not new.injector or (not any(table) and old.replicas != new.replicas)
    present = sorted(pod_slots)
    restarts = [
        index
        for index in present
        if index < new.replicas and (everybody or set(pod_slots[index]) != set(table[index]))
    ]
    if not pod_slots:
        table_before = workers.tables(before)
        restarts = [
            i for i in range(min(old.replicas, new.replicas)) if set(table_before[i]) != set(table[i])
        ]
        pod_slots = dict(enumerate(table_before))
    owner = {slot: f"{name}-{index}" for index, slots in pod_slots.items() for slot in slots}
    target: dict[int, str] = {slot: f"{name}-{index}" for index, slots in enumerate(table) for slot in slots}
    moves = _moves([owner.get(s, "") for s in range(new.slots)], [target.get(s) for s in range(new.slots)])
    moved = sum(move.count for move in moves if move.source)
    starts = [i for i in range(new.replicas) if i not in pod_slots]
    stops = [i for i in pod_slots if i >= new.replicas]
    touched = bool(restarts or stops or moved)
    return Preview(
        moves=moves,
        moved=moved,
        starts=tuple(f"{name}-{i}" for i in starts),
        stops=tuple(f"{name}-{i}" for i in stops),
        restarts=tuple(f"{name}-{i}" for i in restarts),
        gap_s=(GATE_GAP_S if new.handover is Mode.GATE else None) if touched else 0.0,
        gap=_told_gap(grace_s, new.handover) if touched else "none: no pod is told anything else",
        notes=_pod_notes(new) if restarts else (),
    )


def _mapped(
    name: str, old: SetSpec, new: SetSpec, pod_slots: Mapping[int, Sequence[int]], grace_s: float
) -> Preview:
    """Workers that are told values of a label: whoever is told others starts anew."""
    present = sorted(pod_slots) if pod_slots else list(range(len(old.per_shard)))
    restarts = [
        index
        for index in present
        if index < len(new.per_shard)
        and (
            index >= len(old.per_shard)
            or (old.label, mapping.included(old.per_shard, index))
            != (new.label, mapping.included(new.per_shard, index))
        )
    ]
    values = sorted({v for spec in (old, new) for shard in spec.per_shard for v in shard.ids} - {WILDCARD})
    owner = [_shard(name, mapping.shard_of(old.per_shard, value)) for value in values]
    target = [_shard(name, mapping.shard_of(new.per_shard, value)) for value in values]
    moved = [
        f"{v}: {a or 'nobody'} -> {b or 'nobody'}"
        for v, a, b in zip(values, owner, target, strict=True)
        if a != b
    ]
    starts = [i for i in range(len(new.per_shard)) if i not in present]
    stops = [i for i in present if i >= len(new.per_shard)]
    notes = [f"{old.label or new.label} {move}" for move in moved]
    if restarts:
        notes += _pod_notes(new)
    touched = bool(restarts or stops or moved)
    return Preview(
        moved=len(moved),
        starts=tuple(f"{name}-{i}" for i in starts),
        stops=tuple(f"{name}-{i}" for i in stops),
        restarts=tuple(f"{name}-{i}" for i in restarts),
        gap_s=(GATE_GAP_S if new.handover is Mode.GATE else None) if touched else 0.0,
        gap=_told_gap(grace_s, new.handover) if touched else "none: no pod is told anything else",
        notes=(*notes, *new.notices),
    )


def _shard(name: str, index: int | None) -> str:
    return "" if index is None else f"{name}-{index}"


def _pod_notes(spec: SetSpec) -> tuple[str, ...]:
    said = f"at most {spec.max_unavailable} pod(s) are out of service at a time"
    if spec.handover is Mode.GATE:
        return said, "every pod is made anew beside the old ones: there has to be room for both"
    return (said,)


def _told_gap(grace_s: float, mode: Mode) -> str:
    if mode is Mode.GATE:
        return (
            f"at most {GATE_GAP_S:g} s and what the old pod takes to end (grace {grace_s:g} s at most): every new pod is up "
            "and waits for its lock before the first old one is stopped"
        )
    return (
        f"from the stop of the old pod (grace {grace_s:g} s at most) until the new one has started: "
        "these workers cannot hand over, and a new pod starts only when no old one can still do its work"
    )


def _state(name: str, spec: SetSpec, pod_slots: Mapping[int, Sequence[int]]) -> ShardSetState:
    table = [list(pod_slots.get(index, ())) for index in range(max(pod_slots, default=-1) + 1)]
    return ShardSetState(
        namespace="",
        name=name,
        spec=spec,
        sized=spec.replicas,
        index_table=workers.index_of_slot(table, spec.slots) if pod_slots else [],
    )


def _basis(spec: SetSpec) -> tuple[object, ...]:
    """What of a spec the assignment follows, apart from who is a member."""
    return (spec.strategy, spec.weights, spec.pins, spec.leaving)


def _can_own(state: MemberState) -> bool:
    return state in (MemberState.READY, MemberState.EXPIRED)


def _size(spec: SetSpec) -> int:
    return spec.autosize.limits.clamp(spec.replicas) if spec.autosize else spec.replicas


def _surplus(member: str, stem: str, size: int) -> bool:
    start, dash, number = member.rpartition("-")
    return bool(dash) and start == stem and number.isdecimal() and int(number) >= size


def _moves(before: Sequence[str], after: Sequence[str | None]) -> tuple[PlannedMove, ...]:
    groups: dict[tuple[str, str], list[int]] = {}
    for slot, (source, target) in enumerate(zip(before, after, strict=True)):
        if target and source != target:
            groups.setdefault((_name(source), _name(target)), []).append(slot)
    return tuple(
        PlannedMove(slots=runs(slots), count=len(slots), source=source, target=target)
        for (source, target), slots in sorted(groups.items())
    )


def _name(member: str) -> str:
    return member.partition("#")[0]
