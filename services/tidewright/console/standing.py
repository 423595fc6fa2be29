"""Where each service stands in each of its slots, by its last checkpoints."""

from __future__ import annotations

from dataclasses import dataclass

from tidewright.asking.point_in_time import Moment
from tidewright.asking.services import DECIDERS
from tidewright.asking.source import Source
from tidewright.log import checkpoint as checkpoints
from tidewright.log.checkpoint import Checkpoint
from tidewright.log.errors import Unsound


@dataclass(frozen=True)
class Position:
    """A service in a slot.

    Attributes:
        sequence: of its last checkpoint.
        checkpoint: None where nobody can go on from it; `problem` says why.
    """

    service: str
    slot: str
    sequence: int
    checkpoint: Checkpoint | None
    problem: str


async def positions(source: Source, moment: Moment) -> list[Position]:
    """Those of all deciders, as of a moment."""
    found = []
    for record in await source.last([f"{source.subjects.root}.checkpoint.*.*"], moment.bound):
        place = source.subjects.parse(record.subject)
        service, slot = place.rest[0], place.slot or ""
        if service not in DECIDERS:
            continue  # those of others are of other forms
        try:
            found.append(Position(service, slot, record.seq, checkpoints.usable(record), ""))
        except Unsound as error:
            found.append(Position(service, slot, record.seq, None, str(error)))
    return sorted(found, key=lambda p: (DECIDERS.index(p.service), not p.slot.isdigit(), p.slot.zfill(8)))
