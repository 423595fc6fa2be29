"""Node groups: what the next node looks like, who may grow and why not, who is alike, who gets how many.

Spec 3.5 (template nodes), 3.6 (groups that cannot grow), 3.7 (similar groups, balancing).
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from tidewright.kube.podshape import HOSTNAME, NodeView, PodShape
from tidewright.kube.predicates import node_reason
from tidewright.kube.taints import Taint
from tidewright.provisioning.cluster.limits import Limits
from tidewright.provisioning.group_ids import NO_GROUP, NodeGroupId
from tidewright.provisioning.pack.classes import Item
from tidewright.provisioning.pack.templates import Template
from tidewright.provisioning.settings import MachineType, Settings

NOT_READY = "not ready for scale-up"
IN_BACKOFF = "in backoff after failed scale-up"
MAX_SIZE = "max node group size reached"
OVER_NODE_COUNT = "atomic scale-up exceeds cluster node count limit"
TEMPLATE_LABEL = "cluster-autoscaler.kubernetes.io/template-node"

STARTUP_TAINT_PREFIXES = (
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
)
DROPPED_TAINT_PREFIXES = (*STARTUP_TAINT_PREFIXES, "status-taint.cluster-autoscaler.kubernetes.io/")
DROPPED_TAINTS = frozenset(
    {
        "ToBeDeletedByClusterAutoscaler",
        "DeletionCandidateOfClusterAutoscaler",
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
        "node.kubernetes.io/unschedulable",
        "node.kubernetes.io/memory-pressure",
        "node.kubernetes.io/disk-pressure",
        "node.kubernetes.io/pid-pressure",
        "node.kubernetes.io/network-unavailable",
        "node.kubernetes.io/out-of-service",
        "node.cloudprovider.kubernetes.io/uninitialized",
        "node.cloudprovider.kubernetes.io/shutdown",
    }
)
ZONE_LABELS = (
    "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/zone",
    "topology.ebs.csi.aws.com/zone",
    "topology.gke.io/zone",
    "topology.disk.csi.azure.com/zone",
)
"""Labels whose value is a node's zone: the standard one, its predecessor, and those of volume drivers."""

_Id = TypeVar("_Id", bound=str)


def in_zone(labels: Mapping[str, str], zone: str) -> dict[str, str]:
    """A node's labels were it in that zone: the standard label, and others that it has already."""
    if not zone:
        return dict(labels)
    kept = {key: zone for key in ZONE_LABELS if key in labels}
    return {**labels, **kept, ZONE_LABELS[0]: zone}


IGNORED_LABELS = frozenset(
    {
        HOSTNAME,
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "beta.kubernetes.io/fluentd-ds-ready",
        "kops.k8s.io/instancegroup",
        TEMPLATE_LABEL,
        # Set by clouds per zone, group or machine; the reference ignores them on AWS alone, and
        # nobody else has labels of these names.
        "alpha.eksctl.io/instance-id",
        "alpha.eksctl.io/nodegroup-name",
        "eks.amazonaws.com/nodegroup",
        "k8s.amazonaws.com/eniConfig",
        "lifecycle",
        "topology.ebs.csi.aws.com/zone",
        "topology.k8s.aws/zone-id",
    }
)


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """A group as a plan sees it.

    Attributes:
        target: nodes ordered, also those not there yet.
        template: None when nobody knows what its nodes look like.
        capacity: of one node, for limits and prices; the template's allocatable when empty.
        nodes: of the group that exist or are upcoming.
        also: groups that come into being with this one (one per further zone).
        zones: of a group that does not exist yet: its own, then those of `also`.
        beside: of a group that does not exist yet: the one that it is among the `also` of. By itself it
            is of use for what that one cannot hold.
    """

    id: NodeGroupId
    min: int = 0
    max: int = 0
    target: int = 0
    template: Template | None = None
    capacity: dict[str, int] = {}
    nodes: int = 0
    zero_or_max: bool = False
    exists: bool = True
    healthy: bool = True
    backed_off: bool = False
    backoff_until: float = 0.0
    size_known: bool = True
    atomic_increase: bool = False
    price_micro: int | None = None
    machine_type: str = ""
    also: tuple[NodeGroupId, ...] = ()
    zones: tuple[str, ...] = ()
    beside: NodeGroupId = NO_GROUP

    @property
    def room(self) -> int:
        return max(0, self.max - self.target)

    @property
    def node_capacity(self) -> Mapping[str, int]:
        if self.capacity or self.template is None:
            return self.capacity
        return self.template.view.allocatable

    @property
    def labels(self) -> Mapping[str, str]:
        return {} if self.template is None else self.template.view.labels


