"""Snapshots of folds in an object-store bucket: how a restart is fast.

A snapshot is only an acceleration. One that cannot be read, is of a newer version, or disagrees
with the checkpoint that it names is ignored, and the log is folded instead.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import nats.errors
import nats.js.errors
import structlog
import zstandard
from nats.js.api import ObjectStoreConfig
from nats.js.object_store import ObjectStore

from tidewright.log import checkpoint as checkpoints
from tidewright.log.connection import Log
from tidewright.log.subjects import Slot

LEVEL = 3
"""Compression level: states are JSON, and compress well at once."""

logger = structlog.get_logger(__name__)


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="snapshot.v1"):
    """A slot's fold right after a commit.

    Attributes:
        checkpoint_seq: sequence of the checkpoint that was committed at this very state.
        position, folded, digest, chain, at: as in that checkpoint.
        timers: key to due time (log time, seconds).
        state_version: of the decider's state.
        version: of the software that wrote it.
        state: the decider's state, JSON.
    """

    service: str
    slot: str
    checkpoint_seq: int
    position: int
    folded: int
    digest: str
    chain: str
    at: float
    timers: dict[str, float]
    state_version: int
    version: str
    state: msgspec.Raw


def encode(snapshot: Snapshot) -> bytes:
    """The stored form: compressed JSON."""
    return zstandard.ZstdCompressor(level=LEVEL).compress(msgspec.json.encode(snapshot))


def decode(data: bytes) -> Snapshot:
    """Read the stored form.

    Raises:
        ValueError: the bytes are no snapshot of a version known here.
    """
    try:
        plain = zstandard.ZstdDecompressor().decompressobj().decompress(data)
        return msgspec.json.decode(plain, type=Snapshot)
    except (zstandard.ZstdError, msgspec.MsgspecError) as error:
        raise ValueError(f"not a snapshot: {error}") from error


class Snapshots:
    """The bucket of one cluster's snapshots: the latest of each service and slot, and older ones on demand."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._bucket = f"{log.stream}_snapshots"
        self._store: ObjectStore | None = None

    async def _open(self) -> ObjectStore:
        if self._store is None:
            js = self._log.jetstream
            try:
                self._store = await js.object_store(self._bucket)
            except nats.js.errors.NotFoundError:
                self._store = await js.create_object_store(
                    self._bucket, ObjectStoreConfig(bucket=self._bucket)
                )
        return self._store

    async def put(self, snapshot: Snapshot, data: bytes, *, keep: bool = False) -> None:
        """Store a snapshot as its slot's latest; `keep` also as one of its history.

        A failure is logged and forgotten: nothing depends on a snapshot.
        """
        names = [_latest(snapshot.service, Slot(snapshot.slot))]
        if keep:
            names.append(f"{names[0]}/{snapshot.position}")
        try:
            store = await self._open()
            for name in names:
                await store.put(name, data)
        except (nats.errors.Error, nats.js.errors.Error, OSError, TimeoutError) as error:
            logger.warning(
                "snapshot not stored", slot=snapshot.slot, error=str(error) or type(error).__name__
            )

    async def latest(self, service: str, slot: Slot, state_version: int) -> Snapshot | None:
        """The slot's latest snapshot, when it can be trusted."""
        return await self._trusted(_latest(service, slot), service, slot, state_version)

    async def before(self, service: str, slot: Slot, state_version: int, position: int) -> Snapshot | None:
        """The newest snapshot of the slot's history at or before `position`, when it can be trusted."""
        for kept in sorted(await self.history(service, slot), reverse=True):
            if kept <= position:
                found = await self._trusted(f"{_latest(service, slot)}/{kept}", service, slot, state_version)
                if found is not None:
                    return found
        return None

    async def history(self, service: str, slot: Slot) -> list[int]:
        """Positions of the snapshots that were kept."""
        prefix = _latest(service, slot) + "/"
        try:
            entries = await (await self._open()).list(ignore_deletes=True)
        except nats.js.errors.NotFoundError:
            return []
        return [int(e.name[len(prefix) :]) for e in entries if e.name and e.name.startswith(prefix)]

    async def prune(self, service: str, slot: Slot, first_seq: int) -> None:
        """Drop what no replay from the oldest retained event on can need."""
        older = sorted(p for p in await self.history(service, slot) if p < first_seq)
        store = await self._open()
        for position in older[:-1]:
            await store.delete(f"{_latest(service, slot)}/{position}")

    async def _trusted(self, name: str, service: str, slot: Slot, state_version: int) -> Snapshot | None:
        problem = ""
        try:
            store = await self._open()
            result: Any = await store.get(name)
            snapshot = await asyncio.to_thread(decode, result.data or b"")
            record = await self._log.at(snapshot.checkpoint_seq)
            if (snapshot.service, snapshot.slot) != (service, slot):
                problem = f"it is of {snapshot.service} slot {snapshot.slot}"
            elif snapshot.state_version > state_version:
                problem = f"its state version {snapshot.state_version} is newer than {state_version}"
            elif snapshot.state_version < state_version:
                problem = f"its state version {snapshot.state_version} is older than {state_version}"
            elif record is None or record.subject != self._log.subjects.checkpoint(slot, service):
                problem = f"there is no checkpoint of its slot at {snapshot.checkpoint_seq}"
            else:
                found = checkpoints.decode(record.body)
                mine = (snapshot.position, snapshot.digest, snapshot.chain)
                if mine == (found.position, found.digest, found.chain):
                    return snapshot
                problem = f"checkpoint {record.seq} disagrees with it"
        except (nats.js.errors.NotFoundError, nats.js.errors.ObjectNotFoundError):
            return None
        except (ValueError, nats.errors.Error, nats.js.errors.Error, TimeoutError) as error:
            problem = str(error) or type(error).__name__
        logger.warning("snapshot ignored, the log is folded instead", name=name, problem=problem)
        return None


def _latest(service: str, slot: Slot) -> str:
    return f"{service}/{slot}"
