"""The log, or a part of it, to and from one file."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidewright.asking.errors import BadInput
from tidewright.asking.point_in_time import moment_of
from tidewright.asking.progress import progress
from tidewright.asking.service_state import inputs_of
from tidewright.asking.services import SERVICES, Role, Service, load
from tidewright.asking.source import Source, ends_of, slot_in
from tidewright.asking.starting_states import beginnings
from tidewright.asking.withholding import Withholding, left_out_of
from tidewright.events.version import __version__
from tidewright.kube.times import readable
from tidewright.log import checkpoint as checkpoints
from tidewright.log.batched_get import TooMany
from tidewright.log.connection import Log, Message
from tidewright.log.envelope import MAX_BATCH
from tidewright.log.errors import Unsound
from tidewright.log.export import ExportFile, ExportWriter, Manifest
from tidewright.log.reader import Record
from tidewright.log.snapshots import Snapshot, Snapshots, encode
from tidewright.log.subjects import ALL, SLOT_HASH, Slot, Subjects, escape

EVERY_N = 2000
ROLLUP = "nats-rollup"
"""The header, in small letters, of a message in whose place nothing stays of what was before it."""
SCHEDULE_CLASS = "schedule"
"""The class of subjects on which timers lie that have not fired."""


@dataclass(frozen=True)
class Part:
    """A part of a log.

    Attributes:
        since: sequence before which nothing is asked for; 0 for the whole log.
        until: the last sequence that is asked for.
        since_at, until_at: the log times asked for, seconds.
        namespaces: those whose slots are wanted; empty for all.
    """

    since: int
    until: int
    since_at: float | None = None
    until_at: float | None = None
    namespaces: tuple[str, ...] = ()

    def slots(self, source: Source) -> tuple[Slot, ...] | None:
        """The slots that are wanted; None for all."""
        if not self.namespaces:
            return None
        return tuple(dict.fromkeys(slot_in(source, namespace) for namespace in self.namespaces))


async def part_of(source: Source, since: str, until: str, namespaces: tuple[str, ...]) -> Part:
    """The part that the options name.

    Raises:
        BadInput: a time outside of what is retained, an unknown namespace, or an empty part.
    """
    first, last = await source.bounds()
    if last < first:
        raise BadInput(f"{source.name} is empty: there is nothing to export")
    for namespace in namespaces:
        await _known(source, namespace)
    begins = await moment_of(source, since, "--since") if since else None
    ends = await moment_of(source, until, "--until") if until else None
    if begins is not None and ends is not None and begins.seq > ends.seq:
        raise BadInput(f"--since {readable(begins.at)} is later than --until {readable(ends.at)}")
    return Part(
        begins.seq if begins is not None else 0,
        ends.seq if ends is not None else last,
        begins.at if begins is not None else None,
        ends.at if ends is not None else None,
        namespaces,
    )


async def _known(source: Source, namespace: str) -> None:
    """Return when something is on the log about a namespace.

    Raises:
        BadInput: nothing is.
    """
    slot = slot_in(source, namespace)
    try:
        records = await source.last([f"{source.subjects.root}.fact.{slot}.*.{escape(namespace)}.*"])
    except TooMany:
        return
    if not records:
        raise BadInput(f"--namespace {namespace}: nothing on {source.name} is about it")


async def exported(
    source: Source, path: Path, part: Part, withholding: Withholding | None = None
) -> ExportWriter:
    """Write a part of a log to a file, with the states that it starts from; returns what wrote it.

    With something withheld, without states: they are made of what is withheld.
    """
    withholding = withholding or Withholding(())
    first, _ = await source.bounds()
    slots = part.slots(source)
    # What decides over the whole cluster cannot be verified by the facts of some slots.
    services = [s for s in SERVICES if s.role is Role.DECIDER and (slots is None or s.partition == "slots")]
    snapshots = (
        await beginnings(source, services, slots, part.since)
        if part.since
        else await kept_states(source, services, slots)
    )
    needed = Needed.after(snapshots, whole=not part.since, slots=slots)
    names = {service.name for service in services}
    until = await decided_up_to(source, part.until, names, slots)
    every = await ends_of(source, until)
    ends = {place: position for place, position in every.items() if _kept_place(place, names, slots)}
    manifest = Manifest(
        cluster=source.subjects.cluster, stream=source.stream, slots=source.slots, slot_hash=SLOT_HASH,
        first_seq=max(first, needed.least + 1), last_seq=until, since=part.since_at, until=part.until_at,
        namespaces=part.namespaces, version=__version__, ends=ends, cluster_id=await source.cluster_id(),
        keys=await key_records(source),
        without=withholding.fields or left_out_of(source),
    )  # fmt: skip
    with (
        ExportWriter(path, manifest) as writer,
        progress("exporting", until - manifest.first_seq + 1) as advance,
    ):
        for snapshot in () if withholding.fields else snapshots:
            writer.snapshot(snapshot)
        count = 0
        async with aclosing(source.records(after=needed.least)) as records:
            async for record in records:
                if record.seq > until:
                    break
                if needed.takes(source, record):
                    writer.record(withholding.record(record, source.subjects.class_token(record.subject)))
                count += 1
                if count % EVERY_N == 0:
                    advance(EVERY_N)
    return writer


async def key_records(source: Source) -> tuple[Record, ...]:
    """The key records of the log that are good."""
    keyring = await source.keyring()
    return () if keyring is None else keyring.records


COMMITTED_WITHIN = 20_000
"""Sequences behind the end of a part in which the commits about it are looked for."""


async def decided_up_to(source: Source, seq: int, services: set[str], slots: tuple[Slot, ...] | None) -> int:
    """The sequence up to which everything lies that was decided about the events up to `seq`.

    What decides commits a moment later; a part without that would end undecided.
    """
    now = await ends_of(source, 0)
    open_ = {
        place for place, position in now.items() if position >= seq and _kept_place(place, services, slots)
    }
    end = seq
    async with aclosing(source.records(f"{source.subjects.root}.checkpoint.*.*", seq)) as records:
        async for record in records:
            if not open_ or record.seq > seq + COMMITTED_WITHIN:
                break
            place = source.subjects.parse(record.subject)
            name = f"{place.rest[0]}.{place.slot}"
            if name in open_ and _position(record) >= seq:
                open_.discard(name)
                end = record.seq
    return end


def _position(record: Record) -> int:
    """Up to where a checkpoint says that all is decided; 0 for one that cannot be gone on from."""
    try:
        return checkpoints.usable(record).position
    except Unsound:
        return 0


@dataclass(frozen=True)
class Needed:
    """From which sequence on the messages of each slot belong to a part.

    Attributes:
        of_slot: slot to the sequence behind which everything is needed.
        least: the least of these: what is needed of slot `all`, which everybody reads.
        slots: the slots that are wanted; None for all.
    """

    of_slot: dict[str, int]
    least: int
    slots: tuple[Slot, ...] | None

    @classmethod
    def after(cls, snapshots: Sequence[Snapshot], *, whole: bool, slots: tuple[Slot, ...] | None) -> Needed:
        """What is behind the snapshots' positions; everything for the `whole` log."""
        if whole or not snapshots:
            return cls({}, 0, slots)
        of_slot: dict[str, int] = {}
        for snapshot in snapshots:
            of_slot[snapshot.slot] = min(of_slot.get(snapshot.slot, snapshot.position), snapshot.position)
        if ALL in of_slot:  # somebody reads the facts of all slots
            of_slot = {slot: min(position, of_slot[ALL]) for slot, position in of_slot.items()}
        return cls(of_slot, min(of_slot.values()), slots)

    def takes(self, source: Source, record: Record) -> bool:
        """Whether a record belongs to the part."""
        slot = source.subjects.slot_token(record.subject)
        if slot == ALL:
            # With some slots only, what decides over the whole cluster is left out.
            return self.slots is None or source.subjects.class_token(record.subject) in ("fact", "config")
        if self.slots is not None and slot not in self.slots:
            return False
        return record.seq > self.of_slot.get(slot, self.least)


