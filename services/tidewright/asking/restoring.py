"""A log that is lost, put back from its archive: every message at its old sequence, every timer set anew.

Until all of it is there the stream says that it is being restored, and is no log: services wait, as before an installation. What was
begun and not finished is begun anew.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tidewright.archive.reading import Segments, SeveralFiles
from tidewright.asking.errors import BadInput, CommandError
from tidewright.asking.exports import erases
from tidewright.asking.progress import progress
from tidewright.asking.services import DECIDERS
from tidewright.events import registry
from tidewright.events.config import ClockSet
from tidewright.events.decisions import CancelTimer, SetTimer
from tidewright.events.timers import TimerFired
from tidewright.host.fold.plan import timer_message
from tidewright.log.belief import refused
from tidewright.log.clock import Clock
from tidewright.log.connection import Log, Message
from tidewright.log.continuity import CHECK_S
from tidewright.log.envelope import (
    BATCH_COMMIT,
    BATCH_ID,
    BATCH_SEQUENCE,
    EXPECTED,
    LEFT,
    MAX_BATCH,
    SCHEDULE,
    SIGNATURE,
    Writer,
)
from tidewright.log.export import ExportFile, Manifest
from tidewright.log.install import RESTORING, members, provide, snapshots
from tidewright.log.reader import Record
from tidewright.log.snapshots import Snapshots, encode
from tidewright.log.stream_settings import AGED
from tidewright.log.subjects import ALL, Slot, Subjects, unescape

WRITER = "restore"
NOTICED_S = 3 * CHECK_S
"""Within so long every service that runs has looked whether the log is still the one that it has read."""
BESIDE = "restoring"
"""Begins the subjects on which messages are put back."""
TIMER = "timer"
LEAST_SKIPPED, MOST_SKIPPED = 10_000, 1_000_000
EVERY_N = 2000
Key = tuple[str, str, str]
"""Service, slot and key of a timer."""


@dataclass(frozen=True)
class Restored:
    """What was put back.

    Attributes:
        records: messages, at the sequences `first` to `last`.
        skipped: sequences behind them that stay unused, since messages that were lost had them.
        timers: how many were set anew.
        sealed_at: when the last segment was sealed, wall seconds: what came later is lost.
        erasing: messages that erased the log, which are left out.
        unsigned: messages whose commit has lost its signature, since what it expected is not there.
    """

    records: int
    first: int
    last: int
    skipped: int
    timers: int
    sealed_at: float
    erasing: tuple[Record, ...]
    unsigned: int


@dataclass(frozen=True)
class Target:
    """How the log is to be.

    Attributes:
        replicas, max_age_s: as of an installation.
        skip: sequences that stay unused; None: as many as may have been lost.
    """

    replicas: int
    max_age_s: float
    skip: int | None = None


async def restored(log: Log, segments: Segments, target: Target) -> Restored:
    """Put a log back; `log` is connected with an installer's rights.

    Raises:
        BadInput: there is a log, with messages on it; or more may be lost than sequences are left unused unasked.
        CommandError: somebody else writes on it meanwhile.
        LogError: as ever.
    """
    skipped = target.skip if target.skip is not None else likely_lost(segments, time.time())
    files = SeveralFiles(segments.files[0].path, _since_the_last_hole(segments))
    manifest = files.manifest
    wanted = log.desired(
        manifest.slots, cluster_id=manifest.cluster_id, replicas=target.replicas, max_age_s=target.max_age_s
    )
    log.slots, log.replicas, log.max_age_s = manifest.slots, target.replicas, target.max_age_s
    await _begin(log, wanted, segments.seals[-1].digest)
    begun = time.monotonic()
    putting = _Putting(log, manifest)
    await putting.all(files.records())
    await putting.skip(skipped)
    for settings in (members(log), *(snapshots(log, name) for name in DECIDERS)):
        await provide(log, settings)
    store = Snapshots(log)
    states = list(files.snapshots())
    for snapshot in states:
        await store.put(snapshot, encode(snapshot), keep=True)
    pending = Pending(log.subjects)
    for snapshot in states:
        pending.due |= {(snapshot.service, snapshot.slot, key): due for key, due in snapshot.timers.items()}
    for record in files.records():
        pending.take(record)
    # Who runs on and has read the log that was lost finds another one meanwhile, and appends nothing any more: what he has
    # folded of it might fit behind a checkpoint that was put back.
    await asyncio.sleep(max(0.0, begun + NOTICED_S - time.monotonic()))
    # From here on it takes what services say; it is no log until its timers are set.
    await log.api(
        f"STREAM.UPDATE.{log.stream}", wanted | {"metadata": {"tw.cluster": log.cluster, RESTORING: "timers"}}
    )
    schedules = pending.schedules(time.time() + target.max_age_s / 3 if target.max_age_s else None)
    for start in range(0, len(schedules), MAX_BATCH):
        await log.commit(schedules[start : start + MAX_BATCH])
    aged = {AGED: "true"} if target.max_age_s or manifest.first_seq > 1 else {}
    await log.api(f"STREAM.UPDATE.{log.stream}", wanted | {"metadata": wanted["metadata"] | aged})
    return Restored(
        putting.records, manifest.first_seq, manifest.last_seq, skipped, len(schedules), segments.heads[-1].sealed_at,
        tuple(putting.erasing), putting.unsigned,
    )  # fmt: skip


def _since_the_last_hole(segments: Segments) -> Sequence[ExportFile]:
    """The files from which states can be folded to the end: each behind a hole begins with the states that were kept."""
    begins = 0
    for place, (before, head) in enumerate(pairwise(segments.heads), 1):
        if head.first > before.last + 1:
            begins = place
    return segments.files[begins:]


def likely_lost(segments: Segments, now: float) -> int:
    """How many sequences may have been given to messages that were never sealed: twice the usual, and some at least.

    Raises:
        BadInput: they are more than `MOST_SKIPPED`: leaving them unused takes long, and a log that was not in use has not had them.
    """
    heads = segments.heads
    over_s = heads[-1].sealed_at - heads[0].sealed_at
    per_s = (heads[-1].last - heads[0].last) / over_s if over_s > 0 else 0.0
    since_s = max(0.0, now - heads[-1].sealed_at)
    lost = max(LEAST_SKIPPED, int(2 * per_s * since_s))
    if lost > MOST_SKIPPED:
        raise BadInput(
            f"the last segment was sealed {since_s / 3600:,.1f} hours ago, in which the log may have had {lost:,} messages more (twice what is usual): "
            f"beyond {MOST_SKIPPED:,} say with --skip how many sequences stay unused: {lost}, or fewer where it was not in use all that time"
        )
    return lost


async def _begin(log: Log, wanted: dict[str, object], seal: str) -> None:
    """Make the stream, as one that is no log yet.

    Raises:
        BadInput: there is a log.
    """
    current = await log.settings(log.stream)
    if current is not None:
        metadata = current.get("metadata") or {}
        first, last = await log.bounds()
        if RESTORING not in metadata and last >= first:
            raise BadInput(
                f"stream {log.stream} holds {last - first + 1} messages: a log is put back where there is none. Stop every service, keep what it has "
                f"with `tidewright export`, delete the stream (nats stream rm {log.stream}) and start again"
            )
        await log.api(f"STREAM.DELETE.{log.stream}", {})
    # Nobody else can write to it: it takes what comes under another name, and keeps it under the right one.
    beside = {
        "subjects": [f"{BESIDE}.{log.subjects.everything}"],
        "subject_transform": {"src": f"{BESIDE}.{log.subjects.everything}", "dest": log.subjects.everything},
        "metadata": {"tw.cluster": log.cluster, RESTORING: seal},
        "max_age": 0,
    }
    await log.api(f"STREAM.CREATE.{log.stream}", wanted | beside)


class _Putting:
    """Appends records at the sequences that they had."""

    def __init__(self, log: Log, manifest: Manifest) -> None:
        self._log, self._manifest = log, manifest
        self._filler = f"{log.subjects.root}.gap.{ALL}.{WRITER}"
        self._batch: list[Message] = []
        self._last: dict[str, int] = {}
        self._at = manifest.first_seq - 1
        self._gaps = False
        self.records = 0
        self.unsigned = 0
        self.erasing: list[Record] = []

    async def all(self, records: Iterable[Record]) -> None:
        """Put everything back."""
        begins = self._manifest.first_seq
        if begins > 1:
            await self._log.api(f"STREAM.PURGE.{self._log.stream}", {"seq": begins})
        length = self._manifest.last_seq - begins + 1
        with progress("restoring", length) as advance:
            for record in records:
                if (begins := self._commit_begins(record)) and self._at - len(self._batch) + 1 != begins:
                    await self._fill(begins - 1 - self._at)
                    await self._flush()
                await self._fill(record.seq - self._at - 1)
                if erases(self._log.subjects, record):
                    self.erasing.append(record)
                    await self._fill(1)
                elif SCHEDULE in record.headers:
                    await self._fill(1)  # set anew, if it is still wanted
                else:
                    await self._put(record)
                if self.records % EVERY_N == 0:
                    advance(EVERY_N)
            await self._flush()

    def _commit_begins(self, record: Record) -> int:
        """The sequence with which the signed commit of a record begins; 0: it is of none.

        The place in the batch is held against the signature, so each such commit is a batch again.
        """
        headers = record.headers
        if not _is_signed(self._log.subjects, record):
            return 0
        place = headers.get(BATCH_SEQUENCE, "1")
        return record.seq - int(place) + 1 if place.isdecimal() else 0

    async def skip(self, count: int) -> None:
        """Leave sequences unused, and take away what kept the places of others."""
        await self._fill(count)
        await self._flush()
        if self._gaps:
            await self._log.api(f"STREAM.PURGE.{self._log.stream}", {"filter": self._filler})

    async def _fill(self, count: int) -> None:
        for _ in range(count):
            # The first one stays, so that the log begins where the states belong that it starts from.
            begins = self._at + 1 == self._manifest.first_seq
            subject = f"{self._log.subjects.root}.begin.{ALL}.{WRITER}" if begins else self._filler
            self._gaps = True
            await self._append(Message(subject, b""))

    async def _put(self, record: Record) -> None:
        headers, expect = dict(record.headers), None
        signed = _is_signed(self._log.subjects, record)
        if signed:  # all but the batch's is part of what is signed, in its order
            for name in (BATCH_ID, BATCH_SEQUENCE, BATCH_COMMIT):
                headers.pop(name, None)
            expected = headers.get(EXPECTED)
            if expected is not None and expected == str(self._last.get(record.subject, 0)):
                expect = int(expected)
            elif expected is not None:
                del headers[EXPECTED]
                self.unsigned += 1
        else:
            headers = {name: value for name, value in headers.items() if not name.startswith("Nats-")}
        await self._append(Message(record.subject, record.body, headers, expect))
        self._last[record.subject] = record.seq
        self.records += 1
        if signed and SIGNATURE in headers:
            await self._flush()

    async def _append(self, message: Message) -> None:
        self._batch.append(
            Message(f"{BESIDE}.{message.subject}", message.body, message.headers, message.expect_last)
        )
        self._at += 1
        if len(self._batch) == MAX_BATCH:
            await self._flush()

    async def _flush(self) -> None:
        if not self._batch:
            return
        committed = await self._log.commit(self._batch)
        if committed.last_seq != self._at:
            raise CommandError(
                f"stream {self._log.stream} is at sequence {committed.last_seq} instead of {self._at}: somebody else writes to it; stop every service, "
                "and start again"
            )
        self._batch.clear()


def _is_signed(subjects: Subjects, record: Record) -> bool:
    """Whether a record is part of a signed commit; a timer has the headers of one, and is the server's own."""
    return (LEFT in record.headers or SIGNATURE in record.headers) and subjects.class_token(
        record.subject
    ) != TIMER


