"""What kube-scheduler's default profile filters on: a pod's shape, a node, and whether they go together.

A *shape* is the scheduling-relevant part of a pod, parsed once and compared by digest. This module
answers what one shape and one node decide between themselves; what depends on other pods in other
places (affinity, spread) is counted by whoever holds the cluster, with the terms parsed here.

    of_fields(...)      shape from what a ShapeObserved fact carries
    of_template(...)    shape from a pod or pod template as the API has it
    node_reason(...)    name, cordon, taints, node selector and affinity, volume topology
    shortage(...)       resources, with the pod count as resource `pods`
    conflict(...)       two shapes that cannot share a node: host ports, exclusive volumes
    repels(...)         required anti-affinity of one shape against another, per topology key

Scores and preferences never matter. Pure: no clock, no I/O.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from tidewright.kube import quantities
from tidewright.kube.selectors import LabelSelector, Requirement, SelectorError, requirement

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
CONDITION_TAINT_PREFIX = "node.kubernetes.io/"
UNSCHEDULABLE_TAINT = "node.kubernetes.io/unschedulable"
PODS = "pods"

HARD_EFFECTS = frozenset({"NoSchedule", "NoExecute"})
"""Effects that keep a pod away; `PreferNoSchedule` is a preference."""


class TaintLike(Protocol):
    """A taint, whoever decoded it."""

    @property
    def key(self) -> str: ...
    @property
    def value(self) -> str: ...
    @property
    def effect(self) -> str: ...


class TolerationLike(TaintLike, Protocol):
    """A toleration, whoever decoded it."""

    @property
    def operator(self) -> str: ...


def tolerates(toleration: TolerationLike, taint: TaintLike) -> bool:
    """Whether one toleration covers a taint. Exact and case-sensitive; an empty effect covers every effect."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.value == taint.value


class Taint(msgspec.Struct, frozen=True):
    key: str
    value: str = ""
    effect: str = "NoSchedule"


class Toleration(msgspec.Struct, frozen=True):
    """An empty key with `Exists` tolerates everything; an empty effect, every effect."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        return tolerates(self, taint)


class NodeTerm(msgspec.Struct, frozen=True):
    """One node selector term: all of its conditions. A term without any matches nothing."""

    labels: tuple[Requirement, ...] = ()
    names: tuple[Requirement, ...] = ()

    def matches(self, node: NodeView) -> bool:
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


class Spread(msgspec.Struct, frozen=True):
    """A `DoNotSchedule` topology spread constraint. Only pods of the same namespace count."""

    key: str
    max_skew: int
    selector: LabelSelector
    min_domains: int = 1
    honor_affinity: bool = True
    honor_taints: bool = False


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
        claim: name of the claim in the pod's namespace.
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
    spread: tuple[Spread, ...] = ()
    volumes: tuple[Volume, ...] = ()
    gated: bool = False
    error: str = ""


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """A node as predicates see it.

    Attributes:
        allocatable: as `PodShape.requests`, `pods` included.
    """

    name: str
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    allocatable: dict[str, int] = {}
    unschedulable: bool = False


# --- Parsing ---


def pod_requests(spec: Mapping[str, Any]) -> dict[str, int]:
    """What a pod asks for: spec 3.4, row "resources".

    The larger of (containers and restartable init containers summed) and (the largest step of the
    init sequence), plus overhead; pod-level requests win where they are set. A limit without a
    request is the request.

    Raises:
        NotAQuantity: an amount that cannot be read.
    """
    total: dict[str, int] = {}
    for container in spec.get("containers") or ():
        _add(total, _container_requests(container))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.get("initContainers") or ():
        own = _container_requests(container)
        if container.get("restartPolicy") == "Always":
            _add(sidecars, own)
            step = dict(sidecars)
        else:
            step = dict(sidecars)
            _add(step, own)
        for name, value in step.items():
            peak[name] = max(peak.get(name, 0), value)
    _add(total, sidecars)
    for name, value in peak.items():
        total[name] = max(total.get(name, 0), value)
    total.update(_container_requests(spec))
    _add(total, amounts(spec.get("overhead") or {}))
    return {name: value for name, value in sorted(total.items()) if value}


def amounts(found: Mapping[str, Any]) -> dict[str, int]:
    """A resource list in integers: cpu in milli-cores, everything else in whole units."""
    return {
        name: quantities.milli(value) if name == "cpu" else quantities.whole(value)
        for name, value in found.items()
    }


def _container_requests(container: Mapping[str, Any]) -> dict[str, int]:
    resources = container.get("resources") or {}
    return amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, value in more.items():
        total[name] = total.get(name, 0) + value


def scheduling_fields(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The other fields of a pod spec that decide where it runs, under their API names.

    `hostPorts` and `volumes` are gathered: the ports of all containers that ask for one of the host,
    and the volumes that are claims.
    """
    found: dict[str, Any] = {
        name: spec[name]
        for name in ("nodeName", "nodeSelector", "affinity", "tolerations", "schedulingGates")
        if spec.get(name)
    }
    affinity = found.get("affinity")
    if affinity:
        required = {
            kind: {
                "requiredDuringSchedulingIgnoredDuringExecution": terms[
                    "requiredDuringSchedulingIgnoredDuringExecution"
                ]
            }
            for kind, terms in sorted(affinity.items())
            if terms and terms.get("requiredDuringSchedulingIgnoredDuringExecution")
        }
        found.pop("affinity")
        if required:
            found["affinity"] = required
    spread = [
        constraint
        for constraint in spec.get("topologySpreadConstraints") or ()
        if constraint.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule"
    ]
    if spread:
        found["topologySpreadConstraints"] = spread
    ports = [
        {
            "hostIP": p.get("hostIP") or "",
            "protocol": p.get("protocol") or "TCP",
            "hostPort": int(p["hostPort"]),
        }
        for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
        for p in container.get("ports") or ()
        if p.get("hostPort")
    ]
    if ports:
        found["hostPorts"] = ports
    claims = [
        volume
        for volume in spec.get("volumes") or ()
        if volume.get("persistentVolumeClaim") or "claim" in volume
    ]
    if claims:
        found["volumes"] = claims
    return found


