"""Several metrics' proposals into one (section 2.9): any failure fails all, the greatest wins."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidewright.autoscaler.passes.formula import Converge


class Calculation(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one metric (or of the recommender) in a pass, with its numbers.

    Attributes:
        display: its name with labels.
        usage: the value compared with the marks, milli; not truncated.
        utilization: the value shown, milli, truncated.
        held: not computed but held at a given count, and why (`UntoleratedZero`); else empty.
        error: why nothing was computed; empty when something was.
        error_class: low-cardinality word for it.
        reference_fault: how the reference would have crashed on this input; empty when it would not.
        changes_at: when time alone changes the ready count.
        details: the recommender's own reason.
        foreign: pods of other workloads whose values are in the sum.
    """

    display: str
    replicas: int = 0
    usage: float = 0.0
    utilization: int = 0
    listed: int = 0
    ready: int = 0
    ready_percent: int = 100
    above: bool = False
    below: bool = False
    converge: Converge = Converge.UNTOUCHED
    held: str = ""
    error: str = ""
    error_class: str = ""
    reference_fault: str = ""
    changes_at: float | None = None
    details: str = ""
    foreign: int = 0


class Combined(msgspec.Struct, frozen=True):
    """The proposal of all metrics together.

    Attributes:
        winner: index of the metric whose proposal it is; -1 without metrics.
        failed: index of the first metric that failed; -1 when none did.
    """

    replicas: int
    winner: int
    above: bool
    below: bool
    failed: int = -1

    @property
    def stable(self) -> bool:
        """No metric is outside its marks."""
        return not self.above and not self.below


def combine(calculations: Sequence[Calculation]) -> Combined:
    """The first strictly greatest proposal; positions are or-ed. A proposal of 0 never wins for good."""
    replicas, winner, above, below = 0, -1, False, False
    for index, calculation in enumerate(calculations):
        if calculation.error:
            return Combined(0, -1, False, False, index)
        above = above or calculation.above
        below = below or calculation.below
        if replicas == 0 or calculation.replicas > replicas:
            replicas, winner = calculation.replicas, index
    return Combined(replicas, winner, above, below)
