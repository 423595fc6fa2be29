"""The defined fold order, for one service in one slot. Pure: no clock, no I/O.

For each event in stream order: `evolve`, then `decide`, then `evolve` for each decision that it
gave, before the next event. Host, verify, replay and backtest all go through here, so there is one
order and one place that knows it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from operator import itemgetter
from typing import Any, Final, Generic, TypeAlias, cast

import msgspec

from tidewright.events import acting, registry
from tidewright.events.base import Decision, Event, Fact
from tidewright.events.config import ConfigSet, ModesSet
from tidewright.events.decisions import CancelTimer, SetTimer
from tidewright.events.incumbents import IncumbentObserved
from tidewright.events.timers import TimerFired, TimerStepped
from tidewright.events.version import __version__
from tidewright.host.fold.configuration import FIRST
from tidewright.host.fold.decider import Decider, State
from tidewright.log.checkpoint import digest_of, rolled
from tidewright.log.input_set import InputSet
from tidewright.log.snapshots import Snapshot
from tidewright.log.subjects import ALL, Slot

_NOT_PLAIN = frozenset((registry.Unknown, TimerStepped, TimerFired))
"""Types of events of which not all, or none, are for the decider."""
_NOTED = _NOT_PLAIN | set(acting.SETTING)
"""Those, and what the fold itself heeds."""
_ID: Final = re.compile(rf"([a-z0-9-]+)\.([0-9]+|{ALL})\.([0-9]{{1,19}})\.([0-9]{{1,19}})")
"""Of a decision: service, slot, the cause's sequence, n. Sequences have no more digits."""
SAID = 100_000
"""Things about which it is remembered what would be done; beyond, the oldest may be said once more."""


Waiting: TypeAlias = tuple[int, bytes, Event | registry.Unknown]
"""An event that is not folded yet: its sequence, its body, and itself. A bare tuple: there is one per event."""


class Decided(msgspec.Struct, frozen=True, gc=False):
    """A decision and its body as it is stored."""

    decision: Decision
    body: bytes


def decision_id(service: str, slot: Slot, cause: int, n: int) -> str:
    """The id of the n-th decision that the event at sequence `cause` gave: the same at every recomputation."""
    return f"{service}.{slot}.{cause}.{n}"


def parts_of(identity: str) -> tuple[str, Slot, int, int]:
    """Service, slot, sequence of the cause, and n, of a decision's id.

    Raises:
        ValueError: not an id of a decision.
    """
    matched = _ID.fullmatch(identity)
    if matched is None:
        raise ValueError(f"{identity!r} is not the id of a decision")
    service, slot, cause, n = matched.groups()
    return service, Slot(slot), int(cause), int(n)


def cause_of(identity: str) -> tuple[int, int]:
    """Sequence of the cause, and n, of a decision's id; raises as `parts_of`."""
    _, _, cause, n = parts_of(identity)
    return cause, n


def is_id(identity: str) -> bool:
    """Whether it is the id of a decision."""
    return _ID.fullmatch(identity) is not None


def taken_off(waiting: list[Waiting], position: int) -> list[Waiting]:
    """The events up to a position, which wait no longer. `waiting` is in stream order."""
    if not waiting or waiting[-1][0] <= position:  # nearly always: a commit covers what was read
        due = waiting.copy()
        waiting.clear()
        return due
    count = bisect_right(waiting, position, key=itemgetter(0))
    due = waiting[:count]
    del waiting[:count]
    return due


