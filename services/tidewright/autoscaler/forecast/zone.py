"""Local time as a rule: what a POSIX `TZ` says, as in `CET-1CEST,M3.5.0,M10.5.0/3`. Pure.

A name such as Europe/Berlin would be looked up in a database of the machine, and two machines may have two versions of it:
a fold has to come to the same bytes on any. The rule says all itself; it is the last line of the zone's file.
"""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import date, timedelta
from functools import lru_cache
from typing import NamedTuple

BUCKET_S = 900
"""Offsets of local times are so many seconds, or a multiple: buckets of a profile are of one hour."""
EXAMPLE = "CET-1CEST,M3.5.0,M10.5.0/3"
_MOST_TEXT = 64
_EPOCH = date(1970, 1, 1).toordinal()
_DAY_S = 86400
_FIRST_DAY, _LAST_DAY = 400, 2_900_000
"""Days from 1970 for which dates can be worked out; before and behind, summer time does not matter any more."""
_NAME, _CLOCK = r"(?:[A-Za-z]{3,}|<[A-Za-z0-9+-]{3,}>)", r"[+-]?[0-9]{1,3}(?::[0-9]{2}){0,2}"
_DAY = r"M[0-9]{1,2}\.[1-5]\.[0-6]|J?[0-9]{1,3}"
_TEXT = re.compile(
    rf"{_NAME}({_CLOCK})(?:{_NAME}({_CLOCK})?,({_DAY})(?:/({_CLOCK}))?,({_DAY})(?:/({_CLOCK}))?)?", re.ASCII
)


class BadZone(ValueError):
    """The text is no rule of local time; the message says what would be valid."""


class Zone(NamedTuple):
    """What local time is ahead of UTC, in seconds; `begins` and `ends` say when that is `summer_s`.

    Attributes:
        begins, ends: a day of the year, and the seconds after its midnight, by the local time until then.
    """

    standard_s: int
    summer_s: int = 0
    begins: tuple[str, int] | None = None
    ends: tuple[str, int] | None = None


@lru_cache(maxsize=64)
def zone_of(text: str) -> Zone:
    """Read a rule.

    Raises:
        BadZone: it is none, or no multiple of a quarter of an hour.
    """
    read = _TEXT.fullmatch(text) if len(text) <= _MOST_TEXT else None
    if read is None:
        raise BadZone(
            f"zone={text[:_MOST_TEXT]}: write the rule itself, as {EXAMPLE}: the last line of the zone's file in /usr/share/zoneinfo"
        )
    west, summer_west, begins, begins_at, ends, ends_at = read.groups()
    standard_s = -_seconds(west)
    if begins is None or ends is None:
        zone = Zone(standard_s)
    else:
        zone = Zone(
            standard_s,
            -_seconds(summer_west) if summer_west else standard_s + 3600,
            (_checked(text, begins), _seconds(begins_at or "2")),
            (_checked(text, ends), _seconds(ends_at or "2")),
        )
    for offset_s in (zone.standard_s, zone.summer_s):
        if offset_s % BUCKET_S or abs(offset_s) > _DAY_S:
            raise BadZone(f"zone={text}: an offset is a multiple of 15 minutes, and a day at most")
    return zone


@lru_cache(maxsize=4096)
def shift(text: str, bucket: int) -> int:
    """How many buckets local time is ahead of UTC at one that is counted from 1970 in UTC; none without a rule.

    Raises:
        BadZone: the rule cannot be read.
    """
    return _offset_s(zone_of(text), bucket * BUCKET_S) // BUCKET_S if text else 0


def _offset_s(zone: Zone, at: int) -> int:
    if zone.begins is None or zone.ends is None or not _FIRST_DAY <= at // _DAY_S <= _LAST_DAY:
        return zone.standard_s
    year = date.fromordinal(_EPOCH + (at + zone.standard_s) // _DAY_S).year
    begin = _moment(year, *zone.begins) - zone.standard_s
    end = _moment(year, *zone.ends) - zone.summer_s
    summer = begin <= at < end if begin < end else not end <= at < begin
    return zone.summer_s if summer else zone.standard_s


def _moment(year: int, day: str, seconds: int) -> int:
    return (_date(year, day).toordinal() - _EPOCH) * _DAY_S + seconds


def _date(year: int, day: str) -> date:
    """The day of a year that a rule means: week and weekday of a month (5: the last), or its number."""
    if not day.startswith("M"):
        number = int(day.lstrip("J")) - day.startswith("J")
        leap = monthrange(year, 2)[1] == 29
        if day.startswith("J") and leap and number >= 59:  # which never counts 29 February
            number += 1
        return date(year, 1, 1) + timedelta(days=number)
    month, week, weekday = (int(part) for part in day[1:].split("."))
    first = (weekday - date(year, month, 1).isoweekday()) % 7 + 1
    last = monthrange(year, month)[1]
    found = first + 7 * (week - 1)
    return date(year, month, found if found <= last else found - 7)


def _checked(text: str, day: str) -> str:
    number = int(day.lstrip("J").split(".")[0].lstrip("M"))
    least, most = (1, 12) if day.startswith("M") else (1, 365) if day.startswith("J") else (0, 365)
    if not least <= number <= most:
        raise BadZone(f"zone={text}: {day}: from {least} to {most} is possible")
    return day


def _seconds(clock: str) -> int:
    sign = -1 if clock.startswith("-") else 1
    parts = [int(part) for part in clock.lstrip("+-").split(":")]
    return sign * sum(part * unit for part, unit in zip(parts, (3600, 60, 1), strict=False))
