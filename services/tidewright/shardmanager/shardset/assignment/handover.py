"""The manager's side of the hand-over (section 3.5): which ledger entries come next.

A pure function of the document, what the members report, how their leases stand, and who ought to
own what. It plans a slot's way prepare -> drain -> grant; the member's side (resume) and the rules
that make it safe are in `tidewright.sharding`.

Order within one plan: lost members first (their slots are free), then what is in motion (withdraw,
cancel, release, drain), then grants of everything free, last new offers within the budget.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from tidewright.sharding.document import Document, Entry, EntryKind, MemberState, SlotState
from tidewright.sharding.keyspace import runs
from tidewright.sharding.lease import LeaseState
from tidewright.sharding.member import Acknowledgement


class HandoverTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of a planned move. Times in seconds."""

    prepare_timeout_s: float = 60.0
    drain_timeout_s: float = 20.0
    drain_hard_timeout_s: float = 60.0
    max_concurrent: int = 64


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a member said last.

    Attributes:
        lease: how the manager regards its lease now. `TAKEN` and `RELEASED` free its slots.
        prepared: slots that it has warmed up for.
        acknowledged: slots that it has stopped, each with the epoch under which it held them.
    """

    lease: LeaseState = LeaseState.READY
    prepared: frozenset[int] = frozenset()
    acknowledged: tuple[Acknowledgement, ...] = ()


class HandoverPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What to do now.

    Attributes:
        entries: ledger entries, with consecutive revisions.
        take: members whose lease must be taken, by compare-and-swap on their own record, before
            their slots can be given to others; with the reason.
        overdue: slots whose drain lasts longer than `drain_timeout_s`, to be reported.
        wake_at: log time at which something is due without any event; None: nothing is.
    """

    entries: tuple[Entry, ...] = ()
    take: tuple[tuple[str, str], ...] = ()
    overdue: tuple[int, ...] = ()
    wake_at: float | None = None


