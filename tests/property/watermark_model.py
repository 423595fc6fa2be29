"""The arithmetic of a strict pass, written a second time from the specification alone (2.4 to 2.12, 8).

It shares no code with the autoscaler: quantities are exact fractions, a scene is plain data, and each
function follows its section's text line by line. Two writings that agree on random scenes read the
text alike.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, NamedTuple

SUFFIXES = {
    "": Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "k": Fraction(1000),
    "Ki": Fraction(1024),
}
SMALLEST = -(2**31)


class Proposal(NamedTuple):
    """One metric's answer; `error` is a word for why there is none."""

    replicas: int = 0
    ready: int = 0
    above: bool = False
    below: bool = False
    error: str = ""


class Outcome(NamedTuple):
    """What a pass decides."""

    desired: int = 0
    rescale: bool = False
    reason: str = ""
    error: str = ""


def _away(value: Fraction) -> int:
    return math.ceil(value) if value >= 0 else math.floor(value)


def milli(text: str) -> int:
    """Section 8, first row."""
    sign = -1 if text.startswith("-") else 1
    digits = text.lstrip("+-")
    number = digits.rstrip("numkKi") if "e" not in digits else digits.partition("e")[0]
    suffix = digits[len(number) :]
    factor = Fraction(10) ** int(suffix[1:]) if suffix.startswith("e") else SUFFIXES[suffix]
    return _away(sign * Fraction(number) * factor * 1000)


def _truncated(value: Fraction) -> int:
    return math.trunc(value)


def _int32(value: float, rounding: Any) -> int:
    if not math.isfinite(value):
        return SMALLEST
    whole: int = rounding(value)
    return whole if SMALLEST <= whole < 2**31 else SMALLEST


def _divided(a: float, b: float) -> float:
    if b:
        return a / b
    return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a)


def _up_to(replicas: int, modulo: int) -> int:
    rest = math.fmod(replicas, modulo)
    return replicas + modulo - int(rest) if rest > 0 else replicas


def _belongs(pod: dict[str, Any], target: str) -> bool:
    names = [
        name[: name.rindex("-")] if kind == "ReplicaSet" and "-" in name else name
        for kind, name in pod["owners"]
    ]
    return target in names


def count(scene: dict[str, Any], spec: dict[str, Any]) -> tuple[int, str]:
    """2.4: ready pods after the cap, or why not."""
    pods, ready, incorrect = scene["pods"], 0, 0
    if not pods:
        return 0, "no-pods"
    for pod in pods:
        if not _belongs(pod, scene["target"]) or pod["phase"] in ("Failed", "Succeeded"):
            incorrect += 1
        elif not pod["ready"] or pod["started_at"] is None or pod["deleting"]:
            continue
        elif (pod["phase"] == "Running" and pod["ready"] == "True") or (
            pod["phase"] == "Pending" and scene["now"] - pod["changed_at"] < spec["readinessDelaySeconds"]
        ):
            ready += 1
    if ready == 0:
        return 0, "none-ready"
    ready = min(ready, scene["observed"])
    if 100 * ready // (len(pods) - incorrect) < spec["minAvailableReplicaPercentage"]:
        return ready, "unready-ratio"
    return ready, ""


def group(scene: dict[str, Any], spec: dict[str, Any], name: str, values: dict[str, int]) -> Any:
    """2.6.3: ready pods and those ignored, as the reference has it (D4)."""
    ready, ignored = 0, set()
    for pod in scene["pods"]:
        if not _belongs(pod, scene["target"]):
            continue
        if pod["phase"] in ("Failed", "Pending"):
            ignored.add(pod["name"])
        elif pod["name"] not in values:
            continue
        elif name == "cpu" and (
            not pod["ready"]
            or pod["started_at"] is None
            or pod["ready"] == "False"
            or pod["started_at"] + spec["readinessDelaySeconds"] > pod["changed_at"]
        ):
            ignored.add(pod["name"])
        else:
            ready += 1
    return ready, ignored


def external(
    scene: dict[str, Any], spec: dict[str, Any], marks: tuple[str, str], series: list[int]
) -> Proposal:
    """2.5."""
    ready, error = count(scene, spec)
    if error:
        return Proposal(error=error)
    if not series:
        return Proposal(error="metric-empty")
    total = sum(series)
    if total == 0 and not spec["tolerateZero"]:
        return Proposal(ready, ready)
    return formula(scene, spec, marks, ready, total)


