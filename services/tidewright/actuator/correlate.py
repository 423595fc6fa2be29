"""Object events: what is written of the wish to write one. Pure.

As clients of the API do: the same event again counts up instead of being written anew; many that
differ only in their message are combined; and no object gets more than a burst and a trickle.
An event's name is derived from its decision, so that a repeat finds it.
"""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b
from typing import TypeAlias

import msgspec

from tidewright.actuator.identity import unique
from tidewright.events.base import JsonObject
from tidewright.events.decisions import RecordObjectEvent
from tidewright.kube.times import rfc3339

WINDOW_S = 600.0
"""Events further apart than this are not the same."""
SIMILAR_LIMIT = 10
"""From here on, events that differ only in their message are combined."""
BURST = 25
REFILL_S = 300.0
"""One more event per object after so long."""
REMEMBERED = 4096
MAX_MESSAGE = 1024
COMBINED = "(combined from similar events): "

_Group: TypeAlias = tuple[str, ...]


class Write(msgspec.Struct, frozen=True):
    """Write a new event."""

    namespace: str
    name: str
    body: JsonObject


class Count(msgspec.Struct, frozen=True):
    """Set the count of an event that was written before."""

    namespace: str
    name: str
    patch: JsonObject
    otherwise: JsonObject
    """The new event to write when that one is gone; its name is in it."""


class Drop(msgspec.Struct, frozen=True):
    """Too many about this object."""

    message: str


class _Written(msgspec.Struct):
    name: str
    count: int
    first: float
    last: float


class _Similar(msgspec.Struct):
    messages: set[str]
    last: float


class _Bucket(msgspec.Struct):
    tokens: float
    at: float


class Correlator:
    """What was written lately. Forgotten at a restart, which costs a count and nothing else."""

    def __init__(self) -> None:
        self._written: OrderedDict[_Group, _Written] = OrderedDict()
        self._similar: OrderedDict[_Group, _Similar] = OrderedDict()
        self._buckets: OrderedDict[_Group, _Bucket] = OrderedDict()

    def correlate(self, effect: RecordObjectEvent, now: float, nth: int = 0) -> Write | Count | Drop:
        """What to do about the `nth` of its messages; `now` is wall time, seconds since the epoch."""
        target = effect.target
        thing = (target.api_version, target.kind, target.namespace, target.name, target.uid)
        source = (effect.component, *thing)
        if not self._allowed(source, now):
            return Drop(
                f"more than {BURST} object events about {target.kind} {target.namespace}/{target.name}"
            )
        group = (*source, effect.event_type, effect.reason)
        message = self._message(group, effect.messages[nth], now)
        key = (*group, COMBINED if message.startswith(COMBINED) else message)
        written = self._written.get(key)
        namespace = target.namespace or "default"
        if written is None or now - written.last > WINDOW_S:
            name = event_name(effect, nth)
            self._written[key] = _Written(name, 1, now, now)
            _forget(self._written)
            return Write(namespace, name, event_body(effect, name, message, first=now, last=now, count=1))
        self._written.move_to_end(key)
        written.count += 1
        written.last = now
        anew = event_body(
            effect, event_name(effect, nth), message, first=written.first, last=now, count=written.count
        )
        patch = {"count": written.count, "lastTimestamp": rfc3339(now), "message": message}
        return Count(namespace, written.name, patch, anew)

    def renamed(self, effect: RecordObjectEvent, old: str, new: str) -> None:
        """The event that was to be counted up was gone; another one has taken its place."""
        for written in self._written.values():
            if written.name == old:
                written.name = new

    def _allowed(self, source: _Group, now: float) -> bool:
        bucket = self._buckets.get(source)
        if bucket is None:
            bucket = self._buckets[source] = _Bucket(float(BURST), now)
            _forget(self._buckets)
        self._buckets.move_to_end(source)
        bucket.tokens = min(float(BURST), bucket.tokens + max(0.0, now - bucket.at) / REFILL_S)
        bucket.at = now
        if bucket.tokens < 1.0:
            return False
        bucket.tokens -= 1.0
        return True

    def _message(self, group: _Group, message: str, now: float) -> str:
        similar = self._similar.get(group)
        if similar is None or now - similar.last > WINDOW_S:
            similar = self._similar[group] = _Similar(set(), now)
            _forget(self._similar)
        self._similar.move_to_end(group)
        similar.last = now
        if len(similar.messages) < SIMILAR_LIMIT:
            similar.messages.add(message)
        text = message if message in similar.messages else f"{COMBINED}{message}"
        return text if len(text) <= MAX_MESSAGE else f"{text[: MAX_MESSAGE - 3]}..."


def _forget(
    remembered: OrderedDict[_Group, _Written] | OrderedDict[_Group, _Similar] | OrderedDict[_Group, _Bucket],
) -> None:
    while len(remembered) > REMEMBERED:
        remembered.popitem(last=False)


def event_name(effect: RecordObjectEvent, nth: int = 0) -> str:
    """`<object>.<digest of the decision's name over all logs, and of which of its messages>`: the same for every attempt."""
    which = f"{unique(effect)} {nth}" if nth else unique(effect)
    digest = blake2b(which.encode(), digest_size=8).hexdigest()
    return f"{effect.target.name[:200].rstrip('.-')}.{digest}"


def event_body(
    effect: RecordObjectEvent, name: str, message: str, *, first: float, last: float, count: int
) -> JsonObject:
    """A core v1 Event."""
    target = effect.target
    involved = {
        "apiVersion": target.api_version,
        "kind": target.kind,
        "namespace": target.namespace,
        "name": target.name,
        "uid": target.uid,
    }
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": target.namespace or "default"},
        "involvedObject": {field: value for field, value in involved.items() if value},
        "reason": effect.reason,
        "message": message,
        "type": effect.event_type,
        "source": {"component": effect.component},
        "reportingComponent": effect.component,
        "reportingInstance": "",
        "firstTimestamp": rfc3339(first),
        "lastTimestamp": rfc3339(last),
        "count": count,
    }
