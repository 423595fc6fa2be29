"""A sealed archive, and behind it what the running log has that is not sealed yet: asked like one log."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path

from tidewright.archive.errors import BadArchive
from tidewright.archive.reading import Segments, SeveralFiles, checked
from tidewright.archive.segment import Head, digest_of
from tidewright.archive.store import opened
from tidewright.asking.errors import BadInput, Unavailable, translated
from tidewright.asking.exported import ExportedLog
from tidewright.asking.exports import SCHEDULE_CLASS, key_records, rolls_up
from tidewright.asking.opening import opened as log_opened
from tidewright.asking.options import AskedLogOptions
from tidewright.asking.running import located
from tidewright.asking.running_log import RunningLog
from tidewright.asking.source import ends_of
from tidewright.asking.trust import Anchors, anchors_of
from tidewright.events.version import __version__
from tidewright.host.fold.verify import Difference, Report
from tidewright.log.errors import WrongStream
from tidewright.log.export import ExportFile, ExportWriter, Manifest
from tidewright.log.install import being_restored
from tidewright.log.keyfiles import read_anchors
from tidewright.log.reader import Record
from tidewright.log.subjects import SLOT_HASH


class ArchivedLog(ExportedLog):
    """A sealed archive, with the rest of the log where that is reached."""

    def __init__(
        self, segments: Segments, rest: ExportFile | None, anchors: Anchors, holes: Sequence[tuple[int, int]]
    ) -> None:
        """`rest` is what comes behind the last segment; `holes` are ranges of sequences that neither of the two has."""
        files = [*segments.files, *([rest] if rest is not None else [])]
        super().__init__(SeveralFiles(Path(segments.url), files), anchors)
        self.name = f"archive {segments.url} ({len(segments.seals)} segments, up to sequence {segments.heads[-1].last})"
        self.name += f" with stream {self.stream} up to {rest.manifest.last_seq}" if rest is not None else ""
        self.holes = tuple(holes)
        self.differences: list[Difference] = [
            Difference(
                "the archive", "", first, "not sealed",
                f"sequences {first} to {last} were gone before they were sealed, and nobody has them",
            )
            for first, last in holes
        ]  # fmt: skip
        """What is wrong with the archive beside the log."""


@asynccontextmanager
async def with_archive(where: AskedLogOptions, *, comparing: bool = False) -> AsyncIterator[ArchivedLog]:
    """What the options name, checked: every segment's digest, its signature, and their chain.

    With `comparing`, what the running log still has of it is held against what was sealed.

    Raises:
        BadInput: it is no archive, or of another log than the one that runs.
        CommandError: it is not what was sealed (its cause is `Altered`).
        Unavailable: it is not reached.
    """
    on = located(where)
    anchors = read_key(where.archive_key)
    with tempfile.TemporaryDirectory(prefix="tidewright-archive-") as name:
        folder = Path(name)
        with translated():
            async with opened(where.archive, on.cluster) as store:
                segments = await checked(store, folder, anchors)
        rest, holes, replaced = None, segments.holes, list[Difference]()
        try:
            async with log_opened(replace(where, archive="", archive_key=None), None) as live:
                if isinstance(live, RunningLog):
                    with translated():
                        rest, hole = await _rest(live, segments, folder / "rest")
                        replaced = await differing(live, segments) if comparing else []
                    holes = [*holes, *hole]
        except (Unavailable, BadInput) as error:
            if isinstance(error, BadInput) and not isinstance(error.__cause__, WrongStream):
                raise
            print(
                f"The archive alone is read, up to sequence {segments.heads[-1].last}: {error}",
                file=sys.stderr,
            )
        source = ArchivedLog(segments, rest, anchors_of(where), holes)
        source.differences += replaced
        yield source


def read_key(file: Path | None) -> Anchors:
    """The keys of a file that an archive has to be sealed with; None without a file.

    Raises:
        BadInput: it holds none.
    """
    if file is None:
        return None
    with translated():
        return read_anchors(file)


async def same_log(source: RunningLog, tail: Head) -> None:
    """Return when the log is the one that was sealed up to here.

    Raises:
        BadArchive: it is another, or was put back to an earlier state.
        LogUnavailable: it does not say.
    """
    if await being_restored(source.log):
        raise BadArchive(f"{source.name} is being put back: it is no log yet")
    first, last = await source.bounds()
    if last < tail.last:
        raise BadArchive(
            f"{source.name} ends with sequence {last}, and up to {tail.last} was sealed: it was made anew, or put back to an earlier "
            "state; put it back from the archive (`tidewright restore`), or seal it into another one"
        )
    seq, digest = tail.known
    record = await source.log.lookups.stored({"seq": seq}) if first <= seq else None
    if record is not None and digest_of(record) != digest:
        raise BadArchive(
            f"{source.name} has another message at sequence {seq} than was sealed: it is another log, or was altered there"
        )


async def _rest(
    live: RunningLog, segments: Segments, path: Path
) -> tuple[ExportFile | None, list[tuple[int, int]]]:
    """What the log has behind the last segment, as a file; and what neither has."""
    tail = segments.heads[-1]
    if live.subjects.cluster != tail.cluster:
        raise BadInput(f"the archive is of cluster {tail.cluster!r}: pass --cluster {tail.cluster}")
    await same_log(live, tail)
    first, last = await live.bounds()
    if last <= tail.last:
        return None, []
    begins = max(first, tail.last + 1)
    manifest = Manifest(
        cluster=live.subjects.cluster, stream=live.stream, slots=live.slots, slot_hash=SLOT_HASH, first_seq=begins, last_seq=last,
        version=__version__, ends=await ends_of(live, last), cluster_id=await live.cluster_id(), keys=await key_records(live),
    )  # fmt: skip
    with ExportWriter(path, manifest) as writer:
        async for record in _stored(live, tail.last, last):
            writer.record(record)
    return ExportFile(path), [(tail.last + 1, begins - 1)] if begins > tail.last + 1 else []


async def _stored(live: RunningLog, after: int, last: int) -> AsyncGenerator[Record, None]:
    """What is stored behind a sequence, up to another."""
    async with live.log.reader([live.subjects.everything], after=after, believing=False) as reader:
        async for record in reader.until_current():
            if record.seq > last:
                return
            yield record


async def differing(live: RunningLog, segments: Segments) -> list[Difference]:
    """Where a running log is not what was sealed of it, as far as it still has that: the first hundred places."""
    first, end = await live.bounds()
    last = min(end, segments.heads[-1].last)
    found: list[Difference] = []
    files = [file for file, head in zip(segments.files, segments.heads, strict=True) if head.last >= first]
    sealed = (record for file in files for record in file.records() if first <= record.seq <= last)
    expected = next(sealed, None)
    async with aclosing(_stored(live, first - 1, last)) as stored:
        async for record in stored:
            while expected is not None and expected.seq < record.seq:
                found += _removed(live, expected)
                expected = next(sealed, None)
            if expected is None or expected.seq > record.seq:
                found.append(
                    _replaced(record, "is on the log, and was not there when its stretch was sealed")
                )
            else:
                if (expected.subject, expected.body) != (record.subject, record.body):
                    found.append(_replaced(record, "is not what was sealed: it was altered", expected.body))
                expected = next(sealed, None)
            if len(found) >= Report.KEPT:
                break
    while expected is not None and len(found) < Report.KEPT:
        found += _removed(live, expected)
        expected = next(sealed, None)
    first, _ = await live.bounds()  # what aged out meanwhile was not removed
    return [difference for difference in found if difference.seq >= first]


def _replaced(record: Record, what: str, sealed: bytes = b"") -> Difference:
    message = f"message {record.seq} on {record.subject} {what}"
    return Difference(
        "the log", "", record.seq, "altered message", message, recorded=record.body, recomputed=sealed
    )


def _removed(live: RunningLog, sealed: Record) -> list[Difference]:
    """What is said of a message that was sealed and is gone: of a schedule, which fired or was replaced, nothing."""
    if live.subjects.class_token(sealed.subject) == SCHEDULE_CLASS or rolls_up(sealed):
        return []
    message = f"message {sealed.seq} on {sealed.subject} was sealed, and is not on the log: it was removed"
    return [Difference("the log", "", sealed.seq, "altered message", message, recomputed=sealed.body)]
