"""Gates as the specification draws them: old and new shards are contiguous ranges, stopped in order (section 3.5).

Ours opens a shard when no pod that was told a part of its work is left, whatever table the pods were told.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidewright.sharding.keyspace import shard_ranges
from tidewright.shardmanager.propeller.resize import owners


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    """A new shard's lock, held until the old owners of all its slots are proven gone."""

    new_index: int
    slots: tuple[int, int]
    opens_after_old: tuple[int, ...]


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """Stop one old shard; these new ones may then open."""

    stop_old: int
    then_open_new: tuple[int, ...]


def gates(slots: int, before: int, after: int) -> list[Gate]:
    """For each new shard the old ones that it waits for."""
    old = owners(slots, before)
    return [
        Gate(
            new_index=index,
            slots=(part.start, part.stop),
            opens_after_old=tuple(sorted({old[slot] for slot in part})),
        )
        for index, part in enumerate(shard_ranges(slots, after))
    ]


def feeds(gate_list: Sequence[Gate], before: int) -> list[tuple[int, ...]]:
    """For each old shard the new ones that wait for it."""
    return [
        tuple(gate.new_index for gate in gate_list if old in gate.opens_after_old) for old in range(before)
    ]


def steps(gate_list: Sequence[Gate], before: int) -> list[Step]:
    """The old shards in the order in which they are stopped, each with the new ones that open after it."""
    return [
        Step(
            stop_old=old,
            then_open_new=tuple(
                gate.new_index for gate in gate_list if max(gate.opens_after_old, default=0) == old
            ),
        )
        for old in range(before)
    ]
