"""Which template a ShardSet's pods are to be made from: the newest, or the last one that was good."""

from __future__ import annotations

from tidewright.shardmanager.propeller.fleet import Template
from tidewright.shardmanager.shardset.state import ShardSetState
from tidewright.shardmanager.state import State


def wanted_template(state: State, shard_set: ShardSetState) -> Template | None:
    """The template to roll out: the last good one after an undo, and for one that was rolled back."""
    rollout, key = shard_set.rollout, f"{shard_set.namespace}/{shard_set.spec.template}"
    newest = state.templates.get(key) or rollout.template or rollout.good
    if newest is None:
        return None
    if rollout.good is not None and (shard_set.spec.undo or newest.version == rollout.rejected):
        return rollout.good
    return newest


def rejected(shard_set: ShardSetState, template: Template) -> str:
    """The version that a pause rolls back, where the spec asks for that; empty where nothing is."""
    rolls_back = shard_set.spec.rollback_auto and template != shard_set.rollout.good
    return template.version if rolls_back else ""
