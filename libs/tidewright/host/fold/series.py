"""Series that a decider tells of its states, and of its work, for `/metrics`. Pure.

How they are written is `tidewright.host.process.exposition`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

import msgspec

from tidewright.events.base import Decision, Event

State = TypeVar("State")
Told_contra = TypeVar("Told_contra", contravariant=True)


class Series(Protocol):
    """One line of the exposition."""

    @property
    def name(self) -> str: ...
    @property
    def labels(self) -> Mapping[str, str]: ...
    @property
    def value(self) -> float: ...
    @property
    def counter(self) -> bool: ...


class Tally(Protocol[Told_contra]):
    """What a process counts of its decider's work: from nothing when it starts, like every counter of a process.

    No state has it, so that a state is what the log says and no more; nothing is decided by it.
    """

    def take(self, state: Told_contra, event: Event, decided: Sequence[Decision]) -> None:
        """One event was folded, and what was decided about it, which `state` includes."""

    def series(self, state: Told_contra) -> Iterable[Series]:
        """The series of what a state has."""


class Exposition(msgspec.Struct, Generic[State], frozen=True, kw_only=True):
    """The series of a decider.

    Attributes:
        series: all of them, of one state.
        help: what each name says, for people.
        tally: makes what a process counts besides; None for nothing.
        types: the type by name, of those whose names have parts (`_sum`, `_count`) and that are summaries.
    """

    series: Callable[[State], Iterable[Series]]
    help: Mapping[str, str]
    types: Mapping[str, str] = {}
    tally: Callable[[], Tally[State]] | None = None
