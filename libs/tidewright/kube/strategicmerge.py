"""Strategic merge of a patch into an object of a built-in kind, as the API server does it.

    merge(original, patch, type_name, fields)   the directives are `$patch`, `$retainKeys`,
                                                `$deleteFromPrimitiveList/...` and `$setElementOrder/...`

`fields` says of a type's field what type its value (or each element) has, and how it merges (`kube.mergekeys`). Nothing
given is changed; results share unchanged parts with their sources.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from tidewright.events.base import JsonObject
from tidewright.kube.mergekeys import PLAIN, Strategy

PATCH = "$patch"
RETAIN_KEYS = "$retainKeys"
DELETE_FROM_LIST = "$deleteFromPrimitiveList"
SET_ELEMENT_ORDER = "$setElementOrder"


class InvalidPatch(ValueError):
    """The patch cannot be merged, or its result is no object of its type; the message names the field."""


class UnknownDirective(InvalidPatch):
    """`$patch` says something that it cannot."""

    def __init__(self, directive: Any, within: Mapping[str, Any], valid: str) -> None:
        super().__init__(f"{PATCH} is {directive!r}; valid are {valid}")
        self.directive, self.within = directive, within


class NoMergeKey(InvalidPatch):
    """An element of a list that merges by a key has none."""

    def __init__(self, element: Mapping[str, Any], key: str, what: str) -> None:
        super().__init__(f"{what} names no {key!r}, its merge key")
        self.element, self.key = element, key


class MalformedDirective(InvalidPatch):
    """A directive does not have the form that it must have; `directive` is its name without a field."""

    def __init__(self, directive: str, message: str) -> None:
        super().__init__(message)
        self.directive = directive


class ListOfLists(InvalidPatch):
    """A list that merges holds lists."""


class Field(NamedTuple):
    """A field of a type: the type of its value, or of each element of a list, and how it merges."""

    type_name: str
    strategy: Strategy = PLAIN


Fields: TypeAlias = Callable[[str, str], Field]
"""Of the name of a type and of a field."""


def merge(
    original: Mapping[str, Any], patch: Mapping[str, Any], type_name: str, fields: Fields
) -> JsonObject:
    """Merge `patch` over `original`, both of the type `type_name`.

    Raises:
        InvalidPatch: an unknown or malformed directive, an element without its merge key, keys that
            `$retainKeys` does not list, a list of mixed types, or an order that the patch's own contradicts.
    """
    return _Merge(fields).objects(original, patch, type_name)


class _Merge:
    """A merge of one patch; `fields` as given."""

    def __init__(self, fields: Fields) -> None:
        self.fields = fields

    def objects(self, original: Mapping[str, Any], patch: Mapping[str, Any], type_name: str) -> JsonObject:
        if PATCH in patch:
            match patch[PATCH]:
                case "replace":
                    return {k: v for k, v in patch.items() if k != PATCH}
                case "delete":
                    return {}
                case other:
                    raise UnknownDirective(other, patch, "'replace' and 'delete'")
        changes = dict(patch)
        merged = _retained(dict(original), changes)
        self._ordered_lists(merged, changes, type_name)
        for key, value in changes.items():
            name, deletes = _named(key, DELETE_FROM_LIST)
            if value is None:
                merged.pop(name, None)
                continue
            present = merged.get(name)
            if isinstance(present, dict) and isinstance(value, Mapping):
                field = self.fields(type_name, name)
                replaced = field.strategy.replaced
                merged[name] = dict(value) if replaced else self.objects(present, value, field.type_name)
            elif isinstance(present, list) and isinstance(value, list):
                merged[name] = self._lists(present, value, self.fields(type_name, name), deletes=deletes)
            elif deletes:
                continue
            elif _directs(value):
                merged.pop(name, None)
            else:
                merged[name] = _fresh(value)
        return merged

    def _ordered_lists(self, merged: JsonObject, changes: JsonObject, type_name: str) -> None:
        """Lists with an explicit order; they are taken out of `changes`."""
        for directive in [key for key in changes if key.startswith(SET_ELEMENT_ORDER)]:
            order = changes.pop(directive)
            name, _ = _named(directive, SET_ELEMENT_ORDER)
            present, change = merged.get(name), changes.get(name)
            if wrong := next(
                (v for v in (order, present, change) if v is not None and not isinstance(v, list)), None
            ):
                raise InvalidPatch(f"{directive} orders a list, and {wrong!r} is none")
            if order is None:
                raise InvalidPatch(f"{directive} orders a list, and null is none")
            field = self.fields(type_name, name)
            key = field.strategy.merge_key or ""
            if change is not None:
                _check_order(change, order, key, directive)
                del changes[name]
                items = _fresh(change) if present is None else self._lists(present, change, field)
            elif present is not None:
                items = present
            else:
                continue
            merged[name] = _ordered(items, order, present or [], key)

    def _lists(
        self, original: Sequence[Any], patch: Sequence[Any], field: Field, *, deletes: bool = False
    ) -> list[Any]:
        key = field.strategy.merge_key
        if key is None:
            return list(patch)
        if not original and not patch:
            return []
        maps = _are_objects(original, patch, field)
        if not maps and deletes:
            gone = [_text(item) for item in patch]
            return [item for item in original if _text(item) not in gone]
        if not maps:
            both = list({_text(item): item for item in (*original, *patch)}.values())
            return _ordered(both, patch, original, "")
        kept, plain = _directed(original, patch, key)
        merged = list(kept)
        places = {_identity(item, key): place for place, item in reversed(list(enumerate(merged)))}
        for item in plain:
            if key not in item:
                raise NoMergeKey(item, key, f"an element of a list of {field.type_name}")
            place = places.setdefault(_identity(item, key), len(merged))
            if place == len(merged):
                merged.append(_fresh(item))
            else:
                merged[place] = self.objects(merged[place], item, field.type_name)
        return _ordered(merged, plain, kept, key)


def _named(key: str, directive: str) -> tuple[str, bool]:
    """The field that a directive is about, and whether it is one; another key is a field by itself."""
    if not key.startswith(directive):
        return key, False
    _, slash, name = key.partition("/")
    if not slash:
        raise MalformedDirective(directive, f"{key!r} names no field: expected {directive}/FIELD")
    return name, True


def _retained(original: JsonObject, changes: JsonObject) -> JsonObject:
    if RETAIN_KEYS not in changes:
        return original
    retained = changes.pop(RETAIN_KEYS)
    if not isinstance(retained, list):
        raise MalformedDirective(RETAIN_KEYS, f"{RETAIN_KEYS} is no list")
    for key, value in changes.items():
        listed = value is None or key in retained or key.startswith((DELETE_FROM_LIST, SET_ELEMENT_ORDER))
        if not listed:
            raise MalformedDirective(
                RETAIN_KEYS, f"{RETAIN_KEYS} lists {retained} but the patch also sets {key!r}"
            )
    return {k: v for k, v in original.items() if k in retained}


def _are_objects(original: Sequence[Any], patch: Sequence[Any], field: Field) -> bool:
    """Whether the elements are objects; all of them are of one type, and none is a list."""
    everything = [*original, *patch]
    if any(isinstance(item, list) for item in everything):
        raise ListOfLists(f"a list of {field.type_name} holds lists")
    maps = [isinstance(item, Mapping) for item in everything]
    if any(maps) != all(maps):
        raise InvalidPatch(f"list of {field.type_name} mixes objects and scalars")
    if any(maps) != bool(field.strategy.merge_key):
        raise InvalidPatch(
            f"list of {field.type_name} holds {'objects' if any(maps) else 'scalars'}: "
            f"{'scalars' if any(maps) else 'objects'} were expected"
        )
    return any(maps)


def _directed(
    original: Sequence[Any], patch: Sequence[Any], key: str
) -> tuple[list[Any], list[Mapping[str, Any]]]:
    """What directives among the elements leave of the list, and the elements that are none."""
    kept, plain, replace = list(original), [], False
    for item in patch:
        if PATCH not in item:
            plain.append(item)
            continue
        match item[PATCH]:
            case "replace":
                replace = True
            case "delete":
                if key not in item:
                    raise NoMergeKey(item, key, "an element to delete")
                kept = [there for there in kept if _identity(there, key) != _identity(item, key)]
            case other:
                raise UnknownDirective(other, item, "'replace' and 'delete', for an element of a list")
    return ([], plain) if replace else (kept, plain)


def _check_order(change: Sequence[Any], order: Sequence[Any], key: str, directive: str) -> None:
    """The patch's own list is in the order that it asks for, and nothing of it is left out."""
    if not change or not order:
        return
    named = [_identity(item, key) for item in change if not _directs(item)]
    ordered = iter([_identity(item, key) for item in order])
    if not all(identity in ordered for identity in named):
        raise InvalidPatch(f"the patch's list is not in the order of its {directive}: {order!r}")


