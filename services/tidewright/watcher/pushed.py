"""Samples that are pushed to us: their JSON form, and which metric queries they answer. Pure.

A pushed series answers every External query of its metric whose selector its labels satisfy, in its
own namespace: external metrics are namespaced, and one without a namespace would move the objects of
everybody. It is refused, unless its metric is one that was said to be shared by all. A query's value
is the sum of its live series, as an answer of the External Metrics API would be. One with a label `pod` answers Resource
queries of its namespace, too: the series of a pod are summed, and stand for that pod. A series lives
for `LIFETIME_S` after its last push, of a pod for `POD_LIFETIME_S`; while a query has one, it is not
polled.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from tidewright.events.facts import MetricSampled
from tidewright.host.ports.tokens import EVERYTHING, Token
from tidewright.kube import quantities
from tidewright.kube.metricquery import MetricQuery, NotAQuery
from tidewright.kube.selectors import LabelSelector, SelectorError
from tidewright.watcher.metric_facts import failure
from tidewright.watcher.metric_queries import Query

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
MAX_LIVE: Final = 100_000
"""Live, of all queries together."""
MAX_LABELS: Final = 64
"""Of one series."""
MAX_TEXT: Final = 1024
"""Characters of a metric's name, and of a label's name or value."""
SAID: Final = 5
"""Refused samples that an answer names."""
SHOWN: Final = 120
"""Characters of a series that a message shows."""
FINITE: Final = "push a finite number"


class BadPush(ValueError):
    """A push that is refused.

    Attributes:
        field: which member is wrong, as a path; `status` is the HTTP status that says so.
        why: one word, for counters.
    """

    def __init__(self, field: str, problem: str, *, status: int = 400, why: str = "unreadable") -> None:
        super().__init__(f"{field} {problem}")
        self.field = field
        self.status = status
        self.why = why


class Refusals:
    """What is wrong with samples of one push: all counted, the first few kept in words."""

    def __init__(self) -> None:
        self.by_why: Counter[str] = Counter()
        self.first: list[BadPush] = []
        self.status = 0

    def add(self, error: BadPush) -> None:
        """One more."""
        self.by_why[error.why] += 1
        self.status = max(self.status, error.status)
        if len(self.first) < SAID:
            self.first.append(error)

    def __len__(self) -> int:
        return self.by_why.total()


class Sample(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One value of one series, in units.

    Attributes:
        namespace: whose objects may use it; empty for all, where its metric is shared.
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
        if "unknown field" in problem:
            problem += f"; valid are {', '.join(Sample.__struct_fields__)}"
        field = f"samples{path.rstrip('`')}" if path else "samples"
        raise BadPush(field, f"cannot be read: {problem}") from error
    except (msgspec.DecodeError, RecursionError) as error:
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
        refused: what is wrong with samples that somebody asks for.
    """

    facts: list[MetricSampled]
    used: int
    unused: int
    old: int
    refused: Refusals


