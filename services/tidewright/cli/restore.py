"""`tidewright restore`: a lost log, put back from its archive."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from tidewright.asking.errors import BadInput, translated
from tidewright.asking.options import LogOptions
from tidewright.asking.restoring import Restored, Target, restored
from tidewright.cli.install import THE_STREAM
from tidewright.cli.options import COPIES, NOT_NEGATIVE
from tidewright.kube.times import readable
from tidewright.log.connection import Log


def restore(
    *,
    archive: Annotated[
        str, Parameter(help="The sealed archive: a folder, file:// or s3://BUCKET/PREFIX.", group=THE_STREAM)
    ],
    archive_key: Annotated[
        Path | None,
        Parameter(help="Public key that it has to be sealed with (archiver.key.pub).", group=THE_STREAM),
    ] = None,
    log: LogOptions | None = None,
    replicas: Annotated[
        int, Parameter(help="Servers that keep a copy.", group=THE_STREAM, validator=COPIES)
    ] = 1,
    max_age: Annotated[
        float,
        Parameter(
            help="How long the log keeps a message, seconds; 0: for ever.",
            group=THE_STREAM,
            validator=NOT_NEGATIVE,
        ),
    ] = 0.0,
    skip: Annotated[
        int | None,
        Parameter(
            help="Sequences behind the last one that stay unused, as lost messages had them; by default twice what is usual in the time; beyond 1,000,000 it is asked for.",
            group=THE_STREAM,
            validator=NOT_NEGATIVE,
        ),
    ] = None,
) -> int:
    """Make the log anew from its archive, on a server without one: sequences as they were, timers set again. Stop every service before."""
    from tidewright.archive.reading import checked
    from tidewright.archive.store import opened
    from tidewright.asking.archived import read_key

    on, anchors = log or LogOptions(), read_key(archive_key)

    async def run() -> Restored:
        with tempfile.TemporaryDirectory(prefix="tidewright-archive-") as folder, translated():
            async with opened(archive, on.cluster) as store:
                segments = await checked(store, Path(folder), anchors)
            if segments.heads[-1].cluster != on.cluster:
                raise BadInput(
                    f"the archive is of cluster {segments.heads[-1].cluster!r}, not {on.cluster!r}"
                )
            async with await Log.connect(
                on.nats, on.cluster, credentials=on.identity(), name="restore", timeout_s=5.0
            ) as it:
                return await restored(it, segments, Target(replicas, max_age, skip))

    _tell(asyncio.run(run()), on.cluster)
    return 0


def _tell(found: Restored, cluster: str) -> None:
    print(
        f"{found.records} messages of cluster {cluster} put back, sequences {found.first} to {found.last}; {found.timers} timers set"
    )
    print(
        f"Lost is what came after {readable(found.sealed_at)} (wall time), when the last segment was sealed: it is seen and decided anew, and what was "
        f"carried out by then is recognised by value. Sequences up to {found.last + found.skipped} stay unused, so that no lost decision's id comes again."
    )
    for record in found.erasing:
        print(
            f"left out: sequence {record.seq} on {record.subject}, which erased the log (Nats-Rollup): find out who wrote it",
            file=sys.stderr,
        )
    if found.unsigned:
        print(
            f"{found.unsigned} signed messages expected what is not there: say with `tidewright keys install KEYS --history` that all of it was written before"
        )
    print(
        "Now `tidewright install` as ever, which makes the mirror that nothing can be deleted from anew where it was on the same disks; "
        "then start every service, those that still run too, and `tidewright verify`."
    )
