"""Saying on the log that a slot has halted: for people, once, and in nobody's way.

Beside the loop, a task for each slot: that the log is away, full, or does not take it from this service holds nothing up and ends
nothing; it is tried again. Whether it was said already is looked up first, and what is appended expects what was seen there, so that it stands
on the log once however often an answer is lost or a service is started again.
"""

from __future__ import annotations

import asyncio

import msgspec

from tidewright.events import registry
from tidewright.events.halts import SlotHalted
from tidewright.log.connection import Log, Message
from tidewright.log.diagnostics import get_logger
from tidewright.log.envelope import VERSION, Writer
from tidewright.log.errors import LogError, LogForbidden
from tidewright.log.reader import Record
from tidewright.log.redaction import redacted
from tidewright.log.subjects import Slot

AGAIN_S, AGAIN_MOST_S = 1.0, 60.0
"""Pauses after the log did not take it: the first, and the longest; each is twice the one before."""
MESSAGE_CHARACTERS = 1_000
"""Of what an error says: that may be as long as the object that it is about."""

logger = get_logger(__name__)


class Halts:
    """What one process says of its slots."""

    def __init__(self, log: Log, writer: Writer, renew_s: float | None) -> None:
        """`renew_s`: said again so often, wall seconds, where the log forgets by age; None: never."""
        self._log, self._writer, self._renew_s = log, writer, renew_s
        self._saying: dict[Slot, asyncio.Task[None]] = {}
        self._may_not = False

    def say(self, slot: Slot, halted: SlotHalted) -> None:
        """Have it said, by and by, as long as the slot is not released."""
        self.released(slot)
        self._saying[slot] = asyncio.create_task(self._until_said(slot, shortened(halted)))

    def released(self, slot: Slot) -> None:
        """The slot is another's, or is claimed anew: nothing more is said of it from here."""
        if saying := self._saying.pop(slot, None):
            saying.cancel()

    async def close(self) -> None:
        """Say nothing more. What was not said yet is said by whoever halts there next."""
        saying = list(self._saying.values())
        for slot in list(self._saying):
            self.released(slot)
        await asyncio.gather(*saying, return_exceptions=True)

    async def _until_said(self, slot: Slot, halted: SlotHalted) -> None:
        renewed, pause_s = False, AGAIN_S
        while True:
            try:
                await self._say(slot, halted, renewed=renewed)
            except LogError as error:
                self._refused(slot, error)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, AGAIN_MOST_S)
            else:
                if self._renew_s is None:
                    return
                await asyncio.sleep(self._renew_s)
                renewed = True

    async def _say(self, slot: Slot, halted: SlotHalted, *, renewed: bool) -> None:
        """Append it, unless the last word on the slot is the same.

        Raises:
            LogError: it may be on the log, or not.
        """
        subject = self._log.subjects.halt(slot, self._writer.service)
        keys = await self._log.key_record()
        if keys is not None and not keys.may(self._writer.service, subject):
            raise LogForbidden(f"the key record does not let {self._writer.service} write on {subject}")
        last = await self._log.last(subject)
        headers = self._writer.headers(f"{self._writer.service}.{slot}.halt.{halted.before}")
        if last is not None and not renewed and is_same(last, halted, headers.get(VERSION, "")):
            return
        body = registry.encode(halted)
        await self._log.commit([Message(subject, body, headers, expect_last=last.seq if last else 0)])

    def _refused(self, slot: Slot, error: LogError) -> None:
        """Say once where it is a right that lacks; of everything else the loop tells."""
        if isinstance(error, LogForbidden) and not self._may_not:
            self._may_not = True
            logger.warning(
                "that a slot has halted cannot be said on the log", slot=slot, error=str(error),
                do="have nats-server and the key record take the permissions that come with this version",
            )  # fmt: skip


def is_same(last: Record, halted: SlotHalted, software: str) -> bool:
    """Whether it is said already. Not by its words: those of an error may differ each time.

    Of a decision that is not readable each software says it for itself: the next one that takes the slot may read it, and
    has nothing to read behind it that would show that.
    """
    said = registry.read(last.body)
    if not isinstance(said, SlotHalted) or (said.before, said.reason) != (halted.before, halted.reason):
        return False
    return halted.reason != "DecisionUnreadable" or last.headers.get(VERSION, "") == software


def shortened(halted: SlotHalted) -> SlotHalted:
    """The same without secrets, and as short as a message may be."""
    message = redacted(halted.message)
    if len(message) > MESSAGE_CHARACTERS:
        message = f"{message[: MESSAGE_CHARACTERS - 3]}..."
    return msgspec.structs.replace(halted, message=message)
