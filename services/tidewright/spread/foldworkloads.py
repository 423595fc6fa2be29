"""Folding facts about workloads: targets, and what stands between them and their pods."""

from __future__ import annotations

from typing import Any

from tidewright.events.facts import WorkloadGone, WorkloadObserved
from tidewright.kube.customworkloads import BadApiVersion, GroupKind, group_version
from tidewright.spread.owners import by_owner, collect, key_of, latest_version
from tidewright.spread.pods import POD_TEMPLATE_HASH
from tidewright.spread.state import State, Workload, target_key


def workload_observed(state: State, fact: WorkloadObserved) -> None:
    """A workload as it is now; its spread looks at everything when something that matters has changed."""
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
    above = by_owner(state, fact.namespace, fact.uid)
    if above is None:
        return
    if old is None or old.implied_by >= 0 or old.owner != new.owner:
        collect(state, above)
    above.latest = latest_version(state, above)
    if old is None or _matters(old) != _matters(new):
        state.touched.spreads.append(key_of(above))


def _matters(workload: Workload) -> tuple[Any, ...]:
    return (workload.replicas, workload.revision, workload.template_hash, workload.owner, workload.deleting)


def workload_gone(state: State, fact: WorkloadGone) -> None:
    """A workload is gone."""
    uid = fact.uid
    if not uid:
        uid = next(
            (u for u, w in state.workloads.items() if (w.kind.kind, w.name) == (fact.kind, fact.name)), ""
        )
    above = by_owner(state, fact.namespace, uid)
    gone = state.workloads.pop(uid, None)
    if gone is not None and (siblings := state.children.get(gone.owner)) is not None and uid in siblings:
        siblings.remove(uid)
        if not siblings:
            del state.children[gone.owner]
    if above is not None:
        if above.target_uid == uid:
            above.target_uid = ""
        above.latest = latest_version(state, above)
        state.touched.spreads.append(key_of(above))
