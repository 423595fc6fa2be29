"""What came of a decision: exactly one of these for every effect."""

from __future__ import annotations

from tidewright.events.base import JsonObject, Outcome


class Applied(Outcome, frozen=True, kw_only=True, tag="outcome.applied.v1"):
    """The effect holds.

    Attributes:
        found: it held already when the actuator looked (a repeat, or somebody else's doing).
        result: what the outside answered and a decider needs (the uid of a created object).
    """

    found: bool = False
    result: JsonObject = {}


class Rejected(Outcome, frozen=True, kw_only=True, tag="outcome.rejected.v1"):
    """The outside refused for a reason that a retry does not mend (conflict, gone, forbidden, invalid).

    Attributes:
        result: what was found instead, where a decider needs it (the record of a Lease that another holds).
    """

    result: JsonObject = {}


class Failed(Outcome, frozen=True, kw_only=True, tag="outcome.failed.v1"):
    """Retries were used up (throttled, unavailable), or waiting is the decider's affair (`DisruptionBudget`).

    Attributes:
        retry_after_s: what the outside asked for, seconds; None without it.
    """

    retry_after_s: float | None = None


class Superseded(Outcome, frozen=True, kw_only=True, tag="outcome.superseded.v1"):
    """A later decision about the same target wants something else: `by` is its id."""

    by: str = ""
