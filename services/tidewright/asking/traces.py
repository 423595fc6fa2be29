"""One trace from a fact to what came of it, read from the log: nothing is written for it, and no service knows of it.

    cause      the fact or timer that it began with, at its log time        the root
    decision   what a decider concluded about it
    effect     from the decision to its outcome
    outcome    what came of it; a decision that follows from an outcome is below it, in the same trace

Ids are digests of the cluster, of the sequence of the cause, and of decisions: whoever reads the log, and however often, gets the same.
"""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b
from typing import Final, TypeAlias, TypeVar

import msgspec

from tidewright.asking.lines import object_of, title
from tidewright.asking.lookups import cause_in, sequence_in, service_of
from tidewright.asking.source import Source
from tidewright.asking.told_time import told
from tidewright.events import registry
from tidewright.events.base import Decision, Event, Outcome
from tidewright.events.decisions import Effect
from tidewright.events.outcomes import Applied, Superseded
from tidewright.log.envelope import CAUSE_SEQ, WRITER
from tidewright.log.reader import Record

REMEMBERED: Final = 50_000
"""Causes and decisions that need not be looked up on the log; of others it is asked."""
FARTHEST: Final = 1000
"""Steps from an outcome back to the decision before it; what goes on for longer is cut there."""
MESSAGE_CHARACTERS: Final = 500

MOST_ATTEMPTS: Final = 2**63 - 1
"""That an attribute can say."""

