"""What an attempt came to: an outcome, or another attempt after a while. Pure.

A refusal that a retry does not mend is `Rejected`, one whose retries are used up is `Failed`; either
way the decision gets exactly one outcome, and its reason is the class of the error.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from tidewright.events.base import Decision, JsonObject
from tidewright.events.outcomes import Applied, Failed, Rejected, Superseded
from tidewright.kube.errors import KubeError

CONFLICT: Final = "Conflict"
DRY_RUN: Final = "DryRun"
SHADOW: Final = "Shadow"
RATE_LIMITED: Final = "RateLimited"
NOT_SUPPORTED: Final = "NotSupported"
LEASE_HELD: Final = "LeaseHeld"
NOT_ALLOWED: Final = "NotAllowed"
UNKNOWN_TYPE: Final = "UnknownType"
DISRUPTION_BUDGET: Final = "DisruptionBudget"
TAINT_OF_ANOTHER: Final = "TaintOfAnother"
NODE_NOT_EMPTY: Final = "NodeNotEmpty"

MAX_MESSAGE = 1024
FIRST_DELAY_S = 0.2
MAX_DELAY_S = 15.0


class Done(msgspec.Struct, frozen=True):
    """The effect holds; `found` when it did already."""

    found: bool = False
    reason: str = ""
    result: JsonObject = {}


class Refused(msgspec.Struct, frozen=True):
    """The outside refused, and a retry does not help. `result` is what a decider needs of what was found."""

    reason: str
    message: str
    result: JsonObject = {}


class Again(msgspec.Struct, frozen=True):
    """A retry may help.

    Attributes:
        wait_s: what the server asked for; None for the usual backoff.
        reason: of the outcome if no attempt is left.
    """

    reason: str
    message: str
    wait_s: float | None = None


class Lost(msgspec.Struct, frozen=True):
    """Nobody knows whether it was done, and it must not be done twice: it has failed, without another attempt."""

    reason: str
    message: str


class Closed(msgspec.Struct, frozen=True):
    """It may be asked again later, by whoever decided it: the actuator does not wait for that.

    Attributes:
        wait_s: what the server asked for; None without it.
    """

    reason: str
    message: str
    wait_s: float | None = None


Result: TypeAlias = Done | Refused | Again | Lost | Closed


def of_error(error: KubeError) -> Refused | Again:
    """What an error of the API server means for the effect."""
    reason = error.error_class.capitalize()
    if error.retriable:
        return Again(reason, str(error), error.retry_after_s)
    return Refused(reason, str(error))


def delay_s(attempt: int, again: Again, jitter: float) -> float:
    """How long to wait after this attempt (1, 2, ...), in wall seconds.

    Args:
        attempt: how many there have been.
        again: why another one is needed; what the server asked for is the least.
        jitter: a random number in 0..1; up to half of the delay.
    """
    backoff = min(FIRST_DELAY_S * 2.0 ** min(attempt - 1, 20), MAX_DELAY_S)
    return max(backoff * (1.0 + jitter / 2.0), again.wait_s or 0.0)


def outcome(decision: Decision, result: Result, at: float, attempts: int) -> Applied | Rejected | Failed:
    """The outcome of a decision; `Again` here means that no attempt is left."""
    match result:
        case Done(found=held_already, reason=reason, result=answer):
            return Applied(
                at=at,
                decision=decision.id,
                attempts=attempts,
                reason=reason,
                found=held_already,
                result=answer,
            )
        case Refused(reason=reason, message=message, result=found_instead):
            return Rejected(
                at=at,
                decision=decision.id,
                attempts=attempts,
                reason=reason,
                message=_cut(message),
                result=found_instead,
            )
    return Failed(
        at=at,
        decision=decision.id,
        attempts=attempts,
        reason=result.reason,
        message=_cut(result.message),
        retry_after_s=result.wait_s if isinstance(result, Closed) else None,
    )


def superseded(decision: Decision, by: Decision, at: float, attempts: int = 0) -> Superseded:
    """The outcome of a decision that was overtaken before it was applied."""
    return Superseded(at=at, decision=decision.id, attempts=attempts, reason="Superseded", by=by.id)


def _cut(message: str) -> str:
    return message if len(message) <= MAX_MESSAGE else f"{message[: MAX_MESSAGE - 3]}..."
