"""The three strategies of the propeller manager: what each shard is told on its command line (section 1.5)."""

from __future__ import annotations

from tidewright.sharding.keyspace import shard_range
from tidewright.shardmanager.propeller.config import KEYSPACE, WILDCARD, ShardConfig, ShardType

INCLUDE_SHARD_KEY = "--propeller.include-shard-key-label"
LOCK_NAME = "--propeller.leader-election.lock-config-map.Name"
_LABEL = {ShardType.PROJECT: "project", ShardType.DOMAIN: "domain"}


class IndexOutOfRange(ValueError):
    """A shard index that the configuration does not have."""


def lock_name(index: int) -> str:
    """The worker's lock as the original names it: without the application (section 1.11)."""
    return f"propeller-leader-{index}"


def native_lock_name(application: str, index: int) -> str:
    """Our workers' lock: with the application, so that two managers in a namespace do not share it."""
    return f"{application}-leader-{index}"


def shard_args(shard: ShardConfig, index: int) -> list[str]:
    """The arguments that shard `index` gets after its template's own.

    Raises:
        IndexOutOfRange: there is no such shard.
    """
    if not 0 <= index < shard.pod_count:
        raise IndexOutOfRange(f"invalid podIndex '{index}' out of range [0,{shard.pod_count})")
    if shard.type is ShardType.HASH:
        pairs = [(INCLUDE_SHARD_KEY, str(key)) for key in slots(shard, index)]
    else:
        pairs = _mapping_pairs(shard, index)
    return [*(part for pair in pairs for part in pair), f"{LOCK_NAME}={lock_name(index)}"]


def slots(shard: ShardConfig, index: int) -> range:
    """The shard keys of a shard of the hash strategy."""
    return shard_range(KEYSPACE, shard.shard_count, index)


def _mapping_pairs(shard: ShardConfig, index: int) -> list[tuple[str, str]]:
    label = _LABEL[shard.type]
    mappings = shard.per_shard_mapping
    if WILDCARD in mappings[index].ids:
        others = [mapping for other, mapping in enumerate(mappings) if other != index]
        return [(f"--propeller.exclude-{label}-label", value) for m in others for value in m.ids]
    return [(f"--propeller.include-{label}-label", value) for value in mappings[index].ids]
