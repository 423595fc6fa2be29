"""Deletions of one group, step by step: each node when it is ready, or all at once where the group goes as a whole.

Ours keeps what waits in its state, as removals whose nodes are ready, and looks at all of them at each event
(`provisioning.scaledown.removal.steps`): a list of steps alone is nothing that it could be given. Addendum 3.1.
"""

from __future__ import annotations

import msgspec


class Batch(msgspec.Struct):
    """Nodes of a group on their way out. Fed with what became of each; changed in place.

    Attributes:
        size: nodes that go together.
        whole: none goes before all are ready, and none at all once one failed.
    """

    size: int
    whole: bool
    ready: list[str] = []
    failed: bool = False

    def prepared(self, node: str) -> tuple[list[str], list[str]]:
        """A node is ready: (nodes to be deleted now, nodes to be given back)."""
        if not self.whole:
            return [node], []
        if self.failed:
            return [], [node]
        self.ready.append(node)
        if len(self.ready) < self.size:
            return [], []
        deleted, self.ready = self.ready, []
        return deleted, []

    def lost(self, node: str) -> tuple[list[str], list[str]]:
        """A node could not be made ready: (none, nodes to be given back), it among them."""
        released = [node]
        if self.whole:
            self.failed = True
            released += self.ready
            self.ready = []
        return [], released


TAGS = {
    "scale-down-group-delete": "what waits to be deleted together are removals in the state, which steps without a cluster cannot drive",
}
"""Kinds of cases that ours has no use for, and why."""
