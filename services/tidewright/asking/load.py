"""A load as it was recorded, in a file or on a log: rows of a time and one value per metric."""

from __future__ import annotations

import csv
import math
from array import array
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tidewright.asking.errors import BadInput
from tidewright.asking.source import Source
from tidewright.kube.csvtext import lines
from tidewright.kube.times import typed_seconds
from tidewright.log.reader import Record

if TYPE_CHECKING:
    from tidewright.autoscaler.api.spec import Metric, Rules

TIMES = ("timestamp", "time")
"""Names of the column with the times."""
EVERY_N = 50_000


@dataclass
class Series:
    """A load.

    Attributes:
        source: where it is from, for people.
        times: seconds, ascending; `values` has one array per metric.
        start_replicas: what was requested when it began; None when that is not known.
        recorded: what was really done, as (time, requested replicas), for a log.
    """

    source: str
    times: array[float]
    values: list[array[float]]
    start_replicas: int | None = None
    recorded: list[tuple[float, int]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.times)

    @property
    def span(self) -> tuple[float, float]:
        """First and last time, seconds."""
        return self.times[0], self.times[-1]

    def rows(self) -> Iterator[tuple[float, Sequence[float]]]:
        """The rows, as the engine takes them."""
        if len(self.values) == 1:
            return ((at, (value,)) for at, value in zip(self.times, self.values[0], strict=True))
        return zip(self.times, zip(*self.values, strict=True), strict=True)


def columns(header: Sequence[str], metrics: Sequence[Metric], where: str) -> tuple[int, list[int]]:
    """The columns of the time and of each metric: by name, `value` for a single one, else in their order.

    Raises:
        BadInput: a column is missing.
    """
    names = [name.strip() for name in header]
    at = next((names.index(name) for name in TIMES if name in names), None)
    if at is None:
        raise BadInput(f"{where}: no column timestamp; found {', '.join(names) or 'nothing'}")
    metric_names = [metric.name for metric in metrics]
    if all(name in names for name in metric_names):
        return at, [names.index(name) for name in metric_names]
    if len(metric_names) == 1 and "value" in names:
        return at, [names.index("value")]
    others = [index for index in range(len(names)) if index != at]
    if len(others) == len(metric_names):
        return at, others
    raise BadInput(
        f"{where}: the spec has {len(metric_names)} metrics ({', '.join(metric_names)}), and the columns are {', '.join(names)}: "
        "name them like the metrics"
    )


def from_csv(path: Path, metrics: Sequence[Metric], advance: Callable[[int], None]) -> Series:
    """Read a CSV file: a column `timestamp` (UTC, or seconds since the epoch), and one per metric.

    Raises:
        BadInput: the message names file, line and column.
    """
    times: array[float] = array("d")
    values: list[array[float]] = [array("d") for _ in metrics]
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(lines(file))
            where = f"--metrics {path}"
            at_column, value_columns = columns(next(reader, []), metrics, f"{where}, line 1")
            last = -math.inf
            for row in reader:
                if not row:
                    continue
                try:
                    at = typed_seconds(row[at_column])
                    numbers = [float(row[column]) for column in value_columns]
                except (ValueError, IndexError) as error:
                    raise BadInput(
                        f"{where}, line {reader.line_num}: {error}; a row is for instance 2026-03-01 12:00:00,51.8"
                    ) from error
                if at < last:
                    raise BadInput(
                        f"{where}, line {reader.line_num}: its time lies before that of the line before"
                    )
                if not all(map(math.isfinite, numbers)):
                    raise BadInput(f"{where}, line {reader.line_num}: {row} holds a value that is no number")
                last = at
                times.append(at)
                for column, number in zip(values, numbers, strict=True):
                    column.append(number)
                if not len(times) % EVERY_N:
                    advance(EVERY_N)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"--metrics {path}: cannot be read: {error}") from error
    if not times:
        raise BadInput(f"--metrics {path}: no rows after the header")
    return Series(str(path), times, values)


async def from_log(
    source: Source, rules: Rules, namespace: str, *, shared: bool, after: int = 0, up_to: int | None = None
) -> Series:
    """The samples that a log has recorded for a spec's queries, as the load that they were measured under.

    Args:
        source: the log.
        rules: of the spec; its queries are looked for.
        namespace: of the object.
        shared: the replicas share the load: a value per replica is multiplied by the ready ones of its time.
        after: only what lies behind this sequence.
        up_to: only what lies not behind this one.

    Raises:
        BadInput: the log has no such samples.
    """
    from tidewright.asking.source import slot_in
    from tidewright.events import registry
    from tidewright.events.facts import MetricSampled, WorkloadObserved
    from tidewright.log.subjects import escape

    slot, space = slot_in(source, namespace), escape(namespace)
    series = Series(source.name, array("d"), [array("d") for _ in rules.metrics])
    latest: dict[str, float] = {}
    queries = {metric.query for metric in rules.metrics}
    fresh: set[str] = set()
    ready = 1
    target = (
        f"{source.subjects.root}.fact.{slot}.{rules.target_kind.lower()}.{space}.{escape(rules.target_name)}"
    )
    before = await source.last([target], after) if after else []
    facts = source.records(f"{source.subjects.root}.fact.{slot}.*.{space}.*", after=after)
    async for record in _chained(before, facts):
        if up_to is not None and record.seq > up_to:
            break
        try:
            fact = registry.decode(record.body)
        except registry.NotAnEvent:
            continue
        if isinstance(fact, WorkloadObserved) and (fact.kind, fact.name) == (
            rules.target_kind,
            rules.target_name,
        ):
            ready = max(1, fact.ready_replicas or fact.status_replicas)
            if not series.recorded or series.recorded[-1][1] != fact.replicas:
                series.recorded.append((fact.at, fact.replicas))
        elif isinstance(fact, MetricSampled) and fact.name in queries and not fact.error and not fact.refresh:
            total = (sum(fact.series_milli) or sum(fact.pods_milli.values())) / 1000
            spread = shared and not rules.average and fact.name.startswith("external/")
            latest[fact.name] = total * ready if spread else total
            fresh.add(fact.name)
            if fresh == queries:
                fresh.clear()
                series.times.append(fact.at)
                for column, metric in zip(series.values, rules.metrics, strict=True):
                    column.append(latest[metric.query])
    if not series.times:
        raise BadInput(
            f"{source.name}: no samples of {', '.join(sorted(queries))} in namespace {namespace}; "
            f"`tidewright events -n {namespace} --class fact` shows what there is"
        )
    requested = [replicas for at, replicas in series.recorded if at <= series.times[0]]
    series.start_replicas = requested[-1] if requested else None
    return series


async def _chained(first: Iterable[Record], then: AsyncGenerator[Record, None]) -> AsyncIterator[Record]:
    for record in first:
        yield record
    async with aclosing(then):
        async for record in then:
            yield record
