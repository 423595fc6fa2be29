"""Strategic merge of a patch into a pod, and reading the result back as a pod.

    merge(original, patch, type)   the merge of Kubernetes (`kube.strategicmerge`)
    read_back(value, type)         unknown keys vanish, empty values vanish, wrong types are errors
    merge_patch_of(before, after)  the RFC 7386 patch between two objects

Nothing given is changed; results share unchanged parts with their sources.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidewright.events.base import Json, JsonObject
from tidewright.kube import strategicmerge
from tidewright.kube.mergekeys import strategy
from tidewright.kube.podapi.schema import types
from tidewright.kube.strategicmerge import InvalidPatch

_INT64 = 2**63


def merge(original: Mapping[str, Any], patch: Mapping[str, Any], type_name: str = "Pod") -> JsonObject:
    """Merge `patch` over `original`, both of the type `type_name` of `podapi/schema`.

    Raises:
        InvalidPatch: see `strategicmerge.merge`.
    """
    return strategicmerge.merge(original, patch, type_name, _field)


def _field(type_name: str, key: str) -> strategicmerge.Field:
    if type_name.startswith("{"):
        return strategicmerge.Field(type_name[1:-1])
    code = types().get(type_name, {}).get(key, "x")
    return strategicmerge.Field(code.strip("[]"), strategy(type_name, key))


def read_back(value: Any, type_name: str = "Pod", *, before: Any = None) -> JsonObject:
    """The object as the API's types see it.

    What is the very same in `before` was read by the API server already, and is taken as it is.

    Unknown keys vanish; `null`, empty text, empty lists and empty maps vanish, because the API
    does not tell them from absent ones; empty objects stay, because some of them mean something
    (`emptyDir: {}`).

    Raises:
        InvalidPatch: a value is of another type than its field; the message names the path.
    """
    read = _read(value, type_name, type_name, before)
    return read if isinstance(read, dict) else {}


def _read(value: Json, code: str, path: str, before: Any = None) -> Any:
    if value is None or (value is before and isinstance(value, dict | list)):
        return value
    if code[0] == "[":
        if not isinstance(value, list):
            raise _wrong(value, f"list of {code.strip('[]')}", path)
        return [_read(item, code[1:-1], path) for item in value]
    if code[0] == "{":
        if not isinstance(value, dict):
            raise _wrong(value, "map", path)
        inner = code[1:-1]
        # A null in a map of text reads as the empty text.
        return {
            k: "" if v is None and inner == "s" else _read(v, inner, f"{path}.{k}") for k, v in value.items()
        }
    match code:
        case "s":
            valid = isinstance(value, str)
        case "b":
            valid = isinstance(value, bool)
        case "i":
            valid = isinstance(value, int) and not isinstance(value, bool) and -_INT64 <= value < _INT64
        case "n" | "q" | "o":
            kinds = (int, float) if code == "n" else (int, str) if code == "o" else (int, float, str)
            valid = isinstance(value, kinds) and not isinstance(value, bool)
        case "t" | "x":
            valid = True
        case _:
            return _read_object(value, code, path, before)
    if not valid:
        names = {"s": "text", "b": "boolean", "i": "integer", "n": "number", "q": "quantity"}
        raise _wrong(value, names.get(code, "integer or text"), path)
    return value


def _read_object(value: Json, code: str, path: str, before: Any = None) -> JsonObject:
    if not isinstance(value, dict):
        raise _wrong(value, code, path)
    fields = types()[code]
    known = before if isinstance(before, dict) else {}
    read: JsonObject = {}
    for key, item in value.items():
        if key not in fields:
            continue
        entry = _read(item, fields[key], f"{path}.{key}", known.get(key))
        if entry is None or entry == "" or entry == [] or (entry == {} and fields[key][0] == "{"):
            continue
        read[key] = entry
    return read


def _wrong(value: Json, expected: str, path: str) -> InvalidPatch:
    return InvalidPatch(f"{path}: {value!r} is no {expected}")


def merge_patch_of(before: Mapping[str, Any], after: Mapping[str, Any]) -> JsonObject:
    """The smallest RFC 7386 patch that turns `before` into `after`; {} when they are equal."""
    patch: JsonObject = {key: None for key in before if key not in after}
    for key, value in after.items():
        if key not in before:
            patch[key] = value
        elif isinstance(value, dict) and isinstance(before[key], dict):
            if nested := merge_patch_of(before[key], value):
                patch[key] = nested
        elif value != before[key] or isinstance(value, bool) != isinstance(before[key], bool):
            patch[key] = value
    return patch
