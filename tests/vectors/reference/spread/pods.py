"""A pod as the original's pass lists it, and who of one subset leaves first (specification, 3.6)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from tidewright.kube.workloadspreads.spec import DELETION_COST_ANNOTATION, Spread
from tidewright.spread.match.pods import Pod, pod_of

_PHASE_RANK = {"Pending": 0, "Unknown": 1, "Running": 2}


class ListedPod(Pod, frozen=True):
    """A pod with all that a pass looks at.

    Attributes:
        phase: as the API gives it; absent counts as Pending where pods are ranked.
        ready_at: last transition of the Ready condition while it is True, seconds; None when absent.
        unschedulable: condition PodScheduled is False with reason `Unschedulable`.
        cost: the deletion cost annotation as it is, "" when absent.
        restarts: largest count among containers, and among restartable init containers.
    """

    owner_uids: tuple[str, ...] = ()
    cost: str = ""
    node: str = ""
    ready: bool = False
    ready_at: float | None = None
    unschedulable: bool = False
    restarts: tuple[int, int] = (0, 0)
    created_at: float | None = None


def listed(obj: Mapping[str, Any]) -> ListedPod:
    """A pod from the API's object; times are RFC 3339 text or seconds."""
    meta: Mapping[str, Any] = obj.get("metadata") or {}
    spec: Mapping[str, Any] = obj.get("spec") or {}
    status: Mapping[str, Any] = obj.get("status") or {}
    conditions = {c.get("type"): c for c in status.get("conditions") or ()}
    ready = conditions.get("Ready") or {}
    scheduled = conditions.get("PodScheduled") or {}
    is_ready = ready.get("status") == "True"
    return ListedPod(
        **msgspec.structs.asdict(pod_of(obj)),
        owner_uids=tuple(o.get("uid") or "" for o in meta.get("ownerReferences") or ()),
        cost=(meta.get("annotations") or {}).get(DELETION_COST_ANNOTATION, ""),
        node=spec.get("nodeName") or "",
        ready=is_ready,
        ready_at=seconds(ready.get("lastTransitionTime")) if is_ready else None,
        unschedulable=scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable",
        restarts=_restarts(spec, status),
        created_at=seconds(meta.get("creationTimestamp")),
    )


def belongs(pod: Pod, spread: Spread) -> bool:
    """Whether a pod's annotation names this spread and a subset."""
    placement = pod.placement
    return placement is not None and placement.name == spread.name and bool(placement.subset)


def _restarts(spec: Mapping[str, Any], status: Mapping[str, Any]) -> tuple[int, int]:
    restartable = {
        c.get("name") for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"
    }
    return (
        max((s.get("restartCount") or 0 for s in status.get("containerStatuses") or ()), default=0),
        max(
            (
                s.get("restartCount") or 0
                for s in status.get("initContainerStatuses") or ()
                if s.get("name") in restartable
            ),
            default=0,
        ),
    )


def seconds(value: str | float | None) -> float | None:
    """A time of the API in seconds since the epoch."""
    if value is None or isinstance(value, int | float):
        return value
    return datetime.fromisoformat(value).timestamp()


def leaving_order(pod: ListedPod) -> tuple[bool, int, bool, float, int, int, float]:
    """Sort key: pods that are cheapest to lose come first (3.6, rules 1 to 6; the list order is rule 7)."""
    return (
        pod.node != "",
        _PHASE_RANK.get(pod.phase, 0),
        pod.ready,
        _newest_first(pod.ready_at) if pod.ready else 0.0,
        -pod.restarts[0],
        -pod.restarts[1],
        _newest_first(pod.created_at),
    )


def _newest_first(at: float | None) -> float:
    return -math.inf if at is None else -at
