"""The pods of a node that goes, as they are now: who moves, and who keeps it from going. Spec 4.3."""

from __future__ import annotations

import msgspec

from tidewright.kube.keys import PodKey
from tidewright.provisioning.index.index import Index
from tidewright.provisioning.state import Pod, State

LONG_TERMINATING_S = 30.0
"""A pod that is still there so long after its grace period was to end is thought to be gone."""


class Standing(msgspec.Struct, frozen=True):
    """What is on a node.

    Attributes:
        movers: pods that must have left before it goes, in the order in which they came.
        blocked: why it may not go; of `pod`.
    """

    movers: tuple[PodKey, ...] = ()
    blocked: str = ""
    pod: str = ""


def movers(state: State, index: Index, node: str, now: float) -> list[PodKey]:
    """Pods that would be lost with a node: neither of DaemonSets nor static, nor gone for all that is known."""
    return [
        key
        for key in index.on_node.get(node, {})
        if not (pod := state.pods[key]).daemon and not _thought_gone(pod, now)
    ]


def _thought_gone(pod: Pod, now: float) -> bool:
    if pod.removal is None:
        return False
    if pod.removal.mirror:
        return True
    return pod.deleting_at is not None and pod.deleting_at + pod.removal.grace_s + LONG_TERMINATING_S < now


def standing(state: State, index: Index, node: str, now: float) -> Standing:
    """Whom a node carries, and whether they let it go. What is not known of a pod keeps its node."""
    there = movers(state, index, node, now)
    for key in there:
        pod = state.pods[key]
        if pod.deleting_at is None and (reason := _kept_by(pod)):
            return Standing(tuple(there), reason, key)
    return Standing(tuple(there))


def _kept_by(pod: Pod) -> str:
    annotations = pod.annotations or {}
    if pod.removal is None:
        return "UnexpectedError"
    safe = annotations.get("cluster-autoscaler.kubernetes.io/safe-to-evict", "")
    if safe == "true":
        return ""
    if safe in ("false", "on-completion"):
        return "NotSafeToEvictAnnotation"
    return "" if pod.controller is not None else "NotReplicated"