Attribute: TypeAlias = str | int | float | bool | list[str]
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Span(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One step of a trace.

    Attributes:
        trace_id: 32 hexadecimal digits.
        span_id: 16 of them; `parent` is another span's, empty for the root.
        service: who took the step.
        start: log time, seconds since the epoch; as `end`.
        failed: why the step came to nothing; empty when it did not.
    """

    trace_id: str
    span_id: str
    parent: str = ""
    name: str
    service: str
    start: float
    end: float
    attributes: dict[str, Attribute] = {}
    failed: str = ""


class _Told(msgspec.Struct, frozen=True):
    """A decision that its outcome comes back to."""

    at: float
    name: str


class Tracer:
    """Makes spans of what is read, record by record."""

    def __init__(self, source: Source, cluster_id: str) -> None:
        self._source = source
        self._log = f"{source.subjects.cluster}/{cluster_id}"
        self._roots: OrderedDict[int, int] = OrderedDict()
        self._begun: OrderedDict[int, None] = OrderedDict()
        self._decisions: OrderedDict[str, _Told] = OrderedDict()

    async def spans(self, record: Record, event: Event) -> list[Span]:
        """The spans that are complete with a record; none for what is neither a decision nor an outcome."""
        spoken = self._source.subjects.class_token(record.subject)  # a ledger has copies of decisions
        if isinstance(event, Decision) and spoken == "decision":
            return await self._decided(record, event)
        if isinstance(event, Outcome):
            return await self._answered(record, event)
        return []

    async def _decided(self, record: Record, event: Decision) -> list[Span]:
        cause = cause_in(event.id)
        if cause is None:
            return []
        if isinstance(event, Effect) and not event.shadow:
            _keep(self._decisions, event.id, _Told(told(event), title(event)))
        root, spans = await self._root(cause), list[Span]()
        if root not in self._begun:
            _keep(self._begun, root, None)
            spans += await self._beginning(root)
        attributes = _about(record) | {"tidewright.decision": event.id}
        if event.because:
            attributes["tidewright.rules"] = [because.rule for because in event.because]
        if event.shadow:
            attributes["tidewright.shadow"] = True
        service = service_of(self._source.subjects, record)
        return [
            *spans,
            Span(
                trace_id=self._trace(root), span_id=self._id("decision", event.id), parent=await self._parent(cause),
                name=f"{service} {title(event)}", service=service, start=told(event), end=told(event), attributes=attributes,
            ),
        ]  # fmt: skip

    async def _answered(self, record: Record, event: Outcome) -> list[Span]:
        cause = cause_in(event.decision)
        if cause is None:
            return []
        asked = self._decisions.pop(event.decision, None) or await self._looked_up(record, event)
        trace = self._trace(await self._root(cause))
        failed = (
            "" if isinstance(event, Applied | Superseded) else event.reason or event.message or title(event)
        )
        attributes = _about(record) | {
            "tidewright.decision": event.decision,
            "tidewright.attempts": min(event.attempts, MOST_ATTEMPTS),
        }
        if event.reason:
            attributes["tidewright.reason"] = event.reason
        if event.message:
            attributes["tidewright.message"] = event.message[:MESSAGE_CHARACTERS]
        effect = self._id("effect", event.decision)
        start = min(asked.at, event.at)
        return [
            Span(
                trace_id=trace, span_id=effect, parent=self._id("decision", event.decision), name=f"actuator {asked.name}",
                service="actuator", start=start, end=event.at, attributes=attributes, failed=failed,
            ),
            Span(
                trace_id=trace, span_id=self._id("outcome", event.decision), parent=effect, name=title(event),
                service="actuator", start=event.at, end=event.at, attributes=attributes, failed=failed,
            ),
        ]  # fmt: skip

    async def _looked_up(self, record: Record, event: Outcome) -> _Told:
        """The decision that an outcome answers, when it was read before this began; what the outcome says where it is gone."""
        seq = sequence_in(record.headers.get(CAUSE_SEQ, ""))
        found = await self._source.at(seq) if seq is not None else None
        decision = registry.read(found.body) if found is not None else None
        if isinstance(decision, Decision) and decision.id == event.decision:
            return _Told(told(decision), title(decision))
        return _Told(event.at, "effect")

    async def _beginning(self, root: int) -> list[Span]:
        record = await self._source.at(root)
        event = registry.read(record.body) if record is not None else None
        if record is None or not isinstance(event, Event):
            return []  # it has aged out: what came of it still has one trace
        where = object_of(record.subject)
        match self._source.subjects.class_token(record.subject):
            case "timer":
                service = "log"
            case "fact" | "config":
                service = "watcher"
            case _:  # a decision or an answer whose own cause is not known
                service = record.headers.get(WRITER, "log")
        return [
            Span(
                trace_id=self._trace(root), span_id=self._id("cause", str(root)), name=f"{title(event)} {where}".strip(),
                service=service, start=event.at, end=event.at, attributes=_about(record),
            )
        ]  # fmt: skip

    async def _root(self, seq: int) -> int:
        """The sequence that a cause goes back to."""
        way: list[int] = []
        while seq not in self._roots and len(way) < FARTHEST:
            before = await self._before(seq)
            if before is None:
                _keep(self._roots, seq, seq)
                break
            way.append(seq)
            seq = before
        root = self._roots.get(seq, seq)
        for step in way:
            _keep(self._roots, step, root)
        return root

    async def _before(self, seq: int) -> int | None:
        """What the decision had as its cause that a record is, or answers; None of anything else."""
        record = await self._source.at(seq)
        event = registry.read(record.body) if record is not None else None
        identity = event.id if isinstance(event, Decision) else getattr(event, "decision", "")
        before = cause_in(identity) if isinstance(event, Decision | Outcome) else None
        return before if before is not None and before < seq else None

    async def _parent(self, cause: int) -> str:
        """The span that a decision is below."""
        record = await self._source.at(cause) if await self._root(cause) != cause else None
        match registry.read(record.body) if record is not None else None:
            case Outcome(decision=identity):
                return self._id("outcome", identity)
            case Decision(id=identity):
                return self._id("decision", identity)
        return self._id("cause", str(cause))

    def _trace(self, root: int) -> str:
        return blake2b(f"{self._log}/{root}".encode(), digest_size=16).hexdigest()

    def _id(self, what: str, which: str) -> str:
        return blake2b(f"{self._log}/{what}/{which}".encode(), digest_size=8).hexdigest()


def _about(record: Record) -> dict[str, Attribute]:
    return {"tidewright.sequence": record.seq, "tidewright.object": object_of(record.subject)}


def _keep(kept: OrderedDict[_Key, _Value], key: _Key, value: _Value) -> None:
    kept[key] = value
    if len(kept) > REMEMBERED:
        kept.popitem(last=False)