def kept_taints(taints: Iterable[Taint], passing: Container[str] = ()) -> tuple[Taint, ...]:
    """The taints of a node that the next one of its group will have too; `passing` are keys that settings name."""
    return tuple(
        t
        for t in taints
        if t.key not in DROPPED_TAINTS
        and t.key not in passing
        and not t.key.startswith(DROPPED_TAINT_PREFIXES)
    )


def template_from_node(view: NodeView, residents: Sequence[Item], passing: Container[str] = ()) -> Template:
    """A template from a real node: its name and passing taints are dropped."""
    labels = {k: v for k, v in view.labels.items() if k != HOSTNAME}
    return Template(
        view=NodeView(
            name="template",
            labels={**labels, TEMPLATE_LABEL: "true"},
            taints=kept_taints(view.taints, passing),
            allocatable=view.allocatable,
            stock=view.stock,
            around=view.around,
        ),
        residents=tuple(residents),
    )


class RealNode(msgspec.Struct, frozen=True, kw_only=True):
    """A registered node of a group, as a pattern for the next one.

    Attributes:
        ready_for_s: seconds since it became Ready; None when it is not.
        residents: its DaemonSet and static pods.
        leaving: it is cordoned or being deleted.
    """

    view: NodeView
    ready_for_s: float | None
    residents: tuple[Item, ...] = ()
    leaving: bool = False


READY_LONG_ENOUGH_S = 60.0
"""A node that became ready just now may not have reported all its resources (devices come late)."""


def choose_template(
    nodes: Sequence[RealNode],
    *,
    remembered: Template | None = None,
    provided: NodeView | None = None,
    daemons: Sequence[PodShape] = (),
    static: Sequence[PodShape] = (),
    passing: Container[str] = (),
) -> Template | None:
    """What the next node of a group looks like: the first source that applies. Spec 3.5.

    A real node that has been ready for a minute, the last template remembered, the provider's word
    with the DaemonSets that would run and its static pods, an unready node. `passing` are keys of taints that no template keeps.
    """
    ordered = sorted(nodes, key=lambda node: node.view.name)
    for node in ordered:
        if not node.leaving and node.ready_for_s is not None and node.ready_for_s >= READY_LONG_ENOUGH_S:
            return template_from_node(node.view, node.residents, passing)
    if remembered is not None:
        return remembered
    if provided is not None:
        view = NodeView(
            name="template",
            labels={**provided.labels, TEMPLATE_LABEL: "true"},
            taints=kept_taints(provided.taints, passing),
            allocatable=provided.allocatable,
            stock=provided.stock,
            around=provided.around,
        )
        return Template(view=view, residents=daemons_for(view, (*static, *daemons)))
    for node in ordered:
        if not node.leaving:
            return template_from_node(node.view, node.residents, passing)
    return None


def daemons_for(view: NodeView, daemons: Iterable[PodShape]) -> tuple[Item, ...]:
    """DaemonSet pods that would run on such a node, one of each."""
    return tuple(Item(shape, 1) for shape in daemons if not node_reason(shape, view))


def cannot_grow(group: Group, limits: Limits, current_nodes: int, max_nodes_total: int) -> str:
    """The first reason why a group cannot grow by one node; empty when it can. Spec 3.6."""
    if group.template is None or (group.exists and not (group.healthy and group.size_known)):
        return NOT_READY
    if group.backed_off:  # one that does not exist yet: the cloud would not make it
        return IN_BACKOFF
    if group.min > group.max:
        return f"its minimum {group.min} is above its maximum {group.max}"
    if group.target >= group.max:
        return MAX_SIZE
    nodes = group.room if group.zero_or_max else 1
    if group.zero_or_max and 0 < max_nodes_total < current_nodes + nodes:
        return OVER_NODE_COUNT
    return limits.exceeded(group.id, group.labels, group.node_capacity, nodes)


def alike(group: Group, other: Group, settings: Settings) -> bool:
    """Whether nodes of two groups are the same for balancing."""
    if group.template is None or other.template is None:
        return False
    if settings.balancing_labels:
        return all(group.labels.get(key) == other.labels.get(key) for key in settings.balancing_labels)
    if not _close(group.node_capacity, other.node_capacity, {"memory": settings.memory_ratio}, 0.0):
        return False
    if not _close(
        group.template.view.allocatable, other.template.view.allocatable, {}, settings.allocatable_ratio
    ):
        return False
    if not _close(group.template.free(), other.template.free(), {}, settings.free_ratio):
        return False
    if _devices(group) != _devices(other):
        return False
    ignored = IGNORED_LABELS | set(settings.ignored_labels)
    return {k: v for k, v in group.labels.items() if k not in ignored} == {
        k: v for k, v in other.labels.items() if k not in ignored
    }


