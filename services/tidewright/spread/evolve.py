"""Folding events into the state: facts, ledger entries, and the decider's own decisions.

Nothing is concluded here. What changed is left in `State.touched`, where `decide` finds it; everything
that `decide` concludes comes back as a decision, so a replay of recorded decisions gives the same state.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from tidewright.events.base import Decision, Event, Outcome
from tidewright.events.config import ConfigSet
from tidewright.events.decisions import (
    DeleteObject,
    EvictPod,
    PatchObject,
    ScaleWorkload,
    SetStatus,
    SetTimer,
)
from tidewright.events.facts import (
    NodeGone,
    NodeObserved,
    PodGone,
    PodObserved,
    ShapeObserved,
    WorkloadGone,
    WorkloadObserved,
)
from tidewright.events.outcomes import Applied, Failed, Rejected, Superseded
from tidewright.events.spread import (
    ChangeLedger,
    EntriesAppended,
    ForeseeScaleIn,
    KindRefused,
    PodLeaving,
    PodPlaced,
    RecordSpread,
    TargetReplicasObserved,
    WorkloadSpreadGone,
    WorkloadSpreadObserved,
)
from tidewright.events.timers import TimerFired
from tidewright.kube.customworkloads import (
    WHITELIST_CONFIG_MAP,
    WHITELIST_KEY,
    BadApiVersion,
    BadWhitelist,
    GroupKind,
    Whitelist,
    group_version,
    whitelist_of,
)
from tidewright.kube.selectors import SelectorError
from tidewright.spread import ledger
from tidewright.spread.matching import counted
from tidewright.spread.nodeterms import Node
from tidewright.spread.pods import (
    POD_TEMPLATE_HASH,
    VERSION_IGNORED,
    VERSIONED_KINDS,
    placement_of,
    short_hash,
)
from tidewright.spread.spec import DELETION_COST_ANNOTATION, MATCHED_ANNOTATION, BadSpread, parse_spec
from tidewright.spread.state import (
    CALLED,
    HELD,
    Row,
    Settings,
    SpreadState,
    State,
    Touched,
    Workload,
    row_of,
    spread_key,
    target_key,
)
from tidewright.spread.status import LIMIT_VALID, Condition

FAIL_OPEN_ANNOTATION = "tidewright.dev/spread-fail-open"
TIMER = "spread/"
_UNSCHEDULABLE_TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def evolve(state: State, event: Event) -> State:
    """Fold one event, in place."""
    fold = _FOLDS.get(type(event))
    if event.at > state.now:
        state.now = event.at
    if not isinstance(event, Decision):
        state.touched = Touched()
    if fold is not None:
        fold(state, event)
    return state


# -- pods ------------------------------------------------------------------------------------------


def _pod(state: State, fact: PodObserved) -> None:
    namespace, name = fact.namespace, fact.name
    placement = placement_of(fact.annotations.get(MATCHED_ANNOTATION))
    new = row_of(fact, _kinds(state.versioned_kinds), state.shared_labels(fact.labels), placement)
    home, old = _take(state, namespace, name, new.owner)
    if old is None or old.owner != new.owner:
        _imply(state, fact, new.owner)
    same = old is not None and old.uid == new.uid
    if old is not None and same:
        new.name = old.name
        new.flags |= old.flags & (HELD | CALLED)
        new.asked = old.asked if new.cost == old.cost else ""
        if not new.placed_by and old.placed_by:
            new.placed_by, new.subset = old.placed_by, old.subset
    where = home if home is not None and same else None
    if where is None or old is None or (old.labels is not new.labels) or old.owner != new.owner:
        where = _spread_of(state, namespace, new)
    if where is None:
        state.strays.setdefault(namespace, {})[new.name] = new
    else:
        where.pods[new.name] = new
        _enter(where, new, state.now)
    key = ""
    if (where or home) is not None:
        key = placement.uid if placement is not None and placement.uid else name
    if home is not None and where is not home:
        # It left one spread and may have entered another: both are looked at as a whole.
        state.touched = Touched(pod=_id(namespace, name), home=_key(home), key=key, before=old)
        if where is not None:
            state.touched.spreads.append(_key(where))
        return
    owner = where if where is not None else home
    state.touched = Touched(
        pod=_id(namespace, name),
        home="" if owner is None else _key(owner),
        key=key,
        before=old if home is not None else None,
        after=new,
    )


@lru_cache(maxsize=8)
def _kinds(names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(names)


def _pod_gone(state: State, fact: PodGone) -> None:
    home, old = _take(state, fact.namespace, fact.name, "")
    state.touched = Touched(
        pod=_id(fact.namespace, fact.name), home="" if home is None else _key(home), key=fact.name, before=old
    )
    if old is not None:
        _unimply(state, old.owner)


def _id(namespace: str, name: str) -> str:
    return f"{namespace}/{name}"


def _key(spread: SpreadState) -> str:
    return spread_key(spread.namespace, spread.name)


def _take(state: State, namespace: str, name: str, owner: str) -> tuple[SpreadState | None, Row | None]:
    """Take a pod's row out of where it is, and out of the counts."""
    strays = state.strays.get(namespace)
    if strays is not None and (row := strays.pop(name, None)) is not None:
        return None, row
    likely = _by_owner(state, namespace, owner) if owner else None
    row = likely.pods.pop(name, None) if likely is not None else None
    if row is not None and likely is not None:
        _leave(likely, row)
        return likely, row
    home, row = state.find(namespace, name)
    if home is not None and row is not None:
        del home.pods[name]
        _leave(home, row)
    return home, row


