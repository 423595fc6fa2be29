"""Schemas of the built-in kinds: their fields, types and descriptions, from the client library's models.

The generated models of kubernetes_asyncio carry what the API's own OpenAPI document says of every field.
They are read once per kind, when it is first needed, into `Model`s; from these come

    unknown and ill-typed fields of a request  (`Checker`: a msgspec decoder says "fine" in microseconds, and
                                               only what it refuses is walked to find out what is wrong)
    the OpenAPI documents                      (`definition`)

No object ever becomes an instance of a model class.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec

from tidewright.kube import strategicmerge
from tidewright.kube.mergekeys import bare, strategy
from tidewright.sim.api.http.request import json_type

Object = dict[str, Any]

# maps and fields of quantities, which may be written as numbers though their type is string
QUANTITIES = frozenset(
    {
        "allocatable",
        "allocatedResources",
        "averageValue",
        "capacity",
        "default",
        "defaultRequest",
        "divisor",
        "hard",
        "limits",
        "max",
        "maxLimitRequestRatio",
        "maximumVolumeSize",
        "min",
        "overhead",
        "podFixed",
        "requests",
        "sizeLimit",
        "used",
    }
)
_PREFIXES = {
    "": "Core",
    "events.k8s.io": "Events",
    "discovery.k8s.io": "Discovery",
    "resource.k8s.io": "Resource",
}
_GO_TYPES = {"str": "string", "int": "int32", "bool": "bool", "float": "float64"}
_LIST = re.compile(r"list\[(.*)\]$")
_MAP = re.compile(r"dict\(str, (.*)\)$")


class Field(msgspec.Struct, frozen=True):
    """One field of a model: its JSON name, the type in the generator's notation, what it is for."""

    name: str
    type: str
    required: bool
    description: str


class Model(msgspec.Struct, frozen=True):
    """One type of the API."""

    name: str
    description: str
    fields: dict[str, Field]


class Problems(msgspec.Struct):
    """What is wrong with an object: fields nobody knows, and the first field of a wrong type.

    `unknown` are their paths, `places` the objects that have them, with the key.
    """

    unknown: list[str] = []
    places: list[tuple[Object, str]] = []
    mistyped: str = ""

    def prune(self) -> None:
        """Remove the fields that nobody knows from the objects that have them."""
        for owner, key in self.places:
            owner.pop(key, None)


@cache
def model_name(group: str, version: str, kind: str) -> str | None:
    """The name of the model of a kind; None when there is none."""
    models = _models()
    prefix = version[0].upper() + version[1:]
    for name in (f"{prefix}{kind}", f"{_PREFIXES.get(group, '')}{prefix}{kind}"):
        if hasattr(models, name):
            return name
    return None


def _models() -> Any:
    import kubernetes_asyncio.client.models as models  # takes a third of a second: only when needed

    return models


@cache
def model(name: str) -> Model | None:
    """A model by name; None for the primitive types."""
    model_class = getattr(_models(), name, None)
    if model_class is None or not hasattr(model_class, "openapi_types"):
        return None
    fields = {}
    for attribute, type_ in model_class.openapi_types.items():
        json_name = model_class.attribute_map[attribute]
        fields[json_name] = Field(
            json_name, type_, _required(model_class, attribute), _description(model_class, attribute)
        )
    text = inspect.getdoc(model_class) or ""
    return Model(name, "" if text.startswith("NOTE: This class") else text, fields)


def _required(owner: Any, attribute: str) -> bool:
    source = inspect.getsource(getattr(owner, attribute).fset)
    return "must not be `None`" in source


def _description(owner: Any, attribute: str) -> str:
    text = inspect.getdoc(getattr(owner, attribute).fget) or ""
    lines = [line.removesuffix("# noqa: E501").strip() for line in text.splitlines()]
    body = [line for line in lines[1:] if line and not line.startswith((":return:", ":rtype:"))]
    return " ".join(body)


# -- checking ------------------------------------------------------------------------------------------


# types within themselves, which the decoder only looks at from outside: these are always walked
_SCHEMA = "V1JSONSchemaProps"
_SCHEMA_IN_SCHEMA = frozenset({"items", "additionalItems", "additionalProperties"})
_RECURSIVE = frozenset({"V1CustomResourceDefinition"})


@cache
def _decoder(name: str) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_struct(name, ()))


@cache
def _struct(name: str, above: tuple[str, ...]) -> Any:
    type_model = model(name)
    if type_model is None:
        return Any
    if name in above:
        return dict[str, Any]  # a type within itself: whatever it holds
    fields: list[tuple[str, Any, Any]] = []
    renames = {}
    for index, field in enumerate(type_model.fields.values()):
        attribute = f"f{index}"
        renames[attribute] = field.name
        fields.append((attribute, _type(field.type, field.name, (*above, name)) | None, None))
    return msgspec.defstruct(name, fields, rename=renames, forbid_unknown_fields=True, gc=False)


