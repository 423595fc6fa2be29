"""Pods and templates that may belong to a fleet or a set."""

from __future__ import annotations

from tidewright.events.facts import PodGone, PodObserved
from tidewright.events.provisioning import PodTemplateGone, PodTemplateObserved
from tidewright.shardmanager.propeller.fleet import KnownPod, Template, known
from tidewright.shardmanager.propeller.pods import APP_LABEL, CONFIG_HASH
from tidewright.shardmanager.shardset.spec import SET_LABEL
from tidewright.shardmanager.state import State


def keep(state: State, event: PodObserved | PodGone) -> KnownPod | None:
    """Keep or drop a pod; what was known of it before."""
    pods = state.pods.setdefault(event.namespace, {})
    before = pods.get(event.name)
    manager = any(
        f.manager_pod == event.name and f.namespace == event.namespace for f in state.fleets.values()
    )
    if isinstance(event, PodGone):
        # A late word about an earlier pod of the same name says nothing about the present one.
        if before is not None and (not event.uid or before.uid in ("", event.uid)):
            del pods[event.name]
    elif (
        manager or APP_LABEL in event.labels or SET_LABEL in event.labels or CONFIG_HASH in event.annotations
    ):
        pod = pods[event.name] = known(event)
        if pod.deleting:
            # Since when, in log time: the object's own stamp is of another clock, and lies ahead by the grace.
            known_since = before is not None and before.uid == pod.uid and before.deleting_since is not None
            pod.deleting_since = before.deleting_since if before and known_since else state.now
    else:
        pods.pop(event.name, None)
    if not pods:
        del state.pods[event.namespace]
    return before


def keep_template(state: State, event: PodTemplateObserved | PodTemplateGone) -> None:
    """Keep or drop a template."""
    key = f"{event.namespace}/{event.name}"
    if isinstance(event, PodTemplateGone):
        state.templates.pop(key, None)
    else:
        state.templates[key] = Template(version=event.resource_version, template=event.template)
