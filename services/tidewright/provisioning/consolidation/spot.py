"""Spot capacity: which nodes the cloud may take away, by the labels that clouds and provisioners give them. Addendum 4.2, rule 8."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tidewright.provisioning.cluster.groups import Group

SPOT_LABELS: dict[str, str] = {
    "karpenter.sh/capacity-type": "spot",
    "eks.amazonaws.com/capacityType": "SPOT",
    "cloud.google.com/gke-spot": "true",
    "cloud.google.com/gke-preemptible": "true",
    "kubernetes.azure.com/scalesetpriority": "spot",
}
INSTANCE_TYPE = "node.kubernetes.io/instance-type"


def is_spot(labels: Mapping[str, str]) -> bool:
    """Whether a node with these labels is one that the cloud may take away."""
    return any(labels.get(key) == value for key, value in SPOT_LABELS.items())


def risk_price(price_micro: int, revoked: Sequence[float], nodes: int, now: float, within_s: float) -> int:
    """The price of a node of a group of which nodes were taken away: more by the part of its nodes that were.

    Args:
        price_micro: what it costs.
        revoked: when nodes were taken away.
        nodes: how many the group has.
        now: log time.
        within_s: what is longer ago counts no more.
    """
    lately = sum(at + within_s > now for at in revoked)
    return price_micro + price_micro * lately // max(1, nodes)


def cheaper_types(groups: Iterable[Group], below_micro: int) -> int:
    """Of how many machine types there are groups of spot nodes that cost less than this."""
    return len(
        {
            group.machine_type or group.labels.get(INSTANCE_TYPE) or group.id
            for group in groups
            if is_spot(group.labels) and group.price_micro is not None and group.price_micro < below_micro
        }
    )