def _enter(spread: SpreadState, row: Row, now: float) -> None:
    if row.active:
        spread.count(row, 1)
    if row.waiting:
        spread.waiting[row.name] = now if row.created_at is None else min(row.created_at, now)


def _leave(spread: SpreadState, row: Row) -> None:
    if row.active:
        spread.count(row, -1)
    spread.waiting.pop(row.name, None)


def _by_owner(state: State, namespace: str, owner: str) -> SpreadState | None:
    """The spread whose target is among the controllers from `owner` upwards."""
    for workload in state.chain(owner):
        key = state.targets.get(target_key(namespace, workload.kind, workload.name))
        if key is not None:
            return state.spreads[key]
    return None


def _spread_of(state: State, namespace: str, row: Row) -> SpreadState | None:
    found = _by_owner(state, namespace, row.owner)
    if found is None or found.spread is None:
        return None
    try:
        return found if counted(found.spread.target_filter, row.labels) else None
    except SelectorError:
        return None


def _imply(state: State, fact: PodObserved, owner: str) -> None:
    """Remember a controller that is known from its pods only."""
    controller = next((o for o in fact.owners if o.controller), None)
    if controller is None or not owner:
        return
    workload = state.workloads.get(owner)
    if workload is None:
        try:
            group, _ = group_version(controller.api_version)
        except BadApiVersion:
            return
        workload = Workload(
            GroupKind(group, controller.kind), controller.name, owner, replicas=-1, implied_by=0
        )
        state.workloads[owner] = workload
    if workload.implied_by >= 0:
        workload.implied_by += 1


def _unimply(state: State, owner: str) -> None:
    workload = state.workloads.get(owner)
    if workload is not None and workload.implied_by > 0:
        workload.implied_by -= 1
        if workload.implied_by == 0:
            del state.workloads[owner]


# -- workloads -------------------------------------------------------------------------------------


def _workload(state: State, fact: WorkloadObserved) -> None:
    try:
        group, _ = group_version(fact.api_version)
    except BadApiVersion:
        return
    controller = next((o.uid for o in fact.owners if o.controller), "")
    old = state.workloads.get(fact.uid)
    new = Workload(
        kind=GroupKind(group, fact.kind),
        name=fact.name,
        uid=fact.uid,
        replicas=fact.replicas,
        revision=fact.revision,
        template_hash=fact.labels.get(POD_TEMPLATE_HASH, ""),
        owner=controller,
        deleting=fact.deleting_at is not None,
    )
    state.workloads[fact.uid] = new
    if controller and fact.uid not in state.children.setdefault(controller, []):
        state.children[controller].append(fact.uid)
    key = state.targets.get(target_key(fact.namespace, new.kind, new.name))
    if key is not None:
        spread = state.spreads[key]
        spread.target_uid = fact.uid
        if old is not None and 0 <= new.replicas < old.replicas:
            # An autoscaler's decision was foreseen already, when it was taken.
            if spread.foreseen != new.replicas:
                state.touched.foresee = (key, new.replicas)
        elif old is not None and new.replicas > old.replicas:
            spread.foreseen = -1
    above = _by_owner(state, fact.namespace, fact.uid)
    if above is None:
        return
    if old is None or old.implied_by >= 0 or old.owner != new.owner:
        _collect(state, above)
    above.latest = _latest(state, above)
    if old is None or _matters(old) != _matters(new):
        state.touched.spreads.append(_key(above))


