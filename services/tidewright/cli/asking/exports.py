"""`tidewright export` and `tidewright import`: the log, or a part of it, to and from one file."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from tidewright.cli.asking.objects import moment, shown
from tidewright.cli.asking.progress import progress
from tidewright.cli.asking.restored import inputs_of
from tidewright.cli.asking.source import ExportedLog, FromFile, Source, opened, slot_in
from tidewright.cli.errors import BadInput, translated
from tidewright.cli.options import LogOptions
from tidewright.cli.run import load
from tidewright.cli.services import SERVICES, Role
from tidewright.events import registry
from tidewright.events.version import __version__
from tidewright.host.fold import Fold
from tidewright.host.inputs import Role as MessageRole
from tidewright.host.restoring import SlotRestorer
from tidewright.log.connection import MAX_BATCH, Log, Message
from tidewright.log.export import BadExport, ExportFile, ExportWriter, Manifest
from tidewright.log.reader import Record
from tidewright.log.snapshots import Snapshot
from tidewright.log.subjects import ALL, SLOT_HASH, Slot

EVERY_N = 2000


async def starts_at(source: Source, since: float) -> list[Snapshot]:
    """The state of every service and slot at its last checkpoint before `since`, as snapshots."""
    restorers: list[SlotRestorer[Any]] = []
    for service in (s for s in SERVICES if s.role is Role.DECIDER):
        decider: Any = load(service)
        inputs = inputs_of(service, decider, source)
        kept = await source.start(decider.service, inputs.every, decider.state_version)
        folds = {s.slot: Fold.resumed(decider, s) for s in kept}
        restorers.append(
            SlotRestorer(inputs, {slot: folds.get(slot) or Fold(decider, slot) for slot in inputs.every})
        )
    snapshots: dict[tuple[str, str], Snapshot] = {}
    async for record in source.records():
        for restorer in restorers:
            for slot, found in restorer.take(record):
                if found.at < since:
                    fold = restorer.folds[slot]
                    one = fold.snapshot(checkpoint_seq=record.seq, position=found.position)
                    snapshots[restorer.inputs.service, slot] = one
        if (
            _at(record) >= since
            and restorers
            and restorers[0].inputs.role(record.subject) is MessageRole.INPUT
        ):
            break
    return list(snapshots.values())


def _at(record: Record) -> float:
    try:
        return registry.decode(record.body).at
    except registry.NotAnEvent:
        return 0.0


async def exported(
    source: Source, path: Path, since: float | None, until: float | None, namespaces: tuple[str, ...]
) -> int:
    """Write the wanted part of a log to a file; returns the number of records."""
    first, last = await source.bounds()
    slots: set[Slot] | None = {slot_in(source, n) for n in namespaces} | {ALL} if namespaces else None
    if since is None:
        snapshots = [
            snapshot
            for service in SERVICES if service.role is Role.DECIDER
            for snapshot in await _kept(source, service)
        ]  # fmt: skip
    else:
        snapshots = await starts_at(source, since)
    if slots is not None:
        snapshots = [s for s in snapshots if Slot(s.slot) in slots]
    # Each slot's snapshot has its own position: records from the earliest on are what all of them need.
    after = min((s.position for s in snapshots), default=0) if since is not None else 0
    manifest = Manifest(
        cluster=source.subjects.cluster, stream=source.name, slots=source.slots, slot_hash=SLOT_HASH,
        first_seq=max(first, after + 1), last_seq=last, since=since, until=until, namespaces=namespaces, version=__version__,
    )  # fmt: skip
    with (
        ExportWriter(path, manifest) as writer,
        progress("exporting", last - max(first, after + 1) + 1) as advance,
    ):
        for snapshot in snapshots:
            writer.snapshot(snapshot)
        async for record in source.records(after=after):
            if until is not None and _at(record) > until:
                break
            if slots is None or source.subjects.slot_token(record.subject) in slots:
                writer.record(record)
                if writer.records % EVERY_N == 0:
                    advance(EVERY_N)
    return writer.records


async def _kept(source: Source, service: Any) -> list[Snapshot]:
    decider: Any = load(service)
    return await source.start(
        decider.service, inputs_of(service, decider, source).every, decider.state_version
    )


def export(
    path: Annotated[Path, Parameter(help="File to write.")],
    /,
    *,
    since: Annotated[str, Parameter(help="From this log time on; or so long ago.")] = "",
    until: Annotated[str, Parameter(help="Up to this log time.")] = "",
    namespace: Annotated[
        tuple[str, ...], Parameter(name=["--namespace", "-n"], help="Only the slots of these namespaces.")
    ] = (),
    log: LogOptions | None = None,
    file: FromFile = None,
) -> int:
    """Write the log, or a part of it, to one compressed file that verifies alone."""
    from tidewright.cli.asking.events import latest_at

    async def run() -> int:
        async with opened(log, file) as source:
            now = await latest_at(source) if since or until else 0.0
            return await exported(
                source,
                path,
                moment(since, now) if since else None,
                moment(until, now) if until else None,
                namespace,
            )

    try:
        count = asyncio.run(run())
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}") from error
    print(f"{count} records written to {path}")
    return 0


async def imported(log: Log, exported_log: ExportedLog) -> int:
    """Append an export to an empty stream, every record at its old sequence."""
    first, last = await log.bounds()
    if last >= first and last > 0:
        raise BadInput(
            f"stream {log.stream} holds {last - first + 1} messages already: import into a cluster name without a log"
        )
    filler = f"{log.subjects.root}.gap.{ALL}"
    position, batch = 0, list[Message]()

    async def flush() -> None:
        if batch:
            await log.commit(batch)
            batch.clear()

    count = 0
    with progress("importing", exported_log.file.manifest.last_seq) as advance:
        for record in exported_log.file.records():
            for _ in range(record.seq - position - 1):  # schedules that fired, slots that were left out
                batch.append(Message(filler, b""))
                if len(batch) == MAX_BATCH:
                    await flush()
            headers = {k: v for k, v in record.headers.items() if not k.startswith("Nats-")}
            batch.append(Message(record.subject, record.body, headers))
            position, count = record.seq, count + 1
            if len(batch) >= MAX_BATCH - 1:
                await flush()
                advance(MAX_BATCH)
        await flush()
    await log.api(f"STREAM.PURGE.{log.stream}", {"filter": filler})
    return count


def import_(
    path: Annotated[Path, Parameter(help="File that `tidewright export` wrote.")],
    /,
    *,
    log: LogOptions | None = None,
) -> int:
    """Read an exported file into an empty log, every record at its old sequence."""
    on = log or LogOptions()
    try:
        file = ExportFile(path)
        for _ in file.records():  # nothing is written before the whole file has proved good
            pass
    except (BadExport, OSError) as error:
        raise BadInput(str(error)) from error
    if file.manifest.cluster != on.cluster:
        raise BadInput(
            f"{path} is a log of cluster {file.manifest.cluster!r}: pass --cluster {file.manifest.cluster}"
        )

    async def run() -> int:
        with translated():
            async with await Log.connect(
                on.nats, on.cluster, credentials=on.nats_credentials, timeout_s=5.0
            ) as running:
                await running.ensure(slots=file.manifest.slots)
                return await imported(running, ExportedLog(file))

    count = asyncio.run(run())
    print(f"{count} records of cluster {on.cluster} imported from {path}, {_range(file)}", file=sys.stderr)
    return 0


def _range(file: ExportFile) -> str:
    since = file.manifest.since
    return f"sequences {file.manifest.first_seq} to {file.manifest.last_seq}" + (
        f", since {shown(since)}" if since else ""
    )
