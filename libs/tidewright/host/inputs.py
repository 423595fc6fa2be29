"""What a service reads of the log, and which slot each message belongs to. Pure.

Host, verify and replay ask here, so that all of them fold the same events in the same order.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from tidewright.events import registry
from tidewright.events.base import Decision, Event, Outcome
from tidewright.log.subjects import ALL, Slot, Subjects

Partition = Literal["slots", "cluster"]
"""`slots`: one state per slot. `cluster`: one state for everything, in slot `all`."""


_SPOKEN = frozenset(kind for kind in registry.ALL if issubclass(kind, Decision | Outcome))
"""Types of events that say whose they are."""


class Role(Enum):
    """What a message is to the service."""

    INPUT = "input"
    DECISION = "decision"
    CHECKPOINT = "checkpoint"


@dataclass(frozen=True)
class Inputs:
    """A service's view of the log.

    Attributes:
        kinds: the kinds of facts that it reads, as subject tokens.
        slots: number of slots of the stream.
        follows: other services whose decisions it reads as inputs.
        ledgers: it reads its own ledgers, where its other replicas append too.
    """

    service: str
    kinds: frozenset[str]
    subjects: Subjects
    slots: int
    partition: Partition = "slots"
    follows: frozenset[str] = frozenset()
    ledgers: bool = False

    @property
    def every(self) -> tuple[Slot, ...]:
        """All slots that the service has states for."""
        return (ALL,) if self.partition == "cluster" else tuple(Slot(str(i)) for i in range(self.slots))

    @property
    def filter(self) -> str:
        """The one subject filter of a reader: the whole stream.

        Narrower would be several filters, and a consumer with several becomes slower by orders of
        magnitude, and slows every append, once it reads where others write (decision record 0003).
        So a reader takes everything and drops by subject, before decoding.
        """
        return self.subjects.everything

    def reads(self, subject: str, owned: Container[Slot], *, recorded: bool) -> bool:
        """Whether a message on this subject is one of the service's, for the slots that it owns.

        `recorded` adds the service's own decisions and checkpoints, which are read to restore. What is
        of no known form is nobody's.
        """
        tokens = subject.split(".", 5)
        if len(tokens) < 5:
            return False
        cls, slot, third = tokens[2:5]
        mine = slot in owned
        match cls:
            case "fact":
                return third in self.kinds and (mine or slot == ALL or self.partition == "cluster")
            case "config":
                return True
            case "outcome":
                return mine
            case "timer":
                return mine and third == self.service
            case "ledger":
                return self.ledgers and mine and third == self.service
            case "decision" if third in self.follows:
                return mine or self.partition == "cluster"
            case "decision" | "checkpoint":
                return recorded and mine and third == self.service
        return False

    def role(self, subject: str) -> Role:
        """What a message on this subject is to the service."""
        match self.subjects.class_token(subject):
            case "checkpoint":
                return Role.CHECKPOINT
            case "decision" if self.subjects.parse(subject).rest[0] == self.service:
                return Role.DECISION
        return Role.INPUT

    def slot(self, subject: str) -> Slot | None:
        """The slot whose fold takes this message; None: every slot's does."""
        if self.partition == "cluster":
            return ALL
        slot = self.subjects.slot_token(subject)
        return None if slot == ALL else slot

    def concerns(self, event: Event | registry.Unknown) -> bool:
        """Whether the service folds this input: outcomes of other services' decisions are theirs.

        Its own decisions come by on its ledgers, after they were folded.
        """
        kind = type(event)
        if kind not in _SPOKEN:  # a fact, most often
            return True
        if isinstance(event, Decision):
            return not event.id.startswith(f"{self.service}.")
        return not isinstance(event, Outcome) or event.decision.startswith(f"{self.service}.")


class Routes:
    """Where the messages of each subject go, worked out once per subject: most subjects come again and again."""

    AT_MOST = 100_000

    def __init__(self, inputs: Inputs, owned: Container[Slot]) -> None:
        """`owned` are the slots that are restored or verified; recorded decisions are read, too."""
        self._inputs, self._owned = inputs, owned
        self._known: dict[str, tuple[Role, Slot | None] | None] = {}

    def of(self, subject: str) -> tuple[Role, Slot | None] | None:
        """What a message is to the service, and its slot (None: every slot); None for one that it does not read."""
        try:
            return self._known[subject]
        except KeyError:
            pass
        found: tuple[Role, Slot | None] | None = None
        if self._inputs.reads(subject, self._owned, recorded=True):
            found = (self._inputs.role(subject), self._inputs.slot(subject))
        if len(self._known) >= self.AT_MOST:
            self._known.clear()
        self._known[subject] = found
        return found