class Pushed:
    """The live series of every wanted query."""

    def __init__(self, shared: Collection[str] = ()) -> None:
        """`shared` are metrics that belong to no namespace: pushed without one, they are for all."""
        self.shared = frozenset(shared)
        self._wanted: dict[str, dict[str, dict[Query, LabelSelector]]] = {}  # by metric and namespace
        self._live: dict[Query, dict[bytes, _Live]] = {}
        self._by_pod: set[Query] = set()

    def want(self, query: Query) -> None:
        """A query that somebody asks."""
        try:
            parsed = MetricQuery.parse(query.name)
            selector = LabelSelector.parse(parsed.selector)
        except (NotAQuery, SelectorError):
            return
        self._wanted.setdefault(parsed.metric, {}).setdefault(query.namespace, {})[query] = selector
        if parsed.source == "resource":
            self._by_pod.add(query)

    def forget(self, query: Query) -> None:
        """Nobody asks it any more."""
        self._live.pop(query, None)
        self._by_pod.discard(query)
        try:
            metric = MetricQuery.parse(query.name).metric
        except NotAQuery:
            return
        spaces = self._wanted.get(metric, {})
        queries = spaces.get(query.namespace, {})
        queries.pop(query, None)
        if not queries:
            spaces.pop(query.namespace, None)
        if not spaces:
            self._wanted.pop(metric, None)

    def lives(self, query: Query, now: float) -> bool:
        """Whether a query is answered by pushes, and therefore not polled."""
        return bool(self._series(query, now))

    def _series(self, query: Query, now: float) -> dict[bytes, _Live]:
        series = self._live.get(query)
        if series is None:
            return {}
        oldest = now - self._lifetime_s(query)
        for key in [key for key, live in series.items() if live.taken_at <= oldest]:
            del series[key]
        if not series:
            del self._live[query]
        return series

    def _lifetime_s(self, query: Query) -> float:
        return POD_LIFETIME_S if query in self._by_pod else LIFETIME_S

    def take(self, samples: Sequence[Sample], now: float, token: Token = EVERYTHING) -> Taken:
        """Take a push; what is wrong with a sample does not keep the others out.

        Args:
            samples: what was pushed, stamps in log time.
            now: log time, seconds.
            token: that the push brought; it may be good for some namespaces only.

        Raises:
            BadPush: there are too many.
        """
        if len(samples) > MAX_SAMPLES:
            raise BadPush(
                "samples", f"are {len(samples)}, at most {MAX_SAMPLES} in one push", status=413, why="samples"
            )
        changed: dict[Query, None] = {}
        used = unused = old = 0
        refused = Refusals()
        room = MAX_LIVE - sum(map(len, self._live.values()))
        if room < len(samples):
            room = self._room(now)
        for n, sample in enumerate(samples):
            where = f"samples[{n}]"
            try:
                queries = self._answered(where, sample, token)
                if queries:
                    _check(where, sample, now)
            except BadPush as error:
                refused.add(error)
                continue
            if not queries:
                unused += 1
                continue
            if not sample.ended and not math.isfinite(sample.value):
                refused.add(
                    BadPush(f"{where}.value", f"of {sample.metric} is {sample.value}: {FINITE}", why="value")
                )
            taken, key = False, _key(sample)
            for query in queries:
                known = self._live.get(query, {})
                new = key not in known
                if new and (len(known) >= MAX_SERIES or room <= 0) and not sample.ended:
                    refused.add(_full(where, query if len(known) >= MAX_SERIES else None))
                elif self._put(query, sample, key, now):
                    room -= new and not sample.ended
                    taken = True
                    changed[query] = None
            used += taken
            old += not taken
        facts = [fact for query in changed if (fact := self._fact(query, now)) is not None]
        return Taken(facts, used, unused, old, refused)

    def _room(self, now: float) -> int:
        """For how many more series there is room once those that are over are forgotten."""
        for query in list(self._live):
            self._series(query, now)
        return MAX_LIVE - sum(map(len, self._live.values()))

    def _answered(self, where: str, sample: Sample, token: Token) -> list[Query]:
        """The queries that a sample answers.

        Raises:
            BadPush: somebody asks for its metric, but it may not answer.
        """
        spaces = self._wanted.get(sample.metric)
        if not spaces:
            return []
        for_all = not sample.namespace and sample.metric in self.shared
        if not sample.namespace and not for_all:
            raise BadPush(
                f"{where}.namespace",
                f"of {_shown(sample)} is missing: it would answer for every namespace. Push it with its "
                "namespace, or start the watcher with --push-shared-metrics if it belongs to none",
                why="namespace",
            )
        candidates = spaces.values() if for_all else [spaces.get(sample.namespace, {})]
        if any(candidates) and not token.allows(sample.namespace):
            good_for = ", ".join(sorted(token.namespaces or ()))
            raise BadPush(
                f"{where}.namespace",
                f"of {_shown(sample)} is {sample.namespace or 'none'}; this token is good for {good_for}",
                status=403,
                why="token",
            )
        return [
            query
            for queries in candidates
            for query, selector in queries.items()
            if selector.matches(sample.labels)
            and (query not in self._by_pod or (bool(sample.namespace) and bool(sample.labels.get(POD))))
        ]

    def _put(self, query: Query, sample: Sample, key: bytes, now: float) -> bool:
        series = self._live.setdefault(query, {})
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
            series[key] = _Live(
                0, stamp, now, f"the value pushed for {_shown(sample)} is {sample.value}: {FINITE}"
            )
        return True

    def _fact(self, query: Query, now: float) -> MetricSampled | None:
        """The answer of the live series; None without one: then the query is polled again."""
        live = self._series(query, now)
        if not live:
            return None
        for series in live.values():
            if series.error:
                return failure(query, series.error, "garbage", 0.0)
        pods: dict[str, int] = {}
        if query in self._by_pod:
            for series in live.values():
                pods[series.pod] = pods.get(series.pod, 0) + series.milli
        return MetricSampled(
            at=0.0,
            namespace=query.namespace,
            name=query.name,
            series_milli=() if pods else tuple(series.milli for series in live.values()),
            pods_milli=pods,
            # A sum is as fresh as its oldest part.
            sampled_at=min(series.sampled_at for series in live.values()),
        )


