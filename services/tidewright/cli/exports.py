"""`tidewright export` and `tidewright import`: the log, or a part of it, to and from one file."""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from tidewright.asking.errors import BadInput, CommandError, Unavailable, translated
from tidewright.asking.exports import exported, imported, part_of
from tidewright.asking.opening import FromFile, folder_served, opened
from tidewright.asking.options import THE_LOG, AskedLogOptions, LogOptions
from tidewright.asking.progress import progress
from tidewright.asking.services import DECIDERS
from tidewright.asking.withholding import Withholding, left_out_of
from tidewright.kube.times import readable
from tidewright.log.connection import Log
from tidewright.log.disk import is_full, no_space
from tidewright.log.export import BadExport, ExportFile, ExportWriter
from tidewright.log.install import Plan, install_log
from tidewright.log.reader import Record

EVERY_N = 2000


def export(
    path: Annotated[Path, Parameter(help="File to write.")],
    /,
    *,
    since: Annotated[str, Parameter(help="From this log time on, so long ago, or seq:N.")] = "",
    until: Annotated[str, Parameter(help="Up to this log time, so long ago, or seq:N.")] = "",
    namespace: Annotated[
        tuple[str, ...],
        Parameter(name=["--namespace", "-n"], help="Only the slots of these namespaces; may be repeated."),
    ] = (),
    without: Annotated[
        tuple[str, ...],
        Parameter(
            help="Fields to leave out wherever they stand, as annotations,labels; what was decided cannot be verified then.",
        ),
    ] = (),
    log: AskedLogOptions | None = None,
    file: FromFile = None,
) -> int:
    """Write the log, or a part of it, to one compressed file that verifies alone."""
    withholding = Withholding(without)
    if path.exists() and not path.is_file():
        raise BadInput(f"{path} is no file: name one, which is made anew")

    async def run() -> ExportWriter:
        if (task := asyncio.current_task()) is not None:
            with suppress(RuntimeError):  # signals come to the main thread alone
                asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        async with opened(log, file) as source:
            if (earlier := left_out_of(source)) and withholding.fields:
                raise BadInput(
                    f"{source.name} was exported without {', '.join(earlier)}: leave more out of the log itself"
                )
            return await exported(source, path, await part_of(source, since, until, namespace), withholding)

    try:
        written = asyncio.run(run())
    except asyncio.CancelledError:
        raise CommandError(f"stopped before the end of the log: {path} is not written") from None
    except OSError as error:
        if is_full(error):
            raise Unavailable(no_space(path.parent)) from error
        raise BadInput(f"{path} cannot be written: {error.strerror}") from error
    print(f"{written.records} records written to {path}")
    print(f"It holds {', '.join(f'{kind}: {count}' for kind, count in sorted(written.kinds.items()))}.")
    if withholding.fields:
        print(
            f"Left out: {withholding.told()}; so it has no states, and what was decided cannot be decided again from it."
        )
    return 0


def import_(
    path: Annotated[Path, Parameter(help="File that `tidewright export` wrote.")],
    /,
    *,
    log: LogOptions | None = None,
    data: Annotated[
        Path | None,
        Parameter(
            help="Data folder for `tidewright up`, made when it is not there, instead of a server.",
            group=THE_LOG,
        ),
    ] = None,
) -> int:
    """Read an exported file into an empty log, every record at its old sequence."""
    on = log or LogOptions()
    if data is not None and on.nats != LogOptions.nats:
        raise BadInput("--data names the log of a folder, and --nats that of a server: give one of them")
    file = whole(path)
    if file.manifest.without:
        raise BadInput(
            f"{path} was exported without {', '.join(file.manifest.without)}: a log of it would say what never was; "
            "import one that was exported whole"
        )
    if file.manifest.cluster != on.cluster:
        raise BadInput(
            f"{path} is a log of cluster {file.manifest.cluster!r}: pass --cluster {file.manifest.cluster}"
        )

    async def run() -> int:
        async with AsyncExitStack() as kept:
            server = on.nats
            if data is not None:
                server = await kept.enter_async_context(folder_served(data))
            kept.enter_context(translated())
            async with await Log.connect(
                server, on.cluster, credentials=on.identity(), timeout_s=5.0
            ) as running:
                plan = Plan(slots=file.manifest.slots, cluster_id=file.manifest.cluster_id, deciders=DECIDERS)
                await install_log(running, plan)
                return await imported(running, file, erasing)

    erasing: list[Record] = []
    count = asyncio.run(run())
    print(f"{count} records of cluster {on.cluster} imported from {path}, {_range(file)}", file=sys.stderr)
    for record in erasing:
        print(
            f"left out: sequence {record.seq} on {record.subject}, which erased the log (Nats-Rollup): find out who wrote it",
            file=sys.stderr,
        )
    return 0


def whole(path: Path) -> ExportFile:
    """An export that was read to its end: nothing is written before the whole file has proved good.

    Raises:
        BadInput: it is none, was cut off or altered.
    """
    if not path.is_file():
        raise BadInput(f"{path}: there is no such file; `tidewright export` writes one")
    try:
        file = ExportFile(path)
        with progress("checking", file.manifest.last_seq - file.manifest.first_seq + 1) as advance:
            for count, _ in enumerate(file.records(), 1):
                if count % EVERY_N == 0:
                    advance(EVERY_N)
    except (BadExport, OSError) as error:
        raise BadInput(str(error)) from error
    return file


def _range(file: ExportFile) -> str:
    since = file.manifest.since
    return f"sequences {file.manifest.first_seq} to {file.manifest.last_seq}" + (
        f", since {readable(since)}" if since else ""
    )
