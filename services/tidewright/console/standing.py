"""Where each service stands: the deciders in their slots, watcher and actuator in their parts, by their last checkpoints."""

from __future__ import annotations

from dataclasses import dataclass

from tidewright.asking.halted import Halt, halt_in, why
from tidewright.asking.point_in_time import Moment
from tidewright.asking.services import DECIDERS
from tidewright.asking.source import Source
from tidewright.log import checkpoint as checkpoints
from tidewright.log.checkpoint import Checkpoint
from tidewright.log.errors import Unsound
from tidewright.log.reader import Record

WATCHER, ACTUATOR = "watcher", "actuator"
"""Whose checkpoints are of other forms: of what they have seen, and of what they have done."""


@dataclass(frozen=True)
class Position:
    """A decider in a slot.

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


@dataclass(frozen=True)
class Stopped:
    """What does not go on.

    Attributes:
        place: for people: a slot of a decider, a part of the watcher, or the actuator, which has one part.
    """

    place: str
    problem: str


@dataclass(frozen=True)
class Part:
    """A part of the watcher, or the actuator, which has one part.

    Attributes:
        position: every effect up to this sequence has its outcome; None of the watcher, which reads no log.
        at: log time of its last message, seconds.
    """

    service: str
    position: int | None
    at: float
    epoch: int
    version: str


@dataclass(frozen=True)
class Standing:
    """All of them, as of a moment."""

    positions: tuple[Position, ...]
    parts: tuple[Part, ...]
    halted: tuple[Stopped, ...]


async def standing(source: Source, moment: Moment) -> Standing:
    """Where all services stand as of a moment, and what of them has halted."""
    root = source.subjects.root
    patterns = [f"{root}.checkpoint.*.*", f"{root}.checkpoint.*.{WATCHER}.*", f"{root}.halt.*.*"]
    slots: dict[tuple[str, str], Record] = {}
    halts: dict[tuple[str, str], Record] = {}
    others: list[Record] = []
    for record in await source.last(patterns, moment.bound):
        place = source.subjects.parse(record.subject)
        service, slot = place.rest[0], place.slot or ""
        if place.cls == "halt":
            halts[service, slot] = record
        elif service in DECIDERS:
            slots[service, slot] = record
        elif service in (WATCHER, ACTUATOR):
            others.append(record)
    found = [
        _position(service, slot, record, halt_in(halts.get((service, slot))))
        for (service, slot), record in slots.items()
    ]
    found.sort(key=lambda p: (DECIDERS.index(p.service), not p.slot.isdigit(), p.slot.zfill(8)))
    halted = [Stopped(f"{p.service} slot {p.slot}", p.problem) for p in found if p.problem]
    parts = [_part(source, record) for record in others]
    halted += [part for part in parts if isinstance(part, Stopped)]
    return Standing(tuple(found), tuple(part for part in parts if isinstance(part, Part)), tuple(halted))


def _position(service: str, slot: str, record: Record, halt: Halt | None) -> Position:
    try:
        checkpoint = checkpoints.usable(record)
    except Unsound as error:
        return Position(service, slot, record.seq, None, str(error))
    return Position(service, slot, record.seq, checkpoint, why(halt, record, checkpoint))


def _part(source: Source, record: Record) -> Part | Stopped:
    """A part of the watcher or the actuator; stopped where its checkpoint cannot be gone on from."""
    import msgspec

    from tidewright.actuator.ledger import ActPosition  # where there are such checkpoints
    from tidewright.watcher.appender import WatchPosition

    service, *part = source.subjects.parse(record.subject).rest
    form = WatchPosition if service == WATCHER else ActPosition
    try:
        found = checkpoints.sound(record, msgspec.json.Decoder(form))
    except Unsound as error:
        return Stopped(f"{service} part {part[0]}" if part else service, str(error))
    position = found.position if isinstance(found, ActPosition) else None
    return Part(service, position, found.at, found.epoch, found.version)
