"""One step of a rolling update of shards (section 3.7)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Literal

import msgspec

PROGRESS_DEADLINE_S = 600.0


class ShardState(StrEnum):
    """How one shard is. `SETTLING`: ready, but not for `minReady` or with its backlog still high."""

    READY = "Ready"
    SETTLING = "ReadyNotSettled"
    STARTING = "Starting"
    TERMINATING = "Terminating"
    NOT_READY = "NotReady"
    FAILED = "Failed"
    MISSING = "Missing"


class ShardStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One shard: its place, which generation runs there, and how."""

    index: int
    generation: int | str
    state: ShardState


class Rollout(msgspec.Struct, frozen=True, kw_only=True):
    """A rollout under way.

    Attributes:
        canary: after this many shards hold until `approved`; 0: no canary.
        since_progress_s: seconds since a shard last became ready in the wanted generation.
    """

    desired: int | str
    shards: tuple[ShardStatus, ...]
    max_unavailable: int = 1
    paused: bool = False
    last_good: int | str | None = None
    since_progress_s: float = 0.0
    progress_deadline_s: float = PROGRESS_DEADLINE_S
    canary: int = 0
    approved: bool = False


class RolloutStep(msgspec.Struct, frozen=True, kw_only=True):
    """What to do now. `index` -1 where no single shard is meant."""

    action: Literal["create", "replace", "wait", "pause", "done"]
    index: int = -1
    generation: int | str | None = None
    reason: str = ""


_UNAVAILABLE = frozenset(
    {ShardState.STARTING, ShardState.TERMINATING, ShardState.NOT_READY, ShardState.FAILED, ShardState.MISSING}
)


def next_step(rollout: Rollout) -> RolloutStep:
    """Restore what is missing first, then wait for what is not ready, then replace the lowest outdated."""
    shards = sorted(rollout.shards, key=lambda s: s.index)
    if lost := _first(shards, ShardState.MISSING) or _first(shards, ShardState.FAILED):
        paused = rollout.paused and rollout.last_good is not None
        return RolloutStep(
            action="create",
            index=lost.index,
            generation=rollout.last_good if paused else rollout.desired,
        )
    outdated = [s for s in shards if s.generation != rollout.desired]
    unavailable = [s for s in shards if s.state in _UNAVAILABLE]
    settling = [s for s in shards if s.state is ShardState.SETTLING]
    if not outdated and not unavailable and not settling:
        return RolloutStep(action="done")
    if rollout.paused:
        return RolloutStep(action="wait", reason="Paused")
    if rollout.since_progress_s > rollout.progress_deadline_s:
        # The shard to name is the one that was replaced and does not come up.
        stuck = next((s for s in unavailable if s.generation == rollout.desired), None)
        index = stuck.index if stuck else (unavailable or outdated or settling)[0].index
        return RolloutStep(action="pause", reason="ProgressDeadlineExceeded", index=index)
    if len(unavailable) >= rollout.max_unavailable:
        return RolloutStep(action="wait", reason="MaxUnavailable")
    if settling:
        return RolloutStep(action="wait", reason="MinReadySeconds")
    if not outdated:
        return RolloutStep(action="wait", reason="NotReady")
    updated = len(shards) - len(outdated)
    if rollout.canary and updated >= rollout.canary and not rollout.approved:
        return RolloutStep(action="wait", reason="CanaryHold")
    ready = [s for s in outdated if s.state not in _UNAVAILABLE]
    if not ready:
        return RolloutStep(action="wait", reason="NotReady")
    return RolloutStep(action="replace", index=ready[0].index, generation=rollout.desired)


def _first(shards: Sequence[ShardStatus], state: ShardState) -> ShardStatus | None:
    return next((s for s in shards if s.state is state), None)