def _text(item: Any) -> str:
    """A value to compare by, as JSON tells values apart."""
    return json.dumps(item, sort_keys=True)


def _identity(item: Any, key: str) -> str:
    return _text(item.get(key) if key and isinstance(item, Mapping) else item)


def _ordered(items: Sequence[Any], order: Sequence[Any], live: Sequence[Any], key: str) -> list[Any]:
    """Items that `order` names in that order; the others between them where the live list had them.

    A live item goes in front of the first ordered item that followed it in the live list; it comes
    after those that the live list did not have.
    """
    places = {_identity(item, key): place for place, item in reversed(list(enumerate(order)))}
    was = {_identity(item, key): place for place, item in reversed(list(enumerate(live)))}
    identities = [(_identity(item, key), item) for item in items]
    named = sorted((pair for pair in identities if pair[0] in places), key=lambda pair: places[pair[0]])
    others = [pair for pair in identities if pair[0] not in places]
    result: list[Any] = []
    at = 0
    for mine, item in named:
        while at < len(others) and mine in was:
            other = others[at][0]
            if other not in was or was[other] >= was[mine]:
                break
            result.append(others[at][1])
            at += 1
        result.append(item)
    return [*result, *(item for _, item in others[at:])]


def _fresh(value: Any) -> Any:
    """What a patch adds where nothing was: without nulls, and without objects that say `$patch`."""
    if isinstance(value, Mapping):
        return {
            k: _fresh(v)
            for k, v in value.items()
            if v is not None and not _directs(v) and not k.startswith("$")
        }
    if isinstance(value, list):
        return [_fresh(v) for v in value if not _directs(v)]
    return value


def _directs(value: Any) -> bool:
    return isinstance(value, Mapping) and PATCH in value
