"""Who is examined first, and how many unneeded nodes are enough. Spec 4.2, addendum 1."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from tidewright.provisioning.scaledown.scene import SceneNode

EMPTY, EMPTY_BUT_WAITING, OCCUPIED = 0, 1, 2


def examined(
    nodes: Iterable[SceneNode], kind: Callable[[SceneNode], int], unneeded: Collection[str]
) -> list[SceneNode]:
    """Empty nodes, then empty ones that wait for a pod to complete, then the rest; in each those unneeded before first."""
    ranked: tuple[list[SceneNode], ...] = tuple([] for _ in range(6))
    for node in nodes:
        ranked[2 * kind(node) + (node.name not in unneeded)].append(node)
    return [node for alike in ranked for node in alike]


def enough(unneeded_before: int, *, parallelism: int, unneeded_s: float, interval_s: float) -> int:
    """How many nodes are collected at most, those of zero-or-max groups not counted.

    Args:
        unneeded_before: how many were unneeded until now.
        parallelism: `max-scale-down-parallelism`.
        unneeded_s: the general unneeded time.
        interval_s: the smallest interval between two passes so far.
    """
    interval_s = min(interval_s, unneeded_s) or 1e-9
    lasting = int(max(unneeded_s, interval_s) / interval_s)
    return min(unneeded_before + 2 * parallelism, parallelism * lasting + parallelism)
