"""A slot's fold rebuilt from the messages on the log. Pure; also what verify and replay build on.

Facts lie on the log before the decisions that they caused, with other facts in between, yet a
decision is folded right after its cause. So events wait here until a checkpoint says up to where
the service had decided; by then all of its decisions for them have come by. What still waits at the
end is what nobody has decided yet, or has begun to record in parts (see `begun`).
"""

from __future__ import annotations

from typing import Generic

from tidewright.events import registry
from tidewright.events.base import Decision, Event
from tidewright.host.decider import State
from tidewright.host.fold import Decided, Fold, Waiting, cause_of, taken_off
from tidewright.log.checkpoint import Checkpoint


class Restore(Generic[State]):
    """Feed it a slot's inputs, decisions and checkpoints in stream order."""

    def __init__(self, fold: Fold[State]) -> None:
        self.fold = fold
        self.waiting: list[Waiting] = []
        self._recorded: dict[int, list[Decided]] = {}

    def event(self, seq: int, body: bytes, event: Event | registry.Unknown) -> None:
        """An input of the slot."""
        if seq > self.fold.position:
            self.waiting.append((seq, body, event))

    def decision(self, body: bytes, decision: Decision) -> None:
        """A decision of the service in the slot."""
        cause, _ = cause_of(decision.id)
        if cause > self.fold.position:
            self._recorded.setdefault(cause, []).append(Decided(decision, body))

    def checkpoint(self, checkpoint: Checkpoint) -> bool:
        """Fold what the checkpoint covers; False when the digest says that other events were folded then."""
        if checkpoint.partial or checkpoint.position < self.fold.position:
            return True  # or older than the snapshot that the fold began with
        recorded, position = self._recorded, checkpoint.position
        self.fold.replay_run(taken_off(self.waiting, position), recorded)
        # Causes that retention has removed: their decisions count all the same, in their order.
        for cause in sorted(c for c in recorded if c <= position) if recorded else ():
            for decided in recorded.pop(cause):
                self.fold.replay_decision(decided)
        self.fold.position = max(self.fold.position, checkpoint.position)
        same = self.fold.digest.hex() == checkpoint.digest and self.fold.chain == checkpoint.chain
        self.fold.digest = bytes.fromhex(checkpoint.digest)
        self.fold.chain = checkpoint.chain
        self.fold.folded = checkpoint.folded
        self.fold.at = max(self.fold.at, checkpoint.at)
        return same

    def begun(self) -> dict[int, int]:
        """Of events beyond the last checkpoint: how many of their decisions are recorded already.

        More decisions than fit into one batch are committed in parts, and whoever committed them may
        have died in between. They are the first ones of each event: the next owner decides anew, and
        records the rest.
        """
        return {cause: len(recorded) for cause, recorded in self._recorded.items()}
