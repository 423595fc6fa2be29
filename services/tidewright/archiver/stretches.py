"""What of the log is sealed next."""

from __future__ import annotations

from tidewright.archive.sealing import Stretch, whole_commits
from tidewright.archive.segment import Head
from tidewright.asking.exports import kept_states, key_records
from tidewright.asking.running_log import RunningLog
from tidewright.asking.services import SERVICES, Role
from tidewright.asking.source import ends_of
from tidewright.events.version import __version__
from tidewright.log.export import Manifest
from tidewright.log.reader import Record
from tidewright.log.subjects import SLOT_HASH

MAX_RECORDS = 50_000
MAX_BYTES = 32 << 20
"""Of a segment's messages, before they are compressed."""

_DECIDERS = tuple(service for service in SERVICES if service.role is Role.DECIDER)


async def next_stretch(source: RunningLog, tail: Head | None) -> tuple[Stretch | None, bool]:
    """What comes behind the last segment, up to the size of one, and whether more is there; None while no whole commit is.

    Raises:
        LogUnavailable: it does not say.
    """
    first, end = await source.bounds()
    after = tail.last if tail is not None else 0
    records, size = list[Record](), 0
    async with source.log.reader([source.subjects.everything], after=after, believing=False) as reader:
        async for record in reader.until_current():
            records.append(record)
            size += len(record.body) + len(record.subject)
            if len(records) >= MAX_RECORDS or size >= MAX_BYTES:
                break
    del records[whole_commits(records) :]
    if not records:
        return None, False
    begins = max(first, after + 1)
    last = records[-1].seq
    manifest = Manifest(
        cluster=source.subjects.cluster, stream=source.stream, slots=source.slots, slot_hash=SLOT_HASH,
        first_seq=begins, last_seq=last, version=__version__, ends=await ends_of(source, last),
        cluster_id=await source.cluster_id(), keys=await key_records(source),
    )  # fmt: skip
    begun = tail is None or begins > after + 1
    states = await kept_states(source, _DECIDERS, None) if begun else []
    return Stretch(manifest, records, states), last < end