def _type(text: str, field: str, above: tuple[str, ...]) -> Any:
    if text in {"str", "datetime"}:
        return str | int | float if field in QUANTITIES else str
    if text in {"int", "bool"}:
        return int if text == "int" else bool
    if text == "float":
        return float
    if text == "object":
        return str | int | float | bool | dict[str, Any] | list[Any]
    inner = _LIST.match(text)
    if inner is not None:
        return list[_type(inner[1], field, above) | None]  # type: ignore[misc]  # built at run time
    inner = _MAP.match(text)
    if inner is not None:
        return dict[str, _type(inner[1], field, above) | None]  # type: ignore[misc]  # built at run time
    return _struct(text, above)


def check(name: str, obj: Object, body: bytes = b"") -> Problems | None:
    """What is wrong with the fields of an object of this model; None when nothing is.

    `body` is the JSON that the object was decoded from, where it is at hand.
    """
    if name not in _RECURSIVE:
        try:
            _decoder(name).decode(body or msgspec.json.encode(obj))
        except msgspec.ValidationError:
            pass
        else:
            return None
    problems = Problems()
    _walk(name, obj, "", problems, name)
    return problems if problems.unknown or problems.mistyped else None


def _walk(type_: str, value: Any, path: str, problems: Problems, owner: str) -> None:
    """Find what is unknown or of the wrong type below a value."""
    if value is None:
        return
    inner = _LIST.match(type_)
    if inner is not None:
        if not isinstance(value, list):
            _mistyped(problems, value, path, owner, f"[]{_go(inner[1])}")
            return
        for index, item in enumerate(value):
            _walk(inner[1], item, f"{path}[{index}]", problems, owner)
        return
    inner = _MAP.match(type_)
    if inner is not None:
        if not isinstance(value, dict):
            _mistyped(problems, value, path, owner, f"map[string]{_go(inner[1])}")
            return
        for key, item in value.items():
            below = path if inner[1] in _GO_TYPES else f"{path}.{key}"  # messages leave the keys of maps out
            _walk(inner[1], item, below, problems, owner)
        return
    type_model = model(type_)
    if type_model is None:
        _walk_primitive(type_, value, path, problems, owner)
        return
    if not isinstance(value, dict):
        _mistyped(problems, value, path, owner, _go(type_))
        return
    for key, item in value.items():
        below = f"{path}.{key}" if path else key
        field = type_model.fields.get(key)
        if field is None:
            problems.unknown.append(below)
            problems.places.append((value, key))
        else:
            field_type = field.type
            if type_ == _SCHEMA and key in _SCHEMA_IN_SCHEMA and isinstance(item, dict):
                field_type = _SCHEMA  # the model says only that it is a schema or something else
            _walk(field_type, item, below, problems, _go(type_).rpartition(".")[2])


def _walk_primitive(type_: str, value: Any, path: str, problems: Problems, owner: str) -> None:
    last = path.replace("[", ".").split(".")
    quantity = any(part in QUANTITIES for part in last)
    fits = {
        "str": isinstance(value, str) or (quantity and isinstance(value, int | float)),
        "datetime": isinstance(value, str),
        "int": isinstance(value, int) and not isinstance(value, bool),
        "float": isinstance(value, int | float) and not isinstance(value, bool),
        "bool": isinstance(value, bool),
    }.get(type_, True)
    if not fits:
        _mistyped(problems, value, path, owner, _go(type_))


def _go(type_: str) -> str:
    if type_ in _GO_TYPES:
        return _GO_TYPES[type_]
    match = re.match(r"(?:Core|Events|Discovery|Rbac|Admissionregistration)?V(\d\w*?)([A-Z]\w*)$", type_)
    return f"v{match[1]}.{match[2]}" if match else type_


def _mistyped(problems: Problems, value: Any, path: str, owner: str, expected: str) -> None:
    if not problems.mistyped:
        clean = re.sub(r"\[\d+\]", "", path)
        struct = _go(owner).rpartition(".")[2]
        number = f"number {value}" if isinstance(value, float) and expected == "int32" else json_type(value)
        problems.mistyped = (
            f"json: cannot unmarshal {number} into Go struct field {struct}.{clean} of type {expected}"
        )


# times that are written even when there is none
_KEPT_NULLS = frozenset({"lastProbeTime", "lastTransitionTime"})
_ZEROS: dict[str, Any] = {"str": "", "datetime": None, "int": 0, "float": 0.0, "bool": False}


