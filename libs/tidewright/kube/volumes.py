"""What the volumes of a pod ask of its node: spec 3.4, row "volumes".

A claim that is bound ties its pods to where its volume can be reached (node affinity and zone labels of
the volume), and counts against what the node may attach of its driver. One that is not bound yet waits
for its first pod, where its class says so: any node will do on which the class can make the volume, or
that a volume lying ready can be reached from. Pure: objects come through a `Lookup`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from tidewright.events.base import JsonObject
from tidewright.kube.podshape import NodeTerm, Volume
from tidewright.kube.podspecs import node_term
from tidewright.kube.selectors import LabelSelector, Requirement

NO_PROVISIONER = "kubernetes.io/no-provisioner"
ATTACHABLE = "attachable-volumes-csi-"
"""Prefix of the resource that stands for what a node may attach of one driver."""


class Unplaceable(ValueError):
    """A pod that goes nowhere as things are, and why."""


class Lookup(Protocol):
    """Objects by kind and `namespace/name` (or name)."""

    def get(self, kind: str, key: str) -> JsonObject | None: ...

    def every(self, kind: str) -> Mapping[str, JsonObject]:
        """All of a kind, by key."""
        ...

    def follows(self, kind: str) -> bool:
        """Whether objects of the kind are known at all; where not, claims cannot be missing."""
        ...


def attached(driver: str) -> str:
    """The resource that a volume of this driver counts against."""
    return f"{ATTACHABLE}{driver}"


def volumes_of(volumes: Iterable[Mapping[str, Any]], namespace: str, look: Lookup) -> tuple[Volume, ...]:
    """What the volumes of a pod spec come to.

    Raises:
        Unplaceable: a claim that is missing, or waits for somebody to bind it.
    """
    return tuple(resolved for volume in volumes for resolved in _volume(volume, namespace, look))


def _volume(volume: Mapping[str, Any], namespace: str, look: Lookup) -> Iterator[Volume]:
    if volume.get("ephemeral"):
        spec = (volume["ephemeral"].get("volumeClaimTemplate") or {}).get("spec") or {}
        if not look.follows("StorageClass"):
            return
        yield from _unbound(volume.get("name") or "ephemeral", spec, look)
        return
    name = (volume.get("persistentVolumeClaim") or {}).get("claimName") or ""
    if not name or not look.follows("PersistentVolumeClaim"):
        return
    claim = look.get("PersistentVolumeClaim", f"{namespace}/{name}")
    if claim is None:
        raise Unplaceable(f'persistentvolumeclaim "{name}" not found')
    exclusive = "ReadWriteOncePod" in (claim.get("accessModes") or ())
    if not claim.get("volumeName"):
        if exclusive:
            yield Volume(claim=name, exclusive=True)
        yield from _unbound(name, claim, look)
        return
    bound = look.get("PersistentVolume", claim["volumeName"])
    if bound is None:
        raise Unplaceable(f'persistentvolume "{claim["volumeName"]}" of claim "{name}" not found')
    yield Volume(
        claim=name,
        driver=bound.get("driver") or "",
        exclusive=exclusive,
        terms=_terms(bound.get("nodeSelectorTerms")),
    )
    zones = _zones(bound.get("labels") or {})
    if zones:
        yield Volume(claim=name, terms=(NodeTerm(labels=zones),))


def _terms(terms: Iterable[Mapping[str, Any]] | None) -> tuple[NodeTerm, ...]:
    return tuple(node_term(term) for term in terms or ())


def _zones(labels: Mapping[str, str]) -> tuple[Requirement, ...]:
    """A volume in several zones names them all, joined by two underscores."""
    return tuple(
        Requirement(key, "In", frozenset(labels[key].split("__")))
        for key in sorted(labels)
        if "topology.kubernetes.io/" in key or key.startswith("failure-domain.beta.kubernetes.io/")
    )


def _unbound(name: str, claim: Mapping[str, Any], look: Lookup) -> Iterator[Volume]:
    """A claim without a volume: where its class could make one, or one lies ready."""
    class_name = claim.get("storageClassName")
    if class_name is None and not claim.get("noClass"):
        class_name = next((n for n, c in sorted(look.every("StorageClass").items()) if c.get("default")), "")
    storage_class = look.get("StorageClass", class_name) if class_name else None
    if storage_class is None or not storage_class.get("waits"):
        raise Unplaceable(f"persistentvolumeclaim {name} is not bound, and its class does not wait for a pod")
    ready = [
        volume
        for _, volume in sorted(look.every("PersistentVolume").items())
        if _would_bind(claim, class_name or "", volume)
    ]
    if storage_class.get("provisioner") in (None, NO_PROVISIONER):
        if not ready:
            raise Unplaceable(f"no volume lies ready for persistentvolumeclaim {name}")
        if all(volume.get("nodeSelectorTerms") for volume in ready):
            yield Volume(claim=name, terms=tuple(t for v in ready for t in _terms(v["nodeSelectorTerms"])))
        return
    driver = storage_class["provisioner"]
    topologies = tuple(
        NodeTerm(
            labels=tuple(
                Requirement(e["key"], "In", frozenset(e["values"]))
                for e in term.get("matchLabelExpressions") or ()
            )
        )
        for term in storage_class.get("allowedTopologies") or ()
    )
    anywhere = any(not volume.get("nodeSelectorTerms") for volume in ready)
    beside = tuple(term for volume in ready for term in _terms(volume.get("nodeSelectorTerms")))
    if anywhere:
        yield Volume(claim=name, driver=driver)
        return
    yield Volume(claim=name, driver=driver, terms=(*topologies, *beside) if topologies else ())
    if (look.get("CSIDriver", driver) or {}).get("storageCapacity"):
        yield from _with_capacity(name, claim, class_name or "", beside, look)


def _with_capacity(
    name: str, claim: Mapping[str, Any], class_name: str, beside: tuple[NodeTerm, ...], look: Lookup
) -> Iterator[Volume]:
    """Where the driver says that there is enough left: it knows, and says so per topology."""
    requested = _storage(claim)
    terms: list[NodeTerm] = list(beside)
    for _, capacity in sorted(look.every("CSIStorageCapacity").items()):
        most = capacity.get("maximumVolumeSize", capacity.get("capacity"))
        if capacity.get("storageClassName") != class_name or most is None or most < requested:
            continue
        if capacity.get("anywhere"):
            return
        selector = LabelSelector.of(capacity.get("nodeTopology"))
        if selector.requirements:
            terms.append(NodeTerm(labels=selector.requirements))
    if not terms:
        raise Unplaceable(f"no node has enough storage left for persistentvolumeclaim {name}")
    yield Volume(claim=name, terms=tuple(terms))


def _storage(claim: Mapping[str, Any]) -> int:
    from tidewright.kube import quantities

    if "storage" in claim:
        return int(claim["storage"])
    asked = ((claim.get("resources") or {}).get("requests") or {}).get("storage")
    return 0 if asked is None else quantities.whole(asked)


def _would_bind(claim: Mapping[str, Any], class_name: str, volume: Mapping[str, Any]) -> bool:
    if volume.get("claim") or (volume.get("storageClassName") or "") != class_name:
        return False
    if volume.get("storage", 0) < _storage(claim):
        return False
    if claim.get("selector") and not LabelSelector.of(claim["selector"]).matches(volume.get("labels")):
        return False
    return set(claim.get("accessModes") or ()) <= set(volume.get("accessModes") or ())
