"""Plays the hand-over traces of the vectors on the real document, members, planner and sink.

A trace is a list of short sentences. Each is turned into what it says: a ledger entry, something a
member does, time passing. What a rule refuses is remembered and changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

from tests.vectors.reference.fence import Fence, StaleEpoch
from tidewright.sharding.document import (
    Document,
    Entry,
    EntryKind,
    MemberState,
    Refused,
    SlotState,
    apply,
    created,
)
from tidewright.sharding.keyspace import parse_runs, runs
from tidewright.sharding.lease import LeaseState, LeaseTimes
from tidewright.sharding.member import Drain, Member, NotOwner, NotStopped, Phase, Task
from tidewright.shardmanager.shardset.assignment.handover import HandoverTimes, Report, plan

S, OTHER = 0, 1  # the slot that the traces are about, and another one of the same owner
TIMES = LeaseTimes()


class World:
    """One shard set with two slots and members A, B, C."""

    def __init__(self, free: bool) -> None:
        self.document = Document()
        self.now = 100.0
        self.fence = Fence()
        self.members: dict[str, Member] = {}
        self.silent: set[str] = set()
        self.refused: list[str] = []
        self.decided: dict[str, list[Entry]] = {}
        self.dual_owner = self.aborted = self.interrupted = self.forced = False
        self.write = self.write_reason = self.replay = ""
        apply(self.document, created(2, self.now))
        for name in "ABC":
            self.join(name, "1")
        if not free:
            self.entry("grant", "A", [S, OTHER])
            self.activate("A")
            self.fence.accept(S, 1)
        self.start_epoch = self.document.slots[S].epoch

    def join(self, name: str, incarnation: str) -> None:
        member = Member(name=name, incarnation=incarnation, times=TIMES, renewed_at=self.now)
        self.entry("join", member.id)
        self.members[name] = member
        self.silent.discard(name)

    def entry(self, kind: EntryKind, member: str = "", slots: Sequence[int] = (), **more: Any) -> None:
        who = self.members[member].id if member in self.members and "#" not in member else member
        revision = self.document.revision
        apply(
            self.document,
            Entry(kind=kind, revision=revision, at=self.now, member=who, slots=runs(slots), **more),
        )

    def attempt(self, what: str, action: Callable[[], object]) -> None:
        try:
            action()
        except (Refused, NotStopped, NotOwner, StaleEpoch) as refusal:
            self.refused.append(f"{what}: {refusal}")
        self.check()

    def check(self) -> None:
        """How many members may act on the slot at this moment."""
        acting = 0
        for member in self.members.values():
            try:
                member.guard(S, self.now)
            except NotOwner:
                continue
            acting += 1
        self.dual_owner |= acting > 1

    def observe(self, name: str) -> list[Task]:
        tasks = self.members[name].observe(deepcopy(self.document))
        self.interrupted |= any(isinstance(t, Drain) and t.slot == S for t in tasks)
        return tasks

    def stop(self, name: str, checkpoint: str = "") -> None:
        member = self.members[name]
        if S in member.holdings:
            member.drained(S, member.holdings[S].epoch, checkpoint)

    def activate(self, name: str, *, observe: bool = True) -> None:
        if observe:
            self.observe(name)
        member = self.members[name]
        for slot, holding in list(member.holdings.items()):
            if holding.phase is Phase.ACTIVATING:
                self.fence.accept(slot, holding.epoch)
                member.activated(slot, holding.epoch)
        member.guard(S, self.now)

    def acknowledge(self, name: str, checkpoint: str, *, stop: bool) -> None:
        member = self.members[name]
        if stop:
            self.observe(name)
            self.stop(name, checkpoint)
        ack = member.acknowledge(S)
        record = self.document.slots[S]
        if (record.state, record.epoch) != (SlotState.DRAINING, ack.epoch):
            raise Refused("StaleEpoch", f"the acknowledgement is of epoch {ack.epoch}")
        self.entry("release", name, [S], checkpoints={str(S): checkpoint or ack.checkpoint})

    def expire(self, name: str) -> None:
        """Nothing is heard of a member until its lease may be taken; the others renew."""
        self.now = max(self.now, TIMES.expires_at(self.members[name].renewed_at))
        self.silent.add(name)
        for other, member in self.members.items():
            if other not in self.silent:
                # Renewed every few seconds meanwhile; only the last one matters.
                member.renewed_at = self.now
        record = self.document.slots[S]
        if record.incoming == self.members[name].id and record.state is SlotState.OWNED:
            self.follow_plan()

    def follow_plan(self) -> None:
        """Let the manager's planner decide."""
        for entry in self.planned().entries:
            self.aborted |= entry.kind in ("withdraw", "cancel")
            apply(self.document, entry)

    def planned(self) -> Any:
        reports = {}
        for member_id, record in self.document.members.items():
            lease = LeaseState.TAKEN if record.state is MemberState.TAKEN else LeaseState.READY
            if record.name in self.silent and lease is LeaseState.READY:
                lease = LeaseState.EXPIRED
            reports[member_id] = Report(lease=lease)
        target = [slot.owner or None for slot in self.document.slots]
        return plan(self.document, target, reports, times=HandoverTimes(), now=self.now)

    def take(self, name: str) -> None:
        owner = next(m for m in self.document.members if m.startswith(f"{name}#"))
        self.entry("take", owner)
        self.forced = True
        self.members[name].tick(self.now)
        self.observe(name)
        if held := self.document.owned_by(owner):
            self.entry("force", owner, held)

    def decide_force(self, who: str) -> None:
        owner = self.document.slots[S].owner
        entries = [
            Entry(kind="take", revision=self.document.revision, at=self.now, member=owner),
            Entry(
                kind="force",
                revision=self.document.revision + 1,
                at=self.now,
                member=owner,
                slots=runs(self.document.owned_by(owner)),
            ),
        ]
        self.decided[who] = entries

    def apply_force(self, who: str) -> None:
        if who not in self.decided:
            self.take(self.document.slots[S].owner.partition("#")[0])
            return
        for entry in self.decided[who]:
            apply(self.document, entry)

    def grant(self, name: str) -> None:
        self.entry("grant", name, [S])
        free = self.document.unowned()
        if free:  # the other slots that the same loss freed
            self.entry("grant", name, free)

    def write_with(self, epoch: int) -> None:
        try:
            self.fence.accept(S, epoch)
        except StaleEpoch:
            self.write, self.write_reason = "rejected", "StaleEpoch"
            raise
        self.write = "accepted"

    def answer(self) -> dict[str, Any]:
        record = self.document.slots[S]
        of_a = [m for m in self.document.members if m.startswith("A#")]
        kept = parse_runs(runs(s for m in of_a for s in self.document.owned_by(m)))
        return {
            "owner": record.owner.partition("#")[0],
            "epoch_delta": record.epoch - self.start_epoch,
            "dual_owner": self.dual_owner,
            "aborted": self.aborted,
            "interruption": self.interrupted,
            "replay_from": "last durable checkpoint" if self.forced else f"checkpoint {record.checkpoint}",
            "a_slots": kept,
            "other_slots_of_A": "kept" if OTHER in kept else "reassigned too",
            "write_of_A": self.write,
            "reason": self.write_reason,
        }


