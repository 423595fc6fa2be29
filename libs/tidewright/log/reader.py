"""Read records in stream order from a position, without acknowledgements.

An ephemeral consumer of the server's delivers; its own sequence must have no gap, else another
consumer is made from the last record on. So a lost connection, a restarted server and a consumer
that the server forgot look alike to the caller: records go on where they ended.

A stream takes a thousand consumers, whoever makes them: a service that was taken over can have them all. Who gets
none asks message by message meanwhile, which is slow, and takes nothing that others could use up.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import msgspec
import nats.errors
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from tidewright.log import belief, errors
from tidewright.log.cancellation import heeded
from tidewright.log.diagnostics import get_logger
from tidewright.log.verdicts import LATER, Later

if TYPE_CHECKING:
    from tidewright.log.connection import Log

WINDOW = 1000
"""Records asked for ahead of the caller: bounds what waits in memory."""
PULL_EXPIRES_S = 30.0
HEARTBEAT_S = 0.5
SILENCE_S = 1.5
"""Without a record and without a heartbeat for so long, the consumer is taken for lost."""
HEARD_S = 0.05
"""For so long what has come meanwhile is let in before that: whoever had no processor time heard nothing, too."""
FORGET_AFTER_S = 10.0
"""A consumer that nobody pulls from is gone after so long: where a machine is so busy that the server's answer comes too late, each attempt
leaves one behind. Whoever still reads has asked for records within `PULL_EXPIRES_S`, and that keeps it."""
DELIVERED = "$JS.ACK."
"""Begins the reply subject of what is delivered from a stream, and of nothing else."""
LOOKED_UP = 200
"""Records that are asked for one by one before the caller gets them."""
CONSUMER_AGAIN_S = 5.0
"""How often it is tried again to have a consumer, by who got none."""
HELD_S = 0.2
"""How often it is looked for the rest of a commit that the server has stored in part."""

logger = get_logger(__name__)


class Record(msgspec.Struct, frozen=True, array_like=True, tag="record"):
    """One message of the log. `headers` is empty for a message without any.

    The stored form of exports, too: positional, so fields are only ever added at the end.
    """

    seq: int
    subject: str
    body: bytes
    headers: dict[str, str]


def parse_headers(raw: bytes) -> dict[str, str]:
    """Headers as the server stores them: a status line, then `Name: value` lines."""
    headers: dict[str, str] = {}
    for line in raw.split(b"\r\n")[1:]:
        name, separator, value = line.partition(b":")
        if separator:
            headers[name.decode(errors="replace")] = value.strip().decode(errors="replace")
    return headers


class Reader:
    """Records of one set of filters. Use as an async context manager, or call `close`."""

    def __init__(
        self,
        log: Log,
        filters: tuple[str, ...],
        after: int,
        *,
        last_only: bool = False,
        stream: str = "",
        window: int = WINDOW,
        believing: bool = True,
    ) -> None:
        """`stream` is the log's own unless another one (the membership bucket's) is named.

        `window`: records asked for ahead; fewer for who will stop soon. `believing` is off for who judges
        what is stored by himself.
        """
        self._window = window
        self._log = log
        self._stream = stream or log.stream
        self._filters = filters
        self._last_only = last_only
        self._arrived: deque[Record] = deque()
        self._wake = asyncio.Event()
        self._subscription: Subscription | None = None
        self._consumer = ""
        self._generation = 0
        self._consumer_seq = 0
        self._broken = False
        self._credit = 0
        self._heard = 0.0
        self.position = after
        """Sequence of the last record handed out (or skipped)."""
        self.received = after
        """Sequence of the last record received."""
        self.pending: int | None = None
        """Matching records that the server has not delivered yet; None before the first answer."""
        self.forged = 0
        """Messages dropped because they are not believed."""
        self.held = False
        """What came last is a part of a commit, of which the server has yet to store the rest."""
        self._believing = believing
        self._judges = believing and (not stream or stream == log.stream)
        self._directly = log.directly and self._stream == log.stream
        if self._directly and len(filters) != 1:
            # What is stored between two questions would be missed by the first and passed by the second.
            raise ValueError(f"without a consumer one filter is read, not {', '.join(filters) or 'none'}")
        self._ahead: asyncio.Task[tuple[list[Record], bool]] | None = None
        """Without a consumer: what is asked for already."""
        self._to_end = False
        """Nothing more is to be asked for with what is fetched."""
        self._settled, self._settled_at = False, 0
        self._every = False
        """With `last_only`: the rest is read message by message, since the server ends the other way at some."""
        self._without_until = 0.0
        """There was no consumer to be had: until then, of `time.monotonic`, messages are asked for one by one."""
        self._hidden: list[tuple[str, int]] = []
        """With `last_only`: subjects of which the last message is not believed, and its sequence."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def reached(self) -> int:
        """Everything that matches up to this sequence has been handed out, or passed over as not believed."""
        return self.position if self._arrived else max(self.position, self.received)

    async def fetch(self, limit: int = 500, timeout_s: float = 1.0) -> list[Record]:
        """What has arrived, up to `limit` records; waits up to `timeout_s` for the first.

        Returns an empty list when nothing came in time.

        Raises:
            LogUnavailable: the consumer could not be made in time; call again.
        """
        deadline = time.monotonic() + timeout_s
        while not self._arrived:
            await self._keep_asking()
            if self._arrived or await self._look_behind():
                break
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0:
                return []
            self._wake.clear()
            try:
                async with asyncio.timeout(min(remaining_s, HEARTBEAT_S)):
                    await self._wake.wait()
            except TimeoutError:
                continue
        arrived = self._arrived
        if len(arrived) <= limit:
            records = list(arrived)
            arrived.clear()
        else:
            records = [arrived.popleft() for _ in range(limit)]
        records = await self._believed(records)
        if self._hidden:
            said = {record.subject: record.seq for record in records}
            self._hidden = [(s, seq) for s, seq in self._hidden if said.get(s, 0) < seq]
        if self.held and not records:
            await asyncio.sleep(max(0.0, min(HELD_S, deadline - time.monotonic())))
        # Without a consumer what comes next is an answer to be waited for, which these records may do without.
        waits = self._directly and not self.held
        if self._credit <= self._window // 2 and not self._to_end and not waits:
            # These records are the caller's now: what fails here must not take them along.
            with contextlib.suppress(errors.LogUnavailable):
                await self._keep_asking()
        return records

    async def _believed(self, records: list[Record]) -> list[Record]:
        """Those of some records that are believed; what cannot be judged yet stays, and what comes after it."""
        trust = self._log.trust
        if trust is None or not self._judges:
            self.position = max(self.position, records[-1].seq)
            return records
        try:
            verdicts = await trust.judge(records)
        except BaseException:
            self._arrived.extendleft(reversed(records))
            raise
        believed: list[Record] = []
        self.held = False
        for place, (record, verdict) in enumerate(zip(records, verdicts, strict=True)):
            if verdict is LATER:
                self.held = True
                self._arrived.extendleft(reversed(records[place:]))
                break
            self.position = max(self.position, record.seq)
            if verdict is None:
                believed.append(record)
            elif not isinstance(verdict, Later):
                self._refuse(verdict, record.subject, record.seq)
        return believed

    def _refuse(self, cause: belief.Cause, subject: str, seq: int) -> None:
        self.forged += 1
        self._log.doubts.tell(cause, self._stream, seq, subject)
        if self._last_only and seq <= self._settled_at:
            self._hidden.append((subject, seq))
            self._wake.set()

    async def until_current(self, limit: int = 500) -> AsyncIterator[Record]:
        """Every record up to those that are there when the last of them is read, or asked for by who makes no consumer."""
        await self._keep_asking()
        while self._arrived or self._hidden or self.pending != 0:
            # Whoever was told that this is all need not ask once more to be told so again.
            self._to_end = self._directly and self.pending == 0
            for record in await self.fetch(limit, timeout_s=HEARTBEAT_S):
                yield record
            if self.held and self.pending == 0:
                return

    async def _look_behind(self) -> bool:
        """Take the last believed message of subjects whose last one is not; whether there was one."""
        while self._hidden and not self._arrived:
            subject, seq = self._hidden[-1]
            record = await self._log.lookups.before(subject, seq, self._stream)
            self._hidden.pop()
            if record is not None:
                self._arrived.append(record)
        return bool(self._arrived)

    async def close(self) -> None:
        """Give the consumer up."""
        if self._ahead is not None:
            self._ahead.cancel()
            await asyncio.wait([self._ahead])
        await self._drop_consumer()

    async def _keep_asking(self) -> None:
        if self._directly:
            await self._get_directly()
            return
        if time.monotonic() < self._without_until:
            await self._look_up()
            return
        if self._broken or await self._is_silent():
            await self._drop_consumer()
        try:
            if not self._consumer:
                await self._make_consumer()
            if self._credit <= self._window // 2 and len(self._arrived) < self._window:
                await self._pull()
        except errors.LogUnavailable:
            await self._drop_consumer()
            raise
        except errors.NoConsumer as error:
            if not self._without_until:
                logger.error(
                    "the server makes no consumer, reading message by message", stream=self._stream, error=str(error),
                    do="find out whose they are (nats consumer ls), and change the password of that service",
                )  # fmt: skip
            self._without_until, self._every = time.monotonic() + CONSUMER_AGAIN_S, True
            await self._look_up()

    async def _is_silent(self) -> bool:
        """Whether there is a consumer of which nothing is heard, though this process listens."""
        if not self._consumer or time.monotonic() - self._heard <= SILENCE_S:
            return False
        heard = self._heard
        await asyncio.sleep(HEARD_S)
        return self._heard == heard

    async def _look_up(self) -> None:
        """Take in what follows what was received, without a consumer."""
        while len(self._arrived) < min(self._window, LOOKED_UP):
            following = [
                await self._log.lookups.stored(
                    {"seq": self.received + 1, "next_by_subj": pattern}, self._stream
                )
                for pattern in self._filters
            ]
            record = min((r for r in following if r is not None), key=lambda r: r.seq, default=None)
            self.pending = int(record is not None)
            if record is None:
                return
            self.received = record.seq
            self._receive(record)

    async def _get_directly(self) -> None:
        """Take in what follows what was received, many at once and without a consumer; what comes behind it is asked for meanwhile."""
        while len(self._arrived) < self._window // 2:
            asked = self._ahead or asyncio.create_task(self._following(self.received))
            self._ahead = asked
            try:
                following, complete = await asyncio.shield(asked)
            finally:
                if asked.done():
                    self._ahead = None
            self.pending = int(not complete)
            for record in following:
                self.received = record.seq
                self._receive(record)
            if complete:
                return
            if self._window >= WINDOW:  # who takes few has the answer soon
                self._ahead = asyncio.create_task(self._following(self.received))

    async def _following(self, after: int) -> tuple[list[Record], bool]:
        """What comes behind a sequence, and whether that is all."""
        from tidewright.log import batched_get  # imports this module

        query = {"seq": after + 1, "next_by_subj": self._filters[0], "batch": self._window}
        following, more = await batched_get.ask(self._log, query)
        return following, not (more and following)

    async def _make_consumer(self) -> None:
        self._generation += 1
        self._consumer_seq = 0
        self._broken = False
        self._credit = 0
        config: dict[str, Any] = {
            "ack_policy": "none",
            "inactive_threshold": int(FORGET_AFTER_S * 1e9),
            "mem_storage": True,
            "num_replicas": 1,
        }
        if self._last_only and not self._every:
            config["deliver_policy"] = "last_per_subject"
        else:
            config["deliver_policy"] = "by_start_sequence"
            config["opt_start_seq"] = self.received + 1
        if len(self._filters) == 1:
            config["filter_subject"] = self._filters[0]
        else:
            config["filter_subjects"] = list(self._filters)
        answer = await self._log.api(
            f"CONSUMER.CREATE.{self._stream}", {"stream_name": self._stream, "config": config}
        )
        self.pending = int(answer["num_pending"])
        self._consumer = answer["name"]
        self._heard = time.monotonic()
        if self._without_until:
            self._without_until = 0.0
            logger.info("there is a consumer again", stream=self._stream)
        inbox = self._log.client.new_inbox()
        generation = self._generation

        async def on_message(message: Msg) -> None:
            if generation == self._generation:
                self._take(message)

        self._subscription = await heeded(self._log.client.subscribe(inbox, cb=on_message))

    async def _pull(self) -> None:
        if self._subscription is None:
            return
        batch = self._window - self._credit
        body = f'{{"batch":{batch},"expires":{int(PULL_EXPIRES_S * 1e9)},"idle_heartbeat":{int(HEARTBEAT_S * 1e9)}}}'
        self._credit += batch
        try:
            await heeded(
                self._log.client.publish(
                    f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{self._consumer}",
                    body.encode(),
                    reply=self._subscription.subject,
                )
            )
        except (nats.errors.Error, OSError) as error:
            raise errors.LogUnavailable(f"the log is not reached: {error}") from error

    def _take(self, message: Msg) -> None:
        self._heard = time.monotonic()
        headers = message.headers or {}
        if not message.reply.startswith(DELIVERED):
            # The server's own words. A stored message may have the same headers, and says nothing by them.
            if "Status" in headers:
                self._status(headers)
            return
        # $JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>; with a
        # domain and an account hash there are two tokens more after the second.
        tokens = message.reply.split(".")
        seq, consumer_seq, pending = int(tokens[-4]), int(tokens[-3]), int(tokens[-1])
        if consumer_seq != self._consumer_seq + 1:
            logger.warning("records skipped by the consumer, reading again", after=self.received, seq=seq)
            self._broken = True
            self._generation += 1  # whatever else this consumer sends is not wanted
            self._wake.set()
            return
        self._consumer_seq = consumer_seq
        self._credit -= 1
        self.pending = pending
        self.received = seq
        if not self._settled:
            self._settled_at, self._settled = seq, pending == 0
        if not message.data and not message.headers:
            # Between accounts the server takes an empty message for the end of the answers, whoever stored it.
            self._broken = self._every = True
            self._generation += 1
        self._receive(Record(seq, message.subject, message.data, headers))

    def _receive(self, record: Record) -> None:
        cause = (
            belief.refused(self._log.subjects, record.subject, record.headers) if self._believing else None
        )
        if cause is not None:
            self._refuse(cause, record.subject, record.seq)
            return
        self._arrived.append(record)
        self._wake.set()

    def _status(self, headers: dict[str, str]) -> None:
        status = headers["Status"]
        if status == "100":  # idle heartbeat
            return
        if status == "408":  # a pull expired
            self._credit = 0
            self._wake.set()
            return
        # 409 consumer deleted or leadership change, 404, 503: whatever it is, a new consumer mends it.
        logger.debug(
            "consumer ended by the server", status=status, description=headers.get("Description", "")
        )
        self._broken = True
        self._wake.set()

    async def _drop_consumer(self) -> None:
        subscription, self._subscription, self._consumer = self._subscription, None, ""
        self._generation += 1
        self._credit = 0
        if subscription is not None:
            try:
                await heeded(subscription.unsubscribe())
            except nats.errors.Error as error:  # a closed connection has no subscriptions left
                logger.debug("subscription not ended", error=str(error))
