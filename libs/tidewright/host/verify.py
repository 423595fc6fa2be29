"""Fold the log again, and compare every decision byte for byte. Pure; reads records, writes findings.

The order is the host's: a decision is compared right after its cause, once a checkpoint says that
everything up to there was decided. Altered or missing facts show in the checkpoints' digests,
altered decisions in their chain, another policy or version in the comparison itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from tidewright.events import registry
from tidewright.events.base import Decision, Event
from tidewright.events.version import __version__
from tidewright.host.decider import Decider
from tidewright.host.fold import Decided, Fold, cause_of
from tidewright.host.inputs import Inputs, Role
from tidewright.log import checkpoint as checkpoints
from tidewright.log import envelope
from tidewright.log.checkpoint import Checkpoint, digest_of
from tidewright.log.reader import Record
from tidewright.log.snapshots import Snapshot
from tidewright.log.subjects import Slot

Cause = Literal[
    "altered or missing fact",
    "altered decision",
    "other software version",
    "undecodable message",
    "different decision",
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

    `differences` keeps the first hundred; `count` counts all.
    """

    events: int = 0
    decisions: int = 0
    checkpoints: int = 0
    undecided: int = 0
    count: int = 0
    differences: list[Difference] = field(default_factory=list)

    KEPT = 100

    def add(self, difference: Difference) -> None:
        """Note one difference."""
        self.count += 1
        if len(self.differences) < self.KEPT:
            self.differences.append(difference)


@dataclass(slots=True)
class _Recorded:
    seq: int
    decided: Decided
    version: str


class SlotVerifier:
    """One service in one slot."""

    def __init__(self, decider: Decider[Any], slot: Slot, report: Report, snapshot: Snapshot | None) -> None:
        self._report = report
        self._service = decider.service
        self._slot = slot
        self.fold: Fold[Any] = Fold.resumed(decider, snapshot) if snapshot else Fold(decider, slot)
        self._from = snapshot.checkpoint_seq if snapshot else 0
        self._waiting: deque[tuple[int, bytes, Event | registry.Unknown]] = deque()
        self._recorded: dict[int, list[_Recorded]] = {}
        self._chain = self.fold.chain
        self._broken = False

    def input(self, seq: int, body: bytes, event: Event | registry.Unknown) -> None:
        if seq > self.fold.position:
            self._waiting.append((seq, body, event))

    def decision(self, record: Record, decision: Decision) -> None:
        cause, _ = cause_of(decision.id)
        if cause <= self.fold.position:
            return
        if decision.prev != self._chain and not self._broken:
            self._differs(
                record.seq, "altered decision",
                f"decision {decision.id} says that the digest of the one before it is {decision.prev or 'none'}, "
                f"on the log it is {self._chain or 'none'}: one of them was altered, removed or added",
                recorded=record.body,
            )  # fmt: skip
        self._chain = digest_of(record.body)
        one = _Recorded(record.seq, Decided(decision, record.body), record.headers.get(envelope.VERSION, ""))
        self._recorded.setdefault(cause, []).append(one)

    def checkpoint(self, seq: int, checkpoint: Checkpoint) -> None:
        if seq <= self._from:
            return  # the snapshot is of a later one
        if checkpoint.partial:
            return  # covers nothing; the decisions before it wait for those that follow
        while self._waiting and self._waiting[0][0] <= checkpoint.position:
            self._compare(*self._waiting.popleft())
        for cause in sorted(c for c in self._recorded if c <= checkpoint.position):
            for one in self._recorded.pop(cause):
                self._differs(
                    one.seq, "altered or missing fact",
                    f"decision {one.decided.decision.id} answers event {cause}, which is not on the log",
                    recorded=one.decided.body,
                )  # fmt: skip
                self.fold.replay_decision(one.decided)
        self.fold.position = max(self.fold.position, checkpoint.position)
        self._report.checkpoints += 1
        if checkpoint.digest != self.fold.digest.hex():
            self._differs(
                seq, "altered or missing fact",
                f"checkpoint {seq} (position {checkpoint.position}) was made of {checkpoint.folded} events with digest "
                f"{checkpoint.digest}; the log has {self.fold.folded} with digest {self.fold.digest.hex()}",
            )  # fmt: skip
            # Said once; what follows is compared from here on.
            self.fold.digest = bytes.fromhex(checkpoint.digest)
            self.fold.folded = checkpoint.folded
        if checkpoint.chain != self.fold.chain and not self._broken:
            self._differs(
                seq, "altered decision",
                f"checkpoint {seq} names {checkpoint.chain or 'none'} as digest of the last decision; on the log it is "
                f"{self.fold.chain or 'none'}",
            )  # fmt: skip
        self.fold.chain = checkpoint.chain
        if not self._recorded:  # else the chain runs on through decisions that are recorded in parts
            self._chain = checkpoint.chain

    def finish(self) -> None:
        """No more records: what waits was not decided yet."""
        self._report.undecided += len(self._waiting)

    def _compare(self, seq: int, body: bytes, event: Event | registry.Unknown) -> None:
        recorded = self._recorded.pop(seq, [])
        fold = self.fold
        before = fold.chain
        decided = fold.step(seq, body, event)
        self._report.events += 1
        self._report.decisions += len(recorded)
        same = len(decided) == len(recorded) and all(
            mine.body == theirs.decided.body for mine, theirs in zip(decided, recorded, strict=True)
        )
        if same:
            return
        self._explain_difference(seq, decided, recorded)
        # State follows the log from here on, so that one difference is not reported a thousand times:
        # the chain is the recorded one; state keeps what was recomputed, which is what a reader wants named.
        fold.chain = digest_of(recorded[-1].decided.body) if recorded else before

    def _explain_difference(self, seq: int, decided: list[Decided], recorded: list[_Recorded]) -> None:
        for n in range(max(len(decided), len(recorded))):
            mine = decided[n].body if n < len(decided) else b""
            theirs = recorded[n].decided.body if n < len(recorded) else b""
            if mine == theirs:
                continue
            at = recorded[n].seq if n < len(recorded) else seq
            version = recorded[n].version if n < len(recorded) else ""
            cause: Cause = "different decision"
            if version and version != __version__:
                cause = "other software version"
            what = (
                f"the log has no decision {n} for event {seq}" if not theirs
                else f"recomputation gives no decision {n} for event {seq}" if not mine
                else f"decision {n} for event {seq} differs"
            )  # fmt: skip
            written = (
                f" (written by {version}, this is {__version__})" if cause == "other software version" else ""
            )
            self._differs(at, cause, what + written, recorded=theirs, recomputed=mine)
            return

    def _differs(
        self, seq: int, cause: Cause, message: str, *, recorded: bytes = b"", recomputed: bytes = b""
    ) -> None:
        self._report.add(Difference(self._service, self._slot, seq, cause, message, recorded, recomputed))


