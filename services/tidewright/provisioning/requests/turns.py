"""Which requests are tried in this evaluation, and in what order. Spec 2.5, [B6]

New ones are taken up first. Of those that are due, namespaces take turns where that is asked for,
nobody passes a head that waits, and a time box ends the queue. Each sees those before it.
"""

from __future__ import annotations

from collections import Counter

from tidewright.events.base import Decision
from tidewright.events.provisioning import AcceptRequest
from tidewright.kube.keys import RequestKey, namespace_of
from tidewright.provisioning.requests import conditions as cond
from tidewright.provisioning.requests import lifecycle
from tidewright.provisioning.requests.attempt import think, try_request
from tidewright.provisioning.requests.backfill import MOST_LOOKED_AT, Head
from tidewright.provisioning.requests.intake import take_up
from tidewright.provisioning.requests.spec import Mode
from tidewright.provisioning.requests.work import RequestWork
from tidewright.provisioning.scaleup.orders import Orders
from tidewright.provisioning.scaleup.plans import World


def adopted(work: RequestWork) -> list[Decision]:
    """Take up what a service before this one provisioned, before anybody else gets its room."""
    decisions: list[Decision] = []
    for key in work.modes:
        provisioned = cond.is_true(work.conditions_of(key), cond.PROVISIONED)
        if provisioned and not work.understands(key) and not _over(work, key):
            decisions += take_up(work, key)
    return decisions


def attempts(work: RequestWork, world: World, orders: Orders) -> list[Decision]:  # noqa: C901  # the rules of the queue, in their order
    """Take up new requests and try those that are due, in order; each sees those before it."""
    decisions: list[Decision] = []
    due: list[tuple[lifecycle.Candidate, lifecycle.Eligibility]] = []
    for key in work.modes:
        request = work.state.requests[key]
        if work.busy(key) or work.ordered(key):
            continue
        if not work.understands(key) and not _over(work, key):
            taken = take_up(work, key)
            decisions += taken
            if not any(isinstance(d, AcceptRequest) for d in taken):
                continue
        candidate = work.candidate(key)
        verdict = lifecycle.eligible(
            candidate,
            work.now,
            request.wait_s,
            initial_s=work.settings.initial_backoff_s,
            maximum_s=work.settings.max_backoff_s,
            last_try=lifecycle.tried_at(request),
        )
        if verdict.tried and work.held_alone(key):
            decisions += think(work, key, world, orders)
        elif verdict.tried:
            due.append((candidate, verdict))
        elif verdict.due is not None:
            work.dues.append(verdict.due + 0.001)
        if not cond.is_true(candidate.conditions, cond.PROVISIONED) and not cond.is_true(
            candidate.conditions, cond.FAILED
        ):
            work.dues.append(lifecycle.expires_at(candidate, work.settings.request_expiry_s) + 1)
    verdicts = {c.key: v for c, v in due}
    queue = _queue(work, [c for c, _ in due])
    mine = [c for c in queue if c.key in verdicts]
    turn = mine
    if not work.held:  # else nobody's turn comes later: what would be done is not remembered
        turn = lifecycle.within_timebox(mine, batch_size=0, timebox_s=work.settings.batch_timebox_s)
        if work.settings.batch and work.settings.batch_size > 1:
            checks = [c for c in turn if c.mode is Mode.CHECK]
            later = {c.key for c in checks[work.settings.batch_size :]}
            turn = [c for c in turn if c.key not in later]
    if len(turn) < len(mine):
        work.dues.append(work.now + 0.01)
    positions = {c.key: position for position, c in enumerate(turn)}
    head: Head | None = None
    for candidate in queue:
        key = candidate.key
        if key in positions:
            if head is not None and head.looked_at >= MOST_LOOKED_AT:
                work.dues.append(work.now + 0.01)
                break
            decisions += try_request(
                work,
                key,
                candidate,
                verdict=verdicts[key],
                world=world,
                orders=orders,
                position=positions[key],
                head=head,
            )
        if head is None and _waits(work, key):
            if _blocks(work, key):
                break
            head = Head(work, key) if work.settings.head_deadline_s else None
    return decisions


def _over(work: RequestWork, key: RequestKey) -> bool:
    """Nothing more is done about it: a request that another service saw through stays as it is."""
    now = work.conditions_of(key)
    return cond.find(now, cond.FAILED) is not None or cond.is_true(now, cond.BOOKING_EXPIRED)


def _queue(work: RequestWork, due: list[lifecycle.Candidate]) -> list[lifecycle.Candidate]:
    """[B6]: those that are due in their order, turns by namespace; with heads also those that wait to be due."""
    queue = list(due)
    if work.settings.head_deadline_s:
        there = {c.key for c in due}
        queue += [
            work.candidate(key)
            for key in work.modes
            if key not in there and work.understands(key) and not work.busy(key) and _waits(work, key)
        ]
    if work.settings.fair_share:
        served = Counter(namespace_of(key) for key in work.kept)
        queue = lifecycle.taking_turns(queue, served)
    return lifecycle.in_order(queue)


def _waits(work: RequestWork, key: RequestKey) -> bool:
    """It was tried and found no room, and will be tried again."""
    now = work.conditions_of(key)
    provisioned = cond.find(now, cond.PROVISIONED)
    waits = provisioned is not None and provisioned.status == "False"
    return waits and not cond.is_true(now, cond.FAILED) and not work.ordered(key)


def _blocks(work: RequestWork, key: RequestKey) -> bool:
    """[B6]: it found no room, and its deadline is not over: later ones do not pass it."""
    deadline = work.state.requests[key].created_at + work.settings.head_deadline_s
    if not work.settings.head_deadline_s or work.now >= deadline:
        return False
    work.dues.append(deadline)
    return True
