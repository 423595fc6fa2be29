"""What the worker of one shard of a set is told: its slots, and how they get into its container."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy

from tidewright.events.base import JsonObject
from tidewright.sharding.keyspace import runs, shard_ranges
from tidewright.shardmanager.propeller.pods import find_container, pod_metadata
from tidewright.shardmanager.propeller.strategy import native_lock_name
from tidewright.shardmanager.propeller.worker import names_shard_flag
from tidewright.shardmanager.shardset import mapping
from tidewright.shardmanager.shardset.assignment.assign import assign
from tidewright.shardmanager.shardset.pods import inject
from tidewright.shardmanager.shardset.pods.claims import Claim
from tidewright.shardmanager.shardset.pods.inject import Injected, Injector
from tidewright.shardmanager.shardset.spec import (
    API_VERSION,
    KIND,
    SLOTS_ANNOTATION,
    VALUES_ANNOTATION,
    SetSpec,
    Strategy,
)
from tidewright.shardmanager.shardset.state import ShardSetState


def tables(shard_set: ShardSetState) -> list[list[int]]:
    """The slots of each shard by index; empty lists for workers that follow the assignment themselves.

    The table that the running pods were told is the earlier one, so that a resize moves as little as
    the strategy allows.
    """
    spec, size = shard_set.spec, shard_set.size
    if spec.dynamic or not size:
        return [[] for _index in range(size)]
    if spec.mapped:
        return [[index] for index in range(size)]
    if spec.strategy is Strategy.RANGES:
        return [list(part) for part in shard_ranges(spec.slots, size)]
    width = len(str(size))
    names = [f"{index:0{width}d}" for index in range(size)]
    known = shard_set.index_table or [-1] * spec.slots
    if len(known) * 2 == spec.slots:
        known = [*known, *known]  # a doubling that the document is about to make
    previous = [names[index] if 0 <= index < size else None for index in known]
    if None not in previous and len(set(previous)) == size:
        # The same shards as before: nothing moves, not even for a quota that a doubling has rounded anew.
        table: Sequence[str | None] = previous
    else:
        table = assign(spec.slots, previous, dict.fromkeys(names, 1)).table
    slots_by_shard: list[list[int]] = [[] for _index in range(size)]
    for slot, name in enumerate(table):
        slots_by_shard[int(name or 0)].append(slot)
    return slots_by_shard


def told_tables(shard_set: ShardSetState, table: Sequence[Sequence[int]]) -> tuple[str, ...]:
    """What is to be remembered of the tables, as runs: where a resize is to move as little as it can."""
    spec = shard_set.spec
    if spec.dynamic or spec.mapped or spec.strategy is Strategy.RANGES:
        return ()
    return tuple(runs(part) for part in table)


def index_of_slot(table: Sequence[Sequence[int]], slots: int) -> list[int]:
    """The shard index of each slot, -1 where no shard has it."""
    indices = [-1] * slots
    for index, part in enumerate(table):
        for slot in part:
            indices[slot] = index
    return indices


def injected(
    shard_set: ShardSetState, index: int, table: Sequence[Sequence[int]], lock: str = ""
) -> Injected:
    """What the container of a shard gets; `lock` is its worker's lock in gate mode."""
    injection = _injected(shard_set, index, table, lock or native_lock_name(shard_set.name, index))
    if shard_set.spec.lock_flag and lock:
        return Injected(args=(*injection.args, f"{shard_set.spec.lock_flag}={lock}"), env=injection.env)
    return injection


def _injected(shard_set: ShardSetState, index: int, table: Sequence[Sequence[int]], lock: str) -> Injected:
    spec, size, slots = shard_set.spec, shard_set.size, table[index] if index < len(table) else ()
    if spec.mapped:
        values, rest = mapping.included(spec.per_shard, index)
        return inject.mapped(
            spec.injector,
            spec.label,
            values,
            rest=rest,
            lock=lock,
            flag=spec.flag,
        )
    match spec.injector:
        case Injector.PROPELLER:
            return inject.propeller(slots, index, lock)
        case Injector.SELECTOR_FLAG:
            return inject.selector_flag(spec.slot_label, slots, flag=spec.flag or inject.SELECTOR_FLAG)
        case Injector.ORDINAL_FLAGS:
            return inject.ordinal_flags(index, size)
        case Injector.ORDINAL_ENV:
            return inject.ordinal_env(index, size, spec.names or inject.ORDINAL_NAMES)
        case Injector.SLOTS_ENV:
            return inject.slots_env(slots)
        case Injector.DYNAMIC:
            return Injected()


def claim(shard_set: ShardSetState, index: int, table: Sequence[Sequence[int]]) -> Claim:
    """What a shard's pod may act on."""
    if shard_set.spec.mapped:
        values, rest = mapping.included(shard_set.spec.per_shard, index)
        return Claim(values=frozenset(values), mapped=True, rest=rest)
    return Claim(slots=frozenset(table[index]))


def said(shard_set: ShardSetState, index: int, table: Sequence[Sequence[int]]) -> dict[str, str]:
    """The annotations that say what a pod was told."""
    values = claim(shard_set, index, table).annotation
    return {SLOTS_ANNOTATION: runs(table[index])} | ({VALUES_ANNOTATION: values} if values else {})


def pod_parts(
    shard_set: ShardSetState,
    template: JsonObject,
    index: int,
    table: Sequence[Sequence[int]],
    *,
    name: str,
    lock: str = "",
    annotations: Mapping[str, str],
    labels: Mapping[str, str],
) -> tuple[JsonObject, JsonObject]:
    """Metadata and spec of a shard's pod. The ShardSet owns it, so no pruned ReplicaSet can take it along."""
    spec = deepcopy(template.get("spec") or {})
    container = find_container(spec, shard_set.spec.container)
    injection = injected(shard_set, index, table, lock)
    if injection.args:
        container["args"] = [*(container.get("args") or []), *injection.args]
    identity = {
        "name": "POD_UID",
        "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}},
    }
    env = [e for e in container.get("env") or [] if e.get("name") not in (*injection.env, "POD_UID")]
    container["env"] = [*env, *({"name": k, "value": v} for k, v in injection.env.items()), identity]
    owner = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": shard_set.name,
        "uid": shard_set.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }
    metadata = pod_metadata(
        template.get("metadata") or {},
        name=name,
        namespace=shard_set.namespace,
        labels=labels,
        annotations=annotations,
        owner_references=[owner],
    )
    return metadata, spec


def conflicting_flag(spec: SetSpec, container: JsonObject) -> str | None:
    """A sharding flag in the template's own arguments: it would add up with the injected ones."""
    args = container.get("args") or []
    if spec.injector is Injector.PROPELLER:
        return names_shard_flag(args)
    flag = {Injector.SELECTOR_FLAG: spec.flag or inject.SELECTOR_FLAG, Injector.ORDINAL_FLAGS: "--shard"}.get(
        spec.injector, ""
    )
    return next((arg for arg in args if flag and arg.partition("=")[0] == flag), None)
