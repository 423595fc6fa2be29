"""Field managers: who owns which field, and the merge of what a manager applies.

How lists and maps merge is their `Typing`: by the names of the fields for built-in kinds, by the schema for custom
resources. Fields that somebody applies are `applied_fields`; fields that an ordinary write changed are
`changed_fields`, which also tell of places that were not there before (`.`). `track` notes an ordinary write in
`managedFields`; server-side apply (`applying.py`) uses `merge`, `remove` and `entries_after`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tidewright.sim.api.apply.field_sets import LEAF, SELF, FieldSet, difference, element_path, union
from tidewright.sim.api.apply.typing import Typing
from tidewright.sim.api.http.request import Request

Object = dict[str, Any]

_ABSENT = object()
_NESTED: frozenset[type] = frozenset({dict, list})
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
# Places that a typed object without anything in it already has, each below another or at the top: structs that are
# no pointers, and lists that are written even when there is none. What is new there has no `.` of its own.
_ALWAYS_THERE = frozenset(
    {
        "containers",
        "involvedObject",
        "jobTemplate",
        "loadBalancer",
        "metadata",
        "names",
        "resources",
        "rules",
        "scaleTargetRef",
        "source",
        "spec",
        "status",
        "strategy",
        "template",
        "updateStrategy",
        "versions",
    }
)
_encode = msgspec.json.Encoder(order="sorted").encode


def element_key(typing: Typing, item: Any) -> str | None:
    """How a list element is called in a set of fields; None when it cannot be told apart."""
    keys = typing.map_keys
    if keys is not None:
        if not isinstance(item, dict):
            return None
        key_values = {key: item.get(key, typing.key_default(key)) for key in keys}
        return "k:" + _encode({key: value for key, value in key_values.items() if value is not None}).decode()
    return "v:" + _encode(item).decode()


# -- what somebody applies -----------------------------------------------------------------------------


def applied_fields(value: Any, typing: Typing) -> FieldSet:
    """The fields below an applied value: its leaves, elements of lists, and keys of free maps."""
    result: FieldSet = {}
    if isinstance(value, dict) and not typing.atomic:
        for key, item in value.items():
            below = typing.field(key)
            if item.__class__ not in _NESTED or _is_leaf(item, below):
                result[f"f:{key}"] = LEAF
                continue
            fields = applied_fields(item, below)
            if not typing.declares(key):
                result[f"f:{key}"] = {SELF: LEAF, **fields} if fields else LEAF
            elif fields:
                result[f"f:{key}"] = fields
    elif isinstance(value, list) and typing.associative:
        for item in value:
            name = element_key(typing, item)
            if name is not None:
                fields = applied_fields(item, typing.element())
                result[name] = {SELF: LEAF, **fields} if fields else LEAF
    return result


def _is_leaf(value: Any, typing: Typing) -> bool:
    """Whether a map or list is owned as a whole."""
    if isinstance(value, dict):
        return typing.atomic or not value
    return not typing.associative


def applied_by(obj: Object, typing: Typing, *, without: str) -> FieldSet:
    """The fields of an applied object, but for what the server owns and the part named `without`."""
    meta = {key: item for key, item in (obj.get("metadata") or {}).items() if key not in _UNTRACKED_METADATA}
    rest = {key: item for key, item in obj.items() if key not in _IDENTITY and key != without}
    fields = applied_fields(rest | {"metadata": meta}, typing)
    if not meta:
        fields.pop("f:metadata", None)
    return fields


def not_told_apart(value: Any, typing: Typing, path: str) -> list[str]:
    """Elements of keyed lists that have no key of their own, or one that another has."""
    problems: list[str] = []
    if isinstance(value, dict) and not typing.atomic:
        for key, item in value.items():
            if item.__class__ in _NESTED:
                problems += not_told_apart(item, typing.field(key), f"{path}.{key}")
    elif isinstance(value, list) and typing.associative:
        seen: set[str] = set()
        for index, item in enumerate(value):
            name = element_key(typing, item)
            keys = typing.map_keys or ()
            if keys and isinstance(item, dict) and not any(key in item for key in keys):
                problems.append(
                    f"{path}: element {index}: associative list with keys has an element that omits key field "
                    f"{_encode(keys[0]).decode()} (and doesn't have default value)"
                )
            elif name is not None and name in seen:
                problems.append(f"{path}: duplicate entries for key {element_path(name)}")
            elif name is not None:
                problems += not_told_apart(item, typing.element(), f"{path}{element_path(name)}")
                seen.add(name)
    return problems


# -- what a write changed ------------------------------------------------------------------------------


def _whole(value: Any, typing: Typing, *, there: bool = False, by_default: bool = False) -> FieldSet:
    """Every place at and below a value that is new (or gone); `there` when the place itself is not new.

    `by_default` says that it was there because its type always has it, so that others below it may be too.
    """
    fields: FieldSet = {}
    if isinstance(value, dict) and not typing.atomic:
        field = typing.field
        for key, item in value.items():
            if item.__class__ not in _NESTED:
                fields[f"f:{key}"] = LEAF
            elif by_default and key in _ALWAYS_THERE:
                _filled(key, item, field(key), fields)
            else:
                fields[f"f:{key}"] = _whole(item, field(key))
    elif isinstance(value, list) and typing.associative:
        for item in value:
            name = element_key(typing, item)
            if name is not None:
                fields[name] = _whole(item, typing.element())
    return fields if there or not fields else {SELF: LEAF, **fields}


def _filled(key: str, value: Any, typing: Typing, fields: FieldSet) -> None:
    """Add what is new at a place that was there by its type, and empty."""
    below = _whole(value, typing, there=True, by_default=True)
    if below or (value and _is_leaf(value, typing)):
        fields[f"f:{key}"] = below


def changed_fields(
    new: Object, old: Object | None, typing: Typing, *, typed: bool
) -> tuple[FieldSet, FieldSet]:
    """What of an object differs from the one before: (set or changed, removed).

    Args:
        new: the object as it is now.
        old: as it was; None for one that is created.
        typing: how its fields merge.
        typed: it is of a built-in kind, whose objects have places by their type.
    """
    changed: FieldSet = {}
    removed: FieldSet = {}
    for key in {**new, **(old or {})}:
        if key in _IDENTITY:
            continue
        after = new.get(key, _ABSENT)
        before = _ABSENT if old is None else old.get(key, _ABSENT)
        if after is before or (key != "metadata" and after == before):
            continue
        below = typing.field(key)
        if key == "metadata":
            _changed_metadata(new[key], None if old is None else old[key], below, changed, removed)
            continue
        if typed and before is _ABSENT and key in _ALWAYS_THERE:
            _filled(key, after, below, changed)
            continue
        _compare(f"f:{key}", after, before, typing=below, changed=changed, removed=removed)
    return changed, removed


def _changed_metadata(
    new: Object, old: Object | None, typing: Typing, changed: FieldSet, removed: FieldSet
) -> None:
    """What of metadata differs that is anybody's to own."""
    set_here: FieldSet = {}
    gone_here: FieldSet = {}
    for key in new if old is None else {**new, **old}:
        after = new.get(key, _ABSENT)
        before = _ABSENT if old is None else old.get(key, _ABSENT)
        if after is not before and key not in _UNTRACKED_METADATA:
            _compare(f"f:{key}", after, before, typing=typing.field(key), changed=set_here, removed=gone_here)
    if set_here:
        changed["f:metadata"] = set_here
    if gone_here:
        removed["f:metadata"] = gone_here


