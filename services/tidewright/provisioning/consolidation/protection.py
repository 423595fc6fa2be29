"""Which nodes and pods consolidation leaves alone, and for how long. Addendum 4.2, rules 1, 4, 6 and 7.

`do-not-disrupt` of Karpenter's users holds beside the annotations of Cluster Autoscaler, which all of scale-down heeds:
the stricter wins.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from tidewright.kube.durations import parse_duration
from tidewright.kube.keys import PodKey
from tidewright.provisioning.consolidation.kept import MOVED_REST_S, Kept
from tidewright.provisioning.scaledown.drain.budgets import Allowance
from tidewright.provisioning.scaledown.drain.rules import BLOCKED_BY_POD
from tidewright.provisioning.scaledown.scene import Refusal, Resident
from tidewright.provisioning.settings import Settings

DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
NODE_PROTECTED = "DoNotDisruptAnnotation"
POD_PROTECTED = "DoNotDisrupt"
SEVERAL_BUDGETS = "SeveralBudgets"
NO_BUDGET = "NotEnoughPdb"
MOVED = "MovedLately"
PASSING = frozenset((POD_PROTECTED, MOVED))
"""Reasons of pods that time alone may end."""
YOUNG = "TooYoungToConsolidate"
YOUNG_S = 600.0
"""A node of less than this age is left alone; so is one on which room was put for a request or a buffer since then."""
ROUNDS, ROUNDS_S = "RoundsToAgree", 15.0
"""Two rounds must agree that lie so far apart."""
AFTER = "ConsolidateAfter"
TOOK = "TookRoomLately"


def of_node(annotations: Mapping[str, str], created_at: float, now: float) -> str:
    """Why a node is left alone; empty when it is not."""
    if protects(annotations):
        return NODE_PROTECTED
    return YOUNG if created_at + YOUNG_S >= now else ""


def protects(annotations: Mapping[str, str]) -> bool:
    """Whether a node's annotations ask that it be left alone."""
    return annotations.get(DO_NOT_DISRUPT) == "true"


def rest_of_node(
    kept: Kept, name: str, settings: Settings, *, since: float | None, now: float
) -> tuple[str, float]:
    """Why a node rests, and until when; no reason when it does not.

    Args:
        kept: what came to which node when.
        name: the node.
        settings: how long no pod has come to it, or left it.
        since: when the first round found that it may go; None: no round has to agree.
        now: log time.
    """
    rests = [
        (kept.took.get(name, -math.inf) + YOUNG_S, TOOK),
        (kept.stirred.get(name, 0.0) + settings.consolidate_after_s, AFTER),
    ]
    if since is not None:
        rests.append((since + ROUNDS_S, ROUNDS))
    until, reason = max(rests)
    return (reason, until) if until > now else ("", until)


def of_pods(
    pods: Sequence[Resident],
    movers: Sequence[Resident],
    allowance: Allowance,
    *,
    moved: Mapping[PodKey, float],
    draining: Mapping[str, int],
    now: float,
) -> Refusal | None:
    """The first pod that keeps its node; None when none does.

    Args:
        pods: all of the node, those of DaemonSets and static ones among them.
        movers: those that would have to leave.
        allowance: disruption budgets with what nodes that were found before have left of them.
        moved: pods that were moved here, and when.
        draining: of each budget the pods that still have to leave nodes which go already.
        now: log time.
    """
    for pod in pods:
        if asks_to_stay(pod, now):
            return Refusal(BLOCKED_BY_POD, pod=pod.key, pod_reason=POD_PROTECTED)
        if len(allowance.covering(pod)) > 1:  # the eviction would be refused
            return Refusal(BLOCKED_BY_POD, pod=pod.key, pod_reason=SEVERAL_BUDGETS)
    needed: Counter[str] = Counter()
    for pod in allowance.fresh(movers):
        if moved.get(pod.key, -math.inf) + MOVED_REST_S > now:
            return Refusal(BLOCKED_BY_POD, pod=pod.key, pod_reason=MOVED)
        for key in allowance.covering(pod):
            needed[key] += 1
            if needed[key] + draining.get(key, 0) > allowance.left(key):
                return Refusal(BLOCKED_BY_POD, pod=pod.key, pod_reason=NO_BUDGET)
    return None


def asks_to_stay(pod: Resident, now: float) -> bool:
    """For good, or for a duration from its start; one that cannot be read, or of which the start is unknown, is for good."""
    said = pod.annotations.get(DO_NOT_DISRUPT)
    if said is None or said == "false":
        return False
    try:
        duration_s = parse_duration(said)
    except ValueError:
        return True
    return pod.created_at is None or pod.created_at + duration_s > now
