"""Snapshots of folds in object-store buckets, one per service: how a restart is fast.

A snapshot is only an acceleration. One that cannot be read, is of a newer version, or disagrees
with the checkpoint that it names is ignored, and the log is folded instead.

The layout of an object store is public, and so one message of it is asked for or appended here at a time:
one is read by two questions, where the client library takes six and an import as long as an answer. What is
not wanted any longer is rolled up into a message that ends by itself: a service may purge nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Sequence
from datetime import UTC, datetime
from typing import TypeVar
from uuid import uuid4

import msgspec
import nats.errors
import zstandard

from tidewright.log import checkpoint as checkpoints
from tidewright.log.cancellation import heeded
from tidewright.log.connection import Log, Message
from tidewright.log.diagnostics import get_logger
from tidewright.log.elsewhere import ELECTION_S
from tidewright.log.errors import LogError, LogUnavailable
from tidewright.log.input_set import InputSet
from tidewright.log.subjects import Slot

CHUNK = 512 * 1024
"""Bytes of an object in one message."""
ENDS = {"Nats-Rollup": "sub", "Nats-TTL": "1s"}
"""Headers of a message that takes the place of all before it on its subject, and soon ends itself."""

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
ASK_AGAIN_S = 0.2
"""Between two questions to a bucket that does not answer, before it is left alone."""

_FAILURES = (nats.errors.Error, LogError, OSError, TimeoutError)

T = TypeVar("T")

logger = get_logger(__name__)


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="snapshot.v1"):
    """A slot's fold right after a commit.

    Attributes:
        checkpoint_seq: sequence of the checkpoint that was committed at this very state.
        position, folded, digest, chain, at: as in that checkpoint.
        timers: key to due time (log time, seconds).
        said: what was decided in shadow, and is no part of the state: see `tidewright.host.fold.order`.
        state_version: of the decider's state.
        version: of the software that wrote it.
        state: the decider's state, JSON.
        inputs: the set of inputs that it is made of; None from software that named none.
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
    inputs: InputSet | None = None


class _Options(msgspec.Struct):
    max_chunk_size: int = CHUNK