def _kept_place(place: str, services: set[str], slots: tuple[Slot, ...] | None) -> bool:
    service, _, slot = place.rpartition(".")
    return service in services and (slots is None or slot in slots)


async def kept_states(
    source: Source, services: Sequence[Service], slots: tuple[Slot, ...] | None
) -> list[Snapshot]:
    """The snapshots from which what is retained can be folded."""
    snapshots: list[Snapshot] = []
    for service in services:
        decider: Any = load(service)
        every = inputs_of(service, decider, source).every
        selected = every if slots is None else tuple(slot for slot in every if slot in slots)
        snapshots += await source.start(decider.service, selected, decider.readable)
    return snapshots


def rolls_up(record: Record) -> bool:
    """Whether a record took away what was before it where it was first stored, on its subject or everywhere."""
    return any(name.lower() == ROLLUP for name in record.headers)


def erases(subjects: Subjects, record: Record) -> bool:
    """Whether a record took away what nobody may take away.

    The server itself marks each schedule as one that takes the place of the one before on its subject.
    """
    values = {value.lower() for name, value in record.headers.items() if name.lower() == ROLLUP}
    return bool(values) and not (values == {"sub"} and subjects.class_token(record.subject) == SCHEDULE_CLASS)


async def imported(log: Log, file: ExportFile, erasing: list[Record] | None = None) -> int:
    """Append an export to an empty stream, every record at its old sequence; returns how many.

    Those that erased the log are left out, and put into `erasing`.

    Raises:
        BadInput: the stream is not empty.
    """
    first, last = await log.bounds()
    if last and last >= first:
        raise BadInput(
            f"stream {log.stream} holds {last - first + 1} messages already: import into a cluster name without a log"
        )
    begins = file.manifest.first_seq
    if last < begins - 1:
        await log.api(f"STREAM.PURGE.{log.stream}", {"seq": begins})
        last = begins - 1
    filler = f"{log.subjects.root}.gap.{ALL}.import"
    position, batch, count, gaps = last, list[Message](), 0, False

    async def flush() -> None:
        if batch:
            await log.commit(batch)
            batch.clear()

    with progress("importing", file.manifest.last_seq - begins + 1) as advance:
        for record in file.records():
            for missing in range(position + 1, record.seq):  # schedules that fired, slots that were left out
                # The first one stays, so that the log begins where the states belong that it starts from.
                batch.append(
                    Message(filler if missing > begins else f"{log.subjects.root}.begin.{ALL}.import", b"")
                )
                gaps = True
                if len(batch) == MAX_BATCH:
                    await flush()
                    advance(MAX_BATCH)
            if rolls_up(record):
                # Its sequence is used up all the same: an archive goes on behind it.
                batch.append(Message(filler, b""))
                position, gaps = record.seq, True
                if erasing is not None and erases(log.subjects, record):
                    erasing.append(record)
                if len(batch) == MAX_BATCH:
                    await flush()
                continue
            headers = {k: v for k, v in record.headers.items() if not k.startswith("Nats-")}
            batch.append(Message(record.subject, record.body, headers))
            position, count = record.seq, count + 1
            if len(batch) >= MAX_BATCH:
                await flush()
                advance(MAX_BATCH)
        await flush()
    if gaps:
        await log.api(f"STREAM.PURGE.{log.stream}", {"filter": filler})
    store = Snapshots(log)
    for snapshot in file.snapshots():
        await store.put(snapshot, encode(snapshot), keep=True)
    return count
