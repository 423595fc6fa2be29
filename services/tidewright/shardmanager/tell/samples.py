"""One series of the exposition, and those of a histogram."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tidewright.sharding.histogram import Histogram


class Sample(msgspec.Struct, frozen=True):
    """One series."""

    name: str
    labels: dict[str, str]
    value: float
    counter: bool = False


def histogram(name: str, labels: dict[str, str], observed: Histogram) -> Iterator[Sample]:
    """The series of a histogram: its buckets, its sum and its count."""
    count = 0
    for bound, count in observed.buckets():
        yield Sample(f"{name}_bucket", {**labels, "le": bound}, count)
    yield Sample(f"{name}_sum", labels, observed.total)
    yield Sample(f"{name}_count", labels, count)
