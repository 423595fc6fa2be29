"""Structural schemas: prune, default and validate custom resources, with the API server's messages.

A schema is the `openAPIV3Schema` of a definition, as JSON. `prune` finds (and removes) fields that it does not
specify, `default` fills in its defaults, `validate` returns what is wrong. Its CEL rules are asked by `rules.py`.
What an update leaves as it was is not held against it: both get the old value beside the new one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import msgspec

from tidewright.kube.podapi.fielderrors import FieldError, shown
from tidewright.sim.api.crd.formats import has_format

Object = dict[str, Any]
_OBJECT_META = frozenset({"apiVersion", "kind", "metadata"})


# -- pruning and defaulting ----------------------------------------------------------------------------


def prune(schema: Object, value: Any, path: str, *, embedded: bool = False) -> list[str]:
    """Remove what the schema does not specify; the paths of what was removed."""
    removed: list[str] = []
    if isinstance(value, dict):
        preserve = schema.get("x-kubernetes-preserve-unknown-fields") is True
        properties = schema.get("properties") or {}
        additional = schema.get("additionalProperties")
        embedded = embedded or schema.get("x-kubernetes-embedded-resource") is True
        for key in list(value):
            below = f"{path}.{key}" if path else key
            if embedded and key in _OBJECT_META:
                if key == "metadata" and isinstance(value[key], dict):
                    removed += _prune_metadata(value[key], below)
                continue
            if key in properties:
                removed += prune(properties[key], value[key], below)
            elif isinstance(additional, dict):
                removed += prune(additional, value[key], below)
            elif not preserve and additional is not True:
                del value[key]
                removed.append(below)
    elif isinstance(value, list):
        items = schema.get("items")
        if isinstance(items, dict):
            for index, item in enumerate(value):
                removed += prune(items, item, f"{path}[{index}]")
    return removed


_METADATA_FIELDS = frozenset(
    {
        "annotations",
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "finalizers",
        "generateName",
        "generation",
        "labels",
        "managedFields",
        "name",
        "namespace",
        "ownerReferences",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)


def _prune_metadata(metadata: Object, path: str) -> list[str]:
    """Embedded objects have metadata like any other, whatever their schema says."""
    unknown = [key for key in metadata if key not in _METADATA_FIELDS]
    for key in unknown:
        del metadata[key]
    return [f"{path}.{key}" for key in unknown]


def default(schema: Object, value: Any) -> None:
    """Fill in the schema's defaults below a value; a null that the schema does not allow is left out first."""
    if isinstance(value, dict):
        properties = schema.get("properties")
        if properties:
            for key, below in properties.items():
                if "default" in below:
                    if key not in value or (value[key] is None and not below.get("nullable")):
                        value[key] = msgspec.json.decode(msgspec.json.encode(below["default"]))
                elif key in value and value[key] is None and not below.get("nullable"):
                    del value[key]
                if key in value:
                    default(below, value[key])
        additional = schema.get("additionalProperties")
        if isinstance(additional, dict):
            for key, item in value.items():
                if not properties or key not in properties:
                    default(additional, item)
    elif isinstance(value, list):
        items = schema.get("items")
        if isinstance(items, dict):
            for item in value:
                default(items, item)


# -- validation ----------------------------------------------------------------------------------------

_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: (
        (isinstance(value, int) and not isinstance(value, bool))
        or (isinstance(value, float) and value.is_integer())
    ),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
}


def _invalid(path: str, value: Any, message: str, reason: str = "FieldValueTypeInvalid") -> FieldError:
    return FieldError(path, f"Invalid value: {value}: {path} in body {message}", reason)