@dataclass
class Pending:
    """Timers that are set, folded of decisions and of those that fired.

    Attributes:
        due: when each is due, log time.
    """

    subjects: Subjects
    due: dict[Key, float] = field(default_factory=dict)
    _clock: Clock = field(default_factory=Clock)

    def take(self, record: Record) -> None:
        """Fold one record of the log."""
        cls = self.subjects.class_token(record.subject)
        if cls not in ("decision", "timer", "config"):
            return
        if refused(self.subjects, record.subject, record.headers) is not None:
            return
        event = registry.read(record.body)
        if isinstance(event, ClockSet):
            self._clock.set(event)
        elif isinstance(event, SetTimer | CancelTimer | TimerFired):
            place = self.subjects.parse(record.subject)
            of = (unescape(place.rest[0]), str(place.slot), event.key)
            if isinstance(event, SetTimer):
                if not event.shadow:
                    self.due[of] = event.due
            elif isinstance(event, CancelTimer) or self.due.get(of) == event.at:
                self.due.pop(of, None)

    def schedules(self, step_until: float | None) -> list[Message]:
        """The messages that set them, in the order in which they are due; `step_until`: wall time beyond which they are set in steps."""
        # A timer is its service's, whoever sets it again: what fires has the headers that are given here.
        return [
            timer_message(
                self.subjects, Slot(slot), service, key=key, due=due,
                headers=Writer(service, incarnation=WRITER).headers(f"{service}.{slot}.reset.{key}"), wall_of=self._clock.wall_of, step_until=step_until,
            )
            for (service, slot, key), due in self._ordered()
        ]  # fmt: skip

    def _ordered(self) -> Iterator[tuple[Key, float]]:
        yield from sorted(self.due.items(), key=lambda item: (item[1], item[0]))
