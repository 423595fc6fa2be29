"""Folding facts about workloads: targets, and what stands between them and their pods."""

from __future__ import annotations

from typing import Any

from tidewright.events.facts import WorkloadGone, WorkloadObserved
from tidewright.kube.customworkloads import BUILT_IN, BadApiVersion, GroupKind, group_version
from tidewright.spread.fold.owners import by_owner, collect, key_of, latest_revision, scatter, selecting
from tidewright.spread.fold.touched import Shrinks, Touched
from tidewright.spread.match.pods import POD_TEMPLATE_HASH
from tidewright.spread.state import SpreadState, State, Workload, target_key


def workload_observed(state: State, fact: WorkloadObserved, touched: Touched) -> None:
    """A workload as it is now; its spread looks at everything when something that matters has changed."""
    try:
        group, _ = group_version(fact.api_version)
    except BadApiVersion:
        return
    controller = next((o.uid for o in fact.owners if o.controller), "")
    old = state.workloads.get(fact.uid)
    kind = GroupKind(group, fact.kind)
    new = Workload(
        kind=kind,
        name=fact.name,
        uid=fact.uid,
        namespace=fact.namespace,
        replicas=fact.replicas,
        revision=fact.revision,
        template_hash=fact.labels.get(POD_TEMPLATE_HASH, ""),
        owner=controller,
        deleting=fact.deleting_at is not None,
        selector="" if kind in BUILT_IN else fact.selector,
        pods=old.pods if old is not None else 0,
    )
    state.workloads[fact.uid] = new
    if old is not None and old.owner != controller:
        _not_child(state, fact.uid, old.owner)
    if controller and fact.uid not in state.children.setdefault(controller, []):
        state.children[controller].append(fact.uid)
    for spread in state.having(target_key(fact.namespace, new.kind, new.name)):
        _targeted(state, spread, new, old, touched)
        if old is not None and 0 <= new.replicas < old.replicas:
            touched.shrinks.append(Shrinks(key_of(spread), new.replicas))
        elif old is not None and new.replicas > old.replicas:
            spread.foreseen = -1
    _released(state, fact.namespace, old, new, touched)
    for above in by_owner(state, fact.namespace, fact.uid):
        if old is None or not old.seen or old.owner != new.owner:
            collect(state, above)
        above.latest = latest_revision(state, above)
        key = key_of(above)
        if (old is None or _matters(old) != _matters(new)) and key not in touched.spreads:
            touched.spreads.append(key)


def _targeted(
    state: State, spread: SpreadState, target: Workload, old: Workload | None, touched: Touched
) -> None:
    """The target as it is now; what its selector finds may have changed."""
    known = spread.target_uid == target.uid and old is not None
    spread.target_uid = target.uid
    if known and old is not None and old.selector == target.selector:
        return
    selecting(state, spread)
    if target.selector or (old is not None and old.selector):
        scatter(state, spread, all_of_them=False)
        collect(state, spread)
        touched.spreads.append(key_of(spread))


def _released(state: State, namespace: str, old: Workload | None, new: Workload, touched: Touched) -> None:
    """A workload that has lost its controller takes its pods along."""
    if old is None or not old.owner or old.owner == new.owner:
        return
    for above in by_owner(state, namespace, old.owner):
        scatter(state, above, all_of_them=False)
        above.latest = latest_revision(state, above)
        touched.spreads.append(key_of(above))


def _not_child(state: State, uid: str, controller: str) -> None:
    siblings = state.children.get(controller)
    if siblings is not None and uid in siblings:
        siblings.remove(uid)
        if not siblings:
            del state.children[controller]


def _matters(workload: Workload) -> tuple[Any, ...]:
    return (workload.replicas, workload.revision, workload.template_hash, workload.owner, workload.deleting)


def workload_gone(state: State, fact: WorkloadGone, touched: Touched) -> None:
    """A workload is gone."""
    uid = fact.uid
    if not uid:
        uid = next(
            (
                u
                for u, w in state.workloads.items()
                if (w.namespace, w.kind.kind, w.name) == (fact.namespace, fact.kind, fact.name)
            ),
            "",
        )
    spreads = by_owner(state, fact.namespace, uid)
    gone = state.workloads.pop(uid, None)
    if gone is not None:
        _not_child(state, uid, gone.owner)
    for above in spreads:
        if above.target_uid == uid:
            above.target_uid = ""
            selecting(state, above)
            if gone is not None and gone.selector:
                scatter(state, above, all_of_them=False)
            # Pods of its own go after it, one by one, each with its place; those that shall stay lose their owner.
        above.latest = latest_revision(state, above)
        touched.spreads.append(key_of(above))
