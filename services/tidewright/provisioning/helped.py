"""Which pending pods may cause an increase. Spec 3.3, steps 1, 4, 5 and 7, and 2.3 about consumers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tidewright.provisioning.durations import DurationError, parse_duration_s
from tidewright.provisioning.pack.classes import Pending
from tidewright.provisioning.spec import consumed_request, consumes

DAEMONSET_POD = "cluster-autoscaler.kubernetes.io/daemonset-pod"
SCALE_UP_DELAY = "cluster-autoscaler.kubernetes.io/pod-scale-up-delay"


def expendable(priority: int, cutoff: int) -> bool:
    """Pods below the cut-off never cause an increase, and hold no room."""
    return priority < cutoff


def of_daemon_set(owner_kind: str, annotations: Mapping[str, str]) -> bool:
    return owner_kind == "DaemonSet" or annotations.get(DAEMONSET_POD) == "true"


def delay_s(annotations: Mapping[str, str], general_s: float) -> float:
    """How old a pod must be: its own delay when that is longer and can be read, else the general one."""
    text = annotations.get(SCALE_UP_DELAY)
    if text is None:
        return general_s
    try:
        return max(parse_duration_s(text), general_s)
    except DurationError:
        return general_s


def old_enough(created_at: float, wait_s: float, now: float) -> bool:
    """Strictly older than its delay."""
    return now - created_at > wait_s


def consumer_message(namespace: str, request: str) -> str:
    """The message of the object event on a consumer that causes nothing, verbatim."""
    return (
        "Unschedulable pod didn't trigger scale-up, because it's consuming ProvisioningRequest "
        f"{namespace}/{request}"
    )


def orphan_message(namespace: str, request: str, what: str) -> str:
    """[B4]: the message of the warning on a consumer whose request is missing or has ended."""
    return f"{consumer_message(namespace, request)}, which {what}"


def without_consumers(
    pods: Sequence[Pending], event_limit: int = 50
) -> tuple[list[Pending], list[tuple[Pending, str]]]:
    """Pods that are nobody's consumers, and the object events for those that are (at most so many)."""
    kept = [pod for pod in pods if not consumes(pod.annotations)]
    events = [
        (pod, consumer_message(pod.namespace, consumed_request(pod.annotations)))
        for pod in pods
        if consumes(pod.annotations)
    ]
    return kept, events[:event_limit]


def forced(pods: Iterable[Pending]) -> bool:
    """Whether a pod with a consume annotation is in the list: then no short cut is taken (spec 2.6)."""
    return any(consumes(pod.annotations) for pod in pods)