class Verifier:
    """All slots of one service. Feed it every record of the log, in order."""

    def __init__(
        self, decider: Decider[Any], inputs: Inputs, report: Report, snapshots: Iterable[Snapshot] = ()
    ) -> None:
        self.inputs = inputs
        self._report = report
        starts = {s.slot: s for s in snapshots if s.service == decider.service}
        self.slots = {slot: SlotVerifier(decider, slot, report, starts.get(slot)) for slot in inputs.every}

    def take(self, record: Record) -> None:
        """Fold or compare one record."""
        if not self.inputs.reads(record.subject, self.slots, recorded=True):
            return
        slot = self.inputs.slot(record.subject)
        verifiers = self.slots.values() if slot is None else (self.slots[slot],)
        role = self.inputs.role(record.subject)
        try:
            if role is Role.CHECKPOINT:
                found = checkpoints.decode(record.body)
                for verifier in verifiers:
                    verifier.checkpoint(record.seq, found)
                return
            event = registry.decode(record.body)
        except ValueError as error:
            for verifier in verifiers:
                self._report.add(
                    Difference(
                        self.inputs.service, verifier.fold.slot, record.seq, "undecodable message",
                        f"message {record.seq} on {record.subject}: {error}", recorded=record.body,
                    )
                )  # fmt: skip
            return
        for verifier in verifiers:
            if role is Role.DECISION and isinstance(event, Decision):
                verifier.decision(record, event)
            elif role is Role.INPUT and self.inputs.concerns(event):
                verifier.input(record.seq, record.body, event)

    def finish(self) -> None:
        """The log ends here."""
        for verifier in self.slots.values():
            verifier.finish()