def _matters(workload: Workload) -> tuple[Any, ...]:
    return (workload.replicas, workload.revision, workload.template_hash, workload.owner, workload.deleting)


def _workload_gone(state: State, fact: WorkloadGone) -> None:
    uid = fact.uid
    if not uid:
        uid = next(
            (u for u, w in state.workloads.items() if (w.kind.kind, w.name) == (fact.kind, fact.name)), ""
        )
    above = _by_owner(state, fact.namespace, uid)
    gone = state.workloads.pop(uid, None)
    if gone is not None and (siblings := state.children.get(gone.owner)) is not None and uid in siblings:
        siblings.remove(uid)
        if not siblings:
            del state.children[gone.owner]
    if above is not None:
        if above.target_uid == uid:
            above.target_uid = ""
        above.latest = _latest(state, above)
        state.touched.spreads.append(_key(above))


def _latest(state: State, spread: SpreadState) -> str:
    """Version of the target's current template (3.7), as far as recorded facts tell."""
    target = state.workloads.get(spread.target_uid)
    if target is None or target.kind.kind.lower() not in state.versioned_kinds:
        return VERSION_IGNORED
    match target.kind.kind:
        case "Deployment":
            owned = [state.workloads[u] for u in state.children.get(target.uid, ()) if u in state.workloads]
            sets = [w for w in owned if w.kind.kind == "ReplicaSet" and not w.deleting]
            current = [w for w in sets if w.revision == target.revision] or sets
            newest = max(
                current, key=lambda w: (int(w.revision) if w.revision.isdigit() else 0, w.name), default=None
            )
            return newest.template_hash if newest is not None else VERSION_IGNORED
        case "ReplicaSet":
            return target.template_hash or VERSION_IGNORED
    return short_hash(target.revision) or VERSION_IGNORED


def _collect(state: State, spread: SpreadState) -> None:
    """Take in the strays that belong to the spread now."""
    strays = state.strays.get(spread.namespace, {})
    for name in [n for n, row in strays.items() if _spread_of(state, spread.namespace, row) is spread]:
        row = strays.pop(name)
        spread.pods[name] = row
        _enter(spread, row, state.now)


def _scatter(state: State, spread: SpreadState, *, all_of_them: bool) -> None:
    """Put pods that do not belong to the spread any more among the strays; their places are given back."""
    leaving = [
        name
        for name, row in spread.pods.items()
        if all_of_them or _spread_of(state, spread.namespace, row) is not spread
    ]
    strays = state.strays.setdefault(spread.namespace, {})
    for name in leaving:
        row = spread.pods.pop(name)
        _leave(spread, row)
        row.flags &= ~HELD
        strays[name] = row
    spread.recount = spread.recount or bool(leaving)


# -- spreads ---------------------------------------------------------------------------------------


def _spread(state: State, fact: WorkloadSpreadObserved) -> None:
    key = spread_key(fact.namespace, fact.name)
    known = state.spreads.get(key)
    state.touched = Touched(spreads=[key])
    if known is not None and known.uid != fact.uid:
        _forget_spread(state, key)
        known = None
    spread = known if known is not None else SpreadState(fact.namespace, fact.name)
    if known is not None and fact.refresh:
        state.touched = Touched(renew=key)
        return
    if known is not None and (known.spec, known.generation) == (fact.spec, fact.generation):
        deleting = fact.deleting_at is not None
        open_now = fact.annotations.get(FAIL_OPEN_ANNOTATION, "").lower() == "true"
        if known.spread is not None and known.spread.deleting == deleting and known.fail_open == open_now:
            state.touched = Touched()  # an echo of its own status
            return
    state.spreads[key] = spread
    _untarget(state, key)
    spread.uid, spread.generation, spread.spec = fact.uid, fact.generation, fact.spec
    spread.fail_open = fact.annotations.get(FAIL_OPEN_ANNOTATION, "").lower() == "true"
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
        spread.invalid = ""
    except BadSpread as error:
        spread.spread, spread.invalid = None, str(error)
    _retarget(state, key, spread)
    if known is None and refused_kinds(state, spread):
        state.touched.refused.append(key)