def _type_of(value: Any) -> str:
    """The name of a value's type, as type errors call it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


ABSENT = object()  # an old value that is not there, or cannot be told


def validate(schema: Object, value: Any, path: str, old: Any = ABSENT) -> list[FieldError]:
    """What of the value does not fit the schema; nothing of it, when it is as it was."""
    if value is None and schema.get("nullable"):
        return []
    if old is not ABSENT and old == value:
        return []
    wrong = _check_type(schema, value, path)
    causes: list[FieldError] = [] if wrong is None else [wrong]
    if isinstance(value, dict):
        causes += _check_object(schema, value, path, old)
    elif isinstance(value, list):
        causes += _check_list(schema, value, path, old)
    elif isinstance(value, str):
        causes += _check_text(schema, value, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        causes += _check_number(schema, value, path)
    if "enum" in schema and value not in schema["enum"]:
        supported = ", ".join(shown(item) for item in sorted(schema["enum"], key=_go))
        causes.append(
            FieldError(
                path,
                f"Unsupported value: {shown(value)}: supported values: {supported}",
                "FieldValueNotSupported",
            )
        )
    if value is not None and any(key in schema for key in ("allOf", "anyOf", "oneOf", "not")):
        causes += _check_junctors(schema, value, path)
    return causes


def _go(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def old_below(old: Any, key: str) -> Any:
    """The old value of a field."""
    return old.get(key, ABSENT) if isinstance(old, dict) else ABSENT


def old_items(schema: Object, old: Any) -> Callable[[Any], Any]:
    """Finds the old value of a list's item, in lists whose items can be told apart over time."""
    if schema.get("x-kubernetes-list-type") != "map" or not isinstance(old, list):
        return lambda _: ABSENT
    keys = schema.get("x-kubernetes-list-map-keys") or ()

    def key_of(item: Any) -> bytes:
        return msgspec.json.encode([item.get(key) if isinstance(item, dict) else item for key in keys])

    known = {key_of(item): item for item in old}
    return lambda item: known.get(key_of(item), ABSENT)


def _check_type(schema: Object, value: Any, path: str) -> FieldError | None:
    if schema.get("x-kubernetes-int-or-string"):
        fits = isinstance(value, str) or _TYPES["integer"](value)
        expected = "integer,string"
    else:
        expected = schema.get("type", "")
        fits = not expected or _TYPES[expected](value)
    if fits:
        return None
    actual = _type_of(value)
    return _invalid(path, f'"{actual}"', f'must be of type {expected}: "{actual}"')


def _check_object(schema: Object, value: Object, path: str, old: Any) -> Iterator[FieldError]:
    properties = schema.get("properties") or {}
    for name in schema.get("required") or ():
        if name not in value:
            yield FieldError(f"{path}.{name}" if path else name, "Required value", "FieldValueRequired")
    count = len(value)
    if count > schema.get("maxProperties", count):
        limit = schema["maxProperties"]
        items_of = "item" if limit == 1 else "items"
        yield FieldError(
            path, f"Too many: {count}: must have at most {limit} {items_of}", "FieldValueTooMany"
        )
    if count < schema.get("minProperties", 0):
        fewest = schema["minProperties"]
        yield _invalid(path, count, f"should have at least {fewest} properties", "FieldValueInvalid")
    additional = schema.get("additionalProperties")
    embedded = schema.get("x-kubernetes-embedded-resource") is True
    for key, item in value.items():
        below = f"{path}.{key}" if path else key
        if key in properties:
            yield from validate(properties[key], item, below, old_below(old, key))
        elif isinstance(additional, dict):
            yield from validate(additional, item, below, old_below(old, key))
    if embedded:
        for name in ("apiVersion", "kind"):
            if not value.get(name):
                why = "Required value: must not be empty" if name in value else "Required value"
                yield FieldError(f"{path}.{name}", why, "FieldValueRequired")


def _check_list(schema: Object, value: list[Any], path: str, old: Any) -> Iterator[FieldError]:
    count = len(value)
    if count > schema.get("maxItems", count):
        limit = schema["maxItems"]
        items_of = "item" if limit == 1 else "items"
        yield FieldError(
            path, f"Too many: {count}: must have at most {limit} {items_of}", "FieldValueTooMany"
        )
    if count < schema.get("minItems", 0):
        yield _invalid(path, count, f"should have at least {schema['minItems']} items", "FieldValueInvalid")
    items = schema.get("items")
    if isinstance(items, dict):
        before = old_items(schema, old)
        for index, item in enumerate(value):
            yield from validate(items, item, f"{path}[{index}]", before(item))
    kind = schema.get("x-kubernetes-list-type")
    if kind not in {"map", "set"}:
        return
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    seen: set[bytes] = set()
    for index, item in enumerate(value):
        identity = (
            {key: item.get(key) for key in keys if key in item}
            if kind == "map" and isinstance(item, dict)
            else item
        )
        text = msgspec.json.encode(identity)
        if text in seen:
            yield FieldError(f"{path}[{index}]", f"Duplicate value: {shown(identity)}", "FieldValueDuplicate")
        seen.add(text)


