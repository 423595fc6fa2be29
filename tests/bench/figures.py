"""What a benchmark says: figures, each with the target of who asked for it and a baseline of the same run.

The machine is shared, so seconds alone say little: a figure stands beside a baseline measured in
the same run wherever there is something to compare with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

Size = Literal["small", "full"]
Better = Literal["lower", "higher"]
KUBECONFIG = "TIDEWRIGHT_BENCH_KUBECONFIG"
"""In a benchmark's environment: the kubeconfig of an API server that was named for it; never the one that happens to be set."""


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One line of `build/bench.json`.

    Attributes:
        name: what was measured, in words that stay the same over time: `bench/figure`.
        value: the figure, in `unit`.
        better: which way is good.
        target: what the issue that asks for it wants; None when it only states.
        met: whether `value` is at least as good as `target`; None without one.
        baseline: what was measured beside it in the same run, in words.
        baseline_value: the baseline's figure in the same unit.
        ratio: `value` over `baseline_value`.
    """

    name: str
    value: float
    unit: str
    better: Better
    target: float | None = None
    met: bool | None = None
    baseline: str = ""
    baseline_value: float | None = None
    ratio: float | None = None


def figure(
    name: str,
    value: float,
    unit: str,
    better: Better,
    target: float | None = None,
    *,
    baseline: str = "",
    baseline_value: float | None = None,
) -> Figure:
    """A figure with its verdict and its ratio worked out."""
    met = None if target is None else (value <= target if better == "lower" else value >= target)
    return Figure(
        name=name,
        value=rounded(value),
        unit=unit,
        better=better,
        target=target,
        met=met,
        baseline=baseline,
        baseline_value=None if baseline_value is None else rounded(baseline_value),
        ratio=None if not baseline_value else rounded(value / baseline_value),
    )


def rounded(value: float) -> float:
    """Four digits say all that a shared machine can."""
    return float(f"{value:.4g}")


class Bench(msgspec.Struct, frozen=True):
    """One benchmark: run in a process of its own, so that its memory is its own.

    Attributes:
        name: chosen by `make bench BENCH=word` when the word is in it.
        run: takes the size and returns the figures. "small" is a tenth or less, to see that it works;
            "full" is what the targets speak of.
        within_s: after this it is ended and counts as failed.
    """

    name: str
    run: Callable[[Size], Sequence[Figure]]
    within_s: float = 300.0
