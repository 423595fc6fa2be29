"""The sink's side of rule R5: an effect with an older epoch than the highest seen is refused."""

from __future__ import annotations

import msgspec


class StaleEpoch(Exception):
    """A write of an owner that has been replaced."""

    def __init__(self, slot: int, epoch: int, highest: int) -> None:
        super().__init__(f"slot {slot}: epoch {epoch} is stale, epoch {highest} has been accepted")
        self.slot, self.epoch, self.highest = slot, epoch, highest


class Fence(msgspec.Struct):
    """What a sink remembers of each slot."""

    highest: dict[int, int] = {}

    def accepts(self, slot: int, epoch: int) -> bool:
        """Whether a write under this epoch would be accepted."""
        return epoch >= self.highest.get(slot, 0)

    def accept(self, slot: int, epoch: int) -> None:
        """Take a write, a new owner's fence record included, which comes before it reads.

        Raises:
            StaleEpoch: a higher epoch has been accepted already.
        """
        highest = self.highest.get(slot, 0)
        if epoch < highest:
            raise StaleEpoch(slot, epoch, highest)
        self.highest[slot] = epoch
