"""Shapes read from pod specs: what a pod asks for, and its terms. Spec 3.4.

    pod_requests(...)        what the containers of a pod ask for together
    scheduling_fields(...)   the other fields that decide where it runs
    of_template(...)         shape from a pod or pod template as the API has it
    of_fields(...)           shape from what a ShapeObserved fact carries
    digest_of(...)           the content address of a shape

Scores and preferences are left out: they never matter. Pure: no clock, no I/O.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from tidewright.kube import quantities
from tidewright.kube.podshape import PODS, HostPort, NodeTerm, PodShape, PodTerm, TopologySpread, Volume
from tidewright.kube.selectors import LabelSelector, Requirement, requirement
from tidewright.kube.taints import Toleration

MOST: Final = 2**50
"""More of a resource than any node has, in milli-cores, bytes or counts: so much a pod asks for that asks for more, and goes
nowhere. What is counted over many nodes and pods has to stay within what a column of numbers holds: it holds 8,191 times as much.
"""

UNREADABLE: Final = (ValueError, TypeError, AttributeError, LookupError)
"""What reading a part of a pod can raise that nobody has looked at: an amount or a selector that is none, a list for a mapping."""


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
    return {name: bounded for name, value in sorted(total.items()) if (bounded := bounded_amount(value))}


def amounts(resources: Mapping[str, Any]) -> dict[str, int]:
    """A resource list in integers: cpu in milli-cores, everything else in whole units."""
    return {
        name: bounded_amount(quantities.milli(value) if name == "cpu" else quantities.whole(value))
        for name, value in resources.items()
    }


def bounded_amount(value: int) -> int:
    """An amount within 0 and `MOST`: less than nothing nobody asks for, but in a template that no API server checks."""
    return max(0, min(value, MOST))


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
    fields: dict[str, Any] = {
        name: spec[name]
        for name in (
            "nodeName",
            "nodeSelector",
            "affinity",
            "tolerations",
            "schedulingGates",
            "resourceClaims",
        )
        if spec.get(name)
    }
    affinity = fields.get("affinity")
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
        fields.pop("affinity")
        if required:
            fields["affinity"] = required
    spread = [
        constraint
        for constraint in spec.get("topologySpreadConstraints") or ()
        if constraint.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule"
    ]
    if spread:
        fields["topologySpreadConstraints"] = spread
    ports = [
        {
            "hostIP": p.get("hostIP") or "",
            "protocol": p.get("protocol") or "TCP",
            "hostPort": int(p["hostPort"]),
        }
        for container in [
            *(spec.get("containers") or ()),
            # What runs only before the others takes its ports away with it.
            *(c for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"),
        ]
        for p in container.get("ports") or ()
        if p.get("hostPort")
    ]
    if ports:
        fields["hostPorts"] = ports
    claims = [
        volume
        for volume in spec.get("volumes") or ()
        if volume.get("persistentVolumeClaim") or volume.get("ephemeral") or "claim" in volume
    ]
    if claims:
        fields["volumes"] = claims
    return fields


def of_template(template: Mapping[str, Any], namespace: str) -> PodShape:
    """The shape of a pod or pod template (`metadata`, `spec`).

    What cannot be read makes a shape with `error`, never an exception: users write templates.
    """
    spec = template.get("spec") or {}
    metadata = template.get("metadata") or {}
    priority = spec.get("priority")
    try:
        requests = pod_requests(spec)
    except UNREADABLE as error:
        return PodShape(digest=f"invalid-{error}", namespace=namespace, error=f"resources: {error}")
    try:
        fields = scheduling_fields(spec)
    except UNREADABLE as error:
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
    spaces: Mapping[str, Mapping[str, str]] | None = None,
) -> PodShape:
    """The shape that a ShapeObserved fact describes. What cannot be read makes a shape with `error`.

    `spaces` are the labels of namespaces; without them terms know namespaces by their names alone.
    """
    own = dict(labels or {})
    address = digest or digest_of(requests, scheduling, namespace, own, priority)
    requests = {name: bounded_amount(n) for name, n in requests.items()}  # facts of before may say others
    try:
        return _parse(
            requests,
            scheduling,
            namespace,
            labels=own,
            priority=priority,
            digest=address,
            spaces=spaces,
        )
    except UNREADABLE as error:
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
    *,
    labels: dict[str, str],
    priority: int,
    digest: str,
    spaces: Mapping[str, Mapping[str, str]] | None,
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
        affinity=_pod_terms(affinity.get("podAffinity"), namespace, labels, spaces),
        anti_affinity=_pod_terms(affinity.get("podAntiAffinity"), namespace, labels, spaces),
        spread=tuple(_spread(c, labels) for c in scheduling.get("topologySpreadConstraints") or ()),
        volumes=volumes,
        gated=bool(scheduling.get("schedulingGates")),
    )


def node_term(term: Mapping[str, Any]) -> NodeTerm:
    """One node selector term. Raises SelectorError."""
    return NodeTerm(
        labels=tuple(_node_requirement(e) for e in term.get("matchExpressions") or ()),
        # A field's key (`metadata.name`) has the form of a label key, so the same parser serves.
        names=tuple(_node_requirement(e) for e in term.get("matchFields") or ()),
    )


def _node_requirement(given: Mapping[str, Any]) -> Requirement:
    return _requirement(given.get("key") or "", given.get("operator") or "", tuple(given.get("values") or ()))


_requirement = lru_cache(maxsize=4096)(requirement)


def _with_label_keys(
    selector: LabelSelector, labels: Mapping[str, str], keys: Iterable[str], operator: str = "In"
) -> LabelSelector:
    more = tuple(requirement(key, operator, (labels[key],)) for key in keys if key in labels)
    return LabelSelector(selector.requirements + more, selector.nothing) if more else selector


def _pod_terms(
    affinity: Mapping[str, Any] | None,
    namespace: str,
    labels: Mapping[str, str],
    spaces: Mapping[str, Mapping[str, str]] | None,
) -> tuple[PodTerm, ...]:
    terms = (affinity or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or ()
    return tuple(_pod_term(term, namespace, labels, spaces) for term in terms)


def _pod_term(
    term: Mapping[str, Any],
    namespace: str,
    labels: Mapping[str, str],
    spaces: Mapping[str, Mapping[str, str]] | None,
) -> PodTerm:
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
    elif spaces:
        space_selector = LabelSelector.of(by_label)
        namespaces = names | {
            name for name, space_labels in spaces.items() if space_selector.matches(space_labels)
        }
    else:
        # The one label that every namespace carries is its name.
        space_selector = LabelSelector.of(by_label)
        listed = {
            v for r in space_selector.requirements if r.key == "kubernetes.io/metadata.name" for v in r.values
        }
        namespaces = names | {n for n in listed if space_selector.matches({"kubernetes.io/metadata.name": n})}
    return PodTerm(key=term["topologyKey"], selector=selector, namespaces=namespaces)


def _spread(constraint: Mapping[str, Any], labels: Mapping[str, str]) -> TopologySpread:
    selector = LabelSelector.of(constraint.get("labelSelector"))
    return TopologySpread(
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
