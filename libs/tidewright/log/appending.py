"""What is appended to the log: all of a batch or none, signed, and behind what nobody believes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from secrets import token_urlsafe
from typing import TYPE_CHECKING

import msgspec

from tidewright.log import errors
from tidewright.log.envelope import (
    BATCH_COMMIT,
    BATCH_ID,
    BATCH_SEQUENCE,
    EXPECTED,
    EXPECTED_OF,
    MAX_BATCH,
)
from tidewright.log.identity import shown
from tidewright.log.partial_batches import Torn
from tidewright.log.refusals import FULL
from tidewright.log.stream_settings import ADVISED_PAYLOAD

if TYPE_CHECKING:
    from tidewright.log.connection import Log
    from tidewright.log.reader import Record
    from tidewright.log.signer import Signer
    from tidewright.log.trust import Trust

HEADER_LINE_BYTES = len("NATS/1.0\r\n\r\n")
"""What headers measure beside those that there are."""
BATCH_ID_BYTES = 6
"""Of a batch's name, random: it is stored with each message, and is to be one of its own among the batches that a server knows."""
TRIES = 5
"""Of an append that expects nothing, and has to, to be signed."""


class Message(msgspec.Struct, frozen=True):
    """One message to append.

    Attributes:
        expect_last: sequence that the last message of this subject must have; 0 for "none yet",
            None for no expectation. In a batch, only the first message of a subject may have one.
        expect_of: the subject whose last message is meant; empty for its own. Not in a batch, and not on a
            signed log: the signature does not say it.
    """

    subject: str
    body: bytes
    headers: Mapping[str, str] | None = None
    expect_last: int | None = None
    expect_of: str = ""


class Committed(msgspec.Struct, frozen=True):
    """An accepted append: its messages lie at `last_seq - count + 1 .. last_seq`, in order."""

    last_seq: int
    count: int

    def seq_of(self, index: int) -> int:
        """The sequence of the message at `index` of the append."""
        return self.last_seq - self.count + 1 + index


