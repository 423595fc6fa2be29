"""What a service reads of the log, and which slot each message belongs to. Pure.

Host, verify and replay ask here, so that all of them fold the same events in the same order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from tidewright.events import registry
from tidewright.events.base import Event, Outcome
from tidewright.log.subjects import ALL, Slot, Subjects

Partition = Literal["slots", "cluster"]
"""`slots`: one state per slot. `cluster`: one state for everything, in slot `all`."""


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
    """

    service: str
    kinds: frozenset[str]
    subjects: Subjects
    slots: int
    partition: Partition = "slots"
    follows: frozenset[str] = frozenset()

    @property
    def every(self) -> tuple[Slot, ...]:
        """All slots that the service has states for."""
        return (ALL,) if self.partition == "cluster" else tuple(Slot(str(i)) for i in range(self.slots))

    def filters(self, owned: Collection[Slot], *, recorded: bool) -> list[str]:
        """Subject filters for some slots; `recorded` adds the service's own decisions and checkpoints."""
        names = self.subjects
        own: Iterable[str] = sorted(owned)
        facts_of: Iterable[str]
        if self.partition == "cluster":
            facts_of, own = ["*"], [ALL]
        elif len(owned) == self.slots:
            facts_of, own = ["*"], ["*"]
        else:
            facts_of = [*own, ALL]
        filters = [names.configs]
        filters += [names.facts(slot, kind) for slot in facts_of for kind in sorted(self.kinds)]
        filters += [names.decisions(slot, other) for slot in facts_of for other in sorted(self.follows)]
        filters += [names.outcomes(slot) for slot in own]
        filters += [names.timers(slot, self.service) for slot in own]
        if recorded:
            filters += [names.decisions(slot, self.service) for slot in own]
            filters += [names.checkpoint(Slot(slot), self.service) for slot in own]
        return filters

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
        """Whether the service folds this input: outcomes of other services' decisions are theirs."""
        return not isinstance(event, Outcome) or event.decision.startswith(f"{self.service}.")