def resource(
    scene: dict[str, Any], spec: dict[str, Any], marks: tuple[str, str], name: str, values: dict[str, int]
) -> Proposal:
    """2.6."""
    if not values:
        return Proposal(error="metric-empty")
    if not scene["pods"]:
        return Proposal(error="no-pods")
    ready, ignored = group(scene, spec, name, values)
    counted = len(scene["pods"]) - len(ignored)
    if counted == 0:
        return Proposal(error="none-ready")
    if 100 * ready // counted < spec["minAvailableReplicaPercentage"]:
        return Proposal(error="unready-ratio")
    left = [value for pod, value in values.items() if pod not in ignored]
    if not left:
        return Proposal(error="no-ready-metrics")
    return formula(scene, spec, marks, ready, sum(left))


def formula(
    scene: dict[str, Any], spec: dict[str, Any], marks: tuple[str, str], ready: int, total: int
) -> Proposal:
    """2.8, and convergence (2.8b)."""
    low, high, tolerance = milli(marks[0]), milli(marks[1]), milli(spec["tolerance"])
    current, modulo = scene["current"], spec["replicaScalingAbsoluteModulo"]
    usage = _divided(float(total), ready) if spec["algorithm"] == "average" else float(total)
    if usage > float(high + _truncated(Fraction(high * tolerance, 1000))):
        wanted = _up_to(_int32(_divided(ready * usage, high), math.ceil), modulo)
        return Proposal(max(wanted, current), ready, above=True)
    if usage < float(low - _truncated(Fraction(low * tolerance, 1000))):
        wanted = _up_to(max(1, _int32(_divided(ready * usage, low), math.floor)), modulo)
        return Proposal(min(wanted, current), ready, below=True)

    def clamp(value: int) -> int:
        return int(max(spec["minReplicas"], min(value, spec["maxReplicas"])))

    lower = clamp(_int32(_divided(ready, high) * usage, math.ceil)) if high else current
    upper = clamp(_int32(_divided(ready, low) * usage, math.floor)) if low else current
    if spec["convergeTowardsWatermark"] == "highwatermark":
        candidate = max(current - modulo, 1)
        return Proposal(current if candidate < lower else candidate, ready)
    if spec["convergeTowardsWatermark"] == "lowwatermark":
        candidate = current + modulo
        return Proposal(current if candidate > upper else candidate, ready)
    return Proposal(current, ready)


def normalized(spec: dict[str, Any], current: int, wanted: int, ready: int) -> tuple[int, str]:
    """2.10."""

    def step(text: str) -> int:
        return max(1, math.floor(milli(text) / 1000 * current / 100)) if milli(text) else 0

    low, high = spec["minReplicas"], spec["maxReplicas"]
    down, up = current - step(spec["scaleDownLimitFactor"]), current + step(spec["scaleUpLimitFactor"])
    floor, reason = low, "TooFewReplicas"
    if wanted < down:
        floor, reason = max(down, low), "ScaleDownLimit"
        if 0 < ready < floor:
            floor = current
    if wanted < floor:
        return floor, reason
    ceiling, reason = (min(up, high), "ScaleUpLimit") if wanted > up else (high, "TooManyReplicas")
    return (ceiling, reason) if wanted > ceiling else (wanted, "DesiredWithinRange")


def decided(scene: dict[str, Any], spec: dict[str, Any], proposals: list[Proposal]) -> Outcome:
    """2.9, 2.11 and 2.12."""
    for proposal in proposals:
        if proposal.error:
            return Outcome(error=proposal.error)
    winner = Proposal()
    for proposal in proposals:
        if winner.replicas == 0 or proposal.replicas > winner.replicas:
            winner = proposal
    above, below = any(p.above for p in proposals), any(p.below for p in proposals)
    stable = not above and not below
    current, now, last = scene["current"], scene["now"], scene["last_scale_at"]
    desired, reason = normalized(spec, current, max(winner.replicas, 0), winner.ready)
    if current == 0:
        return Outcome(0, False, reason)
    if current > spec["maxReplicas"]:
        return Outcome(spec["maxReplicas"], True, reason)
    if current < spec["minReplicas"]:
        return Outcome(spec["minReplicas"], True, reason)
    if scene["observed"] == 0:
        return Outcome(1, True, reason)
    if last is None:
        return Outcome(desired, True, reason)
    if desired == current:
        return Outcome(current, False, reason)
    way = "up" if desired > current else "down"
    out, since = (above, scene["above_since"]) if way == "up" else (below, scene["below_since"])
    delay = spec[
        "upscaleDelayAboveWatermarkSeconds" if way == "up" else "downscaleDelayBelowWatermarkSeconds"
    ]
    open_ = last + spec[f"{way}scaleForbiddenWindowSeconds"] - now > 0
    if delay and not stable:
        waited = math.trunc(now - (now if since is None else since))
        if not out or delay - waited > 0:
            return Outcome(current, False, reason)
    return Outcome(current, False, reason) if open_ else Outcome(desired, True, reason)
