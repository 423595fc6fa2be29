"""Fold the log again, and compare every decision byte for byte. Pure; reads records, writes findings.

The order is the host's: a decision is compared right after its cause, once a checkpoint says that
everything up to there was decided. Altered or missing facts show in the checkpoints' digests,
altered decisions in their chain, another policy or version in the comparison itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from sys import maxsize
from typing import Any, Literal

import msgspec

from tidewright.events import registry
from tidewright.events.base import Decision, Event
from tidewright.events.version import __version__
from tidewright.host.fold.decider import Decider
from tidewright.host.fold.inbox import Inbox, Word
from tidewright.host.fold.inputs import CHECKPOINT, INPUT, BySubject, Inputs, Role
from tidewright.host.fold.order import Decided, Fold, cause_of
from tidewright.log import checkpoint as checkpoints
from tidewright.log import envelope
from tidewright.log.checkpoint import Checkpoint, digest_of
from tidewright.log.errors import Unsound
from tidewright.log.reader import Record
from tidewright.log.snapshots import Snapshot
from tidewright.log.subjects import Slot

Cause = Literal[
    "altered or missing fact",
    "altered decision",
    "other software version",
    "undecodable message",
    "different decision",
    "altered message",
    "not authenticated",
    "cut off",
    "altered archive",
    "not sealed",
]


@dataclass(frozen=True)
class Difference:
    """One place where the log and its recomputation part.

    Attributes:
        seq: of the decision or checkpoint on the log; of the cause when the log has no decision.
        cause: what the evidence says.
        recorded, recomputed: bodies, empty where there is none.
    """

    service: str
    slot: str
    seq: int
    cause: Cause
    message: str
    recorded: bytes = b""
    recomputed: bytes = b""


@dataclass
class Report:
    """What was compared, and the differences found, in the order of the log.

    `differences` keeps the first hundred; `count` counts all. `software` tells of how many decisions each
    service and version was the writer. `aside` are messages that do not decode: they are digested with the
    facts, and nobody decides on them.
    """

    events: int = 0
    decisions: int = 0
    checkpoints: int = 0
    undecided: int = 0
    aside: int = 0
    count: int = 0
    differences: list[Difference] = field(default_factory=list)
    software: Counter[str] = field(default_factory=Counter)

    KEPT = 100

    def add(self, difference: Difference) -> None:
        """Note one difference."""
        self.count += 1
        if len(self.differences) < self.KEPT:
            self.differences.append(difference)


class _Heading(msgspec.Struct, frozen=True, gc=False):
    """All that has to be known of a decision which is compared byte for byte: the rest of it need not be decoded."""

    type: str
    id: str = ""
    prev: str = ""


_headings = msgspec.json.Decoder(_Heading)
_DECISIONS = frozenset(
    name
    for name, kind in registry.BY_NAME.items()
    if issubclass(kind, Decision) and kind not in registry.UPCASTS
)


def _heading(body: bytes) -> _Heading | None:
    """Of a decision as it is written today; None of what has to be decoded as a whole."""
    try:
        heading = _headings.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return heading if heading.type in _DECISIONS else None


class _Recorded(msgspec.Struct, frozen=True, gc=False):
    seq: int
    id: str
    body: bytes
    version: str
    digest: str


class SlotVerifier:
    """One service in one slot."""

    def __init__(
        self,
        decider: Decider[Any, Any],
        slot: Slot,
        report: Report,
        *,
        snapshot: Snapshot | None,
        end: int | None,
        software: str,
        inputs: Inputs,
    ) -> None:
        """`end` is the position of the slot's last checkpoint; None when it is not known beforehand."""
        self._report = report
        self._inputs = inputs
        self._software = software
        self._written_by = ""
        self._end = maxsize if end is None else end
        self._service = decider.service
        self._slot = slot
        self.fold: Fold[Any] = Fold.resumed(decider, snapshot) if snapshot else Fold(decider, slot)
        self._from = snapshot.checkpoint_seq if snapshot else 0
        self._reads = self.fold.reads or inputs.unnamed
        self.fold.reads = self._reads
        self._tokens = self._reads.tokens
        self._unknown = ""
        """Digest of the set of inputs that is in force and not known here."""
        self._inbox = Inbox()
        self._recorded: dict[int, list[_Recorded]] = {}
        self._chain = self.fold.chain
        self._last_cause = 0
        self._torn: list[tuple[int, int]] = []
        """Causes between which the chain is torn: a decision about one of them was altered or removed."""
        self._found: list[Difference] = []
        """Differences since the last checkpoint, whose digest says what they come from."""
        self.differs = False
        """Whether anything differed, so that the fold is not what the log says any more."""
        self.checkpoints = 0
        self._undecided = False
        """Whether something was read that is behind its last checkpoint."""
        self.covered = snapshot.position if snapshot else 0
        """The greatest position of its checkpoints on the log."""

    def input(self, seq: int, body: bytes, event: Event | registry.Unknown) -> None:
        """An event that the service folded."""
        if seq > self._end:
            # Nothing will come that could be compared with it.
            self._report.undecided += seq > self.fold.position
            self._undecided = True
        elif seq > self.fold.position:
            self._inbox.waiting.append((seq, body, event))

    def word(self, word: Word) -> None:
        """An event that only some versions of the service follow."""
        if word.seq <= self._end:
            self._inbox.put_apart(word, self.fold.position)
        else:
            self._report.undecided += word.seq > self.fold.position and word.token in self._tokens
            self._undecided = True

    def decision(self, record: Record, decision: Decision | _Heading) -> None:
        """A decision that the service recorded."""
        cause, _ = cause_of(decision.id)
        if cause <= self.fold.position:
            return
        if decision.prev != self._chain:
            self._torn.append((self._last_cause, cause))
        self._chain, self._last_cause = digest_of(record.body), cause
        version = record.headers.get(envelope.VERSION, "")
        recorded = _Recorded(record.seq, decision.id, record.body, version, self._chain)
        self._report.software[f"{self._service} {version}".rstrip()] += 1
        self._recorded.setdefault(cause, []).append(recorded)

    def checkpoint(self, seq: int, checkpoint: Checkpoint, written_by: str) -> None:
        """Up to where the service had decided: everything up to there is compared now."""
        self._written_by = written_by
        self.covered = max(self.covered, checkpoint.position)
        if seq <= self._from:
            return  # the snapshot is of a later one
        if checkpoint.partial:
            return  # covers nothing; the decisions before it wait for those that follow
        position = checkpoint.position
        recorded = self._recorded_chain(position)
        if checkpoint.chain != recorded:
            self._torn.append((self._last_cause, position))
        fold, due = self.fold, self._inbox.due(position, self._tokens)
        for cause, body, event in due:
            before = fold.chain
            decided = fold.step(cause, body, event)
            if decided or cause in self._recorded:
                self._compare(cause, before, decided, self._recorded.pop(cause, []))
        self._report.events += len(due)
        self._compare_orphans(position)
        self.fold.position = max(self.fold.position, position)
        self._follow(seq, checkpoint)
        self._report.checkpoints += 1
        self.checkpoints += 1
        if self._unknown:
            self.fold.digest, self.fold.folded = bytes.fromhex(checkpoint.digest), checkpoint.folded
        if checkpoint.digest != self.fold.digest.hex():
            self._differs(
                seq, "altered or missing fact",
                f"checkpoint {seq} (position {position}) was made of {checkpoint.folded} events with digest "
                f"{checkpoint.digest}; the log has {self.fold.folded} with digest {self.fold.digest.hex()}",
                first=True,
            )  # fmt: skip
            # Said once; what follows is compared from here on.
            self.fold.digest = bytes.fromhex(checkpoint.digest)
            self.fold.folded = checkpoint.folded
        if self._torn and not any(d.cause == "altered decision" for d in self._found):
            self._differs(
                seq, "altered decision",
                f"checkpoint {seq} names {checkpoint.chain or 'none'} as digest of the last decision, on the log it is "
                f"{recorded or 'none'}" if checkpoint.chain != recorded else
                f"the chain of digests is torn at the decisions about event {self._torn[0][1]}: one of them was altered, "
                "removed or added",
            )  # fmt: skip
        for difference in self._found:
            self._report.add(difference)
        self._found.clear()
        self._torn.clear()
        self.fold.chain = checkpoint.chain
        if not self._recorded:  # else the chain runs on through decisions that are recorded in parts
            self._chain = checkpoint.chain

    @property
    def begun_at(self) -> int:
        """Sequence of the checkpoint that it began with; 0 where it began with nothing."""
        return self._from

    def rest(self, read_to: int) -> int | None:
        """Behind which sequence a verification goes on that has read so far and begins with the fold as it is.

        None where the fold does not say all that is known.
        """
        if self.differs or self._torn or self._unknown or self._inbox.knows_more(self._tokens):
            return None
        waits = self._undecided or self._recorded or not self._inbox.is_empty()
        return min(self.fold.position, read_to) if waits else read_to

    def pending(self) -> Counter[str]:
        """Decisions that were read and not compared yet, by who wrote them, as in the report."""
        return Counter(
            f"{self._service} {recorded.version}".rstrip()
            for those in self._recorded.values()
            for recorded in those
        )

    def _recorded_chain(self, position: int) -> str:
        """Digest of the last decision on the log about an event up to a position."""
        if not self._recorded:
            return self.fold.chain
        causes = [cause for cause in self._recorded if cause <= position]
        return self._recorded[max(causes)][-1].digest if causes else self.fold.chain

    def _compare_orphans(self, position: int) -> None:
        """Decisions about events that are not on the log."""
        if not self._recorded:
            return
        for cause in sorted(c for c in self._recorded if c <= position):
            for recorded in self._recorded.pop(cause):
                self._differs(
                    recorded.seq, "altered or missing fact",
                    f"decision {recorded.id} answers event {cause}, which is not on the log",
                    recorded=recorded.body,
                )  # fmt: skip
                decision = registry.read(recorded.body)
                if isinstance(decision, Decision):
                    self.fold.replay_decision(Decided(decision, recorded.body))

    def finish(self) -> None:
        """No more records: what waits was not decided yet."""
        self._report.undecided += len(self._inbox.left(self._tokens))

    def _follow(self, seq: int, checkpoint: Checkpoint) -> None:
        """Go on by the set of inputs that a checkpoint names."""
        reads = self._inputs.named(checkpoint)
        if reads == self._reads and not self._unknown:  # as nearly always
            return
        if reads is not None and reads.tokens <= self._inputs.ever:
            self._unknown = ""
            if reads != self._reads:
                self.fold.catch_up(self._inbox.last_words(reads.tokens - self._tokens))
                self.fold.reads, self._reads, self._tokens = reads, reads, reads.tokens
        elif checkpoint.inputs not in (self._unknown, self._reads.digest):
            self._unknown = checkpoint.inputs
            more = (reads.tokens - self._inputs.ever).patterns if reads is not None else ()
            self._differs(
                seq, "other software version",
                f"checkpoint {seq} and what follows were made of other inputs than this software knows of"
                + (f" ({', '.join(more)} besides)" if more else ""),
            )  # fmt: skip

    def _compare(self, seq: int, before: str, decided: list[Decided], recorded: list[_Recorded]) -> None:
        """What is decided about an event with what is recorded; `before` it, the chain was this."""
        self._report.decisions += len(recorded)
        same = len(decided) == len(recorded) and all(
            mine.body == theirs.body for mine, theirs in zip(decided, recorded, strict=True)
        )
        if same:
            return
        self._explain_difference(seq, decided, recorded)
        # State follows the log from here on, so that one difference is not reported a thousand times:
        # the chain is the recorded one; state keeps what was recomputed, which is what a reader wants named.
        self.fold.chain = recorded[-1].digest if recorded else before

    def _explain_difference(self, seq: int, decided: list[Decided], recorded: list[_Recorded]) -> None:
        torn = any(low <= seq <= high for low, high in self._torn)
        for n in range(max(len(decided), len(recorded))):
            mine = decided[n].body if n < len(decided) else b""
            theirs = recorded[n].body if n < len(recorded) else b""
            if mine == theirs:
                continue
            at = recorded[n].seq if n < len(recorded) else seq
            version = recorded[n].version if n < len(recorded) else self._written_by
            cause: Cause = "different decision"
            if torn:
                cause = "altered decision"
            elif theirs and registry.read(theirs) is registry.UNREADABLE:
                cause = "undecodable message"
            elif _is_other(version, self._software):
                cause = "other software version"
            what = (
                f"the log has no decision {n} for event {seq}" if not theirs
                else f"recomputation gives no decision {n} for event {seq}" if not mine
                else f"decision {n} for event {seq} differs"
            )  # fmt: skip
            if version and version != self._software:
                unsaid = "" if cause == "other software version" else ", which does not say of which code"
                what += f" (written by {version}{unsaid}, this is {self._software})"
            if torn:
                what += ", and the chain of digests is torn there"
            self._differs(at, cause, what, recorded=theirs, recomputed=mine)
            return

    def _differs(
        self,
        seq: int,
        cause: Cause,
        message: str,
        *,
        recorded: bytes = b"",
        recomputed: bytes = b"",
        first: bool = False,
    ) -> None:
        """Note a difference; the `first` one is what the others since the last checkpoint come from."""
        self.differs = True
        difference = Difference(self._service, self._slot, seq, cause, message, recorded, recomputed)
        if not first:
            self._found.append(difference)
            return
        follows: list[Difference] = []
        for other in self._found:
            if other.cause in ("different decision", "other software version"):
                other = replace(other, cause=cause, message=f"{other.message}, as what it was made of does")
            follows.append(other)
        self._found[:] = [difference, *follows]