class _Meta(msgspec.Struct, omit_defaults=True):
    """What a bucket says of an object."""

    name: str = ""
    bucket: str = ""
    nuid: str = ""
    size: int = 0
    chunks: int = 0
    digest: str = ""
    deleted: bool = False
    mtime: str = ""
    options: _Options | None = None


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
    waits for it once, not once per slot. Where the log has forgotten its beginning it is waited for instead: what is
    left of the log alone folds to another state.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._away: dict[str, float] = {}
        self._unstored: dict[str, float] = {}
        """Until when nothing is stored in buckets that took nothing: what they have is read all the same."""

    async def put(self, snapshot: Snapshot, data: bytes, *, keep: bool = False) -> bool:
        """Store a snapshot as its slot's latest; `keep` also as one of its history. Whether it is stored.

        A failure is logged: nothing depends on a snapshot.
        """
        names = [_latest(snapshot.slot, snapshot.state_version)]
        if keep:
            names.append(f"{snapshot.slot}/{snapshot.position}")
        if self._left_alone(snapshot.service) or time.monotonic() < self._unstored.get(snapshot.service, 0.0):
            return False
        try:
            for name in names:
                await self._bounded(self._write(snapshot.service, name, self._log.sealed(data)))
        except _FAILURES as error:
            if not self._log.outage.explains("storing snapshots", error):
                logger.warning("snapshot not stored", slot=snapshot.slot, error=_words(error))
            with contextlib.suppress(LogError):
                await self._log.bounds()  # raises when it is the log that does not answer
                self._unstored[snapshot.service] = time.monotonic() + AWAY_S
            return False
        return True

    async def latest(self, service: str, slot: Slot, readable: Sequence[int]) -> Snapshot | None:
        """The slot's latest snapshot, when it can be trusted.

        Args:
            service: whose it is.
            slot: of what.
            readable: the state versions that can be gone on from, the newest first. Without a snapshot of one
                of them, one of the versions before is looked for, to say what is not used.

        Raises:
            LogUnavailable: the log as a whole does not answer, so that nothing can be said.
        """
        newest, *others = (_latest(slot, version) for version in readable)
        snapshot = await self._trusted(newest, service, slot, readable)
        if snapshot is not None:
            return snapshot
        earlier = (_latest(slot, version) for version in range(readable[-1] - 1, 0, -1))
        stored = await self._names(service)  # one question in place of one each
        for name in (*others, slot, *earlier):  # up to 0.1.0 it was named by slot alone
            if name in stored:
                snapshot = await self._trusted(name, service, slot, readable)
                if snapshot is not None:
                    return snapshot
        return None

    async def before(
        self, service: str, slot: Slot, readable: Sequence[int], position: int
    ) -> Snapshot | None:
        """The newest snapshot of the slot's history at or before `position`, when it can be trusted."""
        for kept in sorted(await self.history(service, slot), reverse=True):
            if kept <= position:
                snapshot = await self._trusted(f"{slot}/{kept}", service, slot, readable)
                if snapshot is not None:
                    return snapshot
        return None

    async def history(self, service: str, slot: Slot) -> list[int]:
        """Positions of the snapshots that were kept."""
        return [position for place, position in await self._kept(service) if place == slot]

    async def furthest(self, service: str) -> int:
        """The greatest position of the snapshots of a service that were kept; 0 without any."""
        return max((position for _, position in await self._kept(service)), default=0)

    async def _kept(self, service: str) -> list[tuple[str, int]]:
        """Slots and positions of the snapshots of a service that were kept."""
        places = [name.partition("/") for name in await self._names(service)]
        return [(place, int(position)) for place, _, position in places if position.isdecimal()]

    async def _names(self, service: str) -> set[str]:
        """What the objects of a service's bucket are called; none where it is left alone."""
        if self._left_alone(service):
            return set()
        store = bucket(self._log.stream, service)
        try:
            subjects = await self._bounded(self._log.subjects_of(f"OBJ_{store}", f"$O.{store}.M.>"))
        except LogUnavailable:
            raise
        except _FAILURES as error:
            await self._leave_alone(service, error)
            return set()
        names = set()
        for subject in subjects:
            with contextlib.suppress(ValueError):  # no name that is written here
                names.add(urlsafe_b64decode(subject.rpartition(".")[2]).decode())
        return names

    async def oldest(
        self, service: str, slot: Slot, readable: Sequence[int], first_seq: int
    ) -> Snapshot | None:
        """The oldest snapshot of the slot's history after which nothing is missing on the log.

        Where the log begins at `first_seq`, no state from before can be brought up to date.
        """
        for kept in sorted(await self.history(service, slot)):
            if kept >= first_seq - 1:
                snapshot = await self._trusted(f"{slot}/{kept}", service, slot, readable)
                if snapshot is not None:
                    return snapshot
        return None

    async def prune(self, service: str, slot: Slot, first_seq: int) -> None:
        """Drop what no replay can start from any more, on a log that begins at `first_seq`.

        A failure is logged and forgotten: the next one drops it.
        """
        try:
            for position in await self.history(service, slot):
                if position < first_seq - 1:
                    await self._bounded(self._drop(service, f"{slot}/{position}"))
        except _FAILURES as error:
            logger.warning("old snapshots not dropped", slot=slot, error=_words(error))

    async def _write(self, service: str, name: str, data: bytes) -> None:
        """Store an object, and then let go of the one that it replaces."""
        store, nuid = bucket(self._log.stream, service), uuid4().hex
        before = await self._meta(service, name)
        chunks = [data[at : at + CHUNK] for at in range(0, len(data), CHUNK)]
        for chunk in chunks:
            await self._log.append(Message(f"$O.{store}.C.{nuid}", chunk))
        digest = urlsafe_b64encode(hashlib.sha256(data).digest()).decode()
        meta = _Meta(
            name=name, bucket=store, nuid=nuid, size=len(data), chunks=len(chunks), digest=f"SHA-256={digest}",
            mtime=datetime.now(UTC).isoformat(), options=_Options(),
        )  # fmt: skip
        said = Message(_place(store, name), msgspec.json.encode(meta), {"Nats-Rollup": "sub"})
        await self._log.append(said)
        await self._drop_chunks(store, before)

    async def _drop(self, service: str, name: str) -> None:
        store = bucket(self._log.stream, service)
        before = await self._meta(service, name)
        gone = _Meta(name=name, bucket=store, deleted=True, mtime=datetime.now(UTC).isoformat())
        await self._log.append(Message(_place(store, name), msgspec.json.encode(gone), ENDS))
        await self._drop_chunks(store, before)

    async def _drop_chunks(self, store: str, meta: _Meta | None) -> None:
        if meta is not None and meta.chunks:
            await self._log.append(Message(f"$O.{store}.C.{meta.nuid}", b"", ENDS))

    async def _meta(self, service: str, name: str) -> _Meta | None:
        """What the bucket says of an object; None when there is none."""
        store = bucket(self._log.stream, service)
        record = await self._log.lookups.last(_place(store, name), f"OBJ_{store}")
        meta = msgspec.json.decode(record.body, type=_Meta) if record is not None else None
        return None if meta is None or meta.deleted else meta

    async def _asked(self, service: str, name: str) -> bytes | None:
        """`_object`, asked for again while no answer comes, as long as its servers may be looking for a leader of the bucket.

        Neither that nor a busy server is a reason to fold the whole log.
        """
        until = time.monotonic() + ELECTION_S
        while True:
            try:
                return await self._bounded(self._object(service, name))
            except LogUnavailable:
                if time.monotonic() >= until:
                    raise
            await asyncio.sleep(ASK_AGAIN_S)

    async def _object(self, service: str, name: str) -> bytes | None:
        """An object's content; None when there is none, or when its bucket is left alone for now.

        Raises:
            ValueError: it is not whole.
        """
        if self._left_alone(service):
            return None
        store = bucket(self._log.stream, service)
        stream = f"OBJ_{store}"
        for _ in range(READ_AGAIN):
            if (meta := await self._meta(service, name)) is None:
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

    def _left_alone(self, service: str) -> bool:
        return time.monotonic() < self._away.get(service, 0.0)

    async def _leave_alone(self, service: str, error: BaseException) -> None:
        """Stop asking for a bucket that does not answer while the log does.

        Raises:
            LogUnavailable: the log as a whole does not answer; or the bucket alone, and the log begins behind what snapshots know.
        """
        if isinstance(error, TimeoutError | LogError):
            first, _ = await self._log.bounds()  # raises when it is the log that does not answer
            name, why = bucket(self._log.stream, service), _words(error)
            missing = False
            with contextlib.suppress(LogError):
                missing = await self._log.settings(f"OBJ_{name}") is None
            if first > 1 and not missing and isinstance(error, TimeoutError | LogUnavailable):
                raise LogUnavailable(
                    f"bucket {name} of snapshots does not answer ({why}), and the log begins at {first}, behind what they know"
                ) from error
            if self._left_alone(service):
                return  # another slot's answer failed at the same time
            self._away[service] = time.monotonic() + AWAY_S
            if missing:
                why = "there is no such bucket: run `tidewright install`"
            logger.warning(
                "the bucket of snapshots cannot be used, the log is folded instead",
                service=service, bucket=name, error=why,
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

    async def _trusted(self, name: str, service: str, slot: Slot, readable: Sequence[int]) -> Snapshot | None:
        problem = ""
        try:
            data = await self._asked(service, name)
            if data is None:
                return None
            snapshot = decode(data) if len(data) < AT_ONCE else await asyncio.to_thread(decode, data)
            record = await self._log.at(snapshot.checkpoint_seq)
            if refusal := await self._log.unsealed(data, service, snapshot.checkpoint_seq):
                problem = refusal
            elif (snapshot.service, snapshot.slot) != (service, slot):
                problem = f"it is of {snapshot.service} slot {snapshot.slot}"
            elif snapshot.state_version > readable[0]:
                problem = f"its state version {snapshot.state_version} is newer than {readable[0]}"
            elif snapshot.state_version not in readable:
                problem = f"its state version {snapshot.state_version} is older than {readable[-1]}"
                await self._say_what_is_lost(snapshot)
            elif record is None or record.subject != self._log.subjects.checkpoint(slot, service):
                problem = f"there is no checkpoint of its slot at {snapshot.checkpoint_seq}"
            else:
                checkpoint = checkpoints.decode(record.body)
                mine = (snapshot.position, snapshot.digest, snapshot.chain)
                if mine == (checkpoint.position, checkpoint.digest, checkpoint.chain):
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


def _place(store: str, name: str) -> str:
    """The subject that says of an object where its content is."""
    return f"$O.{store}.M.{urlsafe_b64encode(name.encode()).decode()}"


def _is_whole(data: bytes, digest: str) -> bool:
    """Whether content matches the digest that its bucket has of it (`SHA-256=<base64>`)."""
    kind, _, value = digest.partition("=")
    if kind.upper() != "SHA-256":
        return False
    return urlsafe_b64decode(value + "=" * (-len(value) % 4)) == hashlib.sha256(data).digest()


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__
