"""Where each service stands in each of its slots, by its last checkpoints."""

from __future__ import annotations

from dataclasses import dataclass

from tidewright.asking.halted import halt_in, why
from tidewright.asking.point_in_time import Moment
from tidewright.asking.services import DECIDERS
from tidewright.asking.source import Source
from tidewright.events.halts import SlotHalted
from tidewright.log import checkpoint as checkpoints
from tidewright.log.checkpoint import Checkpoint
from tidewright.log.errors import Unsound
from tidewright.log.reader import Record


@dataclass(frozen=True)
class Position:
    """A service in a slot.

    Attributes:
        sequence: of its last checkpoint.
        checkpoint: None where nobody can go on from it.
        problem: why nobody decides there: for want of such a checkpoint, or since the service says that it has halted; empty
            while somebody does.
    """

    service: str
    slot: str
    sequence: int
    checkpoint: Checkpoint | None
    problem: str


async def positions(source: Source, moment: Moment) -> list[Position]:
    """Those of all deciders, as of a moment."""
    root = source.subjects.root
    records = await source.last([f"{root}.checkpoint.*.*", f"{root}.halt.*.*"], moment.bound)
    of_class: dict[str, dict[tuple[str, str], Record]] = {"checkpoint": {}, "halt": {}}
    for record in records:
        place = source.subjects.parse(record.subject)
        of_class[place.cls][place.rest[0], place.slot or ""] = record
    found = [
        _position(service, slot, record, halt_in(of_class["halt"].get((service, slot))))
        for (service, slot), record in of_class["checkpoint"].items()
        if service in DECIDERS  # those of others are of other forms
    ]
    return sorted(found, key=lambda p: (DECIDERS.index(p.service), not p.slot.isdigit(), p.slot.zfill(8)))


def _position(service: str, slot: str, record: Record, halted: SlotHalted | None) -> Position:
    try:
        checkpoint = checkpoints.usable(record)
    except Unsound as error:
        return Position(service, slot, record.seq, None, str(error))
    return Position(service, slot, record.seq, checkpoint, why(halted, checkpoint))
