"""Parts of the status ConfigMap that have a status of their own, as a report names them: `KIND/GROUP`.

Without a group, `KIND/`, it is the whole cluster's.
"""

from __future__ import annotations

from typing import NamedTuple

HEALTH, SCALE_UP, SCALE_DOWN = "health", "scaleUp", "scaleDown"


class StatusPart(NamedTuple):
    """Attributes:
    kind: `health`, `scaleUp` or `scaleDown`.
    group: empty for the whole cluster.
    """

    kind: str
    group: str

    @property
    def key(self) -> str:
        return f"{self.kind}/{self.group}"


def part_of(key: str) -> StatusPart:
    """The part that a key names."""
    kind, _, group = key.partition("/")
    return StatusPart(kind, group)
