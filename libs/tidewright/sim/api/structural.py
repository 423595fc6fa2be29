"""Structural schemas: prune, default and validate custom resources, with the API server's messages.

A schema is the `openAPIV3Schema` of a definition, as JSON. `prune` finds (and removes) fields that it does not
specify, `default` fills in its defaults, `validate` returns what is wrong, and `validate_rules` asks the CEL
rules (`x-kubernetes-validations`).
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import ipaddress
import re
import uuid
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import msgspec

from tidewright.sim.api.cel import CelError, compile_rule, go_duration_s, to_cel
from tidewright.sim.api.errors import Cause

Object = dict[str, Any]
_OBJECT_META = frozenset({"apiVersion", "kind", "metadata"})


def shown(value: Any) -> str:
    """A value as messages quote it."""
    if isinstance(value, str):
        return msgspec.json.encode(value).decode()
    if isinstance(value, dict | list):
        return msgspec.json.encode(value).decode()
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else repr(value)


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


def _invalid(path: str, value: Any, message: str, reason: str = "FieldValueTypeInvalid") -> Cause:
    return Cause(path, f"Invalid value: {value}: {path} in body {message}", reason)


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


def validate(schema: Object, value: Any, path: str) -> list[Cause]:
    """What of the value does not fit the schema."""
    if value is None and schema.get("nullable"):
        return []
    wrong = _check_type(schema, value, path)
    if wrong is not None:
        return [wrong]
    causes: list[Cause] = []
    if isinstance(value, dict):
        causes += _check_object(schema, value, path)
    elif isinstance(value, list):
        causes += _check_list(schema, value, path)
    elif isinstance(value, str):
        causes += _check_text(schema, value, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        causes += _check_number(schema, value, path)
    if "enum" in schema and value not in schema["enum"]:
        supported = ", ".join(shown(item) for item in schema["enum"])
        causes.append(
            Cause(
                path,
                f"Unsupported value: {shown(value)}: supported values: {supported}",
                "FieldValueNotSupported",
            )
        )
    if any(key in schema for key in ("allOf", "anyOf", "oneOf", "not")):
        causes += _check_junctors(schema, value, path)
    return causes


def _check_type(schema: Object, value: Any, path: str) -> Cause | None:
    if schema.get("x-kubernetes-int-or-string"):
        fits = isinstance(value, str) or _TYPES["integer"](value)
        wanted = "integer,string"
    else:
        wanted = schema.get("type", "")
        fits = not wanted or _TYPES[wanted](value)
    if fits:
        return None
    found = _type_of(value)
    return _invalid(path, f'"{found}"', f'must be of type {wanted}: "{found}"')


def _check_object(schema: Object, value: Object, path: str) -> Iterator[Cause]:
    properties = schema.get("properties") or {}
    for name in schema.get("required") or ():
        if name not in value:
            yield Cause(f"{path}.{name}" if path else name, "Required value", "FieldValueRequired")
    count = len(value)
    if count > schema.get("maxProperties", count):
        limit = schema["maxProperties"]
        yield Cause(path, f"Too many: {count}: must have at most {limit} items", "FieldValueTooMany")
    if count < schema.get("minProperties", 0):
        yield _invalid(path, count, f"should have at least {schema['minProperties']} properties")
    additional = schema.get("additionalProperties")
    embedded = schema.get("x-kubernetes-embedded-resource") is True
    for key, item in value.items():
        below = f"{path}.{key}" if path else key
        if key in properties:
            yield from validate(properties[key], item, below)
        elif isinstance(additional, dict):
            yield from validate(additional, item, below)
    if embedded:
        for name in ("apiVersion", "kind"):
            if not value.get(name):
                yield Cause(f"{path}.{name}", "Required value: must not be empty", "FieldValueRequired")


def _check_list(schema: Object, value: list[Any], path: str) -> Iterator[Cause]:
    count = len(value)
    if count > schema.get("maxItems", count):
        limit = schema["maxItems"]
        yield Cause(path, f"Too many: {count}: must have at most {limit} items", "FieldValueTooMany")
    if count < schema.get("minItems", 0):
        yield _invalid(path, count, f"should have at least {schema['minItems']} items", "FieldValueInvalid")
    items = schema.get("items")
    if isinstance(items, dict):
        for index, item in enumerate(value):
            yield from validate(items, item, f"{path}[{index}]")
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
            yield Cause(f"{path}[{index}]", f"Duplicate value: {shown(identity)}", "FieldValueDuplicate")
        seen.add(text)


def _check_text(schema: Object, value: str, path: str) -> Iterator[Cause]:
    length = len(value)
    if length > schema.get("maxLength", length):
        limit = schema["maxLength"]
        yield Cause(path, f"Too long: may not be more than {limit} bytes", "FieldValueTooLong")
    if length < schema.get("minLength", 0):
        yield _invalid(
            path, shown(value), f"should be at least {schema['minLength']} chars long", "FieldValueInvalid"
        )
    pattern = schema.get("pattern")
    if pattern is not None and not _pattern(pattern).search(value):
        yield _invalid(path, shown(value), f"should match '{pattern}'", "FieldValueInvalid")
    form = schema.get("format")
    if form in _FORMATS and not _FORMATS[form](value):
        yield _invalid(path, shown(value), f"must be of type {form}: {shown(value)}", "FieldValueInvalid")


def _check_number(schema: Object, value: float, path: str) -> Iterator[Cause]:
    maximum, minimum, multiple = schema.get("maximum"), schema.get("minimum"), schema.get("multipleOf")
    if maximum is not None:
        if schema.get("exclusiveMaximum") and value >= maximum:
            yield _invalid(path, value, f"should be less than {maximum}", "FieldValueInvalid")
        elif value > maximum:
            yield _invalid(path, value, f"should be less than or equal to {maximum}", "FieldValueInvalid")
    if minimum is not None:
        if schema.get("exclusiveMinimum") and value <= minimum:
            yield _invalid(path, value, f"should be greater than {minimum}", "FieldValueInvalid")
        elif value < minimum:
            yield _invalid(path, value, f"should be greater than or equal to {minimum}", "FieldValueInvalid")
    if multiple is not None and value % multiple:
        yield _invalid(path, value, f"should be a multiple of {multiple}", "FieldValueInvalid")
    form = schema.get("format")
    bound = {"int32": 2**31, "int64": 2**63}.get(form or "")
    if bound is not None and not -bound <= value < bound:
        yield _invalid(path, value, f"must be of type {form}: {shown(value)}", "FieldValueInvalid")


def _check_junctors(schema: Object, value: Any, path: str) -> Iterator[Cause]:
    for part in schema.get("allOf") or ():
        yield from validate(part, value, path)
    if "anyOf" in schema and not any(not validate(part, value, path) for part in schema["anyOf"]):
        yield _junctor(path, f'"{path}" must validate at least one schema (anyOf)')
        yield from validate(schema["anyOf"][0], value, path)
    if "oneOf" in schema:
        matching = sum(1 for part in schema["oneOf"] if not validate(part, value, path))
        if matching != 1:
            found = "none valid" if matching == 0 else f"{matching} valid alternatives"
            yield _junctor(path, f'"{path}" must validate one and only one schema (oneOf). Found {found}')
    if "not" in schema and not validate(schema["not"], value, path):
        yield _junctor(path, f'"{path}" must not validate the schema (not)')


def _junctor(path: str, message: str) -> Cause:
    return Cause(path or "<nil>", f'Invalid value: "": {message}')


@lru_cache(maxsize=1024)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text)


def _parses(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            parse(text)
        except (ValueError, binascii.Error):
            return False
        return True

    return check


_FORMATS: dict[str, Callable[[str], bool]] = {
    "date-time": lambda text: (
        "T" in text.upper()
        and re.search(r"([zZ]|[-+]\d\d:\d\d)$", text) is not None
        and _parses(dt.datetime.fromisoformat)(text)
    ),
    "date": _parses(dt.date.fromisoformat),
    "duration": lambda text: go_duration_s(text) is not None,
    "ipv4": _parses(ipaddress.IPv4Address),
    "ipv6": _parses(ipaddress.IPv6Address),
    "cidr": _parses(lambda text: ipaddress.ip_network(text, strict=False)),
    "uuid": _parses(uuid.UUID),
    "byte": _parses(lambda text: base64.b64decode(text, validate=True)),
    "email": lambda text: re.fullmatch(r"[^@\s]+@[^@\s]+", text) is not None,
    "hostname": lambda text: re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?", text) is not None,
    "uri": lambda text: re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", text) is not None,
}


# -- rules ---------------------------------------------------------------------------------------------


def has_rules(schema: Any) -> bool:
    """Whether there is a CEL rule in the schema or below."""
    if not isinstance(schema, dict):
        return False
    if schema.get("x-kubernetes-validations"):
        return True
    below = [
        *(schema.get("properties") or {}).values(),
        schema.get("items"),
        schema.get("additionalProperties"),
    ]
    return any(has_rules(part) for part in below)


def validate_rules(schema: Object, value: Any, old: Any, path: str) -> list[Cause]:
    """Ask the rules; `old` is the stored value, None when there is none (transition rules are then skipped)."""
    causes: list[Cause] = []
    for rule in schema.get("x-kubernetes-validations") or ():
        cause = _ask(rule, schema, value, old, path)
        if cause is not None:
            causes.append(cause)
    if isinstance(value, dict):
        before = old if isinstance(old, dict) else {}
        properties, additional = schema.get("properties") or {}, schema.get("additionalProperties")
        for key, item in value.items():
            part = properties.get(key, additional)
            if isinstance(part, dict) and item is not None:
                causes += validate_rules(part, item, before.get(key), f"{path}.{key}" if path else key)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        earlier = _by_key(schema, old)
        for index, item in enumerate(value):
            causes += validate_rules(
                schema["items"], item, earlier.get(_key_of(schema, item)), f"{path}[{index}]"
            )
    return causes


def _key_of(schema: Object, item: Any) -> bytes:
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    if not keys or not isinstance(item, dict):
        return b""
    return msgspec.json.encode([item.get(key) for key in keys])


def _by_key(schema: Object, old: Any) -> dict[bytes, Any]:
    """Items of a list that can be told apart over time; those of other lists have no past."""
    if schema.get("x-kubernetes-list-type") != "map" or not isinstance(old, list):
        return {}
    return {_key_of(schema, item): item for item in old}


def _ask(rule: Object, schema: Object, value: Any, old: Any, path: str) -> Cause | None:
    compiled = compile_rule(rule["rule"])
    optional_old = rule.get("optionalOldSelf") is True
    if compiled.uses_old and old is None and not optional_old:
        return None
    data = {"self": to_cel(value, schema, escaped=compiled.escaped)}
    if compiled.uses_old:
        data["oldSelf"] = to_cel(old, schema, escaped=compiled.escaped)
    field = path
    if rule.get("fieldPath"):
        field = f"{path}{rule['fieldPath']}" if path else rule["fieldPath"].removeprefix(".")
    kind = _type_of(value)
    quoted = f'"{kind}"' if kind in {"object", "array"} else shown(value)
    try:
        if compiled.evaluate(data) is True:
            return None
    except CelError as error:
        return Cause(field or "<nil>", f"Invalid value: {quoted}: failed rule: {rule['rule']}: {error}")
    message = rule.get("message") or f"failed rule: {rule['rule'].strip()}"
    if rule.get("messageExpression"):
        try:
            found = compile_rule(rule["messageExpression"]).evaluate(data)
            message = found if isinstance(found, str) and found.strip() else message
        except CelError:
            pass  # the fixed message stands, as on the real server
    reason = rule.get("reason") or "FieldValueInvalid"
    match reason:
        case "FieldValueRequired":
            return Cause(field or "<nil>", f"Required value: {message}", reason)
        case "FieldValueForbidden":
            return Cause(field or "<nil>", f"Forbidden: {message}", reason)
        case "FieldValueDuplicate":
            return Cause(field or "<nil>", f"Duplicate value: {quoted}", reason)
    return Cause(field or "<nil>", f"Invalid value: {quoted}: {message}", reason)
