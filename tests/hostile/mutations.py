"""Objects as an ill-meaning or unlucky user writes them: what an API server has, with something else at some places of it.

A mutation takes a place, and puts there one of `VALUES`, or does one of the deeds that look at what is there. What
an API server's schema would refuse is tried all the same: of custom resources, and of templates in somebody else's
kinds, there is none.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any, Final

from tidewright.events.base import JsonObject


class Literal:
    """A JSON text as it is: what Python has no value for."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return f"Literal({self.text[:40]})"


def _nested(depth: int) -> Any:
    found: Any = "x"
    for level in range(depth):
        found = {"a": found} if level % 2 else [found]
    return found


_NUMBERS: Final = (
    0, -0.0, -1, 1, 2, 0.5, 1.5, 100, 255, 65_536, 2**31 - 1, 2**31, -(2**31) - 1, 2**53, 2**53 + 1, 2**63 - 1, 2**63,
    -(2**63), 2**64, 10**30, -(10**30), 1e300, -1e300, 5e-324, 1e19, 253_402_300_800, 1e15,
)  # fmt: skip
_TIMES: Final = (
    "0001-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59Z", "9999-12-31T23:59:59.999999Z",
    "9999-12-31T23:59:59-12:00", "1969-12-31T23:59:59Z", "2026-11-20", "2026-11-20T10:00:00", "2026-W47-5",
    "2026-13-01T00:00:00Z", "2016-12-31T23:59:60Z", "24:00", "2030-01-01T00:00:00Z",
)  # fmt: skip
_AMOUNTS: Final = (
    "0", "-0", "1n", "-1", "-1E", "10P", "10E", "1Ei", "16Ei", "9223372036854775807", "9223372036854775808", "1e18", "1e99",
    "1e-99", "1e999999999", "1e-999999999", "1E400", ".5", "5.", "0.0000000001", "1.5Gi", "1 ", "+1", "１", "0x10", "1_000", "1kk",
    "NaN", "inf", "-Infinity", "nan", "1" * 25, "1" * 5000, "0." + "0" * 5000 + "1",
)  # fmt: skip
_TEXTS: Final = (
    "", " ", "a", "-", "/", "a/b", "a/b/c", "*", ".", "..", "%", "100%", "-5%", "99999999999%", "50.5%", "\x00", "\n", "ä", "𝔘𝔫𝔦", "\u202e", "\ufeff",
    "a" * 300, "x" * 9_000, "ns/", "/name", "a.b>c", "a b", "$(X)", "{}", "{namespace", "[]", "null", "true", "False", "1", "-1", "007", "0-7", "5-1",
    "0-99999999999", "1,2,3,", "1-2-3", "10s", "-10s", "1h", "999999999999h", "1e9s", "inf", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt",
    "Nonsense", "NoSchedule", "kubernetes.io/hostname", "topology.kubernetes.io/zone", "(a+)+$", "[", "²", "١", "9" * 5000, "-" + "9" * 5000, "9" * 5000 + "%", "0-9999999999", ",".join(["0-32767"] * 300), "a{99999}", "device.driver",
    "device.x.y.z == 1", "(" * 500, "[1,2,3].all(x, [1,2,3].all(y, x == y))", "1/0 == 1", "'a' < 1", "size(device) > 0",
    '{"a": [', '{"name": 5, "subset": []}', '{"lead": "10m"}', "lead=10m,confidence=2", "lead=inf,confidence=nan", "lead=-1s",
)  # fmt: skip
_OTHERS: Final[tuple[Any, ...]] = (
    None, True, False, [], {}, [[]], [{}], [None], {"": ""}, {"a": None}, {"a": {}}, [1], ["a"], [""], ["a", "a"], [{"a": []}],
    {"a": "b"}, {"key": "a"}, [{"key": "a", "operator": "Nonsense"}], [{"key": "a", "operator": "In"}], {"matchLabels": {"a": 5}},
    {"matchLabels": {"-": "-"}}, {"matchExpressions": [{"key": "", "operator": "In", "values": []}]},
    {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["9" * 30]}]},
    {"cpu": "-1", "memory": "1e30", "": "1", "pods": "5"}, {"cpu": {}}, {"cpu": None}, {"pods": "10E"},
)  # fmt: skip
_LARGE: Final[tuple[Any, ...]] = (
    _nested(40), _nested(70), _nested(300), list(range(1_000)), {f"k{n}": "v" for n in range(1_000)},
    ["a"] * 1_000, [{}] * 1_000, [{"key": f"k{n}", "operator": "Exists"} for n in range(500)],
)  # fmt: skip
_LITERALS: Final = tuple(
    map(
        Literal,
        (
            "1e400",
            "-1e400",
            "NaN",
            "Infinity",
            "1.0",
            "3.0",
            "1e3",
            "0.1e1",
            "1E+2",
            '"\\ud800"',
            '{"a":1,"a":2}',
            "-0",
            "1" * 400,
        ),
    )
)

