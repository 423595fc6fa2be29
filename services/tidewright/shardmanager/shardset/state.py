"""A ShardSet as a fold: its spec, its assignment document, its members as they report themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from hashlib import blake2b
from typing import Any, Literal

import msgspec

from tidewright.events.acting import MODE
from tidewright.events.base import JsonObject
from tidewright.events.shards import (
    AssignmentEntry,
    ShardMemberGone,
    ShardMemberObserved,
    ShardSetObserved,
    SlotLabelsScanned,
    UnlabelledObject,
)
from tidewright.sharding.document import Document, MemberState, Refused, SlotState, apply
from tidewright.sharding.keyspace import parse_runs, runs, shard_ranges
from tidewright.sharding.lease import LeaseState
from tidewright.shardmanager.propeller.fleet import Template
from tidewright.shardmanager.shardset.assignment.assign import assign
from tidewright.shardmanager.shardset.assignment.autosize import Follower
from tidewright.shardmanager.shardset.assignment.handover import Report
from tidewright.shardmanager.shardset.members import MemberSeen, member_of
from tidewright.shardmanager.shardset.spec import SetSpec, Strategy, parsed, spec_problems
from tidewright.shardmanager.shardset.spec_reader import Problem
from tidewright.shardmanager.shardset.timing import Timing

RETRY_S = 10.0
"""Pause before an effect that was refused is asked for again."""
INVALID = "InvalidSpec"
"""The reason of reports that say whether a set's spec is acted upon."""
UNSEEN_S = 30.0
"""How long a fact about an effect that was made may take before it is asked for again."""
ANSWERS_KEPT_S = 600.0
"""How long the answer to an effect is remembered: far longer than anybody waits for what it brings."""
REMEMBERED_S = 86_400.0
"""How long an ended incarnation is remembered: far longer than any process sleeps through its lease."""


