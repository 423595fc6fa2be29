"""The orders that go out on behalf of a request."""

from __future__ import annotations

from collections.abc import Iterable

from tidewright.events.base import Because, Decision
from tidewright.kube.keys import RequestKey
from tidewright.provisioning.pack.classes import Item
from tidewright.provisioning.requests.work import RequestWork
from tidewright.provisioning.scaleup.orders import Orders, ordered_plan
from tidewright.provisioning.scaleup.plans import Plan, World
from tidewright.provisioning.scaleup.rounds import enact


def ordered_for(
    work: RequestWork,
    key: RequestKey,
    plan: Plan,
    *,
    world: World,
    orders: Orders,
    why: Iterable[Because],
    all_or_nothing: bool,
) -> list[Decision]:
    """A plan for a request, and its orders."""
    return ordered_plan(
        orders,
        plan,
        world,
        pods=(),
        why=why,
        request=key,
        request_uid=work.state.requests[key].uid,
        all_or_nothing=all_or_nothing,
    )


def carried_out(
    work: RequestWork, key: RequestKey, plan: Plan, items: Iterable[Item], world: World
) -> Decision:
    """Take the nodes of a plan, which holds these pods, for coming; what is told of that."""
    enact(world, plan, {item.shape.digest: item.shape for item in items})
    groups = ", ".join(f"{t.group} {t.from_size}->{t.size}" for t in plan.targets)
    return work.event(key, "ScaleUpRequested", f"scale-up requested: {groups}")
