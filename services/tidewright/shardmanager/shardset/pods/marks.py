"""The pods of a ShardSet by their names and marks: which are its own, and whose they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b

import msgspec

from tidewright.events.base import Because, JsonObject, ObjectRef
from tidewright.events.decisions import DeleteObject
from tidewright.shardmanager.propeller.fleet import KnownPod
from tidewright.shardmanager.shardset.members import MemberSeen
from tidewright.shardmanager.shardset.pods import gates
from tidewright.shardmanager.shardset.spec import API_VERSION, GENERATION_ANNOTATION, KIND, SET_LABEL, SetSpec
from tidewright.shardmanager.shardset.state import ShardSetState
from tidewright.shardmanager.state import State


def index_of(shard_set: ShardSetState, name: str) -> int | None:
    """The shard index in a pod's name, None when it is no pod name of this set."""
    stem, dash, number = name.rpartition("-")
    if dash and stem == shard_set.name and number.isdecimal():
        return int(number)
    gated = gates.read_pod(shard_set, name)
    return gated.index if gated is not None else None


def managed(state: State, shard_set: ShardSetState) -> list[KnownPod]:
    pods = state.pods.get(shard_set.namespace, {})
    return [pods[name] for name in sorted(pods) if is_managed(shard_set, pods[name])]


def is_managed(shard_set: ShardSetState, pod: KnownPod) -> bool:
    return (
        pod.labels.get(SET_LABEL) == shard_set.name
        and GENERATION_ANNOTATION in pod.annotations
        and index_of(shard_set, pod.name) is not None
    )


def member_named(shard_set: ShardSetState, name: str) -> MemberSeen | None:
    return next((m for m in shard_set.members.values() if m.name == name and not m.lost), None)


def id_of(pod: KnownPod | None) -> str:
    return f"{pod.name}#{pod.uid}" if pod is not None else ""


def deletion(
    state: State, shard_set: ShardSetState, pod: KnownPod, rule: str, grace_period_s: int | None = None
) -> Iterator[DeleteObject]:
    """The deletion of a pod, unless one is under way already."""
    if f"delete {shard_set.namespace}/{pod.name}" in state.in_flight:
        return
    if shard_set.held("delete", pod.name, state.now):
        return
    yield DeleteObject(
        at=state.now,
        target=ObjectRef(
            api_version="v1", kind="Pod", namespace=shard_set.namespace, name=pod.name, uid=pod.uid
        ),
        grace_period_s=grace_period_s,
        because=(Because(rule=rule, values={"pod": pod.name, "phase": pod.phase}),),
    )


def set_ref(shard_set: ShardSetState) -> ObjectRef:
    return ObjectRef(
        api_version=API_VERSION,
        kind=KIND,
        namespace=shard_set.namespace,
        name=shard_set.name,
        uid=shard_set.uid,
    )


_encoder = msgspec.json.Encoder(order="deterministic")


def digest_of(content: JsonObject | Sequence[object]) -> str:
    return blake2b(_encoder.encode(content), digest_size=8).hexdigest()


def overdue(spec: SetSpec, pod: KnownPod, now: float) -> bool:
    """Whether a pod has been on its way out for longer than it may."""
    return pod.deleting_since is not None and now >= pod.deleting_since + spec.fence_after_s
