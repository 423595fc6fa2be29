"""From a metric's value to the load behind it, and back. Pure.

Our own scaling changes what is measured per replica, so it is the load that has a rhythm: the value times the
replicas that share it. Where the value is a sum already, because the rules divide it themselves, or
because a Resource metric is added up over pods, it is the load.
"""

from __future__ import annotations

from hashlib import blake2b

from tidewright.autoscaler.api.spec import Metric, Rules
from tidewright.events.facts import MetricSampled

MOST_METRICS = 2
"""Of an object: what is known of more would not fit into the size that its state may have."""


def digest(query: str) -> str:
    """What a metric's load is filed under."""
    return blake2b(query.encode(), digest_size=6).hexdigest()


def is_per_replica(rules: Rules, metric: Metric) -> bool:
    """Whether the value is what one replica has of the load."""
    return metric.source == "external" and not rules.average


def shares(rules: Rules, metric: Metric) -> bool:
    """Whether replicas share the load, so that twice the load needs twice as many."""
    return rules.average or metric.source == "external"


def of_sample(rules: Rules, metric: Metric, sample: MetricSampled, ready: int) -> int | None:
    """The load in milli; None when the sample tells of none."""
    if sample.error:
        return None
    if metric.source == "external":
        if not sample.series_milli:
            return None
        total = sum(sample.series_milli)
        if not is_per_replica(rules, metric):
            return total
        return total * ready if ready > 0 else None
    return sum(sample.pods_milli.values()) if sample.pods_milli else None


def as_usage(rules: Rules, metric: Metric, load: int, ready: int) -> float:
    """What would be compared with the marks under a load, milli; `ready` is above 0."""
    return float(load) / ready if rules.average or is_per_replica(rules, metric) else float(load)
