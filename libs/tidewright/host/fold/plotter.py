"""The contract between a service and the chart of one of its objects: which facts are lines of it, and their values. Pure.

    services/tidewright/<service>/tell/plotting.py    PLOTTER = MyPlotter()     at most one class
    services/tidewright/asking/services.py            plotter="tidewright.<service>.tell.plotting:PLOTTER"

As a lister (`tidewright.host.fold.lister`) it is total: a fact that it does not understand is no point of any line. No
state is folded: a chart costs the facts that are on it, wherever on the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from tidewright.events.base import Decision, Event
from tidewright.host.fold.explainer import Reference


class Sample(msgspec.Struct, frozen=True):
    """A value of a line at the time of the fact that says it.

    Attributes:
        line: which one, the same word for all objects of a kind (`value`, `highWatermark`, `wanted`, `ready`).
        unit: of the value: `replicas`, `nodes`; empty for a metric, whose unit nobody knows here.
        value: None where the fact says that there is none (a metric that cannot be read): the line has a gap.
        of: which of several such lines: the name of a metric; empty for a line that is alone.
    """

    line: str
    unit: str
    value: float | None
    of: str = ""


class Plotter(Protocol):
    """What a service knows to draw of its objects."""

    @property
    def kinds(self) -> frozenset[str]:
        """Kinds of the objects that it can draw, as subject tokens."""
        ...

    def elsewhere(self, fact: Event) -> Sequence[Reference]:
        """Other objects whose facts are part of the chart, by a fact about the object itself."""
        ...

    def samples(self, asked: Reference, facts: Sequence[Event], latest: Event) -> Sequence[Sample]:
        """What the latest fact is on the chart of an object.

        Args:
            asked: the object.
            facts: the last ones about the object itself and those of `elsewhere`, `latest` among them.
            latest: the one that has just come.
        """
        ...

    def change(self, asked: Reference, decision: Decision) -> tuple[float, float] | None:
        """From which value to which a decision moves the object; None for one that is no mark on its chart."""
        ...
