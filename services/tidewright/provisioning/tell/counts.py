"""Counters and histograms of what was decided and what came of it, kept in the state. Spec 2.12, 3.10.

They are part of the fold, so that a restart loses none of them. A key is the name of the series and
its labels, name and value in turn.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping

SEPARATOR = "\x1f"
BUCKETS_S = (1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 21_600.0, 86_400.0)
"""Upper bounds in seconds; one more without a bound follows."""
BOUNDS = (*(f"{bound:g}" for bound in BUCKETS_S), "+Inf")


def key(name: str, **labels: str) -> str:
    return SEPARATOR.join((name, *(part for pair in sorted(labels.items()) for part in pair)))


def read(text: str) -> tuple[str, dict[str, str]]:
    """Name and labels of a key."""
    name, *parts = text.split(SEPARATOR)
    return name, dict(zip(parts[::2], parts[1::2], strict=True))


def add(counts: dict[str, float], name: str, by: float = 1.0, **labels: str) -> None:
    """A counter goes up."""
    series = key(name, **labels)
    counts[series] = counts.get(series, 0.0) + by


def observe(histograms: dict[str, list[float]], name: str, seconds: float, **labels: str) -> None:
    """One more observation: the counts of its bucket, then sum."""
    buckets = histograms.setdefault(key(name, **labels), [0.0] * (len(BOUNDS) + 1))
    buckets[bisect_left(BUCKETS_S, seconds)] += 1.0
    buckets[-1] += seconds


def lines(histograms: Mapping[str, list[float]]) -> Iterator[tuple[str, dict[str, str], float]]:
    """Series of all histograms: cumulative buckets, sum and count."""
    for series in sorted(histograms):
        name, labels = read(series)
        *many, total = histograms[series]
        below = 0.0
        for bound, count in zip(BOUNDS, many, strict=True):
            below += count
            yield f"{name}_bucket", {**labels, "le": bound}, below
        yield f"{name}_sum", labels, total
        yield f"{name}_count", labels, below
