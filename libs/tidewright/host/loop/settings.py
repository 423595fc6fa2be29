"""How a host runs. Services choose the partition and what they follow; the rest fits all of them."""

from __future__ import annotations

from dataclasses import dataclass

from tidewright.host.fold.inputs import Partition


@dataclass(frozen=True)
class Settings:
    """How a host runs.

    Attributes:
        partition: one state per slot, or one for the whole cluster.
        follows: other services whose decisions are inputs.
        renew_s: a slot's checkpoint is written anew at least this often, so that retention does
            not age it out; a third of the log's max age. None: never.
        snapshot_distance: sequences between two snapshots of a slot: what who takes it over has to read, and
            reads in half a second.
        snapshot_pause_s: between two snapshots of a slot, on a log that grows quickly.
        history_distance: sequences between two snapshots that stay, so that a state of long ago is found
            without folding from the beginning. With retention more of them stay, as long as the log does.
    """

    partition: Partition = "slots"
    follows: frozenset[str] = frozenset()
    renew_s: float | None = None
    snapshot_distance: int = 5_000
    snapshot_pause_s: float = 2.0
    history_distance: int = 200_000
