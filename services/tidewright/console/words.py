"""Times, spans and amounts as people read them. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup

from tidewright.asking.tables import plain
from tidewright.kube.times import typed_seconds

NONE = "\u2013"
"""Stands where there is no value."""


def harmless(value: Any) -> Any:
    """What a template prints: text of others without what turns its direction or has no form (escaping comes on top)."""
    return plain(value) if type(value) is str and not isinstance(value, Markup) else value


def clock(at: float | str | None) -> str:
    """A log time: day and time in UTC, to the second."""
    if at is None or at == "":
        return NONE
    try:
        return f"{datetime.fromtimestamp(seconds(at), UTC):%Y-%m-%d %H:%M:%S}"
    except (OverflowError, ValueError, OSError):
        return NONE


def seconds(at: float | str) -> float:
    """Seconds since the epoch of a time as answers say it."""
    return typed_seconds(at) if isinstance(at, str) else at


def span(length_s: float) -> str:
    """So long, in the two greatest units at most."""
    whole = round(abs(length_s))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min" + (f" {whole % 60} s" if whole % 60 and whole < 600 else "")
    if whole < 86_400:
        return f"{whole // 3600} h" + (f" {whole % 3600 // 60} min" if whole % 3600 >= 60 else "")
    return f"{whole // 86_400} d" + (f" {whole % 86_400 // 3600} h" if whole % 86_400 >= 3600 else "")


def since(at: float | str | None, now: float) -> str:
    """How long before or after now."""
    if at is None or at == "":
        return NONE
    ahead = seconds(at) - now
    return f"in {span(ahead)}" if ahead > 0.5 else f"{span(ahead)} ago"


def when(at: float | str | None, now: float) -> str:
    """The time of day, with the day where that is another one than now's, and how long ago it was."""
    said = clock(at)
    if at is None or said == NONE:
        return NONE
    today, _, _ = clock(now).partition(" ")
    return f"{said.removeprefix(f'{today} ')} \u00b7 {since(at, now)}"


def counted(amount: int, one: str, several: str = "") -> str:
    """So many of something: `1 node`, `1,200 nodes`."""
    return f"{amount:,} {one if amount == 1 else several or one + 's'}"


def number(value: float | None) -> str:
    """An amount, as short as it can be told from its neighbours."""
    if value is None:
        return NONE
    if abs(value) >= 10_000:
        return f"{value:,.0f}"
    return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.1f}".removesuffix(".0")


def money(micro: float | None) -> str:
    """A price per hour, from millionths of the currency."""
    return NONE if micro is None else f"{micro / 1e6:,.2f}/h"


def size(value: float, unit: str) -> str:
    """Bytes in GiB or MiB, millicores in cores, anything else as a number."""
    match unit:
        case "memory":
            return f"{value / 2**30:,.1f} GiB" if value >= 2**30 else f"{value / 2**20:,.0f} MiB"
        case "cpu":
            return f"{value / 1000:,.3g} cores"
    return number(value)
