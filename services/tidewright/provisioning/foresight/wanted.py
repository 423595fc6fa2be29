"""How many pods a workload still lacks: those that its controller is about to make. Pure arithmetic over counts."""

from __future__ import annotations

import msgspec

from tidewright.provisioning.foresight.kept import Workload
from tidewright.provisioning.pending.helped import SCALE_UP_DELAY
from tidewright.provisioning.requests.spec import consumes

COUNTED = frozenset(("Deployment", "ReplicaSet", "StatefulSet", "Job", "CloneSet"))
"""Kinds of workloads whose pods are all known, and whose controllers count these and nothing else."""


class WorkloadPods(msgspec.Struct, frozen=True):
    """Pods that a workload has.

    Attributes:
        active: those that are there and stay, of all its revisions.
        current: those of them that have the revision which is wanted.
        leaving: those that are being deleted.
        former: those of them that are not known to have the revision which is wanted.
    """

    active: int = 0
    current: int = 0
    leaving: int = 0
    former: int = 0


def lacking(kind: str, workload: Workload, standing: WorkloadPods) -> int:
    """Pods that are about to be made; 0 where none is, or where they ask for room in another way, or later.

    What the controller says it has counts too where it is more: pods that have just ended, or that have not been seen.
    """
    if not makes_pods(workload):
        return 0
    active = max(standing.active, workload.observed)
    match kind:
        case "Job":
            return max(0, _of_job(workload) - active - (standing.leaving if workload.after_end else 0))
        case "StatefulSet":
            missing = max(0, workload.replicas - active - standing.leaving)
            return min(missing, 1) if workload.ordered else missing
        case "Deployment" if standing.former and not workload.max_surge:
            return 0  # Recreate: nothing is made before the last of them is gone, and that makes room
        case "Deployment":
            most = workload.replicas + (0 if workload.paused else surge(workload))
            if standing.active <= standing.current:  # no rollout is under way
                return max(0, workload.replicas - active)
            return max(0, min(workload.replicas - standing.current, most - active))
    return max(0, workload.replicas - active)


def all_there(kind: str, workload: Workload, standing: WorkloadPods) -> bool:
    """Whether a workload has all the pods that it wants, whatever it says of that itself."""
    wanted = _of_job(workload) if kind == "Job" else workload.replicas
    return standing.active >= wanted and not lacking(kind, workload, standing)


def impossible(workload: Workload) -> str:
    """Fields of a workload that count less than nothing, as no honest controller does; empty where none does."""
    counts = {
        "status.replicas": workload.observed,
        "completions": workload.completions or 0,
        "succeeded": workload.succeeded,
    }
    return ", ".join(field for field, count in counts.items() if count < 0)


def too_many(kind: str, workload: Workload, standing: WorkloadPods) -> bool:
    """Whether a controller says that it has more pods than there are, also of those that leave.

    Of kinds of somebody else it is not known what their controllers count, or whether all that is between them and their
    pods is watched.
    """
    return kind in COUNTED and workload.observed > standing.active + standing.leaving


def makes_pods(workload: Workload) -> bool:
    """Whether its controller makes pods by now, and such as wait for nothing but room."""
    if workload.deleting or workload.ended or workload.suspended or workload.refused:
        return False
    return not consumes(workload.annotations) and SCALE_UP_DELAY not in workload.annotations


def _of_job(job: Workload) -> int:
    """Pods that a Job has at a time, as far as it has come."""
    if job.completions is None:
        return 0 if job.succeeded else job.replicas
    return min(job.replicas, job.completions - job.succeeded - job.failed)


def surge(workload: Workload) -> int:
    """Pods that a Deployment may have beyond what is wanted, while it rolls out: a share of what is wanted is rounded up."""
    text = workload.max_surge
    try:
        if text.endswith("%"):
            return -(-workload.replicas * int(text[:-1]) // 100)
        return int(text or 0)
    except ValueError:
        return 0
