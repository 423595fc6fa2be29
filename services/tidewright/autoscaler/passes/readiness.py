"""Which pods count as ready, and the gate on their share (sections 2.4 and 2.6).

External metrics and recommenders count pods by phase and `Ready`; Resource metrics group them by
what their measurement is worth. Both work on `Pod`, the five fields that matter, and both say at
which instant the passing of time alone will change the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from tidewright.kube.readiness import Pod, earlier


class PodGroups(msgspec.Struct, frozen=True):
    """Pods grouped for a Resource metric.

    Attributes:
        ignored: names of pods whose values are dropped.
        missing: pods that count but have no value.
        incorrect: pods of other owners; they are in no group. `foreign`: those of them with a value.
    """

    listed: int
    ready: int
    ignored: frozenset[str]
    missing: int
    incorrect: int
    changes_at: float | None = None
    foreign: int = 0


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
    listed = ready = missing = incorrect = foreign = 0
    ignored: list[str] = []
    changes_at: float | None = None
    for pod in pods:
        listed += 1
        if not skip_owner_check and target_name not in pod.owners:
            incorrect += 1
            foreign += pod.name in values
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
                    changes_at = earlier(changes_at, counts_from)
            else:
                ready += 1
    return PodGroups(listed, ready, frozenset(ignored), missing, incorrect, changes_at, foreign)


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
