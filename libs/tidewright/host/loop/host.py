"""The loop that every decider runs in: claim, restore, read, fold, commit, hand over.

One reader serves all slots of the process. A newly won slot is restored by a reader of its own
while the others go on, is claimed, and then joins. A slot whose checkpoint cannot be gone on from, or whose
decider fails, stops and says so; the others go on, and so does one that a fact of a newer version stops. What does not decode
is set aside by everybody alike. A log that is another than before stops everything.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Collection, Sequence, Set
from typing import Any, Generic

from tidewright.events import acting, registry
from tidewright.events.base import Event, Timer
from tidewright.events.config import ClockSet
from tidewright.events.halts import HaltReason, SlotHalted
from tidewright.events.timers import TimerStepped
from tidewright.host.fold import plan
from tidewright.host.fold.decider import Decider, State
from tidewright.host.fold.inputs import Inputs
from tidewright.host.loop.alarms import Alarms
from tidewright.host.loop.arriving import FETCH, FETCH_WAIT_S, OUTAGE_PAUSE_S, Arrival
from tidewright.host.loop.commit import Committer, Owned
from tidewright.host.loop.firing import Firing
from tidewright.host.loop.halts import Halts
from tidewright.host.loop.membership import Membership, shares
from tidewright.host.loop.newer import Newer
from tidewright.host.loop.settings import Settings
from tidewright.host.loop.snapshotting import Snapshotter
from tidewright.host.process.health import Health
from tidewright.log import errors
from tidewright.log.clock import Clock
from tidewright.log.commit_pacing import Pace
from tidewright.log.connection import Log
from tidewright.log.diagnostics import get_logger
from tidewright.log.envelope import MAX_BATCH, SCHEDULER, Writer
from tidewright.log.reader import Reader, Record
from tidewright.log.snapshots import Snapshots
from tidewright.log.subjects import Slot

COMMIT_AFTER_EVENTS = 2000
COMMIT_AFTER_S = 1.0
"""A fold without decisions is not committed at once: folding it again gives the same. Counted from the first event that no
checkpoint covers: what follows from one thing comes in bursts, and one checkpoint covers a burst."""
COMMIT_PENDING = MAX_BATCH // 2
"""Decisions pending, over all slots, that are not let grow further within a fetch."""
HANDOVER_S = 0.4
"""A store that takes longer makes the others read more; waiting for it would cost them more than that."""
LAST_WAIT_S = 0.02
DOUBT_S = 2.0
"""How often a slot that cannot be gone on from is looked at again."""
SAID_ASIDE = 1000
"""Subjects of which it is said that a message on them is set aside; of others it is only counted."""
WARM_S = 0.25
"""How often a standby follows its slot's owner."""

logger = get_logger(__name__)


