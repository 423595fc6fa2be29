"""Which pending pods may cause an increase now. Spec 3.3, steps 1, 4, 5 and 7, and 2.3 about consumers."""

from __future__ import annotations

import math
from typing import NamedTuple

from tidewright.events.decisions import RecordObjectEvent
from tidewright.kube.keys import PodKey, RequestKey, parts
from tidewright.provisioning.index.index import Index
from tidewright.provisioning.index.resolving import shape_of
from tidewright.provisioning.index.settling import nominated
from tidewright.provisioning.pending import helped
from tidewright.provisioning.requests import conditions as cond
from tidewright.provisioning.scaleup.orders import pod_event
from tidewright.provisioning.settings import Settings
from tidewright.provisioning.state import Pod, State

EVENTS_PER_PLAN = 50
MISSING = "ProvisioningRequestMissing"
IGNORED = "NotTriggerScaleUp"


class PendingPods(NamedTuple):
    """What an evaluation finds waiting.

    Attributes:
        pods: those that may cause an increase, by key, in the order in which they came.
        dues: when those that are too young, or whose request came to nothing, will be among them.
        told: object events on consumers, which cause nothing.
    """

    pods: list[tuple[PodKey, Pod]]
    dues: list[float]
    told: list[RecordObjectEvent]


def pending(state: State, index: Index, now: float, *, event_limit: int = EVENTS_PER_PLAN) -> PendingPods:
    """Pods that may cause an increase at `now`, and what is told to those that may not."""
    settings = index.settings
    placed = nominated(state, index)
    pending_pods = PendingPods([], [], [])
    for key in index.waiting:
        pod = state.pods[key]
        if key in placed:
            continue
        shape = shape_of(state, index, pod.shape)
        if pod.daemon or helped.expendable(shape.priority, settings.expendable_cutoff):
            continue
        if pod.consumes:
            trouble = _trouble(state, pod.consumes)
            ordinary_at = _ordinary_at(settings, pod, trouble)
            if ordinary_at > now:
                reason = MISSING if trouble and settings.hold else IGNORED
                if state.said.get(key) != reason and len(pending_pods.told) < event_limit:
                    pending_pods.told.append(_consumer_event(now, key, pod, reason, trouble))
                if trouble and ordinary_at < math.inf:
                    pending_pods.dues.append(ordinary_at)
                continue
        wait = helped.delay_s(pod.annotations or {}, settings.new_pod_delay_s)
        if wait and not helped.old_enough(pod.created_at, wait, now):
            pending_pods.dues.append(pod.created_at + wait + 0.001)
            continue
        pending_pods.pods.append((key, pod))
    return pending_pods


def _trouble(state: State, request: RequestKey) -> str:
    """[B4]: what is wrong with the request of a consumer; empty when it may still come to something."""
    consumed = state.requests.get(request)
    if consumed is None:
        return "does not exist"
    if cond.is_true(consumed.conditions, cond.FAILED):
        return "has failed"
    if cond.is_true(consumed.conditions, cond.BOOKING_EXPIRED):
        return "keeps no room any more"
    return ""


def _ordinary_at(settings: Settings, pod: Pod, trouble: str) -> float:
    """[B4]: when a consumer whose request came to nothing is treated as any other pod."""
    after = settings.consumer_orphan_s
    return pod.created_at + after if after and trouble else math.inf


def _consumer_event(now: float, key: PodKey, pod: Pod, reason: str, trouble: str) -> RecordObjectEvent:
    namespace, name = parts(pod.consumes)
    if reason == MISSING:
        message = helped.orphan_message(namespace, name, trouble)
        return pod_event(now, key, pod.uid, reason=reason, message=message, event_type="Warning")
    return pod_event(now, key, pod.uid, reason=reason, message=helped.consumer_message(namespace, name))
