"""The modes on the log, and incumbents, as the actuator heeds them beside what each decision says of itself.

Deciders mark what they decide in shadow. The actuator asks the last `ModesSet`, and the last word on an incumbent at
the work of who has decided, once more before each attempt, so that a decider that has not heard of it yet, or
that was taken over, writes nothing where the operator, or an incumbent, holds back. It is asked anew before anything is refused: whoever has decided by newer modes is not refused by older ones.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial

import structlog

from tidewright.events import acting, registry
from tidewright.events.acting import Acting, Held
from tidewright.events.base import Event
from tidewright.events.decisions import Effect
from tidewright.events.endpoints import ForgetEndpoint
from tidewright.host.loop.fenced import answered
from tidewright.log.connection import Log
from tidewright.log.subjects import ALL

BELIEVED_S = 1.0
"""Wall seconds for which modes that let something through are believed to hold."""

_log = structlog.get_logger(__name__)


class Modes:
    """What may be carried out, by the last `ModesSet` and `IncumbentObserved` on the log."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._acting = Acting()
        self._read_at: dict[str, float] = {}
        self._reading = asyncio.Lock()
        """Effects that begin together ask together: the first of them reads for all."""

    def held(self, effect: Effect) -> Held:
        """What the modes that were read last say of an effect. A webhook is taken out in every mode."""
        if isinstance(effect, ForgetEndpoint):
            return acting.ENFORCED
        return self._acting.held(_decider(effect), effect.target.namespace)

    def known(self, effect: Effect, *, since: float | None = None) -> Held | None:
        """What holds for an effect, where that is known without asking: it may be carried out; arguments as of `now`."""
        believed = time.monotonic() - BELIEVED_S
        held = self.held(effect)
        stale = self._read_before(_decider(effect), believed if since is None else max(since, believed))
        return held if held.acts and not stale else None

    def _read_before(self, service: str, moment: float) -> bool:
        """Whether what holds for a service was read at that moment at the latest, of `time.monotonic`, or never."""
        return self._read_at.get(service, float("-inf")) <= moment

    async def now(self, effect: Effect, *, since: float | None = None) -> Held:
        """What holds for an effect that is about to be carried out.

        `since`: what was read before that, of `time.monotonic`, does not count; None: it does.
        """
        service, asked_at = _decider(effect), time.monotonic()
        if (known := self.known(effect, since=since)) is not None:
            return known
        async with self._reading:
            if self._read_before(service, asked_at):
                await self._read(service)
        held = self.held(effect)
        if not held.acts:
            _log.info("left undone by the modes in force", decision=effect.id, mode=held.mode, why=held.why)
        return held

    async def _read(self, service: str) -> None:
        subjects, asked_at = self._log.subjects, time.monotonic()
        incumbent = subjects.fact(ALL, acting.INCUMBENT, "", acting.decider_of(service))
        for event in await asyncio.gather(self._last(subjects.config(acting.MODES)), self._last(incumbent)):
            if isinstance(event, acting.SETTING):
                self._acting.heard(event)
        self._read_at[service] = asked_at

    async def _last(self, subject: str) -> Event | registry.Unknown | None:
        """The last word on a subject; waits while the log does not answer."""
        record = await answered(partial(self._log.last, subject))
        return None if record is None else registry.decode(record.body)


def _decider(effect: Effect) -> str:
    """Who has decided it."""
    return effect.id.partition(".")[0]
