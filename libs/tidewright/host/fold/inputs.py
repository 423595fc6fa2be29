"""What a service reads of the log, and which slot each message belongs to. Pure.

Host, verify and replay ask here, so that all of them fold the same events in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, reduce
from operator import and_, or_
from typing import Literal, TypeVar

import msgspec

from tidewright.events import registry
from tidewright.events.base import Decision, Event, Outcome
from tidewright.log.checkpoint import Checkpoint
from tidewright.log.input_set import InputSet, Tokens
from tidewright.log.subjects import ALL, Slot, Subjects

T = TypeVar("T")
Partition = Literal["slots", "cluster"]
"""`slots`: one state per slot. `cluster`: one state for everything, in slot `all`."""


_TO_KIND = 5
"""Tokens of a subject up to the kind: `tw`, cluster, class, slot, kind."""
_SPOKEN = frozenset(kind for kind in registry.ALL if issubclass(kind, Decision | Outcome))
"""Types of events that say whose they are."""


class Role(Enum):
    """What a message is to the service."""

    INPUT = "input"
    DECISION = "decision"
    CHECKPOINT = "checkpoint"


INPUT, CHECKPOINT = Role.INPUT, Role.CHECKPOINT
"""For those who ask per record: looking up a member of an enumeration runs code."""


@dataclass(frozen=True)
class Inputs:
    """A service's view of the log.

    Attributes:
        kinds: the kinds of facts that it reads, as subject tokens.
        slots: number of slots of the stream.
        follows: other services whose decisions it reads as inputs.
        ledgers: it reads its own ledgers, where its other replicas append too.
        formerly: what its earlier versions read, see `Decider.formerly`.
        outcomes: kinds of targets of the decisions followed of which it reads, too, what came of them.
        outcomes_but: where any are named, it reads that of all kinds but these.
    """

    service: str
    kinds: frozenset[str]
    subjects: Subjects
    slots: int
    partition: Partition = "slots"
    follows: frozenset[str] = frozenset()
    ledgers: bool = False
    formerly: tuple[InputSet, ...] = ()
    outcomes: frozenset[str] = frozenset()
    outcomes_but: frozenset[str] = frozenset()

    @cached_property
    def today(self) -> InputSet:
        """The set of inputs that this software decides by."""
        return InputSet(
            tuple(sorted(self.kinds)),
            tuple(sorted(self.follows)),
            tuple(sorted(self.outcomes)) or msgspec.UNSET,
            tuple(sorted(self.outcomes_but)) or msgspec.UNSET,
        )

    @cached_property
    def _reads(self) -> Tokens:
        return self.today.tokens

    @property
    def unnamed(self) -> InputSet:
        """The set of checkpoints that name none."""
        return self.formerly[0] if self.formerly else self.today

    def named(self, checkpoint: Checkpoint) -> InputSet | None:
        """The set that a checkpoint names; None when it is not known here, or of a form that is not."""
        if not checkpoint.inputs:
            return self.unnamed
        if checkpoint.reads is not None:
            return checkpoint.reads if checkpoint.reads.digest == checkpoint.inputs else None
        return self._by_digest.get(checkpoint.inputs)

    @cached_property
    def _by_digest(self) -> dict[str, InputSet]:
        return {known.digest: known for known in self._known}

    @cached_property
    def sometimes(self) -> Tokens:
        """Tokens of what some of the known sets have, and others have not."""
        return self.ever - reduce(and_, (known.tokens for known in self._known))

    @property
    def _known(self) -> tuple[InputSet, ...]:
        return (*self.formerly, self.today)

    @cached_property
    def ever(self) -> Tokens:
        """Tokens of what any of the known sets has."""
        return reduce(or_, (known.tokens for known in self._known))

    def token(self, subject: str) -> str:
        """The token of a subject that some of the known sets have; empty of all others."""
        if not self.sometimes:
            return ""
        tokens = subject.split(".", 5)
        if len(tokens) < 5:
            return ""
        cls, slot, third = tokens[2:5]
        if cls == "outcome" and slot == ALL and self.partition == "cluster":
            return ""  # of its own decisions, which no set names
        token = f"{cls}.{third}"
        return token if token in self.sometimes else ""

    def filters(self, tokens: Tokens, slot: Slot) -> list[str]:
        """Filters of the subjects of some tokens that the fold of a slot takes; others may match, too, see `token`."""
        places = ("*",) if self.partition == "cluster" else (slot, ALL)
        split = [token.partition(".") for token in tokens.patterns]
        return [f"{self.subjects.root}.{cls}.{place}.{name}.>" for cls, _, name in split for place in places]

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

        `recorded` adds the service's own decisions and checkpoints, and what earlier versions followed, which
        are read to restore. What is of no known form is nobody's.
        """
        tokens = subject.split(".", 5)
        if len(tokens) < 5:
            return False
        cls, slot, third = tokens[2:5]
        mine = slot in owned
        match cls:
            case "fact":
                followed = third in self.kinds or (recorded and f"fact.{third}" in self.ever)
                return followed and (mine or slot == ALL or self.partition == "cluster")
            case "config":
                return True
            case "outcome":
                if mine or self.partition != "cluster":
                    return mine
                return f"outcome.{third}" in (self.ever if recorded else self._reads)
            case "timer":
                return mine and third == self.service
            case "ledger":
                return self.ledgers and mine and third == self.service
            case "decision" if third in self.follows or (recorded and f"decision.{third}" in self.ever):
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
        """Whether the service folds this input: outcomes of other services' decisions are theirs, unless it follows them.

        Its own decisions come by on its ledgers, after they were folded.
        """
        kind = type(event)
        if kind not in _SPOKEN:  # a fact, most often
            return True
        if isinstance(event, Decision):
            return not event.id.startswith(f"{self.service}.")
        if not isinstance(event, Outcome) or event.decision.startswith(f"{self.service}."):
            return True
        return self._answers and event.decision.partition(".")[0] in self.follows

    @cached_property
    def _answers(self) -> bool:
        """Whether it reads what came of the decisions that it follows."""
        return bool(self.outcomes or self.outcomes_but)


class BySubject(dict[str, T]):
    """What there is to know about each subject by its class, slot and kind, worked out once for all of these.

    A look-up of a known subject runs no code of ours, and there is one for every record of a log. What is worked out
    must depend on nothing behind the kind, which is the object.
    """

    AT_MOST = 100_000

    def __init__(self, work_out: Callable[[str], T]) -> None:
        super().__init__()
        self._work_out = work_out
        self._of_kind: dict[str, T] = {}

    def __missing__(self, subject: str) -> T:
        tokens = subject.split(".", _TO_KIND)
        kind = subject if len(tokens) <= _TO_KIND else subject[: -1 - len(tokens[-1])]
        if kind not in self._of_kind:
            self._of_kind[kind] = self._work_out(subject)
        if len(self) >= self.AT_MOST:
            self.clear()
            self._of_kind = {kind: self._of_kind[kind]}
        value = self[subject] = self._of_kind[kind]
        return value