def of_template(template: Mapping[str, Any], namespace: str) -> PodShape:
    """The shape of a pod or pod template (`metadata`, `spec`).

    What cannot be read makes a shape with `error`, never an exception: users write templates.
    """
    spec = template.get("spec") or {}
    metadata = template.get("metadata") or {}
    priority = spec.get("priority")
    try:
        requests = pod_requests(spec)
    except (quantities.NotAQuantity, AttributeError, TypeError) as error:
        return PodShape(digest=f"invalid-{error}", namespace=namespace, error=f"resources: {error}")
    try:
        fields = scheduling_fields(spec)
    except (AttributeError, TypeError, ValueError, KeyError) as error:
        return PodShape(digest=f"invalid-{error}", namespace=namespace, error=f"pod spec: {error}")
    return of_fields(
        requests=requests,
        scheduling=fields,
        namespace=namespace,
        labels=metadata.get("labels") or {},
        priority=priority if isinstance(priority, int) else 0,
    )


def digest_of(
    requests: Mapping[str, int],
    scheduling: Mapping[str, Any],
    namespace: str,
    labels: Mapping[str, str],
    priority: int,
) -> str:
    """Content address of a shape: 16 bytes of BLAKE2b over the canonical JSON, in hex."""
    body = msgspec.json.encode(
        [dict(requests), dict(scheduling), namespace, dict(labels), priority], order="deterministic"
    )
    return hashlib.blake2b(body, digest_size=16).hexdigest()


def of_fields(
    *,
    requests: Mapping[str, int],
    scheduling: Mapping[str, Any],
    namespace: str = "",
    labels: Mapping[str, str] | None = None,
    priority: int = 0,
    digest: str = "",
) -> PodShape:
    """The shape that a ShapeObserved fact describes. What cannot be read makes a shape with `error`."""
    own = dict(labels or {})
    address = digest or digest_of(requests, scheduling, namespace, own, priority)
    try:
        return _parse(dict(requests), scheduling, namespace, own, priority, address)
    except (SelectorError, AttributeError, TypeError, ValueError, KeyError) as error:
        return PodShape(
            digest=address,
            namespace=namespace,
            labels=own,
            requests={**requests, PODS: 1},
            priority=priority,
            error=f"{type(error).__name__}: {error}",
        )


