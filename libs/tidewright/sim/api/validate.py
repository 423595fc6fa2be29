"""Validation of metadata and of the built-in kinds, with the API server's messages.

`metadata` holds for every object; `CREATE` and `UPDATE` have the rules of single kinds, by table name.
All return causes (path, message, reason), in the order of the fields.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from tidewright.sim.api import definition_rules, names
from tidewright.sim.api.errors import Cause
from tidewright.sim.api.resources import Kind
from tidewright.sim.api.workload_rules import RULES_CREATE, RULES_UPDATE

Object = dict[str, Any]

MAX_ANNOTATIONS_BYTES = 256 * 1024
_STANDARD_FINALIZERS = frozenset({"orphan", "foregroundDeletion", "kubernetes"})
_LABEL_NAMES = frozenset({"/namespaces", "/services"})
_PATH_NAMES = frozenset(
    f"rbac.authorization.k8s.io/{plural}"
    for plural in ("roles", "rolebindings", "clusterroles", "clusterrolebindings")
)


def invalid(field: str, value: str, message: str) -> Cause:
    return Cause(field, f'Invalid value: "{value}": {message}')


def required(field: str, message: str = "") -> Cause:
    return Cause(field, "Required value" + (f": {message}" if message else ""), "FieldValueRequired")


def metadata(kind: Kind, obj: Object, old: Object | None = None) -> list[Cause]:
    """Name, namespace, labels, annotations, owners and finalizers; not again what is shared with the old object."""
    if old is not None:
        before = old["metadata"]
        fresh = {key: item for key, item in obj["metadata"].items() if item is not before.get(key)}
        return _metadata(kind, {"metadata": fresh | {"name": before["name"]}})
    return _metadata(kind, obj)


def _metadata(kind: Kind, obj: Object) -> list[Cause]:
    meta = obj["metadata"]
    causes: list[Cause] = []
    name = meta.get("name", "")
    if not isinstance(name, str) or not name:
        causes.append(required("metadata.name", "name or generateName is required"))
    else:
        causes += [invalid("metadata.name", name, message) for message in _name_check(kind)(name)]
    prefix = meta.get("generateName")
    if prefix:  # the last dash is only there to be followed by something
        shape = prefix[:-1] + "a" if prefix.endswith("-") else prefix
        found = [invalid("metadata.generateName", prefix, message) for message in _name_check(kind)(shape)]
        causes = found + causes
    labels = meta.get("labels")
    if labels:
        causes += label_map("metadata.labels", labels)
    annotations = meta.get("annotations")
    if annotations:
        causes += _annotations(annotations)
    if meta.get("ownerReferences"):
        causes += _owners(meta["ownerReferences"])
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


def label_map(path: str, labels: Any) -> list[Cause]:
    causes: list[Cause] = []
    for key, value in labels.items():
        causes += [invalid(path, key, message) for message in names.qualified(key)]
        causes += [invalid(path, value, message) for message in names.label_value(value)]
    return causes


def _annotations(annotations: Any) -> list[Cause]:
    causes: list[Cause] = []
    total = 0
    for key, value in annotations.items():
        causes += [invalid("metadata.annotations", key, message) for message in names.qualified(key.lower())]
        total += len(key) + len(value)
    if total > MAX_ANNOTATIONS_BYTES:
        causes.append(
            Cause(
                "metadata.annotations",
                f"Too long: may not be more than {MAX_ANNOTATIONS_BYTES} bytes",
                "FieldValueTooLong",
            )
        )
    return causes


def _owners(references: list[Object]) -> list[Cause]:
    causes: list[Cause] = []
    controllers: list[str] = []
    path = "metadata.ownerReferences"
    for reference in references:
        if not reference.get("apiVersion"):
            causes.append(invalid(f"{path}.apiVersion", "", "version must not be empty"))
        for field in ("kind", "name", "uid"):
            if not reference.get(field):
                causes.append(invalid(f"{path}.{field}", "", "must not be empty"))
        if reference.get("controller"):
            controllers.append(f"{reference.get('kind')}/{reference.get('name')}")
    if len(controllers) > 1:
        shown = msgspec.json.encode(references).decode()
        found = f'Found "true" in references for {controllers[0]} and {controllers[1]}'
        message = f"Invalid value: {shown}: Only one reference can have Controller set to true. {found}"
        causes.append(Cause("metadata.ownerReferences", message))
    return causes


_DEFINITIONS = "apiextensions.k8s.io/customresourcedefinitions"
CREATE: dict[str, Callable[[Object], list[Cause]]] = RULES_CREATE | {_DEFINITIONS: definition_rules.check}
UPDATE: dict[str, Callable[[Object, Object], list[Cause]]] = RULES_UPDATE | {
    _DEFINITIONS: definition_rules.check_update
}
