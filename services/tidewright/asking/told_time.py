"""The log's time as it is shown: along the log it never goes back. Pure.

Each writer stamps what it says when it sees it, and stands on the log a little later, behind what others have stamped
meanwhile. A decision has the time of the event that it answers, and knows what came before that on the log, whatever
its stamp. So where a stamp lies before one that stands before it, the later time is the one that the log had reached. With
a real clock that is milliseconds; with one that runs two thousand times as fast, as in a demo, it is minutes. The stamp
itself stays in the event.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidewright.events import registry
from tidewright.events.base import Decision, Event

PAST = frozenset(("last_scale_at",))
"""Values of rules that are times of what has happened: a decision is not shown as of before what it tells."""


class Reached:
    """The time that a log had reached, as it is read in its order."""

    def __init__(self) -> None:
        self.at = 0.0

    def by(self, event: Event | registry.Unknown) -> float:
        """The time of the next event, seconds: its own stamp, or where that lies before, the one that was reached."""
        self.at = max(self.at, event.at, *_quoted(event))
        return self.at


def told_times(events: Iterable[tuple[int, Event | registry.Unknown]]) -> dict[int, float]:
    """Sequence to the time that is shown of each of some events of a log, in whatever order they come."""
    reached = Reached()
    return {seq: reached.by(event) for seq, event in sorted(events, key=lambda entry: entry[0])}


def _quoted(event: Event | registry.Unknown) -> list[float]:
    if not isinstance(event, Decision):
        return []
    return [
        float(value)
        for step in event.because
        for name, value in step.values.items()
        if name in PAST and isinstance(value, int | float)
    ]
