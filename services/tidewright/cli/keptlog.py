"""The log that `tidewright up` or `demo` keeps in a data folder, asked whether they run or not.

While one of them runs on the folder, its server is asked. Otherwise a server is started on the store for
as long as the question takes, and the folder is held against another start meanwhile. The server does
what it does at every start: schedules that are due fire.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

from tidewright.asking.errors import BadInput, Unavailable
from tidewright.asking.options import LogOptions
from tidewright.cli import datafolder, embedded, process
from tidewright.cli.datafolder import HOST, DataFolder
from tidewright.log.connection import Log

START_WITHIN_S = 60.0
"""Wall seconds that a server may take to read its store."""
STOP_WITHIN_S = 10.0

_SEVERE = re.compile(r"\[(?:FTL|ERR)\] (?P<words>.*)$")


@asynccontextmanager
async def served(path: Path, *, new: bool = False) -> AsyncIterator[str]:
    """The URL of a server with the log of a data folder; of one to be begun there, if it may be `new`.

    Raises:
        BadInput: no log is kept there; it is somebody else's folder.
        Unavailable: its server does not start.
    """
    path = path.expanduser().resolve()  # noqa: ASYNC240  # once, before anything else runs
    if not new and not datafolder.keeps_log(path):
        raise BadInput(
            f"--data {path}: no log is kept there; name the folder that `tidewright up` or `tidewright demo` printed"
            " (a log on an existing server is named with --nats URL)"
        )
    try:
        folder = DataFolder.open(path, "up" if new else None)
    except Unavailable:
        port = datafolder.known_port(path, "nats")
        if port is None:
            raise
        yield f"nats://{HOST}:{port}"
        return
    try:
        async with _server(folder) as url:
            yield url
    finally:
        folder.close()


@asynccontextmanager
async def _server(folder: DataFolder) -> AsyncIterator[str]:
    store, port = folder.path / "nats", folder.port("nats", None)
    config = store / "asked.conf"
    store.mkdir(exist_ok=True)
    config.write_text(embedded.nats_configuration(store, HOST, port, sync_always=False, max_store_bytes=None))
    child = await process.spawn((embedded.nats_program(), "-c", str(config)), os.environ)
    drain: asyncio.Task[None] | None = None
    try:
        try:
            async with asyncio.timeout(START_WITHIN_S):
                failure = await _ready(child)
        except TimeoutError:
            failure = f"not ready after {START_WITHIN_S:g} s"
        if failure is not None:
            raise Unavailable(f"nats-server does not start on {store}: {failure}")
        drain = asyncio.create_task(_drain(child))
        yield f"nats://{HOST}:{port}"
    finally:
        await process.stop(child, STOP_WITHIN_S)
        if drain is not None:
            await drain


async def _ready(child: asyncio.subprocess.Process) -> str | None:
    """Wait until the server takes connections; its last words when it ends instead."""
    words = "it ended"
    if child.stdout is not None:
        async for raw in child.stdout:
            line = raw.decode(errors="replace").rstrip()
            if "Server is ready" in line:
                return None
            if severe := _SEVERE.search(line):
                words = severe["words"]
    return words


async def _drain(child: asyncio.subprocess.Process) -> None:
    """Read what it says, so that its pipe never fills."""
    if child.stdout is not None:
        async for _ in child.stdout:
            pass


async def cluster_on(log: Log, cluster: str) -> str:
    """The cluster whose log is meant: the one of that name; where none was named, the only one there is.

    Raises:
        BadInput: there is none of that name.
    """
    names = await clusters(log)
    if cluster in names:
        return cluster
    if cluster == LogOptions.cluster and len(names) == 1:
        return names[0]
    raise BadInput(
        f"--cluster {cluster}: there is no log of that cluster"
        + (f"; valid are {', '.join(names)}" if names else ", nor of another one")
    )


async def clusters(log: Log) -> list[str]:
    """The clusters whose logs are on a server."""
    answer = await log.api("STREAM.LIST", {})
    return sorted(filter(None, (_cluster_of(stream["config"]) for stream in answer.get("streams") or ())))


def _cluster_of(config: dict[str, object]) -> str:
    metadata = config.get("metadata")
    return str(metadata.get("tw.cluster", "")) if isinstance(metadata, dict) else ""


def hint() -> str:
    """Which of the user's own data folders keep a log, for who asked where none is."""
    own = datafolder.default()
    kept = [str(path) for path in _candidates(own) if datafolder.keeps_log(path)]
    return f"; or ask the log that is kept in a folder: --data {' or --data '.join(kept)}" if kept else ""


def _candidates(own: Path) -> Iterator[Path]:
    yield own
    yield own / "demo"  # of versions that had one for all checkouts
    yield datafolder.of_demos()