def _check_text(schema: Object, value: str, path: str) -> Iterator[FieldError]:
    length = len(value)
    if length > schema.get("maxLength", length):
        limit = schema["maxLength"]
        unit = "byte" if limit == 1 else "bytes"
        yield FieldError(path, f"Too long: may not be more than {limit} {unit}", "FieldValueTooLong")
    if length < schema.get("minLength", 0):
        yield _invalid(
            path, shown(value), f"should be at least {schema['minLength']} chars long", "FieldValueInvalid"
        )
    pattern = schema.get("pattern")
    if pattern is not None and not _pattern(pattern).search(value):
        yield _invalid(path, shown(value), f"should match '{pattern}'", "FieldValueInvalid")
    form = schema.get("format")
    if form and schema.get("type", "string") == "string" and not has_format(form, value):
        yield _invalid(path, shown(value), f"must be of type {form}: {shown(value)}", "FieldValueInvalid")


def _check_number(schema: Object, value: float, path: str) -> Iterator[FieldError]:
    maximum, minimum, multiple = schema.get("maximum"), schema.get("minimum"), schema.get("multipleOf")
    text = plain(value)
    if multiple is not None and not _is_multiple(value, multiple):
        yield _invalid(path, text, f"should be a multiple of {plain(multiple)}", "FieldValueInvalid")
    if maximum is not None:
        limit = plain(maximum)
        if schema.get("exclusiveMaximum") and value >= maximum:
            yield _invalid(path, text, f"should be less than {limit}", "FieldValueInvalid")
        elif value > maximum:
            yield _invalid(path, text, f"should be less than or equal to {limit}", "FieldValueInvalid")
    if minimum is not None:
        limit = plain(minimum)
        if schema.get("exclusiveMinimum") and value <= minimum:
            yield _invalid(path, text, f"should be greater than {limit}", "FieldValueInvalid")
        elif value < minimum:
            yield _invalid(path, text, f"should be greater than or equal to {limit}", "FieldValueInvalid")
    if schema.get("type") != "integer":
        return
    form = str(schema.get("format") or "int64")
    bound = 2**31 if form == "int32" else 2**63
    if not -bound <= value < bound:
        known = f"with format {form}" if schema.get("format") else "(default format)"
        message = f"Checked value must be of type integer {known} in {path}"
        yield FieldError("<nil>", f'Invalid value: "": {message}')


def plain(value: float) -> str:
    """A number as Go prints it: without a fraction of nothing."""
    return str(int(value)) if value == int(value) else repr(value)


def _is_multiple(value: float, of: float) -> bool:
    quotient = value / of
    return abs(quotient - round(quotient)) < 1e-9 * max(1.0, abs(quotient))


def _check_junctors(schema: Object, value: Any, path: str) -> Iterator[FieldError]:
    """Of several schemas that all fail, what the one says that looked at most of the value."""
    if "anyOf" in schema:
        failures = [validate(part, value, path) for part in schema["anyOf"]]
        if all(failures):
            yield _junctor(f'"{path}" must validate at least one schema (anyOf)')
            yield from _best(schema["anyOf"], failures, value)
    if "oneOf" in schema:
        failures = [validate(part, value, path) for part in schema["oneOf"]]
        matching = sum(1 for causes in failures if not causes)
        if matching != 1:
            said = "none valid" if matching == 0 else f"{matching} valid alternatives"
            yield _junctor(f'"{path}" must validate one and only one schema (oneOf). Found {said}')
        if matching == 0:
            yield from _best(schema["oneOf"], failures, value)
    if "allOf" in schema:
        failures = [validate(part, value, path) for part in schema["allOf"]]
        for causes in failures:
            yield from causes
        if any(failures):
            said = ". None validated" if all(failures) else ""
            yield _junctor(f'"{path}" must validate all the schemas (allOf){said}')
    if "not" in schema and not validate(schema["not"], value, path):
        yield _junctor(f'"{path}" must not validate the schema (not)')


def _junctor(message: str) -> FieldError:
    return FieldError("<nil>", f'Invalid value: "": {message}')


def _best(parts: list[Object], failures: list[list[FieldError]], value: Any) -> list[FieldError]:
    looked_at = [_looked_at(part, value) for part in parts]
    return failures[looked_at.index(max(looked_at))]


def _looked_at(schema: Object, value: Any) -> int:
    """How many places of a value a schema speaks of."""
    count = 1
    if isinstance(value, dict):
        for key, below in (schema.get("properties") or {}).items():
            count += _looked_at(below, value[key]) if key in value else 0
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        count += sum(_looked_at(schema["items"], item) for item in value)
    return count


@lru_cache(maxsize=1024)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text)
