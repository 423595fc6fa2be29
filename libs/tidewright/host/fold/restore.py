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
from tidewright.host.fold.decider import State
from tidewright.host.fold.inbox import Inbox, Word
from tidewright.host.fold.inputs import Inputs
from tidewright.host.fold.order import Decided, Fold, Waiting, cause_of
from tidewright.log.checkpoint import Checkpoint
from tidewright.log.input_set import InputSet, Tokens


class Restore(Generic[State]):
    """Feed it a slot's inputs, decisions and checkpoints in stream order."""

    def __init__(self, fold: Fold[State], inputs: Inputs) -> None:
        self.fold = fold
        self._inputs = inputs
        self._inbox = Inbox()
        self._recorded: dict[int, list[Decided]] = {}
        if fold.reads is None:
            fold.reads = inputs.unnamed
        self._tokens = fold.reads.tokens

    def event(self, seq: int, body: bytes, event: Event | registry.Unknown) -> None:
        """An input of the slot, which every known version follows."""
        if seq > self.fold.position:
            self._inbox.waiting.append((seq, body, event))

    def word(self, word: Word) -> None:
        """An input that only some versions follow; also one from before the fold's position."""
        self._inbox.put_apart(word, self.fold.position)

    @property
    def unfollowed(self) -> Tokens:
        """Tokens of what this software follows, and who decided last in the slot did not."""
        return self._inputs.today.tokens - self._tokens

    @property
    def undecided(self) -> list[Waiting]:
        """What was read, and lies behind the last checkpoint."""
        return self._inbox.left(self._tokens)

    def decision(self, body: bytes, decision: Decision) -> None:
        """A decision of the service in the slot."""
        cause, _ = cause_of(decision.id)
        if cause > self.fold.position:
            self._recorded.setdefault(cause, []).append(Decided(decision, body))

    def checkpoint(self, checkpoint: Checkpoint) -> bool:
        """Fold what the checkpoint covers; False when the digest says that other events were folded then."""
        begun = (self.fold.position, self.fold.folded)
        if checkpoint.partial or (checkpoint.position, checkpoint.folded) < begun:
            return True  # or older than the snapshot that the fold began with
        recorded, position = self._recorded, checkpoint.position
        self.fold.replay_run(self._inbox.due(position, self._tokens), recorded)
        # Causes that retention has removed: their decisions count all the same, in their order.
        for cause in sorted(c for c in recorded if c <= position) if recorded else ():
            for decided in recorded.pop(cause):
                self.fold.replay_decision(decided)
        self.fold.position = max(self.fold.position, checkpoint.position)
        if (reads := self._inputs.named(checkpoint)) is not None:
            self.adopt(reads)
        same = self.fold.digest.hex() == checkpoint.digest and self.fold.chain == checkpoint.chain
        self.fold.digest = bytes.fromhex(checkpoint.digest)
        self.fold.chain = checkpoint.chain
        self.fold.folded = checkpoint.folded
        self.fold.at = max(self.fold.at, checkpoint.at)
        return same

    def adopt(self, reads: InputSet) -> bool:
        """Go on by another set of inputs: the last words on what is new in it are folded. Whether it is another."""
        if reads == self.fold.reads:
            return False
        self.fold.catch_up(self._inbox.last_words(reads.tokens - self._tokens))
        self.fold.reads, self._tokens = reads, reads.tokens
        return True

    def begun(self) -> dict[int, int]:
        """Of events beyond the last checkpoint: how many of their decisions are recorded already.

        More decisions than fit into one batch are committed in parts, and whoever committed them may
        have died in between. They are the first ones of each event: the next owner decides anew, and
        records the rest.
        """
        return {cause: len(recorded) for cause, recorded in self._recorded.items()}