def _is_other(written_by: str, software: str) -> bool:
    """Whether another software wrote it; one that says its number alone may be the same."""
    return written_by not in ("", software, software.partition("+")[0])


class Verifier:
    """All slots of one service. Feed it every record of the log, in order."""

    def __init__(
        self,
        decider: Decider[Any, Any],
        inputs: Inputs,
        report: Report,
        *,
        snapshots: Iterable[Snapshot] = (),
        ends: Mapping[Slot, int] | None = None,
        software: str = __version__,
    ) -> None:
        """`ends` are positions of the slots' last checkpoints, when they are known: what lies behind is not kept.

        `software` is what the decider is of, see `tidewright.host.process.software`.
        """
        self.inputs = inputs
        self._report = report
        starts = {s.slot: s for s in snapshots if s.service == decider.service}
        self.slots = {
            slot: SlotVerifier(
                decider,
                slot,
                report,
                snapshot=starts.get(slot),
                end=None if ends is None else ends.get(slot, 0),
                software=software,
                inputs=inputs,
            )
            for slot in inputs.every
        }
        self._all = tuple(self.slots.values())

    def reading(self, subject: str) -> Reading | None:
        """What the messages of a subject are to the service, and in which slots; None when they are nothing."""
        inputs = self.inputs
        if not inputs.reads(subject, self.slots, recorded=True):
            return None
        slot = inputs.slot(subject)
        whose = self._all if slot is None else (self.slots[slot],)
        return self, inputs.role(subject), whose, inputs.token(subject)

    @property
    def checkpoints(self) -> int:
        """Checkpoints compared so far; none when the service has never run."""
        return sum(verifier.checkpoints for verifier in self._all)

    def decided(self, record: Record, decision: Decision | _Heading, slots: Iterable[SlotVerifier]) -> None:
        """A decision that the service recorded in these slots."""
        try:
            for verifier in slots:
                verifier.decision(record, decision)
        except ValueError as error:
            self.undecodable(record, error, slots)

    def undecodable(self, record: Record, error: Exception, slots: Iterable[SlotVerifier]) -> None:
        """A message that the service reads in these slots is no event, or no checkpoint."""
        for verifier in slots:
            self._report.add(
                Difference(
                    self.inputs.service, verifier.fold.slot, record.seq, "undecodable message",
                    f"message {record.seq} on {record.subject}: {error}", recorded=record.body,
                )
            )  # fmt: skip

    def aside(self) -> None:
        """One more message that does not decode."""
        self._report.aside += 1

    def finish(self) -> None:
        """The log ends here. Of a service that has never run, nothing waits to be decided."""
        if self.checkpoints:
            for verifier in self._all:
                verifier.finish()

    def held_against(self, promised: Mapping[str, int], first: int) -> None:
        """Compare with what the log's own head says was on it: `<service>.<slot>` to the position of its last checkpoint."""
        for slot, verifier in self.slots.items():
            end = promised.get(f"{self.inputs.service}.{slot}", 0)
            if verifier.covered < end >= first:
                self._report.add(
                    Difference(
                        self.inputs.service, slot, verifier.covered, "cut off",
                        f"the log is said to hold a checkpoint of position {end}, and the last one on it is of {verifier.covered}: "
                        "its end was cut off, or checkpoints were removed",
                    )
                )  # fmt: skip


