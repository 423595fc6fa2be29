"""Targets, and what stands between them and their pods."""

from __future__ import annotations

from sys import intern

from tidewright.autoscaler.api.spec import target_key
from tidewright.autoscaler.fold.index import NamespaceIndex, in_order
from tidewright.autoscaler.fold.ownership import ancestors, references
from tidewright.autoscaler.fold.touched import NOTHING, Touched
from tidewright.autoscaler.state import Autoscaler, Namespace, State, Workload, bind
from tidewright.events.facts import WorkloadGone, WorkloadObserved


def workload_observed(state: State, event: WorkloadObserved) -> Touched:
    """A target, or an object between a target and its pods, as it is now."""
    namespace, index = state.namespace(event.namespace)
    key = target_key(event.api_version, event.kind, event.name)
    known = namespace.workloads.get(key)
    namespace.unreadable.pop(key, None)
    namespace.workloads[key] = Workload(
        intern(event.api_version),
        intern(event.kind),
        event.name,
        event.uid,
        event.replicas,
        event.status_replicas,
        event.selector,
        references(event.owners),
    )
    owners = _chain_changed(
        event.namespace, namespace, index, key=key, before=known, after=namespace.workloads[key]
    )
    names = in_order(index.by_target.get(key, ()))
    if known is None or known.selector != event.selector:
        for name in names:
            bind(namespace, index, namespace.objects[name])
    looks: tuple[tuple[str, Autoscaler], ...] = ()
    if known is None or known.uid != event.uid or known.replicas != event.replicas:
        looks = tuple([(event.namespace, namespace.objects[name]) for name in names])
    return Touched(looks=looks, owners=owners) if looks or owners else NOTHING


def _chain_changed(
    namespace_name: str,
    namespace: Namespace,
    index: NamespaceIndex,
    *,
    key: str,
    before: Workload | None,
    after: Workload | None,
) -> tuple[tuple[str, Autoscaler], ...]:
    """An object came, went or has other owners: targets that it leads to may have other pods.

    The target itself looks again by its own fact, and for its pods only what waits for some.
    """
    if before is not None and after is not None and (before.uid, before.owners) == (after.uid, after.owners):
        return ()
    led_to = {
        target
        for workload in (before, after)
        if workload is not None
        for target in ancestors(namespace.workloads, workload.owners)
    }
    looks: list[tuple[str, Autoscaler]] = []
    for target in sorted(led_to | {key}):
        for name in in_order(index.by_target.get(target, ())):
            index.views[name].forget()
            if target != key and namespace.objects[name].awaits_pods:
                looks.append((namespace_name, namespace.objects[name]))
    return tuple(looks)


def workload_gone(state: State, event: WorkloadGone) -> Touched:
    """One less, or one that cannot be read."""
    namespace, index = state.namespace(event.namespace)
    key = target_key(event.api_version, event.kind, event.name)
    gone = namespace.workloads.pop(key, None)
    if event.reason:
        namespace.unreadable[key] = event.reason
    owners: tuple[tuple[str, Autoscaler], ...] = ()
    if gone is not None:
        owners = _chain_changed(event.namespace, namespace, index, key=key, before=gone, after=None)
    looks: list[tuple[str, Autoscaler]] = []
    for name in in_order(index.by_target.get(key, ())):
        scaler = namespace.objects[name]
        bind(namespace, index, scaler)
        scaler.ordered = None
        if gone is not None or event.reason:
            looks.append((event.namespace, scaler))
    return Touched(looks=tuple(looks), owners=owners) if looks or owners else NOTHING
