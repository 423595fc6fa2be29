"""What a change to an event type may do: nothing to those who have its old messages."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tidewright.cli.contract.compatibility import breaking_changes
from tidewright.cli.contract.schemas import schema_of
from tidewright.events.base import Fact


class Part(msgspec.Struct, frozen=True):
    name: str
    size: int = 0


class Before(Fact, frozen=True, kw_only=True, tag="fact.sample.v1"):
    name: str
    count: int = 1
    ratio: float | None = None
    parts: tuple[Part, ...] = ()
    data: dict[str, int] = {}


def fields(**changed: Any) -> dict[str, Any]:
    """The fields of `Before` with some changed; None takes one away."""
    whole: dict[str, Any] = {
        "name": (str,),
        "count": (int, 1),
        "ratio": (float | None, None),
        "parts": (tuple[Part, ...], ()),
        "data": (dict[str, int], {}),
    }
    return {k: v for k, v in {**whole, **changed}.items() if v is not None}


def changes(**changed: Any) -> list[str]:
    described = [(name, *rest) for name, rest in fields(**changed).items()]
    after = msgspec.defstruct(
        "Before", described, bases=(Fact,), frozen=True, kw_only=True, tag="fact.sample.v1"
    )
    assert issubclass(after, Fact)
    return breaking_changes(schema_of(Before, "fact.sample.v1"), schema_of(after, "fact.sample.v1"))


def test_no_change_is_no_breaking_change() -> None:
    assert changes() == []


@pytest.mark.parametrize(
    "change",
    [
        {"zone": (str, "")},
        {"zone": (str | None, None)},
        {"count": (float, 1)},
        {"count": (int | str, 1)},
        {"ratio": (float | str | None, None)},
        {"name": (str, "")},
        {"data": (dict[str, Any], {})},
        {"data": (dict[str, int | None], {})},
    ],
    ids=str,
)
def test_adding_with_a_default_and_widening_are_allowed(change: dict[str, Any]) -> None:
    assert changes(**change) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"count": None}, "$.count: removed or renamed"),
        ({"count": None, "amount": (int, 1)}, "$.count: removed or renamed"),
        ({"count": (str, "1")}, "$.count: was integer, and is string"),
        ({"ratio": (float, 0.0)}, "$.ratio: no longer accepts null"),
        ({"zone": (str,)}, "$.zone: newly required"),
        ({"count": (int,)}, "$.count: newly required"),
        ({"count": (int, 2)}, "$.count: its default was 1, and is 2"),
        ({"data": (dict[str, str], {})}, "$.data[]: was integer, and is string"),
        ({"parts": (tuple[str, ...], ())}, "$.parts[]: was object, and is string"),
    ],
    ids=str,
)
def test_everything_else_is_refused_and_named(change: dict[str, Any], said: str) -> None:
    found = changes(**change)
    assert any(line.startswith(said) for line in found), found


def test_a_change_inside_a_shared_part_is_found() -> None:
    part = msgspec.defstruct("Part", [("name", str), ("size", str, "")], frozen=True)
    found = changes(parts=(tuple[part, ...], ()))  # type: ignore[valid-type]  # a Struct made here
    assert "$.parts[].size: was integer, and is string" in found
