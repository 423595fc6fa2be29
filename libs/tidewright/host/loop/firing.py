"""Firing the timers that are due with the commits of their slots, instead of waiting for the server. See decision record 0079."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable
from math import inf
from typing import Any

from tidewright.events.base import Decision
from tidewright.events.decisions import SetTimer
from tidewright.events.timers import TimerFired
from tidewright.host.fold import plan
from tidewright.host.loop.alarms import NEAR_S, Soon
from tidewright.host.loop.commit import Owned
from tidewright.log import errors, timers
from tidewright.log.clock import Clock
from tidewright.log.connection import Log, Message
from tidewright.log.diagnostics import get_logger
from tidewright.log.envelope import Writer
from tidewright.log.subjects import ALL

ASK_AGAIN_S = 60.0
"""How often who may not fire timers asks again: the server may have been configured anew."""

logger = get_logger(__name__)


class Firing:
    """How one process fires timers.

    Attributes:
        allowed: the bus lets it; until then the server alone fires them.
    """

    def __init__(self, log: Log, writer: Writer, clock: Clock) -> None:
        self._log, self._writer, self._clock = log, writer, clock
        self._asked = log.subjects.timer(ALL, writer.service, "asked")
        self.allowed = False

    async def ask(self) -> None:
        """Ask the bus whether it lets this process. A configuration of before 0079 does not, and no commit with a timer would be taken."""
        with contextlib.suppress(errors.LogError):
            self.allowed = await self._log.may_append(self._asked)

    async def ask_on(self) -> None:
        """Ask until it does."""
        if not self.allowed:
            logger.warning(
                "the bus does not let this service fire its timers, and the server does so up to a quarter of a second late",
                subject=self._asked, do="have nats-server take the permissions that come with this version",
            )  # fmt: skip
        while not self.allowed:
            await asyncio.sleep(ASK_AGAIN_S)
            await self.ask()

    def mind(self, owned: Owned[Any], decision: Decision, schedule: Message) -> None:
        """Take note of a decision about a timer: one that is due, or comes soon, is fired from here.

        Not one that the log is late for, with others behind it: what they lead to has its time in between, as before.
        """
        key = getattr(decision, "key", "")
        owned.alarms.soon.pop(key, None)
        if not self.allowed or not isinstance(decision, SetTimer):
            return
        now, due = self._clock.now(), decision.due
        if due <= decision.at:
            owned.alarms.soon[key] = Soon(min(due, now), due, schedule)
        elif abs(self._clock.wall_seconds(due - now)) < NEAR_S:
            owned.alarms.soon[key] = Soon(due, due, schedule)

    def in_s(self, slots: Iterable[Owned[Any]]) -> float:
        """Wall seconds until the first timer is to be fired; infinite without any."""
        first = min((owned.alarms.next_at for owned in slots), default=inf)
        return first if first == inf else max(0.0, self._clock.wall_seconds(first - self._clock.now()))

    def fire(self, owned: Owned[Any]) -> None:
        """Have the timers of a slot that are due fire with its next commit, in place of their schedules."""
        subjects, service, alarms = self._log.subjects, self._writer.service, owned.alarms
        for key, schedule in alarms.passed(self._clock.now(), owned.fold.timers, time.monotonic()):
            event = TimerFired(at=owned.fold.timers[key], key=key)
            alarms.fired.append(plan.fired_message(subjects, owned.slot, service, event, schedule))
            owned.schedules.pop(key, None)
            if key in alarms.standing:
                headers = self._writer.headers(f"{service}.{owned.slot}.fired.{key}")
                owned.schedules[key] = timers.cancel_message(subjects, owned.slot, service, key, headers)
            owned.dirty += 1