def _parse(
    requests: dict[str, int],
    scheduling: Mapping[str, Any],
    namespace: str,
    labels: dict[str, str],
    priority: int,
    digest: str,
) -> PodShape:
    affinity = scheduling.get("affinity") or {}
    node_affinity = (affinity.get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    terms = node_affinity.get("nodeSelectorTerms")
    node_selector: Mapping[str, str] = scheduling.get("nodeSelector") or {}
    volumes = tuple(_volume(v) for v in scheduling.get("volumes") or ())
    per_driver: dict[str, int] = {}
    for volume in volumes:
        if volume.driver:
            key = f"attachable-volumes-csi-{volume.driver}"
            per_driver[key] = per_driver.get(key, 0) + 1
    return PodShape(
        digest=digest,
        namespace=namespace,
        labels=labels,
        requests={**requests, **per_driver, PODS: 1},
        priority=priority,
        node_name=scheduling.get("nodeName") or "",
        selector=tuple(requirement(key, "In", (node_selector[key],)) for key in sorted(node_selector)),
        terms=None if terms is None else tuple(node_term(term) for term in terms),
        tolerations=tuple(
            Toleration(
                key=t.get("key") or "",
                operator=t.get("operator") or "Equal",
                value=t.get("value") or "",
                effect=t.get("effect") or "",
            )
            for t in scheduling.get("tolerations") or ()
        ),
        host_ports=tuple(
            HostPort(p.get("hostIP") or "0.0.0.0", p.get("protocol") or "TCP", int(p["hostPort"]))  # noqa: S104
            for p in scheduling.get("hostPorts") or ()
        ),
        affinity=_pod_terms(affinity.get("podAffinity"), namespace, labels),
        anti_affinity=_pod_terms(affinity.get("podAntiAffinity"), namespace, labels),
        spread=tuple(_spread(c, labels) for c in scheduling.get("topologySpreadConstraints") or ()),
        volumes=volumes,
        gated=bool(scheduling.get("schedulingGates")),
    )


def node_term(term: Mapping[str, Any]) -> NodeTerm:
    """One node selector term. Raises SelectorError."""
    return NodeTerm(
        labels=tuple(
            requirement(e.get("key", ""), e.get("operator", ""), e.get("values") or ())
            for e in term.get("matchExpressions") or ()
        ),
        # A field's key (`metadata.name`) has the form of a label key, so the same parser serves.
        names=tuple(
            requirement(e.get("key", ""), e.get("operator", ""), e.get("values") or ())
            for e in term.get("matchFields") or ()
        ),
    )


def _with_label_keys(
    selector: LabelSelector, labels: Mapping[str, str], keys: Iterable[str], operator: str = "In"
) -> LabelSelector:
    more = tuple(requirement(key, operator, (labels[key],)) for key in keys if key in labels)
    return LabelSelector(selector.requirements + more, selector.nothing) if more else selector


def _pod_terms(
    affinity: Mapping[str, Any] | None, namespace: str, labels: Mapping[str, str]
) -> tuple[PodTerm, ...]:
    terms = (affinity or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or ()
    return tuple(_pod_term(term, namespace, labels) for term in terms)


def _pod_term(term: Mapping[str, Any], namespace: str, labels: Mapping[str, str]) -> PodTerm:
    selector = LabelSelector.of(term.get("labelSelector"))
    selector = _with_label_keys(selector, labels, term.get("matchLabelKeys") or ())
    selector = _with_label_keys(selector, labels, term.get("mismatchLabelKeys") or (), "NotIn")
    names = frozenset(term.get("namespaces") or ())
    by_label = term.get("namespaceSelector")
    namespaces: frozenset[str] | None
    if by_label is None:
        namespaces = names or frozenset({namespace})
    elif LabelSelector.of(by_label).everything:
        namespaces = None
    else:
        # Labels of namespaces are no facts; the one label that every namespace carries is its name.
        wanted = LabelSelector.of(by_label)
        listed = {v for r in wanted.requirements if r.key == "kubernetes.io/metadata.name" for v in r.values}
        namespaces = names | {n for n in listed if wanted.matches({"kubernetes.io/metadata.name": n})}
    return PodTerm(key=term["topologyKey"], selector=selector, namespaces=namespaces)


def _spread(constraint: Mapping[str, Any], labels: Mapping[str, str]) -> Spread:
    selector = LabelSelector.of(constraint.get("labelSelector"))
    return Spread(
        key=constraint["topologyKey"],
        max_skew=int(constraint.get("maxSkew", 1)),
        selector=_with_label_keys(selector, labels, constraint.get("matchLabelKeys") or ()),
        min_domains=int(constraint.get("minDomains") or 1),
        honor_affinity=constraint.get("nodeAffinityPolicy", "Honor") == "Honor",
        honor_taints=constraint.get("nodeTaintsPolicy", "Ignore") == "Honor",
    )


def _volume(volume: Mapping[str, Any]) -> Volume:
    claim = volume.get("claim") or (volume.get("persistentVolumeClaim") or {}).get("claimName") or ""
    return Volume(
        claim=claim,
        driver=volume.get("driver") or "",
        exclusive=bool(volume.get("exclusive")),
        terms=tuple(node_term(term) for term in volume.get("nodeSelectorTerms") or ()),
    )


# --- Predicates ---


def taints_of(found: Iterable[Mapping[str, str]]) -> tuple[Taint, ...]:
    return tuple(
        Taint(t.get("key", ""), t.get("value") or "", t.get("effect") or "NoSchedule") for t in found
    )


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
    if shape.node_name and shape.node_name != node.name:
        return "node name does not match"
    if node.unschedulable and untolerated(shape, (Taint(UNSCHEDULABLE_TAINT),)) is not None:
        return "node is unschedulable"
    taint = untolerated(shape, node.taints)
    if taint is not None:
        return f"untolerated taint {taint.key}"
    if not affine(shape, node):
        return "node selector or affinity does not match"
    for volume in shape.volumes:
        if volume.terms and not any(term.matches(node) for term in volume.terms):
            return f"volume of claim {volume.claim} is not available there"
    return ""


def shortage(requests: Mapping[str, int], free: Mapping[str, int]) -> str:
    """Which resource is short, the alphabetically first; empty when none is."""
    for name in sorted(requests):
        if requests[name] > free.get(name, 0):
            return "Too many pods" if name == PODS else f"Insufficient {name}"
    return ""


def conflict(one: PodShape, other: PodShape) -> bool:
    """Two pods of these shapes cannot share a node: host ports, exclusive volumes, hostname terms."""
    if (
        one.host_ports
        and other.host_ports
        and any(a.clashes(b) for a in one.host_ports for b in other.host_ports)
    ):
        return True
    if one.volumes and other.volumes and one.namespace == other.namespace:
        exclusive = {v.claim for v in one.volumes if v.exclusive} & {v.claim for v in other.volumes}
        if exclusive:
            return True
    return repels(one, other, HOSTNAME) or repels(other, one, HOSTNAME)


def repels(one: PodShape, other: PodShape, key: str) -> bool:
    """`one` has required anti-affinity against `other` within a domain of `key`."""
    return any(term.key == key and term.selects(other) for term in one.anti_affinity)


def counted_alone(shape: PodShape) -> bool:
    """Whether pods of this shape can be placed by counting.

    They can when no inter-pod term of its own depends on where its earlier pods went, except one on
    the host name, which only means one pod per node.
    """
    if shape.affinity or shape.spread:
        return False
    return not any(term.key != HOSTNAME and term.selects(shape) for term in shape.anti_affinity)


def required_keys(shapes: Sequence[PodShape]) -> frozenset[str]:
    """The topology keys that inter-pod terms of these shapes use."""
    return frozenset(
        term.key for shape in shapes for terms in (shape.affinity, shape.anti_affinity) for term in terms
    ) | frozenset(constraint.key for shape in shapes for constraint in shape.spread)
