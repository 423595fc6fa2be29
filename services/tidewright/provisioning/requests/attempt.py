"""One attempt at a request: what the search found, ordered, answered or put off. Spec 2.7, 2.11.

`try_request` is the whole of it. A dry run is answered, and nothing ordered; room on nodes whose order
the cloud has not taken yet waits for its answer; a plan is ordered, and conditions follow later.
"""

from __future__ import annotations

import msgspec

from tidewright.events import acting
from tidewright.events.base import Decision
from tidewright.events.provisioning import AttemptRequest
from tidewright.kube.keys import RequestKey, parts
from tidewright.provisioning import holding
from tidewright.provisioning.pack.classes import items as merged
from tidewright.provisioning.pack.grid import Grid
from tidewright.provisioning.requests import conditions as cond
from tidewright.provisioning.requests import lifecycle, spec
from tidewright.provisioning.requests.backfill import Head, asked_of
from tidewright.provisioning.requests.conditions import Condition
from tidewright.provisioning.requests.ordering import carried_out, ordered_for
from tidewright.provisioning.requests.quota import claim, over_quota
from tidewright.provisioning.requests.reasons import (
    coming_at,
    expected_at,
    no_room,
    reasons_of,
    with_eta,
)
from tidewright.provisioning.requests.search import Asked, Attempt, search
from tidewright.provisioning.requests.work import QUEUE_POSITION, RequestWork, without_queue
from tidewright.provisioning.scaleup.coming import Coming, coming
from tidewright.provisioning.scaleup.orders import Orders, verdicts_of
from tidewright.provisioning.scaleup.plans import NO_OPTIONS, NOT_NEEDED, SUCCESSFUL, World
from tidewright.provisioning.tell.sentences import because

MOST_PLACES = 5000
"""Places that are recorded of one request: a message has a largest size. Larger ones are placed anew each time."""


def try_request(
    work: RequestWork,
    key: RequestKey,
    candidate: lifecycle.Candidate,
    *,
    verdict: lifecycle.Eligibility,
    world: World,
    orders: Orders,
    position: int,
    head: Head | None = None,
) -> list[Decision]:
    """Try one request now, at its place in this evaluation's queue; `head` is one that it may not delay."""
    request, parameters = work.state.requests[key], work.understood[key]
    asked = asked_of(work, key)
    sets = asked.sets
    over = over_quota(work, key, sets)
    held = holding.of_request(work.state, key)
    dry = request.annotations.get(spec.DRY_RUN) == "true" or (held.mode == "dry-run" and held.reports)
    before = world.grid
    if over:
        failure = (cond.GIVEN_UP,) if parameters.no_retry else (cond.NOT_FOUND,)
        attempt = Attempt(result=NO_OPTIONS, conditions=failure, placed=(0,) * len(sets), error=over)
    else:
        attempt = search(work.modes[key], asked, world)
    if dry:
        world.grid = before
        return _answer(work, key, asked, attempt)
    found_room = attempt.result in (SUCCESSFUL, NOT_NEEDED)
    was = msgspec.structs.replace(world, grid=before)
    if head is not None and found_room:
        passing = head.passing(key, asked, attempt, was, world)
        if passing is None:
            world.grid, over = before, f"it would take what {head.key} waits for"
        attempt = passing or Attempt(
            result=NO_OPTIONS,
            conditions=(cond.NOT_FOUND,),
            placed=(0,) * len(sets),
            error=over,
            passes=head.key,
        )
    leans = _leans_on(before, world.grid, attempt)
    if (
        work.binding
        and attempt.plan is None
        and any(node.planned or node.group in work.unanswered for node in leans)
    ):
        work.dues.append(work.now + 10.0)  # the answers to those orders wake it sooner
        return []
    awaits = tuple(sorted({node.group for node in leans}))
    attempts = request.attempts + 1
    succeeded = attempt.result in (SUCCESSFUL, NOT_NEEDED)
    queued = {} if succeeded else {QUEUE_POSITION: str(position)}
    placed = spec.topology_details(parameters, attempt.domains) if succeeded else {}
    work.details[key] = {**without_queue(request.details), **attempt.details, **placed, **queued}
    final = succeeded or any(c.type == cond.FAILED for c in attempt.conditions)
    plan = attempt.plan if attempt.result == SUCCESSFUL else None
    ordered = plan is not None and bool(plan.targets)
    # An order may fail: then the waits go on where they were.
    again = ordered or not final
    retry = work.now + (verdict.next_wait_s or work.settings.initial_backoff_s) if again else 0.0
    why = reasons_of(work, sets, attempt, over=over, attempts=attempts, retry=retry)
    if succeeded:
        claim(work, key, sets)
    decisions: list[Decision] = [
        AttemptRequest(
            at=work.now,
            namespace=candidate.namespace,
            name=candidate.name,
            uid=request.uid,
            result=attempt.result,
            attempt=attempts,
            retry_at=retry,
            verdicts=verdicts_of(attempt.plan.out(), attempt.plan) if attempt.plan is not None else (),
            awaits=awaits if succeeded else (),
            domains=attempt.domains if succeeded else (),
            places=_places(work, before, world.grid, attempt) if succeeded else {},
            because=tuple(why),
        )
    ]
    if plan is not None and ordered:
        # Conditions follow when the cloud has accepted it.
        decisions += ordered_for(work, key, plan, world=world, orders=orders, why=why, all_or_nothing=True)
        items = merged((shape, n) for shape, n in zip(attempt.shapes, attempt.placed, strict=True))
        return [*decisions, carried_out(work, key, plan, items, world)]
    if succeeded and awaits and work.settings.hold:
        # [B11]: what is found is there when those nodes are ready.
        work.put(key, cond.nodes_ordered(coming_at(work, awaits)), *why)
        return decisions
    for condition in attempt.conditions:
        work.put(key, with_eta(work, condition, expected_at(work, attempt, world, retry)), *why)
    if succeeded and not awaits:
        work.put(key, cond.ROOM_READY)
    if succeeded:
        decisions += work.booked(key)
        if work.settings.hold and not work.settings.dry_run:
            work.dues.append(work.now + 0.001)  # what is kept is held, and its nodes say so
        decisions.append(work.event(key, "CapacityFound", cond.FOUND.message))
    else:
        if retry:
            work.dues.append(retry + 0.001)
        event = work.event(
            key, "Failed" if final else "CapacityNotFound", over or no_room(asked, attempt, world), "Warning"
        )
        if final or event.message != request.told:  # once per reason, not once per attempt
            decisions.append(event)
    return decisions


