"""Elastic gangs that have their minimum go on growing, at the pace of retries. [B8]"""

from __future__ import annotations

from collections.abc import Mapping

from tidewright.events.base import Decision
from tidewright.events.provisioning import AttemptRequest
from tidewright.kube.keys import RequestKey, parts
from tidewright.provisioning.pack.classes import Item
from tidewright.provisioning.pack.classes import items as merged
from tidewright.provisioning.requests import conditions as cond
from tidewright.provisioning.requests.lifecycle import tried_at
from tidewright.provisioning.requests.ordering import carried_out, ordered_for
from tidewright.provisioning.requests.search import grow
from tidewright.provisioning.requests.spec import Mode
from tidewright.provisioning.requests.work import RequestWork
from tidewright.provisioning.scaleup.orders import Orders, verdicts_of
from tidewright.provisioning.scaleup.plans import SUCCESSFUL, World
from tidewright.provisioning.tell.sentences import because


def grow_on(
    work: RequestWork, short: Mapping[RequestKey, tuple[Item, ...]], world: World, orders: Orders
) -> list[Decision]:
    """[B8]: elastic gangs with their minimum go on growing, at the pace of retries."""
    decisions: list[Decision] = []
    for key in sorted(work.kept):
        request, now = work.state.requests[key], work.conditions_of(key)
        full = cond.is_true(now, cond.FULLY_PROVISIONED)
        if not work.understood[key].min_counts or full or not cond.bookable(now) or work.busy(key):
            continue
        rest = short.get(key, ())
        condition = cond.fully(sum(item.count for item in rest))
        before = cond.find(now, cond.FULLY_PROVISIONED)
        if before is None or before.message != condition.message:
            work.put(key, condition)
        if not rest:
            continue
        wait = work.settings.initial_backoff_s if request.wait_s is None else request.wait_s
        due = (tried_at(request) or 0.0) + wait
        if work.modes[key] is not Mode.ATOMIC or due >= work.now:
            work.dues.append(due + 0.001)
            continue
        decisions += _grow(work, key, rest, wait=wait, world=world, orders=orders)
    return decisions


def _grow(
    work: RequestWork, key: RequestKey, rest: tuple[Item, ...], *, wait: float, world: World, orders: Orders
) -> list[Decision]:
    request = work.state.requests[key]
    namespace, name = parts(key)
    items = merged((item.shape, item.count) for item in rest)
    plan = grow(items, world)
    pods = sum(item.count for item in items)
    why = [because("Growing", pods=pods, placed=sum(plan.placed))]
    retry = work.now + min(2 * wait, work.settings.max_backoff_s)
    work.dues.append(retry + 0.001)
    decisions: list[Decision] = [
        AttemptRequest(
            at=work.now,
            namespace=namespace,
            name=name,
            uid=request.uid,
            result=plan.result,
            attempt=request.attempts + 1,
            retry_at=retry,
            verdicts=verdicts_of(plan.out(), plan),
            domains=request.domains,
            places=request.places,
            because=tuple(why),
        )
    ]
    if plan.result != SUCCESSFUL or not plan.targets:
        return decisions
    decisions += ordered_for(work, key, plan, world=world, orders=orders, why=why, all_or_nothing=False)
    return [*decisions, carried_out(work, key, plan, items, world)]
