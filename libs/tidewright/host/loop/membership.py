"""Who is alive, and which slots are whose.

Live replicas keep an entry in a bucket whose entries expire; each slot belongs to the live replica
with the highest rendezvous hash, so that only slots which a new member wins move. Membership only
says who should *try*: the expected sequence of a slot's checkpoint decides who writes.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from hashlib import blake2b
from typing import Protocol

from tidewright.log import errors
from tidewright.log.connection import Log
from tidewright.log.diagnostics import get_logger
from tidewright.log.identity import shown
from tidewright.log.install import TTL_S, members_of
from tidewright.log.reader import Reader
from tidewright.log.subjects import Slot, escape

HEARTBEAT_S = 0.5
STALE_S = TTL_S + 0.5
"""A member not heard of for so long is gone even if the bucket's own marker was missed."""

UNHEARD = "the log takes nothing: its servers have no leader, or too few of them are there, or ours is cut off from the others"
MARKER = "Nats-Marker-Reason"
"""Header of what the server puts in the place of an entry that has expired."""

logger = get_logger(__name__)


def rendezvous(slot: Slot, members: Iterable[str]) -> str | None:
    """The member that a slot belongs to; None when there is none. Ties go to the greater name."""
    return max(
        members, key=lambda m: (blake2b(f"{m}\0{slot}".encode(), digest_size=8).digest(), m), default=None
    )


def shares(member: str, members: Collection[str], slots: Iterable[Slot]) -> frozenset[Slot]:
    """The slots of one member among all."""
    return frozenset(slot for slot in slots if rendezvous(slot, members) == member)


class Membership(Protocol):
    """Who is there. `changed` is set whenever `members` differs from before."""

    changed: asyncio.Event

    @property
    def members(self) -> frozenset[str]: ...
    async def join(self) -> None: ...
    async def leave(self) -> None: ...


class BucketMembership:
    """Members of one service, by their entries in the membership bucket."""

    def __init__(
        self,
        log: Log,
        service: str,
        member: str,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        says: Callable[[], bytes] = lambda: b"1",
    ) -> None:
        """`monotonic` is this process's clock, seconds; `says` what its entry says, which is not empty."""
        self._monotonic = monotonic
        self._says = says
        self._log, self._service, self._member = log, service, member
        self._stream = f"KV_{members_of(log.stream)}"
        self._root = f"$KV.{members_of(log.stream)}"
        self._heard: dict[str, float] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._members: frozenset[str] = frozenset()
        self._entries: dict[str, bytes] = {}
        self._came_back_at = monotonic()
        """When our own entry was last heard of."""
        self._back_at = float("-inf")
        """When it was heard again after nobody could be heard."""
        self.changed = asyncio.Event()

    @property
    def members(self) -> frozenset[str]:
        """Who is alive, as last seen."""
        return self._members

    @property
    def entries(self) -> Mapping[str, bytes]:
        """What the entry of each says who is alive, as last seen."""
        return {member: self._entries[member] for member in self._members if member in self._entries}

    async def join(self) -> None:
        """Enter, and wait until the entry is seen to be there.

        Raises:
            WrongStream: there is no bucket of members.
            LogForbidden: this service may not enter: it has the account of another one.
        """
        if await self._log.settings(self._stream) is None:
            raise errors.WrongStream(
                f"no bucket {self._stream} at {shown(self._log.url)}: run `tidewright install` first, with --cluster {self._log.cluster}"
            )
        seen = asyncio.Event()
        self._tasks = [asyncio.create_task(self._beat()), asyncio.create_task(self._watch(seen))]
        try:
            while not seen.is_set():
                # An entry that the server refuses is never seen.
                self._log.check_allowed(self._key(self._member))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(HEARTBEAT_S):
                        await seen.wait()
        except errors.LogForbidden:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            raise

    async def leave(self) -> None:
        """Take the entry back at once, so that the others need not wait for its expiry."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        try:
            await self._log.client.publish(self._key(self._member), b"", headers={"KV-Operation": "DEL"})
            await self._log.client.flush(timeout=1)
        except Exception as error:  # noqa: BLE001  # leaving is a courtesy; the entry expires anyway
            logger.debug("membership entry left to expire", error=str(error))

    def _key(self, member: str) -> str:
        return f"{self._root}.{self._service}.{escape(member)}"

    async def _beat(self) -> None:
        while True:
            try:
                await self._log.client.publish(self._key(self._member), self._says())
            except Exception as error:  # noqa: BLE001  # the connection comes back or the process ends
                logger.debug("heartbeat not sent", error=str(error))
            await asyncio.sleep(HEARTBEAT_S)

    async def _watch(self, seen: asyncio.Event) -> None:
        prefix = len(f"{self._root}.{self._service}.")
        while True:
            try:
                async with Reader(
                    self._log, (f"{self._root}.{self._service}.>",), 0, last_only=True, stream=self._stream
                ) as reader:
                    # Nobody could be heard meanwhile: who is there has the time to be heard again.
                    self._heard = dict.fromkeys(self._heard, self._monotonic())
                    while True:
                        for record in await reader.fetch(timeout_s=HEARTBEAT_S):
                            self._hear(record.subject[prefix:], record.body, expired=MARKER in record.headers)
                        self._judge()
                        await self._tell()
                        if self._member in self._members:
                            seen.set()
            except errors.LogError as error:
                logger.debug("membership not readable", error=str(error))
                await self._tell()
                await asyncio.sleep(HEARTBEAT_S)

    @property
    def _deaf_s(self) -> float:
        """For how long our own entry, which we write all the while, has not come back."""
        return self._monotonic() - self._came_back_at

    async def _tell(self) -> None:
        """Say when the log takes nothing: who has nothing to append would not notice, and be ready.

        When our own entry does not come back it may be the bucket alone that has no leader.
        """
        deaf_s = self._deaf_s
        taking = deaf_s <= STALE_S or await self._log.is_taking()
        self._log.unheard = "" if taking else UNHEARD
        if not taking:
            await self._log.missed("who is there", deaf_s)

    def _hear(self, name: str, body: bytes, *, expired: bool = False) -> None:
        """An entry was written; or it was taken back, or expired: the marker of both has no body."""
        now = self._monotonic()
        if body and name == escape(self._member):
            if self._deaf_s > STALE_S:
                # While servers look for a leader nobody's entry is taken, and all of them expire.
                self._back_at = now
                self._heard = dict.fromkeys(self._heard, now)
            self._came_back_at = now
        if body:
            self._heard[name], self._entries[name] = now, body
        elif not expired or (self._deaf_s <= STALE_S and now - self._back_at > STALE_S):
            self._heard.pop(name, None)
            self._entries.pop(name, None)

    def _judge(self) -> None:
        now = self._monotonic()
        mine = self._heard.get(escape(self._member))
        if mine is None or now - mine > STALE_S:
            return  # what is not heard of may be our own deafness: keep the last view
        self._heard = {m: t for m, t in self._heard.items() if now - t <= STALE_S}
        self._entries = {m: body for m, body in self._entries.items() if m in self._heard}
        members = frozenset(self._heard)
        if members != self._members:
            joined, departed = sorted(members - self._members), sorted(self._members - members)
            logger.info("members changed", joined=joined, left=departed, members=len(members))
            self._members = members
            self.changed.set()
