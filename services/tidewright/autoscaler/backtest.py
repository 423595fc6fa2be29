"""The very same decider over a recorded series and a stated load model.

Nothing here decides: facts are made as the watcher would see them in a cluster that follows every
order at once and whose new pods become ready after a stated delay; timers fire when they are due.
What comes back is what a policy would have cost and how far it would have fallen short.

Pure, and made for long series: a year of samples every 15 s is 2.1 million passes.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from tidewright.autoscaler.api.spec import InvalidSpec, Rules, compiled
from tidewright.autoscaler.decide import DECIDER
from tidewright.autoscaler.forecast.asked import ANNOTATION
from tidewright.autoscaler.passes.forecasts import followed, standing
from tidewright.autoscaler.state import TIMER, State
from tidewright.autoscaler.tell import foretelling
from tidewright.events.autoscaler import WatermarkPodAutoscalerObserved
from tidewright.events.base import Because, Event
from tidewright.events.config import ConfigSet
from tidewright.events.decisions import CancelTimer, ScaleWorkload, SetTimer
from tidewright.events.facts import MetricSampled, Owner, PodGone, PodObserved, WorkloadObserved
from tidewright.events.outcomes import Applied
from tidewright.events.timers import TimerFired

NAMESPACE = "backtest"
OBJECT = "wpa"
CHART_POINTS = 400
PROGRESS_EVERY = 20_000

Row = tuple[float, Sequence[float]]
"""Time in seconds, and one value per metric of the spec, in units."""


class BadSeries(ValueError):
    """The series cannot be run; the message names the row and what is wrong with it."""


class LoadModel(msgspec.Struct, frozen=True, kw_only=True):
    """How the load and the replicas make the value that is measured.

    Attributes:
        shared: the series is the total load, which the ready replicas share; otherwise the series
            is the value itself, whatever the replicas (a queue's length, a latency).
        ready_delay_s: from a pod's creation until it is ready.
        start_replicas: at the start; None for `minReplicas`.
    """

    shared: bool = True
    ready_delay_s: float = 30.0
    start_replicas: int | None = None


class Step(msgspec.Struct, frozen=True):
    """A scale that was decided."""

    at: float
    from_replicas: int
    to_replicas: int
    because: tuple[Because, ...]


class Point(msgspec.Struct):
    """A stretch of time for the chart: extremes of load and replicas within it."""

    at: float
    load_low: float
    load_high: float
    replicas_low: int
    replicas_high: int
    ready_low: int


class Report(msgspec.Struct, kw_only=True):
    """What a policy would have done.

    Attributes:
        replica_hours: requested replicas over time.
        above_high_s: time during which a metric was above its high watermark (without tolerance).
        below_low_s: likewise below its low watermark.
        worst_shortfall: most replicas that were missing to keep every metric at its high watermark.
        steps: every scale, with its reasons.
        muted: why its forecast took no part at the end; empty where it did, or none was asked for.
        confidence: how often the bound of the first metric's forecast was to hold then; 0 without one.
        forecast: in words, how it stood, and why with that confidence.
    """

    samples: int = 0
    duration_s: float = 0.0
    replica_hours: float = 0.0
    above_high_s: float = 0.0
    below_low_s: float = 0.0
    scale_ups: int = 0
    scale_downs: int = 0
    worst_shortfall: int = 0
    worst_shortfall_at: float | None = None
    least_replicas: int = 0
    most_replicas: int = 0
    steps: list[Step] = []
    chart: list[Point] = []
    muted: str = ""
    confidence: float = 0.0
    forecast: tuple[str, ...] = ()


def backtest(
    spec: Mapping[str, Any],
    series: Iterable[Row],
    model: LoadModel | None = None,
    *,
    policy: Mapping[str, Any] | None = None,
    span: tuple[float, float] | None = None,
    forecast: str = "",
    history_s: float = 0.0,
    progress: Callable[[int], None] | None = None,
) -> Report:
    """Run a spec over a series.

    Args:
        spec: of a WatermarkPodAutoscaler, as users write it; it needs metrics.
        series: rows in the order of their times.
        model: how load and replicas make the measured value.
        policy: the installation's, as a `ConfigSet` brings it.
        span: first and last time of the series, if known: it spaces the chart evenly.
        forecast: what the object asks for in its annotation; empty for no forecast.
        history_s: the beginning of the series, which the policy runs over and nothing is counted of.
        progress: called with the number of samples done, now and then.

    Raises:
        InvalidSpec: the spec cannot be used, or has no metrics.
        BadSeries: a row out of order, with too few values, or with one that is no number.
    """
    run = _Run(spec, model or LoadModel(), dict(policy or {}), span, forecast=forecast, history_s=history_s)
    for row in series:
        run.sample(row)
        if progress is not None and run.report.samples % PROGRESS_EVERY == 0:
            progress(run.report.samples)
    return run.finish()


class _Run:
    """One backtest: the cluster's side of it."""

    def __init__(
        self,
        spec: Mapping[str, Any],
        model: LoadModel,
        policy: dict[str, Any],
        span: tuple[float, float] | None,
        *,
        forecast: str,
        history_s: float,
    ) -> None:
        self.rules: Rules = compiled(spec, namespace=NAMESPACE, name=OBJECT)
        if not self.rules.metrics:
            raise InvalidSpec("spec.metrics: a backtest needs at least one metric")
        self.spec = dict(spec) | {"dryRun": False}
        self.model = model
        self.annotations = {ANNOTATION: forecast} if forecast else {}
        self.history_s = history_s
        self.policy = {"status_interval_s": 1e18, **policy}
        self.report = Report()
        self.state: State = DECIDER.initial()
        self.chart = _Chart(span)
        self.at = -math.inf
        self.replicas = 0
        self.ready = 0
        self.starting: deque[tuple[float, str]] = deque()
        self.pods: list[str] = []
        self.made = 0
        self.orders = 0
        self.timer: float | None = None

    def sample(self, row: Row) -> None:
        at, values = row
        if not self.report.samples:
            self._begin(at)
        elif at < self.at:
            raise BadSeries(
                f"row {self.report.samples + 1}: time {at} is before {self.at}, the row before it"
            )
        self._until(at)
        if self.history_s and at - self.began >= self.history_s:
            self._begin_counting(at)
        usages = self._measure(values)
        self._account(at, values, usages)
        for metric, value in zip(self.rules.metrics, usages, strict=True):
            self._feed(self._answer(at, metric.query, metric.source, value))
        self.report.samples += 1

    def _begin(self, at: float) -> None:
        start = self.model.start_replicas
        self.replicas = self.rules.min_replicas if start is None else start
        self.at = self.began = at
        self.report.least_replicas = self.report.most_replicas = self.replicas
        self._feed(ConfigSet(at=at, name="autoscaler", data=self.policy))
        observed = WatermarkPodAutoscalerObserved(
            at=at, namespace=NAMESPACE, name=OBJECT, uid=OBJECT, generation=1, created_at=at, spec=self.spec,
            annotations=self.annotations,
        )  # fmt: skip
        self._feed(observed)
        self._feed(self._workload(at))
        for _ in range(self.replicas):
            self._start_pod(at, ready=True)

    def _begin_counting(self, at: float) -> None:
        """The history is over: what was counted of it is dropped."""
        self.history_s, self.began = 0.0, at
        self.report = Report(least_replicas=self.replicas, most_replicas=self.replicas)
        self.chart.points.clear()

    def _workload(self, at: float) -> WorkloadObserved:
        return WorkloadObserved(
            at=at,
            namespace=NAMESPACE,
            name=self.rules.target_name,
            api_version=self.rules.target_api_version,
            kind=self.rules.target_kind,
            uid="target",
            replicas=self.replicas,
            status_replicas=len(self.pods) or self.replicas,
            selector="backtest=pod",
        )

    def _pod(self, at: float, name: str, *, ready: bool, since: float) -> PodObserved:
        return PodObserved(
            at=at,
            namespace=NAMESPACE,
            name=name,
            phase="Running" if ready else "Pending",
            ready=ready,
            ready_changed_at=at,
            started_at=since,
            labels=_LABELS,
            owners=(
                Owner(
                    kind=self.rules.target_kind,
                    name=self.rules.target_name,
                    api_version=self.rules.target_api_version,
                ),
            ),
        )

    def _start_pod(self, at: float, *, ready: bool) -> None:
        name = f"pod-{self.made}"
        self.made += 1
        self.pods.append(name)
        ready = ready or self.model.ready_delay_s <= 0
        self._feed(self._pod(at, name, ready=ready, since=at))
        if ready:
            self.ready += 1
        else:
            self.starting.append((at + self.model.ready_delay_s, name))

    def _stop_pod(self, at: float) -> None:
        name = self.pods.pop()
        if self.starting and self.starting[-1][1] == name:
            self.starting.pop()
        else:
            self.ready -= 1
        self._feed(PodGone(at=at, namespace=NAMESPACE, name=name))

    def _until(self, at: float) -> None:
        """Let time pass: pods become ready, timers fire, in the order of their times."""
        while True:
            ready_at = self.starting[0][0] if self.starting else math.inf
            fires_at = self.timer if self.timer is not None else math.inf
            if min(ready_at, fires_at) > at:
                break
            if ready_at <= fires_at:
                _, name = self.starting.popleft()
                self._pass_time(ready_at)
                self.ready += 1
                self._feed(self._pod(ready_at, name, ready=True, since=ready_at - self.model.ready_delay_s))
            else:
                self.timer = None
                self._pass_time(fires_at)
                self._feed(TimerFired(at=fires_at, key=_TIMER_KEY))
        self._pass_time(at)

    def _pass_time(self, at: float) -> None:
        if at > self.at:
            self.report.replica_hours += self.replicas * (at - self.at) / 3600
            self.at = at

    def _measure(self, values: Sequence[float]) -> list[float]:
        """The value of each metric as the metrics API would give it, in units."""
        if len(values) < len(self.rules.metrics):
            raise BadSeries(
                f"row {self.report.samples + 1}: {len(values)} values, but the spec has "
                f"{len(self.rules.metrics)} metrics"
            )
        measured: list[float] = []
        for metric, value in zip(self.rules.metrics, values, strict=False):
            if not math.isfinite(value):
                raise BadSeries(
                    f"row {self.report.samples + 1}: {value} is not a number that can be measured"
                )
            spread = self.model.shared and metric.source == "external" and not self.rules.average
            measured.append(value / self.ready if spread and self.ready else value)
        return measured

    def _answer(self, at: float, query: str, source: str, value: float) -> MetricSampled:
        milli = value * 1000
        if source == "external":
            total = math.ceil(milli) if milli > 0 else math.floor(milli)
            return MetricSampled(at=at, namespace=NAMESPACE, name=query, series_milli=(total,), sampled_at=at)
        waiting = {name for _, name in self.starting}
        ready = [name for name in self.pods if name not in waiting]
        share = math.ceil(milli / len(ready)) if ready and self.model.shared else math.ceil(milli)
        return MetricSampled(
            at=at, namespace=NAMESPACE, name=query, pods_milli=dict.fromkeys(ready, share), sampled_at=at
        )

    def _account(self, at: float, values: Sequence[float], usages: Sequence[float]) -> None:
        """What the present count means for the load of this sample; it holds until the next."""
        report = self.report
        if report.samples:
            span_s = at - self.sampled_at
            report.above_high_s += span_s if self.above else 0.0
            report.below_low_s += span_s if self.below else 0.0
        self.sampled_at = at
        self.above = self.below = False
        ready = max(self.ready, 1)
        for metric, usage, load in zip(self.rules.metrics, usages, values, strict=False):
            shown = usage * 1000 / ready if self.rules.average else usage * 1000
            self.above = self.above or shown > metric.marks.high
            self.below = self.below or shown < metric.marks.low
            if metric.marks.high > 0:
                needed = (
                    load * 1000 / metric.marks.high
                    if self.model.shared
                    else ready * shown / metric.marks.high
                )
                missing = math.ceil(needed) - self.ready
                if missing > report.worst_shortfall:
                    report.worst_shortfall, report.worst_shortfall_at = missing, at
        self.chart.add(at, values[0], self.replicas, self.ready)

    def _feed(self, event: Event) -> None:
        """Fold one event and what it decides, in the order of a host."""
        touched = DECIDER.evolve(self.state, event)
        orders: list[ScaleWorkload] = []
        for decision in DECIDER.decide(self.state, event, touched):
            if type(decision) is ScaleWorkload:
                self.orders += 1
                msgspec.structs.force_setattr(decision, "id", str(self.orders))
                orders.append(decision)
            elif type(decision) is SetTimer:
                self.timer = decision.due
            elif type(decision) is CancelTimer:
                self.timer = None
            DECIDER.evolve(self.state, decision)
        for order in orders:
            self._apply(order)

    def _apply(self, order: ScaleWorkload) -> None:
        """The cluster follows at once: the outcome, the new count, pods made or removed."""
        at, report = order.at, self.report
        report.steps.append(Step(at, order.from_replicas, order.replicas, order.because))
        if order.replicas > order.from_replicas:
            report.scale_ups += 1
        elif order.replicas < order.from_replicas:
            report.scale_downs += 1
        self.replicas = order.replicas
        report.least_replicas = min(report.least_replicas, self.replicas)
        report.most_replicas = max(report.most_replicas, self.replicas)
        self._feed(Applied(at=at, decision=order.id))
        while len(self.pods) < self.replicas:
            self._start_pod(at, ready=False)
        while len(self.pods) > self.replicas:
            self._stop_pod(at)
        self._feed(self._workload(at))

    def finish(self) -> Report:
        report = self.report
        if report.samples:
            report.duration_s = self.at - self.began
        report.chart = self.chart.points
        scaler = self.state.namespaces[NAMESPACE].objects[OBJECT] if report.samples else None
        if scaler is not None and scaler.forecast is not None:
            report.muted = standing(scaler.forecast)
            report.confidence = followed(scaler.forecast)
            report.forecast = tuple(foretelling.stood(scaler.forecast, self.rules))
        return report

    began = 0.0
    sampled_at = 0.0
    above = below = False


_LABELS = {"backtest": "pod"}
_TIMER_KEY = f"{TIMER}{NAMESPACE}/{OBJECT}"


class _Chart:
    """At most `CHART_POINTS` stretches; without a known span, neighbours are merged when there are too many."""

    def __init__(self, span: tuple[float, float] | None) -> None:
        self.points: list[Point] = []
        self._width_s = (span[1] - span[0]) / CHART_POINTS if span else 0.0

    def add(self, at: float, load: float, replicas: int, ready: int) -> None:
        last = self.points[-1] if self.points else None
        if last is None or at - last.at > self._width_s:
            self.points.append(Point(at, load, load, replicas, replicas, ready))
            if len(self.points) >= 2 * CHART_POINTS:
                self._merge()
            return
        last.load_low = min(last.load_low, load)
        last.load_high = max(last.load_high, load)
        last.replicas_low = min(last.replicas_low, replicas)
        last.replicas_high = max(last.replicas_high, replicas)
        last.ready_low = min(last.ready_low, ready)

    def _merge(self) -> None:
        halves = [self.points[i : i + 2] for i in range(0, len(self.points), 2)]
        self._width_s = max(self._width_s * 2, (self.points[-1].at - self.points[0].at) / CHART_POINTS)
        self.points = [
            Point(
                pair[0].at,
                min(p.load_low for p in pair),
                max(p.load_high for p in pair),
                min(p.replicas_low for p in pair),
                max(p.replicas_high for p in pair),
                min(p.ready_low for p in pair),
            )
            for pair in halves
        ]
