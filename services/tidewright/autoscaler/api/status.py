"""The stored status, there and back (sections 1.5 and 2.14).

`Kept` is what an object remembers between passes. It is taken over from the status that is stored
when the object is first seen, so that replacing another controller restarts no window and no delay;
then from every status that is recorded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from tidewright.autoscaler.api.conditions import Condition
from tidewright.autoscaler.api.spec import Metric, Rules
from tidewright.events.base import Json, JsonObject
from tidewright.kube.quantities import NotAQuantity, format_milli, parse
from tidewright.kube.selectors import LabelSelector, SelectorError
from tidewright.kube.times import rfc3339, seconds_or_none


class Kept(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What an object remembers between passes; all of it is in its status.

    Attributes:
        conditions: newest transition first.
        last_type: type of the condition set last; `last_status` its status.
        last_scale_at: when the count was changed last, seconds; None when never.
        scaling_events: how often it was.
        current: pods that existed when the status was made.
        desired: the decided count.
        utilizations: value per metric as the status that was recorded last shows it, milli; None before the first.
        taken_over: metric statuses of another controller, shown until ours are known.
    """

    conditions: list[Condition] = []
    last_type: str = ""
    last_status: bool = False
    last_scale_at: float | None = None
    scaling_events: int = 0
    current: int = 0
    desired: int = 0
    utilizations: tuple[int, ...] | None = None
    taken_over: tuple[Json, ...] = ()


def read(status: Mapping[str, Any]) -> Kept:
    """What a stored status says. Anything in it that cannot be read counts as absent."""
    kept = Kept(
        last_scale_at=seconds_or_none(status.get("lastScaleTime")),
        scaling_events=_int(status.get("scalingEventsCount")),
        taken_over=tuple(_list(status.get("currentMetrics"))),
    )
    _take(kept, status, ())
    return kept


def take_over(kept: Kept, status: Mapping[str, Any], since: Sequence[float], rules: Rules | None) -> bool:
    """What a status of ours says that was recorded, in place.

    Scales are counted where they, or what came of them, are folded. Without exact times (a decision of an
    older version) a condition has been so since the whole second that the status says.

    Returns:
        Whether anything but counts and values is another than before.
    """
    changed = _take(kept, status, since)
    shown = _list(status.get("currentMetrics"))
    utilizations = _utilizations(shown)
    if utilizations and (
        kept.utilizations is not None or (rules is not None and metric_statuses(rules, utilizations) == shown)
    ):
        kept.utilizations = utilizations  # and not what another controller has measured
    return changed


def _take(kept: Kept, status: Mapping[str, Any], since: Sequence[float]) -> bool:
    conditions = _conditions(_list(status.get("conditions")), since)
    last = _text(status.get("lastConditionType")), status.get("lastConditionState") == "True"
    kept.current = _int(status.get("currentReplicas"))
    kept.desired = _int(status.get("desiredReplicas"))
    if conditions == kept.conditions and last == (kept.last_type, kept.last_status):
        return False
    kept.conditions = conditions
    kept.last_type, kept.last_status = last
    return True


def _conditions(entries: Sequence[Any], times: Sequence[float]) -> list[Condition]:
    if times and len(times) == len(entries):
        try:  # ours, as nearly all are that are folded
            return [
                Condition(entry["type"], entry["status"] == "True", since, entry["reason"], entry["message"])
                for entry, since in zip(entries, times, strict=True)
            ]
        except (KeyError, TypeError):
            pass  # what somebody else has put on the log is read as far as it can be
    conditions = []
    for stored in entries:
        since = seconds_or_none(stored.get("lastTransitionTime")) if isinstance(stored, dict) else None
        if since is not None and isinstance(stored.get("type"), str):
            conditions.append(
                Condition(
                    stored["type"],
                    stored.get("status") == "True",
                    since,
                    str(stored.get("reason", "")),
                    str(stored.get("message", "")),
                )
            )
    return conditions


def exact_times(kept: Kept) -> tuple[float, ...]:
    """Since when its conditions have been as they are, in their order; empty where a status says as much."""
    for condition in kept.conditions:
        if condition.since % 1:
            return tuple([condition.since for condition in kept.conditions])
    return ()


def _utilizations(shown: Sequence[Any]) -> tuple[int, ...]:
    """The values that metric statuses show, milli; none when one of them cannot be read."""
    try:
        return tuple([_utilization(entry) for entry in shown])
    except (AttributeError, KeyError, TypeError, NotAQuantity):
        return ()


def _utilization(entry: Any) -> int:
    external = entry.get("external")
    text = entry["resource"]["currentAverageValue"] if external is None else external["currentValue"]
    return parse(text).milli


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _int(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def render(kept: Kept, rules: Rules | None, *, generation: int) -> JsonObject:
    """The status as the API stores it."""
    status: JsonObject = {
        "currentReplicas": kept.current,
        "desiredReplicas": kept.desired,
        "conditions": [_rendered(condition) for condition in kept.conditions],
    }
    if generation:
        status["observedGeneration"] = generation
    if kept.last_scale_at is not None:
        status["lastScaleTime"] = rfc3339(kept.last_scale_at)
    if kept.scaling_events:
        status["scalingEventsCount"] = kept.scaling_events
    if kept.last_type:
        status["lastConditionType"] = kept.last_type
        status["lastConditionState"] = "True" if kept.last_status else "False"
    shown = list(kept.taken_over)
    if kept.utilizations is not None and rules is not None:
        shown = metric_statuses(rules, kept.utilizations)
    if shown:
        status["currentMetrics"] = shown
    return status


def _rendered(condition: Condition) -> JsonObject:
    """A condition as the API stores it; `reason` is there even when it is empty."""
    return {  # in the order in which they have always been written: what is recorded is compared byte by byte
        "type": condition.type,
        "status": "True" if condition.status else "False",
        "lastTransitionTime": rfc3339(condition.since),
        "message": condition.message,
        "reason": condition.reason,
    }


def metric_statuses(rules: Rules, utilizations: Sequence[int]) -> list[Json]:
    """`currentMetrics`: one entry per metric, in the order of the spec."""
    if rules.recommender is not None:
        return [
            {
                "type": "Resource",  # sic (D27)
                "external": {
                    "metricSelector": {},
                    "metricName": rules.recommender.name,
                    "currentValue": format_milli(value),
                },
            }
            for value in utilizations[:1]
        ]
    return [_metric_status(m, value) for m, value in zip(rules.metrics, utilizations, strict=False)]


def _metric_status(metric: Metric, value: int) -> Json:
    if metric.source == "resource":
        body = {"name": metric.name, "currentAverageValue": format_milli(value)}
        return {"type": "Resource", "resource": body}
    return {
        "type": "External",
        "external": {
            "metricName": metric.name,
            "metricSelector": _selector(metric.labels, metric.selector),
            "currentValue": format_milli(value),
        },
    }


@lru_cache(maxsize=16384)
def _selector(labels: tuple[tuple[str, str], ...], text: str) -> JsonObject:
    """A selector as the API has it; shared by all statuses that show it, and changed by none."""
    matched = dict(labels)
    selector: JsonObject = {"matchLabels": matched} if matched else {}
    try:
        requirements = LabelSelector.parse(text).requirements
    except SelectorError:
        return selector
    expressions = [
        {"key": r.key, "operator": r.operator, "values": sorted(r.values)}
        for r in requirements
        if not (r.operator == "In" and r.values == {matched.get(r.key)})
    ]
    if expressions:
        selector["matchExpressions"] = expressions
    return selector
