"""Where there are more shapes than classes: a plan for classes, whose pods ask for what theirs ask for on average, made one for the pods there are.

Each node gets pods of the classes that it was planned for, small ones and large ones in turn; what is too much on it goes where
others have some left, the largest first. What is left then is the next plan's, and so are the pods of the worst nodes.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tidewright.provisioning.pack.nodes import Ints
from tidewright.provisioning.scaleup.leastcost.bound import Floats
from tidewright.provisioning.scaleup.leastcost.patterns import FINE, whole
from tidewright.provisioning.scaleup.leastcost.problem import Problem
from tidewright.provisioning.scaleup.leastcost.search import FilledNodes

LOOKS = 20_000_000
"""Nodes looked at for pods that were too much where they were planned; what is left then is the next plan's."""
GOOD = 0.98
"""A node whose pods are worth more than this part of its price stays as it is."""


class Realised(NamedTuple):
    """Attributes:
    held: per node its group, and items with their pods.
    rest: pods per item without a node.
    """

    held: list[tuple[int, Counter[int]]]
    rest: Ints


def realised(classes: Problem, items: Problem, nodes: Sequence[FilledNodes]) -> Realised:
    """Nodes that were planned for classes, with pods of their items; `items` is the problem in which each is a class of its own."""
    size = _sizes(items)
    queues = [_dealt(members, size, items.counts) for members in classes.members]
    free: list[list[int]] = []
    held: list[tuple[int, Counter[int]]] = []
    over: list[int] = []
    requests = items.requests.tolist()
    # Those that are a class of their own first: they ask for just what was planned, and some share no node with others.
    large = _sizes(classes).tolist()
    order = sorted(range(len(queues)), key=lambda c: (len(classes.members[c]) > 1, -large[c], c))
    for planned in nodes:
        there = [c for c in order if planned.held[c]]
        for _ in range(planned.nodes):
            left, pods = classes.capacity[planned.group].tolist(), Counter[int]()
            for c in there:
                for _ in range(min(planned.held[c], len(queues[c]))):
                    item = queues[c].popleft()
                    if all(a <= b for a, b in zip(requests[item], left, strict=True)):
                        left = [b - a for a, b in zip(requests[item], left, strict=True)]
                        pods[item] += 1
                    else:
                        over.append(item)
            if pods:
                held.append((planned.group, pods))
                free.append(left)
    over += [item for queue in queues for item in queue]
    over.sort(key=lambda item: (-float(size[item]), item))
    rest = np.zeros(len(items.counts), dtype=np.int64)
    for item in _fitted(items, over, held, np.array(free, dtype=np.float64)):
        rest[item] += 1
    return Realised(held, rest)


def reopened(made: Realised, items: Problem, worth: Floats, most: int) -> Realised:
    """Without its worst nodes: as many as leave no more than so many items to be planned anew, each by itself.

    A node is the worse the less its pods are worth for its price; `worth` is that of one pod of each item.
    """
    each, price, rest = whole(worth).astype(np.int64).tolist(), items.price.tolist(), made.rest.copy()
    parts = [
        sum(each[item] * pods for item, pods in held.items()) / (FINE * price[group])
        for group, held in made.held
    ]
    left = int(np.count_nonzero(rest))
    gone: set[int] = set()
    for node in sorted(range(len(parts)), key=parts.__getitem__):
        held = made.held[node][1]
        left += sum(not rest[item] for item in held)
        if parts[node] > GOOD or left > most:
            break
        for item, pods in held.items():
            rest[item] += pods
        gone.add(node)
    return Realised([node for number, node in enumerate(made.held) if number not in gone], rest)


def _fitted(
    items: Problem, over: Sequence[int], held: Sequence[tuple[int, Counter[int]]], free: Floats
) -> list[int]:
    """Put pods where the least is left beside them; those that fit nowhere."""
    if not held:
        return list(over)
    looks = LOOKS // len(held)
    groups = np.array([group for group, _ in held])
    unit = 1.0 / np.maximum(items.capacity[groups].astype(np.float64), 1.0)
    resources = range(free.shape[1])
    nowhere: list[int] = []
    for item in over[:looks]:
        asks = items.requests[item]
        room = items.most[groups, item] > 0
        left = np.zeros(len(held))
        for r in resources:
            room &= free[:, r] >= asks[r]
            left += (free[:, r] - asks[r]) * unit[:, r]
        best = int(np.where(room, left, np.inf).argmin())
        if room[best] and item not in items.apart:
            free[best] -= asks
            held[best][1][item] += 1
        else:
            nowhere.append(item)
    return [*nowhere, *over[looks:]]


def _sizes(items: Problem) -> Floats:
    """How large each item is, beside the largest node of each resource."""
    most = np.maximum(items.capacity.max(axis=0, initial=1), 1).astype(np.float64)
    size = np.zeros(len(items.counts))
    for r in range(items.requests.shape[1]):
        size += items.requests[:, r] / most[r]
    return size


def _dealt(members: Sequence[int], size: Floats, counts: Ints) -> deque[int]:
    """The pods of a class, the smallest and the largest in turn: some of them ask for as much as so many on average."""
    pods = [
        item for item in sorted(members, key=lambda i: (float(size[i]), i)) for _ in range(int(counts[item]))
    ]
    half = len(pods) // 2
    dealt: deque[int] = deque()
    for small, large in zip(pods[:half], reversed(pods[half:]), strict=False):
        dealt += (large, small)
    if len(pods) % 2:
        dealt.append(pods[half])
    return dealt
