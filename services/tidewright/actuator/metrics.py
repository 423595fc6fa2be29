"""What the actuator counts."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

from tidewright.host.process.health import Health


class Metrics:
    """What the actuator counts."""

    def __init__(self, health: Health) -> None:
        registry_ = health.metrics.registry
        self.outcomes = Counter(
            "tidewright_outcomes_total",
            "Outcomes, by type and reason.",
            ["type", "reason"],
            registry=registry_,
        )
        self.requests = Counter(
            "tidewright_actuator_requests_total", "Requests made to the API server.", registry=registry_
        )
        self.not_allowed = Counter(
            "tidewright_actuator_not_allowed_total",
            "Effects that were refused because their service may not ask for them, by service and rule: above 0 is an alert.",
            ["service", "rule"],
            registry=registry_,
        )
        self.open = Gauge(
            "tidewright_actuator_open", "Decisions read that have no outcome yet.", registry=registry_
        )
        self.seconds = Histogram(
            "tidewright_actuator_apply_seconds", "From reading a decision to its outcome.", registry=registry_
        )