def think(work: RequestWork, key: RequestKey, world: World, orders: Orders) -> list[Decision]:
    """What would become of a request that is held back alone; nobody else is to see anything of it."""
    request, asked, before = work.state.requests[key], asked_of(work, key), world.grid
    over = over_quota(work, key, asked.sets)
    if over:
        attempt = Attempt(result=NO_OPTIONS, conditions=(), placed=(0,) * len(asked.sets), error=over)
    else:
        attempt = search(work.modes[key], asked, world)
    world.grid = before
    namespace, name = parts(key)
    why = reasons_of(work, asked.sets, attempt, over=over, attempts=request.attempts + 1, retry=0.0)
    decisions: list[Decision] = [
        AttemptRequest(
            at=work.now, namespace=namespace, name=name, uid=request.uid, result=attempt.result, attempt=request.attempts + 1,
            verdicts=verdicts_of(attempt.plan.out(), attempt.plan) if attempt.plan is not None else (), because=tuple(why),
        )
    ]  # fmt: skip
    if attempt.result == SUCCESSFUL and attempt.plan is not None and attempt.plan.targets:
        orders.thought += 1
        decisions += ordered_for(
            work, key, attempt.plan, world=world, orders=orders, why=why, all_or_nothing=True
        )
    held = holding.of_request(work.state, key)
    return [
        as_recorded for decision in decisions if (as_recorded := acting.recorded(decision, held)) is not None
    ]


def _places(work: RequestWork, before: Grid, after: Grid, attempt: Attempt) -> dict[str, dict[str, int]]:
    """Where on nodes that are there the pods have found room, by shape."""
    places: dict[str, dict[str, int]] = {}
    for digest in dict.fromkeys(shape.digest for shape in attempt.shapes):
        was, there = before.where.get(digest, {}), after.where.get(digest, {})
        if was is there:
            continue
        for row in sorted(there):
            view, pods = after.views[row], there[row] - was.get(row, 0)
            if pods > 0 and view is not None and view.name in work.state.nodes:
                places.setdefault(digest, {})[view.name] = pods
    return places if sum(map(len, places.values())) <= MOST_PLACES else {}


def _leans_on(before: Grid, after: Grid, attempt: Attempt) -> set[Coming]:
    """Groups with nodes on their way on which room was found, and whether this evaluation orders them."""
    nodes: set[Coming] = set()
    for shape in attempt.shapes:
        was, there = before.where.get(shape.digest, {}), after.where.get(shape.digest, {})
        for row, pods in there.items():
            view = after.views[row]
            if view is None or pods <= was.get(row, 0):
                continue
            node = coming(view.name)
            if node is not None:
                nodes.add(node)
    return nodes


def _answer(work: RequestWork, key: RequestKey, asked: Asked, attempt: Attempt) -> list[Decision]:
    """[B14]: what would be done, without doing it."""
    targets = attempt.plan.targets if attempt.plan is not None and attempt.result == SUCCESSFUL else ()
    would = ",".join(f"{t.group}:+{t.added}" for t in targets) or attempt.result
    cost = 0.0
    if attempt.plan is not None:
        prices = {o.group: o.node_price or 0.0 for o in attempt.plan.options}
        cost = sum(prices.get(t.group, 0.0) * t.added for t in targets)
    work.details[key] = {
        **work.state.requests[key].details,
        "would-scale-up": would,
        "would-cost": f"{cost:.4f}",
    }
    condition = Condition(
        type=cond.FAILED,
        status="True",
        reason="DryRun",
        message=f"dry run: {would}",
    )
    work.put(key, condition, because("DryRun"))
    return [work.event(key, "DryRun", condition.message)]