def _compare(name: str, new: Any, old: Any, *, typing: Typing, changed: FieldSet, removed: FieldSet) -> None:
    if new is old or new == old:
        return
    if old is _ABSENT:
        changed[name] = _whole(new, typing)
        return
    if new is _ABSENT:
        removed[name] = _whole(old, typing)
        return
    below_changed: FieldSet = {}
    below_removed: FieldSet = {}
    if _nested(new, old, dict) and not typing.atomic:
        before, after = old or {}, new or {}
        for key in {**after, **before}:
            _compare(
                f"f:{key}",
                after.get(key, _ABSENT),
                before.get(key, _ABSENT),
                typing=typing.field(key),
                changed=below_changed,
                removed=below_removed,
            )
    elif _nested(new, old, list) and typing.associative:
        now = {element_key(typing, item): item for item in new or ()}
        was = {element_key(typing, item): item for item in old or ()}
        for key in {**now, **was}:
            if key is not None:
                _compare(
                    key,
                    now.get(key, _ABSENT),
                    was.get(key, _ABSENT),
                    typing=typing.element(),
                    changed=below_changed,
                    removed=below_removed,
                )
    else:
        changed[name] = LEAF
        return
    if below_changed:
        changed[name] = below_changed
    if below_removed:
        removed[name] = below_removed


def _nested(new: Any, old: Any, kind: type) -> bool:
    """Whether two values are compared part by part: both of the kind, or one of it and the other null."""
    return isinstance(new, kind | None) and isinstance(old, kind | None)


# -- entries -------------------------------------------------------------------------------------------


