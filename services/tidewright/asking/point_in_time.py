"""A moment of the log: everything up to one sequence. Found for a log time without reading the log.

Log time hardly ever goes back along the log, but events of several writers interleave, and a fold's
"now" is the greatest time so far. So the state as of a time holds everything before the first event
that is later than it; events of the same time are told apart by their sequence.
"""

from __future__ import annotations

import asyncio
import re
import time
from contextlib import aclosing

import msgspec

from tidewright.asking.errors import BadInput
from tidewright.asking.objects import moment, whole_minute
from tidewright.asking.source import Source
from tidewright.events import registry
from tidewright.kube.times import readable
from tidewright.log.reader import Record

INTERLEAVED = 200
"""Facts of several writers stand at most so many places from where their times would put them."""
EVENLY = 4
"""Times that a place is looked for as if log time passed evenly along the log, before the stretch is halved each time."""
LAST_OF_A_MINUTE_S = 59.999
SEQUENCE = re.compile(r"(?:seq:|#)(\d+)$")
"""A sequence in place of a time."""


class Moment(msgspec.Struct, frozen=True):
    """Everything up to a sequence.

    Attributes:
        seq: the last sequence that belongs to it.
        at: the log time asked for, or that of its end, seconds.
        end: it is the present end of the log.
        ended: the log time of that end, where a later one was asked for; seconds.
    """

    seq: int
    at: float
    end: bool = False
    ended: float | None = None

    def told(self, log: str) -> str:
        """For people: the time, the place on a log, and where that ends when it does so before."""
        ended = "" if self.ended is None else f", which ends at {readable(self.ended)} UTC"
        return f"as of {readable(self.at)} UTC (sequence {self.seq} of {log}{ended})"

    @property
    def bound(self) -> int:
        """The sequence as an upper bound; 0 at the end of the log, which the server finds sooner."""
        return 0 if self.end else self.seq


def log_time(record: Record | None) -> float | None:
    """The log time of a record; None for one that has none."""
    if record is None:
        return None
    try:
        return registry.decode(record.body).at
    except registry.NotAnEvent:
        return None


def is_past(source: Source, record: Record) -> bool:
    """Whether what a record says has happened: a schedule carries the time at which it will fire."""
    return source.subjects.class_token(record.subject) != "schedule"


async def moment_of(
    source: Source, text: str, option: str = "--at", *, known: tuple[float, float] | None = None
) -> Moment:
    """The moment that an option names: a time, or `seq:N`; the end of the log when it is empty.

    A time that is said to the minute (`14:14`) is the end of that minute, except as `--since`: what happened in it is part of it.

    `known` are the log times of its beginning and of its end, seconds, where these were looked up just now.

    Raises:
        BadInput: it is no time, or lies outside of what is retained: before it, or in the future.
    """
    if known is None:
        (first, last), now = await asyncio.gather(source.bounds(), end_of(source))
    else:
        (first, last), now = await source.bounds(), known[1]
    if last < first:
        raise BadInput(f"{source.name} is empty: nothing has been seen yet")
    if not text:
        return Moment(last, now, end=True)
    if known is not None:
        oldest = known[0]
    else:
        oldest = source.since if source.since is not None else await beginning_of(source, first)
    retained = f"retained are {readable(oldest)} to {readable(now)} UTC (sequences {first} to {last})"
    if matched := SEQUENCE.match(text):
        seq = int(matched[1])
        if not first <= seq <= last:
            raise BadInput(f"{option} {text}: {retained}")
        return Moment(seq, await _reached(source, seq), end=seq == last)
    at = moment(text, now, option)
    if whole_minute(text) and option != "--since":
        at = max(at, min(at + LAST_OF_A_MINUTE_S, now))
    if at < oldest and option == "--since" and first <= 1 and source.since is None:
        return Moment(0, at)  # nothing was ever removed: all there is since then is there
    if at < oldest:
        raise BadInput(f"{option} {readable(at)}: {retained}")
    if at > max(now, time.time()) and option == "--at":
        raise BadInput(f"{option} {readable(at)} is still to come: {retained}")
    if at >= now:
        return Moment(last, at, end=True, ended=now if readable(at) != readable(now) else None)
    return Moment(await last_before(source, first, last, at, times=(oldest, now)), at)


async def end_of(source: Source) -> float:
    """The greatest log time at the end of the log, seconds; 0 when there is none."""
    greatest = 0.0
    for record in await source.tail(INTERLEAVED):
        if is_past(source, record):
            greatest = max(greatest, log_time(record) or 0.0)
    return greatest


async def beginning_of(source: Source, first: int) -> float:
    """The log time of the oldest fact, seconds; 0 when there is none."""
    return log_time(await source.first_of(f"{source.subjects.root}.fact.>", first)) or 0.0


async def last_before(
    source: Source, first: int, last: int, at: float, *, times: tuple[float, float] = (0.0, 0.0)
) -> int:
    """The last sequence before the first event that is later than `at`; `times` are those of the two ends, where they are known."""
    facts = f"{source.subjects.root}.fact.>"
    low, high = first, last + 1  # a fact later than `at` starts at or after `low`; at `high` none is needed
    earlier, later = times  # what had been reached at these
    tried, aside = 0, INTERLEAVED // 2
    while high - low > INTERLEAVED:
        middle = (low + high) // 2
        if tried < EVENLY and later > earlier:
            guessed = low + int((high - low) * min(1.0, max(0.0, (at - earlier) / (later - earlier))))
            # A little towards the end that is further away, so that this one comes near, too.
            guessed += aside if guessed < middle else -aside
            middle = min(max(guessed, low + 1), high - 1)
        tried, aside = tried + 1, 2 * aside
        record = await source.first_of(facts, middle)
        logged_at = log_time(record)
        if record is None or (logged_at is not None and logged_at > at):
            high, later = middle, later if logged_at is None else logged_at
        else:
            low, earlier = max(middle, record.seq), earlier if logged_at is None else logged_at
    start = max(first, low - INTERLEAVED)
    async with aclosing(source.records(after=start - 1, ahead=INTERLEAVED)) as records:
        async for record in records:
            logged_at = log_time(record) if is_past(source, record) else None
            if logged_at is not None and logged_at > at:
                return record.seq - 1
    return last


async def _reached(source: Source, seq: int) -> float:
    """The log time that had been reached at a sequence."""
    greatest = 0.0
    async with aclosing(source.records(after=max(0, seq - INTERLEAVED), ahead=INTERLEAVED)) as records:
        async for record in records:
            if record.seq > seq:
                break
            if is_past(source, record):
                greatest = max(greatest, log_time(record) or 0.0)
    return greatest
