"""What the autoscaler records of its forecasts."""

from __future__ import annotations

from tidewright.events.base import Decision, JsonObject, ObjectRef


class RecordForecast(Decision, frozen=True, kw_only=True, tag="decision.record-forecast.v1"):
    """What is known of the load of an object that asks for forecasts: when it begins to ask, asks otherwise or no more,
    once a day, and when its fact is said again, so that it outlives the samples that it was learnt from.

    Attributes:
        target: the object.
        lead_s: how far ahead its load is forecast, seconds; 0 when it asks for no forecast any more.
        confidence: how often the upper bound is to hold.
        seasons: what is known of each metric, by the digest of its query.
    """

    target: ObjectRef
    lead_s: float = 0.0
    confidence: float = 0.0
    seasons: JsonObject = {}
