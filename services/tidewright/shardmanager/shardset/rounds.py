"""One round of a ShardSet: membership, the hand-over plan, sizes and pods, then what is published of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from fractions import Fraction

from tidewright.events.base import Because, Decision, ObjectRef
from tidewright.events.decisions import DeleteObject, PatchObject, SetStatus, SetTimer
from tidewright.events.shards import (
    AssignmentEntry,
    ChangeAssignment,
    ChangeRollout,
    EntryKind,
    ReportShards,
    SizeShards,
)
from tidewright.sharding.document import Document, MemberState, SlotState, apply
from tidewright.sharding.keyspace import runs
from tidewright.sharding.lease import LeaseState
from tidewright.shardmanager.fold.touched import Touched
from tidewright.shardmanager.labels import labeller
from tidewright.shardmanager.shardset import signals
from tidewright.shardmanager.shardset.assignment.autosize import (
    SHRINK_PERIOD_S,
    Demand,
    exact,
    known_loads,
    recommend,
)
from tidewright.shardmanager.shardset.assignment.balance import rebalance
from tidewright.shardmanager.shardset.assignment.handover import HandoverPlan, losses, plan
from tidewright.shardmanager.shardset.members import MemberSeen
from tidewright.shardmanager.shardset.pods import driver, stateful_set
from tidewright.shardmanager.shardset.pods.marks import set_ref
from tidewright.shardmanager.shardset.spec import API_VERSION, MEMBER_KIND
from tidewright.shardmanager.shardset.state import (
    INVALID,
    ShardSetState,
    doubled_target,
    doubly_claimed,
    judged,
    target_of,
    wanted_moves,
    weights_of,
    with_target,
)
from tidewright.shardmanager.shardset.status import conditions_of, digest, status_of
from tidewright.shardmanager.state import SET_TIMER, State

FOLLOW_S = 0.1
"""From a round whose decisions ask for another one to that."""


def decisions(state: State, touched: Touched) -> Iterator[Decision]:
    """What the touched sets ask for now."""
    for key in touched.sets:
        shard_set = state.sets.get(key)
        if shard_set is not None and shard_set.present:
            yield from _round(state, shard_set)


def _round(state: State, shard_set: ShardSetState) -> Iterator[Decision]:
    now, ref = state.now, set_ref(shard_set)
    shard_set, problems = judged(shard_set)
    invalid = "; ".join(map(str, problems))
    if invalid != shard_set.reported.get(INVALID, ""):
        # Before all that follows from it: with this report the spec is in force, or no longer.
        yield ReportShards(at=now, target=ref, reason=INVALID, message=invalid)
    if problems:
        yield from _publish(state, shard_set, shard_set.document, [], invalid=invalid)
        return
    reports = shard_set.reports(now)
    entries = _membership(state, shard_set)
    document = _after(shard_set, shard_set.document, entries)
    lost, freed = losses(document, reports, now)
    document = _after(shard_set, document, lost)
    target, basis = shard_set.target, ""
    if not shard_set.spec.dynamic:
        target = driver.owners_by_pods(state, shard_set, document)
    elif any(entry.kind == "double" for entry in entries):
        target, basis = doubled_target(shard_set)
    elif (renewed := target_of(shard_set, document)) is not None:
        target, basis = renewed
    planned = plan(document, target, reports, times=shard_set.spec.times, now=now, freed=freed)
    before = len(entries) + len(lost)
    follow = list(planned.entries)
    if not follow and shard_set.spec.dynamic:
        follow = _asked_moves(shard_set, document, now) or _load_moves(shard_set, document, now)
    entries = [*entries, *lost, *follow]
    if basis and entries:
        # With the last entry that the target was made for, or the first that follows from it.
        n = max(0, before - 1)
        entries[n] = with_target(entries[n], target, basis)
    yield from (ChangeAssignment(at=now, target=ref, entry=entry, because=_why(entry)) for entry in entries)
    yield from _take(state, shard_set, planned)
    if (sized := _size(shard_set, now)) is not None:
        yield sized
    pods = driver.next_pods(state, shard_set, document)
    yield from pods.decisions
    yield from stateful_set.scale(state, shard_set, document)
    yield from labeller.patches(state, shard_set)
    rest = [entry for entry in entries if entry.revision >= document.revision]
    document = _after(shard_set, document, rest)
    yield from _publish(state, shard_set, document, planned.overdue)
    yield from _clear(shard_set, document, now)
    # What these change is acted upon in a round of its own, which no other event need bring about: after the
    # outcomes of this one, or whether a timer or an outcome came first would decide what is decided.
    shrinks = shard_set.spec.mapped and shard_set.spec.slots < len(document.slots)
    follows = (
        sized is not None
        or (shrinks and bool(lost))
        or any(isinstance(d, ChangeRollout) for d in pods.decisions)
    )
    yield from _timer(shard_set, planned, now + FOLLOW_S if follows else pods.wake_at, now)


def _after(shard_set: ShardSetState, document: Document, entries: Sequence[AssignmentEntry]) -> Document:
    """The document after some entries; the set's own is left as it is."""
    if entries and document is shard_set.document:
        document = document.copy()
    for entry in entries:
        apply(document, entry)
    return document