def _key(sample: Sample) -> bytes:
    """Which series it is, in as many bytes for long labels as for short ones."""
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(sample.labels):
        for text in (name, sample.labels[name]):
            data = text.encode("utf-8", "surrogatepass")
            digest.update(len(data).to_bytes(4, "big") + data)
    return digest.digest()


def _shown(sample: Sample) -> str:
    """A series for a message: its metric and labels, as long as they are short."""
    text, size = [], 0
    for name in sorted(sample.labels)[:MAX_LABELS]:
        text.append(f"{name[:SHOWN]}={sample.labels[name][:SHOWN]}")
        size += len(text[-1])
        if size > SHOWN:
            break
    labels = ",".join(text)
    short = labels if len(labels) <= SHOWN else f"{labels[:SHOWN]}..."
    return f"{sample.metric[:SHOWN]}{{{short}}}"


def _check(where: str, sample: Sample, now: float) -> None:
    """Refuse a stamp or labels that cannot be.

    Raises:
        BadPush: naming them.
    """
    stamp = sample.timestamp
    if stamp is not None and not (math.isfinite(stamp) and stamp <= now + AHEAD_S):
        raise BadPush(
            f"{where}.timestamp",
            f"of {sample.metric} is {stamp:.15g} s, ahead of this clock ({now:.0f}) by more than {AHEAD_S:g} s",
            why="stamp",
        )
    if len(sample.labels) > MAX_LABELS:
        raise BadPush(
            f"{where}.labels",
            f"of {_shown(sample)} are {len(sample.labels)}, at most {MAX_LABELS} of one series",
            status=413,
            why="labels",
        )
    for name, value in sample.labels.items():
        if len(name) > MAX_TEXT or len(value) > MAX_TEXT:
            raise BadPush(
                f"{where}.labels[{name[:SHOWN]}]",
                f"of {sample.metric[:SHOWN]} has {max(len(name), len(value))} characters, at most {MAX_TEXT}",
                status=413,
                why="labels",
            )


def _full(where: str, query: Query | None) -> BadPush:
    """Too many series of a query, or of all together."""
    what = f"{MAX_LIVE} series of all queries together"
    if query is not None:
        what = f"{MAX_SERIES} series of {query.name} in namespace {query.namespace}"
    return BadPush(
        f"{where}.labels",
        f"make more than {what}: aggregate them before they are pushed",
        status=413,
        why="series",
    )
