"""Snapshots of folds in object-store buckets, one per service: how a restart is fast.

A snapshot is only an acceleration. One that cannot be read, is of a newer version, or disagrees
with the checkpoint that it names is ignored, and the log is folded instead.

The client library writes and lists objects. One is read by asking for its messages, as the layout of
a bucket is public: two questions, where the library takes six and an import as long as an answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable
from typing import TYPE_CHECKING, TypeVar

import msgspec
import nats.errors
import structlog
import zstandard

from tidewright.log import checkpoint as checkpoints
from tidewright.log.cancellation import heeded
from tidewright.log.connection import Log
from tidewright.log.errors import LogError, LogUnavailable
from tidewright.log.subjects import Slot

if TYPE_CHECKING:
    from nats.js.object_store import ObjectStore

LEVEL = 3
"""Compression level: states are JSON, and compress well at once."""

TRANSFER_S = 10.0
"""One snapshot has to come or go within so long."""
AT_ONCE = 256 * 1024
"""Bytes that are decompressed in place; more than that in a thread, while others go on."""
AWAY_S = 60.0
"""A bucket that did not answer is left alone for so long."""

READ_AGAIN = 3
"""Times that an object may be replaced while it is read."""
ASK_AGAIN = 2
"""Times that a bucket is asked again before it is left alone."""

_FAILURES = (nats.errors.Error, LogError, OSError, TimeoutError)

T = TypeVar("T")

logger = structlog.get_logger(__name__)


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="snapshot.v1"):
    """A slot's fold right after a commit.

    Attributes:
        checkpoint_seq: sequence of the checkpoint that was committed at this very state.
        position, folded, digest, chain, at: as in that checkpoint.
        timers: key to due time (log time, seconds).
        said: what was decided in shadow, and is no part of the state: see `tidewright.host.fold`.
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
    said: dict[str, tuple[int, str]] = {}


class _Meta(msgspec.Struct):
    """What a bucket says of an object."""

    nuid: str = ""
    chunks: int = 0
    digest: str = ""
    deleted: bool = False


