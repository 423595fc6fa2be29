"""What an event touched: all that passes from evolve to decide besides the state."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from tidewright.spread.state import Row, Settings, SpreadState


class Shrinks(NamedTuple):
    """A target of which fewer replicas are wanted than before.

    Attributes:
        spread: its key.
        announced: by an autoscaler's decision, which does not show on the workload yet.
    """

    spread: str
    replicas: int
    announced: bool = False


class Uncounted(NamedTuple):
    """A pod whose delete was admitted though it held no place; `key` is that of its ledger entry."""

    key: str
    pod: str
    version: str
    subset: str
    uid: str


class Unadopted(NamedTuple):
    """A pod that was not annotated for its spread; `refused`: because somebody refused it, not because nobody acts."""

    spread: str
    pod: str
    refused: bool


class Undone(NamedTuple):
    """A pod of a spread about which a decision did not come about; `deletion`: that was to delete it."""

    spread: str
    pod: str
    deletion: bool


class Touched(msgspec.Struct):
    """What one event changed, for `decide`.

    Attributes:
        spreads: spreads to look at as a whole.
        pod: name of the pod that changed, "" for none.
        home: the spread that has or had its row.
        key: the ledger key in its annotation, or its name.
        before: the row as it was, None for a new pod.
        after: the row as it is, None for a pod that is gone or belongs to no spread now.
        removed: a spread that is gone.
        shrinks: spreads of a target of which fewer replicas are wanted.
        fault: a spread whose target's replicas cannot be read, newly.
        refused: spreads that depend on a kind that may not be read, newly.
        renew: a spread whose ledger is to be said again, so that the log's retention does not forget it.
        uncounted: pods whose delete was admitted though they held no place.
        unadopted: a pod that was not annotated for its spread.
        settings: what held before, where a configuration was set.
        failed: a pod about which a decision did not come about.
    """

    spreads: list[str] = []
    pod: str = ""
    home: str = ""
    key: str = ""
    before: Row | None = None
    after: Row | None = None
    removed: SpreadState | None = None
    shrinks: list[Shrinks] = []
    fault: str = ""
    refused: list[str] = []
    unadopted: Unadopted | None = None
    renew: str = ""
    uncounted: list[Uncounted] = []
    settings: Settings | None = None
    failed: Undone | None = None

    def __bool__(self) -> bool:
        """Whether anything follows from it; a pod of no spread is nothing."""
        return bool(
            self.home
            or self.spreads
            or self.removed
            or self.shrinks
            or self.failed
            or self.fault
            or self.renew
            or self.refused
            or self.unadopted
        )


NOTHING = Touched()
"""What an event touches that is not folded. Nobody changes it."""
