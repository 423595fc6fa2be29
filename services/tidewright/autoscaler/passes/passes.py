"""A look at one object of the fold, as things stand now: `Plan` is what it asks for.

Nothing of the state is changed here: what is to last is recorded by the decisions that say a plan, and
folded from them.
"""

from __future__ import annotations

import msgspec

from tidewright.autoscaler.api.conditions import Setting, true_since
from tidewright.autoscaler.api.spec import Rules, verdict
from tidewright.autoscaler.fold.index import NamespaceIndex
from tidewright.autoscaler.fold.targetpods import pods_of
from tidewright.autoscaler.fold.touched import Ended
from tidewright.autoscaler.holds import INVALID_SPEC, SCALING_BLOCKED, TARGET_NOT_FOUND, TARGET_TAKEN
from tidewright.autoscaler.passes import conditions as c
from tidewright.autoscaler.passes import forecasts, sequence
from tidewright.autoscaler.passes.evaluate import Pass, evaluate
from tidewright.autoscaler.passes.lifecycle import Gate, gate
from tidewright.autoscaler.passes.plan import Plan
from tidewright.autoscaler.passes.scene import Scene
from tidewright.autoscaler.policy import Policy
from tidewright.autoscaler.state import Autoscaler, Namespace, State, Workload, asked_by, is_sampled
from tidewright.autoscaler.tell import messages
from tidewright.autoscaler.tell.messages import Message
from tidewright.autoscaler.tell.reasons import hold_reason
from tidewright.events.acting import NOT_DONE
from tidewright.events.base import Because, Scalar
from tidewright.events.outcomes import Applied
from tidewright.kube.conditions import find


def look(state: State, namespace_name: str, scaler: Autoscaler) -> Plan | None:
    """What an object asks for; None while it is not looked at: not all is known yet, or a scale is on its way."""
    namespace, index = state.namespace(namespace_name)
    policy = state.in_force
    if scaler.deleting:
        return None
    problem = problem_of(namespace_name, index, scaler)
    rules = scaler.rules
    if problem or rules is None:
        unused = msgspec.structs.replace(scaler, rules=None, problem=problem or scaler.problem)
        return _refused(namespace_name, unused, refuses=rules is not None)
    opened = _gate(namespace, namespace_name, scaler)
    unblocked = _is_unblocked(opened, policy)
    settings = sequence.before(rules, opened)
    if opened.blocked:
        return _blocked(namespace_name, scaler, settings, opened)
    if is_on_its_way(state, scaler):
        return None
    older = older_than(namespace_name, namespace, index, scaler, rules=rules)
    if older is not None:
        return _yielding(namespace_name, scaler, rules, older, settings, unblocked=unblocked)
    if not is_sampled(namespace, scaler, rules):
        return None
    workload = namespace.workloads.get(rules.target_key)
    if workload is None:
        return _lost(namespace, namespace_name, scaler, rules, opened, unblocked=unblocked)
    evaluation = evaluate(rules, policy, scene_of(state, namespace_name, scaler, rules, workload))
    return _computed(
        state,
        namespace_name,
        scaler,
        rules=rules,
        evaluation=evaluation,
        settings=settings,
        unblocked=unblocked,
    )


def ended(state: State, end: Ended) -> Plan:
    """What the outcome of a scale asks for. The fold has counted it in."""
    scaler, rules, ordered, outcome = end.scaler, end.rules, end.ordered, end.outcome
    policy = state.in_force
    namespace, _ = state.namespace(end.namespace)
    unblocked = _is_unblocked(_gate(namespace, end.namespace, scaler), policy)
    if not isinstance(outcome, Applied):
        error = outcome.message or outcome.reason
        workload = namespace.workloads.get(rules.target_key)
        return Plan(
            namespace=end.namespace,
            scaler=scaler,
            settings=[c.scale_failed(error)],
            messages=(messages.failed_scale(ordered.replicas, ordered.reason, error),),
            keep_timer=True,
            observed=None if workload is None else workload.observed,
            unblocked=unblocked,
        )
    scaling = (messages.scaling(ordered.replicas, ordered.reason, strict=policy.strict),)
    at = last_scale_of(state, scaler)
    ends = [] if at is None else [at + window_s for window_s in (rules.up_window_s, rules.down_window_s)]
    return Plan(
        namespace=end.namespace,
        scaler=scaler,
        settings=[c.scaled(ordered.replicas)],
        messages=() if outcome.reason in NOT_DONE else scaling,
        due=min((over_at for over_at in ends if over_at > state.now), default=None),
        unblocked=unblocked,
    )


