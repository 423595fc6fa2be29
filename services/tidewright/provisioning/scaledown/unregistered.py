"""Instances that never became a node: which of a group's are deleted. Addendum 3.3."""

from __future__ import annotations

from collections.abc import Sequence


def to_delete(
    long: Sequence[str],
    everything: Sequence[str],
    *,
    target: int,
    minimum: int,
    zero_or_max: bool = False,
    allow_non_atomic: bool = False,
    all_failed: bool = False,
    force: bool = False,
) -> list[str]:
    """The instances of a group that are deleted.

    Args:
        long: those without a node for too long, in the order of the list.
        everything: all of the group's that are not being deleted.
        target: its size.
        minimum: its smallest one; not forced it never goes below that.
        zero_or_max: the group goes as a whole.
        allow_non_atomic: though it may have grown in part: then it stays as long as some of it came.
        all_failed: all of them are in `long`; a group that may shrink in part is then given up as a whole.
        force: whatever the minimum is.
    """
    if not long:
        return []
    if zero_or_max:
        if allow_non_atomic and not all_failed:
            return []
        return list(everything) if force or len(long) <= target - minimum else []
    return list(long) if force else list(long)[: max(0, target - minimum)]
