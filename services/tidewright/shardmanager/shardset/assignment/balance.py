"""Moving slots for their load (section 3.4, Load): few moves, only beyond a band, only if they help."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction

import msgspec


class LoadMove(msgspec.Struct, frozen=True):
    """One slot from a member to another."""

    slot: int
    source: str
    target: str


class Balance(msgspec.Struct, frozen=True, kw_only=True):
    """The moves, the table after them, and the members' loads then."""

    moves: tuple[LoadMove, ...]
    table: tuple[str, ...]
    load: dict[str, int]


def loads(table: Sequence[str], cost: Sequence[int], members: Collection[str]) -> dict[str, int]:
    """The sum of the costs of each member's slots."""
    total = dict.fromkeys(sorted(members), 0)
    for owner, amount in zip(table, cost, strict=True):
        total[owner] += amount
    return total


def rebalance(
    table: Sequence[str],
    cost: Sequence[int],
    weights: Mapping[str, int],
    *,
    theta: Fraction,
    max_moves: int,
    cooling: Collection[int] = (),
) -> Balance:
    """Move slots from the most to the least loaded member while that narrows the gap between the two.

    `cost` is the busy time of each slot in integer units; `theta` the band: nothing happens while
    nobody is above `1 + theta` times the mean; `cooling` are slots that moved lately, and a slot
    that moves here cools down as well.
    """
    owner = list(table)
    load = loads(table, cost, weights)
    mean = Fraction(sum(load.values()), sum(weights.values()))
    moves: list[LoadMove] = []
    resting = set(cooling)

    def ratio(member: str, change: int = 0) -> Fraction:
        return Fraction(load[member] + change, weights[member])

    if max((ratio(m) for m in load), default=Fraction(0)) <= (1 + theta) * mean:
        return Balance(moves=(), table=tuple(owner), load=load)
    while len(moves) < max_moves:
        hottest = min(load, key=lambda m: (-ratio(m), m))
        coolest = min(load, key=lambda m: (ratio(m), m))
        if ratio(hottest) <= (1 + theta / 2) * mean:
            break
        candidates = [
            (max(ratio(hottest, -cost[slot]), ratio(coolest, cost[slot])), cost[slot], slot)
            for slot, member in enumerate(owner)
            if member == hottest and slot not in resting and cost[slot] > 0
        ]
        if not candidates or hottest == coolest:
            break
        after, amount, slot = min(candidates)
        if after >= ratio(hottest):
            break
        owner[slot] = coolest
        load[hottest] -= amount
        load[coolest] += amount
        resting.add(slot)
        moves.append(LoadMove(slot, hottest, coolest))
    return Balance(moves=tuple(moves), table=tuple(owner), load=load)


def hot_slots(
    table: Sequence[str], cost: Sequence[int], weights: Mapping[str, int], theta: Fraction
) -> list[int]:
    """Slots whose own cost is beyond the band of their member's share: no move of theirs helps."""
    mean = Fraction(sum(cost), sum(weights.values()) or 1)
    return [
        slot
        for slot, member in enumerate(table)
        if Fraction(cost[slot], weights[member]) > (1 + theta) * mean
    ]
