"""Which nodes and pods consolidation leaves alone. Addendum 4.2, rules 1, 4, 6 and 7.

`do-not-disrupt` of Karpenter's users holds beside the annotations of Cluster Autoscaler, which all of scale-down heeds:
the stricter wins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidewright.kube.durations import parse_duration
from tidewright.provisioning.scaledown.drain.budgets import Allowance
from tidewright.provisioning.scaledown.drain.rules import BLOCKED_BY_POD
from tidewright.provisioning.scaledown.scene import Refusal, Resident

DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
NODE_PROTECTED = "DoNotDisruptAnnotation"
POD_PROTECTED = "DoNotDisrupt"
SEVERAL_BUDGETS = "SeveralBudgets"
YOUNG = "TooYoungToConsolidate"
YOUNG_S = 600.0
"""A node of less than this age is left alone."""


def of_node(annotations: Mapping[str, str], created_at: float, now: float) -> str:
    """Why a node is left alone; empty when it is not."""
    if annotations.get(DO_NOT_DISRUPT) == "true":
        return NODE_PROTECTED
    return YOUNG if created_at + YOUNG_S > now else ""


def of_pods(pods: Sequence[Resident], allowance: Allowance, now: float) -> Refusal | None:
    """The first pod that keeps its node, also one of a DaemonSet or a static one; None when none does."""
    for pod in pods:
        if _asks_to_stay(pod, now):
            return Refusal(BLOCKED_BY_POD, pod=pod.key, pod_reason=POD_PROTECTED)
        if len(allowance.covering(pod)) > 1:  # the eviction would be refused
            return Refusal(BLOCKED_BY_POD, pod=pod.key, pod_reason=SEVERAL_BUDGETS)
    return None


def _asks_to_stay(pod: Resident, now: float) -> bool:
    """For good, or for a duration from its start; one that cannot be read, or of which the start is unknown, is for good."""
    said = pod.annotations.get(DO_NOT_DISRUPT)
    if said is None or said == "false":
        return False
    try:
        duration_s = parse_duration(said)
    except ValueError:
        return True
    return pod.created_at is None or pod.created_at + duration_s > now
