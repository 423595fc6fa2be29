"""Field managers: sets of fields, who owns which, and the merge of what a manager applies.

A set of fields is kept as `fieldsV1` writes it: nested objects whose keys are `f:<field>`, `k:{<keys of a list
element>}`, `v:<value of a set>` and `.` for the element or map itself. How lists and maps merge is their
`Typing`: by the names of the fields for built-in kinds, by the schema for custom resources.

`track` follows ordinary writes (what somebody changed becomes theirs), `applied_fields`, `conflicts` and
`merge` are server-side apply (`applying.py`).
"""

from __future__ import annotations

from typing import Any

import msgspec

from tidewright.sim.api.request import Request
from tidewright.sim.api.typing import Typing

Object = dict[str, Any]
FieldSet = dict[str, Any]

_ABSENT = object()
_NESTED: frozenset[type] = frozenset({dict, list})
_LEAF: FieldSet = {}  # shared by all sets, which nobody changes in place
_IDENTITY = frozenset({"apiVersion", "kind"})
_UNTRACKED_METADATA = frozenset(
    {
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "generation",
        "selfLink",
        "managedFields",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    }
)
_encode = msgspec.json.Encoder(order="sorted").encode


def element_key(typing: Typing, item: Any) -> str | None:
    """How a list element is called in a set of fields; None when it cannot be told apart."""
    keys = typing.map_keys
    if keys is not None:
        if not isinstance(item, dict):
            return None
        found = {key: item.get(key, typing.key_default(key)) for key in keys}
        return "k:" + _encode({key: value for key, value in found.items() if value is not None}).decode()
    return "v:" + _encode(item).decode()


def fields_of(value: Any, typing: Typing) -> FieldSet:
    """The set of fields below a value."""
    if isinstance(value, dict) and not typing.atomic:
        field = typing.field
        return {
            f"f:{key}": fields_of(item, field(key)) if item.__class__ in _NESTED else _LEAF
            for key, item in value.items()
        }
    if isinstance(value, list) and typing.associative:
        found: FieldSet = {}
        for item in value:
            key = element_key(typing, item)
            if key is not None:
                found[key] = {".": _LEAF, **fields_of(item, typing.element())} if key[0] == "k" else _LEAF
        return found
    return _LEAF


def object_fields(obj: Object, typing: Typing, *, without_status: bool, applied: bool = False) -> FieldSet:
    """The set of fields of a whole object, without what the server itself owns.

    Who applies labels owns these labels; who writes them otherwise owns the map besides.
    """
    found: FieldSet = {}
    for key, value in obj.items():
        if key in _IDENTITY or (without_status and key == "status"):
            continue
        if key == "metadata":
            tracked = {name: item for name, item in value.items() if name not in _UNTRACKED_METADATA}
            below = fields_of(tracked, typing.field(key))
            for name in ("f:labels", "f:annotations"):
                if name in below and not applied:
                    below[name] = {".": {}, **below[name]}
            if below:
                found["f:metadata"] = below
        else:
            found[f"f:{key}"] = fields_of(value, typing.field(key))
    return found


def changed_fields(new: Any, old: Any, typing: Typing, *, top: bool = False) -> tuple[FieldSet, FieldSet]:
    """What differs between two values: (set or changed, removed)."""
    changed: FieldSet = {}
    removed: FieldSet = {}
    for key in {**new, **old}:
        if top and key in _IDENTITY:
            continue
        before, after = old.get(key, _ABSENT), new.get(key, _ABSENT)
        if before is after or before == after:
            continue
        below = typing.field(key)
        if top and key == "metadata":
            before = {k: v for k, v in before.items() if k not in _UNTRACKED_METADATA}
            after = {k: v for k, v in after.items() if k not in _UNTRACKED_METADATA}
            if before == after:
                continue
        _compare(f"f:{key}", after, before, below, changed, removed)
    return changed, removed


