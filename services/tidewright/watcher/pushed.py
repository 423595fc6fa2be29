"""Samples that are pushed to us: their JSON form, and which metric queries they answer. Pure.

A pushed series answers every External query of its metric whose selector its labels satisfy; in its
own namespace, or in every namespace when it names none. A query's value is the sum of its live
series, as an answer of the External Metrics API would be. One with a label `pod` answers Resource
queries of its namespace, too: the series of a pod are summed, and stand for that pod. A series lives
for `LIFETIME_S` after its last push, of a pod for `POD_LIFETIME_S`; while a query has one, it is not
polled.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import msgspec

from tidewright.events.facts import MetricSampled
from tidewright.kube import quantities
from tidewright.kube.metricquery import MetricQuery, NotAQuery
from tidewright.kube.selectors import LabelSelector, SelectorError
from tidewright.watcher.answers import failure
from tidewright.watcher.wanted import Query

LIFETIME_S: Final = 300.0
"""Log time that a series counts after it was pushed, as long as Prometheus looks back for one."""
POD_LIFETIME_S: Final = 60.0
"""Of a series of a pod: what a pod that is gone has used last would go on counting."""
POD: Final = "pod"
"""The label that names the pod."""
AHEAD_S: Final = 60.0
"""A stamp further than this ahead of our clock would make staleness blind."""
MAX_SAMPLES: Final = 20_000
"""Per push."""
MAX_SERIES: Final = 10_000
"""Live, per query."""
FINITE: Final = "push a finite number"


class BadPush(ValueError):
    """A push that is refused.

    Attributes:
        field: which member is wrong, as a path; `status` is the HTTP status that says so.
    """

    def __init__(self, field: str, problem: str, *, status: int = 400) -> None:
        super().__init__(f"{field} {problem}")
        self.field = field
        self.status = status


class Sample(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One value of one series, in units.

    Attributes:
        namespace: whose objects may use it; empty for all.
        timestamp: when it was measured, seconds since the epoch; None for now.
        ended: the series has no value any more.
    """

    metric: str
    value: float
    namespace: str = ""
    labels: dict[str, str] = {}
    timestamp: float | None = None
    ended: bool = False


_decoder = msgspec.json.Decoder(list[Sample])
_single = msgspec.json.Decoder(Sample)


def decode_json(body: bytes) -> list[Sample]:
    """Read `[{"metric": ..., "value": ..., ...}]`, or one such object alone.

    Raises:
        BadPush: the message names the member by its path.
    """
    try:
        if body.lstrip()[:1] == b"{":
            return [_single.decode(body)]
        return _decoder.decode(body)
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at `$")
        field = f"samples{path.rstrip('`')}" if path else "samples"
        raise BadPush(field, f"cannot be read: {problem}") from error
    except msgspec.DecodeError as error:
        raise BadPush("body", f"is no JSON: {error}") from error


class _Live(msgspec.Struct):
    milli: int
    sampled_at: float
    taken_at: float
    error: str = ""
    pod: str = ""


class Taken(msgspec.Struct, frozen=True):
    """What came of a push.

    Attributes:
        facts: one per query that it answers, `at` 0.
        used: samples that answer a query; `unused`: that nobody asks for; `old`: that came too late.
        refused: what is wrong with samples that somebody asks for, one each.
    """

    facts: list[MetricSampled]
    used: int
    unused: int
    old: int
    refused: list[BadPush]


