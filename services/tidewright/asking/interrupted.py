"""Where a verification stood when it was interrupted, so that the next one of the same log goes on from there.

As long as nothing differed, all that a verification knows at a checkpoint can be said: each slot's fold, what was counted, and
what is known of single messages. It is kept among the asker's own files (`tidewright.asking.fold_files`), under the code that it is of,
and counts only while the log has the record that it was kept at, and for a day from when the first of the runs began: what was verified may
have been altered since. A file counts as the same one only byte for byte.
Who has verified to the end begins anew the next time.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from tidewright.asking.fold_files import FoldFiles, KeptFold, Whose
from tidewright.asking.services import BY_NAME, load
from tidewright.asking.source import Source
from tidewright.host.fold.provenance import Provenance, Seen
from tidewright.host.fold.verify import Difference, Report, SlotVerifier, Verifier
from tidewright.host.process.software import software_in, software_of
from tidewright.log import checkpoint as checkpoints
from tidewright.log.errors import Unsound
from tidewright.log.passing import Passed, Passing
from tidewright.log.reader import Record
from tidewright.log.snapshots import Snapshot, encode
from tidewright.log.subjects import Slot, Subjects

EVERY_S = 15.0
"""Between two times that it is kept, wall seconds: keeping is a small part of that."""
PAUSES = 20.0
"""At least so many times as long as keeping takes is verified before it is kept again."""
COUNTS_S = 86_400.0
"""For so long it counts from the beginning of the first run, wall seconds."""
WHOSE = Whose("verification under way", 2, "", "")
"""Of what is kept beside the folds. The number is that of its form."""


class KeptSlot(msgspec.Struct, frozen=True):
    """A service in a slot.

    Attributes:
        position: of the state that is kept of it; 0 when nothing was folded yet.
        checkpoints: that were compared.
    """

    service: str
    slot: str
    position: int
    checkpoints: int


class Progress(msgspec.Struct, frozen=True):
    """All that is known, with the states of the slots.

    Attributes:
        services: that are verified, in order.
        read_to: everything up to this sequence was read, and what could be compared was.
        again_from: behind this sequence is read once more: slots wait for a checkpoint of what lies there.
        begun_at: wall time at which the first of the runs began that it comes from, seconds.
        generation: of the keys.
        messages, events, decisions, checkpoints, aside, software: what was counted.
    """

    services: tuple[str, ...]
    read_to: int
    again_from: int
    begun_at: float
    generation: int
    messages: int
    events: int
    decisions: int
    checkpoints: int
    aside: int
    software: dict[str, int]
    slots: tuple[KeptSlot, ...]
    passed: Passed
    seen: Seen


class Going(msgspec.Struct, frozen=True):
    """Where to go on.

    Attributes:
        states: of the slots, as far as something was folded in them.
    """

    progress: Progress
    states: dict[tuple[str, str], Snapshot]

    def snapshots(self, service: str) -> list[Snapshot]:
        """The states of a service."""
        return [snapshot for (of, _), snapshot in self.states.items() if of == service]

    def continues(self, verifiers: Sequence[Verifier], report: Report) -> bool:
        """Take over what was counted; False where it was another verification: of other services, or of states of another form."""
        progress = self.progress
        slots = {(v.inputs.service, name): slot for v in verifiers for name, slot in v.slots.items()}
        kept = {(slot.service, Slot(slot.slot)): slot for slot in progress.slots}
        if slots.keys() != kept.keys() or any(slots[p].fold.position != kept[p].position for p in kept):
            return False
        for place, slot in slots.items():
            slot.checkpoints = kept[place].checkpoints
        report.events, report.decisions, report.checkpoints = (
            progress.events,
            progress.decisions,
            progress.checkpoints,
        )
        report.aside = progress.aside
        report.software.update(progress.software)
        return True


async def going_on(source: Source, files: FoldFiles, generation: int) -> Going | None:
    """Where an interrupted verification of a log stood; None where none counts."""
    software = software_in("tidewright")
    first, last = await source.bounds()
    kept = files.nearest(WHOSE, software, last)
    if kept is None:
        return None
    going = None
    with contextlib.suppress(msgspec.MsgspecError, ValueError):
        progress = msgspec.msgpack.decode(kept.data, type=Progress)
        there = await source.at(kept.checkpoint.seq)
        if (
            there is not None
            and (there.subject, there.body) == (kept.checkpoint.subject, kept.checkpoint.body)
            and 0 <= time.time() - progress.begun_at <= COUNTS_S
            and first <= progress.again_from + 1
            and progress.generation == generation
        ):
            going = _with_states(files, progress)
    if going is None:
        files.drop(WHOSE, software, kept.position)
    return going


def _with_states(files: FoldFiles, progress: Progress) -> Going | None:
    """With the states of its slots; None when one of them is gone."""
    states: dict[tuple[str, str], Snapshot] = {}
    for slot in progress.slots:
        if not slot.position:
            continue
        decider = load(BY_NAME[slot.service])
        whose = Whose(decider.service, decider.state_version, slot.slot, "")
        kept = files.nearest(whose, software_of(decider), slot.position)
        if kept is None or kept.position != slot.position:
            return None
        states[slot.service, slot.slot] = kept.snapshot()
    return Going(progress, states)


class Judging(NamedTuple):
    """What a verification judges by, and what it has found so far.

    Attributes:
        said: what is held against single messages.
        generation: of the log's keys.
    """

    report: Report
    passing: Passing
    provenance: Provenance
    said: Sequence[Difference]
    generation: int


class Interruptible:
    """Keeps where one verification of a log stands. Feed it every record that was verified."""

    def __init__(
        self,
        files: FoldFiles,
        subjects: Subjects,
        verifiers: Sequence[Verifier],
        judging: Judging,
        *,
        going: Going | None = None,
        every_s: float = EVERY_S,
    ) -> None:
        """`going`: where it goes on."""
        self._files = files
        self._begins = f"{subjects.root}.checkpoint."
        self._subjects = subjects
        self._verifiers = verifiers
        self._judging = judging
        self._every_s = every_s
        self._next = time.monotonic() + every_s
        self._begun_at = time.time() if going is None else going.progress.begun_at
        self._at: dict[tuple[str, ...], Record | None] = {
            (verifier.inputs.service, name): None for verifier in verifiers for name in verifier.slots
        }
        """The checkpoint that each slot's fold stands at, once there is one."""
        self._filed = (
            {} if going is None else {place: state.position for place, state in going.states.items()}
        )
        self._head = 0 if going is None else going.progress.read_to

    def take(self, record: Record, messages: int) -> None:
        """One record, the last of so many; where it is time and nothing differs, where it stands is kept."""
        if not record.subject.startswith(self._begins):
            return
        subject = self._subjects.parse(record.subject)
        place = (*subject.rest, subject.slot or "")
        if place in self._at:
            with contextlib.suppress(Unsound):
                if not checkpoints.usable(record).partial:
                    self._at[place] = record
        if time.monotonic() < self._next or self._judging.report.count or self._judging.said:
            return
        begun = time.monotonic()
        self._keep(record, messages)
        took = time.monotonic() - begun
        self._next = begun + took + max(self._every_s, PAUSES * took)

    def _keep(self, record: Record, messages: int) -> None:
        report, passing, provenance, _, generation = self._judging
        passed = passing.passed()
        rests = [slot.rest(record.seq) for verifier in self._verifiers for slot in verifier.slots.values()]
        if passed is None or None in rests:
            return  # a commit is read in part, or something is known that a state does not say
        software, before = dict(report.software), dict(self._filed)
        slots = []
        for verifier in self._verifiers:
            for name, slot in verifier.slots.items():
                self._file(verifier, name, slot, record)
                slots.append(KeptSlot(verifier.inputs.service, name, slot.fold.position, slot.checkpoints))
                for said, count in slot.pending().items():
                    software[said] -= count
        progress = Progress(
            tuple(verifier.inputs.service for verifier in self._verifiers), record.seq, min(rest for rest in rests if rest is not None),
            self._begun_at, generation, messages, report.events, report.decisions, report.checkpoints, report.aside,
            {said: count for said, count in software.items() if count}, tuple(slots), passed, provenance.seen(),
        )  # fmt: skip
        self._files.put(
            WHOSE, software_in("tidewright"), KeptFold(record, record.seq, msgspec.msgpack.encode(progress))
        )
        self.done()
        self._head = record.seq
        for verifier in self._verifiers:
            for name, slot in verifier.slots.items():
                place = (verifier.inputs.service, name)
                if before.get(place, self._filed.get(place)) != self._filed.get(place):
                    self._files.drop(_whose(slot), software_of(slot.fold.decider), before[place])

    def _file(self, verifier: Verifier, name: str, slot: SlotVerifier, record: Record) -> None:
        """Have a slot's state in a file, unless it is there already or there is none."""
        fold, place = slot.fold, (verifier.inputs.service, name)
        if not fold.position or self._filed.get(place) == fold.position:
            return
        at = self._at[place]  # none yet where it began with a state of the service's
        stored = fold.snapshot(checkpoint_seq=slot.begun_at if at is None else at.seq, position=fold.position)
        self._files.put(
            _whose(slot), software_of(fold.decider), KeptFold(at or record, fold.position, encode(stored))
        )
        self._filed[place] = fold.position

    def done(self) -> None:
        """What was kept last is of no use any more."""
        if self._head:
            self._files.drop(WHOSE, software_in("tidewright"), self._head)


def _whose(slot: SlotVerifier) -> Whose:
    fold = slot.fold
    return Whose(fold.decider.service, fold.decider.state_version, fold.slot, "")