def last_scale_of(state: State, scaler: Autoscaler) -> float | None:
    """When the count was changed last, as windows count from it: strictly from what the status can hold, whole seconds."""
    at = scaler.kept.last_scale_at
    return float(at // 1) if at is not None and state.in_force.strict else at


def scene_of(
    state: State, namespace_name: str, scaler: Autoscaler, rules: Rules, workload: Workload
) -> Scene:
    """What a pass over the object looks at, now."""
    namespace, index = state.namespace(namespace_name)
    pods, count, selector_error = pods_of(
        namespace, index, scaler, rules, state.now, walk=state.in_force.walk_owner_chain
    )
    kept = scaler.kept.conditions
    return Scene(
        namespace=namespace_name,
        now=state.now,
        current=workload.replicas,
        observed=workload.observed,
        samples=[namespace.samples.get(metric.query) for metric in rules.metrics],
        recommendation=namespace.recommendations.get(scaler.name) if rules.recommender else None,
        pods=pods,
        count=count,
        selector_error=selector_error,
        skip_owner_check=scaler.skip_owner_check,
        above_since=true_since(kept, c.ABOVE_HIGH),
        below_since=true_since(kept, c.BELOW_LOW),
        last_scale_at=last_scale_of(state, scaler),
        expected=()
        if scaler.forecast is None
        else forecasts.expected(scaler, rules, state.in_force, state.now),
    )


def is_on_its_way(state: State, scaler: Autoscaler) -> bool:
    """Whether a scale is waited for; one whose outcome never came is not any longer."""
    ordered = scaler.ordered
    return ordered is not None and state.now - ordered.at < state.in_force.outcome_timeout_s


def problem_of(namespace_name: str, index: NamespaceIndex, scaler: Autoscaler) -> str:
    """Why an object's spec cannot be used, while nothing is recorded that says so or that it can; empty when it can."""
    asked = scaler.asked
    if asked is None:
        return ""
    view = index.views.get(scaler.name)
    if view is not None and view.verdict is not None and view.verdict[0] is asked:
        return view.verdict[1]
    found = verdict(asked_by(scaler) or {}, namespace=namespace_name, name=scaler.name)
    if view is not None:
        view.verdict = asked, found
    return found


def older_than(
    namespace_name: str, namespace: Namespace, index: NamespaceIndex, scaler: Autoscaler, *, rules: Rules
) -> str | None:
    """Name of the object that acts on the same target instead of this one: the oldest, then by name."""
    sharing = index.by_target.get(rules.target_key, ())
    if len(sharing) < 2:
        return None
    others = [name for name in sharing if not problem_of(namespace_name, index, namespace.objects[name])]
    first = min(others, key=lambda name: (namespace.objects[name].created_at, name))
    return None if first == scaler.name else first


def _gate(namespace: Namespace, namespace_name: str, scaler: Autoscaler) -> Gate:
    monitor = namespace.monitors.get(scaler.name)
    return gate(scaler.lifecycle, monitor, namespace=namespace_name, name=scaler.name)


def _is_unblocked(opened: Gate, policy: Policy) -> bool:
    return opened.setting is None and not policy.strict


def _refused(namespace_name: str, scaler: Autoscaler, *, refuses: bool) -> Plan:
    return Plan(
        namespace=namespace_name,
        scaler=scaler,
        settings=[c.PROCESSING, c.invalid_spec(scaler.problem)],
        why=(Because(rule=INVALID_SPEC, values={"problem": scaler.problem}),),
        hold=INVALID_SPEC,
        refuses=refuses,
        messages=(messages.failed_spec_check(scaler.problem),),
    )


def _blocked(namespace_name: str, scaler: Autoscaler, settings: list[Setting], opened: Gate) -> Plan:
    values: dict[str, Scalar] = {"monitor": f"{namespace_name}/{scaler.name}"}
    if opened.setting is not None:
        values["message"] = opened.setting.message
    return Plan(
        namespace=namespace_name,
        scaler=scaler,
        settings=settings,
        why=(Because(rule=SCALING_BLOCKED, values=values),),
        hold=SCALING_BLOCKED,
        messages=(messages.failed_monitor(opened.event),) if opened.event else (),
    )


def _yielding(
    namespace_name: str,
    scaler: Autoscaler,
    rules: Rules,
    older: str,
    settings: list[Setting],
    *,
    unblocked: bool,
) -> Plan:
    target = f"{rules.target_kind} {namespace_name}/{rules.target_name}"
    owner = f"{namespace_name}/{older}"
    return Plan(
        namespace=namespace_name,
        scaler=scaler,
        settings=[*settings, c.target_taken(target, owner)],
        why=(Because(rule=TARGET_TAKEN, values={"target": target, "owner": owner}),),
        hold=TARGET_TAKEN,
        unblocked=unblocked,
    )


def _lost(
    namespace: Namespace,
    namespace_name: str,
    scaler: Autoscaler,
    rules: Rules,
    opened: Gate,
    *,
    unblocked: bool,
) -> Plan:
    error = namespace.unreadable.get(rules.target_key) or (
        f"could not get scale for the GV {rules.target_api_version}, error: {rules.target_kind} "
        f'"{rules.target_name}" not found, scale not found'
    )
    blocked = () if opened.setting is None else (opened.setting,)
    return Plan(
        namespace=namespace_name,
        scaler=scaler,
        settings=[c.PROCESSING, *blocked, c.PROCESS_FAILED],
        why=(Because(rule=TARGET_NOT_FOUND, values={"error": error}),),
        hold=TARGET_NOT_FOUND,
        messages=(messages.failed_process(error),),
        unblocked=unblocked,
    )


def _computed(
    state: State,
    namespace_name: str,
    scaler: Autoscaler,
    *,
    rules: Rules,
    evaluation: Pass,
    settings: list[Setting],
    unblocked: bool,
) -> Plan:
    policy = state.in_force
    was_stale = find(scaler.kept.conditions, c.METRICS_FRESH) is not None
    settings += sequence.computed(rules, policy, evaluation, was_stale=was_stale)
    writes = evaluation.rescale and not rules.dry_run
    object_events: tuple[Message, ...] = ()
    if writes:
        settings.append(c.READY_FOR_SCALE)
    else:
        last = last_scale_of(state, scaler)
        settings += sequence.concluded(
            rules, policy, evaluation, namespace=namespace_name, last_scale_at=last
        )
        if evaluation.failure is not None:
            object_events = messages.failed_compute(rules, evaluation)
        elif not evaluation.rescale and not policy.skip_not_scaling_events:
            object_events = (
                messages.not_scaling(rules, namespace_name, evaluation.asked, last, strict=policy.strict),
            )
    if not policy.strict:
        object_events += messages.foreign_pods(evaluation)
    return Plan(
        namespace=namespace_name,
        scaler=scaler,
        settings=settings,
        made=evaluation,
        hold=hold_reason(evaluation),
        scale=evaluation.rescale,
        messages=object_events,
        due=wake_at(evaluation),
        quiet=writes,
        unblocked=unblocked,
    )


def wake_at(evaluation: Pass) -> float | None:
    """When time alone changes the answer next: a window or delay ends, a pod counts or stops counting."""
    due = evaluation.changes_at
    verdict = evaluation.verdict
    if verdict is not None and not evaluation.rescale:
        for at in (verdict.free_at, verdict.up_closed_until, verdict.down_closed_until):
            if at is not None and (due is None or at < due):
                due = at
    return due if due is not None and due > evaluation.now else None