Reading = tuple[Verifier, Role, tuple[SlotVerifier, ...], str]
"""Who reads a subject, as what, in which slots; and its token, where only some sets of inputs have it."""


class Verification:
    """Several services at once: what more than one of them reads is decoded once.

    Feed it every record of the log, in order.
    """

    def __init__(self, verifiers: Iterable[Verifier]) -> None:
        self.verifiers = tuple(verifiers)
        self._readings = BySubject(self._read_by)

    def _read_by(self, subject: str) -> tuple[tuple[Reading, ...], bool]:
        """Who reads a subject, and whether all of them only compare what is there."""
        readings = [r for verifier in self.verifiers if (r := verifier.reading(subject)) is not None]
        return tuple(readings), all(role is Role.DECISION for _, role, _, _ in readings)

    def take(self, record: Record) -> None:
        """Fold or compare one record."""
        readings, compared = self._readings[record.subject]
        if not readings:
            return
        try:
            if readings[0][1] is CHECKPOINT:  # to everyone who reads it
                self._checkpoint(record, readings)
                return
        except Unsound as error:
            for service, _, slots, _ in readings:
                service.undecodable(record, error, slots)
            return
        if compared and (heading := _heading(record.body)) is not None:
            for service, _, slots, _ in readings:
                service.decided(record, heading, slots)
            return
        event = registry.read(record.body)
        if event is registry.UNREADABLE:
            self._set_aside(record, readings)
        for service, role, slots, token in readings:
            if role is INPUT:
                if token and service.inputs.concerns(event):
                    for verifier in slots:
                        verifier.word(Word(token, record.subject, record.seq, record.body, event))
                elif service.inputs.concerns(event):
                    for verifier in slots:
                        verifier.input(record.seq, record.body, event)
            elif isinstance(event, Decision):
                service.decided(record, event, slots)

    def _set_aside(self, record: Record, readings: tuple[Reading, ...]) -> None:
        """What does not decode is an input like any other, of which nothing comes; but no decision of ours is such."""
        readings[0][0].aside()
        for service, role, slots, _ in readings:
            if role is not INPUT:
                service.undecodable(record, ValueError("no decision"), slots)

    def _checkpoint(self, record: Record, readings: tuple[Reading, ...]) -> None:
        checkpoint = checkpoints.usable(record)
        written_by = record.headers.get(envelope.VERSION, "")
        for _, _, slots, _ in readings:
            for verifier in slots:
                verifier.checkpoint(record.seq, checkpoint, written_by)

    def finish(self) -> None:
        """The log ends here."""
        for verifier in self.verifiers:
            verifier.finish()
