"""What the API server checks of a CustomResourceDefinition: names, versions, columns; schemas are `schema_rules`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tidewright.kube.podapi import names
from tidewright.kube.podapi.fielderrors import FieldError, required
from tidewright.sim.api.crd.schema_rules import check_schema

Object = dict[str, Any]
_SCHEMA = "openAPIV3Schema"


def check(obj: Object) -> list[FieldError]:
    """What is wrong with a definition."""
    return list(_check(obj))


def check_update(new: Object, old: Object) -> list[FieldError]:
    """What of an established definition may not be changed."""
    causes = []
    for path in (("group",), ("scope",), ("names", "plural"), ("names", "kind")):
        after, before = _at(new.get("spec"), path), _at(old.get("spec"), path)
        if after != before:
            causes.append(
                FieldError(
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
                FieldError(
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


def _check(obj: Object) -> Iterator[FieldError]:  # noqa: C901  # one rule after the other
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        yield required("spec")
        return
    group, plural_kind = spec.get("group") or "", spec.get("names") or {}
    plural = plural_kind.get("plural") or ""
    name = obj["metadata"].get("name", "")
    if plural and group and name != f"{plural}.{group}":
        yield FieldError(
            "metadata.name", f'Invalid value: "{name}": must be spec.names.plural+"."+spec.group'
        )
    if not group:
        yield required("spec.group")
    elif names.subdomain(group):
        yield from (
            FieldError("spec.group", f'Invalid value: "{group}": {message}')
            for message in names.subdomain(group)
        )
    else:
        yield from _check_approval(obj, group)
    if group and "." not in group:
        yield FieldError("spec.group", f'Invalid value: "{group}": should be a domain with at least one dot')
    scope = spec.get("scope")
    if not scope:
        yield required("spec.scope")
    elif scope not in {"Cluster", "Namespaced"}:
        supported = '"Cluster", "Namespaced"'
        yield FieldError(
            "spec.scope",
            f'Unsupported value: "{scope}": supported values: {supported}',
            "FieldValueNotSupported",
        )
    yield from _check_names(plural_kind)
    if spec.get("preserveUnknownFields"):
        message = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        yield FieldError("spec.preserveUnknownFields", f"Invalid value: true: {message}")
    versions = spec.get("versions") or []
    if not versions:
        yield required("spec.versions")
    stored = [version for version in versions if version.get("storage")]
    if len(stored) != 1:
        yield FieldError(
            "spec.versions", "Invalid value: must have exactly one version marked as storage version"
        )
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}]"
        name = version.get("name") or ""
        if not name:
            yield required(f"{path}.name")
        for message in names.dns1035(name) if name else ():
            yield FieldError(f"{path}.name", f'Invalid value: "{name}": {message}')
        if [other.get("name") for other in versions].index(version.get("name")) < index:
            yield FieldError(f"{path}.name", f'Invalid value: "{name}": must be unique')
        if not _alike(versions, "additionalPrinterColumns"):
            yield from _check_columns(version, path)
        schema = (version.get("schema") or {}).get(_SCHEMA)
        if not isinstance(schema, dict):
            yield required(f"{path}.schema.{_SCHEMA}", "schemas are required")
            continue
        subresources = version.get("subresources") or {}
        if not _alike(versions, "schema"):
            yield from check_schema(schema, f"{path}.schema.{_SCHEMA}", status="status" in subresources)
        elif index == 0:
            yield from check_schema(schema, f"spec.validation.{_SCHEMA}", status="status" in subresources)
        if not _alike(versions, "subresources"):
            yield from _check_subresources(subresources, f"{path}.subresources")
        elif index == 0:
            yield from _check_subresources(subresources, "spec.subresources")
    if versions and _alike(versions, "additionalPrinterColumns"):
        yield from _check_columns(versions[0], "spec")


def _alike(versions: list[Object], part: str) -> bool:
    """What all versions have alike the API server speaks of as of the definition's own."""
    return all(version.get(part) == versions[0].get(part) for version in versions)


_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")


def _check_columns(version: Object, path: str) -> Iterator[FieldError]:
    """Printer columns and selectable fields."""
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        at = f"{path}.additionalPrinterColumns[{index}]"
        if not column.get("name"):
            yield required(f"{at}.name")
        kind, form, json_path = column.get("type"), column.get("format"), column.get("jsonPath")
        types = f"must be one of {','.join(_COLUMN_TYPES)}"
        if not kind:
            yield required(f"{at}.type", types)
        elif kind not in _COLUMN_TYPES:
            yield FieldError(f"{at}.type", f'Invalid value: "{kind}": {types}')
        if form and form not in _COLUMN_FORMATS:
            message = f"must be one of {','.join(_COLUMN_FORMATS)}"
            yield FieldError(f"{at}.format", f'Invalid value: "{form}": {message}')
        if not json_path:
            yield required(f"{at}.JSONPath")
        elif not json_path.startswith("."):
            message = "must be a simple json path starting with ."
            yield FieldError(f"{at}.JSONPath", f'Invalid value: "{json_path}": {message}')
    for index, selectable in enumerate(version.get("selectableFields") or ()):
        if not selectable.get("jsonPath"):
            yield required(f"{path}.selectableFields[{index}].jsonPath")


_APPROVED = "api-approved.kubernetes.io"
_WHY_APPROVED = "see https://github.com/kubernetes/enhancements/pull/1111"


def _check_approval(obj: Object, group: str) -> Iterator[FieldError]:
    """Groups of the Kubernetes project itself are not for everybody."""
    if not any(group == owner or group.endswith(f".{owner}") for owner in ("k8s.io", "kubernetes.io")):
        return
    field = f"metadata.annotations[{_APPROVED}]"
    said = (obj["metadata"].get("annotations") or {}).get(_APPROVED)
    message = f'protected groups must have approval annotation "{_APPROVED}"'
    if not said:
        yield required(field, f"{message}, {_WHY_APPROVED}")
    elif not said.startswith("unapproved") and "://" not in said:
        message += f' with either a URL or a reason starting with "unapproved", {_WHY_APPROVED}'
        yield FieldError(field, f'Invalid value: "{said}": {message}')


def _check_names(given: Object) -> Iterator[FieldError]:
    for field in ("plural", "singular", "kind", "listKind"):
        value = given.get(field)
        if not value:
            yield required(f"spec.names.{field}")
        else:
            mixed = "may have mixed case, but should otherwise match: " if "ind" in field else ""
            for message in names.dns1035(value.lower() if mixed else value):
                yield FieldError(f"spec.names.{field}", f'Invalid value: "{value}": {mixed}{message}')
    for index, short in enumerate(given.get("shortNames") or ()):
        for message in names.dns1035(short):
            yield FieldError(f"spec.names.shortNames[{index}]", f'Invalid value: "{short}": {message}')
    if given.get("kind") and given.get("kind") == given.get("listKind"):
        value = given["kind"]
        yield FieldError(
            "spec.names.listKind", f'Invalid value: "{value}": kind and listKind may not be the same'
        )


def _check_subresources(given: Object, path: str) -> Iterator[FieldError]:
    scale = given.get("scale")
    if not isinstance(scale, dict):
        return
    for field, prefix in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        value = scale.get(field) or ""
        if not value:
            yield required(f"{path}.scale.{field}")
        elif not value.startswith(prefix):
            message = f"should be a json path under {prefix[:-1]}"
            yield FieldError(f"{path}.scale.{field}", f'Invalid value: "{value}": {message}')
