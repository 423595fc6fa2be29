"""Deployment arithmetic: how many pods each ReplicaSet of a Deployment may have next.

Pure numbers. `Sizes` says what there is, the functions what comes next; they follow the real
controller's rules: never more than `replicas + surge` pods in all, never fewer than
`replicas - unavailable` available ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidewright.sim.controllers.objects import share


class Sizes(msgspec.Struct, frozen=True):
    """One ReplicaSet.

    Attributes:
        created: seconds since the epoch; older ones shrink first.
    """

    name: str
    replicas: int
    available: int
    created: float = 0.0


class Bounds(msgspec.Struct, frozen=True):
    """What a rolling update may use: absolute numbers of pods."""

    replicas: int
    surge: int
    unavailable: int

    @classmethod
    def of(cls, replicas: int, max_surge: int | str, max_unavailable: int | str) -> Bounds:
        """Resolve percentages: surge rounds up, unavailable down; both 0 means one unavailable."""
        surge = share(max_surge, replicas, up=True)
        unavailable = min(share(max_unavailable, replicas, up=False), replicas)
        if surge == 0 and unavailable == 0:
            unavailable = 1
        return cls(replicas, surge, unavailable)


def grow_new(new: Sizes, old: Sequence[Sizes], bounds: Bounds) -> int:
    """Replicas of the new ReplicaSet: as many more as the surge leaves room for."""
    if new.replicas >= bounds.replicas:
        return bounds.replicas
    total = new.replicas + sum(replica_set.replicas for replica_set in old)
    room = bounds.replicas + bounds.surge - total
    return new.replicas + max(0, min(room, bounds.replicas - new.replicas))


def shrink_old(new: Sizes, old: Sequence[Sizes], bounds: Bounds) -> dict[str, int]:
    """Replicas of the old ReplicaSets that change: unavailable pods first, then by age."""
    total = new.replicas + sum(replica_set.replicas for replica_set in old)
    minimum = bounds.replicas - bounds.unavailable
    spare = total - minimum - (new.replicas - new.available)
    sizes = {replica_set.name: replica_set.replicas for replica_set in old}
    if spare <= 0:
        return {}
    by_age = sorted(old, key=lambda replica_set: (replica_set.created, replica_set.name))
    for replica_set in by_age:
        take = min(spare, max(replica_set.replicas - replica_set.available, 0))
        sizes[replica_set.name] -= take
        spare -= take
    # What is available and above the minimum may go as well.
    surplus = new.available + sum(replica_set.available for replica_set in old) - minimum
    for replica_set in by_age:
        take = max(0, min(sizes[replica_set.name], surplus))
        sizes[replica_set.name] -= take
        surplus -= take
    return {
        replica_set.name: sizes[replica_set.name]
        for replica_set in by_age
        if sizes[replica_set.name] != replica_set.replicas
    }


def proportional(sets: Sequence[Sizes], limit: int, largest: str) -> dict[str, int]:
    """Resize several ReplicaSets together when a Deployment is scaled in mid-rollout.

    Each gets its share of the difference between `limit` (replicas and surge) and the present
    total, rounded half away from zero; what rounding leaves goes to the largest (`largest` names
    the newest, which counts as larger than an equal one).
    """
    total = sum(replica_set.replicas for replica_set in sets)
    change = limit - total
    if total == 0 or change == 0:
        return {}
    ordered = sorted(
        sets,
        key=lambda replica_set: (
            -replica_set.replicas,
            replica_set.name != largest,
            replica_set.created,
            replica_set.name,
        ),
    )
    sizes: dict[str, int] = {}
    given = 0
    for replica_set in ordered:
        portion = _round_half_away(replica_set.replicas * limit, total) - replica_set.replicas
        remaining = change - given
        portion = min(portion, remaining) if change > 0 else max(portion, remaining)
        sizes[replica_set.name] = replica_set.replicas + portion
        given += portion
    first = ordered[0].name
    sizes[first] = max(0, sizes[first] + change - given)
    return {
        replica_set.name: sizes[replica_set.name]
        for replica_set in ordered
        if sizes[replica_set.name] != replica_set.replicas
    }


def _round_half_away(numerator: int, denominator: int) -> int:
    return (2 * numerator + denominator) // (2 * denominator)
