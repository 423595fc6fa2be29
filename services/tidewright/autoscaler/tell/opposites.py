"""Which single input would have had to be what for the opposite of a pass. Pure.

Asked of the pass itself: one input is changed, the pass is made again, and where its answer turns
is found by bisection. So whatever stands between a value and the count (tolerance, rounding,
convergence, limits, other metrics, windows) is in the answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec

from tidewright.autoscaler.api.spec import Rules
from tidewright.autoscaler.passes.evaluate import Pass, evaluate
from tidewright.autoscaler.passes.scene import Scene
from tidewright.autoscaler.policy import Policy
from tidewright.autoscaler.tell.sentences import clock, number, plural
from tidewright.events.facts import MetricSampled

FARTHEST = 1000
"""A value more than so many times the measured one is not asked about."""


def told(rules: Rules, policy: Policy, scene: Scene) -> list[str]:
    """One sentence per input that alone would have turned the answer."""
    evaluation = evaluate(rules, policy, scene)
    if evaluation.failure is not None:
        return []
    sentences: list[str] = []
    for index, metric in enumerate(rules.metrics):
        sample = scene.samples[index]
        if sample is not None and not sample.error:
            sentences += _by_value(
                rules, policy, scene, evaluation=evaluation, index=index, display=metric.display
            )
    sentences += _by_limit(rules, policy, scene, evaluation)
    sentences += _by_time(rules, policy, scene, evaluation)
    if not sentences and evaluation.rescale and len(rules.metrics) > 1:
        sentences.append("No single value would have changed this: more than one metric asks for it.")
    return sentences


def _by_value(
    rules: Rules, policy: Policy, scene: Scene, *, evaluation: Pass, index: int, display: str
) -> Sequence[str]:
    sample = scene.samples[index]
    total = 0 if sample is None else _total(sample)
    if sample is None or total <= 0:
        return ()

    def again(new_total: int) -> Pass:
        samples = list(scene.samples)
        samples[index] = _scaled(sample, new_total, total)
        return evaluate(rules, policy, msgspec.structs.replace(scene, samples=samples))

    def value(new_total: int) -> str:
        usage = again(new_total).calculations[index].usage  # shown no nearer than it is, to three digits
        return number(math.ceil(usage) if new_total > total else math.floor(usage))

    was = number(evaluation.calculations[index].usage)
    if evaluation.rescale:
        up = evaluation.desired > evaluation.current

        def stays(new_total: int) -> bool:
            other = again(new_total)
            return other.failure is None and not (
                other.desired > other.current if up else other.desired < other.current
            )

        edge = _last(stays, total, 0 if up else total * FARTHEST)
        if edge is None:
            return ()
        side, way = ("or less", "upscale") if up else ("or more", "downscale")
        return (f"With {display} at {value(edge)} {side} instead of {was}, there would have been no {way}.",)
    sentences: list[str] = []
    for word, end in (("or more", total * FARTHEST), ("or less", 0)):

        def scales(new_total: int, *, up: bool = end > 0) -> bool:
            other = again(new_total)
            return other.failure is None and (
                other.asked > other.current if up else other.asked < other.current
            )

        edge = _last(scales, total, end)
        if edge is not None and (other := again(edge)).failure is None:
            sentences.append(f"With {display} at {value(edge)} {word} instead of {was}, {_what(other)}.")
    return sentences


def _what(other: Pass) -> str:
    if other.rescale:
        return f"it would have been scaled from {other.current} to {other.desired}"
    waits = f"{plural(other.asked, 'replica')} would have been asked for, and waited for"
    verdict = other.verdict
    if verdict is None or verdict.free_at is None:
        return f"{waits} the delay to begin"
    return f"{waits} until {clock(verdict.free_at)}"


def _by_limit(rules: Rules, policy: Policy, scene: Scene, evaluation: Pass) -> Sequence[str]:
    limited = evaluation.limited
    if limited is None or evaluation.rescale or not limited.limited:
        return ()
    if limited.replicas == rules.max_replicas < limited.wanted:
        other = evaluate(msgspec.structs.replace(rules, max_replicas=limited.wanted), policy, scene)
        text = f"With maxReplicas {limited.wanted} instead of {rules.max_replicas}"
    elif max(limited.wanted, 0) < limited.replicas == rules.min_replicas:
        fewer = max(limited.wanted, 1)
        other = evaluate(msgspec.structs.replace(rules, min_replicas=fewer), policy, scene)
        text = f"With minReplicas {fewer} instead of {rules.min_replicas}"
    else:
        return ()
    return (f"{text}, it would have been scaled to {other.desired}.",) if other.rescale else ()


def _by_time(rules: Rules, policy: Policy, scene: Scene, evaluation: Pass) -> Sequence[str]:
    verdict = evaluation.verdict
    if evaluation.rescale or verdict is None or verdict.free_at is None:
        return ()
    other = evaluate(rules, policy, msgspec.structs.replace(scene, now=verdict.free_at, count=None))
    if not other.rescale:
        return ()
    free = clock(verdict.free_at)
    return (
        f"The same values at {free} or later would scale from {other.current} to {plural(other.desired, 'replica')}.",
    )


def _total(sample: MetricSampled) -> int:
    return sum(sample.series_milli) if sample.series_milli else sum(sample.pods_milli.values())


def _scaled(sample: MetricSampled, new_total: int, total: int) -> MetricSampled:
    """The sample with another sum, spread over series and pods as it was."""
    if sample.series_milli:
        return msgspec.structs.replace(sample, series_milli=(new_total,))
    pods = {pod: milli * new_total // total for pod, milli in sample.pods_milli.items()}
    return msgspec.structs.replace(sample, pods_milli=pods)


def _last(holds: Callable[[int], bool], known: int, far: int) -> int | None:
    """The value nearest to `known`, towards `far`, for which something holds that does not hold at `known`.

    None when it holds nowhere near. What holds is taken to go on holding towards `far`, up to limits
    on the way there: so the way is first gone in growing steps.
    """
    if holds(known):
        return None
    step, near, beyond = max(1, abs(known) // 16), known, known
    towards = 1 if far > known else -1
    while True:
        beyond = near + towards * step
        beyond = min(beyond, far) if towards > 0 else max(beyond, far)
        if holds(beyond):
            break
        if beyond == far:
            return None
        near, step = beyond, step * 2 if towards > 0 else step
    while abs(beyond - near) > 1:
        middle = (near + beyond) // 2
        if holds(middle):
            beyond = middle
        else:
            near = middle
    return beyond
