"""The pods of targets, by the sets of their labels."""

from __future__ import annotations

from tidewright.autoscaler.fold.index import NamespaceIndex
from tidewright.autoscaler.fold.ownership import of_owners
from tidewright.autoscaler.fold.touched import NOTHING, Touched
from tidewright.autoscaler.state import Autoscaler, Namespace, PodGroup, State
from tidewright.events.facts import PodGone, PodObserved
from tidewright.kube.readiness import Pod


def pod_observed(state: State, event: PodObserved) -> Touched:
    """A pod as it is now."""
    namespace, index = state.namespace(event.namespace)
    name = event.name
    key = index.group_of.get(name)
    group = None if key is None else namespace.groups[key]
    before: tuple[str, ...] = ()
    if group is None or group.labels != event.labels:
        if key is not None:
            before = _drop_pod(namespace, index, name, key)
        key = label_key(event.labels)
        group = namespace.groups.get(key)
        if group is None:
            group = namespace.groups[key] = PodGroup(event.labels, {})
            index.add_group(key, event.labels)
        index.group_of[name] = key
    known = group.pods.get(name)
    pod = project(event, known)
    if pod == known:
        return NOTHING
    group.pods[name] = pod
    watchers = index.watchers(key or "")
    if before:
        watchers = tuple(sorted({*before, *watchers}))
    return _pods_changed(event.namespace, namespace, index, watchers)


def project(event: PodObserved, known: Pod | None) -> Pod:
    """The part of a pod that counts."""
    ready = event.ready
    owners, references = of_owners(event.owners)
    return Pod(
        event.name if known is None else known.name,
        owners,
        event.phase,
        "" if ready is None else "True" if ready else "False",
        event.ready_changed_at or 0.0,
        event.started_at,
        event.deleting_at is not None,
        references,
    )


def label_key(labels: dict[str, str]) -> str:
    """One text per set of labels."""
    return ",".join([f"{key}={labels[key]}" for key in sorted(labels)])


def pod_gone(state: State, event: PodGone) -> Touched:
    """A pod less."""
    namespace, index = state.namespace(event.namespace)
    key = index.group_of.get(event.name)
    if key is None:
        return NOTHING
    return _pods_changed(event.namespace, namespace, index, _drop_pod(namespace, index, event.name, key))


def _drop_pod(namespace: Namespace, index: NamespaceIndex, name: str, key: str) -> tuple[str, ...]:
    """Forget a pod; names of the objects whose targets selected it."""
    group = namespace.groups[key]
    del group.pods[name]
    del index.group_of[name]
    watchers = index.watchers(key)
    if not group.pods:
        del namespace.groups[key]
        index.drop_group(key)
    return watchers


def _pods_changed(
    namespace_name: str, namespace: Namespace, index: NamespaceIndex, watchers: tuple[str, ...]
) -> Touched:
    looks: tuple[tuple[str, Autoscaler], ...] = ()
    for name in watchers:
        index.views[name].forget()
        if namespace.objects[name].awaits_pods:
            looks += ((namespace_name, namespace.objects[name]),)
    return Touched(looks=looks) if looks else NOTHING
