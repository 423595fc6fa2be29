"""The load of objects that ask for forecasts: folded from samples, since it was recorded that they ask."""

from __future__ import annotations

import msgspec

from tidewright.autoscaler.fold.targetpods import pods_of
from tidewright.autoscaler.fold.touched import NOTHING, Touched
from tidewright.autoscaler.forecast import bounds, season
from tidewright.autoscaler.forecast.load import MOST_METRICS, digest, is_per_replica, of_sample
from tidewright.autoscaler.forecast.memory import Season
from tidewright.autoscaler.state import KIND, Autoscaler, Forecast, State
from tidewright.events.autoscaler import RecordForecast
from tidewright.events.facts import MetricSampled


def sampled(state: State, event: MetricSampled, scaler: Autoscaler) -> None:
    """Fold a sample into what is known of the load of an object."""
    rules, forecast = scaler.rules, scaler.forecast
    if rules is None or forecast is None:
        return
    namespace, index = state.namespace(event.namespace)
    workload = namespace.workloads.get(rules.target_key)
    for metric in rules.metrics[:MOST_METRICS]:
        if metric.query != event.name:
            continue
        ready = 0
        if is_per_replica(rules, metric) and workload is not None:
            walk = state.in_force.walk_owner_chain
            _, count, _ = pods_of(namespace, index, scaler, rules, state.now, walk=walk)
            ready = 0 if count is None else min(count.ready, workload.observed)
        load = of_sample(rules, metric, event, ready)
        if load is not None:
            known = forecast.seasons.setdefault(digest(metric.query), Season(zone=forecast.zone))
            season.add(
                known,
                event.at,
                load,
                lead_s=forecast.lead_s,
                confidence=bounds.sure(known, forecast.confidence),
            )
        return


def recorded(state: State, event: RecordForecast) -> Touched:
    """What is known was recorded: it is what is known from now on."""
    namespace = state.namespaces.get(event.target.namespace)
    scaler = None if namespace is None else namespace.objects.get(event.target.name)
    if scaler is not None and event.target.kind == KIND:
        scaler.forecast = None
        if event.lead_s > 0:
            seasons = msgspec.convert(event.seasons, dict[str, Season])
            scaler.forecast = Forecast(
                lead_s=event.lead_s,
                confidence=event.confidence,
                zone=event.zone,
                recorded_at=event.at,
                seasons=seasons,
            )
    return NOTHING