class Appends:
    """How one connection appends.

    Attributes:
        signer: of what is appended; None where nothing is signed.
        keys: whose keys count, where keys are used.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self.signer: Signer | None = None
        self.keys: Trust | None = None
        self._torn = Torn(self._last_stored, self._stored_at, log.bounds)

    async def commit(self, messages: Sequence[Message]) -> Committed:
        """See `Log.commit`."""
        if self._log.continuity.broken is not None:
            raise errors.Unsound(str(self._log.continuity.broken))
        if not 0 < len(messages) <= MAX_BATCH:
            raise ValueError(f"an append takes 1 to {MAX_BATCH} messages, not {len(messages)}")
        if no_space := self._log.room.no_space:
            raise errors.StoreFull(f"{no_space}; nothing was dropped")
        if full := await self._log.room.full():
            raise errors.StoreFull(
                f"the store of nats-server at {shown(self._log.url)} is full ({full}): enlarge it or shorten max_age; nothing was dropped"
            )
        await self.settled()
        unexpecting = self.signer is not None and messages[-1].expect_last is None
        for remaining in reversed(range(TRIES if unexpecting else 1)):
            try:
                return await self._appended(messages)
            except errors.Conflict:
                if remaining:
                    continue  # nothing was expected by the caller: somebody else's message came in between
                behind = await self._behind_forged(messages)
                if behind is None:
                    raise
                return await self._appended(behind)
            except errors.MessageTooLarge:
                await self._log.renew_limits()
                raise
        raise AssertionError("the last try returns or raises")

    async def _appended(self, messages: Sequence[Message]) -> Committed:
        if self.signer is not None:
            messages = await self._signable(self.signer, messages)
        if len(messages) > 1:
            return await self._batch(messages)
        return await self._append(*self._prepared(messages)[0])

    async def _signable(self, signer: Signer, messages: Sequence[Message]) -> Sequence[Message]:
        """What is to be signed: the last message always has an expectation, which makes it good for one place only."""
        if (signer.changed() or not signer.log) and self.keys is not None:
            keys = await self.keys.keys()
            if keys is None:
                raise errors.NoKeys(f"there is no key record on {self.keys.keyring.subject} any longer")
            signer.follow(keys)
        last = messages[-1]
        if last.expect_last is not None:
            return messages
        stored = await self._last_stored(last.subject)
        return [*messages[:-1], msgspec.structs.replace(last, expect_last=stored.seq if stored else 0)]

    def _prepared(
        self, messages: Sequence[Message], batch: str = ""
    ) -> list[tuple[str, bytes, dict[str, str]]]:
        """Messages as they are sent; the client writes into the headers that it is given."""
        prepared: list[tuple[str, bytes, dict[str, str]]] = []
        for message in messages:
            headers = dict(message.headers or {})
            if message.expect_last is not None:
                headers[EXPECTED] = str(message.expect_last)
            if message.expect_of:
                headers[EXPECTED_OF] = message.expect_of
            prepared.append((message.subject, message.body, headers))
        if self.signer is not None:
            self.signer.sign(prepared)
        if batch:
            for n, (_, _, headers) in enumerate(prepared, 1):
                headers[BATCH_ID] = batch
                headers[BATCH_SEQUENCE] = str(n)
            prepared[-1][2][BATCH_COMMIT] = "1"
        for one in prepared:
            self._check_size(*one)
        return prepared

    def _check_size(self, subject: str, body: bytes, headers: Mapping[str, str]) -> None:
        """Raise MessageTooLarge: the server would end the connection instead of answering, and the next one as well."""
        lines = sum(
            len(name.encode()) + len(value.encode()) + len(": \r\n") for name, value in headers.items()
        )
        size, most = len(body) + lines + HEADER_LINE_BYTES, self._log.max_message_bytes
        if size > most:
            raise errors.MessageTooLarge(
                f"a message on {subject} measures {size} bytes with its headers, and nats-server at {shown(self._log.url)} "
                f"takes {most} of one: set its max_payload to {ADVISED_PAYLOAD} or more; nothing was dropped"
            )

    async def _behind_forged(self, messages: Sequence[Message]) -> list[Message] | None:
        """The same messages, to be appended behind those on their subjects that nobody believes.

        The server counts these when it compares sequences, whoever reads does not: else one forged
        message on a checkpoint's subject would stop its owner for good. None when an expectation was
        wrong by what is believed, too, or when nothing is forged.
        """
        adjusted: list[Message] = []
        for message in messages:
            if message.expect_last is not None:
                subject = message.expect_of or message.subject
                stored = await self._last_stored(subject)
                if (seq := stored.seq if stored else 0) != message.expect_last:
                    last = await self._log.last(subject)
                    if (last.seq if last else 0) != message.expect_last:
                        return None
                    message = msgspec.structs.replace(message, expect_last=seq)
            adjusted.append(message)
        return adjusted if adjusted != list(messages) else None

    async def settled(self) -> None:
        """See `Log.settled`."""
        await self._torn.check()

    async def _batch(self, messages: Sequence[Message]) -> Committed:
        batch, last = token_urlsafe(BATCH_ID_BYTES), len(messages)
        in_doubt = False
        try:
            for n, (subject, body, headers) in enumerate(self._prepared(messages, batch), 1):
                if n in (1, last):
                    in_doubt = n == last
                    answer = await self._log.requested(subject, body, headers)
                    if answer:
                        ack = msgspec.json.decode(answer)
                        if "error" in ack:
                            in_doubt = in_doubt and ack["error"].get("err_code") in FULL
                            # One that was refused on its way is missing in the batch.
                            for message in messages:
                                self._log.check_allowed(message.subject)
                            raise self._log.refused(
                                ack["error"], f"append of {last} messages, the first on {messages[0].subject}"
                            )
                        if n == last:
                            in_doubt = False
                            return Committed(int(ack["seq"]), last)
                else:
                    await self._log.published(subject, body, headers)
        finally:
            # Not before: others of this process may append while an answer is waited for.
            if in_doubt:
                self._torn.unanswered(batch, messages)
        raise errors.LogUnavailable(
            f"stream {self._log.stream} did not say what became of a batch of {last} messages"
        )

    async def append(self, message: Message) -> Committed:
        """See `Log.append`."""
        headers = dict(message.headers or {})
        if message.expect_last is not None:
            headers[EXPECTED] = str(message.expect_last)
        self._check_size(message.subject, message.body, headers)
        return await self._append(message.subject, message.body, headers)

    async def _append(self, subject: str, body: bytes, headers: dict[str, str]) -> Committed:
        ack = msgspec.json.decode(await self._log.requested(subject, body, headers))
        if "error" in ack:
            raise self._log.refused(ack["error"], f"append on {subject}")
        return Committed(int(ack["seq"]), 1)

    async def _last_stored(self, subject: str) -> Record | None:
        return await self._log.lookups.stored({"last_by_subj": subject})

    async def _stored_at(self, seq: int) -> Record | None:
        return await self._log.lookups.stored({"seq": seq})
