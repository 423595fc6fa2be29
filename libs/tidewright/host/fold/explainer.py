"""The contract between a service and `tidewright explain`: what a service knows to say about itself. Pure.

The command does what is the same for every service: it finds the decisions of an object through the
server's subject index, restores the service's state as of any moment, follows decisions back to the
facts that caused them and forward to their outcomes. What only the service knows, its explainer says:

    services/tidewright/<service>/tell/explaining.py    EXPLAINER = MyExplainer()      at most one class
    services/tidewright/asking/services.py              explainer="tidewright.<service>.tell.explaining:EXPLAINER"

`tidewright.autoscaler.tell.explaining` is the first one, and the example to follow. Rules:

- Pure, like a decider: no clock, no I/O; "now" is given. Total: a decision of an older or newer version,
  an object that the state does not hold, a missing value give fewer sentences, never an error.
- A sentence is one full sentence for a person, with its numbers and units, times in UTC, ending with a
  full stop. Nothing is told twice: reasons in `sentences`, the present in `standing`.
- `opposite` and `standing` may change the state that they are given (evaluate it again): nobody uses it
  afterwards. The others leave it as it is.
- Recompute with the decider's own functions instead of a second implementation of its rules.

A state was folded from the service's snapshot and what came after it *in the namespace of the object*
(and in slot `all`); of other namespaces of the same slot it may be behind. A service with
`partition="cluster"` has all of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

import msgspec

from tidewright.events.base import Event

State_contra = TypeVar("State_contra", contravariant=True)


class Reference(msgspec.Struct, frozen=True, order=True):
    """An object (or a metric's query) as subjects name it.

    Attributes:
        kind: the kind as a subject token, lower case (`watermarkpodautoscaler`, `pod`, `metric`).
        namespace: empty for cluster-scoped objects.
    """

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}" + (f" in namespace {self.namespace}" if self.namespace else "")


class Told(msgspec.Struct, frozen=True):
    """Where on the log a service speaks about an object.

    Attributes:
        decisions: objects whose decisions of this service are, or may be, about the object asked for;
            the object itself need not be named.
        ledgers: ledgers of this service that may hold entries about it, named as
            `Reference("", namespace, name)`.
        before_it: objects of which decisions up to `came_at` are about it, too: what was decided for the pods of a
            workload before this one was there.
        came_at: log time in seconds.
    """

    decisions: tuple[Reference, ...] = ()
    ledgers: tuple[Reference, ...] = ()
    before_it: tuple[Reference, ...] = ()
    came_at: float = 0.0


class Explainer(Protocol[State_contra]):
    """What a service knows to say about its objects and decisions."""

    @property
    def kinds(self) -> frozenset[str]:
        """Kinds of the objects that it can speak about, as subject tokens."""
        ...

    def told(self, state: State_contra, asked: Reference) -> Told:
        """Where else to look for decisions about an object: those of an autoscaler are on its target.

        `state` is as of the moment asked for.
        """
        ...

    def concerns(self, event: Event, asked: Reference) -> bool:
        """Whether a decision (or ledger entry) found there is about the object and worth telling.

        Bookkeeping that says nothing to a person (timers) is not.
        """
        ...

    def sentences(self, event: Event) -> Sequence[str]:
        """Why a decision (or ledger entry) is what it is: each rule that was applied, with its numbers."""
        ...

    def part(self, state: State_contra, event: Event, asked: Reference) -> Event:
        """What of a decision concerns an object; all of it where that is so, or cannot be told.

        `state` as in `facts`. `sentences` are asked for the part.
        """
        ...

    def facts(self, state: State_contra, event: Event) -> Sequence[Reference]:
        """What a decision rests on, besides the event that caused it: the last fact of each is shown.

        `state` is what `decide` saw: everything up to and with the cause folded, the decision not yet.
        """
        ...

    def opposite(self, state: State_contra, event: Event) -> Sequence[str]:
        """For a decision by threshold: which single input would have had to be what for the opposite.

        One sentence per input. Empty where no threshold decided. `state` is what `decide` saw, see
        `facts`; found by asking the decider's own functions again with the input changed.
        """
        ...

    def aggregate(self, state: State_contra, asked: Reference) -> Mapping[str, object] | None:
        """What the service holds of an object, for `tidewright state`; None when it holds nothing.

        Names to parts of the state (msgspec Structs and plain values), unchanged: what decides about
        this object, without the rest of the slot.
        """
        ...

    def standing(self, state: State_contra, asked: Reference, now: float) -> Sequence[str]:
        """How the object stands: what is computed for it, what holds it back, until when.

        This answers "why does nothing happen". `now` is the log time that was asked for, seconds; at
        least the greatest `at` in `state`. Empty when the state does not hold the object.
        """
        ...