def _membership(state: State, shard_set: ShardSetState) -> list[AssignmentEntry]:
    """The keyspace's creation and doubling, joins and departures."""
    spec, document, now = shard_set.spec, shard_set.document, state.now
    entries: list[AssignmentEntry] = []

    def add(kind: EntryKind, member: str = "", **more: int | str) -> None:
        entry = AssignmentEntry(kind=kind, revision=document.revision + len(entries), at=now, member=member)
        entries.append(_with(entry, more))

    if not document.slots:
        add("create", keyspace=spec.slots)
    elif spec.mapped and spec.slots != len(document.slots):
        if not any(record.owner for record in document.slots[spec.slots :]):
            add("reshape", keyspace=spec.slots, cause="spec")
    elif spec.slots == 2 * len(document.slots) and not document.moving:
        add("double", cause="spec")
    if spec.frozen != document.frozen:
        add("freeze" if spec.frozen else "unfreeze", cause="spec")
    for member, seen in sorted(shard_set.members.items()):
        if seen.lease(spec, now) is not LeaseState.READY:
            continue
        record = document.members.get(member)
        if record is None:
            weight = spec.weights.get(seen.name, seen.weight)
            add("join", member, weight=weight, version=seen.version, cause="join")
        elif record.state is MemberState.READY and _leaves(state, shard_set, seen):
            add("depart", member, cause="drain")
        elif record.state is MemberState.DRAINING and not _leaves(state, shard_set, seen):
            add("recover", member, cause="stays")
    return entries


def _leaves(state: State, shard_set: ShardSetState, seen: MemberSeen) -> bool:
    return (
        seen.leaving
        or seen.name in shard_set.spec.leaving
        or seen.name == shard_set.rollout.leaving
        or driver.ends(state, shard_set, seen)
        or stateful_set.surplus(shard_set, seen.name)
    )


def _with(entry: AssignmentEntry, more: dict[str, int | str]) -> AssignmentEntry:
    fields = {name: getattr(entry, name) for name in entry.__struct_fields__}
    return AssignmentEntry(**{**fields, **more})


def _asked_moves(shard_set: ShardSetState, document: Document, now: float) -> list[AssignmentEntry]:
    """Moves that the spec asks for, when nothing else is about to happen to the document."""
    if document.frozen:
        return []
    budget = shard_set.spec.times.max_concurrent - len(document.moving)
    entries: list[AssignmentEntry] = []
    for member, slots in sorted(wanted_moves(shard_set, document, now).items()):
        if chosen := slots[: max(0, budget)]:
            budget -= len(chosen)
            entries.append(_offer(document, len(entries), now, slots=chosen, member=member, cause="operator"))
    return entries


def _offer(
    document: Document, n: int, now: float, *, slots: Sequence[int], member: str, cause: str
) -> AssignmentEntry:
    return AssignmentEntry(
        kind="offer", revision=document.revision + n, at=now, slots=runs(slots), member=member, cause=cause
    )


