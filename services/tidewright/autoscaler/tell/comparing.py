"""Our decisions beside what an incumbent did to the same targets, as the log has observed both. Pure.

In shadow mode (and in a dry run) our scales are recorded and not written: every change of a target's
requested replicas is then the incumbent's. A change and a decision in the same direction that lie
within a few seconds of each other belong together; the rest is what only one of both wanted, and
our recorded reasons say why.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum

import msgspec

from tidewright.autoscaler.api.spec import InvalidSpec, compiled, target_key
from tidewright.autoscaler.state import KIND
from tidewright.autoscaler.tell.sentences import clock, sentences
from tidewright.events.acting import NOT_DONE
from tidewright.events.autoscaler import (
    HoldReplicas,
    WatermarkPodAutoscalerGone,
    WatermarkPodAutoscalerObserved,
)
from tidewright.events.base import Because, Event
from tidewright.events.decisions import ScaleWorkload
from tidewright.events.facts import WorkloadGone, WorkloadObserved
from tidewright.events.outcomes import Applied

WITHIN_S = 60.0
"""A decision and a change further apart than this do not belong together (log time)."""


class PairVerdict(Enum):
    """How a pair compares."""

    SAME = "same"
    DIFFERENT = "different"
    ONLY_OURS = "only ours"
    ONLY_THEIRS = "only theirs"


class CountChange(msgspec.Struct):
    """A count that was, or would have been, set.

    Attributes:
        until: the last time that it was decided again, without anything having come of it.
        why: of ours, as it was recorded.
    """

    at: float
    before: int
    after: int
    until: float = 0.0
    times: int = 1
    why: tuple[Because, ...] = ()


class Row(msgspec.Struct, frozen=True):
    """One comparison.

    Attributes:
        why: sentences: why we decided so, or why we left it.
    """

    at: float
    verdict: PairVerdict
    ours: CountChange | None
    theirs: CountChange | None
    why: tuple[str, ...]


class Comparison(msgspec.Struct, frozen=True):
    """All rows about one object.

    Attributes:
        written: decisions of ours that were written, from the time on that was asked for: there is no incumbent to compare them with.
    """

    namespace: str
    name: str
    rows: tuple[Row, ...]
    written: int = 0

    def count(self, verdict: PairVerdict) -> int:
        """How many rows say so."""
        return sum(row.verdict is verdict for row in self.rows)


class _Object:
    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self.target = ""
        self.ours: list[CountChange] = []
        self.theirs: list[CountChange] = []
        self.holds: list[tuple[float, str, tuple[Because, ...]]] = []
        self.written: list[float] = []


class Comparing:
    """Fold the events of a log, then ask for the comparisons."""

    def __init__(self) -> None:
        self._objects: dict[tuple[str, str], _Object] = {}
        self._replicas: dict[tuple[str, str], int] = {}
        self._decided: dict[str, tuple[_Object, CountChange]] = {}
        self._ours: dict[tuple[str, str], int] = {}

    def fold(self, event: Event) -> None:
        """Take an event into account, in stream order."""
        match event:
            case WatermarkPodAutoscalerObserved():
                scaler = self._of(event.namespace, event.name)
                try:
                    rules = compiled(event.spec, namespace=event.namespace, name=event.name)
                    scaler.target = rules.target_key
                except InvalidSpec:
                    scaler.target = ""
            case WatermarkPodAutoscalerGone():
                self._of(event.namespace, event.name).target = ""
            case WorkloadObserved():
                self._observed(event)
            case WorkloadGone():
                key = target_key(event.api_version, event.kind, event.name)
                self._replicas.pop((event.namespace, key), None)
            case ScaleWorkload():
                self._scaled(event)
            case HoldReplicas() if event.target.kind == KIND:
                scaler = self._of(event.target.namespace, event.target.name)
                scaler.holds.append((event.at, event.reason, event.because))
            case Applied() if event.reason not in NOT_DONE and event.decision in self._decided:
                self._written(*self._decided[event.decision], event.at)
            case _:
                return

    def _written(self, scaler: _Object, change: CountChange, at: float) -> None:
        """What we did ourselves is nobody else's; the target may show it before or after the outcome."""
        scaler.written.append(at)
        if change in scaler.ours:
            scaler.ours.remove(change)
        for theirs in reversed(scaler.theirs):
            if theirs.at >= change.at and theirs.after == change.after:
                scaler.theirs.remove(theirs)
                return
        self._ours[scaler.namespace, scaler.target] = change.after

    def _of(self, namespace: str, name: str) -> _Object:
        return self._objects.setdefault((namespace, name), _Object(namespace))

    def _observed(self, event: WorkloadObserved) -> None:
        key = (event.namespace, target_key(event.api_version, event.kind, event.name))
        before = self._replicas.get(key)
        self._replicas[key] = event.replicas
        if before is None or before == event.replicas:
            return
        if self._ours.pop(key, None) == event.replicas:
            return  # we wrote it
        for (namespace, _), scaler in self._objects.items():
            if (namespace, scaler.target) == key:
                scaler.theirs.append(CountChange(event.at, before, event.replicas, event.at))

    def _scaled(self, event: ScaleWorkload) -> None:
        namespace, _, name = event.owner.removeprefix(f"{KIND}/").partition("/")
        scaler = self._of(namespace, name)
        last = scaler.ours[-1] if scaler.ours else None
        again = (
            last is not None
            and (last.before, last.after) == (event.from_replicas, event.replicas)
            # a decision may stand behind a change in the log that it could not know: log time tells
            and not any(last.at <= change.at <= event.at for change in scaler.theirs)
        )
        if again and last is not None:
            last.until, last.times = event.at, last.times + 1
            change = last
        elif event.replicas == event.from_replicas:
            return
        else:
            change = CountChange(event.at, event.from_replicas, event.replicas, event.at, why=event.because)
            scaler.ours.append(change)
        if event.id:
            self._decided[event.id] = (scaler, change)

    def unexplained(self, since: float) -> list[tuple[str, str]]:
        """Namespace and name of objects that the incumbent changed from `since` on before we were seen to leave them."""
        return [
            key
            for key, scaler in sorted(self._objects.items())
            if any(
                change.at >= since and not any(at <= change.at for at, *_ in scaler.holds)
                for change in scaler.theirs
            )
        ]

    def recall(self, hold: HoldReplicas) -> None:
        """Take into account why an object was left before everything that was folded."""
        scaler = self._of(hold.target.namespace, hold.target.name)
        scaler.holds.insert(0, (hold.at, hold.reason, hold.because))

    def results(self, within_s: float = WITHIN_S, since: float | None = None) -> list[Comparison]:
        """The comparisons, by namespace and name; of what happened from `since` on."""
        return [
            Comparison(
                namespace,
                name,
                tuple(row for row in _rows(scaler, within_s) if since is None or row.at >= since),
                sum(since is None or at >= since for at in scaler.written),
            )
            for (namespace, name), scaler in sorted(self._objects.items())
        ]


