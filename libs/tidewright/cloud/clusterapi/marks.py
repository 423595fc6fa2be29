"""What is written on a Machine that is to go, and what that says after a crash. Pure.

A removal is two writes: the Machine is marked, then its owner's size is lowered, and Cluster API deletes what
is marked. The mark names the decision, the generation of the owner when it was set, and the size that was to
come. While the generation is that one, nobody has set a size since: the second write is missing.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from tidewright.cloud.clusterapi.objects import Machine, Scalable
from tidewright.kube.times import rfc3339

DECISION: Final = "tidewright.dev/decision"
_TEXT = re.compile(r"(\S+) generation=([0-9]+) size=([0-9]+)")


class Mark(msgspec.Struct, frozen=True):
    """Ours on one Machine.

    Attributes:
        key: of the decision.
        generation: of the owner when the mark was set.
        size: that the owner was to get.
    """

    key: str
    generation: int
    size: int

    def is_half(self, owner: Scalable) -> bool:
        """Whether the size that belongs to it was certainly not set."""
        return owner.metadata.generation == self.generation

    def is_done(self, owner: Scalable) -> bool:
        """Whether the size that belongs to it is there, and the machine only waits for its end."""
        return not self.is_half(owner) and owner.size <= self.size


def delete_machine(prefix: str) -> str:
    """The annotation by which Cluster API knows what goes first when a size is lowered."""
    return f"{prefix}/delete-machine"


def mark_of(machine: Machine) -> Mark | None:
    """Ours on a Machine, if there is one."""
    match = _TEXT.fullmatch(machine.metadata.notes.get(DECISION, ""))
    return Mark(match[1], int(match[2]), int(match[3])) if match else None


def is_of_another(machine: Machine, prefix: str) -> bool:
    """Whether somebody else marked it: the next smaller size would delete it."""
    return delete_machine(prefix) in machine.metadata.notes and mark_of(machine) is None


def marking(mark: Mark, prefix: str, now: float) -> dict[str, Any]:
    """The merge patch that marks a Machine."""
    text = f"{mark.key} generation={mark.generation} size={mark.size}"
    return {"metadata": {"annotations": {delete_machine(prefix): rfc3339(now), DECISION: text}}}


def unmarking(prefix: str) -> dict[str, Any]:
    """The merge patch that takes our mark off."""
    return {"metadata": {"annotations": {delete_machine(prefix): None, DECISION: None}}}
