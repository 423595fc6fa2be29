"""Batches that the server has stored only in part, because its store limit was reached in the midst of one.

nats-server (seen on 2.15.1, with the limit of the server as with that of an account) then gives no
answer. The batch is committed all the same: the server stores the rest when it is started again with
more room. Until then nothing else may be appended by who committed it: a repetition would be stored
beside the rest. So an unanswered batch is looked up before the next append.

`tidewright.log.store_quota` keeps away from the limit in the first place, where an account has one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from tidewright.log.envelope import BATCH_ID, BATCH_SEQUENCE
from tidewright.log.errors import StoreFull
from tidewright.log.reader import Record

if TYPE_CHECKING:
    from tidewright.log.appending import Message

from tidewright.log.envelope import SCHEDULE


class Torn:
    """What one process knows of its unanswered batches: those that it waits for no longer."""

    def __init__(
        self,
        last: Callable[[str], Awaitable[Record | None]],
        at: Callable[[int], Awaitable[Record | None]],
        bounds: Callable[[], Awaitable[tuple[int, int]]],
    ) -> None:
        """`last` and `at` look a message up by its subject or its sequence; `bounds` are those of the stream."""
        self._last, self._at, self._bounds = last, at, bounds
        self._doubts: dict[str, Sequence[Message]] = {}

    def unanswered(self, batch: str, messages: Sequence[Message]) -> None:
        """The wait for an answer has ended without one: what became of the batch is open."""
        self._doubts[batch] = messages

    async def check(self) -> None:
        """Return when every unanswered batch is on the log as a whole, or not at all.

        Raises:
            StoreFull: one is stored in part.
            LogUnavailable: one cannot be looked up.
        """
        for batch, messages in list(self._doubts.items()):
            stored = await self._stored_of(batch, messages)
            if 0 < stored < len(messages):
                raise StoreFull(
                    f"the store became full within a batch: {stored} of its {len(messages)} messages are stored, the "
                    "rest follows when nats-server is started again with a larger store; nothing was dropped"
                )
            self._doubts.pop(batch, None)

    async def _stored_of(self, batch: str, messages: Sequence[Message]) -> int:
        """How many messages of a batch are stored; they lie in consecutive sequences.

        A schedule that is gone since, because it fired or was replaced, counts as stored; nothing else of a
        batch goes, so that a hole elsewhere is of what others appended behind a torn one.
        """
        for subject in dict.fromkeys(m.subject for m in messages):
            record = await self._last(subject)
            if record is not None and record.headers.get(BATCH_ID) == batch:
                break
        else:
            return 0
        place = int(record.headers[BATCH_SEQUENCE])
        _, end = await self._bounds()
        for count in range(len(messages), place, -1):
            seq = record.seq + count - place
            if seq > end:
                continue
            other = await self._at(seq)
            if other is None:
                if SCHEDULE in (messages[count - 1].headers or {}):
                    return count
            elif other.headers.get(BATCH_ID) == batch:
                return count
        return place
