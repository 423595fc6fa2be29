"""A recorded load: rows of `timestamp,value`, read as a step function of log time."""

from __future__ import annotations

import bisect
import csv
import math
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from tidewright.kube.csvtext import lines
from tidewright.kube.times import typed_seconds

LATEST = datetime(9999, 1, 1, tzinfo=UTC).timestamp()
"""No time is later: calendars end there."""
_MORE = "more"
"""Under which the reader puts what a row has beyond the header."""


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
            with path.open(encoding="utf-8-sig", newline="") as file:  # spreadsheets write a mark
                return cls.parse(lines(file), str(path))
        except OSError as error:
            raise TraceError(f"{path}: cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise TraceError(f"{path}: cannot be read: it is no text in UTF-8") from error

    @classmethod
    def parse(cls, text: Iterable[str], name: str) -> Trace:
        """Read rows; `name` is said in errors. Times are UTC, or seconds since the epoch.

        Raises:
            TraceError: a missing column, a malformed or repeated time, a value that is no number.
        """
        reader = csv.DictReader(text, restkey=_MORE, strict=True)
        times: list[float] = []
        values: list[float] = []
        try:
            _columns(reader, name)
            for row in reader:
                where = f"{name}, line {reader.line_num}"
                if _MORE in row:
                    raise TraceError(
                        f"{where}: {len(row) - 1 + len(row[_MORE])} cells, where the header has {len(row) - 1}"
                    )
                time = _time(row["timestamp"], where)
                if times and time <= times[-1]:
                    raise TraceError(
                        f"{where}: timestamp {row['timestamp']!r} is not after the one before it"
                    )
                times.append(time)
                values.append(_value(row["value"], where))
        except csv.Error as error:
            raise TraceError(f"{name}, line {reader.line_num}: no CSV: {error}") from error
        if not times:
            raise TraceError(f"{name}: no rows after the header; a trace needs at least one")
        return cls(times, values)


def _columns(reader: csv.DictReader[str], name: str) -> None:
    """Refuse a header that has not each of the two columns once."""
    header = list(reader.fieldnames or ())
    for count, what in ((0, "no"), (2, "more than one")):
        if wrong := [c for c in ("timestamp", "value") if min(header.count(c), 2) == count]:
            said = " and ".join(f"{what} column {column}" for column in wrong)
            raise TraceError(
                f"{name}, line 1: {said}; found {', '.join(header) or 'nothing'},"
                " a trace starts with the line timestamp,value"
            )


def _time(text: str | None, where: str) -> float:
    text = (text or "").strip()
    try:
        time = typed_seconds(text)
    except ValueError:
        time = math.nan
    if not 0 <= time <= LATEST:
        raise TraceError(
            f"{where}: timestamp {text!r} is no time; valid are 2014-04-10 00:04:00 (UTC) or seconds since the epoch"
        )
    return time


def _value(text: str | None, where: str) -> float:
    try:
        value = float(text or "")
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise TraceError(f"{where}: value {text or ''!r} is no number; valid are for instance 94 or 51.8")
    return value
