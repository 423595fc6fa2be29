"""A member's side of the hand-over (section 3.5), without I/O: what it must do, what it may do.

The shell around it observes documents, runs the four callbacks that `observe` asks for, and reports
back when they are done. Three rules live here: the identity contains the incarnation (R1), an
acknowledgement follows the stop (R2), and a member stops by itself when its lease runs out (R3).

    observe -> Prepare ... prepared()
            -> Activate ... activated()    guard() passes from here
            -> Drain ... drained()         guard() has refused since Drain was asked for
            -> Revoke                      at once, nothing to report
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

import msgspec

from tidewright.sharding.document import Document, MemberState, SlotState, member_id
from tidewright.sharding.lease import LeaseTimes


class NotOwner(Exception):
    """The member may not act on a slot; the message says why."""

    def __init__(self, slot: int, reason: str) -> None:
        super().__init__(f"slot {slot}: {reason}")
        self.slot, self.reason = slot, reason


class NotStopped(Exception):
    """An acknowledgement before the stop."""


class Prepare(msgspec.Struct, frozen=True):
    """Warm up: load a snapshot, open the watch. No effects."""

    slot: int
    epoch: int


class Activate(msgspec.Struct, frozen=True):
    """Write the fence record under this epoch, then act, from after the checkpoint."""

    slot: int
    epoch: int
    checkpoint: str


class Drain(msgspec.Struct, frozen=True):
    """Take no new work, finish what is in flight, say where it stopped."""

    slot: int
    epoch: int


class Revoke(msgspec.Struct, frozen=True):
    """Drop the slot now; no effect is allowed from this moment."""

    slot: int
    epoch: int


Task: TypeAlias = Prepare | Activate | Drain | Revoke


class Phase(StrEnum):
    """What a member does with a slot."""

    PREPARING = "Preparing"
    PREPARED = "Prepared"
    ACTIVATING = "Activating"
    ACTING = "Acting"
    DRAINING = "Draining"
    STOPPED = "Stopped"


class Holding(msgspec.Struct):
    """One slot as the member has it. `checkpoint`: where it stopped, with phase `STOPPED`."""

    phase: Phase
    epoch: int
    checkpoint: str = ""


class Acknowledgement(msgspec.Struct, frozen=True):
    """The member has stopped a slot that it held under `epoch`."""

    slot: int
    epoch: int
    checkpoint: str


class Member(msgspec.Struct, kw_only=True):
    """One worker process, from its start to its end. A new process is a new member.

    Attributes:
        renewed_at: when the last successful renewal was *sent*, on the local monotonic clock.
        fenced: it has stopped for good; only a new incarnation may come back.
        revision: of the newest document it has seen; older ones change nothing.
    """

    name: str
    incarnation: str
    times: LeaseTimes = LeaseTimes()
    renewed_at: float = 0.0
    fenced: bool = False
    revision: int = -1
    holdings: dict[int, Holding] = {}

    @property
    def id(self) -> str:
        return member_id(self.name, self.incarnation)

    def acting(self) -> list[int]:
        """The slots that it acts on, ascending."""
        return sorted(s for s, h in self.holdings.items() if h.phase is Phase.ACTING)

    def renewed(self, sent_at: float, acked_at: float) -> list[Task]:
        """A renewal succeeded. Answered too late it does not help: the member has stopped already."""
        if self.fenced or not self.times.renewed_in_time(self.renewed_at, acked_at):
            return self.fence()
        self.renewed_at = max(self.renewed_at, sent_at)
        return []

    def tick(self, now: float) -> list[Task]:
        """Stop everything when the lease has run out (R3)."""
        return self.fence() if not self.fenced and now >= self.times.act_until(self.renewed_at) else []

    def fence(self) -> list[Task]:
        """Stop everything for good."""
        self.fenced = True
        tasks: list[Task] = [Revoke(slot, h.epoch) for slot, h in sorted(self.holdings.items())]
        self.holdings.clear()
        return tasks

    def observe(self, document: Document) -> list[Task]:
        """What a document asks of this member."""
        if self.fenced or document.revision <= self.revision:
            return []
        self.revision = document.revision
        own = self.id
        record = document.members.get(own)
        if record is not None and record.state is MemberState.TAKEN:
            return self.fence()
        tasks: list[Task] = []
        for slot, entry in enumerate(document.slots):
            if entry.owner == own:
                tasks.extend(self._as_owner(slot, entry.state, entry.epoch, entry.checkpoint))
            elif entry.incoming == own and entry.state is not SlotState.FREE:
                tasks.extend(self._as_incoming(slot, entry.epoch + 1))
            elif slot in self.holdings and not (entry.incoming == own and entry.state is SlotState.FREE):
                tasks.append(Revoke(slot, self.holdings.pop(slot).epoch))
        return tasks

    def prepared(self, slot: int) -> None:
        """A preparation is done."""
        holding = self.holdings.get(slot)
        if holding is not None and holding.phase is Phase.PREPARING:
            holding.phase = Phase.PREPARED

    def activated(self, slot: int, epoch: int) -> None:
        """The fence record is written: the member acts, unless things have changed meanwhile."""
        holding = self.holdings.get(slot)
        if holding is not None and holding.phase is Phase.ACTIVATING and holding.epoch == epoch:
            holding.phase = Phase.ACTING

    def drained(self, slot: int, epoch: int, checkpoint: str = "") -> None:
        """The member has stopped a slot and persisted where."""
        holding = self.holdings.get(slot)
        if holding is not None and holding.phase is Phase.DRAINING and holding.epoch == epoch:
            holding.phase, holding.checkpoint = Phase.STOPPED, checkpoint

    def acknowledge(self, slot: int) -> Acknowledgement:
        """The acknowledgement of a drain.

        Raises:
            NotStopped: the member still acts on the slot, or does not hold it (R2).
        """
        holding = self.holdings.get(slot)
        if holding is None or holding.phase is not Phase.STOPPED:
            phase = holding.phase.value if holding else "not held"
            raise NotStopped(f"slot {slot} is {phase}: only a stopped slot is acknowledged")
        return Acknowledgement(slot, holding.epoch, holding.checkpoint)

    def acknowledgements(self) -> list[Acknowledgement]:
        """Of all slots that are stopped, ascending."""
        return [self.acknowledge(s) for s, h in sorted(self.holdings.items()) if h.phase is Phase.STOPPED]

    def guard(self, slot: int, now: float) -> int:
        """The epoch under which the member may act on a slot at this moment.

        To be asked before each effect: a timer alone is not enough in a process that can stall.

        Raises:
            NotOwner: it may not.
        """
        if self.fenced:
            raise NotOwner(slot, "this member has stopped for good; a new incarnation must join")
        if now >= self.times.act_until(self.renewed_at):
            raise NotOwner(slot, f"the lease ran out {now - self.times.act_until(self.renewed_at):.3f} s ago")
        holding = self.holdings.get(slot)
        if holding is None or holding.phase is not Phase.ACTING:
            raise NotOwner(slot, f"{holding.phase.value if holding else 'not held'} by {self.id}")
        return holding.epoch

    def _as_owner(self, slot: int, state: SlotState, epoch: int, checkpoint: str) -> list[Task]:
        holding = self.holdings.get(slot)
        if state is SlotState.OWNED:
            if (
                holding is None
                or holding.epoch != epoch
                or holding.phase in (Phase.PREPARING, Phase.PREPARED)
            ):
                # After a cancelled drain the member resumes from its own stop, not from an older one.
                resumed = holding.checkpoint if holding and holding.phase is Phase.STOPPED else ""
                self.holdings[slot] = Holding(Phase.ACTIVATING, epoch)
                return [Activate(slot, epoch, resumed or checkpoint)]
            return []
        if holding is None or holding.phase in (Phase.PREPARING, Phase.PREPARED):
            # It never acted under this epoch: nothing to finish, stopped by nature.
            self.holdings[slot] = Holding(Phase.STOPPED, epoch, checkpoint)
        elif holding.phase in (Phase.ACTIVATING, Phase.ACTING) or holding.epoch != epoch:
            # An activation may have begun, and a cancelled drain may have gone unseen: both are
            # drained like anything else, and a report under the earlier epoch comes too late.
            self.holdings[slot] = Holding(Phase.DRAINING, epoch)
            return [Drain(slot, epoch)]
        return []

    def _as_incoming(self, slot: int, epoch: int) -> list[Task]:
        if slot in self.holdings:
            return []
        self.holdings[slot] = Holding(Phase.PREPARING, epoch)
        return [Prepare(slot, epoch)]
