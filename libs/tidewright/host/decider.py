"""The contract between a decider and whatever drives it: host, verify, replay, backtest.

A decider is two functions over its own state. It reads no clock, does no I/O, draws no random
number and logs nothing: "now" is the greatest `at` that its fold has seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

from tidewright.events.base import Decision, Event

State = TypeVar("State")


class Decider(Protocol[State]):
    """What a service brings; the rest (slots, fetching, commits, timers) is the host's.

    Attributes:
        service: its name on the bus (`autoscaler`).
        state_version: grows when a stored state of an older version can no longer be read.
        state_type: the msgspec Struct of the state; it encodes to JSON as it is.
        kinds: the kinds of facts it reads, as subject tokens (`pod`, `deployment`, `metric`).

    Three more where they are needed: `ledgers`, True for one that reads its own ledgers; `renews`, types of
    facts that are put to `decide` also when they only say again what was said (`refresh`), because
    the decider then says something again, which the log's retention would forget; `simulates`, types of
    decisions that it folds in shadow too, because it follows what would have come of them. All others are
    recorded when they change (`tidewright.events.acting`), and its state is as if nobody had decided them.
    """

    @property
    def service(self) -> str: ...
    @property
    def state_version(self) -> int: ...
    @property
    def state_type(self) -> type[State]: ...
    @property
    def kinds(self) -> frozenset[str]: ...

    def initial(self) -> State:
        """The empty state of a slot. What slot `all` brings is folded into every slot's state."""
        ...

    def evolve(self, state: State, event: Event) -> State:
        """Fold one event. May change `state` in place, and returns it. Never fails."""
        ...

    def decide(self, state: State, event: Event) -> Iterable[Decision]:
        """Answer one event; `state` already includes it. An event of slot `all` is put to every slot."""
        ...
