"""Running a pass for one object of the fold, and remembering what came of it.

A pass changes what the object remembers (conditions, values shown) and yields a `Plan`; what the
decisions change (orders on their way, timers, what was said) changes when they are folded.
"""

from __future__ import annotations

from tidewright.autoscaler import conditions as c
from tidewright.autoscaler import messages, sequence, status
from tidewright.autoscaler.conditions import Change, Setting
from tidewright.autoscaler.evaluate import Pass, Scene, evaluate
from tidewright.autoscaler.index import NamespaceIndex
from tidewright.autoscaler.lifecycle import gate
from tidewright.autoscaler.messages import Message
from tidewright.autoscaler.ownership import walked
from tidewright.autoscaler.plan import Plan
from tidewright.autoscaler.policy import Policy
from tidewright.autoscaler.readiness import Pod, ReadyCount, ready_pods
from tidewright.autoscaler.reasons import (
    FAILURES,
    SCALING_BLOCKED,
    TARGET_NOT_FOUND,
    hold_reason,
    waits_for_pods,
)
from tidewright.autoscaler.spec import Rules
from tidewright.autoscaler.state import Autoscaler, Namespace, State, Workload
from tidewright.events.base import Because, Scalar


def run(state: State, namespace_name: str, found: Autoscaler) -> None:
    """Make a pass over an object as things stand now, if all that it needs has been seen."""
    namespace, index = state.namespace(namespace_name)
    rules, policy, now = found.rules, state.in_force, state.now
    if found.deleting or state.refreshing:
        return
    if rules is None:
        _refuse(state, namespace_name, found, policy)
        return
    opened = gate(
        found.lifecycle, namespace.monitors.get(found.name), namespace=namespace_name, name=found.name
    )
    if opened.setting is None and not policy.strict:
        _clear_blocked(found)
    settings = sequence.before(rules, opened)
    if opened.blocked:
        told = (messages.failed_monitor(opened.event),) if opened.event else ()
        reason: dict[str, Scalar] = {"monitor": f"{namespace_name}/{found.name}"}
        if opened.setting is not None:
            reason["message"] = opened.setting.message
        _stop(state, namespace_name, found, settings, SCALING_BLOCKED, reason, told)
        return
    if _is_ordered(found, policy, now):
        return
    older = _older(namespace, index, found, rules)
    if older is not None:
        _yield_to(state, namespace_name, found, rules, older, settings)
        return
    if not is_sampled(namespace, found, rules):
        return
    workload = namespace.workloads.get(rules.target_key)
    if workload is None:
        _lose_target(state, namespace_name, found, rules, opened.setting)
        return
    scene = scene_of(state, namespace_name, found, rules, workload)
    made = evaluate(rules, policy, scene)
    if found.fresh:
        found.fresh = ()
    found.evaluated = True
    found.awaits_pods = waits_for_pods(made)
    _remember(state, namespace_name, found, rules, policy, made, settings)


def scene_of(state: State, namespace_name: str, found: Autoscaler, rules: Rules, workload: Workload) -> Scene:
    """What a pass over the object looks at, now."""
    namespace, index = state.namespace(namespace_name)
    pods, count, selector_error = pods_of(
        namespace, index, found, rules, state.now, walk=state.in_force.walk_owner_chain
    )
    kept = found.kept.conditions
    return Scene(
        namespace=namespace_name,
        now=state.now,
        current=workload.replicas,
        observed=workload.observed,
        samples=[namespace.samples.get(metric.query) for metric in rules.metrics],
        recommendation=namespace.recommendations.get(found.name) if rules.recommender else None,
        pods=pods,
        count=count,
        selector_error=selector_error,
        skip_owner_check=found.skip_owner_check,
        above_since=c.true_since(kept, c.ABOVE_HIGH),
        below_since=c.true_since(kept, c.BELOW_LOW),
        last_scale_at=found.kept.last_scale_at,
    )


def pods_of(
    namespace: Namespace,
    index: NamespaceIndex,
    found: Autoscaler,
    rules: Rules,
    now: float,
    *,
    walk: bool,
) -> tuple[list[Pod], ReadyCount | None, str]:
    """The pods of the object's target, counted once until one of them or their count changes.

    `walk`: their owners are those that the chain of owners leads to.
    """
    view = index.views[found.name]
    if view.pods is None:
        keys, error = index.selected(found.name)
        if error:
            return [], None, error
        view.pods = [pod for key in keys for pod in namespace.groups[key].pods.values()]
        if walk:
            view.pods = walked(
                view.pods, namespace.workloads, target_name=rules.target_name, target=rules.target_key
            )
        view.count = None
    if rules.recommender is None and all(metric.source == "resource" for metric in rules.metrics):
        return view.pods, None, ""
    count = view.count
    if count is None or (count.changes_at is not None and count.changes_at <= now):
        count = view.count = ready_pods(
            view.pods,
            target_name=rules.target_name,
            now=now,
            delay_s=rules.readiness_delay_s,
            skip_owner_check=found.skip_owner_check,
        )
    return view.pods, count, ""


def _is_ordered(found: Autoscaler, policy: Policy, now: float) -> bool:
    """Whether a scale is on its way; one whose outcome never came is forgotten."""
    ordered = found.ordered
    if ordered is None:
        return False
    if now - ordered.at < policy.outcome_timeout_s:
        return True
    found.ordered = None
    return False


def _older(namespace: Namespace, index: NamespaceIndex, found: Autoscaler, rules: Rules) -> str | None:
    """Name of the object that acts on the same target instead of this one: the oldest, then by name."""
    others = index.by_target.get(rules.target_key, ())
    if len(others) < 2:
        return None
    first = min(others, key=lambda name: (namespace.objects[name].created_at, name))
    return None if first == found.name else first