def bucket(stream: str, service: str) -> str:
    """The bucket of a service's snapshots: its own, so that the bus can keep others from writing there."""
    return f"{stream}_snapshots_{service}"


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
    """Snapshots of one cluster: the latest of each service and slot, and older ones on demand.

    Each service has a bucket of its own, so that bus permissions keep them apart. A bucket that does
    not answer, or that these credentials may not use, is left alone for `AWAY_S`: a start then
    waits for it once, not once per slot.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._stores: dict[str, ObjectStore] = {}
        self._away: dict[str, float] = {}
        self._opening = asyncio.Lock()

    async def put(self, snapshot: Snapshot, data: bytes, *, keep: bool = False) -> bool:
        """Store a snapshot as its slot's latest; `keep` also as one of its history. Whether it is stored.

        A failure is logged: nothing depends on a snapshot.
        """
        names = [_latest(snapshot.slot, snapshot.state_version)]
        if keep:
            names.append(f"{snapshot.slot}/{snapshot.position}")
        try:
            store = await self._open(snapshot.service, make=True)
            if store is None:
                return False
            for name in names:
                await self._bounded(store.put(name, data))
        except _FAILURES as error:
            self._stores.pop(snapshot.service, None)
            logger.warning("snapshot not stored", slot=snapshot.slot, error=_words(error))
            return False
        return True

    async def latest(self, service: str, slot: Slot, state_version: int) -> Snapshot | None:
        """The slot's latest snapshot, when it can be trusted.

        Without one of this state version, one of the versions before is looked for, to say what is not used.

        Raises:
            LogUnavailable: the log as a whole does not answer, so that nothing can be said.
        """
        earlier = (_latest(slot, version) for version in range(state_version - 1, 0, -1))
        for name in (_latest(slot, state_version), slot, *earlier):  # up to 0.1.0 it was named by slot alone
            found = await self._trusted(name, service, slot, state_version)
            if found is not None:
                return found
        return None

    async def before(self, service: str, slot: Slot, state_version: int, position: int) -> Snapshot | None:
        """The newest snapshot of the slot's history at or before `position`, when it can be trusted."""
        for kept in sorted(await self.history(service, slot), reverse=True):
            if kept <= position:
                found = await self._trusted(f"{slot}/{kept}", service, slot, state_version)
                if found is not None:
                    return found
        return None

    async def history(self, service: str, slot: Slot) -> list[int]:
        """Positions of the snapshots that were kept."""
        from nats.js.errors import NotFoundError

        prefix = f"{slot}/"
        try:
            store = await self._open(service)
            entries = [] if store is None else await self._bounded(store.list(ignore_deletes=True))
        except NotFoundError:
            return []
        return [int(e.name[len(prefix) :]) for e in entries if e.name and e.name.startswith(prefix)]

    async def oldest(self, service: str, slot: Slot, state_version: int, first_seq: int) -> Snapshot | None:
        """The oldest snapshot of the slot's history after which nothing is missing on the log.

        Where the log begins at `first_seq`, no state from before can be brought up to date.
        """
        for kept in sorted(await self.history(service, slot)):
            if kept >= first_seq - 1:
                found = await self._trusted(f"{slot}/{kept}", service, slot, state_version)
                if found is not None:
                    return found
        return None

    async def prune(self, service: str, slot: Slot, first_seq: int) -> None:
        """Drop what no replay can start from any more, on a log that begins at `first_seq`.

        A failure is logged and forgotten: the next one drops it.
        """
        try:
            older = [p for p in await self.history(service, slot) if p < first_seq - 1]
            store = await self._open(service)
            if store is None:
                return
            for position in older:
                await self._bounded(store.delete(f"{slot}/{position}"))
        except _FAILURES as error:
            logger.warning("old snapshots not dropped", slot=slot, error=_words(error))

    async def _asked(self, service: str, name: str) -> bytes | None:
        """`_object`, asked for again when no answer comes: a busy server is no reason to fold the whole log."""
        for _ in range(ASK_AGAIN):
            with contextlib.suppress(LogUnavailable):
                return await self._bounded(self._object(service, name))
        return await self._bounded(self._object(service, name))

    async def _object(self, service: str, name: str) -> bytes | None:
        """An object's content; None when there is none, or when its bucket is left alone for now.

        Raises:
            ValueError: it is not whole.
        """
        if time.monotonic() < self._away.get(service, 0.0):
            return None
        store = bucket(self._log.stream, service)
        stream, key = f"OBJ_{store}", urlsafe_b64encode(name.encode()).decode()
        for _ in range(READ_AGAIN):
            found = await self._log.lookups.last(f"$O.{store}.M.{key}", stream)
            if found is None or (meta := msgspec.json.decode(found.body, type=_Meta)).deleted:
                return None
            parts: list[bytes] = []
            seq, chunks = 1, f"$O.{store}.C.{meta.nuid}"
            while len(parts) < meta.chunks:
                chunk = await self._log.lookups.first(chunks, seq, stream)
                if chunk is None:
                    break  # replaced meanwhile, or lost
                parts.append(chunk.body)
                seq = chunk.seq + 1
            data = b"".join(parts)
            if len(parts) == meta.chunks and _is_whole(data, meta.digest):
                return data
        raise ValueError(f"object {name} of bucket {store} is not whole")

    async def _open(self, service: str, *, make: bool = False) -> ObjectStore | None:
        """A service's bucket; None when there is none, or when it is left alone for now."""
        async with self._opening:
            if time.monotonic() < self._away.get(service, 0.0):
                return None
            if service not in self._stores:
                name = bucket(self._log.stream, service)
                try:
                    found = await self._log.exists(f"OBJ_{name}")
                    if not found and not make:
                        return None
                    from nats.js.api import ObjectStoreConfig

                    js = self._log.jetstream
                    config = ObjectStoreConfig(bucket=name, replicas=self._log.replicas)
                    asked = js.object_store(name) if found else js.create_object_store(name, config)
                    self._stores[service] = await self._bounded(asked)
                except LogUnavailable:
                    raise
                except _FAILURES as error:
                    await self._leave_alone(service, error)
                    return None
            return self._stores[service]

    async def _leave_alone(self, service: str, error: BaseException) -> None:
        """Stop asking for a bucket that does not answer while the log does.

        Raises:
            LogUnavailable: the log as a whole does not answer.
        """
        self._stores.pop(service, None)
        if isinstance(error, TimeoutError | LogError):
            await self._log.bounds()  # raises when it is the log that does not answer
            if time.monotonic() < self._away.get(service, 0.0):
                return  # another slot's answer failed at the same time
            self._away[service] = time.monotonic() + AWAY_S
            logger.warning(
                "the bucket of snapshots cannot be used, the log is folded instead",
                service=service, bucket=bucket(self._log.stream, service), error=_words(error),
            )  # fmt: skip

    async def _bounded(self, asked: Awaitable[T]) -> T:
        """Await the client, but not for ever: it waits for chunks that were removed meanwhile without end."""
        async with asyncio.timeout(TRANSFER_S):
            return await heeded(asked)

    async def _say_what_is_lost(self, snapshot: Snapshot) -> None:
        """Of a snapshot that is not used on a log that has forgotten what it was made from."""
        first, _ = await self._log.bounds()
        if first > 1:
            logger.error(
                "the log begins behind what this snapshot knows, which is lost to the newer version",
                service=snapshot.service, slot=snapshot.slot, first_seq=first, state_version=snapshot.state_version,
                do="see docs/durability.md, Upgrading",
            )  # fmt: skip

    async def _trusted(self, name: str, service: str, slot: Slot, state_version: int) -> Snapshot | None:
        problem = ""
        try:
            data = await self._asked(service, name)
            if data is None:
                return None
            snapshot = decode(data) if len(data) < AT_ONCE else await asyncio.to_thread(decode, data)
            record = await self._log.at(snapshot.checkpoint_seq)
            if (snapshot.service, snapshot.slot) != (service, slot):
                problem = f"it is of {snapshot.service} slot {snapshot.slot}"
            elif snapshot.state_version > state_version:
                problem = f"its state version {snapshot.state_version} is newer than {state_version}"
            elif snapshot.state_version < state_version:
                problem = f"its state version {snapshot.state_version} is older than {state_version}"
                await self._say_what_is_lost(snapshot)
            elif record is None or record.subject != self._log.subjects.checkpoint(slot, service):
                problem = f"there is no checkpoint of its slot at {snapshot.checkpoint_seq}"
            else:
                found = checkpoints.decode(record.body)
                mine = (snapshot.position, snapshot.digest, snapshot.chain)
                if mine == (found.position, found.digest, found.chain):
                    return snapshot
                problem = f"checkpoint {record.seq} disagrees with it"
        except (ValueError, *_FAILURES) as error:
            problem = _words(error)
            await self._leave_alone(service, error)
        logger.warning("snapshot ignored, the log is folded instead", name=name, problem=problem)
        return None


def _latest(slot: str, state_version: int) -> str:
    """The name of a slot's latest snapshot: versions that run side by side do not overwrite each other's."""
    return f"{slot}.v{state_version}"


def _is_whole(data: bytes, digest: str) -> bool:
    """Whether content matches the digest that its bucket has of it (`SHA-256=<base64>`)."""
    kind, _, value = digest.partition("=")
    if kind.upper() != "SHA-256":
        return False
    return urlsafe_b64decode(value + "=" * (-len(value) % 4)) == hashlib.sha256(data).digest()


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__
