"""A log decided once more, by this version or under another configuration. Pure.

Each decision is taken anew in the situation that was recorded: the state follows the recorded
decisions, so that one change does not hide behind the next. What a change would have led to,
a backtest answers, which has a model of the load.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from tidewright.asking import postponed  # noqa: F401  # before the NATS client
from tidewright.events import registry
from tidewright.events.base import Decision, Event
from tidewright.events.config import ConfigSet
from tidewright.host.fold.decider import Decider
from tidewright.host.fold.inputs import Inputs
from tidewright.host.fold.order import Decided, Fold, Waiting
from tidewright.host.fold.restoring import SlotRestorer
from tidewright.log.reader import Record
from tidewright.log.snapshots import Snapshot
from tidewright.log.subjects import Slot

Heard = Callable[[int, Sequence[Decision], Sequence[Decided]], None]
"""Is told the sequence of each event that somebody decided about, what is decided now, and what was."""


class Deciding(Fold[Any]):
    """A fold that also decides, and says so; its state follows what was recorded."""

    def __init__(
        self, decider: Decider[Any, Any], slot: Slot, heard: Heard, config: Mapping[str, dict[str, Any]]
    ) -> None:
        super().__init__(decider, slot)
        self.heard = heard
        self.config = config
        self._configure()

    @classmethod
    def started(
        cls,
        decider: Decider[Any, Any],
        slot: Slot,
        snapshot: Snapshot | None,
        heard: Heard,
        config: Mapping[str, dict[str, Any]],
    ) -> Deciding:
        """From a snapshot, where there is one."""
        fold = cls(decider, slot, heard, config)
        if snapshot is not None:
            vars(fold).update(vars(Fold.resumed(decider, snapshot)))
            fold._configure()
        return fold

    def _configure(self) -> None:
        for name, data in self.config.items():
            self.decider.evolve(self.state, ConfigSet(at=self.at, name=name, data=data))

    def replay_run(self, run: Sequence[Waiting], recorded: dict[int, list[Decided]]) -> None:
        """Each event is decided about, too."""
        for seq, body, event in run:
            self.replay(seq, body, event, recorded.pop(seq, ()))

    def replay(
        self, seq: int, body: bytes, event: Event | registry.Unknown, recorded: Sequence[Decided]
    ) -> None:
        """Fold an event, decide about it, and follow what was recorded."""
        taken = self._enter(seq, body, event)
        recomputed: list[Decision] = []
        if taken is not None:
            if isinstance(taken, ConfigSet) and taken.name in self.config:
                taken = msgspec.structs.replace(taken, data=self.config[taken.name])
            touched = self.decider.evolve(self.state, taken)
            recomputed = list(self.decided(taken, touched))
        if recomputed or recorded:
            self.heard(seq, recomputed, recorded)
        for decided in recorded:
            self.replay_decision(decided)


class Redecided:
    """All slots of one service. Feed it every record of the log, in order."""

    def __init__(
        self,
        decider: Decider[Any, Any],
        inputs: Inputs,
        heard: Heard,
        snapshots: Sequence[Snapshot] = (),
        config: Mapping[str, dict[str, Any]] | None = None,
    ) -> None:
        starts = {s.slot: s for s in snapshots if s.service == decider.service}
        folds: dict[Slot, Fold[Any]] = {
            slot: Deciding.started(decider, slot, starts.get(slot), heard, config or {})
            for slot in inputs.every
        }
        self._restorer = SlotRestorer(inputs, folds)

    def take(self, record: Record) -> None:
        """One record."""
        self._restorer.take(record)