def _load_moves(shard_set: ShardSetState, document: Document, now: float) -> list[AssignmentEntry]:
    """Moves for load, when nothing else moves and the interval is over."""
    spec = shard_set.spec
    busy = [m.load for m in shard_set.members.values() if m.load and not m.lost]
    if (
        not busy
        or document.moving
        or document.frozen
        or now < shard_set.rebalanced_at + spec.rebalance_interval_s
    ):
        return []
    owners = [record.owner for record in document.slots]
    weights = weights_of(shard_set, document)
    if any(owner not in weights for owner in owners):
        return []
    cost = [0] * len(owners)
    for load in busy:
        for slot, amount in load.items():
            if slot < len(cost):
                cost[slot] = max(cost[slot], amount)
    pinned = set(spec.pins)
    cooling = [slot for slot, at in shard_set.moved_at.items() if at + spec.cooldown_s > now]
    rebalanced = rebalance(
        owners,
        cost,
        weights,
        theta=spec.theta,
        max_moves=spec.max_moves,
        cooling=[*cooling, *pinned],
    )
    groups: dict[str, list[int]] = {}
    for move in rebalanced.moves:
        groups.setdefault(rebalanced.table[move.slot], []).append(move.slot)
    return [
        _offer(document, n, now, slots=slots, member=member, cause="load")
        for n, (member, slots) in enumerate(sorted(groups.items()))
    ]


def _take(state: State, shard_set: ShardSetState, planned: HandoverPlan) -> Iterator[Decision]:
    """Take leases by compare-and-swap: only against the renewal that was last observed."""
    for member, reason in planned.take:
        seen = shard_set.members.get(member)
        if seen is None or not seen.record or seen.gone or seen.lost or member in shard_set.taking:
            continue
        if f"take {shard_set.namespace}/{seen.record}" in state.in_flight or seen.spared(
            shard_set.spec, state.now
        ):
            continue
        yield PatchObject(
            at=state.now,
            target=ObjectRef(
                api_version=API_VERSION, kind=MEMBER_KIND, namespace=shard_set.namespace, name=seen.record
            ),
            patch={"spec": {"taken": True}},
            expect={"/status/renewals": seen.renewals, "/spec/taken": None},
            because=(
                Because(
                    rule=reason,
                    values={
                        "member": member,
                        "renewals": seen.renewals,
                        "observed_at_s": seen.changed_at,
                        "duration_s": shard_set.spec.lease.duration_s,
                        "skew_margin_s": shard_set.spec.lease.skew_margin_s,
                    },
                ),
            ),
        )


def _clear(shard_set: ShardSetState, document: Document, now: float) -> Iterator[DeleteObject]:
    """Remove the records of members that are over; an incarnation never comes back."""
    for member, seen in sorted(shard_set.members.items()):
        over = (seen.lost or seen.released) and member not in document.members
        if over and seen.record and not seen.gone and not seen.cleared:
            yield DeleteObject(
                at=now,
                target=ObjectRef(
                    api_version=API_VERSION,
                    kind=MEMBER_KIND,
                    namespace=shard_set.namespace,
                    name=seen.record,
                ),
                because=(Because(rule="MemberOver", values={"member": member}),),
            )


def _size(shard_set: ShardSetState, now: float) -> SizeShards | None:
    """Follow the load, if the spec says so."""
    spec = shard_set.spec
    if spec.autosize is None:
        return None
    reporting = [m for m in shard_set.members.values() if not m.lost and not m.gone]
    known = [sum(m.load.values()) for m in reporting if m.load]
    if not known:
        return None
    demand = Demand(
        loads=known_loads(known),
        missing=max(0, shard_set.size - len(known)),
        capacity=exact(spec.autosize.capacity),
        utilisation=exact(spec.autosize.target),
        latency_ratio=signals.latency_ratio(shard_set),
    )
    recommended = recommend(max(1, shard_set.size), demand, spec.autosize.limits)
    follower = copy(shard_set.follower)
    follower.observe(now, recommended)
    busy = bool(shard_set.document.moving) or not driver.settled(shard_set) or spec.frozen
    shards = follower.follow(now, shard_set.size, recommended, frozen=busy)
    if shards == shard_set.size and recommended == _last_recommended(shard_set):
        return None
    total = sum(demand.loads, Fraction(0))
    return SizeShards(
        at=now,
        target=set_ref(shard_set),
        shards=shards,
        from_shards=shard_set.size,
        recommended=recommended,
        because=(
            Because(
                rule="Demand",
                values={
                    "load": float(total),
                    "missing": demand.missing,
                    "capacity": spec.autosize.capacity,
                    "target": spec.autosize.target,
                    "queue_wait_ratio": None if demand.latency_ratio is None else float(demand.latency_ratio),
                },
            ),
        ),
    )