def track(request: Request, new: Object, old: Object | None, now: str, typing: Typing) -> None:
    """Note in `managedFields` what an ordinary write set and removed."""
    meta = new["metadata"]
    kind, subresource = request.kind, request.subresource
    given = meta.pop("managedFields", None)
    entries: list[Object] = list((old or {}).get("metadata", {}).get("managedFields") or ())
    if given and not subresource:
        if given == [{}]:
            entries = []  # the documented way to start over
        elif all(_is_entry(entry) for entry in given):
            entries = given
    changed, removed = changed_fields(new, old, typing, typed=not kind.custom)
    if kind.status:
        # what this way cannot change is not its own either
        for name in ("f:spec",) if subresource == "status" else ("f:status",):
            changed.pop(name, None)
            removed.pop(name, None)
    if changed or removed:
        entries = after_update(
            entries,
            request.manager,
            request.api_version,
            subresource=subresource,
            changed=changed,
            removed=removed,
            now=now,
        )
    if entries:
        meta["managedFields"] = entries


def _is_entry(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and entry.get("operation") in {"Apply", "Update"}
        and entry.get("fieldsType") == "FieldsV1"
        and isinstance(entry.get("fieldsV1"), dict)
        and isinstance(entry.get("apiVersion"), str)
    )


def after_update(
    entries: list[Object],
    manager: str,
    api_version: str,
    *,
    subresource: str,
    changed: FieldSet,
    removed: FieldSet,
    now: str,
) -> list[Object]:
    """Entries after a manager changed fields: they become its own, and nobody else's."""
    result: list[Object] = []
    mine: Object | None = None
    for entry in entries:
        fields: FieldSet = entry.get("fieldsV1") or {}
        remaining = difference(fields, removed) if removed else fields
        if (
            entry.get("operation") == "Update"
            and entry.get("manager") == manager
            and entry.get("subresource", "") == subresource
            and entry.get("apiVersion") == api_version
        ):
            mine = entry
            if changed:
                entry = entry | {"fieldsV1": union(remaining, changed), "time": now}
            elif remaining is not fields:
                entry = entry | {"fieldsV1": remaining}
            result.append(entry)
            continue
        if changed:
            remaining = difference(remaining, changed)
        if remaining:
            result.append(entry if remaining == fields else entry | {"fieldsV1": remaining})
    if mine is None and changed:
        result.append(
            new_entry(manager, "Update", api_version, subresource=subresource, fields=changed, now=now)
        )
    return ordered([entry for entry in result if entry["fieldsV1"]])


def new_entry(
    manager: str, operation: str, api_version: str, *, subresource: str, fields: FieldSet, now: str
) -> Object:
    """An entry of `managedFields`."""
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


def ordered(entries: list[Object]) -> list[Object]:
    """Entries as the API server writes them: what was applied first, then the oldest first."""
    if len(entries) < 2:
        return entries
    return sorted(
        entries,
        key=lambda entry: (
            entry.get("operation", ""),
            entry.get("time") or "",
            entry.get("manager", ""),
            entry.get("apiVersion", ""),
            entry.get("subresource", ""),
        ),
    )


# -- merging -------------------------------------------------------------------------------------------


def merge(live: Any, applied: Any, typing: Typing) -> Any:
    """What is live, with what is applied put over it."""
    if isinstance(applied, dict) and isinstance(live, dict) and not typing.atomic:
        result = dict(live)
        for key, value in applied.items():
            result[key] = merge(live[key], value, typing.field(key)) if key in live else value
        return result
    if isinstance(applied, list) and isinstance(live, list) and typing.associative:
        before = {element_key(typing, item): item for item in live}
        applied_items = {element_key(typing, item): item for item in applied}
        merged = {
            key: merge(before[key], item, typing.element()) if key in before else item
            for key, item in applied_items.items()
        }
        result_list = [merged.pop(key, before[key]) for key in before]
        return result_list + list(merged.values())
    return applied


def remove(value: Any, fields: FieldSet, typing: Typing) -> Any:
    """The value without the fields of a set."""
    if isinstance(value, dict):
        result = dict(value)
        for key, below in fields.items():
            name = key[2:]
            if key[0] != "f" or name not in result:
                continue
            if not below or SELF in below:
                del result[name]
            else:
                result[name] = remove(result[name], below, typing.field(name))
        return result
    if isinstance(value, list):
        kept = []
        for item in value:
            key_of = element_key(typing, item)
            if key_of is None or key_of not in fields:
                kept.append(item)
            elif fields[key_of] and SELF not in fields[key_of]:
                kept.append(remove(item, fields[key_of], typing.element()))
        return kept
    return value
