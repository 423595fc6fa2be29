"""States left on the way of a verification, from which later questions about any moment go on.

Who verifies folds the whole log, and a first look at a moment far from every snapshot would fold it again. As long as
nothing in a slot differed, what was folded is what the log says.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidewright.asking.fold_files import FoldFiles, KeptFold, Whose
from tidewright.host.fold.verify import SlotVerifier, Verifier
from tidewright.host.process.software import software_of
from tidewright.log import checkpoint as checkpoints
from tidewright.log.errors import Unsound
from tidewright.log.reader import Record
from tidewright.log.snapshots import encode
from tidewright.log.subjects import Subjects

EVERY = 20_000
"""Events of a fold after which its state is kept: folding so many takes well below a second."""


class Seeds:
    """The states that are kept of one verification. Feed it every record that the verifiers have taken."""

    def __init__(self, files: FoldFiles, subjects: Subjects, verifiers: Iterable[Verifier]) -> None:
        self._files = files
        self._subjects = subjects
        self._begins = f"{subjects.root}.checkpoint."
        self._of: dict[tuple[str, ...], SlotVerifier] = {
            (verifier.inputs.service, slot): of_slot
            for verifier in verifiers
            for slot, of_slot in verifier.slots.items()
        }
        self._folded = {place: of_slot.fold.folded for place, of_slot in self._of.items()}

    def take(self, record: Record) -> None:
        """One record; a state is kept as it is at a checkpoint."""
        if not record.subject.startswith(self._begins):
            return
        subject = self._subjects.parse(record.subject)
        place = *subject.rest, subject.slot
        if place not in self._of:
            return
        of_slot = self._of[place]
        fold = of_slot.fold
        if of_slot.differs or fold.folded - self._folded[place] < EVERY:
            return
        try:
            checkpoint = checkpoints.usable(record)
        except Unsound:
            return
        if checkpoint.partial or checkpoint.position != fold.position:
            return
        self._folded[place] = fold.folded
        data = encode(fold.snapshot(checkpoint_seq=record.seq, position=fold.position))
        whose = Whose(fold.decider.service, fold.decider.state_version, subject.slot, "")
        self._files.put(whose, software_of(fold.decider), KeptFold(record, fold.position, data))
