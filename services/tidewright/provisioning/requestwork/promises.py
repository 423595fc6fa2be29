"""Whether the nodes that a request was promised come, and stay. [B11], [B13]

Nodes of an increase came or did not: the requests that they were for are told. Room that was there
and is gone is told in the profile `hold`, and given up when it stays gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidewright.events.base import Decision
from tidewright.events.provisioning import CloseScaleUp
from tidewright.provisioning.durations import duration_text
from tidewright.provisioning.pack.classes import Item
from tidewright.provisioning.requests import conditions as cond
from tidewright.provisioning.requests.booking import bookable
from tidewright.provisioning.requestwork.work import RequestWork
from tidewright.provisioning.sentences import because


def nodes_settled(work: RequestWork, closings: Sequence[CloseScaleUp]) -> list[Decision]:
    """Groups' increases are over: tell the requests that they were for. [B11]

    All that end in one evaluation are looked at together: a plan over several groups is ready
    when the last of them is, and has failed when one of them has.
    """
    found: list[Decision] = []
    closing = {closed.group for closed in closings}
    plans = {plan for name in closing if name in work.state.open for plan in work.state.open[name].plans}
    for plan in sorted(plans):
        execution = work.state.executions.get(plan)
        if execution is None or execution.request not in work.modes:
            continue
        key = execution.request
        request = work.state.requests[key]
        if request.uid != execution.request_uid or request.plan != plan:
            continue  # a later plan is what it waits for
        mine = [c for c in closings if c.group in work.state.open and plan in work.state.open[c.group].plans]
        failed = next((closed for closed in mine if closed.result != "Finished"), None)
        if failed is not None or execution.short:
            found += _nodes_missing(work, key, failed or mine[0], grows=not execution.all_or_nothing)
        elif not any(plan in o.plans for name, o in work.state.open.items() if name not in closing):
            work.put(key, cond.NODES_READY, *mine[0].because)
            if work.settings.hold and not cond.is_true(work.conditions_of(key), cond.PROVISIONED):
                work.put(key, cond.ORDERED)
                found += work.booked(key)
                work.dues.append(work.now + 0.001)
    return found


def _nodes_missing(work: RequestWork, key: str, closed: CloseScaleUp, *, grows: bool) -> list[Decision]:
    """`compat` says it and leaves `Provisioned` alone; `hold` tries elsewhere, or gives up."""
    work.put(key, cond.NODES_MISSING, *closed.because)
    found: list[Decision] = [work.event(key, "CapacityNotReady", cond.NODES_MISSING.message, "Warning")]
    if work.settings.hold and not grows:
        work.put(key, cond.GIVEN_UP if work.understood[key].no_retry else cond.NOT_FOUND)
        found.append(work.release(key, "Failed"))
    return found


def hold_to_account(work: RequestWork, short: Mapping[str, tuple[Item, ...]]) -> list[Decision]:
    """[B13], in the profile `hold`: say when provisioned room is gone, and when it stays gone."""
    found: list[Decision] = []
    limit_s = work.settings.max_node_provision_s
    for key in sorted(work.kept) if work.settings.hold else ():
        request, now = work.state.requests[key], work.conditions_of(key)
        if not bookable(now) or work.busy(key) or request.ordered:
            continue
        elastic = cond.find(now, cond.FULLY_PROVISIONED)
        pods = sum(item.count for item in short.get(key, ()))
        if elastic is not None and elastic.status == "False":
            pods = 0  # what lacks was never there
        ready = cond.find(now, cond.CAPACITY_READY)
        lost = ready is not None and ready.reason == cond.LOST and ready.status == "False"
        if not pods:
            if lost:
                work.put(key, cond.NODES_READY)
            continue
        if ready is None or not lost:
            if any(plan in o.plans for plan in [request.plan] if plan for o in work.state.open.values()):
                continue  # its nodes are still on their way
            work.put(key, cond.capacity_lost(pods), because("CapacityLost", pods=pods))
            work.dues.append(work.now + limit_s + 1)
        elif ready.changed_at + limit_s < work.now:
            revoked = cond.capacity_revoked(pods, duration_text(limit_s))
            work.put(key, revoked, because("CapacityLost", pods=pods))
            found.append(work.release(key, "Revoked"))
            found.append(work.event(key, "CapacityRevoked", revoked.message, "Warning"))
        else:
            work.dues.append(ready.changed_at + limit_s + 1)
    return found
