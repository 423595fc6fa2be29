"""Values, marks and counts of an object over time, with the decisions on them."""

from __future__ import annotations

import msgspec

from tidewright.asking.answers.form import Answer


class SeriesPoint(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A value from a time on, until the next point of its line.

    Attributes:
        value: the last one of the stretch that the point stands for; null where there is none (a gap).
        low, high: the least and the greatest of that stretch; the same as `value` where it has one only.
    """

    at: str
    value: float | None
    low: float | None
    high: float | None


class SeriesLine(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One line of a chart.

    Attributes:
        name: what it is: of an autoscaler `value`, `highWatermark`, `lowWatermark`, `wanted`, `existing`, `ready`, `minimum`,
            `maximum`; of a node group `wanted`, `ready`, `onTheirWay`, `leaving`, `minimum`, `maximum`.
        of: the metric that it belongs to; empty for a line that is alone.
        unit: `replicas` or `nodes`; empty for a metric, whose unit the log does not know.
    """

    name: str
    of: str
    unit: str
    points: tuple[SeriesPoint, ...]


class SeriesMark(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A decision on a chart.

    Attributes:
        decision: its id, as `explain --decision` takes it.
        from_, to: what it moved the object from and to; null where it says why nothing is moved.
    """

    sequence: int
    at: str
    service: str
    decision: str
    text: str
    shadow: bool
    from_: float | None = msgspec.field(name="from")
    to: float | None


class ObjectSeries(Answer, frozen=True, kw_only=True):
    """Answer to `series`: what is drawn of an object.

    Attributes:
        since, until: the stretch that was asked for; `at` is that of its end.
        lines: each holds its value from one point to the next, and begins with what it was at `since`.
        marks: decisions about the object, the last of them; `left_out` are as many before.
    """

    kind: str
    namespace: str
    name: str
    since: str
    until: str
    lines: tuple[SeriesLine, ...]
    marks: tuple[SeriesMark, ...]
    left_out: int = 0
