"""Steps that follow a decision, found by going on from it. How far is looked is bounded, and so is the answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing

import msgspec

from tidewright.asking.lookups import Found, decoded
from tidewright.asking.running_log import SOON
from tidewright.asking.source import Source
from tidewright.asking.told_time import told
from tidewright.events.base import Event
from tidewright.log.reader import WINDOW

PROVISIONING = "provisioning"
PLANS_LOOKED_AT = 300
FACTS_LOOKED_AT = 5_000
"""So many records about plans, and about nodes or pods of a namespace, are looked at behind a decision."""


class Step(msgspec.Struct, frozen=True):
    """One step of it.

    Attributes:
        what: what it is, in words.
    """

    what: str
    found: Found


def ends(what: str, became: str, entries: Sequence[Found]) -> list[Step]:
    """The first and the last of several, by their times."""
    if not entries:
        return []
    entries = sorted(entries, key=lambda entry: (told(entry.event), entry.seq))
    if len(entries) == 1:
        return [Step(f"the {what} {became}", entries[0])]
    return [
        Step(f"the first of {len(entries)} {what}s {became}", entries[0]),
        Step(f"the last of {len(entries)} {what}s {became}", entries[-1]),
    ]


async def behind(
    source: Source,
    pattern: str,
    after: int,
    up_to: int,
    accepts: Callable[[Event], bool],
    *,
    most: int = FACTS_LOOKED_AT,
    enough: int = 0,
) -> AsyncIterator[Found]:
    """What a filter finds behind a sequence, of the first `most` records."""
    looked = given = 0
    async with aclosing(source.records(pattern, after=after, ahead=SOON if enough else WINDOW)) as records:
        async for record in records:
            looked += 1
            if looked > most or (up_to and record.seq > up_to):
                return
            entry = decoded(record)
            if entry is None or not isinstance(entry.event, Event) or not accepts(entry.event):
                continue
            yield entry
            given += 1
            if given == enough:
                return
