"""The stored status, there and back (sections 1.5 and 2.14).

`Kept` is what an object remembers between passes. It is taken over from the status that is stored
when the object is first seen, so that replacing another controller restarts no window and no delay.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec

from tidewright.autoscaler.conditions import Condition
from tidewright.autoscaler.evaluate import Pass
from tidewright.autoscaler.spec import Metric, Rules
from tidewright.events.base import Json, JsonObject
from tidewright.kube.quantities import format_milli
from tidewright.kube.selectors import LabelSelector, SelectorError


class Kept(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What an object remembers between passes; all of it is in its status.

    Attributes:
        conditions: newest transition first.
        last_type: type of the condition set last; `last_status` its status.
        last_scale_at: when the count was changed last, seconds; None when never.
        scaling_events: how often it was.
        current: pods that existed when the status was made.
        desired: the decided count.
        utilizations: shown value per metric, milli; None before the first computation.
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


def time_text(at: float) -> str:
    """A time as the API stores it: whole seconds, truncated."""
    return _second_text(math.floor(at))


@lru_cache(maxsize=4096)
def _second_text(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def time_of(text: Any) -> float | None:
    """A stored time in seconds; None for what is none."""
    if not isinstance(text, str):
        return None
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def read(status: Mapping[str, Any]) -> Kept:
    """What a stored status says. Anything in it that cannot be read counts as absent."""
    conditions = []
    for entry in _list(status.get("conditions")):
        since = time_of(entry.get("lastTransitionTime")) if isinstance(entry, dict) else None
        if since is not None and isinstance(entry.get("type"), str):
            conditions.append(
                Condition(
                    entry["type"],
                    entry.get("status") == "True",
                    since,
                    str(entry.get("reason", "")),
                    str(entry.get("message", "")),
                )
            )
    return Kept(
        conditions=conditions,
        last_type=_text(status.get("lastConditionType")),
        last_status=status.get("lastConditionState") == "True",
        last_scale_at=time_of(status.get("lastScaleTime")),
        scaling_events=_int(status.get("scalingEventsCount")),
        current=_int(status.get("currentReplicas")),
        desired=_int(status.get("desiredReplicas")),
        taken_over=tuple(_list(status.get("currentMetrics"))),
    )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _int(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def remember(kept: Kept, found: Pass, *, written: bool) -> bool:
    """Take a pass's figures over; `written`: it did not fail to write the scale.

    Returns:
        Whether more than measured values changed.
    """
    changed = kept.current != found.observed
    kept.current = found.observed
    if found.failure is None and (written or not found.rescale):
        if not found.reverts_metrics:
            kept.utilizations = tuple([c.utilization for c in found.calculations])
        changed = changed or kept.desired != found.desired
        kept.desired = found.desired
    elif found.rescale and written:
        changed = changed or kept.desired != found.desired
        kept.desired = found.desired
    if found.rescale and written:
        kept.last_scale_at = found.now
        kept.scaling_events += 1
        changed = True
    return changed


def render(kept: Kept, rules: Rules | None, *, generation: int) -> JsonObject:
    """The status as the API stores it."""
    status: JsonObject = {
        "currentReplicas": kept.current,
        "desiredReplicas": kept.desired,
        "conditions": [
            {
                "type": condition.type,
                "status": "True" if condition.status else "False",
                "lastTransitionTime": time_text(condition.since),
                "reason": condition.reason,
                "message": condition.message,
            }
            for condition in kept.conditions
        ],
    }
    if generation:
        status["observedGeneration"] = generation
    if kept.last_scale_at is not None:
        status["lastScaleTime"] = time_text(kept.last_scale_at)
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
    found: JsonObject = {"matchLabels": matched} if matched else {}
    try:
        requirements = LabelSelector.parse(text).requirements
    except SelectorError:
        return found
    expressions = [
        {"key": r.key, "operator": r.operator, "values": sorted(r.values)}
        for r in requirements
        if not (r.operator == "In" and r.values == {matched.get(r.key)})
    ]
    if expressions:
        found["matchExpressions"] = expressions
    return found
