"""How long `tidewright --help` takes, beside a Python that does nothing."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from statistics import median

from tests.bench.figures import Bench, Figure, Size, figure

TARGET_MS = 300.0


def took_ms(command: Sequence[str]) -> float:
    begun = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, timeout=30)
    return (time.perf_counter() - begun) * 1e3


def run(size: Size) -> list[Figure]:
    """The medians of runs in turn, after one of each that fills the caches."""
    asked = (sys.executable, "-m", "tidewright.cli.main", "--help")
    nothing = (sys.executable, "-c", "pass")
    pairs = [(took_ms(asked), took_ms(nothing)) for _ in range(21 if size == "full" else 3)][1:]
    return [
        figure(
            "help/time", median(a for a, _ in pairs), "ms", "lower", TARGET_MS,
            baseline="python -c pass", baseline_value=median(b for _, b in pairs),
        )
    ]  # fmt: skip


BENCHES = (Bench("help", run),)
