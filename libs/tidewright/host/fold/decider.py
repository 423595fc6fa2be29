"""The contract between a decider and whatever drives it: host, verify, replay, backtest.

A decider is two functions over its own state. It reads no clock, does no I/O, draws no random
number and logs nothing: "now" is the greatest `at` that its fold has seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from tidewright.events.base import Decision, Event
from tidewright.host.fold.configuration import ConfigPart
from tidewright.host.fold.parts import Parts
from tidewright.host.fold.series import Exposition
from tidewright.log.input_set import InputSet

State = TypeVar("State")
Touched = TypeVar("Touched")

StoredState: TypeAlias = dict[str, Any]
"""A state as it is stored: the JSON object that its Struct encodes to."""
Upcast: TypeAlias = Callable[[StoredState], StoredState]
"""Makes a stored state of one version into one of the next; may change what it is given."""


@dataclass(frozen=True, kw_only=True)
class Decider(Generic[State, Touched]):
    """What a service brings; the rest (slots, fetching, commits, timers) is the host's.

    Attributes:
        service: its name on the bus (`autoscaler`).
        state_version: grows when a stored state of an older version can no longer be read as it is.
        state_type: the msgspec Struct of the state; it encodes to JSON as it is, and without arguments it is
            the empty state of a slot. What slot `all` brings is folded into every slot's state.
        kinds: the kinds of facts it reads, as subject tokens (`pod`, `deployment`, `metric`).
        evolve: fold one event into the state, in place, and say what it touched. Never fails, and depends on
            nothing but its arguments: state is a function of the log, not of policy.
        decide: answer one event that the state already includes, given what it touched. An event of slot
            `all` is put to every slot. The answer is finished before any of it is folded; what the folding of
            a decider's own decisions touches is dropped: who needs another look sets a timer that is due now.
        outcomes: kinds of targets, as subject tokens, of the decisions of services that it follows: it reads
            what came of these, too. Of a decider of the whole cluster.
        outcomes_but: where any are named, it reads what came of these of all kinds of targets but these: those that it is about may
            be of kinds that nobody knows before.
        ledgers: it reads its own ledgers.
        renews: types of facts that are put to `decide` also when they only say again what was said
            (`refresh`), because something is said again then, which the log's retention would forget.
        simulates: types of decisions that it folds in shadow too, because it follows what would have come of
            them. All others are recorded when they change (`tidewright.events.acting`), and the state is as
            if nobody had decided them.
        upcasts: by the version that it starts from, how a stored state becomes one of the next version: pure.
            A state of a version from which no chain of them leads here is not used, the log is folded instead.
        formerly: sets of inputs that its earlier versions read, the oldest first, where they were others than
            today's: checkpoints name theirs, and each stretch of the log is folded by the set that it was
            decided by. The oldest one is that of checkpoints which name none.
        exposition: its series on `/metrics`.
        parts: the parts of its work, for who measures them.
        config: the part of the configuration that it reads.
    """

    service: str
    state_version: int
    state_type: type[State]
    kinds: frozenset[str]
    evolve: Callable[[State, Event], Touched]
    decide: Callable[[State, Event, Touched], Sequence[Decision]]
    outcomes: frozenset[str] = frozenset()
    outcomes_but: frozenset[str] = frozenset()
    ledgers: bool = False
    renews: frozenset[type[Event]] = frozenset()
    simulates: frozenset[type[Event]] = frozenset()
    upcasts: Mapping[int, Upcast] = field(default_factory=dict)
    formerly: tuple[InputSet, ...] = ()
    exposition: Exposition[State] | None = None
    parts: Parts | None = None
    config: ConfigPart[State] | None = None

    def initial(self) -> State:
        """The empty state of a slot."""
        return self.state_type()

    @property
    def readable(self) -> tuple[int, ...]:
        """Versions of stored states that can be gone on from, the newest first."""
        oldest = self.state_version
        while oldest - 1 in self.upcasts:
            oldest -= 1
        return tuple(range(self.state_version, oldest - 1, -1))

    def restored(self, stored: bytes | msgspec.Raw, version: int) -> State:
        """A stored state of some version as a state of this one.

        Raises:
            msgspec.ValidationError: it is of a version that is not readable, or none of this decider's states.
        """
        if version == self.state_version:
            return msgspec.json.decode(stored, type=self.state_type)
        if version not in self.readable:
            raise msgspec.ValidationError(
                f"a state of {self.service} of version {version} cannot be read: this software reads "
                + ", ".join(str(readable) for readable in self.readable)
            )
        state = msgspec.json.decode(stored, type=dict[str, Any])
        for step in range(version, self.state_version):
            state = self.upcasts[step](state)
        # Through JSON once more, so that an upcast state is checked as strictly as a stored one.
        return msgspec.json.decode(msgspec.json.encode(state), type=self.state_type)