class Pushed:
    """The live series of every wanted query."""

    def __init__(self) -> None:
        self._wanted: dict[str, dict[Query, LabelSelector]] = {}
        self._live: dict[Query, dict[str, _Live]] = {}
        self._by_pod: set[Query] = set()

    def want(self, query: Query) -> None:
        """A query that somebody asks."""
        try:
            parsed = MetricQuery.parse(query.name)
            selector = LabelSelector.parse(parsed.selector)
            self._wanted.setdefault(parsed.metric, {})[query] = selector
            if parsed.source == "resource":
                self._by_pod.add(query)
        except (NotAQuery, SelectorError):
            return

    def forget(self, query: Query) -> None:
        """Nobody asks it any more."""
        self._live.pop(query, None)
        self._by_pod.discard(query)
        for queries in self._wanted.values():
            queries.pop(query, None)

    def lives(self, query: Query, now: float) -> bool:
        """Whether a query is answered by pushes, and therefore not polled."""
        return bool(self._series(query, now))

    def _series(self, query: Query, now: float) -> dict[str, _Live]:
        found = self._live.get(query)
        if found is None:
            return {}
        oldest = now - self._lifetime_s(query)
        for key in [key for key, live in found.items() if live.taken_at <= oldest]:
            del found[key]
        if not found:
            del self._live[query]
        return found

    def _lifetime_s(self, query: Query) -> float:
        return POD_LIFETIME_S if query in self._by_pod else LIFETIME_S

    def take(self, samples: Sequence[Sample], now: float) -> Taken:
        """Take a push; what is wrong with a sample does not keep the others out.

        Args:
            samples: what was pushed, stamps in log time.
            now: log time, seconds.

        Raises:
            BadPush: there are too many.
        """
        if len(samples) > MAX_SAMPLES:
            raise BadPush("samples", f"are {len(samples)}, at most {MAX_SAMPLES} in one push", status=413)
        changed: dict[Query, None] = {}
        used = unused = old = 0
        refused: list[BadPush] = []
        for n, sample in enumerate(samples):
            queries = self._answered(sample)
            if not queries:
                unused += 1
                continue
            error = _stamp_error(f"samples[{n}]", sample, now)
            if error is not None:
                refused.append(error)
                continue
            if not sample.ended and not math.isfinite(sample.value):
                refused.append(
                    BadPush(f"samples[{n}].value", f"of {sample.metric} is {sample.value}: {FINITE}")
                )
            taken = False
            for query in queries:
                if self._is_full(query, sample):
                    refused.append(_full(n, query))
                elif self._put(query, sample, now):
                    taken = True
                    changed[query] = None
            used += taken
            old += not taken
        facts = [fact for query in changed if (fact := self._fact(query, now)) is not None]
        return Taken(facts, used, unused, old, refused)

    def _answered(self, sample: Sample) -> list[Query]:
        wanted = self._wanted.get(sample.metric, {})
        return [
            query
            for query, selector in wanted.items()
            if selector.matches(sample.labels)
            and (
                sample.namespace in ("", query.namespace)
                if query not in self._by_pod
                else sample.namespace == query.namespace and bool(sample.labels.get(POD))
            )
        ]

    def _is_full(self, query: Query, sample: Sample) -> bool:
        series = self._live.get(query, {})
        return len(series) >= MAX_SERIES and _key(sample) not in series

    def _put(self, query: Query, sample: Sample, now: float) -> bool:
        series = self._live.setdefault(query, {})
        key = _key(sample)
        stamp = now if sample.timestamp is None else sample.timestamp
        known = series.get(key)
        if stamp <= now - self._lifetime_s(query) or (known is not None and stamp < known.sampled_at):
            return False
        if sample.ended:
            series.pop(key, None)
        elif math.isfinite(sample.value):
            series[key] = _Live(
                quantities.milli(repr(sample.value)), stamp, now, pod=sample.labels.get(POD, "")
            )
        else:
            series[key] = _Live(0, stamp, now, f"the value pushed for {{{key}}} is {sample.value}: {FINITE}")
        return True

    def _fact(self, query: Query, now: float) -> MetricSampled | None:
        """The answer of the live series; None without one: then the query is polled again."""
        live = self._series(query, now)
        if not live:
            return None
        keys = sorted(live)
        for key in keys:
            if live[key].error:
                return failure(query, live[key].error, "garbage", 0.0)
        pods: dict[str, int] = {}
        if query in self._by_pod:
            for key in keys:
                pods[live[key].pod] = pods.get(live[key].pod, 0) + live[key].milli
        return MetricSampled(
            at=0.0,
            namespace=query.namespace,
            name=query.name,
            series_milli=() if pods else tuple(live[key].milli for key in keys),
            pods_milli=pods,
            # A sum is as fresh as its oldest part.
            sampled_at=min(one.sampled_at for one in live.values()),
        )


def _key(sample: Sample) -> str:
    return ",".join(f"{name}={sample.labels[name]}" for name in sorted(sample.labels))


def _stamp_error(where: str, sample: Sample, now: float) -> BadPush | None:
    stamp = sample.timestamp
    if stamp is None or (math.isfinite(stamp) and stamp <= now + AHEAD_S):
        return None
    return BadPush(
        f"{where}.timestamp",
        f"of {sample.metric} is {stamp:.15g} s, ahead of this clock ({now:.0f}) by more than {AHEAD_S:g} s",
    )


def _full(n: int, query: Query) -> BadPush:
    return BadPush(
        f"samples[{n}].labels",
        f"make more than {MAX_SERIES} series of {query.name} in namespace {query.namespace}: "
        "aggregate them before they are pushed",
        status=413,
    )
