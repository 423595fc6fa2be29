"""What the pods of a PodTemplate or workload are like: which pod is the model, and what admission makes of it.

    model(...)   of what was read of a workload, what its pods are like, and how many it wants; pure
    Resolver     reads, and tries to create a pod with `dryRun=All`: nothing is made

Of a workload the newest of its running pods is the model, because admission has seen that one; else its pod template.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from tidewright.events.base import JsonObject
from tidewright.kube.times import seconds_or_none

KNOWN: Final = {
    ("apps", "Deployment"): "replicas",
    ("apps", "ReplicaSet"): "replicas",
    ("apps", "StatefulSet"): "replicas",
    ("batch", "Job"): "parallelism",
    ("", "ReplicationController"): "replicas",
}
"""Kinds whose pod template is read, and the member of their spec that says how many pods are wanted."""


class Model(msgspec.Struct, frozen=True):
    """A pod, or pod template, as it is stored; how many the workload wants, None where it does not say."""

    template: JsonObject
    replicas: int | None = None
    live: bool = False


def model(
    group: str,
    kind: str,
    *,
    scale: Mapping[str, Any] | None,
    pods: Sequence[Mapping[str, Any]],
    workload: Mapping[str, Any] | None,
    failed: str = "",
) -> Model | str:
    """What the pods of a workload are like; why that is not known.

    Args:
        group: of the workload's kind; empty for the core group.
        kind: of the workload.
        scale: its scale subresource; None where there is none.
        pods: those that its selector finds; none without a selector, which would mean every pod of the namespace.
        workload: the object, of the kinds in `KNOWN`.
        failed: why scale or pods could not be read.
    """
    newest = _newest(pods)
    known = KNOWN.get((group, kind))
    said = ((workload or {}).get("spec") or {}).get(known) if known else None
    count = said if said is not None else ((scale or {}).get("spec") or {}).get("replicas")
    if known and workload is not None and count is None:
        count = 1
    if newest is not None:
        return Model(template=dict(newest), replicas=count, live=True)
    before = f"failed to resolve live pod: {failed}, " if failed else ""
    if known is None:
        return f"{before}failed to resolve scalable object: kind {group or 'core'}/{kind} is not supported to use pod template"
    template = ((workload or {}).get("spec") or {}).get("template")
    if not isinstance(template, dict):
        return f"{before}failed to resolve scalable object: it has no pod template"
    return Model(template=template, replicas=count)


def _newest(pods: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The newest pod that runs, or is about to: one that has failed or is going says nothing of those to come."""
    there = [
        pod
        for pod in pods
        if (pod.get("status") or {}).get("phase") in ("Pending", "Running")
        and not (pod.get("metadata") or {}).get("deletionTimestamp")
    ]
    return max(there, key=_created, default=None)


def _created(pod: Mapping[str, Any]) -> tuple[float, str]:
    metadata = pod.get("metadata") or {}
    return seconds_or_none(metadata.get("creationTimestamp")) or 0.0, str(metadata.get("name"))
