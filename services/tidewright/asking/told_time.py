"""The log time that is shown of an event: the same wherever it is shown. Pure.

An event has the time that its writer stamped. A decision has that of the event which it answers, though by then its decider may know
of later ones: with a clock that runs two thousand times as fast, as in a demo, of one that is minutes later. So a
decision that quotes when something has happened is shown as of then, and not as of before what it tells.

Nothing else goes into it, neither what stands around an event nor what else is asked for. What is listed is listed by these times:
a decision follows what it answers, wherever it stands on the log (`asking.ordered`).
"""

from __future__ import annotations

import msgspec

from tidewright.events import registry
from tidewright.events.base import Decision, Event
from tidewright.log.reader import Record

LAST_SCALE_AT = "last_scale_at"
"""Of the values of rules the one that is a time of what has happened."""


def told(event: Event | registry.Unknown) -> float:
    """The time that is shown of an event, seconds."""
    if not isinstance(event, Decision):
        return event.at
    quoted = [step.values.get(LAST_SCALE_AT) for step in event.because]
    return max([event.at, *(at for at in quoted if isinstance(at, int | float))])


class _Values(msgspec.Struct, frozen=True):
    last_scale_at: float | None = None


class _Step(msgspec.Struct):
    values: _Values = _Values()


class _Timed(msgspec.Struct):
    at: float = 0.0
    because: list[_Step] = []


_timed = msgspec.json.Decoder(_Timed)


def told_of(record: Record) -> float | None:
    """The same of a record, without decoding the rest of it; None where it has none."""
    try:
        timed = _timed.decode(record.body)
    except msgspec.MsgspecError:
        return None
    return max([timed.at, *(step.values.last_scale_at or 0.0 for step in timed.because)])
