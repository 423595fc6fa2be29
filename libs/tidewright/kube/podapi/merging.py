"""Strategic merge of a patch into a pod, and reading the result back as a pod.

    merge(original, patch, type)   the merge of Kubernetes: directives `$patch`, `$retainKeys`,
                                   `$deleteFromPrimitiveList/...`, `$setElementOrder/...`
    read_back(value, type)         unknown keys vanish, empty values vanish, wrong types are errors
    merge_patch_of(before, after)  the RFC 7386 patch between two objects

Nothing given is changed; results share unchanged parts with their sources.
Source of the order of merged lists: the public behaviour of the API server, specification 2.8.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tidewright.events.base import Json, JsonObject
from tidewright.kube.podapi.schema import Field, types

PATCH = "$patch"
RETAIN_KEYS = "$retainKeys"
DELETE_FROM_LIST = "$deleteFromPrimitiveList/"
SET_ELEMENT_ORDER = "$setElementOrder/"
_INT64 = 2**63


class InvalidPatch(ValueError):
    """The patch cannot be merged, or its result is no pod; the message names the field."""


def merge(original: Mapping[str, Any], patch: Mapping[str, Any], type_name: str = "Pod") -> JsonObject:
    """Merge `patch` over `original`, both of the type `type_name` of `podapi/schema`.

    Raises:
        InvalidPatch: an unknown directive, an element without its merge key, keys that
            `$retainKeys` does not list, or a list of mixed types.
    """
    return _merge_map(dict(original), patch, type_name)


def _field(type_name: str, key: str) -> Field:
    if type_name.startswith("{"):
        return Field(type_name[1:-1])
    found = types().get(type_name, {}).get(key)
    return found if found is not None else Field("x")


def _merge_map(original: JsonObject, patch: Mapping[str, Any], type_name: str) -> JsonObject:
    directive = patch.get(PATCH)
    if directive is not None:
        if directive == "replace":
            return {k: v for k, v in patch.items() if k != PATCH}
        if directive == "delete":
            return {}
        if directive != "merge":
            raise InvalidPatch(f"{PATCH} is {directive!r}; valid are 'replace', 'delete' and 'merge'")
    changes = {k: v for k, v in patch.items() if k != PATCH}
    merged = _retained(original, changes)
    _merge_ordered(merged, changes, type_name)
    for key, value in changes.items():
        name = key.removeprefix(DELETE_FROM_LIST)
        if name != key:
            if isinstance(value, list) and isinstance(merged.get(name), list):
                merged[name] = [item for item in merged[name] if item not in value]
            continue
        if value is None:
            merged.pop(key, None)
            continue
        present = merged.get(key)
        if isinstance(present, dict) and isinstance(value, Mapping):
            merged[key] = _merge_map(dict(present), value, _field(type_name, key).code)
        elif isinstance(present, list) and isinstance(value, list):
            merged[key] = _merge_list(present, value, _field(type_name, key))
        elif _directs(value):
            merged.pop(key, None)
        else:
            merged[key] = _without_directives(value)
    return merged


def _retained(original: JsonObject, changes: JsonObject) -> JsonObject:
    retained = changes.pop(RETAIN_KEYS, None)
    if retained is None:
        return original
    if not isinstance(retained, list):
        raise InvalidPatch(f"{RETAIN_KEYS} is no list")
    for key in changes:
        if not key.startswith("$") and key not in retained:
            raise InvalidPatch(f"{RETAIN_KEYS} lists {retained} but the patch also sets {key!r}")
    return {k: v for k, v in original.items() if k in retained}


def _merge_ordered(merged: JsonObject, changes: JsonObject, type_name: str) -> None:
    """Lists with an explicit order; they are taken out of `changes`."""
    for directive in [k for k in changes if k.startswith(SET_ELEMENT_ORDER)]:
        name = directive.removeprefix(SET_ELEMENT_ORDER)
        order = changes.pop(directive)
        if not isinstance(order, list):
            raise InvalidPatch(f"{directive} is no list")
        field = _field(type_name, name)
        before = merged.get(name)
        change = changes.pop(name, None)
        present = before if isinstance(before, list) else []
        items = _merge_list(present, change, field) if isinstance(change, list) else list(present)
        deleted = changes.pop(DELETE_FROM_LIST + name, None)
        if isinstance(deleted, list):
            items = [item for item in items if item not in deleted]
        if items or name in merged:
            merged[name] = _ordered(items, order, present, field.merge_key or "")


def _merge_list(original: Sequence[Any], patch: Sequence[Any], field: Field) -> list[Any]:
    key = field.merge_key
    if key is None:
        return list(patch)
    if not original and not patch:
        return []
    maps = [isinstance(item, Mapping) for item in (*original, *patch)]
    if any(maps) != all(maps):
        raise InvalidPatch(f"list of [{field.code}] mixes objects and scalars")
    if not key:
        both = list(dict.fromkeys((*original, *patch)))
        return _ordered(both, patch, original, "")
    kept, plain, replace = list(original), [], False
    for item in patch:
        match item.get(PATCH):
            case None:
                plain.append(item)
            case "replace":
                replace = True
            case "delete":
                if key not in item:
                    raise InvalidPatch(f"an element to delete names no {key!r}, its merge key")
                kept = [k for k in kept if k.get(key) != item[key]]
            case other:
                raise InvalidPatch(f"{PATCH} of a list element is {other!r}; valid are 'replace', 'delete'")
    if replace:
        return plain
    merged = list(kept)
    element = field.code.strip("[]")
    for item in plain:
        if key not in item:
            raise InvalidPatch(f"an element of a list of {element} names no {key!r}, its merge key")
        place = next((i for i, m in enumerate(merged) if m.get(key) == item[key]), None)
        if place is None:
            merged.append(_without_directives(item))
        else:
            merged[place] = _merge_map(dict(merged[place]), item, element)
    return _ordered(merged, plain, kept, key)


def _identity(item: Any, key: str) -> Any:
    return item.get(key) if key and isinstance(item, Mapping) else item


def _ordered(items: Sequence[Any], order: Sequence[Any], live: Sequence[Any], key: str) -> list[Any]:
    """Items that `order` names in that order; the others between them where the live list had them.

    A live item goes in front of the first ordered item that followed it in the live list; it comes
    after those that the live list did not have.
    """
    wanted = [_identity(o, key) for o in order]
    places = [_identity(o, key) for o in live]
    named = sorted(
        (i for i in items if _identity(i, key) in wanted), key=lambda i: wanted.index(_identity(i, key))
    )
    others = [i for i in items if _identity(i, key) not in wanted]
    result: list[Any] = []
    at = 0
    for item in named:
        mine = _identity(item, key)
        while at < len(others) and mine in places:
            other = _identity(others[at], key)
            if other not in places or places.index(other) >= places.index(mine):
                break
            result.append(others[at])
            at += 1
        result.append(item)
    return [*result, *others[at:]]


def _without_directives(value: Any) -> Any:
    """What a patch adds where nothing was: without nulls, and without objects that say `$patch`."""
    if isinstance(value, Mapping):
        return {
            k: _without_directives(v)
            for k, v in value.items()
            if v is not None and not _directs(v) and not k.startswith("$")
        }
    if isinstance(value, list):
        return [_without_directives(v) for v in value if not _directs(v)]
    return value


def _directs(value: Any) -> bool:
    return isinstance(value, Mapping) and PATCH in value


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
        field = fields.get(key)
        if field is None:
            continue
        found = _read(item, field.code, f"{path}.{key}", known.get(key))
        if found is None or found == "" or found == [] or (found == {} and field.code[0] == "{"):
            continue
        read[key] = found
    return read


def _wrong(value: Json, wanted: str, path: str) -> InvalidPatch:
    return InvalidPatch(f"{path}: {value!r} is no {wanted}")


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
