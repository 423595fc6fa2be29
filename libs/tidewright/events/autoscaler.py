"""What the autoscaler alone sees and decides; what it shares with others is in `facts` and `decisions`."""

from __future__ import annotations

from tidewright.events.base import Decision, JsonObject, ObjectRef
from tidewright.events.decisions import Concluded
from tidewright.events.facts import ObjectFact, ResourceFact


class WatermarkPodAutoscalerObserved(
    ResourceFact, frozen=True, kw_only=True, tag="fact.watermark-pod-autoscaler-observed.v1"
):
    """A WatermarkPodAutoscaler (`datadoghq.com/v1alpha1`)."""


class WatermarkPodAutoscalerGone(
    ObjectFact, frozen=True, kw_only=True, tag="fact.watermark-pod-autoscaler-gone.v1"
):
    """A WatermarkPodAutoscaler is no longer there."""


class RecommendationReceived(ObjectFact, frozen=True, kw_only=True, tag="fact.recommendation-received.v1"):
    """What the recommender of one WatermarkPodAutoscaler answered; named like that object.

    Attributes:
        target_replicas: what it wants.
        lower_bound_replicas: fewer are too few; None when it did not say.
        upper_bound_replicas: more are too many; None when it did not say.
        observed_value: the first observed target's value, in units.
        details: its reason, for people.
        error: it could not be asked, or answered no recommendation; this is why.
        error_class: as of `MetricSampled`.
    """

    target_replicas: int = 0
    lower_bound_replicas: int | None = None
    upper_bound_replicas: int | None = None
    observed_value: float = 0.0
    details: str = ""
    error: str = ""
    error_class: str = ""


class DatadogMonitorObserved(ObjectFact, frozen=True, kw_only=True, tag="fact.datadog-monitor-observed.v1"):
    """A DatadogMonitor (`datadoghq.com/v1alpha1`), the gate of a WatermarkPodAutoscaler of its name.

    Attributes:
        state: `status.monitorState`; None when it is absent or no text.
    """

    state: str | None = None


class DatadogMonitorGone(ObjectFact, frozen=True, kw_only=True, tag="fact.datadog-monitor-gone.v1"):
    """A DatadogMonitor is no longer there."""

    reason: str = ""
    """Why it cannot be read, when it was asked for and not merely deleted."""


class HoldReplicas(Decision, frozen=True, kw_only=True, tag="decision.hold-replicas.v1"):
    """Nothing is to be done about a target, for a reason that was not the last one recorded.

    Attributes:
        concluded: the status of the target as it would be, where none is written because the service is held
            back; then it is recorded for the same reason once more when what a delay counts from has changed.
    """

    target: ObjectRef
    replicas: int
    reason: str
    concluded: Concluded | None = None


class RecordForecast(Decision, frozen=True, kw_only=True, tag="decision.record-forecast.v1"):
    """What is known of the load of an object that asks for forecasts: when it begins to ask, asks otherwise or no more,
    once a day, and when its fact is said again, so that it outlives the samples that it was learnt from.

    Attributes:
        target: the object.
        lead_s: how far ahead its load is forecast, seconds; 0 when it asks for no forecast any more.
        confidence: how often the upper bound is to hold; 0 for as often as is worth its price, of which `because` says what that is.
        zone: the local time of days and weeks, a rule as POSIX has them; empty for UTC.
        seasons: what is known of each metric, by the digest of its query.
    """

    target: ObjectRef
    lead_s: float = 0.0
    confidence: float = 0.0
    zone: str = ""
    seasons: JsonObject = {}
