"""What the API server checks of a CustomResourceDefinition: names, versions, structural schemas, rules."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tidewright.sim.api import names
from tidewright.sim.api.cel import CelError, compile_rule
from tidewright.sim.api.errors import Cause

Object = dict[str, Any]
_SCHEMA = "openAPIV3Schema"
_TYPES = frozenset({"object", "array", "string", "boolean", "integer", "number"})


def check(obj: Object) -> list[Cause]:
    """What is wrong with a definition."""
    return list(_check(obj))


def check_update(new: Object, old: Object) -> list[Cause]:
    """What of an established definition may not be changed."""
    causes = []
    for path in (("group",), ("scope",), ("names", "plural"), ("names", "kind")):
        after, before = _at(new.get("spec"), path), _at(old.get("spec"), path)
        if after != before:
            causes.append(
                Cause(
                    f"spec.{'.'.join(path)}",
                    f'Invalid value: "{after}": field is immutable',
                    "FieldValueInvalid",
                )
            )
    stored = (old.get("status") or {}).get("storedVersions") or ()
    there = {version.get("name") for version in (new.get("spec") or {}).get("versions") or ()}
    for index, version in enumerate(stored):
        if version not in there:
            causes.append(
                Cause(
                    f"status.storedVersions[{index}]",
                    f'Invalid value: "{version}": missing from spec.versions; it was stored, and has to be kept '
                    "until storedVersions no longer has it",
                )
            )
    return causes


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _required(field: str, message: str = "") -> Cause:
    return Cause(field, "Required value" + (f": {message}" if message else ""), "FieldValueRequired")


def _check(obj: Object) -> Iterator[Cause]:
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        yield _required("spec")
        return
    group, plural_kind = spec.get("group") or "", spec.get("names") or {}
    plural = plural_kind.get("plural") or ""
    name = obj["metadata"].get("name", "")
    if plural and group and name != f"{plural}.{group}":
        yield Cause("metadata.name", f'Invalid value: "{name}": must be spec.names.plural+"."+spec.group')
    if not group:
        yield _required("spec.group")
    elif names.subdomain(group):
        yield from (
            Cause("spec.group", f'Invalid value: "{group}": {message}') for message in names.subdomain(group)
        )
    elif "." not in group:
        yield Cause("spec.group", f'Invalid value: "{group}": should be a domain with at least one dot')
    scope = spec.get("scope")
    if not scope:
        yield _required("spec.scope")
    elif scope not in {"Cluster", "Namespaced"}:
        supported = '"Cluster", "Namespaced"'
        yield Cause(
            "spec.scope",
            f'Unsupported value: "{scope}": supported values: {supported}',
            "FieldValueNotSupported",
        )
    yield from _check_names(plural_kind)
    versions = spec.get("versions") or []
    if not versions:
        yield _required("spec.versions")
    stored = [version for version in versions if version.get("storage")]
    if len(stored) != 1:
        yield Cause("spec.versions", "Invalid value: must have exactly one version marked as storage version")
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}]"
        name = version.get("name") or ""
        if not name:
            yield _required(f"{path}.name")
        for message in names.dns1035(name) if name else ():
            yield Cause(f"{path}.name", f'Invalid value: "{name}": {message}')
        if [other.get("name") for other in versions].index(version.get("name")) < index:
            yield Cause(f"{path}.name", f'Invalid value: "{name}": must be unique')
        yield from _check_columns(version, path)
        schema = (version.get("schema") or {}).get(_SCHEMA)
        if not isinstance(schema, dict):
            yield _required(f"{path}.schema.{_SCHEMA}", "schemas are required")
            continue
        yield from _check_schema(schema, f"{path}.schema.{_SCHEMA}", root=True)
        yield from _check_subresources(version.get("subresources") or {}, f"{path}.subresources")


_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")


def _check_columns(version: Object, path: str) -> Iterator[Cause]:
    """Printer columns and selectable fields."""
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        at = f"{path}.additionalPrinterColumns[{index}]"
        for field in ("name", "type", "jsonPath"):
            if not column.get(field):
                yield _required(f"{at}.{field}")
        kind = column.get("type")
        if kind and kind not in _COLUMN_TYPES:
            supported = ", ".join(f'"{name}"' for name in _COLUMN_TYPES)
            message = f'Unsupported value: "{kind}": supported values: {supported}'
            yield Cause(f"{at}.type", message, "FieldValueNotSupported")
    for index, selectable in enumerate(version.get("selectableFields") or ()):
        if not selectable.get("jsonPath"):
            yield _required(f"{path}.selectableFields[{index}].jsonPath")


def _check_names(given: Object) -> Iterator[Cause]:
    for field in ("plural", "singular", "kind", "listKind"):
        value = given.get(field)
        if not value:
            yield _required(f"spec.names.{field}")
        else:
            for message in names.dns1035(value.lower()):
                yield Cause(f"spec.names.{field}", f'Invalid value: "{value}": {message}')
    for index, short in enumerate(given.get("shortNames") or ()):
        for message in names.dns1035(short):
            yield Cause(f"spec.names.shortNames[{index}]", f'Invalid value: "{short}": {message}')
    if given.get("kind") and given.get("kind") == given.get("listKind"):
        value = given["kind"]
        yield Cause("spec.names.listKind", f'Invalid value: "{value}": kind and listKind may not be the same')


def _check_subresources(given: Object, path: str) -> Iterator[Cause]:
    scale = given.get("scale")
    if not isinstance(scale, dict):
        return
    for field, prefix in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        value = scale.get(field) or ""
        if not value:
            yield _required(f"{path}.scale.{field}")
        elif not value.startswith(prefix):
            message = f"should be a json path under {prefix[:-1]}"
            yield Cause(f"{path}.scale.{field}", f'Invalid value: "{value}": {message}')


def _check_schema(schema: Object, path: str, *, root: bool = False) -> Iterator[Cause]:
    """Structural: every place has a type, or says why it has none."""
    kind = schema.get("type")
    free = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    if not kind and not free:
        where = "at the root" if root else "for specified object fields"
        if path.endswith("items"):
            where = "for specified array items"
        yield _required(f"{path}.type", f"must not be empty {where}")
    elif kind and kind not in _TYPES:
        supported = ", ".join(f'"{name}"' for name in sorted(_TYPES))
        yield Cause(
            f"{path}.type",
            f'Unsupported value: "{kind}": supported values: {supported}',
            "FieldValueNotSupported",
        )
    if root and kind and kind != "object":
        yield Cause(f"{path}.type", f'Invalid value: "{kind}": must be object at the root')
    pattern = schema.get("pattern")
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            yield Cause(
                f"{path}.pattern", f'Invalid value: "{pattern}": must be a valid regular expression: {error}'
            )
    if kind == "array" and not isinstance(schema.get("items"), dict):
        yield _required(f"{path}.items", "must be specified")
    if schema.get("properties") and isinstance(schema.get("additionalProperties"), dict):
        yield Cause(
            f"{path}.additionalProperties",
            "Forbidden: additionalProperties and properties are mutual exclusive",
            "FieldValueForbidden",
        )
    if schema.get("uniqueItems"):
        yield Cause(
            f"{path}.uniqueItems",
            "Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
            "FieldValueForbidden",
        )
    if schema.get("x-kubernetes-list-type") == "map" and not schema.get("x-kubernetes-list-map-keys"):
        yield _required(
            f"{path}.x-kubernetes-list-map-keys", "must not be empty if x-kubernetes-list-type is map"
        )
    for index, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        yield from _check_rule(rule, f"{path}.x-kubernetes-validations[{index}]")
    for name, below in (schema.get("properties") or {}).items():
        if root and name in {"metadata", "apiVersion", "kind"}:
            continue
        if isinstance(below, dict):
            yield from _check_schema(below, f"{path}.properties[{name}]")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from _check_schema(schema[key], f"{path}.{key}")


def _check_rule(rule: Object, path: str) -> Iterator[Cause]:
    text = rule.get("rule") or ""
    if not text.strip():
        yield _required(f"{path}.rule", "rule is not specified")
        return
    for field in ("rule", "messageExpression"):
        if rule.get(field):
            try:
                compile_rule(rule[field], optional_old=rule.get("optionalOldSelf") is True)
            except CelError as error:
                yield Cause(f"{path}.{field}", f'Invalid value: "{rule[field]}": {error}')
    if "message" in rule and "\n" in rule["message"]:
        yield Cause(
            f"{path}.message", f'Invalid value: "{rule["message"]}": message must not contain line breaks'
        )