def _untarget(state: State, key: str) -> None:
    for target in [t for t, k in state.targets.items() if k == key]:
        del state.targets[target]


def _retarget(state: State, key: str, spread: SpreadState) -> None:
    """Point at the target, and take in the pods that belong to it."""
    parsed = spread.spread
    spread.target_uid = ""
    if parsed is not None and parsed.target is not None and not parsed.deleting:
        try:
            group, _ = group_version(parsed.target.api_version)
            kind = GroupKind(group, parsed.target.kind)
            # The first spread of a target has it; a second one is refused by validation, unless both came at once.
            holder = state.targets.setdefault(target_key(spread.namespace, kind, parsed.target.name), key)
            if holder != key:
                name = holder.partition("/")[2]
                spread.invalid = f"spec.targetRef: the target is taken by WorkloadSpread {name}"
            else:
                spread.target_uid = next(
                    (
                        w.uid
                        for w in state.workloads.values()
                        if w.kind == kind and w.name == parsed.target.name and w.implied_by < 0
                    ),
                    "",
                )
        except BadApiVersion as error:
            spread.invalid = f"spec.targetRef: {error}"
    _scatter(state, spread, all_of_them=False)
    _collect(state, spread)
    spread.latest = _latest(state, spread)


def _spread_gone(state: State, fact: WorkloadSpreadGone) -> None:
    key = spread_key(fact.namespace, fact.name)
    state.touched = Touched(removed=state.spreads.get(key))
    _forget_spread(state, key)


def _forget_spread(state: State, key: str) -> None:
    spread = state.spreads.get(key)
    if spread is None:
        return
    _untarget(state, key)
    _scatter(state, spread, all_of_them=True)
    del state.spreads[key]
    _inherit(state, spread)


def _inherit(state: State, gone: SpreadState) -> None:
    """Another spread that waits for the target has it now."""
    for key in sorted(state.spreads):
        heir = state.spreads[key]
        waits = heir.spread is not None and bool(heir.invalid) and heir.namespace == gone.namespace
        if waits and gone.spread is not None and _targets_same(heir, gone):
            heir.invalid = ""
            _retarget(state, key, heir)
            state.touched.spreads.append(key)


def _targets_same(one: SpreadState, other: SpreadState) -> bool:
    mine = one.spread.target if one.spread is not None else None
    its = other.spread.target if other.spread is not None else None
    return mine is not None and its is not None and (mine.kind, mine.name) == (its.kind, its.name)


def _target_replicas(state: State, fact: TargetReplicasObserved) -> None:
    key = spread_key(fact.namespace, fact.name)
    spread = state.spreads.get(key)
    if spread is None:
        return
    before = spread.path_replicas
    if fact.error:
        if fact.error != spread.path_fault:
            state.touched.fault = key
        spread.path_fault = fact.error
        return
    spread.path_fault, spread.path_replicas = "", fact.replicas
    if fact.replicas != before:
        state.touched.spreads.append(key)


# -- surroundings ----------------------------------------------------------------------------------


def _node(state: State, fact: NodeObserved) -> None:
    taints = tuple(
        {"key": t.get("key", ""), "value": t.get("value", ""), "effect": t.get("effect", "")}
        for t in fact.taints
    )
    if fact.unschedulable and not any(t["key"] == _UNSCHEDULABLE_TAINT["key"] for t in taints):
        taints = (*taints, {**_UNSCHEDULABLE_TAINT, "value": ""})
    node = Node(fact.name, fact.labels, taints)
    known = state.nodes.get(fact.name)
    state.nodes[fact.name] = node
    if known is None:
        _waken_unplaced(state, fact.name)


def _node_gone(state: State, fact: NodeGone) -> None:
    state.nodes.pop(fact.name, None)


def _waken_unplaced(state: State, node: str) -> None:
    """A node that its pods were seen on before it: those without a place may be adopted now."""
    for key, spread in state.spreads.items():
        if any(r.node == node and not r.subset for r in spread.pods.values() if not r.held):
            state.touched.spreads.append(key)


