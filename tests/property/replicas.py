"""Replicas of one service over simulated time: real hosts on a log, buckets and a network made of Python.

Time is the event loop's, and jumps from one thing that happens to the next. The log keeps what the
server promises: a total order, batches that are stored as a whole or not at all, expected
sequences. The network may cut a replica off, before its append is stored or after; a killed one is
never heard of again, though what it sent last may still arrive.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import selectors
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from tests.unit.host.counting import COUNTING, State
from tests.waiting import until
from tidewright.events import registry
from tidewright.events.facts import PodObserved
from tidewright.host.loop.host import Host
from tidewright.host.loop.membership import HEARTBEAT_S, BucketMembership
from tidewright.host.loop.settings import Settings
from tidewright.host.process.health import Health
from tidewright.log import errors
from tidewright.log.checkpoint import decode as decode_checkpoint
from tidewright.log.connection import FEW, Committed, Message
from tidewright.log.continuity import Continuity, Extent
from tidewright.log.envelope import Writer
from tidewright.log.install import TTL_S
from tidewright.log.outage import Outage
from tidewright.log.reader import Record
from tidewright.log.snapshots import Snapshot, Snapshots
from tidewright.log.snapshots import decode as decode_snapshot
from tidewright.log.subjects import Slot, Subjects, slot_of

SLOTS = 4
NAMESPACES = tuple(f"n{i}" for i in range(8))
LATENCY_S = 0.004
TIMEOUT_S = 1.0


class _Jumping(selectors.DefaultSelector):
    """Waits for nothing: what is waited for is the next thing that is due."""

    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("everything waits for something that nobody will do")
        self.loop.now += max(1e-6, timeout) if timeout else 0.0
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next timer as soon as there is nothing else to do."""

    def __init__(self) -> None:
        self.now = 1e7  # later than any clock of this machine
        selector = _Jumping()
        selector.loop = self
        super().__init__(selector)
        self._clock_resolution = 1e-6

    def time(self) -> float:
        return self.now


class Stream:
    """The stream, as the server keeps it."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.last: dict[str, Record] = {}
        self.grown = asyncio.Event()

    def append(self, messages: Sequence[Message]) -> Committed:
        for message in messages:
            last = self.last.get(message.subject)
            if message.expect_last is not None and message.expect_last != (last.seq if last else 0):
                raise errors.Conflict(f"{message.subject}: expected {message.expect_last}")
        for message in messages:
            record = Record(len(self.records) + 1, message.subject, message.body, dict(message.headers or {}))
            self.records.append(record)
            self.last[message.subject] = record
        self.grown.set()
        self.grown = asyncio.Event()
        return Committed(len(self.records), len(messages))


class Link:
    """One replica's connection: the part of `Log` that a host uses."""

    def __init__(self, stream: Stream, draw: random.Random) -> None:
        self.subjects, self.slots, self.stream, self.replicas = Subjects("sim"), SLOTS, "SIM", 1
        self.cut = self.dead = False
        self._stream, self._draw = stream, draw
        self.unable = ""
        self.continuity = Continuity(self.stream, self.extent)
        self.outage = Outage()

    async def extent(self) -> Extent:
        await self.travel()
        return Extent("made", 1, len(self._stream.records), 0.0, ever_aged=False)

    async def travel(self) -> None:
        await asyncio.sleep(self._draw.uniform(0.2, 2.0) * LATENCY_S)
        if self.dead:
            await asyncio.Event().wait() if not self.cut else await asyncio.sleep(0)
        if self.cut:
            await asyncio.sleep(TIMEOUT_S)
            raise errors.LogUnavailable("cut off")

    async def commit(self, messages: Sequence[Message]) -> Committed:
        await self.travel()
        committed = self._stream.append(messages)
        await self.travel()  # the answer may be lost
        return committed

    def one_by_one(self, count: int) -> bool:
        return count <= FEW and self.replicas == 1

    async def may_append(self, subject: str) -> bool:
        await self.travel()
        return subject.startswith(f"{self.subjects.root}.timer.")  # as a service's permissions say

    async def settled(self) -> None:
        """Nothing is stored in part here."""

    async def last(self, subject: str) -> Record | None:
        await self.travel()
        return self._stream.last.get(subject)

    async def at(self, seq: int) -> Record | None:
        await self.travel()
        return self._stream.records[seq - 1] if seq <= len(self._stream.records) else None

    async def bounds(self) -> tuple[int, int]:
        await self.travel()
        return 1, len(self._stream.records)

    async def exists(self, stream: str) -> bool:
        raise errors.LogForbidden(f"no {stream} here")

    async def message(self, stream: str, query: Mapping[str, Any]) -> Record | None:
        raise errors.LogForbidden(f"no {stream} here, so nothing of {query}")

    async def last_per_subject(self, filters: Sequence[str]) -> AsyncIterator[Record]:
        await self.travel()
        nothing: tuple[Record, ...] = ()  # nobody sets the clock here
        for record in nothing:
            yield record

    def reader(self, filters: Sequence[str], *, after: int = 0) -> LinkReader:
        return LinkReader(self, self._stream, after)