class RolloutState(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A rolling update of the pods of a set.

    Attributes:
        template: that is being rolled out; None: nothing has been yet.
        good: the last one that was complete.
        paused: by the progress deadline; a pause in the spec is not kept here.
        resumes: the spec's number of that name when it was paused last.
        rejected: version of a template that was rolled back.
        progress_at: log time of the last progress, seconds.
        leaving: name of the pod that drains before it is replaced.
        backlog: of the set before that, which the next step waits to be nearly reached again; None: not told.
        judged: digest of the template whose canary passed its analysis.
        canary_since: log time since which a canary stands, seconds; None: none does.
        why: it was paused.
    """

    template: Template | None = None
    good: Template | None = None
    complete: bool = False
    paused: bool = False
    resumes: int = 0
    rejected: str = ""
    progress_at: float = 0.0
    leaving: str = ""
    backlog: int | None = None
    judged: str = ""
    canary_since: float | None = None
    why: str = ""


class Gate(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A lock that keeps the worker of a new shard waiting (gate mode).

    Attributes:
        index, generation: whose lock it is.
        state: `asked`, `held` by the manager, `opening`, `open` to its worker; `stale`: left by an earlier
            pod of the same generation.
        renewed_at: log time of the last renewal, opened_at: of the opening, seconds.
        lost: somebody else took it before it was opened.
    """

    index: int
    generation: str
    state: Literal["asked", "held", "opening", "open", "stale"] = "asked"
    renewed_at: float = 0.0
    opened_at: float = 0.0
    lost: bool = False


class InForce(msgspec.Struct, frozen=True, kw_only=True):
    """What of a set follows from the spec that is in force.

    Attributes:
        slots: of the keyspace at that time, 0 before there was one.
    """

    spec: SetSpec
    sized: int
    size_of_generation: int
    moved: dict[int, str]
    slots: int


class ShardSetState(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One shard set.

    Attributes:
        present: its object exists.
        spec: that is in force: the last one of which no report says that it is invalid.
        asked: that of the object, where it is not in force; None where it is.
        unread: what of the object's spec cannot be read.
        former: what was in force before, until a status says that the present spec is acted upon.
        target: member that ought to own each slot, as last recorded; follows membership, weights, pins and load.
        basis: digest of what the target was made for.
        sized: the number of shards that was last set, by the spec or by a decision.
        index_table: with injected workers, shard index of each slot.
        ready_at: log time since which a pod is ready, by `name#uid`.
        gates: locks of gate mode, by the names of their Leases.
        forced: `name#uid` of pods whose removal by force was asked for; once is enough.
        answers: log time at which an effect was answered, by `verb name`, until a fact about its object comes.
        refused: why an effect was refused last, by `verb name`.
        lacking: what the last look for objects without a slot label found.
        to_label: those of them that were not asked for yet.
        timing: how long hand-overs and gaps lasted.
        conflicts: entries that were refused, because they were decided on another revision.
        fenced: writes that sinks refused for their epoch, as members that are over told.
        moves_made: slots given an owner, by cause; forced_slots: slots taken from lost members.
        moved: the spec's moves that were made, so that each is made once.
        moved_at: log time at which a slot was last moved for load or by request.
        ended: log time at which an incarnation ended, so that it does not come back (R1).
        timer_due: of the timer that is set.
        published: digest of the status that was last written.
        mode: the mode that its annotation asks for; empty without one.
    """

    namespace: str
    name: str
    uid: str = ""
    present: bool = False
    generation: int = 0
    spec: SetSpec = SetSpec()
    asked: SetSpec | None = None
    unread: list[Problem] = []
    former: InForce | None = None
    document: Document = msgspec.field(default_factory=Document)
    members: dict[str, MemberSeen] = {}
    taking: list[str] = []
    target: list[str | None] = []
    basis: str = ""
    sized: int = 0
    size_of_generation: int = -1
    follower: Follower = msgspec.field(default_factory=Follower)
    rollout: RolloutState = msgspec.field(default_factory=RolloutState)
    index_table: list[int] = []
    ready_at: dict[str, float] = {}
    gates: dict[str, Gate] = {}
    forced: list[str] = []
    answers: dict[str, float] = {}
    refused: dict[str, str] = {}
    lacking: SlotLabelsScanned | None = None
    to_label: list[UnlabelledObject] = []
    timing: Timing = msgspec.field(default_factory=Timing)
    conflicts: int = 0
    fenced: int = 0
    moves_made: dict[str, int] = {}
    forced_slots: int = 0
    moved: dict[int, str] = {}
    moved_at: dict[int, float] = {}
    rebalanced_at: float = 0.0
    ended: dict[str, float] = {}
    timer_due: float | None = None
    published: str = ""
    conditions: dict[str, JsonObject] = {}
    reported: dict[str, str] = {}
    mode: str = ""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def size(self) -> int:
        """The number of shards that there ought to be."""
        autosize = self.spec.autosize
        return self.sized if autosize is None else autosize.limits.clamp(self.sized)

    def answered(self, verb: str, name: str, now: float, refusal: str) -> None:
        """Note how an effect came out."""
        effect = f"{verb} {name}"
        self.answers = {key: at for key, at in self.answers.items() if at > now - ANSWERS_KEPT_S}
        self.answers[effect] = now
        self.refused.pop(effect, None)
        if refusal:
            self.refused[effect] = refusal

    def held(self, verb: str, name: str, now: float) -> bool:
        """Whether an effect is to wait: it was refused, or it was made and the fact about that is on its way."""
        effect = f"{verb} {name}"
        return effect in self.answers and self._held_until(effect) > now

    def holds(self) -> list[float]:
        """Log times until which effects are not asked for again."""
        return [self._held_until(effect) for effect in self.answers]

    def _held_until(self, effect: str) -> float:
        return self.answers[effect] + (RETRY_S if effect in self.refused else UNSEEN_S)

    def seen(self, name: str) -> None:
        """A fact about an object has come: what was said of effects on it is over."""
        for verb in ("create", "delete", "scale"):
            self.answers.pop(f"{verb} {name}", None)
            self.refused.pop(f"{verb} {name}", None)

    def reports(self, now: float) -> dict[str, Report]:
        """What the planner needs to know of the members."""
        return {
            member: Report(
                lease=seen.lease(self.spec, now),
                prepared=frozenset(seen.prepared),
                acknowledged=tuple(seen.stopped),
            )
            for member, seen in self.members.items()
        }


def observe_set(shard_set: ShardSetState, event: ShardSetObserved) -> None:
    """Take in a spec.

    It is in force at once, and no longer when it is reported invalid; after one that was, when that is reported to
    be over. One that cannot be read is not, and what runs stays as it was.
    """
    shard_set.present, shard_set.uid, shard_set.generation = True, event.uid, event.generation
    shard_set.mode = event.annotations.get(MODE, "")
    spec, shard_set.unread = parsed(event.spec)
    if shard_set.unread or shard_set.asked is not None or shard_set.reported.get(INVALID):
        shard_set.asked = spec
    else:
        if spec != shard_set.spec or shard_set.size_of_generation < 0:
            shard_set.former = InForce(
                spec=shard_set.spec,
                sized=shard_set.sized,
                size_of_generation=shard_set.size_of_generation,
                moved=shard_set.moved,
                slots=len(shard_set.document.slots),
            )
        _take(shard_set, spec)


def _take(shard_set: ShardSetState, spec: SetSpec) -> None:
    """A spec is in force from now on."""
    before, shard_set.spec, shard_set.asked = shard_set.spec, spec, None
    if shard_set.size_of_generation < 0 or before.replicas != spec.replicas or spec.autosize is None:
        shard_set.sized = spec.replicas
    shard_set.size_of_generation = shard_set.generation
    # A move to where the slot is already has been made; one that the spec states no longer is forgotten.
    owners = [record.owner.partition("#")[0] for record in shard_set.document.slots]
    shard_set.moved = {
        slot: name
        for slot, name in spec.moves.items()
        if shard_set.moved.get(slot) == name or (slot < len(owners) and owners[slot] == name)
    }


def _give_back(shard_set: ShardSetState, former: InForce) -> None:
    """The spec that was in force before is so again."""
    shard_set.asked, shard_set.former = shard_set.spec, None
    shard_set.spec, shard_set.sized = former.spec, former.sized
    shard_set.size_of_generation, shard_set.moved = former.size_of_generation, former.moved


def reported(shard_set: ShardSetState, reason: str, message: str) -> None:
    """Something was reported; of a spec, whether it is acted upon."""
    shard_set.reported[reason] = message
    if reason != INVALID:
        return
    if message and shard_set.asked is None and shard_set.former is not None:
        _give_back(shard_set, shard_set.former)
    elif not message and shard_set.asked is not None:
        _take(shard_set, shard_set.asked)


def judged(shard_set: ShardSetState) -> tuple[ShardSetState, list[Problem]]:
    """A set as it is acted upon, and what is wrong with the spec that its object has: with any of that, nothing is done.

    The set itself is left as it is: that it is so is recorded by a report, and folded from it.
    """
    asked, former = shard_set.asked, shard_set.former
    if asked is not None:
        problems = _problems(asked, shard_set.spec, len(shard_set.document.slots), shard_set.unread)
        if not problems:
            shard_set = copy(shard_set)
            _take(shard_set, asked)
        return shard_set, problems
    if former is None:
        return shard_set, []
    problems = _problems(shard_set.spec, former.spec, former.slots)
    if problems:
        shard_set = copy(shard_set)
        _give_back(shard_set, former)
    return shard_set, problems


def _problems(spec: SetSpec, before: SetSpec, slots: int, unread: Sequence[Problem] = ()) -> list[Problem]:
    """What is wrong with a spec after the one before, for a keyspace of so many slots; 0: there is none yet."""
    problems = [*unread, *spec_problems(spec)]
    return problems or (keyspace_problems(slots, before, spec) if slots else [])


def keyspace_problems(slots: int, before: SetSpec, spec: SetSpec) -> list[Problem]:
    """What of a keyspace of `slots` slots a new spec may not change."""
    if spec.mapped is not before.mapped:
        message = (
            f"is {spec.strategy.value}: it cannot change from {before.strategy.value}, make another ShardSet"
        )
        return [Problem("spec.assignment.strategy", message)]
    if spec.mapped:
        return []
    if spec.slots not in (slots, 2 * slots):
        message = f"is {spec.slots}: the keyspace has {slots} and can only be doubled"
        return [Problem("spec.keyspace.slots", message)]
    if spec.slots == 2 * slots and spec.strategy is Strategy.RANGES:
        message = f"is {spec.slots}: with the strategy ranges a doubling would move keys, expected sticky"
        return [Problem("spec.keyspace.slots", message)]
    if spec.hash != before.hash:
        return [Problem("spec.keyspace.hash", f"is {spec.hash}: it cannot change from {before.hash}")]
    return []


def observe_member(shard_set: ShardSetState, event: ShardMemberObserved, now: float) -> bool:
    """Take over a member's report. True when something follows from it."""
    seen = member_of(event, now)
    if seen is None:
        return False
    before = shard_set.members.get(seen.id)
    if before is None and (seen.lost or seen.released or seen.id in shard_set.ended):
        return False  # over before it was known, or come back from its end
    if before is not None:
        seen.lost = seen.lost or before.lost
        if before.renewals == seen.renewals:
            seen.changed_at, seen.not_taken_at = before.changed_at, before.not_taken_at
        seen.cleared = before.cleared
    shard_set.members[seen.id] = seen
    shard_set.timing.acting(shard_set.document, seen.id, seen.acting, now)
    record = shard_set.document.members.get(seen.id)
    if before is None or record is None or record.state is MemberState.EXPIRED:
        return True
    return _answers(before) != _answers(seen)


def member_gone(shard_set: ShardSetState, event: ShardMemberGone) -> None:
    """A member's record was deleted. One that the document does not know is forgotten."""
    for member, seen in list(shard_set.members.items()):
        if seen.record == event.name:
            seen.gone = True
            if member not in shard_set.document.members:
                del shard_set.members[member]


def fold_entry(shard_set: ShardSetState, entry: AssignmentEntry) -> None:
    """Fold one entry of the ledger. One that a rule refuses changes nothing (R4)."""
    document = shard_set.document
    slots = parse_runs(entry.slots)
    before = {
        slot: (document.slots[slot].state, document.slots[slot].since)
        for slot in slots
        if slot < len(document.slots)
    }
    try:
        apply(document, entry)
    except Refused:
        shard_set.conflicts += 1
        return
    lost = shard_set.members.get(entry.member)
    heard_at = lost.changed_at if lost is not None and lost.record else entry.at
    shard_set.timing.fold(entry, before, heard_at, reports=shard_set.spec.dynamic)
    if entry.basis and entry.kind not in ("create", "reshape", "double"):
        _take_over_target(shard_set, entry)
    match entry.kind:
        case "create":
            shard_set.target = [None] * entry.keyspace
        case "reshape":
            kept = shard_set.target[: entry.keyspace]
            shard_set.target = [*kept, *[None] * (entry.keyspace - len(kept))]
        case "double":
            shard_set.target = [*shard_set.target, *shard_set.target]
            shard_set.index_table = [*shard_set.index_table, *shard_set.index_table]
        case "leave":
            fresh = {m: at for m, at in shard_set.ended.items() if at > entry.at - REMEMBERED_S}
            shard_set.ended = {**fresh, entry.member: entry.at}
            shard_set.taking = [m for m in shard_set.taking if m != entry.member]
            seen = shard_set.members.get(entry.member)
            shard_set.fenced += seen.signals.fenced if seen is not None else 0
            if seen is not None and (seen.gone or not seen.record):
                del shard_set.members[entry.member]
        case "grant":
            count = len(parse_runs(entry.slots))
            shard_set.moves_made[entry.cause] = shard_set.moves_made.get(entry.cause, 0) + count
        case "force":
            shard_set.forced_slots += len(parse_runs(entry.slots))
        case "offer" if entry.cause in ("load", "operator"):
            for slot in parse_runs(entry.slots):
                shard_set.target[slot] = entry.member
                if entry.cause == "operator":
                    shard_set.moved[slot] = entry.member.partition("#")[0]
                shard_set.moved_at[slot] = entry.at
    if entry.basis and entry.kind in ("create", "reshape", "double"):
        _take_over_target(shard_set, entry)


def _take_over_target(shard_set: ShardSetState, entry: AssignmentEntry) -> None:
    shard_set.basis = entry.basis
    shard_set.target = [None] * len(shard_set.document.slots)
    for member, member_runs in entry.target.items():
        for slot in parse_runs(member_runs):
            shard_set.target[slot] = member


def with_target(entry: AssignmentEntry, target: Sequence[str | None], basis: str) -> AssignmentEntry:
    """An entry that records who ought to own what from now on."""
    slots: dict[str, list[int]] = {}
    for slot, member in enumerate(target):
        if member is not None:
            slots.setdefault(member, []).append(slot)
    target_runs = {member: runs(slots[member]) for member in sorted(slots)}
    return msgspec.structs.replace(entry, target=target_runs, basis=basis)


def target_of(shard_set: ShardSetState, document: Document) -> tuple[list[str | None], str] | None:
    """The target for a document and its basis; None when the one there is still holds."""
    spec, slots = shard_set.spec, len(document.slots)
    if not slots or not spec.dynamic:
        return None
    weights = weights_of(shard_set, document)
    ids = {document.members[m].name: m for m in weights}
    pins = {slot: ids[name] for slot, name in spec.pins.items() if name in ids}
    basis = _basis(slots, spec, weights, pins)
    if basis == shard_set.basis and len(shard_set.target) == slots:
        return None
    if spec.strategy is Strategy.RANGES:
        return _ranges(slots, sorted(weights)), basis
    previous = [r.incoming or r.owner or None for r in document.slots]
    return list(assign(slots, previous, weights, pins).table), basis


def _basis(slots: int, spec: SetSpec, weights: Mapping[str, int], pins: Mapping[int, str]) -> str:
    text = f"{slots} {spec.strategy} {sorted(weights.items())} {sorted(pins.items())}"
    return blake2b(text.encode(), digest_size=8).hexdigest()


def doubled_target(shard_set: ShardSetState) -> tuple[list[str | None], str]:
    """The target for a doubled keyspace, and its basis: no key moves for a rounded quota, nor for who joins meanwhile."""
    document, spec = shard_set.document, shard_set.spec
    weights = weights_of(shard_set, document)
    ids = {document.members[m].name: m for m in weights}
    pins = {slot: ids[name] for slot, name in spec.pins.items() if name in ids}
    return [*shard_set.target, *shard_set.target], _basis(2 * len(document.slots), spec, weights, pins)


def weights_of(shard_set: ShardSetState, document: Document) -> dict[str, int]:
    """The members that may own slots, with their weights."""
    spec = shard_set.spec
    weights: dict[str, int] = {}
    for member, record in document.members.items():
        # An expired lease may still be renewed: its slots are not planned away before it is taken.
        if record.state in (MemberState.READY, MemberState.EXPIRED):
            weights[member] = spec.weights.get(record.name, record.weight)
    return weights


def doubly_claimed(shard_set: ShardSetState, now: float) -> list[int]:
    """Slots on which two members report to act, both under a lease that holds."""
    claims: dict[int, int] = {}
    for seen in shard_set.members.values():
        if seen.lease(shard_set.spec, now) is LeaseState.READY:
            for slot in seen.acting:
                claims[slot] = claims.get(slot, 0) + 1
    return sorted(slot for slot, count in claims.items() if count > 1)


def wanted_moves(shard_set: ShardSetState, document: Document, now: float) -> dict[str, list[int]]:
    """The spec's moves that can be begun now: slots by member id."""
    ids = {record.name: member for member, record in document.members.items() if member in document.ready()}
    moves: dict[str, list[int]] = {}
    for slot, name in sorted(shard_set.spec.moves.items()):
        if shard_set.moved.get(slot) == name or name not in ids or slot >= len(document.slots):
            continue
        record, seen = document.slots[slot], shard_set.members.get(ids[name])
        healthy = seen is not None and seen.lease(shard_set.spec, now) is LeaseState.READY
        if healthy and record.state is SlotState.OWNED and not record.incoming and record.owner != ids[name]:
            moves.setdefault(ids[name], []).append(slot)
    return moves


def _answers(seen: MemberSeen) -> tuple[Any, ...]:
    """What of a report the planner answers to."""
    return (seen.released, seen.leaving, seen.lost, seen.prepared, seen.stopped, seen.acting, seen.weight)


def _ranges(slots: int, members: Sequence[str]) -> list[str | None]:
    if not members:
        return [None] * slots
    parts = zip(members, shard_ranges(slots, len(members)), strict=True)
    return [member for member, part in parts for _slot in part]