def settle_nulls(type_: str, value: Any) -> None:
    """Make of each null below a value what a typed object has of it: no field, or an empty element."""
    inner = _LIST.match(type_) or _MAP.match(type_)
    if isinstance(value, dict):
        type_model = model(type_) if inner is None else None
        for key in list(value):
            if inner is not None:
                value[key] = _settled(inner[1], value[key], key)
            elif value[key] is None:
                if key not in _KEPT_NULLS:
                    del value[key]
            elif type_model is not None and key in type_model.fields:
                settle_nulls(type_model.fields[key].type, value[key])
    elif isinstance(value, list) and inner is not None:
        value[:] = [_settled(inner[1], item, "") for item in value]


def _settled(type_: str, item: Any, key: str) -> Any:
    if item is None:
        if type_ == "str" and key in _RESOURCES:
            return "0"
        return _ZEROS[type_] if type_ in _ZEROS else {} if model(type_) is not None else None
    settle_nulls(type_, item)
    return item


_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage", "pods", "storage"})


# -- OpenAPI -------------------------------------------------------------------------------------------


def dotted(name: str) -> str:
    """The name of a model in OpenAPI documents; its last part is the name of the type."""
    match = re.match(r"([A-Z][a-z]+)??V(\d+(?:alpha\d+|beta\d+)?)([A-Z]\w*)$", name)
    if match is None:
        return f"io.k8s.api.{name}"
    group = f"{match[1].lower()}." if match[1] else ""
    return f"io.k8s.api.{group}v{match[2]}.{match[3]}"


def definition(name: str, reference: str) -> Object:
    """The OpenAPI schema of a model; `reference` is the prefix of references to other models."""
    type_model = model(name)
    if type_model is None:
        return {}
    schema: Object = {"type": "object", "properties": {}}
    if type_model.description:
        schema["description"] = type_model.description
    required = [field.name for field in type_model.fields.values() if field.required]
    if required:
        schema["required"] = required
    for field in type_model.fields.values():
        shape = _schema_of(field.type, reference)
        if "$ref" in shape:
            shape = {"allOf": [shape], "default": {}}
        shape |= _patch_extensions(name, field)
        schema["properties"][field.name] = {"description": field.description, **shape}
    return schema


def _patch_extensions(owner: str, field: Field) -> Object:
    """How a strategic merge patch treats a field; kubectl makes its patches by this."""
    key, retain_keys, replaced = strategy(bare(owner), field.name)
    strategies = [
        name
        for name, said in (("merge", key is not None), ("retainKeys", retain_keys), ("replace", replaced))
        if said
    ]
    extensions: Object = {"x-kubernetes-patch-merge-key": key} if key else {}
    return extensions | ({"x-kubernetes-patch-strategy": ",".join(strategies)} if strategies else {})


@cache
def merging(owner: str, name: str) -> strategicmerge.Field:
    """A field of a type as a strategic merge treats it; where nothing is known of it, as a plain value."""
    if (values := _MAP.match(owner)) is not None:
        return strategicmerge.Field(values[1])
    found = model(owner)
    field = found.fields.get(name) if found is not None else None
    if field is None:
        return strategicmerge.Field("")
    elements = _LIST.match(field.type)
    return strategicmerge.Field(elements[1] if elements else field.type, strategy(bare(owner), name))


def _schema_of(type_: str, reference: str) -> Object:
    inner = _LIST.match(type_)
    if inner is not None:
        return {"type": "array", "items": _schema_of(inner[1], reference)}
    inner = _MAP.match(type_)
    if inner is not None:
        return {"type": "object", "additionalProperties": _schema_of(inner[1], reference)}
    primitive = _PRIMITIVE_SCHEMAS.get(type_)
    if primitive is not None:
        return dict(primitive)
    return {"$ref": f"{reference}{dotted(type_)}"} if model(type_) is not None else {}


_PRIMITIVE_SCHEMAS: dict[str, Object] = {
    "str": {"type": "string"},
    "datetime": {"type": "string", "format": "date-time"},
    "int": {"type": "integer", "format": "int32"},
    "float": {"type": "number", "format": "double"},
    "bool": {"type": "boolean"},
    "object": {"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"},
}


def references(name: str) -> Iterator[str]:
    """The names of the models that a model's fields refer to."""
    type_model = model(name)
    if type_model is None:
        return
    for field in type_model.fields.values():
        type_ = field.type
        while (inner := _LIST.match(type_) or _MAP.match(type_)) is not None:
            type_ = inner[1]
        if model(type_) is not None:
            yield type_
