"""Forecasts: what a sample costs, and what they save and cost on recorded series, beside the same policy without.

The series are those of `../shared/data/metrics`, where they lie; without them only the cost of a sample is measured.
"""

from __future__ import annotations

import csv
import datetime as dt
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from tests.bench.figures import Bench, Figure, Size, figure
from tidewright.autoscaler.backtest import Row, backtest
from tidewright.autoscaler.forecast import bounds, price, season
from tidewright.autoscaler.forecast.asked import BY_PRICE
from tidewright.autoscaler.forecast.load import MOST_METRICS
from tidewright.autoscaler.forecast.memory import Season
from tidewright.autoscaler.forecast.price import Band

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "metrics"
SERIES = (
    ("load balancer", "elb_request_count_8c0756.csv", 7, "lead=10m"),
    ("instance", "ec2_cpu_utilization_5f5533.csv", 7, "lead=10m"),
    ("taxi", "nyc_taxi.csv", 28, "lead=60m"),
)
AT_MEAN = 10
"""Replicas that the mean load needs at the high watermark."""
LOW_MARKS = (0.6, 0.8, 0.9)
"""Low watermarks that each series is judged with, as parts of the high one: the nearer, the more there is to be saved and the dearer head-room is."""


def per_sample(size: Size) -> list[Figure]:
    """Fold and forecast, a sample each 15 s, ten minutes ahead."""
    samples = 20_000 if size == "small" else 200_000
    loads = [int(5_000 + 4_000 * math.sin(n * 15 / 86400 * 2 * math.pi)) for n in range(samples)]
    known = Season(price=price.begun(Band(500, 1000, 475, 1050, 1, 1000, 50_000, 20_000, 60, 300)))
    begun = time.process_time()
    for n, load in enumerate(loads):
        confidence = bounds.sure(known, BY_PRICE)
        season.add(known, n * 15.0, load, lead_s=600, confidence=confidence)
        season.ahead(known, lead_s=600, confidence=confidence)
    taken_us = (time.process_time() - begun) / samples * 1e6
    kib = MOST_METRICS * len(msgspec.json.encode(known)) / 1024
    return [
        figure("forecast/fold and forecast a sample", taken_us, "µs", "lower", 100.0),
        figure("forecast/state of an object with two metrics", kib, "KiB", "lower", 8.0),
    ]


def through_the_decider(size: Size) -> list[Figure]:
    """A sample each 15 s through the whole decider, with a forecast and without; processor time."""
    samples = 2_000 if size == "small" else 20_000
    rows: list[Row] = [
        (n * 15.0, (500.0 + 400.0 * math.sin(n * 15 / 86400 * 2 * math.pi),)) for n in range(samples)
    ]

    def taken_us(asks: str) -> float:
        begun = time.process_time()
        backtest(policy_of(500.0, LOW_MARKS[0]), rows, forecast=asks)
        return (time.process_time() - begun) / samples * 1e6

    without, having = (min(taken_us(asks) for _ in range(2)) for asks in ("", "lead=10m"))
    return [
        figure("forecast/a sample through the decider", having, "µs", "lower", without + 100.0,
               baseline="without", baseline_value=without),
    ]  # fmt: skip


def load_of(path: Path) -> list[Row]:
    with path.open(encoding="utf-8", newline="") as file:
        return [
            (dt.datetime.fromisoformat(at).replace(tzinfo=dt.UTC).timestamp(), (float(value),))
            for at, value in list(csv.reader(file))[1:]
        ]


def policy_of(mean: float, low: float) -> dict[str, Any]:
    """Between so many tenths and ten tenths of the mark, with a tolerance of 5 %."""
    high_milli = mean * 1000 / AT_MEAN
    marks = {"highWatermark": f"{high_milli:.0f}m", "lowWatermark": f"{high_milli * low:.0f}m"}
    return {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"},
        "algorithm": "average",
        "tolerance": "0.05",
        "minReplicas": 1,
        "maxReplicas": 100,
        "metrics": [
            {
                "type": "External",
                "external": {
                    "metricName": "load",
                    "metricSelector": {"matchLabels": {"app": "shop"}},
                    **marks,
                },
            }
        ],
    }


def backtests(size: Size) -> list[Figure]:
    """Time above the mark, replica-hours and changes, with forecasts and without."""
    figures: list[Figure] = []
    for name, file, days, asks in SERIES:
        if not (DATA / file).is_file():
            continue
        rows = load_of(DATA / file)
        rows = rows[: 10 * 48] if size == "small" else rows
        history_s = min(days * 86400, (rows[-1][0] - rows[0][0]) / 2)
        mean = sum(values[0] for _, values in rows) / len(rows)
        for low in LOW_MARKS:
            spec = policy_of(mean, low)
            alone = backtest(spec, rows, history_s=history_s)
            both = backtest(spec, rows, history_s=history_s, forecast=asks)
            what = f"forecast/{name}, {asks}, low mark {low:g}"
            above, without = both.above_high_s / 60, alone.above_high_s / 60
            figures += [
                figure(f"{what}: above the high mark", above, "min", "lower", without / 2,
                       baseline="without", baseline_value=without),
                figure(f"{what}: replica-hours", both.replica_hours, "h", "lower", 1.05 * alone.replica_hours,
                       baseline="without", baseline_value=alone.replica_hours),
                figure(f"{what}: changes", both.scale_ups + both.scale_downs, "changes", "lower",
                       baseline="without", baseline_value=alone.scale_ups + alone.scale_downs),
            ]  # fmt: skip
    return figures


def run(size: Size) -> Sequence[Figure]:
    return per_sample(size) + through_the_decider(size) + backtests(size)


BENCHES = (Bench("forecast", run, within_s=600),)
