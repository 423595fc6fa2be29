"""What a change to an event type may do to those who have its old messages: nothing.

Old messages stay on the log for as long as it is retained, and in exports for ever. A field may be
added when it has a default, and a type may be widened. Everything else needs a new tag and an upcast.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

Schema: TypeAlias = dict[str, Any]

MISSING = object()


def breaking_changes(old: Schema, new: Schema) -> list[str]:
    """Every way in which `new` would misread what was written under `old`, each naming the field."""
    return list(
        _changes(old, new, old.get("$defs", {}), new_defs=new.get("$defs", {}), path="$", seen=frozenset())
    )


def _changes(  # noqa: C901  # one rule after the other
    old: Schema,
    new: Schema,
    old_defs: Schema,
    *,
    new_defs: Schema,
    path: str,
    seen: frozenset[tuple[str, str]],
) -> Iterator[str]:
    """Differences at `path`; `seen` holds the pairs of definitions that are being compared already."""
    pair = (old.get("$ref", ""), new.get("$ref", ""))
    if all(pair):
        if pair in seen:
            return
        seen |= {pair}
    old, new = _resolved(old, old_defs), _resolved(new, new_defs)

    if "anyOf" in old or "anyOf" in new:
        choices = new.get("anyOf", [new])
        for alternative in old.get("anyOf", [old]):
            fits = any(
                not list(_changes(alternative, choice, old_defs, new_defs=new_defs, path=path, seen=seen))
                for choice in choices
            )
            if not fits:
                yield f"{path}: no longer accepts {_kind(alternative)}"
        return
    if "enum" in old or "enum" in new:
        gone = [value for value in old.get("enum", []) if value not in new.get("enum", [value])]
        if gone:
            yield f"{path}: no longer accepts {', '.join(map(repr, gone))}"
        elif "enum" not in old:
            yield f"{path}: accepted any {_kind(old)}, and now only {new['enum']}"
        return
    if not _covers(new.get("type"), old.get("type")):
        yield f"{path}: was {_kind(old)}, and is {_kind(new)}"
        return

    old_fields, new_fields = old.get("properties", {}), new.get("properties", {})
    for name, field in old_fields.items():
        if name not in new_fields:
            yield f"{path}.{name}: removed or renamed"
            continue
        yield from _changes(
            field, new_fields[name], old_defs, new_defs=new_defs, path=f"{path}.{name}", seen=seen
        )
        before, after = field.get("default", MISSING), new_fields[name].get("default", MISSING)
        if before is not MISSING and after is not MISSING and before != after:
            # A field at its default is not written, so another default rewrites the history.
            yield f"{path}.{name}: its default was {before!r}, and is {after!r}"
    for name in new.get("required", []):
        if name not in old.get("required", []):
            yield f"{path}.{name}: newly required" + (
                "" if name in old_fields else ", and older messages do not have it: give it a default"
            )
    for inner in ("items", "additionalProperties"):
        if isinstance(new.get(inner), dict):
            if isinstance(old.get(inner), dict):
                yield from _changes(
                    old[inner], new[inner], old_defs, new_defs=new_defs, path=f"{path}[]", seen=seen
                )
            elif new[inner]:
                yield f"{path}[]: accepted anything, and now only {_kind(_resolved(new[inner], new_defs))}"


def _resolved(schema: Schema, definitions: Schema) -> Schema:
    reference = schema.get("$ref")
    return definitions[reference.rpartition("/")[2]] if reference else schema


def _covers(new: Any, old: Any) -> bool:
    """Whether values of type `old` are values of type `new`; None is any type."""
    return new is None or new == old or (new, old) == ("number", "integer")


def _kind(schema: Schema) -> str:
    if "anyOf" in schema:
        return " or ".join(_kind(choice) for choice in schema["anyOf"])
    if "enum" in schema:
        return "one of " + ", ".join(map(str, schema["enum"]))
    return str(schema.get("type") or schema.get("$ref", "anything").rpartition("/")[2])
