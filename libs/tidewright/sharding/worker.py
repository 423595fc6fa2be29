"""A worker that owns slots of a ShardSet: four callbacks and a guard (section 3.6).

    class Orders:
        async def prepare(self, slot, epoch): ...               # warm up, no effects
        async def activate(self, slot, epoch, checkpoint): ...  # write the fence record, start
        async def drain(self, slot, epoch): ...                 # finish what is in flight; where it stopped
        async def revoke(self, slot, epoch): ...                # drop it now

    worker = Worker(kube, Orders(), namespace="shop", shard_set="orders", name=os.environ["POD_NAME"])
    await worker.run()                                          # until stop(); drains before it returns

    epoch = worker.guard(slot)                                  # before each effect; raises NotOwner

The callbacks of one slot run one after the other; a revocation cancels the one that runs. What a
callback raises ends the worker: a slot in an unknown state is better lost with its lease. A worker
whose lease is lost joins again under a new incarnation.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import Callable
from typing import Any, Protocol

import msgspec
import structlog

from tidewright.kube.client import Kube
from tidewright.kube.errors import KubeError
from tidewright.kube.listwatch import Added, Modified, Page, list_watch
from tidewright.sharding.keyspace import HashName, slot_of
from tidewright.sharding.lease import LeaseTimes
from tidewright.sharding.load import Load
from tidewright.sharding.member import Activate, Drain, Member, NotOwner, Prepare, Revoke, Task
from tidewright.sharding.record import API_VERSION, Record, Taken
from tidewright.sharding.signals import Signals
from tidewright.sharding.wire import document_of

_log = structlog.get_logger(__name__)
RETRY_S = 0.5


class Handler(Protocol):
    """What a worker does with its slots."""

    async def prepare(self, slot: int, epoch: int) -> None:
        """Warm up, without effects."""

    async def activate(self, slot: int, epoch: int, checkpoint: str) -> None:
        """Write the fence record under `epoch`, then start from after `checkpoint`."""

    async def drain(self, slot: int, epoch: int) -> str:
        """Take no new work, finish what is in flight; where the next owner goes on."""
        ...

    async def revoke(self, slot: int, epoch: int) -> None:
        """Drop the slot; effects are forbidden already."""


class Worker:
    """One worker process.

    Attributes:
        member: the present incarnation; None before the first join.
        slots: size of the keyspace in the newest assignment seen; 0 before the first.
    """

    def __init__(
        self,
        kube: Kube,
        handler: Handler,
        *,
        namespace: str,
        shard_set: str,
        name: str,
        weight: int = 1,
        version: str = "",
        drain_within_s: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.kube, self.handler = kube, handler
        self.namespace, self.shard_set, self.name = namespace, shard_set, name
        self.weight, self.version = weight, version
        self.slots = 0
        self._hash: HashName = "blake2b64"
        self.drain_within_s = drain_within_s
        self.clock = clock
        self.member: Member | None = None
        self.load = Load(clock())
        self.signals = Signals()
        self._stopping = asyncio.Event()
        self._changed = asyncio.Event()
        self._over = asyncio.Event()
        self._chains: dict[int, list[asyncio.Task[None]]] = {}
        self._leaving = False

    def guard(self, slot: int) -> int:
        """The epoch under which the worker may act on a slot at this moment.

        Raises:
            NotOwner: it may not.
        """
        if self.member is None:
            raise NotOwner(slot, "the worker has not joined")
        return self.member.guard(slot, self.clock())

    def slot_of(self, key: str) -> int:
        """The slot of a key, in the keyspace as this worker knows it.

        Raises:
            NotOwner: no assignment has been seen yet.
        """
        if not self.slots:
            raise NotOwner(-1, "no assignment has been seen yet")
        return slot_of(key, self.slots, self._hash)

    def busy(self, slot: int, seconds: float, key: str = "") -> None:
        """Count time spent on a slot's work, for rebalancing and auto-sizing; on which key, to find hot ones."""
        self.load.add(slot, seconds)
        self.signals.busy(slot, seconds, key)

    def waited(self, seconds: float) -> None:
        """Count how long a piece of work has waited for its turn: auto-sizing and canaries go by it."""
        self.signals.waited(seconds)

    def backlog(self, slot: int, count: int) -> None:
        """Say how much work of a slot waits now; a rollout waits until it is no more than twice that before."""
        self.signals.backlog(slot, count)

    def done(self, *, failed: bool = False) -> None:
        """Count a piece of work that has ended; canaries go by the share that failed."""
        self.signals.done(failed=failed)

    def fenced(self) -> None:
        """Count a write that the sink refused for its epoch (R5)."""
        self.signals.fenced += 1

    def stop(self) -> None:
        """Hand everything over, then end."""
        self._stopping.set()
        self._changed.set()

    async def run(self) -> None:
        """Own slots until `stop`. Raises what a callback raised."""
        while not self._stopping.is_set():
            member = Member(name=self.name, incarnation=uuid.uuid4().hex)
            try:
                await self._life(member)
            finally:
                member.fence()
                await self._revoke_all()

    async def _life(self, member: Member) -> None:
        """One incarnation, from its join to its end."""
        self._over.clear()
        record = Record(self.kube, self.namespace, self.shard_set, member)
        if not await self._join(member, record):
            return
        self.member = member
        async with asyncio.TaskGroup() as tasks:
            helpers = [
                tasks.create_task(self._watch(tasks, member)),
                tasks.create_task(self._renew(tasks, member, record)),
                tasks.create_task(self._fence_in_time(tasks, member)),
            ]
            await self._over.wait()
            for helper in helpers:
                helper.cancel()

    async def _join(self, member: Member, record: Record) -> bool:
        while not self._stopping.is_set():
            sent_at = self.clock()
            try:
                owner, member.times = await self._shard_set()
                await record.create(
                    owner, weight=self.weight, version=self.version, timeout_s=member.times.duration_s
                )
            except (KubeError, ValueError) as error:
                _log.warning("cannot join yet", shard_set=self.shard_set, error=str(error))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(RETRY_S):
                        await self._stopping.wait()
                continue
            member.renewed_at = sent_at
            _log.info("joined", member=member.id, shard_set=self.shard_set)
            return True
        return False

    async def _shard_set(self) -> tuple[dict[str, Any], LeaseTimes]:
        """The owner reference to the set, and the lease that its spec states."""
        path = f"/apis/{API_VERSION}/namespaces/{self.namespace}/shardsets/{self.shard_set}"
        shard_set = msgspec.json.decode((await self.kube.request("GET", path)).body)
        uid = shard_set["metadata"]["uid"]
        spec = shard_set.get("spec") or {}
        if name := (spec.get("keyspace") or {}).get("hash"):
            self._hash = name  # it never changes in the life of a set
        owner = {"apiVersion": API_VERSION, "kind": "ShardSet", "name": self.shard_set, "uid": uid}
        return owner, LeaseTimes.of_spec(spec)

    async def _watch(self, tasks: asyncio.TaskGroup, member: Member) -> None:
        path = f"/apis/{API_VERSION}/namespaces/{self.namespace}/shardsets"
        query = {"fieldSelector": f"metadata.name={self.shard_set}"}
        async for item in list_watch(self.kube, path, query=query):
            match item:
                case Page(objects=objects):
                    for raw in objects:
                        self._observe(tasks, member, raw)
                case Added(raw=raw) | Modified(raw=raw):
                    self._observe(tasks, member, raw)

    def _observe(self, tasks: asyncio.TaskGroup, member: Member, raw: bytes | msgspec.Raw) -> None:
        assignment = (msgspec.json.decode(raw).get("status") or {}).get("assignment")
        if assignment:
            document = document_of(assignment)
            self.slots = len(document.slots)
            self._start(tasks, member, member.observe(document))
            self._changed.set()

    def _start(self, tasks: asyncio.TaskGroup, member: Member, new_tasks: list[Task]) -> None:
        """Each task after the earlier ones of its slot; a revocation ends those first."""
        for task in new_tasks:
            before = [t for t in self._chains.get(task.slot, ()) if not t.done()]
            if isinstance(task, Revoke):
                for earlier in before:
                    earlier.cancel()
            self._chains[task.slot] = [*before, tasks.create_task(self._do(member, task, before))]
        if member.fenced and not self._leaving:
            self._over.set()

    async def _do(self, member: Member, task: Task, before: list[asyncio.Task[None]]) -> None:
        if before:
            await asyncio.wait(before)
        match task:
            case Prepare(slot=slot, epoch=epoch):
                await self.handler.prepare(slot, epoch)
                member.prepared(slot)
            case Activate(slot=slot, epoch=epoch, checkpoint=checkpoint):
                await self.handler.activate(slot, epoch, checkpoint)
                member.activated(slot, epoch)
            case Drain(slot=slot, epoch=epoch):
                member.drained(slot, epoch, await self.handler.drain(slot, epoch))
            case Revoke(slot=slot, epoch=epoch):
                await self.handler.revoke(slot, epoch)
        self._changed.set()

    async def _renew(self, tasks: asyncio.TaskGroup, member: Member, record: Record) -> None:
        """Renew until the end of this incarnation."""
        try:
            await self._renewals(tasks, member, record)
        finally:
            self._over.set()

    async def _renewals(self, tasks: asyncio.TaskGroup, member: Member, record: Record) -> None:
        """On the interval, and at once when there is something to say."""
        leave_by: float | None = None
        while not member.fenced:
            # Not `wait_for`: in Python 3.11 it can swallow a cancellation that comes with the event.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(member.times.renew_interval_s):
                    await self._changed.wait()
            self._changed.clear()
            leaving = self._stopping.is_set()
            if leaving and leave_by is None:
                leave_by = self.clock() + self.drain_within_s
            released = leave_by is not None and (not member.holdings or self.clock() >= leave_by)
            if released:
                self._leaving = True  # its end is when this has been said, not when it has stopped
                # Stopped first, then said: whoever reads `released` may give the slots away at once.
                self._start(tasks, member, member.fence())
                await self._callbacks()
            sent_at = self.clock()
            try:
                await record.renew(
                    leaving=leaving,
                    released=released,
                    load=self.load.report(member.acting(), sent_at),
                    signals=self.signals.report(member.acting()),
                    timeout_s=max(1.0, member.times.act_until(member.renewed_at) - sent_at),
                )
            except Taken as error:
                _log.warning("lease lost", member=member.id, reason=str(error))
                self._start(tasks, member, member.fence())
                return
            except KubeError as error:
                _log.warning("cannot renew", member=member.id, error=str(error))
                if released:
                    return  # the lease runs out by itself
                await asyncio.sleep(RETRY_S)
                self._changed.set()
                continue
            if released:
                return
            self._start(tasks, member, member.renewed(sent_at, self.clock()))

    async def _fence_in_time(self, tasks: asyncio.TaskGroup, member: Member) -> None:
        """Stop by ourselves when the lease runs out (R3); `guard` refuses from that moment anyhow."""
        while not member.fenced:
            await asyncio.sleep(max(0.0, member.times.act_until(member.renewed_at) - self.clock()))
            self._start(tasks, member, member.tick(self.clock()))

    async def _callbacks(self) -> None:
        """Wait for all callbacks under way."""
        if pending := [task for chain in self._chains.values() for task in chain if not task.done()]:
            await asyncio.wait(pending)

    async def _revoke_all(self) -> None:
        """No callback of an ended incarnation runs on."""
        for chain in self._chains.values():
            for task in chain:
                task.cancel()
        await self._callbacks()
        self._chains.clear()
