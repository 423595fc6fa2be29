"""What a change of the number of contiguous shards does, before it is done (section 1.8)."""

from __future__ import annotations

import msgspec

from tidewright.sharding.keyspace import COMPAT_SLOTS, shard_ranges


class ResizeEffects(msgspec.Struct, frozen=True, kw_only=True):
    """A resize in compat mode.

    Attributes:
        changing: slots whose shard index changes, ascending.
        new_indexes: shards whose names are free at once, so that their pods start in the first pass.
        doubly_owned: slots of those shards, which old pods may still run.
        minimal_moves: what any method has to move between balanced shards of these two counts.
    """

    changing: tuple[int, ...]
    new_indexes: tuple[int, ...]
    doubly_owned: tuple[int, ...]
    deleted_in_first_pass: int
    minimal_moves: int


def effects(slots: int, before: int, after: int) -> ResizeEffects:
    """What going from `before` to `after` contiguous shards does."""
    old, new = owners(slots, before), owners(slots, after)
    added = range(before, max(before, after))
    return ResizeEffects(
        changing=tuple(slot for slot in range(slots) if old[slot] != new[slot]),
        new_indexes=tuple(added),
        doubly_owned=tuple(slot for slot in range(slots) if new[slot] in added),
        deleted_in_first_pass=before if before != after else 0,
        minimal_moves=minimal_moves(slots, before, after),
    )


def warning(before: int, after: int) -> str:
    """What a fleet's users have to know of a new number of hash shards: the original moves more than it must (1.8)."""
    resize = effects(COMPAT_SLOTS, before, after)
    said = (
        f"from {before} to {after} shards all {resize.deleted_in_first_pass} pods are replaced and {len(resize.changing)} "
        f"of {COMPAT_SLOTS} shard keys change their shard, where {resize.minimal_moves} would do"
    )
    if not resize.doubly_owned:
        return said
    keys = f"{resize.doubly_owned[0]} to {resize.doubly_owned[-1]}"
    return f"{said}; shard keys {keys} have two pods until the old ones are gone"


def owners(slots: int, count: int) -> list[int]:
    """The shard index of each slot."""
    return [index for index, part in enumerate(shard_ranges(slots, count)) for _ in part]


def minimal_moves(slots: int, before: int, after: int) -> int:
    """Slots that must move: whoever had most keeps most, and nobody keeps more than the new share."""
    held = sorted(map(len, shard_ranges(slots, before)), reverse=True)
    shares = sorted(map(len, shard_ranges(slots, after)), reverse=True)
    return slots - sum(min(h, s) for h, s in zip(held, shares, strict=False))
