"""The log, or a part of it, as one compressed file: an auditor's laptop is enough to read it.

Layout: a zstandard stream of length-prefixed MessagePack frames. First the manifest, then one frame
per snapshot that the part starts from, then one per record in stream order, then the trailer with
the count and a digest over all frames before it. Cut off or altered, it does not read to the end.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import blake2b, file_digest
from itertools import dropwhile
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self, cast

import msgspec
import zstandard

from tidewright.log.errors import LogError
from tidewright.log.reader import Record
from tidewright.log.snapshots import Snapshot
from tidewright.log.subjects import escape

FORMAT = "tidewright-export-1"
LEVEL = 3
_PREFIX = 4
_SIZE = struct.Struct(">I")
MAX_FRAME_BYTES = 256 << 20
"""More than any message (the server takes 8 MB), and than a state of 5,000 nodes and 150,000 pods several times over."""
_MOST_AT_ONCE = 1 << 20
_CHUNK = 1 << 16
"""Bytes decompressed at once: few enough to stay in the cache, and in memory that is used again and again."""


class BadExport(LogError):
    """The file is no export, is cut off, or was altered."""

    reason = "BadExport"


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What an export holds.

    Attributes:
        stream: name of the stream that it came from.
        first_seq, last_seq: range of sequences that was exported; 0 and 0 for an empty log.
        since, until: log time range asked for, seconds; None: unbounded.
        namespaces: namespaces asked for; empty: all.
        version: of the software that wrote it.
        ends: `<service>.<slot>` to the position of its last checkpoint in the export; None when the
            software that wrote it did not say.
        cluster_id: uid of the cluster's `kube-system` namespace; empty when it was not known.
        keys: every key record of the log, also of what was left out: by these its signatures are checked.
        without: fields that were left out of its records; empty for an export as the log is.
    """

    format: str = FORMAT
    cluster: str
    stream: str
    slots: int
    slot_hash: str
    first_seq: int
    last_seq: int
    since: float | None = None
    until: float | None = None
    namespaces: tuple[str, ...] = ()
    version: str = ""
    ends: dict[str, int] | None = None
    cluster_id: str = ""
    keys: tuple[Record, ...] = ()
    without: tuple[str, ...] = ()


class _Trailer(msgspec.Struct, frozen=True, kw_only=True, array_like=True, tag="end"):
    records: int
    digest: bytes
    kinds: dict[str, int] = {}


class _Snapshot(msgspec.Struct, frozen=True, array_like=True, tag="snapshot"):
    data: bytes


class _Headless(msgspec.Struct, frozen=True, array_like=True, tag="record"):
    """A record of which the headers are not read."""

    seq: int
    subject: str
    body: bytes

    @property
    def headers(self) -> dict[str, str]:
        return {}


_Frame = Record | _Headless | _Snapshot | _Trailer
_SELDOM = frozenset((_Snapshot, _Trailer))
"""Types of frames that are no records."""

_encoder = msgspec.msgpack.Encoder()
_frames = msgspec.msgpack.Decoder(Record | _Snapshot | _Trailer)
_headless = msgspec.msgpack.Decoder(_Headless | _Snapshot | _Trailer)
_manifest = msgspec.msgpack.Decoder(Manifest)


