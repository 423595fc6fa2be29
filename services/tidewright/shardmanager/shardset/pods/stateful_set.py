"""The StatefulSet of a ShardSet whose workers it runs (driver `statefulset`): how many, and who goes first.

A StatefulSet takes its highest ordinals away. So before it shrinks, the members of those ordinals hand
over all their slots; it grows at once.
"""

from __future__ import annotations

from tidewright.events.base import Because, Decision, Event, ObjectRef
from tidewright.events.decisions import ScaleWorkload
from tidewright.events.facts import WorkloadGone, WorkloadObserved
from tidewright.sharding.document import Document
from tidewright.shardmanager.shardset.spec import KIND, Driver
from tidewright.shardmanager.shardset.state import ShardSetState
from tidewright.shardmanager.state import State

WORKLOAD = "StatefulSet"


def fold(state: State, event: Event) -> list[str]:
    """Keep the replicas of StatefulSets; the keys of the sets that one of them concerns."""
    match event:
        case WorkloadObserved(kind=kind, replicas=replicas) if kind == WORKLOAD:
            state.replicas[f"{event.namespace}/{event.name}"] = replicas
        case WorkloadGone(kind=kind) if kind == WORKLOAD:
            state.replicas.pop(f"{event.namespace}/{event.name}", None)
        case _:
            return []
    concerned = [
        shard_set
        for shard_set in state.sets.values()
        if shard_set.namespace == event.namespace and runs_on(shard_set, event.name)
    ]
    for shard_set in concerned:
        shard_set.seen(event.name)
    return [shard_set.key for shard_set in concerned]


def runs_on(shard_set: ShardSetState, name: str) -> bool:
    """Whether the workers of a set are the pods of this StatefulSet."""
    return shard_set.spec.driver is Driver.STATEFULSET and shard_set.spec.template == name


def ordinal(shard_set: ShardSetState, member: str) -> int | None:
    """The ordinal in a member's name, None when it is no pod of the set's StatefulSet."""
    stem, dash, number = member.rpartition("-")
    return int(number) if dash and stem == shard_set.spec.template and number.isdecimal() else None


def surplus(shard_set: ShardSetState, member: str) -> bool:
    """Whether a member is to hand over, because the StatefulSet is to shrink below it."""
    if shard_set.spec.driver is not Driver.STATEFULSET:
        return False
    member_ordinal = ordinal(shard_set, member)
    return member_ordinal is not None and member_ordinal >= shard_set.size


def scale(state: State, shard_set: ShardSetState, document: Document) -> list[Decision]:
    """The scale to ask for now: no ordinal is taken away that still holds slots."""
    name = shard_set.spec.template
    present = state.replicas.get(f"{shard_set.namespace}/{name}")
    if shard_set.spec.driver is not Driver.STATEFULSET or present is None:
        return []
    holding = {record.owner.partition("#")[0] for record in document.slots if record.owner}
    needed = max((n + 1 for m in holding if (n := ordinal(shard_set, m)) is not None), default=0)
    desired = max(shard_set.size, min(needed, present))
    if desired == present or f"scale {shard_set.namespace}/{name}" in state.in_flight:
        return []
    if shard_set.held("scale", name, state.now):
        return []
    values = {"shards": shard_set.size, "replicas": present, "still_holding": needed}
    return [
        ScaleWorkload(
            at=state.now,
            target=ObjectRef(api_version="apps/v1", kind=WORKLOAD, namespace=shard_set.namespace, name=name),
            replicas=desired,
            from_replicas=present,
            owner=f"{KIND}/{shard_set.namespace}/{shard_set.name}",
            because=(Because(rule="ShardCount", values=dict(values)),),
        )
    ]


def missing(state: State, shard_set: ShardSetState) -> str:
    """What to tell when the StatefulSet is not there, empty when it is."""
    name = shard_set.spec.template
    if shard_set.spec.driver is not Driver.STATEFULSET or f"{shard_set.namespace}/{name}" in state.replicas:
        return ""
    return f"statefulset {shard_set.namespace}/{name} not found"
