"""Whether the nodes that a request was promised come, and stay. [B11], [B13]

Nodes of an increase came or did not: the requests that they were for are told. Room that was there
and is gone is told in the profile `hold`, and given up when it stays gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidewright.events.base import Because, Decision
from tidewright.events.provisioning import CloseScaleUp
from tidewright.kube.durations import format_duration
from tidewright.kube.keys import RequestKey
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.pack.classes import Item
from tidewright.provisioning.requests import conditions as cond
from tidewright.provisioning.requests.conditions import Condition
from tidewright.provisioning.requests.work import RequestWork
from tidewright.provisioning.scaleup.saga import Execution
from tidewright.provisioning.tell.sentences import because, sentence


def nodes_settled(work: RequestWork, closings: Sequence[CloseScaleUp]) -> list[Decision]:
    """Groups' increases are over: tell the requests that they were for. [B11]

    All that end in one evaluation are looked at together: a plan over several groups is ready
    when the last of them is, and has failed when one of them has.
    """
    decisions: list[Decision] = []
    closing = {NodeGroupId(closed.group) for closed in closings}
    plans = {plan for name in closing if name in work.state.open for plan in work.state.open[name].plans}
    for plan in sorted(plans):
        execution = work.state.executions.get(plan)
        if execution is None or execution.request not in work.modes:
            continue
        key = execution.request
        request = work.state.requests[key]
        if request.uid != execution.request_uid or request.plan != plan:
            continue  # a later plan is what it waits for
        mine = [
            closed
            for closed in closings
            if (group := NodeGroupId(closed.group)) in work.state.open
            and plan in work.state.open[group].plans
        ]
        failed = next((closed for closed in mine if closed.result != "Finished"), None)
        if failed is not None or execution.short:
            why = failed.because if failed is not None else _short(work, execution)
            decisions += _nodes_missing(work, key, *why, grows=not execution.all_or_nothing)
        elif not any(
            plan in o.plans or name in request.awaits
            for name, o in work.state.open.items()
            if name not in closing
        ):
            decisions += _come(work, key, cond.NODES_READY, cond.ORDERED, *mine[0].because)
    return decisions


def awaited(
    work: RequestWork, closings: Sequence[CloseScaleUp], short: Mapping[RequestKey, tuple[Item, ...]]
) -> list[Decision]:
    """Nodes that others ordered, on which a request found room, came or did not. [B11]

    Args:
        work: the requests.
        closings: increases that end in this evaluation.
        short: requests whose room is on paper only, with what of it.
    """
    decisions: list[Decision] = []
    results = {closed.group: closed.result for closed in closings}
    for key in work.modes:
        request = work.state.requests[key]
        if not request.awaits or work.busy(key) or cond.is_true(work.conditions_of(key), cond.FAILED):
            continue
        coming = {name for name in work.state.open if name not in results}
        if coming & set(request.awaits):
            continue
        ended = [results.get(name, "") for name in request.awaits]
        # An order that was taken back ends without a word: then the room tells.
        gone = "" in ended and key in short
        if request.missed or gone or not {*ended} <= {"", "Finished"}:
            why = [because("RoomMissed", groups=", ".join(request.awaits) or "that failed before")]
            decisions += _nodes_missing(work, key, *why, grows=bool(work.understood[key].min_counts))
            continue
        if any(request.plan in opened.plans for name, opened in work.state.open.items() if name in coming):
            continue  # nodes of its own are on their way, too
        decisions += _come(work, key, cond.ROOM_READY, cond.FOUND)
    return decisions


def _come(
    work: RequestWork, key: RequestKey, ready: Condition, provisioned: Condition, *why: Because
) -> list[Decision]:
    """All its nodes are ready; in the profile `hold` it is provisioned only now."""
    work.put(key, ready, *why)
    if not work.settings.hold or cond.is_true(work.conditions_of(key), cond.PROVISIONED):
        return []
    work.put(key, provisioned)
    work.dues.append(work.now + 0.001)
    return [*work.booked(key), work.event(key, "CapacityFound", ready.message)]


def _short(work: RequestWork, execution: Execution) -> list[Because]:
    """Which groups could not make all that was ordered of them, and what they said."""
    reasons = []
    for step in execution.steps:
        entry = work.state.backoff.get(step.group)
        if entry is not None and entry.last >= execution.ordered_at:
            reasons.append(because("GroupFailed", group=step.group, error=entry.message or entry.code))
    return reasons or [because("NodesShort", nodes=execution.short)]


def _nodes_missing(work: RequestWork, key: RequestKey, *why: Because, grows: bool) -> list[Decision]:
    """`compat` says it and leaves `Provisioned` alone; `hold` tries elsewhere, or gives up."""
    missing = cond.nodes_missing("; ".join(sentence(reason) for reason in why))
    work.put(key, missing, *why)
    decisions: list[Decision] = [work.event(key, "CapacityNotReady", missing.message, "Warning")]
    if work.settings.hold and not grows:
        final = work.understood[key].no_retry
        work.put(key, cond.GIVEN_UP if final else cond.NOT_FOUND)
        decisions += [work.event(key, "Failed", missing.message, "Warning")] if final else []
        decisions.append(work.release(key, "Failed"))
    return decisions


def hold_to_account(work: RequestWork, short: Mapping[RequestKey, tuple[Item, ...]]) -> list[Decision]:
    """[B13], in the profile `hold`: say when provisioned room is gone, and when it stays gone."""
    decisions: list[Decision] = []
    limit_s = work.settings.max_node_provision_s
    for key in sorted(work.kept) if work.settings.hold else ():
        request, now = work.state.requests[key], work.conditions_of(key)
        if not cond.bookable(now) or work.busy(key) or work.ordered(key):
            continue
        elastic = cond.find(now, cond.FULLY_PROVISIONED)
        pods = sum(item.count for item in short.get(key, ()))
        if elastic is not None and elastic.status == "False":
            pods = 0  # what lacks was never there
        ready = cond.find(now, cond.CAPACITY_READY)
        lost = ready is not None and ready.reason == cond.LOST and ready.status == "False"
        if not pods:
            if lost:
                work.put(key, cond.ROOM_READY)
            continue
        if ready is None or not lost:
            if any(plan in o.plans for plan in [request.plan] if plan for o in work.state.open.values()):
                continue  # its nodes are still on their way
            work.put(key, cond.capacity_lost(pods), because("CapacityLost", pods=pods))
            work.dues.append(work.now + limit_s + 1)
        elif ready.changed_at + limit_s < work.now:
            revoked = cond.capacity_revoked(pods, format_duration(round(limit_s)))
            work.put(key, revoked, because("CapacityLost", pods=pods))
            decisions.append(work.release(key, "Revoked"))
            decisions.append(work.event(key, "CapacityRevoked", revoked.message, "Warning"))
        else:
            work.dues.append(ready.changed_at + limit_s + 1)
    return decisions