def _last_recommended(shard_set: ShardSetState) -> int:
    samples = shard_set.follower.samples
    return samples[-1].desired if samples else -1


def _publish(
    state: State, shard_set: ShardSetState, document: Document, overdue: Sequence[int], *, invalid: str = ""
) -> Iterator[Decision]:
    """The status, when it differs from the one that was last written, and reports for the log."""
    reports = {
        INVALID: invalid,
        "DrainOverdue": f"slots {runs(overdue)} are not released" if overdue else "",
    }
    if not invalid:
        free = [s for s, r in enumerate(document.slots) if r.state is SlotState.FREE]
        twice = doubly_claimed(shard_set, state.now)
        reports["UnownedSlots"] = f"slots {runs(free)} have no owner" if free else ""
        reports["DoublyClaimedSlots"] = f"slots {runs(twice)} are claimed twice" if twice else ""
        reports["PinnedToNobody"] = _pinned_to_nobody(shard_set, document)
        reports["NotExhaustive"] = "; ".join(shard_set.spec.notices)
        reports["GateRefused"] = shard_set.spec.gate_refused
        reports["HotSlot"] = signals.hot(shard_set, document)
        reports.update(labeller.troubles(shard_set))
        reports["WorkloadMissing"] = stateful_set.missing(state, shard_set)
        reports.update(driver.troubles(state, shard_set))
    for reason, message in reports.items():
        if reason != INVALID and message != shard_set.reported.get(reason, ""):
            yield ReportShards(at=state.now, target=set_ref(shard_set), reason=reason, message=message)
    conditions = conditions_of(shard_set, reports, state.now)
    rollout = driver.rollout_status(state, shard_set) if not invalid else None
    status = status_of(shard_set, document, conditions, rollout)
    if digest(status) != shard_set.published:
        yield SetStatus(
            at=state.now,
            target=set_ref(shard_set),
            status=status,
            observed_generation=shard_set.generation,
        )


def _pinned_to_nobody(shard_set: ShardSetState, document: Document) -> str:
    names = {record.name for record in document.members.values()}
    asked = {**shard_set.spec.moves, **shard_set.spec.pins}
    missing = sorted({name for name in asked.values() if name not in names})
    missing = [
        name
        for name in missing
        if name not in shard_set.moved.values() or name in shard_set.spec.pins.values()
    ]
    return f"slots are pinned or to be moved to {', '.join(missing)}, who is no member" if missing else ""


def _timer(
    shard_set: ShardSetState, planned: HandoverPlan, pods_wake_at: float | None, now: float
) -> Iterator[SetTimer]:
    """Wake up when a lease may be taken, a hand-over is overdue, or the loads are to be looked at."""
    spec = shard_set.spec
    dues = [
        seen.expires_at(spec)
        for seen in shard_set.members.values()
        if seen.record and not seen.lost and seen.expires_at(spec) > now
    ]
    dues += [until for until in shard_set.holds() if until > now]
    dues += [due for due in (planned.wake_at, pods_wake_at) if due is not None]
    dues += [
        seen.not_taken_at + spec.lease.renew_interval_s
        for seen in shard_set.members.values()
        if seen.not_taken_at is not None and seen.spared(spec, now)
    ]
    if any(seen.load for seen in shard_set.members.values()):
        dues.append(now + spec.rebalance_interval_s)
        if spec.autosize is not None:
            dues.append(now + SHRINK_PERIOD_S)
    due = min(dues, default=None)
    if due is not None and (shard_set.timer_due is None or due < shard_set.timer_due):
        yield SetTimer(at=now, key=SET_TIMER + shard_set.key, due=max(due, now))


def _why(entry: AssignmentEntry) -> tuple[Because, ...]:
    if not entry.cause:
        return ()
    values: dict[str, str | int | float | bool | None] = {"member": entry.member, "slots": entry.slots}
    return (Because(rule=entry.cause[:1].upper() + entry.cause[1:], values=values),)
