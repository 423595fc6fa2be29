"""Every event type, and the one way to and from bytes.

A new type is its Struct in one of `MODULES`; a new module is its line there. `proto/` and the golden files are generated
from this list, and a test walks it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any, Union

import msgspec

from tidewright.events import (
    autoscaler,
    config,
    decisions,
    endpoints,
    facts,
    halts,
    incumbents,
    outcomes,
    placement,
    provisioning,
    shards,
    spread,
    timers,
)
from tidewright.events.base import Decision, Event, Fact

MODULES: tuple[ModuleType, ...] = (
    facts, config, decisions, outcomes, timers, provisioning, placement, shards, spread, endpoints,
    incumbents, autoscaler, halts,
)  # fmt: skip
"""One line per module of event types."""


class Unknown(msgspec.Struct, frozen=True, kw_only=True):
    """An event of a type that this version does not know: read past, never an error."""

    type: str
    at: float


UNREADABLE = Unknown(type="", at=0.0)
"""What a message that is no event is to a fold: counted and digested like any other, and read past.

A property of its bytes alone, so that every replica, every restart and every verification sets the same aside.
"""


class _Named(msgspec.Struct):
    type: str


class NotAnEvent(ValueError):
    """The bytes are no event: not JSON, without a type, or with a field of the wrong type."""


def _types(module: ModuleType) -> list[type[Event]]:
    return [
        member
        for member in vars(module).values()
        if inspect.isclass(member)
        and issubclass(member, Event)
        and member.__module__ == module.__name__
        and wire_name(member) is not None
    ]


def wire_name(event_type: type[Event]) -> str | None:
    """The tag of an event type (`fact.pod-observed.v1`); None for the abstract bases."""
    tag = event_type.__struct_config__.tag
    return tag if isinstance(tag, str) and "." in tag else None


ALL: tuple[type[Event], ...] = tuple(t for module in MODULES for t in _types(module))
FACTS = frozenset(t for t in ALL if issubclass(t, Fact))
"""For whom asks of every event: `isinstance` of a Struct takes longer than a look into a set."""
BY_NAME: dict[str, type[Event]] = {name: t for t in ALL if (name := wire_name(t)) is not None}

UPCASTS: dict[type[Event], Callable[[Any], Event]] = {}
"""Types that are written no more, and what each of their events is today. Pure, and kept for ever.

The type of an event changes its tag when a field changes its meaning; the old Struct and its golden
file stay, and readers see the new one alone: an old type's upcast may lead to one that has itself an
upcast. What is stored is not touched: digests and comparisons are over the bytes as they were.
"""

_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"')
_HEAD = b'{"type":"'
"""How every body of our own begins."""
MOST_DEPTH = 500
"""Levels of a body that are still read. Deeper ones end the decoder at a depth that depends on who calls it."""
MANY = 5_000
"""Events after which the decoder of all types is worth its making."""


class ByAndBy:
    """A decoder per type, made when the first event of its type comes by; of all types once there are many events.

    One decoder of all types is faster, but takes longer to make than a short command has to decode.
    """

    def __init__(self) -> None:
        self.decode: Callable[[bytes], Event] = self._by_type
        self._decoders: dict[bytes, msgspec.json.Decoder[Event]] = {}
        self._left = MANY

    def _by_type(self, body: bytes) -> Event:
        self._left -= 1
        begin = len(_HEAD)
        tag = bytes(body[begin : body.find(b'"', begin)]) if self._left and body.startswith(_HEAD) else b""
        decoder = self._decoders.get(tag) or self._made(tag)
        return decoder.decode(body)

    def _made(self, tag: bytes) -> msgspec.json.Decoder[Event]:
        if tag and b"\\" not in tag:
            kind = BY_NAME.get(tag.decode(errors="replace"))
            if kind is None:
                raise msgspec.ValidationError("no type that is known here")
            decoder = self._decoders[tag] = msgspec.json.Decoder(kind)
            return decoder
        every: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Union[ALL])
        self.decode = every.decode
        return every


_decoder = ByAndBy()
_unknown = msgspec.json.Decoder(Unknown)
_named = msgspec.json.Decoder(_Named)
_encoder = msgspec.json.Encoder(order="deterministic")


def encode(event: Event) -> bytes:
    """The body of an event: the same value gives the same bytes, always."""
    return _encoder.encode(event)


def decode(body: bytes) -> Event | Unknown:
    """The event in these bytes, or `Unknown` for a type of a newer writer.

    Raises:
        NotAnEvent: the bytes do not decode; the message names the field and what was expected.
    """
    if len(body) > 2 * MOST_DEPTH and _too_deep(body):
        raise NotAnEvent(f"not an event: more than {MOST_DEPTH} levels deep")
    try:
        event = _decoder.decode(body)
        return event if type(event) not in UPCASTS else upcast(event)
    except msgspec.ValidationError as error:
        try:
            named = _named.decode(body).type
            if named not in BY_NAME:
                return _unknown.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise NotAnEvent(f"not an event: {error}") from error
        raise NotAnEvent(f"not a {named}: {error}") from error
    except (
        msgspec.DecodeError,
        UnicodeDecodeError,
        RecursionError,
    ) as error:  # the second is what text that is none gives
        raise NotAnEvent(f"not an event: {error}") from error


def read(body: bytes) -> Event | Unknown:
    """The event in these bytes; `UNREADABLE` for what is none: set aside, never an error."""
    try:
        return decode(body)
    except NotAnEvent:
        return UNREADABLE


def _too_deep(body: bytes) -> bool:
    """Whether a body nests deeper than is read; counting brackets tells nearly all apart at once."""
    if body.count(b"[") + body.count(b"{") <= MOST_DEPTH:
        return False
    depth = 0
    for byte in _STRINGS.sub(b"", body):
        if byte in b"[{":
            depth += 1
            if depth > MOST_DEPTH:
                return True
        elif byte in b"]}":
            depth -= 1
    return False


def upcast(event: Event) -> Event:
    """An event of an old type as today's readers know it."""
    while (step := UPCASTS.get(type(event))) is not None:
        event = step(event)
    return event


def stamped(decision: Decision, *, decision_id: str, prev: str) -> None:
    """Fill in what only the host knows. The decision must not have been shared before."""
    msgspec.structs.force_setattr(decision, "id", decision_id)
    msgspec.structs.force_setattr(decision, "prev", prev)
