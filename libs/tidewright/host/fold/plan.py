"""Decisions and checkpoints as messages. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tidewright.events import registry
from tidewright.events.base import target_of
from tidewright.events.decisions import CancelTimer, SetTimer
from tidewright.events.shards import ChangeAssignment
from tidewright.events.spread import ChangeLedger
from tidewright.events.timers import TimerFired, TimerStepped
from tidewright.events.version import __version__
from tidewright.host.fold.decider import State
from tidewright.host.fold.order import Decided, Fold
from tidewright.log import checkpoint as checkpoints
from tidewright.log import timers
from tidewright.log.checkpoint import Checkpoint
from tidewright.log.connection import Message
from tidewright.log.envelope import ID, TRACEPARENT, Writer
from tidewright.log.subjects import Slot, Subjects

ENTRY = ".entry"
"""Ends the message id of a ledger entry, after that of its decision."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A decision as a message, and the schedule that it sets or takes back.

    Attributes:
        key: of the timer, when there is one. Of several schedules of one key in a batch only the
            last may be in it: a schedule replaces what lies on its subject, and the server refuses
            that twice in one batch.
        entry: the decision once more, as an entry of a ledger. It expects nothing: it holds whatever
            stands before it, and whoever chooses by the ledger sees it first.
    """

    message: Message
    key: str = ""
    schedule: Message | None = None
    entry: Message | None = None


def planned(
    subjects: Subjects,
    slot: Slot,
    writer: Writer,
    decided: Decided,
    *,
    cause_seq: int,
    cause: Mapping[str, str],
    wall_of: Callable[[float], float],
    step_until: float | None,
) -> Planned:
    """A decision as messages.

    Args:
        subjects: names of the cluster's stream.
        slot: where the service decided.
        writer: the process that commits.
        decided: the decision and its body.
        cause_seq: sequence of the event that it answers.
        cause: headers of that event.
        wall_of: log time to wall time, both in seconds.
        step_until: wall time beyond which a timer is set in steps; None: never.
    """
    decision, service = decided.decision, writer.service

    def headers(suffix: str = "") -> dict[str, str]:
        return writer.headers(
            decision.id + suffix,
            cause=cause.get(ID, ""),
            cause_seq=cause_seq,
            trace=cause.get(TRACEPARENT, ""),
        )

    def message(kind: str, namespace: str, name: str) -> Message:
        return Message(subjects.decision(slot, service, kind, namespace, name), decided.body, headers())

    match decision:
        case SetTimer(key=key, due=due):
            schedule = timer_message(
                subjects,
                slot,
                service,
                key=key,
                due=due,
                headers=headers(".set"),
                wall_of=wall_of,
                step_until=step_until,
            )
            return Planned(message("timer", "", key), key, schedule)
        case CancelTimer(key=key):
            schedule = timers.cancel_message(subjects, slot, service, key, headers(".cancel"))
            return Planned(message("timer", "", key), key, schedule)
    if (target := target_of(decision)) is not None:
        stored = message(target.kind.lower(), target.namespace, target.name)
        if isinstance(decision, ChangeLedger | ChangeAssignment) and not decision.shadow:
            subject = subjects.ledger(slot, service, target.namespace, target.name)
            return Planned(stored, entry=Message(subject, decided.body, headers(ENTRY)))
        return Planned(stored)
    return Planned(message("none", "", ""))


def is_entry(message: Message) -> bool:
    """Whether a message is a decision once more, for a ledger."""
    return (message.headers or {}).get(ID, "").endswith(ENTRY)


def timer_message(
    subjects: Subjects,
    slot: Slot,
    service: str,
    *,
    key: str,
    due: float,
    headers: dict[str, str],
    wall_of: Callable[[float], float],
    step_until: float | None,
) -> Message:
    """The schedule of a timer, or of the next step towards it."""
    wall = wall_of(due)
    if step_until is not None and wall > step_until:
        return timers.set_message(
            subjects, slot, service, timer=TimerStepped(at=due, key=key), wall=step_until, headers=headers
        )
    return timers.set_message(
        subjects, slot, service, timer=TimerFired(at=due, key=key), wall=wall, headers=headers
    )


def fired_message(
    subjects: Subjects, slot: Slot, service: str, fired: TimerFired, schedule: Message
) -> Message:
    """What the server would store when a timer's `schedule` fires, to be appended in its place; of steps, what the last one does."""
    headers = dict(schedule.headers or {})
    for name in (timers.SCHEDULE, timers.TARGET):
        del headers[name]
    return Message(subjects.timer(slot, service, fired.key), registry.encode(fired), headers)


def checkpoint_of(
    fold: Fold[State], *, position: int, epoch: int, incarnation: str, commit: int, claims: bool = False
) -> Checkpoint:
    """Where a fold stands, as a checkpoint; the first one of a claim says which inputs it is made of."""
    reads = fold.reads
    return Checkpoint(
        at=fold.at,
        position=position,
        epoch=epoch,
        incarnation=incarnation,
        commit=commit,
        folded=fold.folded,
        digest=fold.digest.hex(),
        chain=fold.chain,
        version=__version__,
        inputs=reads.digest if reads is not None else "",
        reads=reads if claims else None,
        state_version=fold.decider.state_version,
    )


def checkpoint_message(
    subjects: Subjects, slot: Slot, writer: Writer, checkpoint: Checkpoint, expect_last: int
) -> Message:
    """A checkpoint, to be accepted only as the successor of the one at sequence `expect_last`."""
    return Message(
        subjects.checkpoint(slot, writer.service),
        checkpoints.encode(checkpoint),
        writer.of_checkpoint(checkpoint.commit),
        expect_last,
    )
