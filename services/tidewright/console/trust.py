"""How far what is shown can be believed: verification, how far behind each service is, who halted, what software decided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tidewright.asking.services import DECIDERS
from tidewright.asking.source import Source
from tidewright.console.asked import Looking
from tidewright.console.standing import ACTUATOR, WATCHER, Part, Position, standing
from tidewright.console.verifying import Verifying


@dataclass(frozen=True)
class Lag:
    """How far behind the end of the log a service is.

    Attributes:
        behind: last sequence minus the furthest position of its slots; None when none can be gone on from.
        slots: with a checkpoint, of watcher and actuator parts; `halted` those that nobody decides for.
        at: log time that its furthest slot has reached.
        epochs: the greatest of its slots.
        versions: of the software that wrote its last checkpoints.
    """

    service: str
    behind: int | None
    slots: int
    halted: int
    at: float | None
    epoch: int
    versions: tuple[str, ...]


async def page(source: Source, verifying: Verifying, looking: Looking) -> dict[str, Any]:
    """What the template is given."""
    stand = await standing(source, looking.moment)
    return {
        "lags": [
            *(
                lag_of(name, [p for p in stand.positions if p.service == name], looking.moment.seq)
                for name in DECIDERS
            ),
            *(
                lag_of_parts(name, [p for p in stand.parts if p.service == name], looking.moment.seq)
                for name in (ACTUATOR, WATCHER)
            ),
        ],
        "halted": stand.halted,
        "verifying": verifying,
        "last": looking.moment.seq,
    }


def lag_of(service: str, found: list[Position], last: int) -> Lag:
    """How far a service is, by the checkpoints of its slots."""
    sound = [position.checkpoint for position in found if position.checkpoint is not None]
    furthest = max(sound, key=lambda checkpoint: checkpoint.position, default=None)
    return Lag(
        service,
        None if furthest is None else max(0, last - furthest.position),
        len(found),
        sum(bool(position.problem) for position in found),
        None if furthest is None else furthest.at,
        max((checkpoint.epoch for checkpoint in sound), default=0),
        tuple(sorted({checkpoint.version for checkpoint in sound if checkpoint.version})),
    )


def lag_of_parts(service: str, found: list[Part], last: int) -> Lag:
    """How far the actuator is; of the watcher, which reads no log, when it said something last."""
    furthest = max((part.position for part in found if part.position is not None), default=None)
    return Lag(
        service,
        None if furthest is None else max(0, last - furthest),
        len(found),
        0,
        max((part.at for part in found), default=None),
        max((part.epoch for part in found), default=0),
        tuple(sorted({part.version for part in found if part.version})),
    )
