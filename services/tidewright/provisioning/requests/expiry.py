"""Requests and bookings whose time is over, and old requests that are deleted. Spec 2.9."""

from __future__ import annotations

from tidewright.events.base import Decision
from tidewright.events.decisions import DeleteObject
from tidewright.provisioning.requests import conditions as cond
from tidewright.provisioning.requests import lifecycle
from tidewright.provisioning.requests.work import RequestWork
from tidewright.provisioning.scaleup.orders import request_ref
from tidewright.provisioning.tell.sentences import because


def refresh(work: RequestWork) -> list[Decision]:
    """Expiry of requests and bookings, and deletion of old ones. Spec 2.9."""
    decisions: list[Decision] = []
    settings = work.settings
    candidates = [work.candidate(key) for key in work.modes]
    # Whose nodes are on their way has been tried in time: whether these come in time is another limit's.
    waiting = {key for key in work.modes if work.busy(key) or work.ordered(key)}
    for candidate, condition in lifecycle.refresh(
        [c for c in candidates if c.key not in waiting],
        work.now,
        booking_s=settings.booking_s,
        expiry_s=settings.request_expiry_s,
    ):
        key = candidate.key
        if condition.type == cond.BOOKING_EXPIRED:
            kept = candidate.booking_s if candidate.booking_s is not None else settings.booking_s
            work.put(key, condition, because("BookingOver", seconds=int(kept)))
            decisions.append(work.release(key, condition.reason))
            decisions.append(work.event(key, "BookingExpired", condition.message))
        else:
            limit = lifecycle.expires_at(candidate, settings.request_expiry_s) - candidate.created_at
            work.put(key, condition, because("Expired", limit_s=int(limit)))
            decisions.append(work.event(key, "Failed", condition.message, "Warning"))
    for candidate in candidates:
        key = candidate.key
        ended = work.conditions_of(key)
        if lifecycle.collectable(
            candidate, work.now, settings.request_ttl_s, delete_controlled=settings.delete_controlled
        ):
            age = int(work.now - candidate.created_at)
            decisions.append(
                DeleteObject(
                    at=work.now,
                    target=request_ref(candidate.namespace, candidate.name, candidate.uid),
                    because=(because("Collected", age_s=age),),
                )
            )
        elif cond.is_true(ended, cond.FAILED) or cond.is_true(ended, cond.BOOKING_EXPIRED):
            latest = max((c.changed_at for c in ended), default=work.now)
            work.dues.append(latest + settings.request_ttl_s + 1)
    return decisions