class ExportWriter:
    """Write an export; use as a context manager. An export that was not closed in order does not read."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self._path = path
        self._partial = path.with_name(path.name + ".partial")
        self._file = self._partial.open("wb")
        self._stream = zstandard.ZstdCompressor(level=LEVEL, threads=-1).stream_writer(self._file)
        self._digest = blake2b(digest_size=16)
        self.records = 0
        self.kinds: Counter[str] = Counter()
        """What is held, as `fact pod` or `decision autoscaler`, and how often."""
        self._prefix = len(f"tw.{escape(manifest.cluster)}.")
        self._put(_encoder.encode(manifest))

    def snapshot(self, snapshot: Snapshot) -> None:
        """A snapshot that the part starts from. Before any record."""
        self._put(_encoder.encode(_Snapshot(msgspec.json.encode(snapshot))))

    def record(self, record: Record) -> None:
        """The next record, in stream order."""
        self.records += 1
        class_, _, kind, *_ = f"{record.subject[self._prefix :]}..".split(".")
        self.kinds[f"{class_} {kind}".rstrip()] += 1
        self._put(_encoder.encode(record))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                trailer = _Trailer(records=self.records, digest=self._digest.digest(), kinds=dict(self.kinds))
                self._put(_encoder.encode(trailer))
                self._stream.flush(zstandard.FLUSH_FRAME)
                self._file.close()
                self._partial.replace(self._path)
        finally:
            # A full disk refuses what is still to be written, too: it stays open no longer for that.
            with suppress(OSError):
                self._file.close()
            self._partial.unlink(missing_ok=True)

    def _put(self, frame: bytes) -> None:
        prefixed = len(frame).to_bytes(_PREFIX, "big") + frame
        self._digest.update(prefixed)
        self._stream.write(prefixed)


class ExportFile:
    """Read an export, as often as need be; memory does not grow with its length."""

    def __init__(self, path: Path) -> None:
        """Open it and read its manifest.

        Raises:
            BadExport: it is no export of this software.
        """
        self.path = path
        self.kinds: dict[str, int] = {}
        """What it holds and how often, once it was read to its end."""
        try:
            with path.open("rb") as file:
                self.manifest = _manifest.decode(_first_frame(_Pieces(file, path)))
        except (msgspec.MsgspecError, UnicodeDecodeError, OSError) as error:
            raise BadExport(f"{path} is not an export of a log: {error}") from error
        if self.manifest.format != FORMAT:
            raise BadExport(f"{path} has format {self.manifest.format!r}; this version reads {FORMAT!r}")

    def content(self) -> str:
        """What tells the file from every other one, a copy that was altered too: a digest of all its bytes."""
        with self.path.open("rb") as file:
            return file_digest(file, "sha256").hexdigest()

    def snapshots(self) -> Iterator[Snapshot]:
        """The snapshots that the part starts from."""
        for frame in self._decoded(_frames.decode):
            if not isinstance(frame, _Snapshot):
                return
            yield msgspec.json.decode(frame.data, type=Snapshot)

    def bodies(self) -> Iterator[Record]:
        """All records in stream order without their headers, which takes less time.

        Raises:
            BadExport: as `records`.
        """
        # What they yield is a record in all that is asked of one here.
        return cast("Iterator[Record]", dropwhile(_is_snapshot, self._decoded(_headless.decode)))

    def records(self) -> Iterator[Record]:
        """All records in stream order.

        Raises:
            BadExport: at the point where the file is cut off, or at the end when it was altered.
        """
        return cast("Iterator[Record]", dropwhile(_is_snapshot, self._decoded(_frames.decode)))

    def _decoded(self, decode: Callable[[memoryview], _Frame]) -> Iterator[_Frame]:
        """All frames between the manifest and the trailer: snapshots first, then records."""
        digest, count, size_at = blake2b(digest_size=16), 0, _SIZE.unpack_from
        read = False  # the very first frame, the manifest, is read already
        with self.path.open("rb") as file:
            pieces = _Pieces(file, self.path)
            ahead = iter(pieces)
            for piece in ahead:
                view, start, size = memoryview(piece), 0, len(piece)
                # One loop finds and decodes the frames: going through them twice took a tenth of a replay.
                while (begin := start + _PREFIX) <= size and (
                    end := begin + size_at(piece, start)[0]
                ) <= size:
                    if not read:
                        read, start = True, end
                        continue
                    try:
                        frame = decode(view[begin:end])
                    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                        raise BadExport(
                            f"{self.path} was altered: the frame after record {count} does not decode ({error})"
                        ) from error
                    if type(frame) not in _SELDOM:
                        count += 1
                    elif isinstance(frame, _Trailer):
                        digest.update(view[:start])
                        whole = end == size and next(ahead, None) is None
                        if not whole or frame.records != count or frame.digest != digest.digest():
                            raise BadExport(
                                f"{self.path} was altered: it does not match the digest at its end"
                            )
                        self.kinds = frame.kinds
                        return
                    elif count:
                        raise BadExport(f"{self.path} was altered: it has a snapshot behind record {count}")
                    yield frame
                    start = end
                digest.update(view[:start])
                pieces.left = piece[start:]
        if pieces.left:
            raise BadExport(f"{self.path} is cut off within a frame")
        raise BadExport(f"{self.path} is cut off after {count} records: it has no end")


def _is_snapshot(frame: object) -> bool:
    return isinstance(frame, _Snapshot)


class _Pieces:
    """A file decompressed, piece by piece; what is `left` of one, the next one begins with."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file, self.path = file, path
        self.left = b""

    def __iter__(self) -> Iterator[bytes]:
        """Pieces to the end of the file; each ends a frame at least, however long that is.

        Raises:
            BadExport: it does not decompress, or says that a frame is longer than any.
        """
        reader = zstandard.ZstdDecompressor().stream_reader(self._file)
        try:
            while data := reader.read(_CHUNK):
                parts, size = [self.left, data], len(self.left) + len(data)
                frame_size = self._wanted(parts)
                # A long frame is put together once, not once per piece that it comes in.
                while size < frame_size and (data := reader.read(min(frame_size - size, _MOST_AT_ONCE))):
                    parts.append(data)
                    size += len(data)
                yield b"".join(parts)
        except zstandard.ZstdError as error:
            raise BadExport(
                f"{self.path} does not decompress: it is no export, or was altered ({error})"
            ) from error

    def _wanted(self, parts: list[bytes]) -> int:
        """How many bytes the first frame of what is there takes, with its prefix."""
        head = parts[0] if len(parts[0]) >= _PREFIX else b"".join(parts)
        if len(head) < _PREFIX:
            return 0
        size: int = _SIZE.unpack_from(head)[0]
        if size > MAX_FRAME_BYTES:
            raise BadExport(
                f"{self.path} was altered: it says that a frame has {size} bytes, and none has more than {MAX_FRAME_BYTES}"
            )
        return _PREFIX + size


def _first_frame(pieces: _Pieces) -> memoryview:
    """The content of the frame that the file begins with."""
    for piece in pieces:
        end = _PREFIX + _SIZE.unpack_from(piece)[0] if len(piece) >= _PREFIX else _PREFIX
        if _PREFIX < end <= len(piece):
            return memoryview(piece)[_PREFIX:end]
        pieces.left = piece
    raise BadExport(f"{pieces.path} is empty, or cut off within its beginning")
