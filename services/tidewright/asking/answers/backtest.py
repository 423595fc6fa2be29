"""What other policies, and forecasts, would have done with a load."""

from __future__ import annotations

import msgspec

from tidewright.asking.answers.explain import Reason


class LoadTried(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The load that policies were tried with.

    Attributes:
        source: where it was read from, for people.
        model: `shared` where the ready replicas share it, `value` where it is the metric's value whatever the replicas.
        ready_delay_seconds: from a pod's creation until it is ready.
        start_replicas: at the start; null for the policy's least.
        history_seconds: so much of its beginning only went before what is counted.
    """

    source: str
    samples: int
    from_: str = msgspec.field(name="from")
    to: str
    model: str
    ready_delay_seconds: float
    start_replicas: int | None
    history_seconds: float


class RecordedCount(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The replicas as they were from a time on."""

    at: str
    replicas: int


class TriedFigures(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a policy would have cost, and how far it would have fallen short.

    Attributes:
        replica_hours: requested replicas over time.
        above_high_seconds, below_low_seconds: time during which a metric was above its high, or below its low watermark.
        most_missing_replicas: that were missing at once to keep every metric at its high watermark; `most_missing_at` is when, null where
            none were.
    """

    samples: int
    duration_seconds: float
    replica_hours: float
    above_high_seconds: float
    below_low_seconds: float
    scale_ups: int
    scale_downs: int
    most_missing_replicas: int
    most_missing_at: str | None
    least_replicas: int
    most_replicas: int


class TriedScale(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A scale that would have been decided."""

    at: str
    from_: int = msgspec.field(name="from")
    to: int
    because: tuple[Reason, ...]


class TriedStretch(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A stretch of time for a chart, until the next one: the extremes of load and replicas within it."""

    at: str
    least_load: float
    most_load: float
    least_replicas: int
    most_replicas: int
    least_ready_replicas: int


class TriedPolicy(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A policy and what came of it.

    Attributes:
        name: the file that it is from, or what of it was varied.
        forecast: how its forecasts stood at the end, a sentence each; empty where it was run without.
    """

    name: str
    figures: TriedFigures
    forecast: tuple[str, ...]
    decisions: tuple[TriedScale, ...]
    chart: tuple[TriedStretch, ...]


class Backtest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Answer to `backtest wpa`.

    Attributes:
        recorded: the replicas as the log has them; empty for a load from elsewhere.
    """

    load: LoadTried
    recorded: tuple[RecordedCount, ...]
    policies: tuple[TriedPolicy, ...]


class ForecastFigures(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a forecast is judged by."""

    above_high_seconds: float
    replica_hours: float


class SuggestedForecast(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What forecasts would have been to an object.

    Attributes:
        forecast: the best of what was tried; empty where nothing could be tried.
        confidence: how often its upper bound was to hold at the end: as is worth its price where none was asked for; 0 where nothing could be tried.
        without, having: what its policy did alone, and with that forecast; null where nothing could be tried.
        why_not: why it does not pay; empty where it does.
    """

    namespace: str
    name: str
    pays: bool
    forecast: str
    confidence: float
    without: ForecastFigures | None
    having: ForecastFigures | None = msgspec.field(name="with")
    why_not: str


class ForecastSuggestions(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Answer to `backtest --suggest`."""

    log: str
    items: tuple[SuggestedForecast, ...]
