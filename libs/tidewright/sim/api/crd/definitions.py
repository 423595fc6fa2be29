"""CustomResourceDefinitions: served as soon as they are stored, gone with their objects.

`follow` is called for every stored change of a definition. It makes the `Kind` that the registry serves,
and writes the definition's conditions (NamesAccepted, Established), as the real controllers do, only at
once instead of some moments later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from tidewright.kube.conditions import by_type, entry, transition
from tidewright.sim.api.crd.custom import CustomVersion, PrinterColumn
from tidewright.sim.api.kinds.resources import Kind, ScalePaths, version_order
from tidewright.sim.api.store.store import Record

if TYPE_CHECKING:
    from tidewright.sim.api.api import Api

Object = dict[str, Any]
TABLE = "apiextensions.k8s.io/customresourcedefinitions"


class Definitions:
    """Keeps the registry in step with the stored definitions."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def load(self) -> None:
        """Serve what a restored store holds."""
        for record in self._api.store.table(TABLE).scan():
            self.follow(record, record.decode())

    def follow(self, record: Record, obj: Object) -> None:
        """Serve the definition as it is now, or stop serving one that is gone."""
        api = self._api
        name = record.name
        current = api.store.table(TABLE).get("", name)
        if current is None:
            kind = api.registry.named(name)
            if kind is not None and kind.custom:
                api.registry.remove(name)
                api.store.drop_table(kind.table_name)
            return
        conflict = self._conflict(obj)
        if conflict is None:
            api.registry.add(kind_of(obj))
        self._write_status(current, obj, conflict)

    def _conflict(self, obj: Object) -> str | None:
        spec = obj["spec"]
        group, names = spec["group"], spec["names"]
        for kind in self._api.registry:
            if kind.group != group or kind.name == obj["metadata"]["name"]:
                continue
            taken = {kind.plural, kind.singular, *kind.short_names}
            claimed = {names["plural"], names.get("singular", ""), *names.get("shortNames", ())}
            if taken & claimed or kind.kind == names["kind"]:
                return f'"{min(taken & claimed or {kind.kind})}" is already in use'
        return None

    def _write_status(self, record: Record, obj: Object, conflict: str | None) -> None:
        api = self._api
        spec, old = obj["spec"], obj.get("status") or {}
        now = api.stamps.now()
        before = by_type(old.get("conditions") or ())

        def condition(type_: str, ok: bool, reason: str, message: str) -> Object:
            status = "True" if ok else "False"
            known = before.pop(type_, None)
            since = transition((known["status"], known["lastTransitionTime"]) if known else None, status, now)
            return entry(type_, status, since, reason=reason, message=message)

        conditions = [
            condition(
                "NamesAccepted",
                conflict is None,
                "NoConflicts" if conflict is None else "NamesConflict",
                conflict or "no conflicts found",
            ),
            condition(
                "Established",
                conflict is None,
                "InitialNamesAccepted" if conflict is None else "NotAccepted",
                "the initial names have been accepted" if conflict is None else "not all names are accepted",
            ),
            *before.values(),
        ]
        stored = [version["name"] for version in spec["versions"] if version.get("storage")]
        versions = list(dict.fromkeys([*(old.get("storedVersions") or ()), *stored]))
        status = {
            "conditions": conditions,
            "acceptedNames": spec["names"] if conflict is None else {"plural": "", "kind": ""},
            "storedVersions": versions,
        }
        if status != old:
            table = api.store.table(TABLE)
            fresh = record.decode()
            fresh["status"] = status
            api.store.put(table, fresh)


def _deprecation(spec: Object, version: Object) -> str:
    if not version.get("deprecated"):
        return ""
    default = f"{spec['group']}/{version['name']} {spec['names']['kind']} is deprecated"
    return str(version.get("deprecationWarning") or default)


def kind_of(obj: Object) -> Kind:
    """The kind that a definition describes."""
    spec = obj["spec"]
    names = spec["names"]
    served = sorted(
        (version for version in spec["versions"] if version.get("served")),
        key=lambda version: version_order(version["name"]),
    )
    storage = next(version["name"] for version in spec["versions"] if version.get("storage"))
    subresources = [version.get("subresources") or {} for version in served]
    scale = next((subresource["scale"] for subresource in subresources if subresource.get("scale")), None)
    versions = {
        version["name"]: CustomVersion(
            (version.get("schema") or {}).get("openAPIV3Schema") or {},
            tuple(
                msgspec.convert(column, PrinterColumn)
                for column in version.get("additionalPrinterColumns") or ()
            ),
            preserve=bool(spec.get("preserveUnknownFields")),
            status="status" in (version.get("subresources") or {}),
            deprecation=_deprecation(spec, version),
        )
        for version in spec["versions"]
    }
    return Kind(
        group=spec["group"],
        versions=tuple(version["name"] for version in served),
        kind=names["kind"],
        plural=names["plural"],
        singular=names.get("singular") or names["kind"].lower(),
        list_kind=names.get("listKind") or "",
        namespaced=spec["scope"] == "Namespaced",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        status=any("status" in subresource for subresource in subresources),
        scale=ScalePaths(
            _path(scale["specReplicasPath"]),
            _path(scale["statusReplicasPath"]),
            _path(scale["labelSelectorPath"]) if scale.get("labelSelectorPath") else None,
        )
        if scale
        else None,
        generation=True,
        storage=storage,
        custom=versions,
        selectable_fields=frozenset(
            field["jsonPath"].removeprefix(".")
            for version in served
            for field in version.get("selectableFields") or ()
        ),
    )


def _path(text: str) -> tuple[str, ...]:
    return tuple(part for part in text.split(".") if part)
