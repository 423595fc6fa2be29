"""Pods that have to be spread evenly over domains, zones mostly, divided among these beforehand.

A pod of which it is settled in which domain it goes looks at no other node, and can be planned as one with those that never do. Each domain
gets what makes it even; where nodes cannot come in one, no other gets more than the skew allows beside it. Whether the plan kept to
that is looked at when it stands: limits may have left pods of one domain without a place. Then no other is to get more beside what that one got.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from tidewright.kube.podshape import HOSTNAME, PodShape
from tidewright.provisioning.cluster.groups import Group
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.pack.classes import Item
from tidewright.provisioning.pack.grid import Grid
from tidewright.provisioning.pack.topology import SpreadCount


class InDomain(NamedTuple):
    """Pods of one shape that go to one domain.

    Attributes:
        pods: how many.
        groups: whose nodes are in it, and hold them.
    """

    pods: int
    groups: frozenset[NodeGroupId]


def without_spread(shape: PodShape, shapes: Sequence[PodShape]) -> PodShape | None:
    """The shape as one of which it is settled in which domain its pods go; None where that cannot be.

    It has one constraint, not about single nodes, which counts its own pods and no others of `shapes`, those that wait.
    """
    if len(shape.spread) != 1:
        return None
    (constraint,) = shape.spread
    if constraint.key == HOSTNAME or not constraint.counts(shape.labels):
        return None
    if any(
        other.digest != shape.digest
        and other.namespace == shape.namespace
        and constraint.counts(other.labels)
        for other in shapes
    ):
        return None
    return msgspec.structs.replace(shape, spread=())


def parts_of(
    item: Item, groups: Sequence[Group], grid: Grid, highest: int | None = None
) -> tuple[InDomain, ...]:
    """A shape's pods by domain, of equal ones the cheapest first; fewer than there are where a domain that cannot grow keeps the others down.

    Args:
        item: its shape has one constraint.
        groups: those that hold it and may grow by any number.
        grid: where its like are now.
        highest: no domain is to have more, where that is known.
    """
    (constraint,) = item.shape.spread
    if any(group.also or group.beside for group in groups):
        return ()  # which zones those come to is not settled
    within: dict[str, list[Group]] = {}
    for group in groups:
        domain = group.labels.get(constraint.key)
        if domain is not None:
            within.setdefault(domain, []).append(group)
    there = SpreadCount(grid, item.shape, constraint).pods()
    open_to = sorted(within, key=lambda domain: (min(g.price_micro or 0 for g in within[domain]), domain))
    shut = [pods for domain, pods in there.items() if domain not in within]
    if len(there.keys() | within.keys()) < constraint.min_domains:
        shut.append(0)
    most = min(shut) + constraint.max_skew if shut else None
    if highest is not None:
        most = highest if most is None else min(most, highest)
    levels = _raised([there.get(domain, 0) for domain in open_to], item.count, most)
    return tuple(
        InDomain(pods, frozenset(group.id for group in within[domain]))
        for domain, pods in zip(open_to, levels, strict=True)
        if pods
    )


def _raised(levels: Sequence[int], count: int, most: int | None) -> list[int]:
    """What each gets of so many where always the lowest gets the next, and none comes above `most`."""
    now = list(levels)
    while count > 0 and now:
        lowest = min(now)
        those = [i for i, level in enumerate(now) if level == lowest]
        step = min((level - lowest for level in now if level > lowest), default=count)
        if most is not None:
            step = min(step, most - lowest)
        if step <= 0:
            break
        each = min(step, count // len(those))
        for i in those[: None if each else count]:
            now[i] += max(each, 1)
        count -= each * len(those) if each else min(count, len(those))
    return [after - before for before, after in zip(levels, now, strict=True)]


def highest(shape: PodShape, before: Grid, after: Grid, open_to: Iterable[Group]) -> int | None:
    """How many pods a domain may have beside the lowest one, where some that came to a grid are above that; None where they are not.

    Domains are those with nodes, and those where nodes may come in these groups.
    """
    (constraint,) = shape.spread
    had, have = (SpreadCount(grid, shape, constraint).pods() for grid in (before, after))
    domains = {group.labels[constraint.key] for group in open_to if constraint.key in group.labels}
    levels = dict.fromkeys(domains, 0) | have
    lowest = 0 if len(levels) < constraint.min_domains else min(levels.values(), default=0)
    most = lowest + constraint.max_skew
    return most if any(pods > max(most, had.get(domain, 0)) for domain, pods in levels.items()) else None
