"""What a process counts of its passes over propeller fleets: the original's counters, and how long passes took.

From nothing when the process starts, like the original's. Durations are log time: from the `BeginPass` of one that
deletes or creates to its end; one that has nothing to do takes none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from tidewright.events.base import Decision, Event, Outcome
from tidewright.events.decisions import CreateObject, DeleteObject, SetTimer
from tidewright.events.outcomes import Applied
from tidewright.events.shards import BeginPass, RecordPass
from tidewright.sharding.histogram import Histogram
from tidewright.shardmanager.propeller.fleet import Fleet
from tidewright.shardmanager.state import SCAN_TIMER, Asked, State
from tidewright.shardmanager.tell.metric_names import scope
from tidewright.shardmanager.tell.samples import Sample, histogram

LAST_PASSES = 100
"""Passes whose durations make the quantiles."""
AWAITED = 10_000
"""Effects whose outcomes are waited for; beyond, the oldest is not counted: its slot has become another process's."""


class Counts(msgspec.Struct):
    """Of one fleet.

    Attributes:
        created, deleted: pods.
        durations_ms: of the last passes; total_ms: of all of them.
        passes: how long each took, seconds.
    """

    created: int = 0
    deleted: int = 0
    durations_ms: list[float] = []
    total_ms: float = 0.0
    passes: Histogram = msgspec.field(default_factory=Histogram)

    def passed(self, took_s: float) -> None:
        """A pass has ended."""
        self.durations_ms = [*self.durations_ms[-(LAST_PASSES - 1) :], 1000 * took_s]
        self.total_ms += 1000 * took_s
        self.passes.observe(took_s)


class PassTally:
    """Counts of the fleets that this process has looked after, by their keys."""

    def __init__(self) -> None:
        self._counts: dict[str, Counts] = {}
        self._begun: dict[str, float] = {}
        """Log time at which the pass under way began, by fleet."""
        self._awaited: dict[str, Asked] = {}
        """Effects on pods of fleets, by the ids of their decisions."""

    def take(self, state: State, event: Event, decided: Sequence[Decision]) -> None:
        """Count what an event has brought, and what was decided about it."""
        if isinstance(event, Outcome):
            self._answered(event)
        for decision in decided:
            match decision:
                case CreateObject() | DeleteObject():
                    asked = state.asked.get(decision.id)
                    if asked is not None and asked.fleet:
                        self._awaited[decision.id] = asked
                case BeginPass(target=target, application=application):
                    self._end(f"{target.namespace}/{application}", decision.at)
                    self._begun[f"{target.namespace}/{application}"] = decision.at
                case RecordPass(standing_by=aside, rival=rival) if aside or rival:
                    self._begun.pop(f"{decision.target.namespace}/{decision.application}", None)
                case SetTimer(key=key) if key.startswith(SCAN_TIMER):
                    fleet = state.fleets.get(key.removeprefix(SCAN_TIMER))
                    if fleet is not None and not fleet.rival:
                        self._begun.setdefault(fleet.key, decision.at)
                        self._end(fleet.key, decision.at)
        for key in [key for key in self._begun if _dropped(state, key)]:
            del self._begun[key]
        while len(self._awaited) > AWAITED:
            del self._awaited[next(iter(self._awaited))]

    def series(self, state: State) -> Iterator[Sample]:
        """The series of a state's fleets."""
        for key, fleet in sorted(state.fleets.items()):
            if fleet.local:
                yield from _fleet(fleet, self._counts.get(key) or Counts())

    def _answered(self, outcome: Outcome) -> None:
        asked = self._awaited.pop(outcome.decision, None)
        if asked is None or not isinstance(outcome, Applied):
            return
        counts = self._counts.setdefault(asked.fleet, Counts())
        if asked.verb == "create":
            counts.created += 1
        else:
            counts.deleted += 1

    def _end(self, fleet: str, at: float) -> None:
        began = self._begun.pop(fleet, None)
        if began is not None:
            self._counts.setdefault(fleet, Counts()).passed(max(0.0, at - began))


def _dropped(state: State, key: str) -> bool:
    """Whether a pass that has begun is none any more: another configuration, or another mode, has ended it."""
    fleet = state.fleets.get(key)
    return fleet is not None and fleet.local and fleet.current is None


def _fleet(fleet: Fleet, counts: Counts) -> Iterator[Sample]:
    start = scope(fleet.metrics_prefix)
    durations = sorted(counts.durations_ms)
    for quantile in (0.5, 0.9, 0.99):
        if durations:
            value = durations[min(len(durations) - 1, int(quantile * len(durations)))]
            yield Sample(f"{start}round_time_ms", {"quantile": f"{quantile:g}"}, value)
    yield Sample(f"{start}round_time_ms_sum", {}, counts.total_ms, counter=True)
    yield Sample(f"{start}round_time_ms_count", {}, sum(counts.passes.counts), counter=True)
    yield Sample(f"{start}pods_created_count", {}, counts.created, counter=True)
    yield Sample(f"{start}pods_deleted_count", {}, counts.deleted, counter=True)
    labels = {"namespace": fleet.namespace, "name": fleet.config.pod_application}
    yield from histogram("shards_pass_seconds", labels, counts.passes)
