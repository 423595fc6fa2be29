"""Validation of metadata and of the built-in kinds, with the API server's messages.

`metadata` holds for every object; `CREATE` and `UPDATE` have the rules of single kinds, by table name.
All return causes (path, message, reason), in the order of the fields.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidewright.kube.podapi import names
from tidewright.kube.podapi.fielderrors import (
    FieldError,
    annotation_errors,
    invalid,
    label_errors,
    owner_errors,
    required,
)
from tidewright.sim.api.crd import definition_rules
from tidewright.sim.api.kinds.resources import Kind
from tidewright.sim.api.kinds.workload_rules import RULES_CREATE, RULES_UPDATE

Object = dict[str, Any]

_STANDARD_FINALIZERS = frozenset({"orphan", "foregroundDeletion", "kubernetes"})
_LABEL_NAMES = frozenset({"/namespaces", "/services"})
_PATH_NAMES = frozenset(
    f"rbac.authorization.k8s.io/{plural}"
    for plural in ("roles", "rolebindings", "clusterroles", "clusterrolebindings")
)


def metadata(kind: Kind, obj: Object, old: Object | None = None) -> list[FieldError]:
    """Name, namespace, labels, annotations, owners and finalizers; not again what is shared with the old object."""
    if old is not None:
        before = old["metadata"]
        fresh = {key: item for key, item in obj["metadata"].items() if item is not before.get(key)}
        return _metadata(kind, {"metadata": fresh | {"name": before["name"]}})
    return _metadata(kind, obj)


def _metadata(kind: Kind, obj: Object) -> list[FieldError]:
    meta = obj["metadata"]
    causes: list[FieldError] = []
    name = meta.get("name", "")
    if not isinstance(name, str) or not name:
        causes.append(required("metadata.name", "name or generateName is required"))
    else:
        causes += [invalid("metadata.name", name, message) for message in _name_check(kind)(name)]
    prefix = meta.get("generateName")
    if prefix:  # the last dash is only there to be followed by something
        shape = prefix[:-1] + "a" if prefix.endswith("-") else prefix
        prefix_causes = [
            invalid("metadata.generateName", prefix, message) for message in _name_check(kind)(shape)
        ]
        causes = prefix_causes + causes
    labels = meta.get("labels")
    if labels:
        causes += label_errors(labels, "metadata.labels")
    annotations = meta.get("annotations")
    if annotations:
        causes += annotation_errors(annotations, "metadata.annotations")
    if meta.get("ownerReferences"):
        causes += owner_errors(meta["ownerReferences"], "metadata.ownerReferences")
    for index, finalizer in enumerate(meta.get("finalizers") or ()):
        causes += [
            invalid("metadata.finalizers", finalizer, message) for message in names.qualified(finalizer)
        ]
        # Of custom resources the API server only warns of them, and older controllers use such.
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS and not kind.custom:
            message = "name is neither a standard finalizer name nor is it fully qualified"
            causes.append(invalid(f"metadata.finalizers[{index}]", finalizer, message))
    return causes


def _name_check(kind: Kind) -> Callable[[str], tuple[str, ...]]:
    if kind.table_name in _LABEL_NAMES:
        return names.label
    return names.path_segment if kind.table_name in _PATH_NAMES else names.subdomain


_DEFINITIONS = "apiextensions.k8s.io/customresourcedefinitions"
CREATE: dict[str, Callable[[Object], list[FieldError]]] = RULES_CREATE | {
    _DEFINITIONS: definition_rules.check
}
UPDATE: dict[str, Callable[[Object, Object], list[FieldError]]] = RULES_UPDATE | {
    _DEFINITIONS: definition_rules.check_update
}
