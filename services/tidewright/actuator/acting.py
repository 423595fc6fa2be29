"""The work of the actuator: read decisions, and dispatch under the budget.

    read --Plan--> dispatch --tasks--> outcomes --the checkpoint with them, or behind them--> log

A crash between a write and its outcome makes the write again, and finds it done. A process that is
fenced drops its plan and stands by.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from contextlib import suppress
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import Literal

import msgspec
import structlog
from aiolimiter import AsyncLimiter

from tidewright.actuator import verdict
from tidewright.actuator.allowance import Allowance
from tidewright.actuator.allowed.bounds import Refusal
from tidewright.actuator.allowed.grounds import Grounds
from tidewright.actuator.allowed.judge import Judging, judge
from tidewright.actuator.allowed.table import SERVICES, Grant
from tidewright.actuator.apply import Applier, without_writing
from tidewright.actuator.cloud import API_VERSION as CLOUD
from tidewright.actuator.cloud import Clouds
from tidewright.actuator.committing import Group, Outcomes, recorded
from tidewright.actuator.ledger import ActPosition, Ledger
from tidewright.actuator.log_clock import LogClock
from tidewright.actuator.metrics import Metrics
from tidewright.actuator.modes import Modes
from tidewright.actuator.newer import NEWER, newer_effect
from tidewright.actuator.options import SERVICE, Options
from tidewright.actuator.plan import Job, Plan, Rank, rank
from tidewright.actuator.verdict import Again, Done, Lost, Refused, Result
from tidewright.events import registry
from tidewright.events.acting import Held
from tidewright.events.base import Event, Outcome
from tidewright.events.decisions import Effect, RecordObjectEvent
from tidewright.events.endpoints import ForgetEndpoint
from tidewright.events.provisioning import (
    ANSWER_LOST,
    DecreaseNodeGroup,
    DeleteInstances,
    IncreaseNodeGroup,
)
from tidewright.host.loop.fenced import Fenced, InFlight, Part, attempts, mind, present
from tidewright.host.loop.lookout import BucketLookout, Lookout
from tidewright.host.process.health import Health
from tidewright.log import errors
from tidewright.log.connection import Log
from tidewright.log.envelope import TRACEPARENT, Writer
from tidewright.log.reader import Record
from tidewright.log.subjects import ALL, Parsed

CONCURRENCY = 64
"""Effects that are being applied, or wait for their next attempt."""
REPORTS_AT_ONCE = 16
"""How many of these are object events: what changes something does not share the API server with a crowd of them."""
REPORTS_BESIDE = 2
"""How many, beside something that changes the cluster, of those that have waited for it long enough."""
REPORTS_REST_S, REPORTS_WITHIN_S = 0.25, 5.0
"""Object events begin when nothing was changed for so long, wall seconds, and after so long all the same: a cluster of
whose nodes many go has several for each, and those that are still to go would wait for them."""
REPORTS_READ = 64
"""How many object events are read into the plan at a time: a crowd of them is none that something more urgent waits behind."""
LOOKED_S = 0.5
"""How often the work is reminded that somebody looks, wall seconds: it may have waited for that."""
OWNED_S = 0.5
"""Wall seconds for which it is believed that nobody has taken over. Who takes over waits as long before acting:
what a process without the bus still writes was looked at before, and the API server refuses it for its version."""
LONG_S, ROUNDS = 0.5, 3
"""Wall seconds beyond which what the log was asked together may have been answered on both sides of an outage, and is
asked again; and how often at most, since on a bus that is always as slow nothing would be done any more."""
ALERTS = 256
"""Causes of a refusal that are each said once: whoever makes up names does not fill the log of this process."""
_TOKENS = ("service", "kind", "namespace", "name")
"""Of a decision's subject, after its slot."""
READ_AHEAD = 5_000
"""Decisions without an outcome beyond which no more are read."""
CUT_SHORT = Lost(
    ANSWER_LOST,
    "the actuator ended while a request for it was under way; whether it was done is not known, and its cloud adds what it"
    " is asked for: it is not asked again",
)


_log = structlog.get_logger(__name__)