class Planner:
    """Collects entries for one revision of a document; used for one plan."""

    def __init__(
        self,
        document: Document,
        target: Sequence[str | None],
        reports: Mapping[str, Report],
        *,
        times: HandoverTimes,
        now: float,
        freed: Mapping[int, str],
    ) -> None:
        self.document = document
        self.target = target
        self.reports = reports
        self.times = times
        self.now = now
        self.entries: list[Entry] = []
        self.take: dict[str, str] = {}
        self.overdue: list[int] = []
        self.due: list[float] = []
        self.free: dict[int, str] = dict(
            freed
        )  # slots that can be granted in this plan, and why they are free
        self.motion = 0

    def plan(self) -> HandoverPlan:
        self.lost_members()
        self._in_motion()
        self._grants()
        if not self.document.frozen:
            self._offers()
        return HandoverPlan(
            entries=tuple(self.entries),
            take=tuple(sorted(self.take.items())),
            overdue=tuple(self.overdue),
            wake_at=min(self.due, default=None),
        )

    def lost_members(self) -> None:
        """Their slots are free, and they are no members any more."""
        for member, record in sorted(self.document.members.items()):
            lease = self._lease(member)
            if lease in (LeaseState.TAKEN, LeaseState.RELEASED):
                cause = "crash" if lease is LeaseState.TAKEN else "exit"
                if record.state is not MemberState.TAKEN:
                    self._add("take", member=member, cause=cause)
                if held := self.document.owned_by(member):
                    self._add("force", slots=held, member=member, cause=cause)
                    self.free.update(dict.fromkeys(held, cause))
                self._add("leave", member=member, cause=cause)
            elif lease is LeaseState.EXPIRED:
                if record.state is MemberState.READY:
                    self._add("expire", member=member, cause="lease")
                self.take[member] = "LeaseExpired"
            elif record.state is MemberState.EXPIRED:
                self._add("recover", member=member, cause="renewed")

    def _in_motion(self) -> None:
        groups: dict[tuple[EntryKind, str, str], list[int]] = defaultdict(list)
        checkpoints: dict[str, dict[str, str]] = defaultdict(dict)
        acknowledged = self._acknowledgements()
        for slot in self.document.moving:
            record = self.document.slots[slot]
            if slot in self.free or record.state is SlotState.FREE:
                continue
            self.motion += 1
            healthy = self._healthy(record.incoming)
            if record.state is SlotState.OWNED:
                if not healthy:
                    groups["withdraw", record.incoming, "TargetLost"].append(slot)
                elif slot in self.reports.get(record.incoming, _SILENT).prepared:
                    groups["drain", record.owner, "Prepared"].append(slot)
                elif self.now >= record.since + self.times.prepare_timeout_s:
                    groups["withdraw", record.incoming, "PrepareTimeout"].append(slot)
                else:
                    self.due.append(record.since + self.times.prepare_timeout_s)
                    continue
                continue
            stopped = acknowledged.get((record.owner, slot, record.epoch))
            if stopped is not None:
                groups["release", record.owner, "Acknowledged"].append(slot)
                checkpoints[record.owner][str(slot)] = stopped.checkpoint
                self.free[slot] = "planned"
            elif not healthy and self._alive(record.owner):
                groups["cancel", record.owner, "TargetLost"].append(slot)
            else:
                self._wait_for_drain(slot, record.owner, record.since)
        for (kind, member, cause), slots in sorted(groups.items()):
            self._add(
                kind,
                slots=slots,
                member=member,
                cause=cause,
                checkpoints=checkpoints[member] if kind == "release" else {},
            )

    def _wait_for_drain(self, slot: int, owner: str, since: float) -> None:
        soft, hard = since + self.times.drain_timeout_s, since + self.times.drain_hard_timeout_s
        if self.now >= hard:
            # The owner loses all its slots: one that does not stop one slot cannot be trusted with others.
            self.take.setdefault(owner, "DrainNotAcknowledged")
        elif self.now >= soft:
            self.overdue.append(slot)
            self.due.append(hard)
        else:
            self.due.append(soft)

    def _grants(self) -> None:
        """Everything free goes to whom it ought to, or to whom it was being moved to."""
        groups: dict[tuple[str, str], list[int]] = defaultdict(list)
        for slot, record in enumerate(self.document.slots):
            if record.state is not SlotState.FREE and slot not in self.free:
                continue
            cause = self.free.get(slot, "free")
            for candidate in (record.incoming, self.target[slot]):
                if candidate and self._healthy(candidate):
                    groups[candidate, cause].append(slot)
                    break
        for (member, cause), slots in sorted(groups.items()):
            self._add("grant", slots=slots, member=member, cause=cause)

    def _offers(self) -> None:
        """Start moves, the donors taking turns, so that no member is idled by a rebalance."""
        moving = set(self.document.moving)
        misplaced: dict[str, list[int]] = defaultdict(list)
        for slot, record in enumerate(self.document.slots):
            due = self.target[slot]
            if (
                record.state is SlotState.OWNED
                and slot not in moving
                and slot not in self.free
                and due is not None
                and due != record.owner
                and self._healthy(due)
                and self._alive(record.owner)
            ):
                misplaced[record.owner].append(slot)
        groups: dict[str, list[int]] = defaultdict(list)
        budget = self.times.max_concurrent - self.motion
        while budget > 0 and misplaced:
            for donor in sorted(misplaced):
                if budget <= 0:
                    break
                slot = misplaced[donor].pop(0)
                groups[self.target[slot] or ""].append(slot)
                budget -= 1
                if not misplaced[donor]:
                    del misplaced[donor]
        for member, slots in sorted(groups.items()):
            self._add("offer", slots=slots, member=member, cause="rebalance")

    def _acknowledgements(self) -> dict[tuple[str, int, int], Acknowledgement]:
        return {
            (member, ack.slot, ack.epoch): ack
            for member, report in self.reports.items()
            for ack in report.acknowledged
        }

    def _lease(self, member: str) -> LeaseState:
        report = self.reports.get(member)
        # Never `TAKEN`: only whoever took the lease knows that the member has stopped.
        return report.lease if report is not None else LeaseState.EXPIRED

    def _alive(self, member: str) -> bool:
        """Whether a member can give up a slot in an orderly way, itself on its way out or not."""
        return member in self.document.members and self._lease(member) is LeaseState.READY

    def _healthy(self, member: str) -> bool:
        """Whether a member may be given a slot."""
        record = self.document.members.get(member)
        return (
            record is not None
            and record.state in (MemberState.READY, MemberState.EXPIRED)
            and self._lease(member) is LeaseState.READY
        )

    def _add(
        self,
        kind: EntryKind,
        *,
        slots: Iterable[int] = (),
        member: str = "",
        cause: str = "",
        checkpoints: Mapping[str, str] | None = None,
    ) -> None:
        self.entries.append(
            Entry(
                kind=kind,
                revision=self.document.revision + len(self.entries),
                at=self.now,
                slots=runs(slots),
                member=member,
                cause=cause,
                checkpoints=dict(checkpoints or {}),
            )
        )


_SILENT = Report()


def plan(
    document: Document,
    target: Sequence[str | None],
    reports: Mapping[str, Report],
    *,
    times: HandoverTimes,
    now: float,
    freed: Mapping[int, str] | None = None,
) -> HandoverPlan:
    """The next entries of a shard set's ledger.

    `target` says who ought to own each slot, by member id; `now` is log time in seconds. The lease
    of a member without a report is taken first. `freed` says why slots are free that `losses` freed.
    """
    return Planner(document, target, reports, times=times, now=now, freed=freed or {}).plan()


def losses(
    document: Document, reports: Mapping[str, Report], now: float
) -> tuple[list[Entry], dict[int, str]]:
    """The entries for members that are lost, and which slots that frees and why.

    Apart from `plan`, because who ought to own what has to be worked out anew in between.
    """
    planner = Planner(document, (), reports, times=HandoverTimes(), now=now, freed={})
    planner.lost_members()
    return planner.entries, planner.free
