"""Fields of an object that nobody knows, since they are misspelt.

unknown_fields(value, schema)       those that its schema does not have, each with its path and what was meant
paths_of(name, value, schema)       where a field of a name could stand
manifest_problems(manifest)         the first of a whole manifest, of a kind that we bring or of a PodTemplate
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any, Protocol, TypeAlias

from tidewright.kube import yamltext
from tidewright.kube.nearest import nearest
from tidewright.kube.podapi import schema as podapi

Schema: TypeAlias = Mapping[str, Any]
"""Of OpenAPI, as a CustomResourceDefinition has it."""

_TEMPLATES: dict[str, dict[str, str]] = {
    "PodTemplate": {"apiVersion": "s", "kind": "s", "metadata": "ObjectMeta", "template": "PodTemplateSpec"},
    "PodTemplateSpec": {"metadata": "ObjectMeta", "spec": "PodSpec"},
}
"""What is around a pod in a template, as `podapi` has the rest."""


@dataclass(frozen=True)
class UnknownField:
    """A field that is not of the schema.

    Attributes:
        path: from where the look began, as in `metrics[0].external.highWatermak`.
        valid: the fields that there are in its place.
    """

    path: str
    valid: tuple[str, ...]

    def __str__(self) -> str:
        where, _, name = self.path.rpartition(".")
        inside = f"{where} has no field {name!r}" if where else f"there is no field {name!r}"
        return f"{inside}; {nearest(name, self.valid)}"


class _Type(Protocol):
    """What a value may be made of."""

    def fields(self) -> Mapping[str, _Type] | None:
        """Those of an object; None where any are allowed."""

    def items(self) -> _Type | None:
        """Of a list or a map; None where anything is allowed."""


@dataclass(frozen=True)
class _OpenApi:
    schema: Schema

    def fields(self) -> Mapping[str, _Type] | None:
        properties = self.schema.get("properties")
        if properties is None or self.schema.get("x-kubernetes-preserve-unknown-fields"):
            return None
        return {name: _OpenApi(of) for name, of in properties.items()}

    def items(self) -> _Type | None:
        of = self.schema.get("items", self.schema.get("additionalProperties"))
        return _OpenApi(of) if isinstance(of, Mapping) else None


@dataclass(frozen=True)
class _PodApi:
    """A type of the pod's API, by its code."""

    code: str

    def fields(self) -> Mapping[str, _Type] | None:
        known = _TEMPLATES.get(self.code) or podapi.types().get(self.code)
        return None if known is None else {name: _PodApi(code) for name, code in known.items()}

    def items(self) -> _Type | None:
        return _PodApi(self.code[1:-1]) if self.code[0] in "[{" else None


def unknown_fields(value: Any, schema: Schema, path: str = "") -> list[UnknownField]:
    """The fields of a value that a schema does not have, in the order of the value; `path` is of the value itself."""
    return list(_unknown(value, _OpenApi(schema), path))


def _unknown(value: Any, of: _Type, path: str) -> Iterator[UnknownField]:
    if isinstance(value, list):
        if (item := of.items()) is not None:
            for n, entry in enumerate(value):
                yield from _unknown(entry, item, f"{path}[{n}]")
        return
    if not isinstance(value, Mapping):
        return
    fields, rest = of.fields(), of.items()
    for name, member in value.items():
        inner = f"{path}.{name}" if path else str(name)
        known = rest if fields is None else fields.get(name)
        if known is not None:
            yield from _unknown(member, known, inner)
        elif fields is not None:
            yield UnknownField(inner, tuple(fields))


def paths_of(name: str, value: Any, schema: Schema, path: str = "") -> list[str]:
    """Where in a value a field of this name is, or could be: inside of what is there. For `highWatermark` alone."""
    found: list[str] = []
    if isinstance(value, list):
        for n, entry in enumerate(value):
            found += paths_of(name, entry, schema.get("items") or {}, f"{path}[{n}]")
    elif isinstance(value, Mapping):
        for field, of in (schema.get("properties") or {}).items():
            inner = f"{path}.{field}" if path else field
            found += [inner] if field == name else []
            found += paths_of(name, value.get(field), of, inner)
    return found


def names_of(schema: Schema) -> set[str]:
    """The names of all fields of a schema, at whatever depth."""
    properties = schema.get("properties") or {}
    inside = [*properties.values(), *([schema["items"]] if isinstance(schema.get("items"), Mapping) else [])]
    return set(properties).union(*(names_of(of) for of in inside))


@lru_cache(maxsize=1)
def _brought() -> dict[tuple[str, str], Schema]:
    """API version and kind to the schema, of the kinds that we bring."""
    schemas: dict[tuple[str, str], Schema] = {}
    for file in (files("tidewright.kube") / "crds").iterdir():
        if not file.name.endswith(".yaml"):
            continue
        for manifest in yamltext.many(file.read_text(encoding="utf-8"), file.name, "a definition"):
            if manifest["kind"] == "CustomResourceDefinition":
                spec = manifest["spec"]
                for version in spec["versions"]:
                    key = f"{spec['group']}/{version['name']}", spec["names"]["kind"]
                    schemas[key] = version["schema"]["openAPIV3Schema"]
    return schemas


def schema_of(api_version: str, kind: str) -> Schema:
    """The schema of a kind that we bring, with its version; empty for any other."""
    return _brought().get((api_version, kind), {})


def manifest_problems(manifest: Mapping[str, Any]) -> list[str]:
    """What in a manifest no API server would know, in words; nothing for kinds that are not known here."""
    schema = schema_of(str(manifest.get("apiVersion")), str(manifest.get("kind")))
    if schema:
        metadata = _unknown(manifest.get("metadata"), _PodApi("ObjectMeta"), "metadata")
        return [*map(str, unknown_fields(manifest, schema)), *map(str, metadata)]
    if manifest.get("kind") == "PodTemplate":
        return [str(unknown) for unknown in _unknown(manifest, _PodApi("PodTemplate"), "")]
    return []
