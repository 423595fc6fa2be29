"""What events of the autoscaler say, in one line, for lists of events. Pure.

Knows events alone, so that a list of them loads quickly; reasons and numbers are `explain`'s.
"""

from __future__ import annotations

from tidewright.events import autoscaler as a
from tidewright.events.base import Event


def line(event: Event) -> str:
    """What an event says, without its time and object; "" when it is none of the autoscaler's."""
    match event:
        case a.RecommendationReceived() if event.error:
            return f"no recommendation ({event.error_class}): {event.error}"
        case a.RecommendationReceived():
            low, high = event.lower_bound_replicas, event.upper_bound_replicas
            bounds = [f"at least {low}"] * (low is not None) + [f"at most {high}"] * (high is not None)
            within = f" ({', '.join(bounds)})" if bounds else ""
            return f"{event.target_replicas} replicas recommended{within} at {event.observed_value:g}" + (
                f": {event.details}" if event.details else ""
            )
        case a.DatadogMonitorObserved():
            return f"the monitor says {event.state}" if event.state else "the monitor says nothing yet"
        case a.HoldReplicas():
            return f"leave at {event.replicas}: {event.reason}"
        case a.RecordForecast(lead_s=0):
            return "forecast its load no more"
        case a.RecordForecast():
            known = f", known of {len(event.seasons)} metrics" if event.seasons else ""
            sure = (
                f"in {event.confidence:.0%} of cases"
                if event.confidence
                else "as often as is worth its price"
            )
            return f"forecast its load {event.lead_s:g} s ahead, enough {sure}{known}"
    return ""
