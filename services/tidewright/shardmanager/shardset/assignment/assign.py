"""Sticky assignment: who owns which slot, with the fewest moves (section 3.4)."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

import msgspec


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """A table of owners, and what changed against the one before.

    Attributes:
        table: the member of each slot; None for all when there is no member.
        moved: slots whose earlier owner is still a member and lost them, ascending.
        filled: slots that had no owner among the members, ascending.
    """

    quota: dict[str, int]
    table: tuple[str | None, ...]
    moved: tuple[int, ...]
    filled: tuple[int, ...]


def quotas(slots: int, weights: Mapping[str, int], held: Mapping[str, int]) -> dict[str, int]:
    """The number of slots that each member is due: its weighted share, rounded, `slots` in total.

    The rest of the division goes to the largest fractions; among equals to those who hold more than
    their share already, so that nothing moves for the sake of rounding; then by name.

    Weights are integers of at least 1; `held` is what each member has now.
    """
    total = sum(weights.values())
    due = {member: slots * weight // total for member, weight in sorted(weights.items())}
    rest = slots - sum(due.values())
    order = sorted(
        due,
        key=lambda m: (-(slots * weights[m] % total), held.get(m, 0) <= due[m], m),
    )
    for member in order[:rest]:
        due[member] += 1
    return due


def assign(
    slots: int,
    previous: Sequence[str | None],
    weights: Mapping[str, int],
    pins: Mapping[int, str] | None = None,
) -> Assignment:
    """Give every slot to a member: each keeps what it has up to its quota, pins aside.

    A leave moves only the leaver's slots; a join moves at most ceil(slots / members) slots, all to
    the newcomer (P13). A pin to somebody who is no member is ignored. O(slots log members).
    """
    if not weights:
        return Assignment(quota={}, table=(None,) * slots, moved=(), filled=())
    before = [owner if owner in weights else None for owner in previous]
    held: dict[str, int] = dict.fromkeys(sorted(weights), 0)
    for owner in before:
        if owner is not None:
            held[owner] += 1
    quota = quotas(slots, weights, held)

    table = list(before)
    valid_pins = {s: m for s, m in (pins or {}).items() if m in weights and 0 <= s < slots}
    for slot, member in valid_pins.items():
        table[slot] = member
    slots_of: dict[str, list[int]] = {member: [] for member in quota}
    for slot, owner in enumerate(table):
        if owner is not None:
            slots_of[owner].append(slot)
    count: dict[str, int] = {member: len(kept) for member, kept in slots_of.items()}
    for member, kept in slots_of.items():
        for slot in reversed(kept):
            if count[member] <= quota[member]:
                break
            if slot not in valid_pins:
                table[slot] = None
                count[member] -= 1

    lacking = [(count[member] - quota[member], member) for member in quota]
    heapq.heapify(lacking)
    for slot, owner in enumerate(table):
        if owner is None:
            missing, member = lacking[0]
            table[slot] = member
            heapq.heapreplace(lacking, (missing + 1, member))
    return Assignment(
        quota=quota,
        table=tuple(table),
        moved=tuple(s for s in range(slots) if before[s] is not None and before[s] != table[s]),
        filled=tuple(s for s in range(slots) if before[s] is None),
    )