class Fold(Generic[State]):
    """The state of one slot, and what is needed to go on from it.

    Attributes:
        at: greatest log time folded so far: the fold's "now", seconds.
        position: sequence up to which everything of the slot is folded.
        folded: events folded.
        digest: rolling digest over (sequence, body) of these.
        chain: digest of the last decision.
        timers: key to due time of the timers that are set.
        said: what was decided in shadow and is not folded, by what it is about: its cause, and a digest. It
            is said once; a change of the modes, or an incumbent that comes or goes, has it said anew.
        reads: the set of inputs that it is made of; None: that of checkpoints which name none.
        digesting: keep the rolling digest. Who takes it from checkpoints instead may leave it out.
    """

    def __init__(self, decider: Decider[State, Any], slot: Slot) -> None:
        self.decider = decider
        self.slot = slot
        self.state = decider.initial()
        self.at = 0.0
        self.position = 0
        self.folded = 0
        self.digest = b""
        self.chain = ""
        self.timers: dict[str, float] = {}
        self.said: dict[str, tuple[int, str]] = {}
        self.reads: InputSet | None = None
        self.digesting = True

    @classmethod
    def resumed(cls, decider: Decider[State, Any], snapshot: Snapshot) -> Fold[State]:
        """A fold that goes on from a snapshot.

        Raises:
            msgspec.ValidationError: its state is not one of this decider's, or of a version that it cannot read.
        """
        fold = cls(decider, Slot(snapshot.slot))
        fold.state = decider.restored(snapshot.state, snapshot.state_version)
        fold.at = snapshot.at
        fold.position = snapshot.position
        fold.folded = snapshot.folded
        fold.digest = bytes.fromhex(snapshot.digest)
        fold.chain = snapshot.chain
        fold.timers = dict(snapshot.timers)
        fold.said = dict(snapshot.said)
        fold.reads = snapshot.inputs
        return fold

    def snapshot(self, *, checkpoint_seq: int, position: int) -> Snapshot:
        """The fold as it is, to be taken right after the commit of the checkpoint that it names."""
        return Snapshot(
            service=self.decider.service,
            slot=self.slot,
            checkpoint_seq=checkpoint_seq,
            position=position,
            folded=self.folded,
            digest=self.digest.hex(),
            chain=self.chain,
            at=self.at,
            timers=dict(self.timers),
            said=dict(self.said),
            inputs=self.reads,
            state_version=self.decider.state_version,
            version=__version__,
            state=msgspec.Raw(msgspec.json.encode(self.state)),
        )

    def step(self, seq: int, body: bytes, event: Event | registry.Unknown) -> list[Decided]:
        """Fold one event, decide, and fold what was decided."""
        decided: list[Decided] = []
        decisions = self.answer(seq, body, event)
        if not decisions:  # as about nearly all events
            return decided
        for decision in self._unsaid(decisions):
            identity = decision_id(self.decider.service, self.slot, seq, len(decided))
            registry.stamped(decision, decision_id=identity, prev=self.chain)
            stored = registry.encode(decision)
            self.chain = digest_of(stored)
            self._follow(decision)
            decided.append(Decided(decision, stored))
        return decided

    def answer(self, seq: int, body: bytes, event: Event | registry.Unknown) -> Sequence[Decision]:
        """Fold one event; what is decided about it, which is not folded yet."""
        taken = self._enter(seq, body, event)
        if taken is None:
            return ()
        return self.decided(taken, self.decider.evolve(self.state, taken))

    def decided(self, event: Event, touched: object) -> Sequence[Decision]:
        """What is decided about an event that the state includes."""
        if not self.decides(event):
            return ()
        decisions = self.decider.decide(self.state, event, touched)
        config = self.decider.config
        if type(event) is ConfigSet and config is not None and self.slot in FIRST:
            return (*decisions, *config.told(self.state, event))
        return decisions

    def decides(self, event: Event) -> bool:
        """Whether an event is put to `decide`: what is only said again is not, but for what the decider says again then."""
        kind = type(event)
        return not (kind in registry.FACTS and cast("Fact", event).refresh) or kind in self.decider.renews

    def replay_run(self, run: Sequence[Waiting], recorded: dict[int, list[Decided]]) -> None:
        """Fold a run of events as `replay` does, with their decisions, which are taken out of `recorded`."""
        evolve, state, folded, digesting = self.decider.evolve, self.state, self.folded, self.digesting
        for seq, body, event in run:
            if digesting or seq in recorded or type(event) in _NOTED:
                self.replay(seq, body, event, recorded.pop(seq, ()))
                continue
            # Nearly all that a replay folds, and all that is to be done about it: a call less for each of them.
            if event.at > self.at:
                self.at = event.at
            evolve(state, event)  # type: ignore[arg-type]  # what is Unknown is not plain
        if run:
            self.position, self.folded = run[-1][0], folded + len(run)

    def replay(
        self, seq: int, body: bytes, event: Event | registry.Unknown, recorded: Sequence[Decided]
    ) -> None:
        """Fold one event and the decisions that were recorded for it, without deciding."""
        taken = self._enter(seq, body, event)
        if taken is not None:
            self.decider.evolve(self.state, taken)
        for decided in recorded:
            self.replay_decision(decided)

    def catch_up(self, words: Sequence[Waiting]) -> None:
        """Fold what was said before, up to the position, on what is followed only from here on. Nobody decides about it."""
        position = self.position
        for seq, body, event in words:
            taken = self._enter(seq, body, event)
            if taken is not None:
                self.decider.evolve(self.state, taken)
        self.position = position

    def replay_decision(self, decided: Decided) -> None:
        """Fold one recorded decision."""
        self.chain = digest_of(decided.body)
        self._follow(decided.decision)

    def _enter(self, seq: int, body: bytes, event: Event | registry.Unknown) -> Event | None:
        """Count the event in; None when it is not for the decider."""
        self.position = seq
        self.folded += 1
        if self.digesting:
            self.digest = rolled(self.digest, seq, body)
        if event.at > self.at:
            self.at = event.at
        if type(event) in _NOTED:
            if isinstance(event, acting.SETTING):
                self._set(event)
            elif not self._fires(event):
                return None
        return event  # type: ignore[return-value]  # what is Unknown does not fire

    def _set(self, event: ModesSet | IncumbentObserved) -> None:
        """Who is held back, or by what, may be another now: then all of it is said anew."""
        if not event.refresh and not (
            isinstance(event, IncumbentObserved) and event.service != self.decider.service
        ):
            self.said.clear()

    def _fires(self, event: Event | registry.Unknown) -> bool:
        """Whether it is a timer that is set: one that was replaced or cancelled may have fired all the same."""
        if not isinstance(event, TimerFired) or self.timers.get(event.key) != event.at:
            return False
        del self.timers[event.key]
        return True

    def _follow(self, decision: Decision) -> None:
        if decision.shadow and type(decision) not in self.decider.simulates:
            self._say(decision)
            return
        if self.said:
            self.said.pop(acting.about(decision), None)
        if isinstance(decision, SetTimer):
            self.timers[decision.key] = decision.due
        elif isinstance(decision, CancelTimer):
            self.timers.pop(decision.key, None)
        self.decider.evolve(self.state, decision)

    def _unsaid(self, decisions: Sequence[Decision]) -> Sequence[Decision]:
        """What was decided, without what would be done and was said before: of one thing all, or nothing."""
        about = {
            n: acting.about(decision)
            for n, decision in enumerate(decisions)
            if decision.shadow and type(decision) not in self.decider.simulates
        }
        if not about:
            return decisions
        digests: dict[str, str] = {}
        for n, key in about.items():
            digests[key] = acting.digest(decisions[n], digests.get(key, ""))
        known = {key for key, digest in digests.items() if self.said.get(key, (0, ""))[1] == digest}
        return [decision for n, decision in enumerate(decisions) if about.get(n) not in known]

    def _say(self, decision: Decision) -> None:
        """Remember what would be done, together with what else the same event gave about the same thing."""
        cause, _ = cause_of(decision.id)
        key = acting.about(decision)
        before = self.said.pop(key, (-1, ""))
        self.said[key] = cause, acting.digest(decision, before[1] if before[0] == cause else "")
        while len(self.said) > SAID:
            del self.said[next(iter(self.said))]