def _compare(name: str, new: Any, old: Any, typing: Typing, changed: FieldSet, removed: FieldSet) -> None:
    if old is _ABSENT:
        changed[name] = fields_of(new, typing)
        return
    if new is _ABSENT:
        removed[name] = {}
        return
    if isinstance(new, dict) and isinstance(old, dict) and not typing.atomic:
        below_changed, below_removed = changed_fields(new, old, typing)
    elif isinstance(new, list) and isinstance(old, list) and typing.associative:
        below_changed, below_removed = {}, {}
        after = {element_key(typing, item): item for item in new}
        before = {element_key(typing, item): item for item in old}
        for key in {**after, **before}:
            if key is None or after.get(key, _ABSENT) == before.get(key, _ABSENT):
                continue
            if key[0] == "v" or key not in before or key not in after:
                target = below_changed if key in after else below_removed
                full: FieldSet = {".": {}} if key[0] == "k" else {}
                target[key] = full | fields_of(after[key], typing.element()) if key in after else {}
            else:
                _compare(key, after[key], before[key], typing.element(), below_changed, below_removed)
    else:
        changed[name] = {}
        return
    if below_changed:
        changed[name] = below_changed
    if below_removed:
        removed[name] = below_removed


# -- sets ----------------------------------------------------------------------------------------------


def union(a: FieldSet, b: FieldSet) -> FieldSet:
    """The fields of either."""
    result = dict(a)
    for key, below in b.items():
        result[key] = union(result[key], below) if key in result else below
    return result


def difference(a: FieldSet, b: FieldSet) -> FieldSet:
    """The fields of `a` without those of `b`; a leaf of `b` takes everything below it with it."""
    result: FieldSet = {}
    for key, below in a.items():
        if key not in b:
            result[key] = below
        elif b[key] and below:
            left = difference(below, b[key])
            if left:
                result[key] = left
    return result


def subtract(a: FieldSet, b: FieldSet) -> FieldSet:
    """The fields of `a` that are not in `b`; what lies below a leaf of `b` is not in `b`."""
    result: FieldSet = {}
    for key, below in a.items():
        if key not in b:
            result[key] = below
        elif below:
            left = subtract(below, b[key])
            if left:
                result[key] = left
    return result


def intersection(a: FieldSet, b: FieldSet) -> FieldSet:
    """The fields of both: leaves that either has where the other has the field or something below it."""
    result: FieldSet = {}
    for key, below in a.items():
        if key in b:
            if below and b[key]:
                found = intersection(below, b[key])
                if found:
                    result[key] = found
            elif not below and not b[key]:
                result[key] = {}
    return result


def leaves(fields: FieldSet, path: str = "") -> list[str]:
    """The paths of a set's leaves, as conflict messages write them."""
    found: list[str] = []
    for key, below in fields.items():
        here = path + _step(key)
        if below and set(below) != {"."}:
            found += leaves({k: v for k, v in below.items() if k != "."}, here)
        else:
            found.append(here)
    return found


def _step(key: str) -> str:
    if key == ".":
        return ""
    if key[0] == "f":
        return "." + key[2:]
    if key[0] == "v":
        return f"[={key[2:]}]"
    pairs = msgspec.json.decode(key[2:])
    return "[" + ",".join(f"{name}={_encode(value).decode()}" for name, value in pairs.items()) + "]"


# -- ordinary writes -----------------------------------------------------------------------------------


def track(request: Request, new: Object, old: Object | None, now: str, typing: Typing) -> None:
    """Note in `managedFields` what this write set and removed."""
    meta = new["metadata"]
    given = meta.pop("managedFields", None)
    entries: list[Object] = list((old or {}).get("metadata", {}).get("managedFields") or ())
    if given == [{}] or given == []:
        entries = []  # the documented way to start over
    if old is None:
        without = request.kind.status and request.subresource != "status" and bool(request.kind.custom)
        changed = object_fields(new, typing, without_status=without)
        removed: FieldSet = {}
    else:
        changed, removed = changed_fields(new, old, typing, top=True)
    if changed or removed:
        entries = record_update(
            entries, request.manager, request.api_version, request.subresource, changed, removed, now
        )
    if entries:
        meta["managedFields"] = entries


