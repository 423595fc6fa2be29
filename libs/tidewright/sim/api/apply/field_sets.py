"""Sets of fields, as `fieldsV1` writes them, and what can be done with them.

A set is nested objects whose keys are `f:<field>`, `k:{<keys of a list element>}` and `v:<value of a set>`. A place
belongs to a set when nothing is below it, or when it says so by `.`; so `{"f:labels": {"f:a": {}}}` has one label
and not the map, `{"f:labels": {".": {}, "f:a": {}}}` has both. Nobody changes a set in place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

FieldSet = dict[str, Any]

LEAF: FieldSet = {}  # shared by all sets
SELF = "."
_encode = msgspec.json.Encoder(order="sorted").encode


def union(a: FieldSet, b: FieldSet) -> FieldSet:
    """The fields of either."""
    result = dict(a)
    for key, below in b.items():
        result[key] = _either(result[key], below) if key in result else below
    return result


def _either(a: FieldSet, b: FieldSet) -> FieldSet:
    if a == b:
        return a
    joined = union(a, b)
    return {SELF: LEAF, **joined} if joined and SELF not in joined and not (a and b) else joined


def difference(a: FieldSet, b: FieldSet) -> FieldSet:
    """The fields of `a` that `b` has not."""
    result: FieldSet = {}
    for key, below in a.items():
        if key not in b:
            result[key] = below
            continue
        remaining = _left(below, b[key])
        if remaining is not None:
            result[key] = remaining
    return result


def _left(a: FieldSet, b: FieldSet) -> FieldSet | None:
    """What is left of a place; None for nothing."""
    kept = _has(a) and not _has(b)
    below = {key: item for key, item in difference(a, b).items() if key != SELF}
    if below:
        return {SELF: LEAF, **below} if kept else below
    return LEAF if kept else None


def intersection(a: FieldSet, b: FieldSet) -> FieldSet:
    """The fields of both."""
    result: FieldSet = {}
    for key, below in a.items():
        if key == SELF or key not in b:
            continue
        shared = _has(below) and _has(b[key])
        common = intersection(below, b[key])
        if common:
            result[key] = {SELF: LEAF, **common} if shared else common
        elif shared:
            result[key] = LEAF
    return result


def _has(place: FieldSet) -> bool:
    return not place or SELF in place


def with_places(fields: FieldSet) -> FieldSet:
    """The set with every field that has something below it."""
    return {
        key: {SELF: LEAF, **with_places(below)} if below and key[0] == "f" else with_places(below)
        for key, below in fields.items()
    }


def paths(fields: FieldSet, path: str = "") -> Iterator[str]:
    """The fields of a set in the form and order in which conflicts name them."""
    for key in sorted(fields):
        if key != SELF:
            here = path + element_path(key)
            if _has(fields[key]):
                yield here
            yield from paths(fields[key], here)


def element_path(key: str) -> str:
    """How a path writes one place: `.spec`, `[name="a"]`, `[="x"]`."""
    if key[0] == "f":
        return "." + key[2:]
    if key[0] == "v":
        return f"[={key[2:]}]"
    pairs = msgspec.json.decode(key[2:])
    return "[" + ",".join(f"{name}={_encode(value).decode()}" for name, value in pairs.items()) + "]"
