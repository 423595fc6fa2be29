"""Which timers a process fires itself, with the commits of their slot, and when. Pure.

The server looks at its schedules every quarter of a second (nats-server 2.15.1), so that one which is due, or soon will
be, waits for that long. So what is due when its slot commits goes onto the log with that commit, as the message that the
server would have stored. What is not due yet is scheduled at the server as well, which fires it when nobody else does
(a process that died), and alone what is due later. See decision record 0079.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from typing import NamedTuple

from tidewright.log.connection import Message
from tidewright.log.timers import SCHEDULE

NEAR_S = 0.5
"""Wall seconds: what is due later the server fires by itself, and in time."""
PER_S, AHEAD = 20.0, 100.0
"""How often a second one timer is fired in the long run, and how many times without a pause: a decider that sets a timer
due now whenever it fires would fill the log. Beyond, it has the pace of the server."""


class Soon(NamedTuple):
    """A timer that comes soon.

    Attributes:
        since: from when on it fires, log time, seconds.
        due: when it is due, log time.
        schedule: what the server is told of it.
    """

    since: float
    due: float
    schedule: Message


class Alarms:
    """The timers of one slot.

    Attributes:
        soon: by key, those that this process has set to come soon.
        standing: keys of which the server may have a schedule.
        fired: what fires with the slot's next commit.
    """

    def __init__(self, standing: Iterable[str] = ()) -> None:
        self.soon: dict[str, Soon] = {}
        self.standing = set(standing)
        self.fired: list[Message] = []
        self._paid: dict[str, float] = {}
        """By key, the time up to which what was fired is paid for, at `PER_S`."""

    @property
    def next_at(self) -> float:
        """From when on the first of those that come soon fires, log time; infinite without any."""
        return min((alarm.since for alarm in self.soon.values()), default=inf)

    def passed(
        self, now: float, timers: Mapping[str, float], monotonic_s: float
    ) -> list[tuple[str, Message]]:
        """Those that fire at log time `now`, of `timers` that are set, each with its schedule, in the order in which they are due.

        They come soon no more.
        """
        if not self.soon:
            return []
        passed = [(key, alarm) for key, alarm in self.soon.items() if alarm.since <= now]
        passed.sort(key=lambda entry: entry[1].due)
        for key, _ in passed:
            del self.soon[key]
        self._paid = {key: paid for key, paid in self._paid.items() if paid > monotonic_s}
        return [
            (key, alarm.schedule)
            for key, alarm in passed
            if alarm.due == timers.get(key) and self._may_fire(key, monotonic_s)
        ]

    def _may_fire(self, key: str, now_s: float) -> bool:
        paid = self._paid.get(key, now_s) + 1 / PER_S
        if paid > now_s + AHEAD / PER_S:
            return False
        self._paid[key] = paid
        return True

    def told(self, schedules: Mapping[str, Message]) -> None:
        """The server is told all this with a commit: schedules by key, or that there shall be none."""
        for key, message in schedules.items():
            if SCHEDULE in (message.headers or ()):
                self.standing.add(key)
            else:
                self.standing.discard(key)