VALUES: Final[tuple[Any, ...]] = (*_NUMBERS, *_TIMES, *_AMOUNTS, *_TEXTS, *_OTHERS, *_LITERALS)
"""What stands at a place instead; `LARGE` beside it is dear."""
LARGE: Final = _LARGE

Path = tuple[str | int, ...]


def paths(value: Any, within: Path = ()) -> list[Path]:
    """Every place in a value, but the value itself."""
    found: list[Path] = []
    entries: Any = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, entry in entries:
        found += ((*within, key), *paths(entry, (*within, key)))
    return found


def _parent(value: Any, path: Path) -> Any:
    for key in path[:-1]:
        value = value[key]
    return value


NAMED: Final[frozenset[Path]] = frozenset({("metadata",), ("metadata", "name"), ("metadata", "namespace")})
"""What says which object it is; an API server does not let it be anything."""


def own(value: Any) -> Any:
    """A copy of which no part stands at two places."""
    if isinstance(value, dict):
        return {key: own(entry) for key, entry in value.items()}
    return [own(entry) for entry in value] if isinstance(value, list) else value


def places(value: JsonObject) -> list[Path]:
    """Where something may be changed."""
    return [path for path in paths(value) if path not in NAMED]


def alike(there: Any) -> tuple[Any, ...]:
    """Values of the type that stands there, which a schema lets through."""
    if isinstance(there, bool):
        return (True, False)
    if isinstance(there, int | float):
        return _NUMBERS
    if isinstance(there, str):
        if there[-1:] == "Z" and there[:2] == "20":
            return _TIMES
        return (*_AMOUNTS, *_TIMES) if there[:1].isdigit() else _TEXTS
    return tuple(value for value in _OTHERS if isinstance(value, type(there))) or VALUES


def mutated(value: JsonObject, chance: Random, *, large: float = 0.02) -> JsonObject:
    """Another object, with something else at one place."""
    found: JsonObject = own(value)
    path = chance.choice(places(found))
    parent, key = _parent(found, path), path[-1]
    there = parent[key]
    deed = chance.random()
    if deed < 0.45:
        parent[key] = own(chance.choice(alike(there)))
    elif deed < 0.70:
        parent[key] = own(chance.choice(VALUES))
    elif deed < 0.70 + large:
        parent[key] = own(chance.choice(LARGE))
    elif deed < 0.78:
        del parent[key]
    elif deed < 0.84 and isinstance(parent, list):
        parent.extend(own(there) for _ in range(chance.choice((1, 2, 50))))
    elif deed < 0.90 and isinstance(there, dict):
        there[str(chance.choice(_TEXTS))] = own(chance.choice(VALUES))
    elif deed < 0.95 and isinstance(there, list):
        there.insert(chance.randint(0, len(there)), own(chance.choice(VALUES)))
    elif isinstance(there, dict) and there:
        old = chance.choice(sorted(there))
        there[str(chance.choice(_TEXTS))] = there.pop(old)
    else:
        parent[key] = own(chance.choice(VALUES))
    return found


def encoded(value: Any) -> bytes:
    """As bytes, `Literal`s as they are."""
    return _text(value).encode("utf-8", "surrogatepass")


def _text(value: Any) -> str:
    if isinstance(value, Literal):
        return value.text
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(str(k))}:{_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_text, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
