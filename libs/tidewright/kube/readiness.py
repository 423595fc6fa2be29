"""Which pods of a target count as ready (watermark-autoscaler.md, 2.4). Pure.

The autoscaler multiplies by the count, and the watcher tells it to recommenders: both count alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from tidewright.events.facts import PodObserved

SKIP_OWNER_CHECK = "wpa.datadoghq.com/skip-owner-check"

NO_PODS = "no pods returned by selector while calculating replica count"


class Pod(msgspec.Struct, frozen=True, omit_defaults=True):
    """A pod, reduced to what counts.

    Attributes:
        owners: effective names of its owners, see `effective_owner`.
        ready: status of its `Ready` condition (`True`, `False`, `Unknown`); empty without one.
        ready_changed_at: that condition's last transition, seconds.
        started_at: its start time, seconds.
        references: the owners themselves, for who walks their chain.
    """

    name: str
    owners: tuple[str, ...] = ()
    phase: str = "Pending"
    ready: str = ""
    ready_changed_at: float = 0.0
    started_at: float | None = None
    deleting: bool = False
    references: tuple[str, ...] = ()


class ReadyCount(msgspec.Struct, frozen=True):
    """Pods counted for External metrics and recommenders.

    Attributes:
        listed: all that the selector finds.
        incorrect: those of other owners, and those that have ended.
        changes_at: when time alone changes the count next; None when it does not.
    """

    listed: int
    incorrect: int
    ready: int
    changes_at: float | None = None

    @property
    def error(self) -> str:
        """Why nothing can be computed from this; empty when it can."""
        if self.listed == 0:
            return NO_PODS
        if self.ready == 0:
            return f"among the {self.listed} pods, none is ready. Skipping recommendation"
        return ""


def effective_owner(kind: str, name: str) -> str:
    """An owner's name, without the last `-...` of a ReplicaSet: a Deployment's pods name it so."""
    if kind != "ReplicaSet":
        return name
    head, dash, _ = name.rpartition("-")
    return head if dash else name


def owner_matches(owners: Iterable[str], target_name: str) -> bool:
    """Whether one of the effective owner names is the target's (D26: names only)."""
    return target_name in owners


def skips_owner_check(annotations: Mapping[str, str]) -> bool:
    """Whether the object trusts its target's selector and asks for no owner."""
    return annotations.get(SKIP_OWNER_CHECK) == "true"


def ready_pods(
    pods: Iterable[Pod], *, target_name: str, now: float, delay_s: int, skip_owner_check: bool = False
) -> ReadyCount:
    """Count the ready pods (2.4).

    A pod that is `Pending` counts as ready for `delay_s` seconds after its `Ready` condition
    changed last.
    """
    listed = incorrect = ready = 0
    changes_at: float | None = None
    for pod in pods:
        listed += 1
        phase = pod.phase
        if (not skip_owner_check and target_name not in pod.owners) or phase in ("Failed", "Succeeded"):
            incorrect += 1
        elif not pod.ready or pod.started_at is None or pod.deleting:
            continue
        elif phase == "Running":
            ready += pod.ready == "True"
        elif phase == "Pending" and now - pod.ready_changed_at < delay_s:
            ready += 1
            changes_at = earlier(changes_at, pod.ready_changed_at + delay_s)
    return ReadyCount(listed, incorrect, ready, changes_at)


def earlier(known: float | None, candidate: float) -> float:
    """The earlier of two instants, of which the first may be none."""
    return candidate if known is None or candidate < known else known


def pod_of(fact: PodObserved) -> Pod:
    """The part of a pod that counts."""
    return Pod(
        name=fact.name,
        owners=tuple(effective_owner(owner.kind, owner.name) for owner in fact.owners),
        phase=fact.phase,
        ready="" if fact.ready is None else "True" if fact.ready else "False",
        ready_changed_at=fact.ready_changed_at or 0.0,
        started_at=fact.started_at,
        deleting=fact.deleting_at is not None,
    )