def _devices(group: Group) -> Counter[str]:
    """How many devices of which driver its next node has."""
    stock = group.template.view.stock if group.template is not None else None
    return Counter(device.driver for device in stock.devices) if stock is not None else Counter()


def _close(
    amounts: Mapping[str, int], other: Mapping[str, int], ratios: Mapping[str, float], ratio: float
) -> bool:
    for name in {*amounts, *other}:
        if name not in amounts or name not in other:
            return False
        a, b = amounts[name], other[name]
        if abs(a - b) > max(abs(a), abs(b)) * ratios.get(name, ratio):
            return False
    return True


def similar(
    group: NodeGroupId,
    lookalikes: Iterable[NodeGroupId],
    fits: Mapping[NodeGroupId, frozenset[str]],
    balancing: bool,
) -> list[NodeGroupId]:
    """Of the groups that look alike, those that can host every class that `group` can host.

    Args:
        group: id of the chosen group.
        lookalikes: ids of groups with equal nodes that may grow and are not zero-or-max.
        fits: group id to the classes that it can host in this evaluation.
        balancing: the setting; off means none.
    """
    own = fits.get(group, frozenset())
    if not balancing or not own:
        return []
    return [other for other in sorted(lookalikes) if fits.get(other, frozenset()) >= own]


def balance(groups: Iterable[tuple[_Id, int, int]], add: int) -> list[tuple[_Id, int]]:
    """Share out new nodes: one at a time to the smallest group below its maximum, ties to the lower id.

    Args:
        groups: (id, target size, maximum).
        add: nodes to share out; what exceeds the free capacity is left over.

    Returns:
        (id, nodes added), in the order of size before, then id; groups that get none are left out.
    """
    able = sorted((target, name, maximum) for name, target, maximum in groups if target < maximum)
    added = {name: 0 for _, name, _ in able}
    heap = list(able)
    heapq.heapify(heap)
    remaining = min(add, sum(maximum - target for target, _, maximum in able))
    while remaining > 0:
        size, name, maximum = heapq.heappop(heap)
        # As long as it stays the smallest it goes on receiving: up to the next one's size.
        ahead = heap[0] if heap else None
        most = maximum - size
        if ahead is not None:
            most = min(most, max(1, ahead[0] - size))
        given = min(remaining, most)
        added[name] += given
        remaining -= given
        if size + given < maximum:
            heapq.heappush(heap, (size + given, name, maximum))
    return [(name, added[name]) for _, name, _ in able if added[name]]


def candidates(
    machine_types: Iterable[MachineType], existing: Iterable[str], daemons: Sequence[PodShape]
) -> list[Group]:
    """Groups that auto-provisioning could make: one per machine type, with one more per further zone."""
    there = set(existing)
    possible: list[Group] = []
    for machine in machine_types:
        name = NodeGroupId(f"autoprovisioned-{machine.name}")
        zones = machine.zones or ("",)
        labels = {
            "node.kubernetes.io/instance-type": machine.name,
            **machine.labels,
            TEMPLATE_LABEL: "true",
        }
        view = NodeView(
            name="template",
            labels=in_zone(labels, zones[0]),
            taints=tuple(
                Taint(t["key"], t.get("value", ""), t.get("effect", "NoSchedule")) for t in machine.taints
            ),
            allocatable={"pods": 110, **machine.resources},
        )
        first = Group(
            id=name,
            max=machine.max_size,
            template=Template(view=view, residents=daemons_for(view, daemons)),
            exists=False,
            price_micro=machine.price_micro,
            machine_type=machine.name,
            also=tuple(NodeGroupId(f"{name}-{i}") for i in range(1, len(zones))),
            zones=machine.zones,
        )
        possible += [first, *(sibling(first, other) for other in first.also)]
    return [
        msgspec.structs.replace(
            group,
            also=tuple(n for n in group.also if n not in there),
            zones=tuple(
                zone
                for n, zone in zip((group.id, *group.also), group.zones or ("",), strict=True)
                if n not in there and zone
            ),
        )
        for group in possible
        if group.id not in there
    ]


def sibling(group: Group, name: NodeGroupId) -> Group:
    """One of the groups that would come into being with this one, in its own zone."""
    zone = group.zones[1 + group.also.index(name)]
    template = group.template
    if template is not None:
        labels = in_zone(template.view.labels, zone)
        template = msgspec.structs.replace(
            template, view=msgspec.structs.replace(template.view, labels=labels)
        )
    return msgspec.structs.replace(group, id=name, template=template, also=(), zones=(zone,), beside=group.id)
