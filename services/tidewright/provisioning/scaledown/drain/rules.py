"""What blocks a drain: rules about one pod in the reference's order, the first decisive one wins. Spec 4.3."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import msgspec

from tidewright.kube.keys import PodKey
from tidewright.kube.podshape import PodShape
from tidewright.provisioning.pending.helped import of_daemon_set
from tidewright.provisioning.scaledown.drain.budgets import Allowance
from tidewright.provisioning.scaledown.scene import Owner, Owners, Refusal, Resident
from tidewright.provisioning.settings import Settings

MIRROR = "kubernetes.io/config.mirror"
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
LOCAL_VOLUMES = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
ON_COMPLETION = "on-completion"
LONG_TERMINATING_S = 30.0
"""A pod that is still there so long after its grace period was to end is thought to be gone."""
REPLICATED = frozenset({"ReplicationController", "Job", "ReplicaSet", "StatefulSet"})
KUBE_SYSTEM = "kube-system"

BLOCKED_BY_POD = "BlockedByPod"
CONTROLLER_NOT_FOUND = "ControllerNotFound"
HELD_BACK = "HeldBack"
"""Of a pod in a namespace in which nothing is done: it could not be evicted."""
UNKNOWN = "UnexpectedError"
"""Of a pod of which a rule cannot be answered: it blocks."""


class Outcome(Enum):
    """What a drain does with a pod."""

    SKIPPED = "skipped"
    MOVES = "moves"
    DAEMON = "daemon"
    WAITS = "waits"
    BLOCKS = "blocks"


class Sorted(msgspec.Struct, frozen=True, kw_only=True):
    """The pods of a node by what a drain does with them; `blocked` when it may not begin.

    Attributes:
        keys, shapes, digests: of the pods that move, in their order: asked for of all unneeded nodes in each part of a pass.
    """

    movers: tuple[Resident, ...] = ()
    keys: tuple[PodKey, ...] = ()
    shapes: tuple[PodShape, ...] = ()
    digests: tuple[str, ...] = ()
    daemons: tuple[PodKey, ...] = ()
    waits: tuple[PodKey, ...] = ()
    blocked: Refusal | None = None

    def with_(self, more: Sorted) -> Sorted:
        """These, then more of the same node; what blocks one of them blocks all."""
        if self.blocked is not None or more.blocked is not None:
            return self if self.blocked is not None else more
        return Sorted(
            movers=self.movers + more.movers,
            keys=self.keys + more.keys,
            shapes=self.shapes + more.shapes,
            digests=self.digests + more.digests,
            daemons=self.daemons + more.daemons,
            waits=self.waits + more.waits,
        )


def mirrored(pod: Resident) -> bool:
    return MIRROR in pod.annotations


def of_daemons(pod: Resident) -> bool:
    return of_daemon_set(pod.owner.kind if pod.owner is not None else "", pod.annotations)


def thought_gone_after(deleting_at: float, grace_s: float) -> float:
    """The time after which a pod that is being deleted is thought to be gone, if it is still there."""
    return deleting_at + grace_s + LONG_TERMINATING_S


def long_terminating(pod: Resident, now: float) -> bool:
    """Whether it should have been gone for a while."""
    return pod.deleting_at is not None and thought_gone_after(pod.deleting_at, pod.grace_s) < now


def judged(
    pod: Resident, settings: Settings, owners: Owners, allowance: Allowance | None, now: float
) -> tuple[Outcome, str]:
    """What a drain does with a pod, and the reason when it blocks. Without `allowance` no budget is looked at."""
    if mirrored(pod) or long_terminating(pod, now):
        return Outcome.SKIPPED, ""
    if settings.skip_custom and (orphaned := _owner_problem(pod, settings, owners)):
        return Outcome.BLOCKS, orphaned
    if of_daemons(pod):
        return Outcome.DAEMON, ""
    if pod.held:
        return Outcome.BLOCKS, HELD_BACK
    if pod.unknown:
        return Outcome.BLOCKS, UNKNOWN
    safe = pod.annotations.get(SAFE_TO_EVICT, "")
    if safe == "true" or _terminal(pod):
        return Outcome.MOVES, ""
    if safe == ON_COMPLETION:
        return Outcome.WAITS, ""
    return _unless_settled(pod, settings, allowance, now, safe)


def _unless_settled(
    pod: Resident, settings: Settings, allowance: Allowance | None, now: float, safe: str
) -> tuple[Outcome, str]:
    """Rules 8 to 12: what a drain may not do to an ordinary pod."""
    if pod.owner is None or (settings.skip_custom and pod.owner.kind not in REPLICATED):
        return Outcome.BLOCKS, "NotReplicated"
    covered = allowance.covering(pod) if allowance is not None else ()
    if settings.skip_system and pod.namespace == KUBE_SYSTEM and not covered:
        if pod.created_at is None or pod.created_at + settings.system_timeout_s >= now:
            return Outcome.BLOCKS, "UnmovableKubeSystemPod"
        return Outcome.MOVES, ""
    if safe == "false":
        return Outcome.BLOCKS, "NotSafeToEvictAnnotation"
    if settings.skip_local and _keeps_data(pod):
        return Outcome.BLOCKS, "LocalStorageRequested"
    if (
        allowance is not None
        and not allowance.spent(pod.key)
        and any(allowance.left(key) < 1 for key in covered)
    ):
        return Outcome.BLOCKS, "NotEnoughPdb"
    return Outcome.MOVES, ""


def _owner_problem(pod: Resident, settings: Settings, owners: Owners) -> str:
    """What is wrong with the controller of a known kind; it may be missing, or have too few replicas."""
    owner = pod.owner
    if owners.there is None or owner is None:
        return ""
    if not _looked_up(pod, owner):
        return ""
    replicas = owners.replicas(owner.kind, pod.namespace, owner.name)
    if replicas is None:
        return CONTROLLER_NOT_FOUND
    counted = owner.kind in ("ReplicationController", "ReplicaSet")
    return "MinReplicasReached" if counted and replicas < settings.min_replicas else ""


def _looked_up(pod: Resident, owner: Owner) -> bool:
    """Whether a controller is asked for. Of pods that only say that they are a DaemonSet's no other is, but for the oldest kind."""
    if owner.kind == "ReplicationController":
        return True
    if of_daemons(pod):
        return owner.kind == "DaemonSet" and owner.group == "apps"
    return owner.kind in ("ReplicaSet", "Job") or (owner.kind == "StatefulSet" and owner.group == "apps")