def _rows(scaler: _Object, within_s: float) -> Iterable[Row]:
    unpaired = list(scaler.ours)
    rows = []
    for theirs in scaler.theirs:
        ours = _nearest(unpaired, theirs, within_s)
        if ours is None:
            rows.append(Row(theirs.at, PairVerdict.ONLY_THEIRS, None, theirs, _held(scaler, theirs.at)))
            continue
        unpaired.remove(ours)
        verdict = PairVerdict.SAME if ours.after == theirs.after else PairVerdict.DIFFERENT
        rows.append(Row(min(ours.at, theirs.at), verdict, ours, theirs, tuple(sentences(ours.why))))
    rows += [Row(ours.at, PairVerdict.ONLY_OURS, ours, None, tuple(sentences(ours.why))) for ours in unpaired]
    return sorted(rows, key=lambda row: row.at)


def _nearest(ours: Sequence[CountChange], theirs: CountChange, within_s: float) -> CountChange | None:
    up = theirs.after > theirs.before

    def distance(change: CountChange) -> float:
        if change.at <= theirs.at <= change.until:
            return 0.0
        return min(abs(change.at - theirs.at), abs(change.until - theirs.at))

    near = [c for c in ours if (c.after > c.before) == up and distance(c) <= within_s]
    return min(near, key=lambda c: (distance(c), c.at), default=None)


def _held(scaler: _Object, at: float) -> tuple[str, ...]:
    """Why we did nothing at that time, as it was recorded last before it."""
    before = [hold for hold in scaler.holds if hold[0] <= at]
    if not before:
        return ("We had decided nothing about it yet.",)
    since, reason, why = before[-1]
    return (*sentences(why), f"So we left it, since {clock(since)}: {reason}.")
