"""The soft taint of nodes that wait to go: whom it is given and taken from in one pass. Addendum 3.4."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tidewright.provisioning.scaledown.scene import SceneNode


def changes(nodes: Iterable[SceneNode], unneeded: Collection[str], most: int) -> tuple[list[str], list[str]]:
    """Nodes that lose it, and nodes that get it: at most so many together, first the former.

    Nodes with the deletion taint are left alone.
    """
    free = [node for node in nodes if node.doomed_at is None]
    lose = [node.name for node in free if node.soft and node.name not in unneeded][:most]
    get = [node.name for node in free if not node.soft and node.name in unneeded][: most - len(lose)]
    return lose, get