class LinkReader:
    """Records in order from a position; silent while the link is cut."""

    def __init__(self, link: Link, stream: Stream, after: int) -> None:
        self._link, self._stream = link, stream
        self.position, self.forged, self.pending = after, 0, 0

    async def fetch(self, limit: int = 500, timeout_s: float = 1.0) -> list[Record]:
        await asyncio.sleep(LATENCY_S)
        if self._link.cut or self._link.dead:
            await asyncio.sleep(timeout_s)
            return []
        if self.position >= len(self._stream.records):
            try:
                async with asyncio.timeout(timeout_s):
                    await self._stream.grown.wait()
            except TimeoutError:
                return []
        records = self._stream.records[self.position : self.position + limit]
        self.position = records[-1].seq
        self.pending = len(self._stream.records) - self.position
        return records

    async def close(self) -> None:
        """There is nothing to give up."""


class LinkSnapshots(Snapshots):
    """Snapshots on a shelf that all replicas have in common, each at the end of its link."""

    def __init__(self, link: Link, shelf: dict[str, Snapshot]) -> None:
        super().__init__(link)  # type: ignore[arg-type]  # what is used of Log
        self._link, self._shelf = link, shelf

    async def latest(self, service: str, slot: Slot, readable: Sequence[int]) -> Snapshot | None:
        await self._link.travel()
        snapshot = self._shelf.get(slot)
        record = await self._link.at(snapshot.checkpoint_seq) if snapshot else None
        if snapshot is None or record is None:
            return None
        found = decode_checkpoint(record.body)
        same = (snapshot.position, snapshot.digest, snapshot.chain) == (
            found.position,
            found.digest,
            found.chain,
        )
        assert same, f"a snapshot of slot {slot} that is not its checkpoint's: {snapshot}, {found}"
        return snapshot

    async def put(self, snapshot: Snapshot, data: bytes, *, keep: bool = False) -> bool:
        with contextlib.suppress(errors.LogUnavailable):
            await self._link.travel()
            self._shelf[snapshot.slot] = decode_snapshot(data)  # an older one may come last
            await self._link.travel()
            return True
        return False


class Bucket:
    """The membership bucket: entries with a time to live."""

    def __init__(self) -> None:
        self.entries: dict[str, float] = {}
        self.views: list[SimulatedMembership] = []

    def put(self, member: str) -> None:
        self.entries[member] = asyncio.get_running_loop().time()
        for view in self.views:
            view.told(member, there=True)

    def drop(self, member: str) -> None:
        self.entries.pop(member, None)
        for view in self.views:
            view.told(member, there=False)

    async def expire(self) -> None:
        """The server's part."""
        while True:
            await asyncio.sleep(0.1)
            now = asyncio.get_running_loop().time()
            for member in [m for m, at in self.entries.items() if now - at > TTL_S]:
                self.drop(member)