def _terminal(pod: Resident) -> bool:
    """It has ended, and nobody starts it again."""
    return pod.phase == "Failed" or (
        pod.phase == "Succeeded" and pod.restart_policy in ("Never", "OnFailure")
    )


def _keeps_data(pod: Resident) -> bool:
    """Whether data on the node would be lost that its owner has not given up."""
    if not pod.local:
        return False
    given_up = pod.annotations.get(LOCAL_VOLUMES, "").split(",")
    return not all(volume in given_up for volume in pod.local)


def sort_pods(
    pods: Sequence[Resident], settings: Settings, owners: Owners, allowance: Allowance | None, now: float
) -> Sorted:
    """Go through a node's pods in their order; the first that blocks ends it."""
    movers: list[Resident] = []
    daemons: list[PodKey] = []
    waits: list[PodKey] = []
    for pod in pods:
        outcome, reason = judged(pod, settings, owners, allowance, now)
        if outcome is Outcome.MOVES:
            movers.append(pod)
        elif outcome is Outcome.DAEMON:
            daemons.append(pod.key)
        elif outcome is Outcome.WAITS:
            waits.append(pod.key)
        elif outcome is Outcome.BLOCKS:
            return Sorted(blocked=Refusal(BLOCKED_BY_POD, pod=pod.key, pod_reason=reason))
    return Sorted(
        movers=tuple(movers),
        keys=tuple(pod.key for pod in movers),
        shapes=tuple(pod.shape for pod in movers),
        digests=tuple(pod.shape.digest for pod in movers),
        daemons=tuple(daemons),
        waits=tuple(waits),
    )
