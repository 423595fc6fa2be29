"""A pod's shape and a node's view: all that decides whether they go together.

A *shape* is the scheduling-relevant part of a pod, parsed once and compared by digest. Values only:
`podspecs` reads them, `predicates` compares them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from tidewright.kube.devices.claims import Claimed
from tidewright.kube.devices.stock import Stock
from tidewright.kube.selectors import LabelSelector, Requirement
from tidewright.kube.taints import Taint, Toleration

HOSTNAME = "kubernetes.io/hostname"
PODS = "pods"


class Place(Protocol):
    """What a term asks of a node, whoever decoded it."""

    @property
    def name(self) -> str: ...
    @property
    def labels(self) -> Mapping[str, str]: ...


class NodeTerm(msgspec.Struct, frozen=True):
    """One node selector term: all of its conditions. A term without any matches nothing."""

    labels: tuple[Requirement, ...] = ()
    names: tuple[Requirement, ...] = ()

    def matches(self, node: Place) -> bool:
        if not self.labels and not self.names:
            return False
        named = {"metadata.name": node.name}
        return all(r.matches(node.labels) for r in self.labels) and all(r.matches(named) for r in self.names)


class PodTerm(msgspec.Struct, frozen=True):
    """A required inter-pod term. `namespaces` None means all of them."""

    key: str
    selector: LabelSelector
    namespaces: frozenset[str] | None

    def selects(self, shape: PodShape) -> bool:
        return (self.namespaces is None or shape.namespace in self.namespaces) and self.selector.matches(
            shape.labels
        )


class TopologySpread(msgspec.Struct, frozen=True):
    """A `DoNotSchedule` topology spread constraint. Only pods of the same namespace count."""

    key: str
    max_skew: int
    selector: LabelSelector
    min_domains: int = 1
    honor_affinity: bool = True
    honor_taints: bool = False

    def counts(self, labels: Mapping[str, str]) -> bool:
        """Whether a pod with these labels counts; of a selector that selects all, the scheduler counts none."""
        return not self.selector.everything and self.selector.matches(labels)


class HostPort(msgspec.Struct, frozen=True):
    ip: str
    protocol: str
    port: int

    def clashes(self, other: HostPort) -> bool:
        if self.port != other.port or self.protocol != other.protocol:
            return False
        return self.ip == other.ip or "0.0.0.0" in (self.ip, other.ip)  # noqa: S104 - the wildcard, not a bind


class Volume(msgspec.Struct, frozen=True):
    """A volume that decides where a pod may run.

    Attributes:
        claim: name of the claim in the pod's namespace, of a volume or of devices.
        driver: the CSI driver whose attach limit it counts against; empty when unknown.
        exclusive: access mode ReadWriteOncePod: one pod at a time.
        terms: where the bound volume, or its class, allows it; empty for everywhere.
    """

    claim: str
    driver: str = ""
    exclusive: bool = False
    terms: tuple[NodeTerm, ...] = ()


class PodShape(msgspec.Struct, frozen=True, kw_only=True):
    """The scheduling-relevant part of a pod.

    Attributes:
        requests: cpu in milli-cores, memory and ephemeral-storage in bytes, others as counts;
            always with `pods` = 1.
        selector: conditions of nodeSelector, all of which hold.
        terms: required node affinity, of which one holds; None when there is none.
        blocked: what it refers to is not there, or not ready, and this is why it goes nowhere.
        claims: of devices, that are not allocated yet; and those that several pods share, as long as they may.
        error: the pod's terms cannot be read, and this is why: it goes nowhere.
    """

    digest: str
    namespace: str = ""
    labels: dict[str, str] = {}
    requests: dict[str, int] = msgspec.field(default_factory=lambda: {PODS: 1})
    priority: int = 0
    node_name: str = ""
    selector: tuple[Requirement, ...] = ()
    terms: tuple[NodeTerm, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    spread: tuple[TopologySpread, ...] = ()
    volumes: tuple[Volume, ...] = ()
    claims: tuple[Claimed, ...] = ()
    gated: bool = False
    blocked: str = ""
    error: str = ""

    @property
    def devices(self) -> bool:
        """Whether it asks for devices that its claims have not got yet."""
        return any(claim.wishes for claim in self.claims)

    def requests_at(self, stock: Stock | None) -> Mapping[str, int]:
        """Its requests on a node with these devices: without those in place of which it claims some there."""
        claimed = {c.resource for c in self.claims if c.resource}
        if stock is not None:
            claimed -= stock.plugged
        return {n: a for n, a in self.requests.items() if n not in claimed} if claimed else self.requests

    @property
    def single(self) -> bool:
        """Whether a volume of it is for one pod at a time, wherever that is."""
        return any(volume.exclusive for volume in self.volumes)


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """A node as predicates see it.

    Attributes:
        allocatable: as `PodShape.requests`, `pods` included.
        stock: its own devices; `around`, of a template: those that its nodes reach as others do.
    """

    name: str
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    allocatable: dict[str, int] = {}
    unschedulable: bool = False
    stock: Stock | None = None
    around: Stock | None = None
