"""Why an attempt came out as it did, in the record and in words, and when room is expected. [B12]

`reasons_of` goes into the log with the attempt, `no_room` to the people who read the request's events.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from tidewright.events.base import Because
from tidewright.kube.times import rfc3339
from tidewright.provisioning.cluster.groups import IN_BACKOFF
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.pack.classes import Item
from tidewright.provisioning.requests import conditions as cond
from tidewright.provisioning.requests.conditions import Condition
from tidewright.provisioning.requests.never import never_held
from tidewright.provisioning.requests.search import Asked, Attempt
from tidewright.provisioning.requests.work import RequestWork
from tidewright.provisioning.scaleup.plans import NOT_NEEDED, SUCCESSFUL, World
from tidewright.provisioning.tell.sentences import because


def reasons_of(
    work: RequestWork, sets: tuple[Item, ...], attempt: Attempt, *, over: str, attempts: int, retry: float
) -> list[Because]:
    """For the log: what was short, which groups were out, and what happens next."""
    pods, placed = sum(item.count for item in sets), sum(attempt.placed)
    if attempt.passes:
        return [because("WouldDelay", head=attempt.passes)]
    if over:
        return [because("QuotaExceeded", namespace=sets[0].shape.namespace, quota=over)]
    if attempt.result in (SUCCESSFUL, NOT_NEEDED):
        if attempt.plan is not None and attempt.plan.targets:
            return [because("RoomShort", placed=pods - sum(attempt.plan.placed), pods=pods)]
        return [because("FitsNow", pods=placed)]
    why = (
        [because("NoGroup")] if attempt.plan is not None else [because("RoomShort", placed=placed, pods=pods)]
    )
    if attempt.plan is not None:
        why += [because("GroupOut", group=g, reason=r) for g, r in sorted(attempt.plan.out().items())[:20]]
    if retry:
        why.append(because("RetryLater", wait_s=int(retry - work.now), attempt=attempts))
    else:
        why.append(because("NoRetry"))
    return why


def no_room(asked: Asked, attempt: Attempt, world: World) -> str:
    """For people: what no group ever holds, else what holds the groups back, the most first."""
    never = never_held(asked, world)
    if never:
        return "; ".join(never)
    if attempt.plan is None:
        pods = sum(item.count for item in asked.sets)
        what = "1 pod" if pods == 1 else f"{pods} pods"
        return f"there is no room for {what} on nodes that exist or are on their way"
    counted = Counter(attempt.plan.out().values())
    top = [f"{n} {text}" for text, n in sorted(counted.items(), key=lambda e: (-e[1], e[0]))]
    return ", ".join(top[:5]) or "no group can take all of it"


def expected_at(work: RequestWork, attempt: Attempt, world: World, retry: float) -> float:
    """[B12]: when room is expected.

    That is the next attempt; or where groups are left alone after a failure, the first of them to
    come back, with the time that its nodes took last.
    """
    if not retry or attempt.plan is None:
        return retry
    out = attempt.plan.out()
    back = [
        max(retry, group.backoff_until) + work.state.groups[group.id].boot_s
        for group in world.groups
        if out.get(group.id) == IN_BACKOFF and group.id in work.state.groups
    ]
    return min(back, default=retry)


def coming_at(work: RequestWork, groups: Sequence[NodeGroupId]) -> float | None:
    """[B12]: when the nodes that these groups ordered are expected; None when that is not known of one."""
    times = []
    for name in groups:
        opened, group = work.state.open.get(name), work.state.groups.get(name)
        if opened is None or group is None or not group.boot_s:
            return None
        times.append(opened.requested_at + group.boot_s)
    return max(times, default=None)


def with_eta(work: RequestWork, condition: Condition, retry: float) -> Condition:
    """[B12]: in the profile `hold`, when room is expected."""
    if (
        not work.settings.hold
        or condition.type != cond.PROVISIONED
        or condition.status != "False"
        or not retry
    ):
        return condition
    return msgspec.structs.replace(condition, message=f"{condition.message} ETA: {rfc3339(retry)}")
