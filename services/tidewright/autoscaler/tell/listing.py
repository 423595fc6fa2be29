"""A WatermarkPodAutoscaler, or a workload that one scales, as a row of a list. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from tidewright.autoscaler.api.spec import InvalidSpec, parsed
from tidewright.events.autoscaler import HoldReplicas, WatermarkPodAutoscalerObserved
from tidewright.events.base import Event
from tidewright.events.decisions import ScaleWorkload
from tidewright.events.facts import WorkloadObserved
from tidewright.host.fold.explainer import Reference
from tidewright.host.fold.lister import (
    Lister,
    Measured,
    Row,
    Words,
    conditions,
    is_true,
    said,
    status_of,
    unwritten,
)
from tidewright.kube.quantities import milli
from tidewright.kube.times import seconds_or_none

ESSENTIAL = ("AbleToScale", "ScalingActive")
"""Conditions without which nothing is decided."""
WAITS = "Backoff"
"""How the reasons begin that `AbleToScale` has in a forbidden window (`passes.conditions`)."""
ABOVE, BELOW = "AboveHighWatermark", "BelowLowWatermark"


_IN_WORDS = re.compile("[A-Z]")
"""Where a reason goes on with another word."""


class AutoscalerLister:
    """What the autoscaler knows to say of its objects in a list."""

    context: frozenset[str] = frozenset()
    usual: frozenset[str] = frozenset({"deployment"})

    def elsewhere(self, fact: Event) -> Sequence[Reference]:
        """The target: there its scales are decided."""
        if not isinstance(fact, WatermarkPodAutoscalerObserved):
            return ()
        target = _target(fact.spec)
        return () if target is None else (Reference(target[0].lower(), fact.namespace, target[1]),)

    def row(self, words: Words, now: float) -> Row:
        """Replicas; which side of its marks the value is on, or what is wrong; the windows that are open."""
        if isinstance(words.fact, WorkloadObserved):
            return _workload(words, words.fact)
        return _autoscaler(words, now)

    def measured(self, words: Words) -> Sequence[Measured]:
        """The values of the status, or of the one that it would have, beside the marks of the spec, metric by metric."""
        if not isinstance(words.fact, WatermarkPodAutoscalerObserved):
            return ()
        metrics = _marks(msgspec.json.encode(words.fact.spec))
        current = (status_of(words) or _concluded(_concluding(words))).get("currentMetrics")
        values = [_current(entry) for entry in current] if isinstance(current, Sequence) else []
        return [
            Measured(
                metric=name, value=values[n] if n < len(values) else None, low=low / 1000, high=high / 1000,
            )
            for n, (name, low, high) in enumerate(metrics)
        ]  # fmt: skip


LISTER: Lister = AutoscalerLister()


def _target(spec: Mapping[str, Any]) -> tuple[str, str] | None:
    target = spec.get("scaleTargetRef")
    if not isinstance(target, Mapping) or not target.get("kind") or not target.get("name"):
        return None
    return str(target["kind"]), str(target["name"])


def _workload(words: Words, fact: WorkloadObserved) -> Row:
    scale = words.last(ScaleWorkload)
    if scale is None:
        return Row(now=str(fact.replicas), wanted=str(fact.replicas))
    ahead = scale.at > fact.at and not scale.shadow
    by = scale.owner.rpartition("/")[2]
    return Row(
        now=str(scale.from_replicas if ahead else fact.replicas),
        wanted=str(scale.replicas if ahead else fact.replicas),
        why=f"scaled by wpa/{by}" if by else "scaled",
        changed_at=scale.at,
    )


def _autoscaler(words: Words, now: float) -> Row:
    status, scale = status_of(words), _own(words)
    if not status and (scale is None or scale.shadow):  # nobody has written on it yet
        last = _concluding(words)
        if last is not None:
            return _by_decision(words, last, now)
    found = conditions(status)
    current, desired = status.get("currentReplicas", 0), status.get("desiredReplicas", 0)
    scaled_at = seconds_or_none(status.get("lastScaleTime"))
    if scale is not None and not scale.shadow:
        if scale.at > max(scaled_at or 0.0, getattr(words.fact, "at", 0.0)) or current == scale.from_replicas:
            current, desired = scale.from_replicas, scale.replicas
        # A dry run counts in the status from when it was folded: the decision has one time, here as elsewhere.
        scaled_at = scale.at if scale.dry_run else max(scaled_at or 0.0, scale.at)
    moves = current != desired
    return Row(
        now=str(current) if status or words.decisions else "",
        wanted=str(desired) if status or words.decisions else "",
        why=_why(words, found, current, desired),
        held_until=None if moves else _held(words, found, scaled_at, now),
        changed_at=scaled_at,
        wrong=any(_denied(found, type_) for type_ in ESSENTIAL),
    )


def _by_decision(words: Words, last: ScaleWorkload | HoldReplicas, now: float) -> Row:
    """The row of an object without a status, by what was decided last: a hold is later than any scale that was only thought."""
    if isinstance(last, ScaleWorkload):
        return Row(now=str(last.from_replicas), wanted=str(last.replicas), why=unwritten(words))
    status = _concluded(last)
    found = conditions(status)
    return Row(
        now=str(last.replicas),
        wanted=str(last.replicas),
        why=_why(words, found, last.replicas, last.replicas),
        # Windows run from what was only decided, as they would had it been done; the object itself has not changed.
        held_until=_held(words, found, seconds_or_none(status.get("lastScaleTime")), now),
        wrong=any(_denied(found, type_) for type_ in ESSENTIAL),
    )


def _concluding(words: Words) -> ScaleWorkload | HoldReplicas | None:
    """What was decided last of its replicas."""
    scale = _own(words)
    return next((d for d in words.decisions if d is scale or isinstance(d, HoldReplicas)), None)


def _concluded(last: ScaleWorkload | HoldReplicas | None) -> Mapping[str, Any]:
    """The status that a decision says in place of writing it; empty where it says none."""
    return {} if last is None or last.concluded is None else last.concluded.status


def _denied(found: Mapping[str, Mapping[str, Any]], type_: str) -> bool:
    """Whether an essential condition is false; one that says that a forbidden window runs tells of nothing that is wrong."""
    condition = found.get(type_, {})
    return condition.get("status") == "False" and not str(condition.get("reason", "")).startswith(WAITS)


@lru_cache(maxsize=16_384)
def _marks(spec: bytes) -> tuple[tuple[str, int, int], ...]:
    """Of a spec, as JSON, the metrics with their marks, in thousandths: a row is made again far oftener than its spec changes."""
    try:
        metrics = parsed(msgspec.json.decode(spec)).metrics
    except InvalidSpec:
        return ()
    return tuple((metric.name, metric.marks.low, metric.marks.high) for metric in metrics)


def _current(entry: object) -> float | None:
    """The value of an entry of `status.currentMetrics`; None where it has none that can be read."""
    if not isinstance(entry, Mapping):
        return None
    of_type = entry.get(str(entry.get("type", "")).lower())
    value = (
        of_type.get("currentValue", of_type.get("currentAverageValue"))
        if isinstance(of_type, Mapping)
        else None
    )
    try:
        return None if value is None else milli(str(value)) / 1000
    except ValueError:
        return None


def _own(words: Words) -> ScaleWorkload | None:
    """The last scale on behalf of the object: another one may have scaled the same target."""
    owner = f"WatermarkPodAutoscaler/{words.asked.namespace}/{words.asked.name}"
    return next((d for d in words.decisions if isinstance(d, ScaleWorkload) and d.owner == owner), None)


def _why(words: Words, found: Mapping[str, Mapping[str, Any]], current: object, desired: object) -> str:
    dry = " (dry run)" if is_true(found.get("DryRun")) else ""
    return _reason(words, found, current, desired) + dry


def _reason(words: Words, found: Mapping[str, Mapping[str, Any]], current: object, desired: object) -> str:
    for type_ in ESSENTIAL:
        if _denied(found, type_):
            return said(found[type_])
    limited = found.get("ScalingLimited")
    if limited is not None and is_true(limited):
        return said(limited)
    if is_true(found.get(ABOVE)):
        return "above the high watermark"
    if is_true(found.get(BELOW)):
        return "below the low watermark"
    if current != desired:
        return "being scaled"
    if words.decisions and isinstance(words.decisions[0], HoldReplicas):
        return _IN_WORDS.sub(r" \g<0>", words.decisions[0].reason).lower().strip()
    return "between the watermarks" if found else unwritten(words)


def _held(
    words: Words, found: Mapping[str, Mapping[str, Any]], scaled_at: float | None, now: float
) -> float | None:
    """Until when the delay and the forbidden window hold the change that the value asks for."""
    above, below = is_true(found.get(ABOVE)), is_true(found.get(BELOW))
    if not (above or below) or not isinstance(words.fact, WatermarkPodAutoscalerObserved):
        return None
    try:
        rules = parsed(words.fact.spec)
    except InvalidSpec:
        return None
    window, delay = (
        (rules.up_window_s, rules.up_delay_s) if above else (rules.down_window_s, rules.down_delay_s)
    )
    since = seconds_or_none(found[ABOVE if above else BELOW].get("lastTransitionTime"))
    end = max((scaled_at or 0.0) + window, (since or 0.0) + delay)
    return end if end > now else None
