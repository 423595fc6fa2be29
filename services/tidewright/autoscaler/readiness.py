"""Which pods count as ready, and the gate on their share (sections 2.4 and 2.6).

External metrics and recommenders count pods by phase and `Ready`; Resource metrics group them by
what their measurement is worth. Both work on `Pod`, the five fields that matter, and both say at
which instant the passing of time alone will change the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

SKIP_OWNER_CHECK = "wpa.datadoghq.com/skip-owner-check"

NO_PODS = "no pods returned by selector while calculating replica count"


class Pod(msgspec.Struct, frozen=True, omit_defaults=True):
    """A pod, reduced to what counts.

    Attributes:
        owners: effective names of its owners, see `effective_owner`.
        ready: status of its `Ready` condition (`True`, `False`, `Unknown`); empty without one.
        ready_changed_at: that condition's last transition, seconds.
        started_at: its start time, seconds.
    """

    name: str
    owners: tuple[str, ...] = ()
    phase: str = "Pending"
    ready: str = ""
    ready_changed_at: float = 0.0
    started_at: float | None = None
    deleting: bool = False


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


class PodGroups(msgspec.Struct, frozen=True):
    """Pods grouped for a Resource metric.

    Attributes:
        ignored: names of pods whose values are dropped.
        missing: pods that count but have no value.
        incorrect: pods of other owners; they are in no group.
    """

    listed: int
    ready: int
    ignored: frozenset[str]
    missing: int
    incorrect: int
    changes_at: float | None = None


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
            changes_at = _earlier(changes_at, pod.ready_changed_at + delay_s)
    return ReadyCount(listed, incorrect, ready, changes_at)


def group_pods(
    pods: Iterable[Pod],
    values: Mapping[str, int],
    *,
    resource: str,
    target_name: str,
    now: float,
    delay_s: int,
    skip_owner_check: bool = False,
    strict: bool = False,
) -> PodGroups:
    """Group pods by what their measurement is worth (2.6.3).

    For cpu a pod is ignored until `delay_s` seconds after its start. Strictly, it is ignored for
    good when it became ready sooner than that (D4).
    """
    listed = ready = missing = incorrect = 0
    ignored: list[str] = []
    changes_at: float | None = None
    for pod in pods:
        listed += 1
        if not skip_owner_check and target_name not in pod.owners:
            incorrect += 1
        elif pod.phase in ("Failed", "Pending"):
            ignored.append(pod.name)
        elif pod.name not in values:
            missing += 1
        elif resource != "cpu":
            ready += 1
        elif not pod.ready or pod.started_at is None or pod.ready == "False":
            ignored.append(pod.name)
        else:
            counts_from = pod.started_at + delay_s
            if counts_from > (pod.ready_changed_at if strict else now):
                ignored.append(pod.name)
                if not strict:
                    changes_at = _earlier(changes_at, counts_from)
            else:
                ready += 1
    return PodGroups(listed, ready, frozenset(ignored), missing, incorrect, changes_at)


def _earlier(known: float | None, candidate: float) -> float:
    return candidate if known is None or candidate < known else known


def ready_percent(ready: int, counted: int) -> int:
    """The share of ready pods in whole percent, truncated; `counted` is above 0."""
    return 100 * ready // counted


def gate_error(percent: int, minimum_percent: int, *, namespace: str, target_name: str) -> str:
    """Why too few pods are ready; empty when enough are.

    The wording says "unready" and means ready: users match it as it is (D16).
    """
    if percent >= minimum_percent:
        return ""
    return f"{percent} % of the pods are unready, will not autoscale {namespace}/{target_name}"
