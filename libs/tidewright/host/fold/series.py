"""Series that a decider tells of its states, for `/metrics`. Pure; how they are written is `tidewright.host.process.exposition`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

State = TypeVar("State")


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


@dataclass(frozen=True, kw_only=True)
class Exposition(Generic[State]):
    """The series of a decider.

    Attributes:
        series: all of them, of one state.
        help: what each name says, for people.
        types: the type by name, of those whose names have parts (`_sum`, `_count`) and that are summaries.
    """

    series: Callable[[State], Iterable[Series]]
    help: Mapping[str, str]
    types: Mapping[str, str] = field(default_factory=dict)
