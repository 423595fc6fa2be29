"""What a service says of itself: that it has stopped in a slot."""

from __future__ import annotations

from typing import Literal

from tidewright.events.base import Event

HaltReason = Literal["DeciderFailed", "NewerFact", "DecisionUnreadable"]


class SlotHalted(Event, frozen=True, kw_only=True, tag="halt.slot-halted.v1"):
    """A service decides nothing more in one of its slots; the others go on. Written by that service, once for each place where it stops (with `DecisionUnreadable` by each software that does).

    It is over as soon as a checkpoint of the slot covers `before`; with `DecisionUnreadable` also once other software has taken the slot. Nobody folds it: what is decided does not depend on it. A slot whose
    checkpoint cannot be gone on from says nothing, since that checkpoint does.

    Attributes:
        service: which one.
        slot: which of its slots.
        before: sequence that it could not go beyond: everything before it that was decided is on the log.
        subject: of the message there; empty where the slot could not be restored beyond its last checkpoint.
        reason: `DeciderFailed`: a defect of this version. `NewerFact`: only a newer version understands it.
            `DecisionUnreadable`: one of the service's own decisions is not readable any more.
        message: for people.
    """

    service: str
    slot: str
    before: int
    subject: str = ""
    reason: HaltReason
    message: str = ""
