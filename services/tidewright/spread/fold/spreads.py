"""Folding facts about spreads: what they are, which target each has, and who inherits one."""

from __future__ import annotations

from tidewright.events.acting import MODE
from tidewright.events.spread import (
    KindRefused,
    TargetReplicasObserved,
    WorkloadSpreadGone,
    WorkloadSpreadObserved,
)
from tidewright.kube.customworkloads import BadApiVersion, GroupKind, group_version
from tidewright.kube.workloadspreads.spec import BadSpread, Spread, parse_spec
from tidewright.spread import holding
from tidewright.spread.fold import modes
from tidewright.spread.fold.owners import named, scatter
from tidewright.spread.fold.targets import retarget
from tidewright.spread.fold.touched import Touched
from tidewright.spread.state import SpreadState, State, spread_key

FAIL_OPEN_ANNOTATION = "tidewright.dev/spread-fail-open"


def spread_observed(state: State, fact: WorkloadSpreadObserved, touched: Touched) -> None:
    """A spread as it is now; an echo of its own status changes nothing."""
    key = spread_key(fact.namespace, fact.name)
    known = state.spreads.get(key)
    if known is not None and fact.refresh and known.uid == fact.uid:
        touched.renew = key
        return
    if known is not None and known.uid == fact.uid and _echo(known, fact):
        return
    touched.spreads.append(key)
    if known is not None and known.uid != fact.uid:
        _forget_spread(state, key, touched)
        known = None
    spread = known if known is not None else SpreadState(fact.namespace, fact.name)
    state.spreads[key] = spread
    target = named(spread)
    if known is None:
        spread.created_at = state.now if fact.created_at is None else fact.created_at
    spread.uid, spread.generation, spread.spec = fact.uid, fact.generation, fact.spec
    before = holding.held(state, spread)
    spread.mode = fact.annotations.get(MODE, "")
    if known is not None:
        modes.changed(state, spread, before, touched)
    spread.fail_open = _fails_open(fact)
    spread.fail_open_since = (spread.fail_open_since or state.now) if spread.fail_open else 0.0
    try:
        spread.spread = parse_spec(
            fact.spec,
            namespace=fact.namespace,
            name=fact.name,
            uid=fact.uid,
            generation=fact.generation,
            deleting=fact.deleting_at is not None,
            annotations=fact.annotations,
        )
        spread.invalid = _unnamed(spread.spread)
    except BadSpread as error:
        spread.spread, spread.invalid = None, str(error)
    retarget(state, spread, target, touched)
    if known is None and refused_kinds(state, spread):
        touched.refused.append(key)


def _echo(known: SpreadState, fact: WorkloadSpreadObserved) -> bool:
    """Whether nothing has changed but its status, which is ours."""
    return (
        (known.spec, known.generation) == (fact.spec, fact.generation)
        and known.spread is not None
        and known.spread.deleting == (fact.deleting_at is not None)
        and known.fail_open == _fails_open(fact)
        and known.mode == fact.annotations.get(MODE, "")
    )


def _fails_open(fact: WorkloadSpreadObserved) -> bool:
    return fact.annotations.get(FAIL_OPEN_ANNOTATION, "").lower() == "true"


def _unnamed(spread: Spread) -> str:
    """Why a spread's target cannot be looked for; "" when it can."""
    if spread.target is None or spread.deleting:
        return ""
    try:
        group_version(spread.target.api_version)
    except BadApiVersion as error:
        return f"spec.targetRef: {error}"
    return ""


def spread_gone(state: State, fact: WorkloadSpreadGone, touched: Touched) -> None:
    """A spread is gone; its pods are strays, and another one that waits for its target has it."""
    key = spread_key(fact.namespace, fact.name)
    touched.removed = state.spreads.get(key)
    _forget_spread(state, key, touched)


def _forget_spread(state: State, key: str, touched: Touched) -> None:
    spread = state.spreads.get(key)
    if spread is None:
        return
    target = named(spread)
    spread.spread = None
    retarget(state, spread, target, touched)
    scatter(state, spread, all_of_them=True)
    del state.spreads[key]


def target_replicas(state: State, fact: TargetReplicasObserved, touched: Touched) -> None:
    """The target's replicas as its paths give them, or why they give none."""
    key = spread_key(fact.namespace, fact.name)
    spread = state.spreads.get(key)
    if spread is None:
        return
    before = spread.path_replicas
    if fact.error:
        if fact.error != spread.path_fault:
            touched.fault = key
        spread.path_fault = fact.error
        return
    spread.path_fault, spread.path_replicas = "", fact.replicas
    if fact.replicas != before:
        touched.spreads.append(key)


def kind_refused(state: State, fact: KindRefused, touched: Touched) -> None:
    """A kind may not be read, or can be again."""
    if not fact.error:
        state.refusals.pop(fact.name, None)
        return
    if state.refusals.get(fact.name) == fact.error:
        return
    state.refusals[fact.name] = fact.error
    touched.refused.extend(
        key for key, spread in state.spreads.items() if fact.name in refused_kinds(state, spread)
    )


def refused_kinds(state: State, spread: SpreadState) -> set[str]:
    """The kinds that may not be read and lie on the way from the spread's pods to its target, or are it."""
    if not state.refusals or spread.spread is None or spread.spread.target is None:
        return set()
    try:
        kind = GroupKind(group_version(spread.spread.target.api_version)[0], spread.spread.target.kind)
    except BadApiVersion:
        return set()
    entry = state.whitelist.entry(kind)
    on_the_way = {kind, *(entry.sub_resources if entry is not None else ())}
    return set(map(str, on_the_way)) & state.refusals.keys()
