"""A node group, a ProvisioningRequest or a CapacityBuffer as a row of a list. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tidewright.events import provisioning as p
from tidewright.events.base import Event
from tidewright.host.fold.explainer import Reference
from tidewright.host.fold.lister import (
    Lister,
    Measured,
    Row,
    Words,
    conditions,
    is_true,
    said,
    status_of,
)
from tidewright.kube.times import seconds_or_none
from tidewright.provisioning.buffers import conditions as buffers

_STAGES = ("Failed", "BookingExpired", "CapacityRevoked", "Provisioned", "Accepted")
"""Conditions of a request, what ends it first."""
LEFT_ALONE, UNHEALTHY = "left alone after a failure", "unhealthy"
NOTHING_WRITTEN = "nothing is written on it; explain says what is decided"
"""Of a request or a buffer without a status: what is decided about it lies elsewhere, and is not among the last words on it."""
_OVER = ("Failed", "BookingExpired", "CapacityRevoked", "Provisioned")


class ProvisioningLister:
    """What provisioning knows to say of its objects in a list."""

    context: frozenset[str] = frozenset({"configmap"})
    """The status that it writes of all groups."""
    usual: frozenset[str] = frozenset()

    def elsewhere(self, fact: Event) -> Sequence[Reference]:
        """Nothing: what it decides about a group or a request is decided there."""
        del fact
        return ()

    def row(self, words: Words, now: float) -> Row:
        """Nodes that are there and that are ordered; how far a request has come; the room of a buffer."""
        if isinstance(words.fact, p.NodeGroupObserved):
            return _group(words, words.fact)
        if isinstance(words.fact, p.ProvisioningRequestObserved):
            return _request(words, now)
        if isinstance(words.fact, p.CapacityBufferObserved):
            return _buffer(words)
        return Row()

    def measured(self, words: Words) -> Sequence[Measured]:
        """Nothing: nothing here is decided by a value between marks."""
        del words
        return ()


LISTER: Lister = ProvisioningLister()


def _group(words: Words, group: p.NodeGroupObserved) -> Row:
    states = Counter(machine.state for machine in group.machines)
    there = states.total() - states["creating"] - states["deleting"]
    ordered = next(
        (d for d in words.decisions if isinstance(d, p.IncreaseNodeGroup | p.DecreaseNodeGroup)), None
    )
    wanted, would = group.target_size, ""
    if ordered is not None and ordered.at > group.at:
        if ordered.shadow:
            would = f"would be ordered to {ordered.size} (shadow), "
        else:
            wanted = ordered.size
    if group.error:
        why = f"cannot be read: {group.message or group.error}"
    elif state := _reported(words, f"scaleUp/{group.name}", ("Backoff", "InProgress")):
        why = {"Backoff": LEFT_ALONE, "InProgress": "nodes are on their way"}[state]
    elif _reported(words, f"health/{group.name}", ("Unhealthy",)):
        why = UNHEALTHY
    elif states["deleting"]:
        why = f"{states['deleting']} being deleted"
    elif not group.exists:
        why = "could be made"
    elif group.target_size >= group.max_size > 0:
        why = f"at its maximum of {group.max_size}"
    else:
        why = f"{would}between {group.min_size} and {group.max_size}"
    changed = next((decision.at for decision in words.decisions if not decision.shadow), None)
    wrong = bool(group.error) or why in (LEFT_ALONE, UNHEALTHY)
    return Row(now=str(there), wanted=str(wanted), why=why, changed_at=changed, wrong=wrong)


def _reported(words: Words, key: str, states: Sequence[str]) -> str:
    """What the last report of the cluster's state says of a part of it, where that is one of some states."""
    for decision in words.context:
        if isinstance(decision, p.ReportClusterStatus):
            state = decision.statuses.get(key, "")
            return state if state in states else ""
    return ""


def _request(words: Words, now: float) -> Row:
    status = status_of(words)
    found = conditions(status)
    stage = next((stage for stage in _STAGES if is_true(found.get(stage))), "")
    until = _kept_until(status) if stage == "Provisioned" else None
    changed = [seconds_or_none(condition.get("lastTransitionTime")) for condition in found.values()]
    return Row(
        now=stage or "Pending",
        wanted=stage if stage in _OVER else "Provisioned",
        why=_why(words, found, stage),
        held_until=until if until is not None and until > now else None,
        changed_at=max((at for at in changed if at is not None), default=None),
        wrong=stage in ("Failed", "CapacityRevoked"),
    )


def _buffer(words: Words) -> Row:
    """Chunks that are asked for, and whether their room is there."""
    status = status_of(words)
    found = conditions(status)
    changed = [seconds_or_none(condition.get("lastTransitionTime")) for condition in found.values()]
    filled = is_true(found.get(buffers.CAPACITY_READY))
    refused = next(
        (found[t] for t in (buffers.READY, buffers.PROVISIONING) if t in found and not is_true(found[t])),
        None,
    )
    limited = found.get(buffers.LIMITED)
    if refused is not None:
        why = said(refused)
    elif limited is not None and is_true(limited):
        why = said(limited)
    else:
        why = "room for all of it" if filled else NOTHING_WRITTEN if not found else "room is looked for"
    chunks = status.get("replicas")
    wanted = f"{chunks} kept" if isinstance(chunks, int) else ""
    return Row(
        now=wanted if filled else "not kept" if found else "Pending",
        wanted=wanted,
        why=why,
        changed_at=max((at for at in changed if at is not None), default=None),
        wrong=refused is not None,
    )


def _why(words: Words, found: Mapping[str, Mapping[str, Any]], stage: str) -> str:
    waits = found.get("Provisioned")
    if stage in ("", "Accepted") and waits is not None and not is_true(waits):
        return said(waits)
    return said(found[stage]) if stage else NOTHING_WRITTEN


def _kept_until(status: Mapping[str, Any]) -> float | None:
    details = status.get("provisioningClassDetails")
    return seconds_or_none(details.get("reservation")) if isinstance(details, Mapping) else None