def record_update(
    entries: list[Object],
    manager: str,
    api_version: str,
    subresource: str,
    changed: FieldSet,
    removed: FieldSet,
    now: str,
) -> list[Object]:
    """Entries after a manager changed fields: they become its own, and nobody else's."""
    result: list[Object] = []
    mine: Object | None = None
    for entry in entries:
        is_mine = (
            entry.get("manager") == manager
            and entry.get("operation") == "Update"
            and entry.get("subresource", "") == subresource
            and entry.get("apiVersion") == api_version
        )
        fields: FieldSet = entry.get("fieldsV1") or {}
        left = difference(fields, removed) if removed else fields
        if not is_mine and changed:
            left = difference(left, changed)
        if is_mine:
            mine = entry | {"fieldsV1": union(left, changed), "time": now}
            result.append(mine)
        elif left:
            result.append(entry if left is fields else entry | {"fieldsV1": left})
    if mine is None and changed:
        result.append(_entry(manager, "Update", api_version, subresource, changed, now))
    return [entry for entry in result if entry["fieldsV1"]]


def _entry(
    manager: str, operation: str, api_version: str, subresource: str, fields: FieldSet, now: str
) -> Object:
    entry: Object = {
        "manager": manager,
        "operation": operation,
        "apiVersion": api_version,
        "time": now,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    if subresource:
        entry["subresource"] = subresource
    return entry


# -- apply ---------------------------------------------------------------------------------------------


def merge(live: Any, applied: Any, typing: Typing) -> Any:
    """What is live, with what is applied put over it."""
    if isinstance(applied, dict) and isinstance(live, dict) and not typing.atomic:
        result = dict(live)
        for key, value in applied.items():
            result[key] = merge(live[key], value, typing.field(key)) if key in live else value
        return result
    if isinstance(applied, list) and isinstance(live, list) and typing.associative:
        before = {element_key(typing, item): item for item in live}
        wanted = {element_key(typing, item): item for item in applied}
        merged = {
            key: merge(before[key], item, typing.element()) if key in before else item
            for key, item in wanted.items()
        }
        result_list = [merged.pop(key, before[key]) for key in before]
        return result_list + list(merged.values())
    return applied


def remove(value: Any, fields: FieldSet, typing: Typing) -> Any:
    """The value without the fields of a set; what becomes empty by it goes too."""
    if isinstance(value, dict):
        result = dict(value)
        for key, below in fields.items():
            name = key[2:]
            if key[0] != "f" or name not in result:
                continue
            rest = {k: v for k, v in below.items() if k != "."}
            if not rest:
                if not result[name] or "." in below or not isinstance(result[name], dict | list) or not below:
                    del result[name]
                continue
            left = remove(result[name], below, typing.field(name))
            if left in ({}, []) and result[name]:
                del result[name]
            else:
                result[name] = left
        return result
    if isinstance(value, list):
        kept = []
        for item in value:
            key_of = element_key(typing, item)
            if key_of is None or key_of not in fields:
                kept.append(item)
                continue
            below = fields[key_of]
            if "." not in below and below:
                kept.append(remove(item, below, typing.element()))
        return kept
    return value


def track_apply(request: Request, new: Object, old: Object | None, now: str, typing: Typing) -> None:
    """Note in `managedFields` what was applied; what the apply changed of others' fields is theirs no more.

    Fields that defaulting or admission changed besides belong to nobody, as on the real server.
    """
    applied = request.applied or {}
    meta = new["metadata"]
    meta.pop("managedFields", None)
    entries: list[Object] = list((old or {}).get("metadata", {}).get("managedFields") or ())
    if old is not None:
        changed, removed = changed_fields(new, old, typing, top=True)
        taken = intersection_below(changed, applied)
        kept = []
        for entry in entries:
            if is_apply_of(entry, request.manager, request.subresource):
                kept.append(entry)
                continue
            left = difference(difference(entry.get("fieldsV1") or {}, taken), removed)
            if left:
                kept.append(entry if left == entry.get("fieldsV1") else entry | {"fieldsV1": left})
        entries = kept
    entries = record_apply(entries, request.manager, request.api_version, request.subresource, applied, now)
    if entries:
        meta["managedFields"] = entries


def intersection_below(changed: FieldSet, applied: FieldSet) -> FieldSet:
    """What of `changed` was applied; a changed field counts with everything below it."""
    result: FieldSet = {}
    for key, below in changed.items():
        if key in applied:
            found = intersection_below(below, applied[key]) if below and applied[key] else below
            if found or not below:
                result[key] = found
    return result


def record_apply(
    entries: list[Object], manager: str, api_version: str, subresource: str, fields: FieldSet, now: str
) -> list[Object]:
    """Entries after a manager applied `fields`: exactly these are its own from now on."""
    result = [
        entry
        for entry in entries
        if not (is_apply_of(entry, manager, subresource) or (entry.get("fieldsV1") == {}))
    ]
    before = next((entry for entry in entries if is_apply_of(entry, manager, subresource)), None)
    if before is not None and before["fieldsV1"] == fields and before["apiVersion"] == api_version:
        return entries
    if fields:
        result.insert(0, _entry(manager, "Apply", api_version, subresource, fields, now))
    return result


def is_apply_of(entry: Object, manager: str, subresource: str) -> bool:
    return (
        entry.get("manager") == manager
        and entry.get("operation") == "Apply"
        and entry.get("subresource", "") == subresource
    )


def at(value: Any, fields: FieldSet, typing: Typing) -> Any:
    """The part of a value that a set of fields covers, for comparing what two managers want."""
    if not fields or set(fields) == {"."}:
        return value
    if isinstance(value, dict):
        return {
            key[2:]: at(value[key[2:]], below, typing.field(key[2:]))
            for key, below in fields.items()
            if key[0] == "f" and key[2:] in value
        }
    if isinstance(value, list):
        by_key = {element_key(typing, item): item for item in value}
        return [at(by_key[key], below, typing.element()) for key, below in fields.items() if key in by_key]
    return value


def conflicts(
    entries: list[Object],
    manager: str,
    subresource: str,
    fields: FieldSet,
    live: Object,
    applied: Object,
    typing: Typing,
) -> list[tuple[Object, list[str]]]:
    """Fields that others own and that are applied with another value: per entry, the paths."""
    found = []
    for entry in entries:
        if is_apply_of(entry, manager, subresource):
            continue
        shared = intersection(fields, entry.get("fieldsV1") or {})
        paths = [
            path
            for path, mine, theirs in _values(shared, applied, live, typing, "")
            if mine is not _ABSENT and mine != theirs
        ]
        if paths:
            found.append((entry, paths))
    return found


def _values(
    fields: FieldSet, applied: Any, live: Any, typing: Typing, path: str
) -> list[tuple[str, Any, Any]]:
    """(path, applied value, live value) of a set's leaves."""
    found: list[tuple[str, Any, Any]] = []
    for key, below in fields.items():
        if key == ".":
            continue
        mine, theirs = _child(applied, key, typing), _child(live, key, typing)
        here = path + _step(key)
        if below and set(below) != {"."}:
            step = typing.field(key[2:]) if key[0] == "f" else typing.element()
            found += _values(below, mine, theirs, step, here)
        elif key[0] == "f" and set(below) != {"."}:
            found.append((here, mine, theirs))
    return found


def _child(value: Any, key: str, typing: Typing) -> Any:
    if key[0] == "f":
        return value.get(key[2:], _ABSENT) if isinstance(value, dict) else _ABSENT
    if isinstance(value, list):
        return next((item for item in value if element_key(typing, item) == key), _ABSENT)
    return _ABSENT
