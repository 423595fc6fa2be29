"""The pods of a node that goes, as they are now: who must leave, and who keeps it from going. Spec 4.3."""

from __future__ import annotations

import msgspec

from tidewright.kube.keys import PodKey
from tidewright.provisioning.consolidation import protection
from tidewright.provisioning.index.index import Index
from tidewright.provisioning.index.indexing import holds_room
from tidewright.provisioning.scaledown.cards import KnownOwners, keeps, resident_of
from tidewright.provisioning.scaledown.drain.rules import sort_pods, thought_gone_after
from tidewright.provisioning.state import Pod, State

SOON_S = 0.001
WAITS = "BlockedByOnCompletionPod"


class Occupants(msgspec.Struct, frozen=True):
    """The pods of a node that goes, judged.

    Attributes:
        movers: pods that must have left before it goes, in the order in which they came.
        blocked: why it may not go; of `pod`.
    """

    movers: tuple[PodKey, ...] = ()
    blocked: str = ""
    pod: str = ""


def movers(state: State, index: Index, node: str, now: float) -> list[PodKey]:
    """Pods that would be lost with a node: neither of DaemonSets nor static, nor gone for all that is known.

    Expendable ones among them: no rule bears on them, and they are asked to leave like others.
    """
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
    return pod.deleting_at is not None and thought_gone_at(pod) <= now


def thought_gone_at(pod: Pod) -> float:
    """When a pod that is being deleted is thought to be gone, if it is still there."""
    grace_s = pod.removal.grace_s if pod.removal is not None else 0.0
    return thought_gone_after(pod.deleting_at or 0.0, grace_s) + SOON_S


def asks_to_stay(state: State, index: Index, node: str, now: float) -> PodKey | None:
    """The first pod, of a DaemonSet or not, whose annotation asks that its node be left alone, and that is not leaving yet."""
    for key in index.on_node.get(node, {}):
        pod = state.pods[key]
        annotated = pod.annotations is not None and protection.DO_NOT_DISRUPT in pod.annotations
        if (
            annotated
            and pod.deleting_at is None
            and protection.asks_to_stay(resident_of(state, index, key, pod), now)
        ):
            return key
    return None


def occupants(state: State, index: Index, node: str, now: float) -> Occupants:
    """Whom a node carries, and whether the rules of a drain let them go. Who is ending already is not judged.

    Budgets are left aside: what they have no room for now is waited for.
    """
    there = tuple(movers(state, index, node, now))
    judged = [
        resident_of(state, index, key, state.pods[key])
        for key in there
        if state.pods[key].deleting_at is None
        and (holds_room(state, index, state.pods[key].shape) or keeps(state, key))
    ]
    found = sort_pods(judged, index.settings, KnownOwners(state), None, now)
    if found.blocked is not None:
        return Occupants(there, found.blocked.pod_reason or found.blocked.reason, found.blocked.pod)
    if found.waits:
        return Occupants(there, WAITS, found.waits[0])
    return Occupants(there)
