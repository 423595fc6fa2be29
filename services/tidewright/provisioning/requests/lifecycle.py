"""Who is tried when, in which order; what expires; what is deleted. Spec 2.5, 2.7, 2.9."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from tidewright.kube.keys import RequestKey, request_key
from tidewright.provisioning.requests import conditions as cond
from tidewright.provisioning.requests.conditions import Condition
from tidewright.provisioning.requests.spec import Mode
from tidewright.provisioning.scaleup.saga import MOST_CONFLICTS
from tidewright.provisioning.state import Request

REQUESTS_PER_SECOND = 1000
"""How many small requests one evaluation takes on per second of its time box: the measured rate of
the attempt, rounded down. A decider has no clock, so a time box becomes a number."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A request as the rules about its life see it.

    Attributes:
        mode: None for a class that is not ours.
        priority: higher first.
        booking_s, valid_until_s: from its parameters; None for the general settings.
        controlled: a controller owner that still exists collects it.
        starving: it has waited for so long that it comes before all priorities.
        turn: how many requests of its namespace come before it, where namespaces take turns.
    """

    namespace: str = ""
    name: str
    uid: str = ""
    mode: Mode | None = None
    created_at: float = 0.0
    priority: int = 0
    conditions: tuple[Condition, ...] = ()
    booking_s: float | None = None
    valid_until_s: float | None = None
    controlled: bool = False
    starving: bool = False
    turn: int = 0

    @property
    def key(self) -> RequestKey:
        return request_key(self.namespace, self.name)


class Eligibility(msgspec.Struct, frozen=True):
    """Attributes:
    tried: an attempt is due.
    next_wait_s: the wait after this attempt; None: forget what was remembered.
    due: log time when an attempt will be due, for one that is not due now and will be.
    """

    tried: bool
    next_wait_s: float | None = None
    due: float | None = None


def eligible(
    candidate: Candidate,
    now: float,
    wait_s: float | None,
    *,
    initial_s: float,
    maximum_s: float,
    last_try: float | None = None,
) -> Eligibility:
    """Whether an attempt is due, and how long to wait after it. Spec 2.5.

    Args:
        candidate: the request.
        now: log time.
        wait_s: the remembered wait; None: none is.
        initial_s: the first wait.
        maximum_s: the longest.
        last_try: when it was last tried, from our own memory; None: the condition's transition time.
    """
    conditions = candidate.conditions
    if candidate.mode is None:
        return Eligibility(tried=False)
    if cond.is_true(conditions, cond.FAILED) or cond.is_true(conditions, cond.PROVISIONED):
        return Eligibility(tried=False)
    provisioned = cond.find(conditions, cond.PROVISIONED)
    if provisioned is None:
        return Eligibility(tried=True, next_wait_s=initial_s)
    if provisioned.status != "False":
        return Eligibility(tried=False)
    wait = initial_s if wait_s is None else wait_s
    since = provisioned.changed_at if last_try is None else last_try
    if since + wait < now:
        return Eligibility(tried=True, next_wait_s=min(2 * wait, maximum_s))
    return Eligibility(tried=False, next_wait_s=wait, due=since + wait)


def tried_at(request: Request) -> float | None:
    """When it was last tried; as if never when that came to nothing only because sizes were not as seen.

    It is tried again at once then, some times in a row.
    """
    return 0.0 if request.seen_late and request.conflicts <= MOST_CONFLICTS else request.last_try


def in_order(candidates: Iterable[Candidate]) -> list[Candidate]:
    """[B6]: who starves, then priority, then turn of the namespace, then age, then namespace and name."""
    return sorted(
        candidates,
        key=lambda c: (
            not c.starving,
            0 if c.starving else -c.priority,
            0 if c.starving else c.turn,
            c.created_at,
            c.namespace,
            c.name,
        ),
    )


def taking_turns(candidates: Iterable[Candidate], served: Mapping[str, int]) -> list[Candidate]:
    """[B6], fair share: each candidate with its turn, which counts what its namespace was given already.

    Args:
        candidates: requests that wait.
        served: namespace to its requests for which room is kept or ordered.
    """
    given = dict(served)
    in_turn = []
    for candidate in in_order(candidates):
        turn = given.get(candidate.namespace, 0)
        given[candidate.namespace] = turn + 1
        in_turn.append(msgspec.structs.replace(candidate, turn=turn))
    return in_turn


def within_timebox(candidates: Sequence[Candidate], *, batch_size: int, timebox_s: float) -> list[Candidate]:
    """The requests of one evaluation of ours: all that are due, in order, up to the time box."""
    most = max(1, int(timebox_s * REQUESTS_PER_SECOND))
    if batch_size > 1:
        most = min(most, batch_size)
    return in_order(candidates)[:most]


def refresh(
    candidates: Sequence[Candidate],
    now: float,
    *,
    booking_s: float,
    expiry_s: float,
) -> list[tuple[Candidate, Condition]]:
    """Bookings and requests whose time is over: bookings first. Spec 2.9."""
    expired: list[tuple[Candidate, Condition]] = []
    failed: list[tuple[Candidate, Condition]] = []
    for candidate in candidates:
        conditions = candidate.conditions
        if candidate.mode is None:
            continue
        if cond.is_true(conditions, cond.BOOKING_EXPIRED) or cond.is_true(conditions, cond.FAILED):
            continue
        provisioned = cond.find(conditions, cond.PROVISIONED)
        if provisioned is not None and provisioned.status == "True":
            kept = booking_s if candidate.booking_s is None else candidate.booking_s
            if provisioned.changed_at + kept < now:
                expired.append((candidate, cond.BOOKING_TIME_OVER))
        elif expires_at(candidate, expiry_s) < now:
            failed.append((candidate, cond.EXPIRED))
    return expired + failed


def expires_at(candidate: Candidate, expiry_s: float) -> float:
    """When an unprovisioned request is given up: `ValidUntilSeconds` or the general expiry."""
    # "0" means one attempt, whose failure is final; it is not a time that is over before that.
    own = candidate.valid_until_s
    return candidate.created_at + (min(own, expiry_s) if own else expiry_s)


def collectable(candidate: Candidate, now: float, ttl_s: float, *, delete_controlled: bool = False) -> bool:
    """Whether a request is old enough to be deleted: ours only, and not one that an owner collects."""
    if candidate.mode is None or (candidate.controlled and not delete_controlled):
        return False
    return any(
        c.changed_at + ttl_s < now for c in candidate.conditions if c.type in (cond.PROVISIONED, cond.FAILED)
    )