def _refused(state: State, fact: KindRefused) -> None:
    if not fact.error:
        state.refusals.pop(fact.name, None)
        return
    if state.refusals.get(fact.name) == fact.error:
        return
    state.refusals[fact.name] = fact.error
    state.touched.refused.extend(
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
    return {str(one) for one in on_the_way} & state.refusals.keys()


def _shape(state: State, fact: ShapeObserved) -> None:
    # Only pods without a placement are ever fitted to nodes; the rest of a shape is never asked for.
    kept = {k: v for k, v in fact.scheduling.items() if k in ("affinity", "tolerations", "nodeSelector")}
    state.shapes[fact.digest] = kept


def _config(state: State, event: ConfigSet) -> None:
    whitelist = state.settings.whitelist
    if event.name == "spread":
        try:
            state.settings = msgspec.convert(event.data, Settings)
        except msgspec.ValidationError:
            return
        whitelist = state.settings.whitelist or whitelist
        state.versioned_kinds = tuple(
            sorted(VERSIONED_KINDS | {k.lower() for k in state.settings.versioned_kinds})
        )
    elif event.name == WHITELIST_CONFIG_MAP:
        whitelist = _text_of(event.data)
    else:
        return
    try:
        state.whitelist = whitelist_of(whitelist) if whitelist else Whitelist()
        state.whitelist_fault = ""
    except BadWhitelist as error:
        state.whitelist_fault = str(error)
        return  # the last one that could be read holds
    state.touched.spreads.extend(state.spreads)


def _text_of(data: Mapping[str, Any]) -> str:
    found = data.get(WHITELIST_KEY, "")
    return found if isinstance(found, str) else msgspec.json.encode(found).decode()


def _timer(state: State, event: TimerFired) -> None:
    if event.key.startswith(TIMER):
        key = event.key.removeprefix(TIMER)
        spread = state.spreads.get(key)
        if spread is not None:
            spread.due = None
            state.touched.spreads.append(key)


# -- the ledger and own decisions ------------------------------------------------------------------


def _entry(state: State, event: PodPlaced | PodLeaving) -> None:
    key = spread_key(event.namespace, event.name)
    spread = state.spreads.get(key)
    if spread is None or (event.spread and event.spread != spread.uid):
        return  # of a spread of this name that is gone: its ledger has ended
    if isinstance(event, PodLeaving) and not event.evicted and event.pod not in spread.ledger.leaving:
        row = spread.pods.get(event.pod)
        if event.key in spread.ledger.placed:
            pass  # not seen yet: the place of its placement is given back
        elif row is not None and row.held:
            row.flags &= ~HELD
        else:
            state.touched.uncounted.append((event.key, event.pod, event.version, event.subset))
    if isinstance(event, PodPlaced) and event.unfenced:
        spread.unfenced_at = event.at
    ledger.fold(spread.ledger, event)
    state.touched.home = key


def _entries(state: State, event: EntriesAppended) -> None:
    for entry in event.entries:
        _entry(state, entry)


def _changed(state: State, decision: ChangeLedger) -> None:
    spread = state.spreads.get(spread_key(decision.target.namespace, decision.target.name))
    if spread is None:
        return
    if decision.rules is not None:
        _closures(spread, decision)
    for change in decision.changes:
        row = spread.pods.get(change.pod)
        if row is None:
            continue
        if change.kind in ("Seen", "Held"):
            row.flags |= HELD
        elif change.kind == "Released":
            row.flags &= ~HELD
    if decision.counts is not None:
        spread.recount = False
    ledger.fold(spread.ledger, decision)


def _closures(spread: SpreadState, decision: ChangeLedger) -> None:
    """Conditions follow from the rules: a subset that closes or opens does so at this moment."""
    if spread.spread is None or decision.rules is None or not spread.spread.adaptive:
        spread.conditions.clear()
        return
    before = spread.conditions
    spread.conditions = {
        rule.name: old
        if (old := before.get(rule.name)) is not None and old.open != rule.closed
        else Condition(not rule.closed, decision.at)
        for rule in decision.rules.subsets
    }


def _patched(state: State, decision: PatchObject) -> None:
    if decision.target.kind != "Pod":
        return
    spread, row = state.find(decision.target.namespace, decision.target.name)
    if row is None:
        return
    annotations: Mapping[str, Any] = (decision.patch.get("metadata") or {}).get("annotations") or {}
    cost = annotations.get(DELETION_COST_ANNOTATION)
    if isinstance(cost, str):
        row.asked = sys.intern(cost)
        _await(spread, decision.id, row.name)
    placement = placement_of(annotations.get(MATCHED_ANNOTATION))
    if placement is not None and spread is not None:
        if row.active:
            spread.count(row, -1)
        row.placed_by, row.subset = sys.intern(placement.name), sys.intern(placement.subset)
        if row.active:
            spread.count(row, 1)


def _called(state: State, decision: DeleteObject | EvictPod) -> None:
    if decision.target.kind == "Pod":
        spread, row = state.find(decision.target.namespace, decision.target.name)
        if row is not None:
            row.flags |= CALLED
        if spread is not None and isinstance(decision, EvictPod):
            spread.brought_back_at = decision.at
        _await(spread, decision.id, decision.target.name)


def _await(spread: SpreadState | None, decision_id: str, pod: str) -> None:
    if spread is not None and decision_id:
        spread.awaited[decision_id] = pod


def _answered(state: State, outcome: Outcome) -> None:
    """What was decided about a pod did not come about: forget that it was, and look again."""
    for key, spread in state.spreads.items():
        pod = spread.awaited.pop(outcome.decision, None)
        if pod is None:
            continue
        row = spread.pods.get(pod)
        if row is not None and isinstance(outcome, Rejected | Failed):
            state.touched.failed = (key, pod, bool(row.flags & CALLED))
            row.flags &= ~CALLED
            row.asked = ""
        return


def _status(state: State, decision: SetStatus) -> None:
    spread = state.spreads.get(spread_key(decision.target.namespace, decision.target.name))
    if spread is not None:
        spread.status, spread.status_at = decision.status, decision.at
        spread.fault_since = {
            entry["name"]: spread.fault_since.get(entry["name"], decision.at)
            for entry in decision.status.get("subsetStatuses") or ()
            if any(c.get("type") == LIMIT_VALID for c in entry.get("conditions") or ())
        }


def _foresee(state: State, decision: ScaleWorkload) -> None:
    """Another service's decision to scale a workload, read as an input."""
    state.touched = Touched()
    try:
        group, _ = group_version(decision.target.api_version)
    except BadApiVersion:
        return
    kind = GroupKind(group, decision.target.kind)
    key = state.targets.get(target_key(decision.target.namespace, kind, decision.target.name))
    if key is not None and decision.replicas < decision.from_replicas:
        state.touched.foresee = (key, decision.replicas)


def _foreseen(state: State, decision: ForeseeScaleIn) -> None:
    spread = state.spreads.get(spread_key(decision.target.namespace, decision.target.name))
    if spread is not None:
        spread.foreseen = decision.replicas


def _recorded(state: State, decision: RecordSpread) -> None:
    spread = state.spreads.get(spread_key(decision.target.namespace, decision.target.name))
    if spread is not None:
        spread.recorded = decision.message


def _timer_set(state: State, decision: SetTimer) -> None:
    spread = state.spreads.get(decision.key.removeprefix(TIMER))
    if spread is not None:
        spread.due = decision.due


_FOLDS: dict[type[Event], Callable[[State, Any], None]] = {
    PodObserved: _pod,
    PodGone: _pod_gone,
    WorkloadObserved: _workload,
    WorkloadGone: _workload_gone,
    WorkloadSpreadObserved: _spread,
    WorkloadSpreadGone: _spread_gone,
    TargetReplicasObserved: _target_replicas,
    KindRefused: _refused,
    NodeObserved: _node,
    NodeGone: _node_gone,
    ShapeObserved: _shape,
    ConfigSet: _config,
    TimerFired: _timer,
    PodPlaced: _entry,
    PodLeaving: _entry,
    EntriesAppended: _entries,
    ChangeLedger: _changed,
    PatchObject: _patched,
    DeleteObject: _called,
    EvictPod: _called,
    SetStatus: _status,
    SetTimer: _timer_set,
    RecordSpread: _recorded,
    ForeseeScaleIn: _foreseen,
    ScaleWorkload: _foresee,
    Applied: _answered,
    Rejected: _answered,
    Failed: _answered,
    Superseded: _answered,
}
