"""A recorded load: rows of `timestamp,value`, read as a step function of log time."""

from __future__ import annotations

import bisect
import csv
import math
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path


class TraceError(ValueError):
    """The file is no trace; the message names file, line, what was found and what would be valid."""


class Trace:
    """Values in force from their time on, until the next.

    Attributes:
        times: seconds since the epoch, strictly ascending.
        values: one per time.
    """

    def __init__(self, times: list[float], values: list[float]) -> None:
        if not times or len(times) != len(values):
            raise TraceError("a trace needs at least one row, and a value for each time")
        self.times = times
        self.values = values

    @property
    def duration_s(self) -> float:
        """From the first row to the end of the last, which is taken to last as long as the one before."""
        last_step = self.times[-1] - self.times[-2] if len(self.times) > 1 else 1.0
        return self.times[-1] - self.times[0] + last_step

    def at(self, time: float, *, repeat: bool = False) -> float:
        """The value at a time on the trace's own scale; the first before it, the last after it."""
        if repeat and time >= self.times[0]:
            time = self.times[0] + (time - self.times[0]) % self.duration_s
        index = bisect.bisect_right(self.times, time) - 1
        return self.values[max(index, 0)]

    @classmethod
    def load(cls, path: Path) -> Trace:
        """Read a CSV file with the columns `timestamp` and `value`.

        Raises:
            TraceError: the file cannot be read, or a row is malformed.
        """
        try:
            with path.open(encoding="utf-8", newline="") as file:
                return cls.parse(file, str(path))
        except (OSError, UnicodeDecodeError) as error:
            raise TraceError(f"{path}: cannot be read: {error}") from error

    @classmethod
    def parse(cls, lines: Iterable[str], name: str) -> Trace:
        """Read rows; `name` is said in errors. Times are UTC, or seconds since the epoch.

        Raises:
            TraceError: a missing column, a malformed or repeated time, a value that is no number.
        """
        reader = csv.DictReader(lines)
        missing = [column for column in ("timestamp", "value") if column not in (reader.fieldnames or ())]
        if missing:
            found = ", ".join(reader.fieldnames or ()) or "nothing"
            raise TraceError(
                f"{name}, line 1: no column {' and no column '.join(missing)}; found {found},"
                " a trace starts with the line timestamp,value"
            )
        times: list[float] = []
        values: list[float] = []
        for row in reader:
            where = f"{name}, line {reader.line_num}"
            time = _time(row["timestamp"], where)
            if times and time <= times[-1]:
                raise TraceError(f"{where}: timestamp {row['timestamp']!r} is not after the one before it")
            times.append(time)
            values.append(_value(row["value"], where))
        if not times:
            raise TraceError(f"{name}: no rows after the header; a trace needs at least one")
        return cls(times, values)


def _time(text: str | None, where: str) -> float:
    try:
        return float(text or "")
    except ValueError:
        pass
    try:
        at = datetime.fromisoformat((text or "").strip())
    except ValueError as error:
        raise TraceError(
            f"{where}: timestamp {text!r} is no time; valid are 2014-04-10 00:04:00 (UTC) or seconds"
        ) from error
    return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()


def _value(text: str | None, where: str) -> float:
    try:
        value = float(text or "")
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise TraceError(f"{where}: value {text!r} is no number; valid are for instance 94 or 51.8")
    return value