class Actuator:
    """One process's share of the acting: all of it, while it owns the checkpoint."""

    def __init__(
        self,
        options: Options,
        log: Log,
        applier: Applier,
        *,
        health: Health | None = None,
        clouds: Clouds | None = None,
        judging: Judging = judge,
        lookout: Lookout | None = None,
    ) -> None:
        """`judging` says what is allowed, `lookout` whether somebody looks: the bucket of members, when None.

        Others are for tests of how effects are made.
        """
        self._judging = judging
        self._lookout = lookout or BucketLookout(log)
        self._options = options
        self._log = log
        self._applier = applier
        self._clouds = clouds
        self._health = health
        self._metrics = Metrics(health) if health else None
        self._grounds = Grounds(log)
        self._alerted: set[tuple[str, str]] = set()
        self._clock = LogClock(log)
        self._modes = Modes(log)
        self._writer = Writer(SERVICE)
        self._in_flight = InFlight()
        self._part: Part[ActPosition] = Part(
            log, self._writer, log.subjects.checkpoint(ALL, SERVICE), ActPosition, self._in_flight
        )
        burst = options.burst or max(int(options.qps * 2), 1)
        self._limiter = AsyncLimiter(burst, burst / options.qps)
        self._kept = burst // 2
        """Requests of the burst that reports leave to what changes something: it does not wait behind a backlog."""
        self._confirming = asyncio.Lock()
        self._reset(ActPosition(at=0.0))

    def _reset(self, position: ActPosition) -> None:
        self._plan = Plan()
        self._ledger = Ledger(position.position, position.done)
        self._cut_short = frozenset(position.begun)
        """Decisions for which the process before may have made a request that must not be made twice."""
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._asked = count()
        """Tells the requests of one job apart that wait together."""
        self._spending: list[tuple[Rank, int, int, asyncio.Future[None]]] = []
        """A heap of running jobs that wait for one more request."""
        self._outcomes = Outcomes(
            self._log, self._part, self._ledger, self._clock, writer=self._writer, in_flight=self._in_flight, at=position.at,
            changing=lambda: self._plan.changing, committed=self._committed,
        )  # fmt: skip
        self._sized: dict[int, Job] = {}
        """Changes of a node group's size whose outcomes are not on the log yet, by sequence. Nothing else is done to the group
        before they are: who takes over knows them by the size that they wanted, and by no other."""
        self._read_at: dict[int, float] = {}
        self._aside: deque[tuple[Record, Parsed, RecordObjectEvent]] = deque()
        """Object events that are not judged before one may run: each has a lane of its own and supersedes nothing."""
        self._changed_at = float("-inf")
        """When something that is no report began or ended last, of `time.monotonic`."""
        self._owned_at = float("-inf")
        self._read_up = asyncio.Event()
        """Set once everything is in the plan that had been decided when the part was claimed."""

    async def run(self) -> None:
        """Act for ever, stepping back while another process does."""
        beside = [
            asyncio.create_task(self._report()),
            asyncio.create_task(mind(self._log.continuity, self._in_flight)),
            asyncio.create_task(self._look()),
        ]
        try:
            async with present(self._log, self._writer, self._in_flight, self._log.max_age_s):
                await self._part.keep(self._own)
        finally:
            for task in beside:
                task.cancel()

    async def _look(self) -> None:
        """Have what waits for somebody to look go on when somebody does."""
        finding = asyncio.create_task(self._lookout.run())
        try:
            while True:
                await self._lookout.kept()
                self._wake.set()
                await asyncio.sleep(LOOKED_S)
        finally:
            finding.cancel()

    async def _own(self) -> None:
        position = await self._part.claim(ActPosition.seen)
        async for attempt in attempts(self._in_flight):
            with attempt:  # a log that lost its beginning has nothing to begin anew from
                await self._log.continuity.require(position.position, "the actuator's checkpoint")
        apart = await recorded(self._log, self._in_flight, position.apart)
        self._reset(msgspec.structs.replace(position, done=tuple(sorted({*position.done, *apart}))))
        if position.incarnation not in ("", self._writer.incarnation):
            await asyncio.sleep(OWNED_S)
        _log.info("acting", at_most=self._options.mode, position=position.position, qps=self._options.qps)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._read(position.position))
            tasks.create_task(self._outcomes.run())
            # Who acted before may have carried out two decisions about one object, and have said of neither: whoever
            # begins with the first one before the second is read takes that back, and does both once more.
            await self._read_up.wait()
            tasks.create_task(self._dispatch(tasks))

    # -- reading ---------------------------------------------------------------------------------

    async def _read(self, after: int) -> None:
        # One filter: with several, the server slows down where others write.
        decisions = f"{self._log.subjects.root}.decision.>"
        end = await self._last(decisions)
        async with self._log.reader([decisions], after=after) as reader:
            while True:
                if reader.reached >= end or reader.held or not self._room.is_set():
                    self._read_up.set()
                await self._room.wait()
                records: list[Record] = []
                async for attempt in attempts():
                    with attempt:
                        records = await reader.fetch(500, timeout_s=5.0 if self._read_up.is_set() else 0.5)
                if not records:
                    if not self._read_up.is_set():
                        # What was the last may have aged out. What comes meanwhile was decided since, if it is believed at all.
                        end = min(end, await self._last(decisions))
                    continue
                decoded = [(record, _decoded(record)) for record in records]
                for record, event in decoded:
                    self._take(record, event)
                self._wake.set()

    async def _last(self, subjects: str) -> int:
        """The sequence of the last message on subjects, believed or not; 0 when there is none."""
        found: Record | None = None
        async for attempt in attempts():
            with attempt:
                found = await self._log.lookups.stored({"last_by_subj": subjects})
        return found.seq if found is not None else 0

    def _take(self, record: Record, event: Event | registry.Unknown | None) -> None:
        if isinstance(event, registry.Unknown):
            _log.warning("a decision of a newer version is not carried out", seq=record.seq, type=event.type)
            event = newer_effect(record.body)
        if not isinstance(event, Effect):
            self._ledger.passed(record.seq)
            return
        parsed = self._log.subjects.parse(record.subject)
        if len(parsed.rest) != len(_TOKENS):
            _log.warning(
                "a decision on no subject of one is left alone", seq=record.seq, subject=record.subject
            )
            self._ledger.passed(record.seq)
            return
        if not self._ledger.take(record.seq):
            return
        self._read_at[record.seq] = time.monotonic()
        if isinstance(event, RecordObjectEvent):
            self._aside.append((record, parsed, event))
        else:
            self._plan_for(record, parsed, event)
        if self._ledger.open >= READ_AHEAD:
            self._room.clear()

    def _take_reports(self) -> bool:
        """Some of the object events that were set aside into the plan, once one of them may run; whether there were any."""
        if not self._aside or self._plan.first_report is not None:
            return False
        if self._reports_at_once(self._aside[0][0].seq) <= self._plan.reporting:
            return False
        for _ in range(min(REPORTS_READ, len(self._aside))):
            self._plan_for(*self._aside.popleft())
        return True

    def _plan_for(self, record: Record, parsed: Parsed, event: Effect) -> None:
        job = Job(record.seq, record.subject, event, record.headers.get(TRACEPARENT, ""))
        # Before it is in the plan: what is not allowed must not supersede what is.
        granted = self._judged(parsed, event)
        if isinstance(granted, Refusal):
            self._outcomes.add(job, verdict.outcome(event, self._refused(job, granted), 0.0, 0))
            return
        job = msgspec.structs.replace(job, ground=granted.ground, marks=granted.marks)
        nothing = without_writing(event, shadow=self._options.mode == "shadow")
        if record.seq in self._cut_short:
            self._outcomes.add(job, verdict.outcome(event, CUT_SHORT, 0.0, 0))
        elif nothing is not None:
            self._outcomes.add(job, verdict.outcome(event, nothing, 0.0, 0))
        else:
            self._grounds.expect(job.ground, event)
            for waiting, by in self._plan.add(job):
                self._outcomes.add(waiting, verdict.superseded(waiting.effect, by.effect, 0.0))

    def _judged(self, parsed: Parsed, effect: Effect) -> Grant | Refusal:
        try:
            return self._judging(parsed, effect, self._options.bounds, self._log.slot_of)
        except Exception as error:  # noqa: BLE001 - fields are of any form: what cannot be judged is not allowed
            return Refusal("Unreadable", f"it cannot be judged: {type(error).__name__}: {error}")

    def _refused(self, job: Job, refusal: Refusal) -> Refused:
        """Refuse an effect, and say so to people: once a cause, for it is counted anyway."""
        if refusal.rule == NEWER:
            return Refused(verdict.UNKNOWN_TYPE, str(refusal))
        service = self._log.subjects.parse(job.subject).rest[0]
        if self._metrics is not None:
            self._metrics.not_allowed.labels(service if service in SERVICES else "other", refusal.rule).inc()
        if (service, refusal.rule) not in self._alerted and len(self._alerted) < ALERTS:
            self._alerted.add((service, refusal.rule))
            _log.warning(
                "a service asks for what it may not", service=service, rule=refusal.rule, error=str(refusal),
                type=type(job.effect).__name__, seq=job.seq, subject=job.subject,
                do="find out who speaks in its name; nothing was changed",
            )  # fmt: skip
        return Refused(verdict.NOT_ALLOWED, str(refusal))

    # -- acting ----------------------------------------------------------------------------------

    async def _spend(self, job: Job) -> None:
        """Wait for one more request of a running job: in the order of the plan, with those that wait to start."""
        granted = asyncio.get_running_loop().create_future()
        heappush(self._spending, (rank(job.effect), job.seq, next(self._asked), granted))
        self._wake.set()
        await granted
        await self._owned()

    async def _owned(self) -> None:
        """Return when this process is known to be the one that acts.

        Without it, one whose way to the bus is cut would go on applying what it has read, after
        another has applied that and later decisions: the earlier one would have the last word.

        Raises:
            Fenced: it is not.
        """
        async with self._confirming:
            for _ in range(ROUNDS):
                asked = time.monotonic()
                if self._is_owned:
                    return
                if self._log.replicas > 1:
                    await self._led()
                await self._part.confirm()
                self._owned_at = asked
                if time.monotonic() - asked <= LONG_S:
                    return  # else the first may have been answered before an outage, and the other one after it

    async def _led(self) -> None:
        """Return when who answers for the log leads it.

        One that has lost the others goes on answering, for up to ten seconds, by what was so before: the checkpoint would be
        ours there after it was taken over.
        """
        async for attempt in attempts(self._in_flight):
            with attempt:
                if not await self._log.is_led():
                    raise errors.LogUnavailable(
                        f"who answers for stream {self._log.stream} hears too few of the other servers to lead it"
                    )
                self._in_flight.settled(appended=False)

    @property
    def _is_owned(self) -> bool:
        """Whether that is known without asking."""
        return time.monotonic() - self._owned_at <= OWNED_S

    async def _dispatch(self, tasks: asyncio.TaskGroup) -> None:
        """Give the budget out: a place in it first, then to the best that waits by then."""
        while True:
            if self._take_reports():
                await asyncio.sleep(0)  # none of them may be one that is to be made
                continue
            whose, urgency = self._best()
            if whose is None:
                waits = self._aside or self._plan.first_report is not None
                await self._woken(REPORTS_REST_S if waits else None)
                continue
            if urgency >= Rank.OBJECT_EVENT and not self._limiter.has_capacity(1 + self._kept):
                # Until there is room for a report, or something comes that need not wait for it.
                await self._woken(1 / self._options.qps)
                continue
            await self._limiter.acquire()
            match self._best():
                case "running", _:
                    heappop(self._spending)[-1].set_result(None)
                case "waiting", urgency:
                    job = self._plan.next(reports=urgency is Rank.OBJECT_EVENT)
                    if job is not None:
                        self._mind_change(job)
                        tasks.create_task(self._apply(job))

    async def _woken(self, within_s: float | None) -> None:
        """Return when something has come or ended, or when so much time has passed."""
        self._wake.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._wake.wait()

    def _mind_change(self, job: Job) -> None:
        if rank(job.effect) < Rank.OBJECT_EVENT:
            self._changed_at = time.monotonic()

    def _best(self) -> tuple[Literal["running", "waiting"] | None, Rank]:
        """Whether a running job's next request or a waiting job's first is more urgent, and how urgent."""
        while self._spending and self._spending[0][-1].done():  # cancelled meanwhile
            heappop(self._spending)
        report = self._plan.first_report
        reports = report is not None and self._plan.reporting < self._reports_at_once(report[1])
        first = self._plan.first(reports=reports)
        if first is not None and first[0] is not Rank.WITHDRAW:
            waits = self._plan.running >= CONCURRENCY or self._lookout.since is None
            first = None if waits else first
        if self._spending and (first is None or self._spending[0][:2] <= first):
            return "running", self._spending[0][0]
        return (None, Rank.MEASURED_STATUS) if first is None else ("waiting", first[0])

    def _reports_at_once(self, oldest: int) -> int:
        """How many object events may run now; `oldest` is the first that waits.

        Where so many decisions are open that reading them would stop, what waits is cleared away.
        """
        now = time.monotonic()
        rested = not self._plan.changing and now - self._changed_at >= REPORTS_REST_S
        if rested or self._ledger.open >= READ_AHEAD // 2:
            return REPORTS_AT_ONCE
        waited_s = now - self._read_at.get(oldest, now)
        return REPORTS_BESIDE if waited_s >= REPORTS_WITHIN_S else 0

    async def _apply(self, job: Job) -> None:
        """One effect to its outcome."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._options.retry_for_s
        at_cloud = job.effect.target.api_version == CLOUD  # which has a budget of its own
        allowance = Allowance(
            self._owned if at_cloud else partial(self._spend, job),
            prepaid=1,
            record=partial(self._outcomes.begin, job) if at_cloud else None,
        )
        attempt = 0
        while True:
            began = loop.time()
            held, refusal, whose = await self._held(job)
            deadline += loop.time() - began  # what the log, or a watcher, was away for is not its fault
            if not held.acts:
                undone = Done(reason=verdict.DRY_RUN if held.mode == "dry-run" else verdict.SHADOW)
                self._end(job, verdict.outcome(job.effect, undone, 0.0, allowance.requests), allowance)
                return
            attempt += 1
            allowance.alike = self._plan.alike(job)
            result = (
                await self._attempt(job, allowance, whose) if refusal is None else self._refused(job, refusal)
            )
            if not isinstance(result, Again):
                break
            wait_s = verdict.delay_s(attempt, result, random.random())  # noqa: S311 - jitter
            if self._plan.superseding(job) is None and loop.time() + wait_s <= deadline:
                _log.info(
                    "trying again",
                    decision=job.effect.id, attempt=attempt, reason=result.reason, wait_s=round(wait_s, 3),
                )  # fmt: skip
                await asyncio.sleep(wait_s)
            elif self._plan.superseding(job) is None:
                break
            if (later := self._plan.superseding(job)) is not None:
                overtaken = verdict.superseded(job.effect, later.effect, 0.0, allowance.requests)
                self._end(job, overtaken, allowance)
                return
        self._end(job, verdict.outcome(job.effect, result, 0.0, allowance.requests), allowance)

    async def _held(self, job: Job) -> tuple[Held, Refusal | None, tuple[str, str]]:
        """What the log says now of an effect that is about to be tried: what holds for it, why it has no ground, and whose its group is.

        Returns once somebody looks, and this process is known to be the one that acts.
        """
        loop = asyncio.get_running_loop()
        for _ in range(ROUNDS):
            since = None if isinstance(job.effect, ForgetEndpoint) else await self._lookout.kept()
            began = loop.time()
            known = self._modes.known(job.effect, since=since)
            if known is not None and self._is_owned and self._clock.is_known(job.effect.at):
                # Most of what goes together with others: what is left to ask is about the effect itself.
                held, refusal, whose = known, await self._groundless(job), await self._whose(job.effect)
            else:
                # All are asked of the log, and none waits for another: a reaction is in a hurry. The outcome's time is, too.
                held, refusal, whose, _, _ = await asyncio.gather(
                    self._modes.now(job.effect, since=since),
                    self._groundless(job),
                    self._whose(job.effect),
                    self._owned(),
                    self._clock.follow(job.effect.at),
                )
            if loop.time() - began <= LONG_S:
                break  # else one may have answered before the bus went away, and another one waited until it was back
        return held, refusal, whose

    async def _whose(self, effect: Effect) -> tuple[str, str]:
        """Which cloud has the group of an effect, and what that calls it; empty for what is no group's."""
        if self._clouds is None or effect.target.api_version != CLOUD:
            return "", ""
        return await self._clouds.whose(effect.target.name)

    async def _groundless(self, job: Job) -> Refusal | None:
        """Why what a user has said is no ground for an effect; None when it is one, or none is needed."""
        try:
            return await self._grounds.refusal(job.ground, job.effect) if job.ground else None
        except errors.LogError:
            raise
        except Exception as error:  # noqa: BLE001 - as in `_judged`
            return Refusal("Unreadable", f"its ground cannot be judged: {type(error).__name__}: {error}")

    async def _attempt(self, job: Job, allowance: Allowance, whose: tuple[str, str]) -> Result:
        effect = job.effect
        try:
            if effect.target.api_version != CLOUD:
                result = await self._applier.attempt(effect, allowance, job.marks)
                if isinstance(result, Refused) and result.reason == verdict.NOT_ALLOWED:
                    return self._refused(job, Refusal.of(result.message))
                return result
            if self._clouds is None:
                return Refused(verdict.NOT_SUPPORTED, "the actuator was started without a cloud (--cloud)")
            if not isinstance(effect, DeleteInstances):
                return await self._clouds.attempt(effect, allowance, whose)
            looks = Allowance(partial(self._spend, job))  # at the API server, under its budget
            try:
                return await self._clouds.attempt(
                    effect, allowance, whose, partial(self._applier.occupied, effect, looks)
                )
            finally:
                allowance.requests += looks.requests
        except (Fenced, errors.LogError):  # from the look at the checkpoint before a request
            raise
        except Exception as error:  # noqa: BLE001 - see below
            # One decision must not stop all others: it is a defect of ours, and its outcome says so.
            _log.exception("a decision could not be applied", decision=job.effect.id, seq=job.seq)
            return Refused("Internal", f"{type(error).__name__}: {error}")

    def _end(self, job: Job, outcome: Outcome, allowance: Allowance) -> None:
        self._applier.finished(job.effect)
        if isinstance(job.effect, IncreaseNodeGroup | DecreaseNodeGroup):
            self._sized[job.seq] = job
        else:
            self._plan.done(job)
        self._mind_change(job)
        self._outcomes.few_are_left()
        if self._metrics is not None:
            self._metrics.requests.inc(allowance.requests)
        self._outcomes.add(job, outcome)
        self._wake.set()

    def _committed(self, group: Group, began: float) -> None:
        """These outcomes are on the log, by a commit that began then: the part was still ours."""
        self._owned_at = max(self._owned_at, began)
        for job, outcome in group:
            self._count(job, outcome)
            if (sized := self._sized.pop(job.seq, None)) is not None:
                self._plan.done(sized)
                self._wake.set()
        if self._ledger.open < READ_AHEAD:
            self._room.set()

    def _count(self, job: Job, outcome: Outcome) -> None:
        word = type(outcome).__name__
        since = self._read_at.pop(job.seq, None)
        _log.info(
            "outcome",
            decision=job.effect.id, type=type(job.effect).__name__, outcome=word, reason=outcome.reason,
            message=outcome.message, attempts=outcome.attempts, seq=job.seq,
        )  # fmt: skip
        if self._metrics is not None:
            self._metrics.outcomes.labels(word, outcome.reason).inc()
            if since is not None:
                self._metrics.seconds.observe(time.monotonic() - since)

    async def _report(self) -> None:
        while self._health is not None and self._metrics is not None:
            self._health.tick()
            self._health.not_ready = self._log.unable or self._in_flight.why or self._lookout.why_not
            self._in_flight.tell(self._health)
            self._metrics.open.set(self._ledger.open)
            await asyncio.sleep(0.5)


def _decoded(record: Record) -> Event | registry.Unknown | None:
    """What a record says; None when it cannot be read."""
    try:
        return registry.decode(record.body)
    except registry.NotAnEvent as error:
        _log.error(
            "a decision that cannot be read is left alone",
            seq=record.seq, subject=record.subject, error=str(error),
        )  # fmt: skip
        return None
