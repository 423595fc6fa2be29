"""Object events about nodes that go, as users of the reference know them. Addendum 3.4."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tidewright.events.base import Decision, ObjectRef
from tidewright.events.decisions import MOST_MESSAGES, RecordObjectEvent
from tidewright.kube.keys import PodKey
from tidewright.provisioning.scaledown.removal.marking import node_ref
from tidewright.provisioning.scaledown.removal.saga import REFUSED_MOST_S, Removal, Stuck
from tidewright.provisioning.scaleup.orders import (
    COMPONENT,
    MAX_MESSAGE,
    STATUS_MAP,
    pod_event,
    status_event,
)

SCALE_DOWN, SCALE_DOWN_EMPTY, SCALE_DOWN_FAILED = "ScaleDown", "ScaleDownEmpty", "ScaleDownFailed"


def _on(
    target: ObjectRef, at: float, message: str, *, reason: str = SCALE_DOWN, event_type: str = "Normal"
) -> RecordObjectEvent:
    return RecordObjectEvent(
        at=at,
        target=target,
        event_type=event_type,
        reason=reason,
        message=message[:MAX_MESSAGE],
        component=COMPONENT,
    )


def begins(at: float, node: str, pods: Iterable[PodKey], *, used: str, drains: bool) -> RecordObjectEvent:
    """On the status: a node is being removed, of which so much was `used`."""
    if not drains:
        return status_event(at, SCALE_DOWN_EMPTY, f'Scale-down: removing empty node "{node}"')
    message = f"Scale-down: removing node {node}, utilization: {used}, pods to reschedule: {','.join(pods)}"
    return status_event(at, SCALE_DOWN, message)


def marked(at: float, node: str, removal: Removal) -> RecordObjectEvent:
    """On the node: its taint is there."""
    return _on(node_ref(node, removal.uid), at, "marked the node as toBeDeleted/unschedulable")


def evicted(at: float, key: PodKey, uid: str) -> RecordObjectEvent:
    """On a pod: it was asked to leave."""
    return pod_event(at, key, uid, reason=SCALE_DOWN, message="deleting pod for node scale down")


def not_evicted(at: float, key: PodKey, uid: str) -> RecordObjectEvent:
    """On a pod: it did not leave in time."""
    message = "failed to delete pod for ScaleDown"
    return pod_event(at, key, uid, reason=SCALE_DOWN_FAILED, message=message, event_type="Warning")


def undone(at: float, node: str, removal: Removal, why: str) -> RecordObjectEvent:
    """On the node: it stays."""
    if removal.marked_at is None:
        what = "failed to mark the node as toBeDeleted/unschedulable"
    else:
        what = f"failed to {'drain and delete node' if removal.drains else 'delete empty node'}"
    target = node_ref(node, removal.uid)
    return _on(target, at, f"{what}: {why}", reason=SCALE_DOWN_FAILED, event_type="Warning")


def stuck(at: float, node: str, uid: str, found: Stuck) -> RecordObjectEvent:
    """On the node: it stays, and carries our mark all the same."""
    message = (
        f"failed to take our taint, cordon and annotation off the node: {found.why}; it is tried again, at least every "
        f"{REFUSED_MOST_S:.0f} s: allow the actuator to update nodes (role actuator-scale-down), or take them off"
    )
    return _on(node_ref(node, uid), at, message, reason=SCALE_DOWN_FAILED, event_type="Warning")


def deleted(at: float, node: str, uid: str, *, drains: bool) -> list[RecordObjectEvent]:
    """On node and status: its instance was asked to be deleted, and will be."""
    message = (
        status_event(at, SCALE_DOWN, f"Scale-down: node {node} removed with drain")
        if drains
        else status_event(at, SCALE_DOWN_EMPTY, f"Scale-down: empty node {node} removed")
    )
    return [_on(node_ref(node, uid), at, "nodes removed by cluster autoscaler"), message]


def together(decisions: Iterable[Decision]) -> list[Decision]:
    """What is said on the status of nodes that go at the same time, in one decision: each would be a message on the log."""
    kept: list[Decision] = []
    gathered: list[tuple[int, list[str]]] = []
    last: dict[tuple[str, str], list[str]] = {}
    for decision in decisions:
        if (
            not isinstance(decision, RecordObjectEvent)
            or decision.target != STATUS_MAP
            or decision.reason not in (SCALE_DOWN, SCALE_DOWN_EMPTY)
        ):
            kept.append(decision)
            continue
        kind = (decision.event_type, decision.reason)
        said = last.get(kind)
        if said is not None and len(said) < MOST_MESSAGES:
            said.append(decision.message)
            continue
        last[kind] = said = [decision.message]
        gathered.append((len(kept), said))
        kept.append(decision)
    for at, said in gathered:
        if len(said) > 1:
            kept[at] = msgspec.structs.replace(kept[at], also=tuple(said[1:]))
    return kept
