"""Rules by which pending pods cause an increase or not. Spec 3.3 and 2.3."""

from __future__ import annotations

from collections.abc import Mapping

from tidewright.kube.durations import parse_duration

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
        return max(parse_duration(text), general_s)
    except ValueError:
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
