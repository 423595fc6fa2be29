"""Changing how many: shards, and slots."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from tidewright.asking.errors import BadInput
from tidewright.cli.shards.reading import ReadSet
from tidewright.cli.shards.where import (
    SetOptions,
    Yes,
    changed,
)


def resized(shard_set: ReadSet, count: int) -> tuple[str, dict[str, Any]]:
    """Another number of shards, as a change.

    Raises:
        BadInput: this set's number is not the spec's to say.
    """
    workers, autosize = shard_set.section("workers"), shard_set.section("autosize")
    who = f"shardset {shard_set.namespace}/{shard_set.name}"
    if count < 0:
        raise BadInput(f"{count} shards: expected a number of at least 0")
    if workers.get("driver", "external") == "external":
        raise BadInput(f"{who} has external workers: somebody else starts them, so start or stop some there")
    if autosize:
        bounds = f"{autosize.get('min', 1)} to {autosize.get('max', 16)}"
        raise BadInput(f"{who} is sized by its load, from {bounds}: change autosize.min or autosize.max")
    if shard_set.mapped:
        raise BadInput(
            f"{who} has a shard for each of assignment.perShard: change that list, with `shards plan -f` first"
        )
    before = workers.get("replicas", 1)
    return f"Resize from {before} to {count} shards.", {"workers": {"replicas": count}}


def doubled(shard_set: ReadSet) -> tuple[str, dict[str, Any]]:
    """Twice the slots, as a change."""
    slots = len(shard_set.document.slots)
    if shard_set.mapped:
        raise BadInput(
            f"shardset {shard_set.namespace}/{shard_set.name} has values of a label (strategy mapping) and no keyspace to double"
        )
    return f"Double the keyspace from {slots} to {2 * slots} slots.", {"keyspace": {"slots": 2 * slots}}


def resize(
    count: Annotated[int, Parameter(help="How many there are to be.")],
    *,
    where: SetOptions | None = None,
    yes: Yes = False,
) -> int:
    """Change the number of shards."""
    return changed(where, lambda shard_set: resized(shard_set, count), yes=yes)


def double(
    *,
    where: SetOptions | None = None,
    yes: Yes = False,
) -> int:
    """Double the keyspace; no key changes its owner."""
    return changed(where, doubled, yes=yes)
