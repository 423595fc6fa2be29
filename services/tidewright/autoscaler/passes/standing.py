"""What an object would keep after a pass: worked out beside the state, and kept once it is recorded.

A status is recorded whenever a condition's status or reason, or a count, changes; where it is not written
then, it goes with the scale or the hold that is recorded instead (`events.decisions.Concluded`). What
changes a text or a value alone waits for its turn, and is worked out anew by the pass whose turn it is.
"""

from __future__ import annotations

import msgspec

from tidewright.autoscaler.api.conditions import Change, Condition, true_since
from tidewright.autoscaler.api.status import Kept, exact_times, render
from tidewright.autoscaler.passes import conditions as c
from tidewright.autoscaler.passes.evaluate import Pass
from tidewright.autoscaler.passes.plan import Plan
from tidewright.autoscaler.state import Autoscaler, State
from tidewright.events.decisions import Concluded

_NONE, _TEXT, _REASON, _STATUS = Change  # asked for in every pass, and a name is found faster than a member


class Standing:
    """An object as a plan leaves it.

    Attributes:
        change: by how much, at most, that is another than the status that is written.
    """

    __slots__ = ("_conditions", "_plan", "_state", "change")

    def __init__(self, state: State, plan: Plan) -> None:
        self._state, self._plan = state, plan
        self._conditions = _change(state, plan)
        """By how much, at most, its conditions are others than what is kept."""
        self.change = max(self._conditions, plan.scaler.dirty)
        if plan.made is not None and not plan.quiet and _recounts(plan.scaler.kept, plan.made):
            self.change = max(self.change, _REASON)

    @property
    def urgent(self) -> bool:
        """Whether it is more than a text that is another."""
        return self.change >= _REASON

    @property
    def same_values(self) -> bool:
        """Whether the written status shows these very values."""
        made, kept = self._plan.made, self._plan.scaler.kept
        return made is None or _values(kept, made) == kept.utilizations

    def concluded(self) -> Concluded:
        """The status, with the exact times of its conditions."""
        plan, state = self._plan, self._state
        scaler = plan.scaler
        kept = msgspec.structs.replace(scaler.kept)
        if plan.made is not None and plan.quiet:
            kept.utilizations = _values(kept, plan.made)
        elif plan.made is not None:
            remember(kept, plan.made)
        if plan.observed is not None:
            kept.current = plan.observed
        if self._conditions is not _NONE:
            kept.conditions, _ = _settled(state, plan)
            kept.last_type, kept.last_status = plan.settings[-1].type, plan.settings[-1].status
        generation = 0 if state.in_force.strict else scaler.generation
        return Concluded(status=render(kept, scaler.rules, generation=generation), since=exact_times(kept))


def flips(plan: Plan) -> bool:
    """Whether a mark that a delay counts from has been passed, one way or the other, since what is kept."""
    evaluation, rules = plan.made, plan.scaler.rules
    if evaluation is None or evaluation.failure is not None or rules is None:
        return False
    kept = plan.scaler.kept.conditions
    return any(
        delay_s > 0 and beyond is not (true_since(kept, type_) is not None)
        for delay_s, type_, beyond in (
            (rules.up_delay_s, c.ABOVE_HIGH, evaluation.combined.above),
            (rules.down_delay_s, c.BELOW_LOW, evaluation.combined.below),
        )
    )


def _change(state: State, plan: Plan) -> Change:
    """What the settings of a plan change of what is kept; strictly they are applied each time, for they flip."""
    view = state.namespace(plan.namespace)[1].views.get(plan.scaler.name)
    if view is None or state.in_force.strict:
        return _settled(state, plan)[1]
    if view.settings != plan.settings:
        view.change, view.settings = _difference(plan), plan.settings
    return view.change


def _difference(plan: Plan) -> Change:
    """What `_settled` would say where the settings are not applied strictly, with nothing applied."""
    kept, last = plan.scaler.kept, plan.settings[-1]
    known = c.by_type(kept.conditions)
    if plan.unblocked and c.SCALING_BLOCKED in known:
        return _STATUS
    change = _NONE if (kept.last_type, kept.last_status) == (last.type, last.status) else _TEXT
    for setting in {setting.type: setting for setting in plan.settings}.values():  # the last of each type
        condition = known.get(setting.type)
        if not c.agrees(condition, setting):
            change = max(change, c.difference(condition, setting))
    return change


def _settled(state: State, plan: Plan) -> tuple[list[Condition], Change]:
    """The conditions after a plan, and what it has changed of them."""
    kept, strict = plan.scaler.kept, state.in_force.strict
    change = _NONE
    conditions = []
    for condition in kept.conditions:
        if plan.unblocked and condition.type == c.SCALING_BLOCKED:
            change = _STATUS
        else:
            conditions.append(msgspec.structs.replace(condition))
    # What came of a scale is of the pass that ordered it, and no newer than what that has set.
    now = _kept_time(state.now, strict=strict and plan.observed is not None)
    change = max(change, c.apply(conditions, plan.settings, now, strict=strict))
    for condition in conditions if strict else ():  # in their order by when they changed, to the fraction
        condition.since = _kept_time(condition.since, strict=True)
    last = plan.settings[-1]
    if kept.last_type != last.type or kept.last_status is not last.status:
        change = max(change, _TEXT)
    return conditions, change


def _kept_time(now: float, *, strict: bool) -> float:
    """Strictly, what is remembered is what the status can hold: whole seconds."""
    return float(now // 1) if strict else now


def remember(kept: Kept, evaluation: Pass) -> None:
    """Take a pass's figures over, in place; the scale that it asks for counts as made."""
    kept.utilizations = _values(kept, evaluation)
    kept.current = evaluation.observed
    if evaluation.rescale:
        kept.last_scale_at = evaluation.now
        kept.scaling_events += 1
    if evaluation.rescale or evaluation.failure is None:
        kept.desired = evaluation.desired


def _recounts(kept: Kept, evaluation: Pass) -> bool:
    """Whether more than measured values is another after `remember`."""
    if evaluation.rescale or kept.current != evaluation.observed:
        return True
    return evaluation.failure is None and kept.desired != evaluation.desired


def _values(kept: Kept, evaluation: Pass) -> tuple[int, ...] | None:
    """The values that are shown after a pass: those from before, where none were measured or a bound settled the count."""
    if evaluation.failure is not None or evaluation.reverts_metrics:
        return kept.utilizations
    return tuple([calculation.utilization for calculation in evaluation.calculations])


def repeats(scaler: Autoscaler, evaluation: Pass | None, last_scale_at: float | None) -> bool:
    """Whether a scale that is held back says once more what was thought within the window in which it was.

    Bounds (`minReplicas`) act regardless of windows, for what they ask for is so at the next look. What is
    held back is asked for by every sample, as long as nobody else does it.

    `last_scale_at` is the time that windows count from.
    """
    rules = scaler.rules
    if evaluation is None or rules is None or rules.dry_run or last_scale_at is None:
        return False
    window_s = rules.up_window_s if evaluation.desired > evaluation.current else rules.down_window_s
    return scaler.kept.desired == evaluation.desired and evaluation.now - last_scale_at < window_s
