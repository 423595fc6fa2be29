"""The oldest reconciliation, as the reference's gauge has it. Spec 6."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tidewright.provisioning.buffers.spec import ours


class Watched(NamedTuple):
    """A buffer; `told` is whether it has conditions."""

    uid: str
    strategy: str | None
    created_at: float
    told: bool = False


class Oldest(NamedTuple):
    """Log times: of new buffers the oldest creation, of others the oldest look; now, when there is none.

    Attributes:
        looks: uid to its last look, of the buffers that are there.
    """

    new: float
    known: float
    looks: dict[str, float]


def oldest(buffers: Iterable[Watched], looks: Mapping[str, float], now: float) -> Oldest:
    """The values of the gauge. Buffers with conditions that were not looked at here are left out."""
    there = list(buffers)
    kept = {b.uid: looks[b.uid] for b in there if b.uid in looks}
    mine = [b for b in there if ours(b.strategy)]
    new = [b.created_at for b in mine if b.uid not in looks and not b.told]
    known = [looks[b.uid] for b in mine if b.uid in looks]
    return Oldest(min(new, default=now), min(known, default=now), kept)
