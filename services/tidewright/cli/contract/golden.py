"""One sample of every event type, with every field said.

The files lie in `tests/golden/events/<tag>.json`. A sample once written stays: only fields that the
type has gained are added to it, so what decodes today decodes for ever.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect as types

from tidewright.events.base import Event
from tidewright.events.registry import BY_NAME, NotAnEvent, Unknown, decode, encode

NOON = 1416571200.25  # an arbitrary log time with a fraction


def sample(event_type: type[Event], tag: str) -> dict[str, Any]:
    """A JSON object of this type in which no field is at its default."""
    described = types.type_info(event_type)
    if not isinstance(described, types.StructType):
        raise TypeError(f"{tag}: {event_type.__name__} is no Struct")
    return {
        "type": tag,
        **{f.encode_name: _value(f.type, f.encode_name, f.default) for f in described.fields},
    }


def _value(described: types.Type, name: str, default: Any = None) -> Any:
    """A value of the described type that is not `default`."""
    match described:
        case types.BoolType():
            return default is not True
        case types.IntType():
            return 7
        case types.FloatType():
            return NOON if name in {"at", "due", "log", "wall"} or name.endswith("_at") else 2.5
        case types.StrType():
            return f"some-{name.replace('_', '-')}"
        case types.LiteralType(values=values):
            return next((v for v in values if v != default), values[0])
        case types.EnumType(cls=cls):
            return next((m.value for m in cls if m != default), next(iter(cls)).value)
        case types.UnionType(types=alternatives):
            return _value(next(t for t in alternatives if not isinstance(t, types.NoneType)), name, default)
        case (
            types.ListType(item_type=item)
            | types.VarTupleType(item_type=item)
            | types.SetType(item_type=item)
        ):
            return [_value(item, name)]
        case types.FrozenSetType(item_type=item):
            return [_value(item, name)]
        case types.TupleType(item_types=items):
            return [_value(item, name) for item in items]
        case types.DictType(value_type=value):
            return {"some-key": _value(value, name)}
        case types.StructType(fields=fields, tag_field=tag_field, tag=tag):
            # One of several types within an event says which one it is.
            said = {} if tag_field is None else {tag_field: tag}
            return {**said, **{f.encode_name: _value(f.type, f.encode_name, f.default) for f in fields}}
        case types.AnyType():
            return {"nested": [1, "two", None]}
        case _:
            raise TypeError(f"{name}: no sample for {described}: add its type to {__name__}")


def path_of(folder: Path, tag: str) -> Path:
    """Where the sample of this type lies."""
    return folder / f"{tag}.json"


def stored(folder: Path, tag: str) -> bytes:
    """The sample of this type, as it lies there.

    Raises:
        FileNotFoundError: there is none.
    """
    try:
        return path_of(folder, tag).read_bytes()
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{tag} has no sample in {folder} yet: `make golden` writes it") from error


def complete(folder: Path) -> list[Path]:
    """Write the samples that are missing, and the fields that are missing in those there are."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for tag, event_type in BY_NAME.items():
        path, fresh = path_of(folder, tag), sample(event_type, tag)
        kept = json.loads(path.read_text()) if path.exists() else {}
        if fresh.keys() - kept.keys():
            path.write_text(json.dumps({**fresh, **kept}, indent=2) + "\n")
            written.append(path)
    return written


def complaints(folder: Path) -> list[str]:
    """What is wrong with the samples: missing, no longer decoding, or losing a field on the way."""
    problems = []
    for tag, event_type in BY_NAME.items():
        path = path_of(folder, tag)
        if not path.exists():
            problems.append(f"{path}: {tag} has no golden file; `make golden` writes one")
            continue
        body = path.read_bytes()
        try:
            event = decode(body)
        except NotAnEvent as error:
            problems.append(
                f"{path}: no longer decodes: {error}; give the changed type a new tag and an upcast"
            )
            continue
        if isinstance(event, Unknown):
            problems.append(f"{path}: holds a {event.type}, which no type here reads")
            continue
        before, after = msgspec.json.decode(body), msgspec.json.decode(encode(event))
        lost = sorted(k for k, v in before.items() if after.get(k) != v)
        if lost:
            problems.append(
                f"{path}: {', '.join(lost)} lost or changed in decoding; fields are never taken away"
            )
        unsaid = sorted(sample(event_type, tag).keys() - before.keys())
        if unsaid:
            problems.append(f"{path}: does not say {', '.join(unsaid)}; `make golden` adds new fields")
    known = {path_of(folder, tag) for tag in BY_NAME}
    for path in sorted(set(folder.glob("*.json")) - known):
        problems.append(f"{path}: its event type is gone; a type that was ever written must decode for ever")
    return problems