class Host(Generic[State]):
    """Runs one decider on one log."""

    def __init__(
        self,
        decider: Decider[State, Any],
        log: Log,
        membership: Membership,
        health: Health,
        *,
        writer: Writer,
        clock: Clock | None = None,
        settings: Settings | None = None,
        stored: Snapshots | None = None,
    ) -> None:
        self.decider = decider
        self.log = log
        self.health = health
        self.writer = writer
        self.clock = clock or Clock()
        self.settings = settings or Settings()
        self.inputs = Inputs(
            decider.service,
            decider.kinds,
            log.subjects,
            log.slots,
            self.settings.partition,
            self.settings.follows,
            decider.ledgers,
            decider.formerly,
            decider.outcomes,
            decider.outcomes_but,
        )
        self.owned: dict[Slot, Owned[State]] = {}
        exposition = decider.exposition
        self.tally = exposition.tally() if exposition is not None and exposition.tally is not None else None
        self._membership = membership
        self._committer = Committer(log, writer, health)
        self._pace = Pace()
        self.firing = Firing(log, writer, self.clock)
        self._reader: Reader | None = None
        self._stored = stored or Snapshots(log)
        self._snapshotter = Snapshotter[State](log, self._stored, self.settings)
        self._arrivals: dict[asyncio.Task[Arrival[State]], Arrival[State]] = {}
        self.warm: frozenset[Slot] = frozenset()
        """Slots of another owner that are folded here as well, to be taken over at once."""
        self._doubts: dict[Slot, str] = {}
        """Slots that nobody may claim, and why."""
        self._broken: asyncio.Task[errors.Unsound] | None = None
        self._said_aside: set[str] = set()
        self._halts = Halts(log, writer, self.settings.renew_s)
        self._newer = Newer(log.subjects, health.metrics.set_aside.inc)
        self._pending = 0  # decisions not committed yet, over all slots

    async def run(self, stop: asyncio.Event) -> None:
        """Decide until `stop` is set; then commit, and hand the slots over."""
        if not await self._joined(stop):
            return
        self._broken = asyncio.create_task(self.log.continuity.until_broken())
        asking = asyncio.create_task(self.firing.ask_on())
        try:
            await self._decide_until(stop)
        except errors.Unsound as error:
            await self._halt_all(error, stop)
        finally:
            self._broken.cancel()
            asking.cancel()
            await self._halts.close()
            for arriving in self._arrivals:
                arriving.cancel()  # its consumer is forgotten by the server after a while
            await self._drop_reader()
            await self._membership.leave()
            await self._snapshotter.close()

    async def _decide_until(self, stop: asyncio.Event) -> None:
        """Raises Unsound: the log is another than before, or a slot's beginning is not on it."""
        while not stop.is_set():
            self.health.tick()
            if self._broken is not None and self._broken.done():
                raise self._broken.result()
            try:
                await self._settle()
                if self.owned:
                    await self._turn()
                else:
                    await self._idle(stop)
            except errors.LogUnavailable as error:
                self.health.not_ready = str(error)
                self.health.metrics.errors.labels(error.reason).inc()
                self.log.outage.met("deciding", error)
                await self._drop_reader()  # what it had handed out is read again by who has not folded it
                await asyncio.sleep(OUTAGE_PAUSE_S)
        await self._last_turns()
        await self._commit(self.owned.values())

    async def _halt_all(self, error: errors.Unsound, stop: asyncio.Event) -> None:
        """Decide nothing more, until told to stop. The slots stay ours: nobody shall begin anew in our place."""
        self.health.halted = str(error)
        self.health.metrics.errors.labels(error.reason).inc()
        self.health.metrics.halted.set(len(self.owned))
        self.owned.clear()
        logger.error("halted, nothing is decided", reason=error.reason, error=str(error))
        while not stop.is_set():
            self.health.tick()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await stop.wait()

    async def _last_turns(self) -> None:
        """Have snapshots stored for who takes over, and decide on meanwhile, but not for long."""
        until = time.monotonic() + HANDOVER_S
        try:
            while self.owned and time.monotonic() < until:
                if chosen := self._snapshotter.next_to_hand_over(self.owned.values()):
                    for owned in chosen:
                        owned.dirty += 1  # what was read since its last commit may have been others'
                    await self._commit(self.owned.values())
                    self._snapshotter.hand_over(chosen)
                if not self._snapshotter.busy:
                    return
                await self._turn(LAST_WAIT_S)
        except errors.LogUnavailable as error:
            logger.warning("log unavailable, stopping without snapshots", error=str(error))
            await self._drop_reader()

    # -- which slots ---------------------------------------------------------------------------

    async def _joined(self, stop: asyncio.Event) -> bool:
        """Take part, once the log answers; False when told to stop before."""
        while not stop.is_set():
            self.health.tick()
            try:
                await self._follow_clock()
                await self.firing.ask()
                await self._membership.join()
            except errors.LogUnavailable as error:
                self.health.not_ready = str(error)
                self.log.outage.met("joining", error)
                await asyncio.sleep(OUTAGE_PAUSE_S)
            else:
                return True
        return False

    async def _settle(self) -> None:
        """Give up what is another's by membership, restore what is ours, claim what is restored."""
        self._membership.changed.clear()
        desired = shares(self.writer.incarnation, self._membership.members, self.inputs.every)
        leaving = [o for slot, o in self.owned.items() if slot not in desired]
        if leaving:
            await self._commit(leaving)
            await self._release([o.slot for o in leaving])
        for arriving in [task for task in self._arrivals if task.done()]:
            await self._claim(arriving.result(), desired)
            del self._arrivals[arriving]
        # Not held up by those that are still on their way: two replicas may die one after the other.
        arriving_slots = {slot for arrival in self._arrivals.values() for slot in arrival.restores}
        missing = (desired | self._standby) - self.owned.keys() - arriving_slots
        if missing:
            slots = sorted(missing, key=str)
            self._advance(Arrival(self.decider, self.log, self.inputs, self._stored, slots))

    @property
    def _standby(self) -> frozenset[Slot]:
        """Slots that are kept ready to take over from their owner, folded up to its last checkpoint."""
        return frozenset(self.inputs.every) if self.settings.partition == "cluster" else frozenset()

    def _advance(self, arrival: Arrival[State], pause_s: float = 0.0) -> None:
        """Fold arriving slots up to their last checkpoints; the slots already owned go on meanwhile."""
        self._arrivals[asyncio.create_task(arrival.advance(pause_s))] = arrival

    async def _claim(self, arrival: Arrival[State], desired: Set[Slot]) -> None:
        """Claim what is restored; what its owner has advanced meanwhile is restored further."""
        self._mind_doubts(arrival)
        chosen = [slot for slot in arrival.restores if slot in desired and slot not in arrival.doubts]
        if chosen:
            await self._follow_clock()  # what was set before the last checkpoint is not read again
        # The first checkpoint of a claim names what is followed from there on.
        other = {slot for slot in chosen if arrival.restores[slot].adopt(self.inputs.today)}
        folds = [(arrival.restores[slot].fold, *arrival.last.get(slot, (None, 0))) for slot in chosen]
        claimed: list[Owned[State]] = await self._committer.claim(folds)
        for owned in claimed:
            slot = owned.slot
            owned.halted = arrival.broken.get(slot, "")
            owned.alarms = Alarms(owned.fold.timers)
            owned.begun = arrival.restores[slot].begun()
            owned.read = max(owned.read, arrival.read_to(slot))
            owned.snapshotted = arrival.snapshotted.get(slot, 0)
            if owned.halted:
                self._say_halted(owned, owned.fold.at, owned.read + 1, "", "DecisionUnreadable")
            self.owned[slot] = owned
            if self.settings.renew_s is not None:
                self._reschedule(owned)  # while nobody had the slot, retention went on
        refused = set(chosen) - {owned.slot for owned in claimed}
        if refused:
            logger.info(
                "slots advanced by their owners while they were restored, reading on", slots=sorted(refused)
            )
        for slot in refused & other:  # its owner goes on by the set from before: it is restored anew
            del arrival.restores[slot]
        refused -= other
        doubted = desired & arrival.doubts.keys()
        for slot in arrival.restores.keys() - refused - doubted - (self._standby - desired):
            del arrival.restores[slot]
            self._doubts.pop(slot, None)
        self.warm = frozenset(arrival.restores.keys() - desired)
        if claimed:
            logger.info(
                "slots claimed", slots=[o.slot for o in claimed], position=min(o.read for o in claimed)
            )
            await self._rearranged()
        if arrival.restores:
            self._advance(arrival, WARM_S if self.warm else DOUBT_S if doubted else 0.0)
        else:
            await arrival.close()

    def _mind_doubts(self, arrival: Arrival[State]) -> None:
        """Say once which slots cannot be gone on from; they are looked at again in case somebody puts that right."""
        for slot in arrival.restores:
            before, doubt = self._doubts.pop(slot, ""), arrival.doubts.get(slot, "")
            if doubt:
                self._doubts[slot] = doubt
            if doubt and doubt != before:
                self.health.metrics.errors.labels(errors.Unsound.reason).inc()
                logger.error("slot stopped, the others go on", slot=slot, error=doubt)
        self._count_halted()

    def _count_halted(self) -> None:
        halted = sum(bool(o.halted) for o in self.owned.values())
        self.health.metrics.halted.set(halted + len(self._doubts))

    @property
    def _stopped(self) -> str:
        """Which slots are not decided for, and why."""
        halted = {o.slot: o.halted for o in self.owned.values() if o.halted}
        return "; ".join(f"slot {slot}: {why}" for slot, why in (halted | self._doubts).items())

    async def _release(self, slots: Sequence[Slot]) -> None:
        for slot in slots:
            self.owned.pop(slot, None)
            self._newer.released(slot)
            self._halts.released(slot)
        if slots:
            logger.info("slots released", slots=list(slots))
            await self._rearranged()

    async def _rearranged(self) -> None:
        """The set of slots is another: the reader's filters follow at the next turn."""
        await self._drop_reader()
        self.health.metrics.slots.set(len(self.owned))
        self._count_halted()

    async def _drop_reader(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            await reader.close()

    async def _idle(self, stop: asyncio.Event) -> None:
        """Nothing owned: wait for membership, for slots to arrive, or for the end."""
        if self._doubts or not self._arrivals or self.warm:
            self.health.not_ready = self._stopped or self.log.unable  # a standby is ready too
        waits = [asyncio.ensure_future(self._membership.changed.wait()), asyncio.ensure_future(stop.wait())]
        await asyncio.wait([*waits, *self._arrivals], timeout=1.0, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()

    # -- folding -------------------------------------------------------------------------------

    async def _turn(self, wait_s: float = FETCH_WAIT_S) -> None:
        """One fetch, folded and committed."""
        if self._reader is None:
            after = min(o.read for o in self.owned.values())
            self._reader = self.log.reader([self.inputs.filter], after=after)
        reader = self._reader
        records = await reader.fetch(FETCH, timeout_s=min(wait_s, self._commits_in_s()))
        reads, owned_slots = self.inputs.reads, self.owned.keys()
        for record in records:
            if not reads(record.subject, owned_slots, recorded=False):
                if self._newer.any_waits:
                    self._newer.hear_of(record)
                continue
            if self._take(record):
                for owned in self.owned.values():
                    self._reschedule(owned)
                await self._commit(self.owned.values())
            if self._pending >= COMMIT_PENDING:
                await self._commit(self.owned.values())
        await self._mind_newer()
        for owned in self.owned.values():
            owned.read = max(owned.read, reader.position)
        self._observe(reader, len(records))
        due = self._due()
        if due and not self._may_commit_in_s():
            await self._commit(due)
            self._snapshotter.take(self.owned.values())

    def _due(self) -> list[Owned[State]]:
        """The slots that are to be committed now: the checkpoint of one that is not would be one more to store, and to read."""
        now, slots = time.monotonic(), list(self.owned.values())
        everything = sum(o.dirty for o in slots) >= COMMIT_AFTER_EVENTS
        due: list[Owned[State]] = []
        for owned in slots:
            age = now - owned.committed_at
            renewed = self.settings.renew_s is not None and age > self.settings.renew_s and not owned.halted
            if renewed or self._snapshotter.due(owned):
                owned.dirty += 1  # an idle slot moves on, too, so that a restart has little to read
                due.append(owned)
            elif (
                owned.pending
                or (owned.dirty and (everything or now - owned.waiting_since > COMMIT_AFTER_S))
                or self.firing.in_s([owned]) <= 0.0
            ):
                due.append(owned)
        return due

    def _commits_in_s(self) -> float:
        """Wall seconds until there is something to commit, and it may be; infinite while nothing waits."""
        wait_s = 0.0 if any(o.pending for o in self.owned.values()) else self.firing.in_s(self.owned.values())
        return max(wait_s, self._may_commit_in_s())

    def _may_commit_in_s(self) -> float:
        """Wall seconds until the stream is not left to others any more; less where somebody waits for what is pending."""
        return self._pace.left(urgent=any(owned.urgent for owned in self.owned.values()))

    def _observe(self, reader: Reader, count: int) -> None:
        metrics = self.health.metrics
        metrics.folded.inc(count)
        metrics.lag.set(reader.pending or 0)
        if self.owned:
            metrics.last_event.set(max(o.fold.at for o in self.owned.values()))
        behind = (reader.pending or 0) > FETCH
        self.health.not_ready = (
            self._stopped or self.log.unable or ("catching up with the log" if behind else "")
        )

    def _take(self, record: Record) -> bool:
        """Fold one record into the slots that it belongs to; True when the clock was set."""
        event = registry.read(record.body)
        if event is registry.UNREADABLE:
            self._set_aside(record)
        slot = self.inputs.slot(record.subject)
        targets = list(self.owned.values()) if slot is None else [o] if (o := self.owned.get(slot)) else []
        for owned in targets:
            if self._newer.waits(owned.slot):
                self._newer.hear(owned.slot, record, event)
                continue
            if record.seq <= owned.read or owned.halted:
                continue
            if self.inputs.concerns(event):
                if type(event) is registry.Unknown and self._newer.meet(owned.slot, record, event):
                    continue
                due = owned.fold.timers.get(event.key) if isinstance(event, Timer) else None
                self._decide(owned, record, event)
                if isinstance(event, Timer) and SCHEDULER in record.headers:
                    owned.alarms.standing.discard(event.key)
                    if due is not None:
                        self._fired(owned, event, due)
            owned.read = max(owned.read, record.seq)
        if isinstance(event, ClockSet):
            self.clock.set(event)
            return True
        return False

    async def _mind_newer(self) -> None:
        """Stop slots before facts that only a newer version knows, and go on with those that were said again since."""
        if stopping := [o for slot, o in self.owned.items() if self._newer.waits(slot) and not o.halted]:
            await self._commit(stopping)  # what was decided before it
            for owned in stopping:
                if owned.slot in self.owned:
                    self._halt(owned, *self._newer.before(owned.slot), "NewerFact")
        if over := self._newer.over():
            logger.info("what a newer version said has been said again, going on", slots=over)
            await self._release(over)  # and claimed again, from where they stood

    def _set_aside(self, record: Record) -> None:
        """Count a message that does not decode, and say so once per subject: the fold takes note of it and goes on."""
        self.health.metrics.set_aside.inc()
        if record.subject in self._said_aside or len(self._said_aside) >= SAID_ASIDE:
            return
        self._said_aside.add(record.subject)
        logger.warning(
            "a message that does not decode is set aside", seq=record.seq, subject=record.subject,
            do="see `tidewright events --parked`, and find out who wrote it",
        )  # fmt: skip

    def _decide(self, owned: Owned[State], record: Record, event: Event | registry.Unknown) -> None:
        """Fold one event into one slot, and queue what was decided."""
        try:
            decided = owned.fold.step(record.seq, record.body, event)
        except Exception as error:  # a defect of one decider must not stop the other slots
            logger.exception(
                "decider failed", slot=owned.slot, seq=record.seq, event_type=type(event).__name__
            )
            problem = f"the decider failed on event {record.seq}: {type(error).__name__}: {error}"
            self._halt(owned, record, problem, "DeciderFailed")
            return
        owned.folded()
        if self.tally is not None and isinstance(event, Event):
            self.tally.take(owned.fold.state, event, [entry.decision for entry in decided])
        recorded = owned.begun.pop(record.seq, 0)
        for n, encoded in enumerate(decided):
            planned = plan.planned(
                self.log.subjects,
                owned.slot,
                self.writer,
                encoded,
                cause_seq=record.seq,
                cause=record.headers,
                wall_of=self.clock.wall_of,
                step_until=self._step_until(),
            )
            if planned.schedule is not None:
                owned.schedules[planned.key] = planned.schedule
                self.firing.mind(owned, encoded.decision, planned.schedule)
            if n < recorded:
                continue  # by the owner before, which died between two parts of a commit
            owned.pending.append(planned.message)
            owned.urgent = owned.urgent or acting.is_urgent(encoded.decision, owned.fold.at)
            if planned.entry is not None:
                owned.pending.append(planned.entry)
            self._pending += 1
            self.health.metrics.decisions.labels(type(encoded.decision).__name__).inc()

    def _halt(self, owned: Owned[State], record: Record, problem: str, reason: HaltReason) -> None:
        """Stop one slot before the record that it cannot take. Nothing undecided of it is committed."""
        owned.halted = problem
        owned.clear()
        owned.alarms.soon.clear()
        self._count_halted()
        self.health.metrics.errors.labels("Halted").inc()
        logger.error(
            "slot stopped, the others go on", slot=owned.slot, seq=record.seq, subject=record.subject, error=problem,
            do="inspect the message; the slot goes on after a restart with a version that understands it",
        )  # fmt: skip
        at = max(owned.fold.at, registry.read(record.body).at)
        self._say_halted(owned, at, record.seq, record.subject, reason)

    def _say_halted(
        self, owned: Owned[State], at: float, before: int, subject: str, reason: HaltReason
    ) -> None:
        halted = SlotHalted(
            at=at, service=self.decider.service, slot=owned.slot, before=before, subject=subject, reason=reason,
            message=owned.halted,
        )  # fmt: skip
        self._halts.say(owned.slot, halted)

    # -- committing ----------------------------------------------------------------------------

    async def _commit(self, slots: Collection[Owned[State]]) -> None:
        self._pending = 0
        began = time.monotonic()
        for owned in slots:
            self.firing.fire(owned)
        lost = await self._committer.commit([o for o in slots if not o.halted])
        self._pace.took(time.monotonic() - began)
        if lost:
            await self._release(lost)

    # -- time ----------------------------------------------------------------------------------

    async def _follow_clock(self) -> None:
        """Take over the mapping of time that is in force."""
        async for record in self.log.last_per_subject([self.log.subjects.configs]):
            event = registry.read(record.body)
            if isinstance(event, ClockSet):
                self.clock.set(event)

    def _step_until(self) -> float | None:
        return None if self.settings.renew_s is None else time.time() + self.settings.renew_s

    def _fired(self, owned: Owned[State], event: Timer, due: float) -> None:
        """See to the schedule of a timer that was set for `due` when a schedule of its key fired.

        A step is followed by the next one. An older schedule that fires as it is replaced has the server
        take away the one that stands there now (nats-server 2.15.1), and the timer would never fire.
        """
        if event.key in owned.fold.timers and (due != event.at or isinstance(event, TimerStepped)):
            self._reschedule(owned, event.key)

    def _reschedule(self, owned: Owned[State], *keys: str) -> None:
        """Set the schedules of timers anew (of all, when none is named), with the slot's next commit.

        Under the checkpoint like everything else: who has lost the slot meanwhile must not replace
        the schedules of who has it.
        """
        if owned.halted:
            return
        for key in keys or owned.fold.timers:
            owned.schedules[key] = plan.timer_message(
                self.log.subjects, owned.slot, self.decider.service, key=key, due=owned.fold.timers[key],
                headers=self.writer.headers(f"{self.decider.service}.{owned.slot}.reset.{key}"), wall_of=self.clock.wall_of, step_until=self._step_until(),
            )  # fmt: skip
        if owned.fold.timers:
            owned.dirty += 1