class SimulatedMembership(BucketMembership):
    """The real judgement of who is alive, on entries that come over a `Link`."""

    def __init__(self, link: Link, bucket: Bucket, member: str, rate: float) -> None:
        """`rate`: seconds that this process's clock ticks per second."""
        loop = asyncio.get_running_loop()
        super().__init__(link, "counting", member, monotonic=lambda: loop.time() * rate)  # type: ignore[arg-type]  # what is used of Log
        self._link, self._bucket = link, bucket

    def told(self, name: str, *, there: bool) -> None:
        if not (self._link.cut or self._link.dead):
            self._hear(name, b"1" if there else b"")
            self._judge()

    async def join(self) -> None:
        self._bucket.views.append(self)
        for name in list(self._bucket.entries):
            self._hear(name, b"1")
        self._tasks = [asyncio.create_task(self._beat())]
        while self._member not in self._members:  # noqa: ASYNC110  # a member's own, for as long as it takes
            await asyncio.sleep(0.05)

    async def leave(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self in self._bucket.views:
            self._bucket.views.remove(self)
        if not (self._link.cut or self._link.dead):
            self._bucket.drop(self._member)

    async def _beat(self) -> None:
        while True:
            if not (self._link.cut or self._link.dead):
                self._bucket.put(self._member)
            self._judge()
            await asyncio.sleep(HEARTBEAT_S)


class Replica:
    """One process."""

    def __init__(self, world: World, name: str, rate: float) -> None:
        self.name = name
        self.link = Link(world.stream, world.draw)
        self.membership = SimulatedMembership(self.link, world.bucket, name, rate)
        self.host: Host[State] = Host(
            COUNTING,
            self.link,  # type: ignore[arg-type]  # what is used of Log
            self.membership,
            Health("counting"),
            writer=Writer("counting", name),
            settings=Settings(snapshot_distance=world.draw.choice((5, 50, 5_000)), snapshot_pause_s=0.0),
            stored=LinkSnapshots(self.link, world.shelf),
        )
        self._stop = asyncio.Event()
        self.task = asyncio.create_task(self.host.run(self._stop))

    @property
    def slots(self) -> set[Slot]:
        return set(self.host.owned)

    async def stop(self) -> None:
        """As SIGTERM would."""
        self._stop.set()
        await asyncio.wait([self.task], timeout=30)

    async def kill(self) -> None:
        """As SIGKILL would: what is under way may arrive, nothing else is ever sent."""
        self.link.dead = True
        await asyncio.sleep(0)
        self.task.cancel()
        await asyncio.wait([self.task], timeout=5)
        await self.membership.leave()


class World:
    """All of them, the facts that they decide about, and what must hold."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.stream, self.bucket = Stream(), Bucket()
        self.shelf: dict[str, Snapshot] = {}
        self.replicas: list[Replica] = []
        self.facts = 0
        self._born = 0
        self._expiring = asyncio.create_task(self.bucket.expire())

    def join(self, rate: float = 1.0) -> Replica:
        self._born += 1
        replica = Replica(self, f"r{self._born}-{self.draw.randrange(1000)}", rate)
        self.replicas.append(replica)
        return replica

    async def stop(self, replica: Replica) -> None:
        self.replicas.remove(replica)
        await replica.stop()

    async def kill(self, replica: Replica) -> None:
        self.replicas.remove(replica)
        await replica.kill()

    def say(self, count: int) -> None:
        """Facts, from a watcher that is always well."""
        subjects = Subjects("sim")
        for _ in range(count):
            self.facts += 1
            namespace = self.draw.choice(NAMESPACES)
            fact = PodObserved(at=float(self.facts), namespace=namespace, name=f"p{self.facts}")
            subject = subjects.fact(slot_of(namespace, SLOTS), "pod", namespace, fact.name)
            self.stream.append([Message(subject, registry.encode(fact))])

    async def until(self, holds: Callable[[], bool], within_s: float = 60.0) -> float:
        """Wait for something; how long it took, in simulated seconds. What a host died of is raised at once."""

        def holds_with_all_alive() -> bool:
            for replica in self.replicas:
                if replica.task.done():
                    replica.task.result()
            return holds()

        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            await until(holds_with_all_alive, within_s=within_s, every_s=0.01)
        except AssertionError as error:
            raise AssertionError(f"{error}; replicas: {self.told()}") from error
        return loop.time() - begun

    def told(self) -> str:
        return "; ".join(f"{r.name} {sorted(r.slots)}{' cut' if r.link.cut else ''}" for r in self.replicas)

    async def close(self) -> None:
        self._expiring.cancel()
        for replica in list(self.replicas):
            await self.kill(replica)
