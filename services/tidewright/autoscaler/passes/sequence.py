"""Which conditions a pass sets, in which order (section 3, last paragraph).

before     from the start of a pass until the scale is known
computed   from a proposal to the decision, or to the metric that failed
concluded  after the scale was written, refused by the outside, or not wanted
"""

from __future__ import annotations

from tidewright.autoscaler.api.conditions import Setting
from tidewright.autoscaler.api.spec import Rules
from tidewright.autoscaler.passes import conditions as c
from tidewright.autoscaler.passes.evaluate import Override, Pass
from tidewright.autoscaler.passes.lifecycle import Gate
from tidewright.autoscaler.policy import Policy
from tidewright.autoscaler.tell import messages

_DISABLED = Override.DISABLED  # asked for in every pass


def before(rules: Rules, gate: Gate) -> list[Setting]:
    """Conditions up to the reading of the scale; only the first two when the gate is closed."""
    settings = [c.PROCESSING]
    if gate.setting is not None:
        settings.append(gate.setting)
    if not gate.blocked:
        settings.append(c.DRY_RUN_ON if rules.dry_run else c.DRY_RUN_OFF)
        settings.append(c.GOT_SCALE)
    return settings


def computed(rules: Rules, policy: Policy, evaluation: Pass, *, was_stale: bool = False) -> list[Setting]:
    """Conditions of the computation."""
    settings = [
        setting
        for calculation in evaluation.calculations
        if (setting := c.CONVERGENCE.get(calculation.converge)) is not None
    ]
    failure = evaluation.failure
    if failure is not None:
        reason = messages.failure_reason(rules, evaluation.combined.failed)
        settings.append(c.metric_failed(reason, failure.error))
        return settings
    winner = evaluation.calculations[evaluation.combined.winner] if evaluation.combined.winner >= 0 else None
    settings.append(c.ABOVE[evaluation.combined.above])
    settings.append(c.BELOW[evaluation.combined.below])
    settings.append(
        c.metric_found(winner.display, winner.details) if winner is not None else c.metric_found("", "")
    )
    if was_stale and not evaluation.stale:  # before the conditions of the reference, whose last one is shown
        settings.append(c.freshness((), policy.stale_after_s))
    if evaluation.limited is not None:
        settings.append(
            c.limited(evaluation.limited.limited, evaluation.limited.reason, evaluation.limited.message)
        )
    if evaluation.stale:
        settings.append(c.freshness(evaluation.stale, policy.stale_after_s))
    if evaluation.verdict is not None:
        settings.extend(c.backoff(evaluation.verdict))
    if evaluation.override is _DISABLED:
        settings.append(c.DISABLED)
    return settings


def concluded(
    rules: Rules,
    policy: Policy,
    evaluation: Pass,
    *,
    namespace: str,
    last_scale_at: float | None,
    error: str | None = None,
) -> list[Setting]:
    """Conditions of what came of the decision; `error` says why the scale could not be written."""
    if evaluation.rescale:
        if error is not None:
            return [c.READY_FOR_SCALE, c.scale_failed(error)]
        if rules.dry_run:
            return [c.READY_FOR_SCALE]
        return [c.READY_FOR_SCALE, c.scaled(evaluation.desired)]
    if evaluation.failure is not None or not policy.skip_not_scaling_events:
        return []
    if evaluation.override is Override.DISABLED and not policy.strict:  # D14
        return []
    text = messages.decided_not_to(rules, namespace, evaluation.asked, last_scale_at)
    start = "the WPA was able to successfully calculate a replica count and d"
    return [c.not_scaling(start + text)]
