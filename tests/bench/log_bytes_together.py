"""What a sample adds to the log where many autoscalers are sampled at the same moment, and so have checkpoints together.

Sixty of them in ten namespaces, on the same processes as `log_bytes`: samples on which nothing is to be done, then one on which each asks for a pod more; and
what that comes to in the time for which the log keeps a message by default.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tests.bench.figures import Bench, Figure, Size, figure
from tests.bench.log_bytes import HIGH, LOW, SAMPLE_EVERY_S, Sample, Watched, make, running, servers, stored
from tidewright.events import registry
from tidewright.events.facts import MetricSampled
from tidewright.host.process.process import configure_logs
from tidewright.kube.client import Kube
from tidewright.log.reader import Record

NAMESPACES, IN_EACH = 10, 6
ROUNDS: dict[Size, int] = {"small": 3, "full": 10}
"""Samples of each with nothing to do."""
SETTLED = 3
"""Samples after which all that follows from one is over."""
DAYS, ACTED = 30, 0.01
"""For how long the log keeps messages by default, and how many of the samples are acted on where that is added up."""


def samples(records: Sequence[Record]) -> int:
    return sum(isinstance(registry.read(record.body), MetricSampled) for record in records)


async def together(rounds: int, every_s: float) -> list[Figure]:
    """Of many autoscalers whose metrics are sampled at the same moment, which share commits: bytes of a sample."""
    count = NAMESPACES * IN_EACH
    labels = {f"web-{n}": {"app": f"web-{n}"} for n in range(IN_EACH)}
    namespaces = [f"team-{n}" for n in range(NAMESPACES)]

    def load(value: float) -> list[Sample]:
        return [
            {"name": "load", "value": value, "namespace": namespace, "labels": labelled}
            for namespace in namespaces
            for labelled in labels.values()
        ]

    async def prepare(kube: Kube) -> None:
        for namespace in namespaces:
            await make(kube, namespace, labels)

    watched = Watched()
    async with (
        servers() as (embedded, nats_url, _),
        running(embedded, nats_url, every_s, load(LOW * 2), prepare) as (log, push),
    ):
        reading = asyncio.create_task(watched.run(log))
        try:
            await asyncio.sleep(SETTLED * every_s)
            begun = len(watched.records)
            await asyncio.sleep(rounds * every_s)
            ended = len(watched.records)
            await push(load(HIGH * 3))
            await asyncio.sleep(SETTLED * every_s)
        finally:
            reading.cancel()
    idle, acted = watched.records[begun:ended], watched.records[ended:]
    nothing = sum(map(stored, idle)) / samples(idle)
    something = (sum(map(stored, acted)) - (samples(acted) - count) * nothing) / count
    a_month = count * DAYS * 86400 / SAMPLE_EVERY_S["full"]
    total = a_month * ((1 - ACTED) * nothing + ACTED * something) / 1e9
    named = f"log_bytes_together/{count} autoscalers"
    return [
        figure(f"{named}: a sample with the same value", nothing, "B", "lower"),
        figure(f"{named}: a sample acted on, with one pod", something, "B", "lower"),
        figure(f"{named}: {DAYS} days, one of {1 / ACTED:g} acted on", total, "GB", "lower"),
    ]


def run(size: Size) -> list[Figure]:
    configure_logs("warning", "console")
    return asyncio.run(together(ROUNDS[size], SAMPLE_EVERY_S[size]))


BENCHES = (Bench("log_bytes_together", run, within_s=400.0),)
