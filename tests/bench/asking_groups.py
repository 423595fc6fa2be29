"""The explanation of a node group on the recorded log: asked for once, again, and at moments nearby.

Provisioning's state is one for the whole cluster, so this is the longest way that a question takes. The baseline is the
same question where no state is kept of the questions before.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from pathlib import Path

from tests.bench.figures import Bench, Figure, Size, figure
from tidewright.asking.explain import explained
from tidewright.asking.exported import ExportedLog
from tidewright.asking.kept_folds import KeptFolds
from tidewright.asking.point_in_time import moment_of
from tidewright.host.fold.explainer import Reference
from tidewright.log.export import ExportFile

LOG = Path(__file__).parents[1] / "recorded" / "chaos.twlog"
GROUP = Reference("nodegroup", "", "asked")
AGAIN, NEARBY, STEP = 20, 40, 37
AT_ONCE_MS, SCRUB_MS = 100.0, 150.0


def measure(size: Size) -> list[Figure]:
    """Milliseconds in this process, the file read before."""
    source = ExportedLog(ExportFile(LOG))
    _, last = asyncio.run(source.bounds())
    took_ms("", source)  # reads the file, and imports

    def forgetting(at: str) -> float:
        source.folds = KeptFolds()
        return took_ms(at, source)

    fresh = [forgetting("") for _ in range(AGAIN)]
    again = [took_ms("", source) for _ in range(AGAIN)]
    moments = [f"seq:{last - (n * STEP * 7) % (NEARBY * STEP)}" for n in range(NEARBY)]
    bare = sorted(forgetting(at) for at in moments)
    nearby = sorted(took_ms(at, source) for at in moments)
    ninth = int(len(nearby) * 0.95)
    return [
        figure(
            "asking_groups/explanation again, p50", statistics.median(again), "ms", "lower", AT_ONCE_MS,
            baseline="no state kept", baseline_value=statistics.median(fresh),
        ),
        figure(
            "asking_groups/explanation at a moment nearby, p95", nearby[ninth], "ms", "lower", SCRUB_MS,
            baseline="no state kept", baseline_value=bare[ninth],
        ),
    ]  # fmt: skip


def took_ms(at: str, source: ExportedLog) -> float:
    """How long one explanation takes."""

    async def ask() -> None:
        await explained(source, GROUP, await moment_of(source, at))

    begun = time.perf_counter()
    asyncio.run(ask())
    return (time.perf_counter() - begun) * 1e3


BENCHES = (Bench("asking_groups", measure),)
