"""Which log is asked, by the options, and how it is reached."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from tidewright.asking import postponed  # noqa: F401  # before the NATS client
from tidewright.asking.errors import BadInput, CommandError, Unavailable, translated
from tidewright.asking.options import THE_LOG, AskedLogOptions, LogOptions
from tidewright.asking.running import located
from tidewright.asking.running_log import RunningLog
from tidewright.asking.source import Source
from tidewright.asking.trust import anchors_of
from tidewright.events import registry
from tidewright.host.process.stderr import warnings_only
from tidewright.log.connection import Log
from tidewright.log.diagnostics import configure_when_used
from tidewright.log.errors import BadKey, LogError, LogUnavailable, NoKeys, WrongStream

FromFile = Annotated[
    Path | None,
    Parameter(name="--log", help="Read this exported file instead of a running log.", group=THE_LOG),
]


@asynccontextmanager
async def opened(where: LogOptions | None, file: Path | None) -> AsyncIterator[Source]:
    """The log that the options name: a file, that of a data folder, or that of a server, which makes no consumer for us.

    Raises:
        BadInput: the file is no export; the stream is of another cluster.
        Unavailable: nobody answers.
    """
    configure_when_used(warnings_only)
    folder = where.data if isinstance(where, AskedLogOptions) else None
    if isinstance(where, AskedLogOptions) and where.archive:
        if file is not None:
            raise BadInput("--log names a log in a file, and --archive a sealed archive: give one of them")
        from tidewright.asking.archived import with_archive

        async with with_archive(where) as source:
            yield source
        return
    if file is not None:
        if folder is not None:
            raise BadInput("--log names a log in a file, and --data that of a folder: give one of them")
        from tidewright.asking.exported import ExportedLog
        from tidewright.log.export import BadExport, ExportFile

        if not file.is_file():  # noqa: ASYNC240  # once, before anything else runs
            raise BadInput(f"--log {file}: there is no such file; `tidewright export` writes one")
        try:
            exported = ExportedLog(ExportFile(file), anchors_of(where))
        except (BadExport, BadKey, NoKeys) as error:
            raise BadInput(str(error)) from error
        try:
            yield exported
        except BadExport as error:
            raise BadInput(str(error)) from error
        except registry.NotAnEvent as error:
            # Was the file altered, or was it exported so?
            try:
                for _ in exported.file.records():
                    pass
            except BadExport as altered:
                raise BadInput(str(altered)) from error
            raise CommandError(f"{file}: {_parked(error)}") from error
        return
    on = located(where or LogOptions())
    if folder is not None:
        async with (
            _kept(on, folder) as kept,
            opened(_asking(on, kept), None) as source,
        ):
            yield source
        return
    with translated():
        log = await _connected(on)
        async with log:
            log.directly = True  # who asks has no right to make a consumer
            anchors = anchors_of(on)
            if anchors is not None:
                log.authenticate(anchors=anchors)
            await _adopted(log)
            try:
                yield RunningLog(log, anchors)
            except registry.NotAnEvent as error:
                raise CommandError(f"stream {log.stream}: {_parked(error)}") from error


def _asking(on: LogOptions, kept: LogOptions) -> AskedLogOptions:
    """The log of a folder, asked as the options say."""
    trust = on.trust if isinstance(on, AskedLogOptions) else None
    return AskedLogOptions(nats=kept.nats, cluster=kept.cluster, trust=trust)


async def _connected(on: LogOptions) -> Log:
    try:
        return await Log.connect(on.nats, on.cluster, credentials=on.identity(), timeout_s=5.0)
    except LogUnavailable as error:
        if on.nats != LogOptions.nats:
            raise
        from tidewright.cli import keptlog

        raise Unavailable(f"{error}{keptlog.hint()}") from error


async def _adopted(log: Log) -> None:
    """Take over what the log's stream says of itself.

    Raises:
        BadInput: there is no log of that cluster; those that there are, are named.
    """
    try:
        await log.adopt_slots()
    except WrongStream as error:
        from tidewright.cli import keptlog

        names: list[str] = []
        with suppress(LogError):  # credentials may see no other stream
            names = await keptlog.clusters(log)
        there = f"; there are logs of {', '.join(names)}: name one with --cluster" if names else ""
        raise BadInput(f"{error}{there}") from error


@asynccontextmanager
async def reached(where: LogOptions | None) -> AsyncIterator[LogOptions]:
    """The log that options name as one on a server: that of a data folder is served meanwhile, that of a stack found.

    Raises:
        BadInput: no log is kept in the folder; several stacks run.
        Unavailable: its server does not start.
    """
    if isinstance(where, AskedLogOptions) and where.archive:
        raise BadInput("--archive: this asks a running log alone; leave it out")
    on = located(where or LogOptions())
    folder = on.data if isinstance(on, AskedLogOptions) else None
    if folder is None:
        yield on
        return
    async with _kept(on, folder) as kept:
        yield kept


@asynccontextmanager
async def _kept(on: LogOptions, folder: Path) -> AsyncIterator[LogOptions]:
    """The log of a data folder as one on a server, under the name of its cluster."""
    from tidewright.cli import keptlog

    if on.nats != LogOptions.nats:
        raise BadInput("--data names the log of a folder, and --nats that of a server: give one of them")
    async with keptlog.served(folder) as url:
        with translated():
            async with await Log.connect(url, on.cluster, timeout_s=5.0) as log:
                cluster = await keptlog.cluster_on(log, on.cluster)
        yield replace(LogOptions(), nats=url, cluster=cluster)


def folder_served(folder: Path) -> AbstractAsyncContextManager[str]:
    """The URL of a server with the logs of a data folder, which is made when it is not there."""
    from tidewright.cli import keptlog

    return keptlog.served(folder, new=True)


def _parked(error: Exception) -> str:
    return f"a message does not decode ({error}); `tidewright events --parked` shows it"
