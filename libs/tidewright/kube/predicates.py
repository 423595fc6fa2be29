"""What kube-scheduler's default profile filters on: whether a shape and a node go together.

This module answers what one shape and one node decide between themselves; what depends on other pods
in other places (affinity, spread) is counted by whoever holds the cluster, with the terms of the shape.

    node_reason(...)    name, cordon, taints, node selector and affinity, volume topology
    conflict(...)       two shapes that cannot share a node: host ports, exclusive volumes
    repels(...)         required anti-affinity of one shape against another, per topology key

Scores and preferences never matter. Pure: no clock, no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidewright.kube.podshape import HOSTNAME, NodeView, PodShape
from tidewright.kube.taints import HARD_EFFECTS, UNSCHEDULABLE_TAINT, Taint

UNMATCHED = "node selector or affinity does not match"


def untolerated(shape: PodShape, taints: Iterable[Taint]) -> Taint | None:
    """The first taint that keeps the shape away."""
    for taint in taints:
        if taint.effect in HARD_EFFECTS and not any(t.tolerates(taint) for t in shape.tolerations):
            return taint
    return None


def affine(shape: PodShape, node: NodeView) -> bool:
    """Node selector and required node affinity."""
    return all(r.matches(node.labels) for r in shape.selector) and (
        shape.terms is None or any(term.matches(node) for term in shape.terms)
    )


def node_reason(shape: PodShape, node: NodeView) -> str:
    """Why the shape cannot run on this node whatever else runs there; empty when it can."""
    if shape.error:
        return f"pod cannot be read ({shape.error})"
    if shape.blocked:
        return shape.blocked
    if shape.node_name and shape.node_name != node.name:
        return "node name does not match"
    if node.unschedulable and untolerated(shape, (Taint(UNSCHEDULABLE_TAINT),)) is not None:
        return "node is unschedulable"
    taint = untolerated(shape, node.taints)
    if taint is not None:
        return f"untolerated taint {taint.key}"
    if not affine(shape, node):
        return UNMATCHED
    for volume in shape.volumes:
        if volume.terms and not any(term.matches(node) for term in volume.terms):
            return f"claim {volume.claim} is not available there"
    return ""


def only_amounts(shape: PodShape) -> bool:
    """Whether nothing but amounts, taints and cordons can keep pods of this shape from a node that is free."""
    return not (
        shape.selector
        or shape.volumes
        or shape.host_ports
        or shape.anti_affinity
        or shape.claims
        or shape.node_name
        or shape.error
        or shape.blocked
        or shape.terms is not None
    )


def picky(shape: PodShape) -> bool:
    """Whether pods of this shape may keep others from a node, or a domain: of two that conflict one at least is such."""
    return bool(shape.host_ports or shape.volumes or shape.anti_affinity)


def conflict(shape: PodShape, other: PodShape) -> bool:
    """Two pods of these shapes cannot share a node: host ports, exclusive volumes, hostname terms."""
    if (
        shape.host_ports
        and other.host_ports
        and any(a.clashes(b) for a in shape.host_ports for b in other.host_ports)
    ):
        return True
    if shape.volumes and other.volumes and shape.namespace == other.namespace:
        exclusive = {v.claim for v in shape.volumes if v.exclusive} & {v.claim for v in other.volumes}
        if exclusive:
            return True
    return repels(shape, other, HOSTNAME) or repels(other, shape, HOSTNAME)


def repels(shape: PodShape, other: PodShape, key: str) -> bool:
    """`shape` has required anti-affinity against `other` within a domain of `key`."""
    return any(term.key == key and term.selects(other) for term in shape.anti_affinity)


def counted_alone(shape: PodShape) -> bool:
    """Whether pods of this shape can be placed by counting.

    They can when no inter-pod term of its own depends on where its earlier pods went, except one on
    the host name, which only means one pod per node.
    """
    if shape.affinity or shape.spread:
        return False
    return not any(term.key != HOSTNAME and term.selects(shape) for term in shape.anti_affinity)
