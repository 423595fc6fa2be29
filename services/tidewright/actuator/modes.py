"""The modes on the log, as the actuator heeds them beside what each decision says of itself.

Deciders mark what they decide in shadow. The actuator asks the last `ModesSet` once more before it acts, so that a
decider that has not heard of it yet, or that was taken over, writes nothing where the operator holds back. It is
asked anew before anything is refused: whoever has decided by newer modes is not refused by older ones.
"""

from __future__ import annotations

import time

import structlog

from tidewright.events import acting, registry
from tidewright.events.acting import Acting, Held
from tidewright.events.decisions import Effect
from tidewright.events.endpoints import ForgetEndpoint
from tidewright.host.fenced import attempts
from tidewright.log.connection import Log

BELIEVED_S = 1.0
"""Wall seconds for which modes that let something through are believed to hold."""

_log = structlog.get_logger(__name__)


class Modes:
    """What may be carried out, by the last `ModesSet` on the log."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._acting = Acting()
        self._read_at = float("-inf")

    def held(self, effect: Effect) -> Held:
        """What the modes that were read last say of an effect. A webhook is taken out in every mode."""
        if isinstance(effect, ForgetEndpoint):
            return acting.ENFORCED
        return self._acting.held(effect.id.partition(".")[0], effect.target.namespace)

    async def allow(self, effect: Effect) -> bool:
        """Whether an effect may be carried out now."""
        if not self.held(effect).acts or time.monotonic() - self._read_at > BELIEVED_S:
            await self._read()
        held = self.held(effect)
        if not held.acts:
            _log.info("left undone by the modes in force", decision=effect.id, mode=held.mode, why=held.why)
        return held.acts

    async def _read(self) -> None:
        async for attempt in attempts():
            with attempt:
                record = await self._log.last(self._log.subjects.config(acting.MODES))
                if record is not None:
                    event = registry.decode(record.body)
                    if not isinstance(event, registry.Unknown):
                        self._acting.heard(event)
        self._read_at = time.monotonic()