def _no_effect(_: World, *__: str) -> None:
    """Time or a fact that nothing follows from yet."""


def _plan_move(w: World, source: str, target: str) -> None:
    assert w.document.slots[S].owner.startswith(f"{source}#")
    w.entry("offer", target, [S])
    w.observe(target)


def _prepared(w: World, name: str) -> None:
    w.observe(name)
    w.members[name].prepared(S)


def _drain(w: World) -> None:
    w.entry("drain", w.document.slots[S].owner, [S])


def _cancel(w: World) -> None:
    w.follow_plan()
    assert w.document.slots[S].state is SlotState.OWNED


def _expires_unstopped(w: World, name: str) -> None:
    w.expire(name)
    w.members[name].guard(S, w.now)  # a member whose lease ran out may not act, told or not


def _epoch_and_fence(w: World, name: str, epoch: str) -> None:
    w.fence.accept(S, int(epoch))


def _rejoin(w: World, name: str, how: str) -> None:
    record = w.members[name]
    if how == "under the same identity":
        w.join(name, record.incarnation)
    else:
        w.members[name].fence()
        w.join(name, str(int(record.incarnation) + 1))


_SENTENCES: tuple[tuple[str, Callable[..., object]], ...] = (
    (r"plan s (\w)->(\w)", _plan_move),
    (r"(\w) prepared", _prepared),
    (r"manager drain", _drain),
    (r"manager cancel drain.*", _cancel),
    (r"(?:manager )?grant (?:s to )?(\w)(?: epoch\+1)?", lambda w, m: w.grant(m)),
    (r"(\w) observes(?: drain)?", lambda w, m: w.observe(m)),
    (r"(\w) stops", lambda w, m: w.stop(m)),
    (r"(\w) acks(?: checkpoint=(\d+))?", lambda w, m, c: w.acknowledge(m, c or "", stop=True)),
    (r"(\w) acks while acting", lambda w, m: w.acknowledge(m, "", stop=False)),
    (r"(\w) fences sink", _no_effect),  # part of activating: the fence record precedes the first effect
    (r"(\w) activates at epoch (\d+) and writes its fence record", _epoch_and_fence),
    (r"(\w) activates from its old view", lambda w, m: w.activate(m, observe=False)),
    (r"(\w) activates(?: at \d+| from last durable checkpoint)?", lambda w, m: w.activate(m)),
    (r"(\w) writes with epoch (\d+)", lambda w, m, e: w.write_with(int(e))),
    (r"(\w) (?:self-)?fences", lambda w, m: w.members[m].fence()),
    (r"(\w) stops (?:everything|all slots at .*)", lambda w, m: w.members[m].fence()),
    (r"(\w) cannot renew", lambda w, m: w.silent.add(m)),
    (r"(\w) expires without having stopped", _expires_unstopped),
    (r"(\w)(?: lease)? expires", lambda w, m: w.expire(m)),
    (r"manager takes the lease of (\w)", lambda w, m: w.take(m)),
    (r"(manager(?: \d+)?)(?: \(.*?\))? decides force(?: \(.*\))?", lambda w, who: w.decide_force(who)),
    (r"force of (manager \d+) applied.*", lambda w, who: w.apply_force(who)),
    (r"force applied", lambda w: w.apply_force("manager")),
    (r"(\w) re(?:joins|connects) (under the same identity|with a new incarnation)", _rejoin),
    (r"wait skew margin|drain_timeout passes|manager extends to .*|still no ack", _no_effect),
)


class Unread(ValueError):
    """A sentence that the player does not know."""


def play(events: Sequence[str]) -> World:
    """Play a trace from a fresh world in which A owns the slot, unless the trace grants it."""
    world = World(free=events[0].startswith("grant "))
    for text in events:
        for pattern, action in _SENTENCES:
            if found := re.fullmatch(pattern, text):
                world.attempt(text, lambda a=action, f=found: a(world, *f.groups()))  # type: ignore[misc]  # bound at once
                break
        else:
            raise Unread(f"no rule for {text!r}")
    return world