def is_sampled(namespace: Namespace, found: Autoscaler, rules: Rules) -> bool:
    """Whether every metric has been answered once, be it by an error."""
    if rules.recommender is not None:
        return found.name in namespace.recommendations
    samples = namespace.samples
    return all(metric.query in samples for metric in rules.metrics)


def _refuse(state: State, namespace_name: str, found: Autoscaler, policy: Policy) -> None:
    settings = [c.PROCESSING, c.invalid_spec(found.problem)]
    told = (messages.failed_spec_check(found.problem),)
    _stop(state, namespace_name, found, settings, "InvalidSpec", {"problem": found.problem}, told)


def _yield_to(
    state: State,
    namespace_name: str,
    found: Autoscaler,
    rules: Rules,
    older: str,
    settings: list[Setting],
) -> None:
    target = f"{rules.target_kind} {namespace_name}/{rules.target_name}"
    settings.append(c.target_taken(target, f"{namespace_name}/{older}"))
    values: dict[str, Scalar] = {"target": target, "owner": f"{namespace_name}/{older}"}
    _stop(state, namespace_name, found, settings, "TargetTaken", values, ())


def _lose_target(
    state: State, namespace_name: str, found: Autoscaler, rules: Rules, blocked: Setting | None
) -> None:
    namespace, _ = state.namespace(namespace_name)
    error = namespace.unreadable.get(rules.target_key) or (
        f"could not get scale for the GV {rules.target_api_version}, error: {rules.target_kind} "
        f'"{rules.target_name}" not found, scale not found'
    )
    settings = [c.PROCESSING, *([blocked] if blocked is not None else []), c.PROCESS_FAILED]
    found.fresh = ()
    told = (messages.failed_process(error),)
    _stop(state, namespace_name, found, settings, TARGET_NOT_FOUND, {"error": error}, told)


def _clear_blocked(found: Autoscaler) -> None:
    """Lifecycle control is off: its condition says nothing any more (D11)."""
    blocked = c.find(found.kept.conditions, c.SCALING_BLOCKED)
    if blocked is not None:
        found.kept.conditions.remove(blocked)
        found.dirty = Change.STATUS


def _stop(
    state: State,
    namespace_name: str,
    found: Autoscaler,
    settings: list[Setting],
    hold: str,
    values: dict[str, Scalar],
    told: tuple[Message, ...],
) -> None:
    """A pass that ends before anything is computed."""
    settle_conditions(state, namespace_name, found, settings, strict=state.in_force.strict)
    state.plans.append(
        Plan(
            namespace=namespace_name,
            found=found,
            why=(Because(rule=hold, values=values),),
            hold=hold,
            messages=told,
        )
    )


def settle_conditions(
    state: State, namespace_name: str, found: Autoscaler, settings: list[Setting], *, strict: bool
) -> None:
    """Set the conditions of a pass, and note what the status has to catch up with."""
    view = state.namespace(namespace_name)[1].views.get(found.name)
    if view is not None and not strict:
        if view.settings == settings:
            return
        view.settings = settings
    kept, now = found.kept, state.now
    change = c.apply(kept.conditions, settings, _kept_time(now, strict=strict), strict=strict)
    last = settings[-1]
    if kept.last_type != last.type or kept.last_status is not last.status:
        kept.last_type, kept.last_status = last.type, last.status
        change = max(change, Change.TEXT)
    if change > found.dirty:
        found.dirty = change


def _kept_time(now: float, *, strict: bool) -> float:
    """Strictly, what is remembered is what the status can hold: whole seconds."""
    return float(now // 1) if strict else now


def _remember(
    state: State,
    namespace_name: str,
    found: Autoscaler,
    rules: Rules,
    policy: Policy,
    made: Pass,
    settings: list[Setting],
) -> None:
    kept = found.kept
    if found.hold in FAILURES and made.failure is None:
        found.said.clear()  # a failure that comes back is said again
    was_stale = c.find(kept.conditions, c.METRICS_FRESH) is not None
    settings += sequence.computed(rules, policy, made, was_stale=was_stale)
    scale = made.rescale
    told: tuple[Message, ...] = ()
    if scale and not rules.dry_run:
        settings.append(c.READY_FOR_SCALE)
    else:
        last = kept.last_scale_at
        settings += sequence.concluded(rules, policy, made, namespace=namespace_name, last_scale_at=last)
        if made.failure is not None:
            told = messages.failed_compute(rules, made)
        elif not made.rescale and not policy.skip_not_scaling_events:
            told = (messages.not_scaling(rules, namespace_name, made.asked, last, strict=policy.strict),)
    if not policy.strict:
        told += messages.foreign_pods(made)
    settle_conditions(state, namespace_name, found, settings, strict=policy.strict)
    ends_here = not scale or rules.dry_run
    if not ends_here and not made.reverts_metrics:
        kept.utilizations = tuple([calculation.utilization for calculation in made.calculations])
    if ends_here and status.remember(kept, made, written=True) and found.dirty < Change.REASON:
        found.dirty = Change.REASON
    state.plans.append(
        Plan(
            namespace=namespace_name,
            found=found,
            made=made,
            hold=hold_reason(made),
            scale=scale,
            messages=told,
            due=wake_at(made),
            quiet=scale and not rules.dry_run,
        )
    )


def wake_at(made: Pass) -> float | None:
    """When time alone changes the answer next: a window or delay ends, a pod counts or stops counting."""
    due = made.changes_at
    verdict = made.verdict
    if verdict is not None and not made.rescale:
        for at in (verdict.free_at, verdict.up_closed_until, verdict.down_closed_until):
            if at is not None and (due is None or at < due):
                due = at
    return due if due is not None and due > made.now else None
