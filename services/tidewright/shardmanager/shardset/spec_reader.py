"""Values of a ShardSet's spec, one by one: what is wrong is named with its path, the value found and what would be valid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from tidewright.kube.digits import whole_number
from tidewright.kube.durations import parse_duration

MOST_TOLD: Final = 20
"""Problems of one spec; with any of them nothing is done, and nobody reads more. What is said of them is stored, and goes over the bus."""
MOST_NUMBER: Final = 2**53
"""Whole numbers above it are others once a state was stored."""
MOST_CHARACTERS: Final = 400
"""Of the message of one, which quotes what somebody has written."""


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong with a spec: the field's path, and the value found and what would be valid."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path} {self.message}"


class SpecReader:
    """Takes values out of a spec; a wrong one is remembered, and its default stands."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def refuse(self, path: str, message: str) -> None:
        if len(self.problems) >= MOST_TOLD:
            return
        if len(self.problems) == MOST_TOLD - 1:
            path, message = "", "has more that is wrong: it is told once this is corrected"
        where = f"spec.{path}".rstrip(".")
        self.problems.append(Problem(_clipped(where), _clipped(message)))

    def known(self, section: Mapping[str, Any], path: str, keys: Sequence[str]) -> None:
        for key in section:
            if key not in keys:
                self.refuse(f"{path}{key}", f"is not a field: expected one of {', '.join(keys)}")

    def section(
        self, parent: Mapping[str, Any], key: str, keys: Sequence[str], prefix: str = ""
    ) -> Mapping[str, Any]:
        value = parent.get(key)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self.refuse(f"{prefix}{key}", f"is {value!r}: expected an object")
            return {}
        self.known(value, f"{prefix}{key}.", keys)
        return value

    def _value(self, section: Mapping[str, Any], path: str) -> Any:
        return section.get(path.rpartition(".")[2])

    def integer(self, section: Mapping[str, Any], path: str, default: int, least: int = 1) -> int:
        value = self._value(section, path)
        if value is None:
            return default
        if isinstance(value, int) and not isinstance(value, bool) and value >= least:
            return value
        self.refuse(path, f"is {value!r}: expected a whole number of at least {least}")
        return default

    def number(self, section: Mapping[str, Any], path: str, default: float) -> float:
        value = self._value(section, path)
        if value is None:
            return default
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= MOST_NUMBER:
            return value
        self.refuse(path, f"is {value!r}: expected a number above 0, and at most {MOST_NUMBER:,}")
        return default

    def seconds(self, section: Mapping[str, Any], path: str, default: float) -> float:
        value = self._value(section, path)
        if value is None:
            return default
        try:
            seconds = parse_duration(value if isinstance(value, str) else repr(value))
        except ValueError as error:
            self.refuse(path, f"cannot be read: {error}")
            return default
        if seconds < 0:
            self.refuse(path, f"is {value!r}: expected a duration that is not negative")
            return default
        return seconds

    def boolean(self, section: Mapping[str, Any], path: str) -> bool:
        value = self._value(section, path)
        if value is None or isinstance(value, bool):
            return bool(value)
        self.refuse(path, f"is {value!r}: expected true or false")
        return False

    def text(self, section: Mapping[str, Any], path: str, default: str) -> str:
        value = self._value(section, path)
        if value is None:
            return default
        if isinstance(value, str):
            return value
        self.refuse(path, f"is {value!r}: expected text")
        return default

    def texts(self, section: Mapping[str, Any], path: str) -> list[str]:
        value = self._value(section, path)
        if value is None:
            return []
        if isinstance(value, list) and all(isinstance(v, str) for v in value):
            return value
        self.refuse(path, f"is {value!r}: expected a list of texts")
        return []

    def choice(self, section: Mapping[str, Any], path: str, default: Any, choices: Sequence[str]) -> Any:
        value = self._value(section, path)
        if value is None:
            return default
        if value in choices:
            return value
        self.refuse(path, f"is {value!r}: expected one of {', '.join(map(str, choices))}")
        return default

    def _entries(self, section: Mapping[str, Any], path: str) -> list[tuple[Any, Any]]:
        value = self._value(section, path)
        if value is None or isinstance(value, Mapping):
            return list((value or {}).items())
        self.refuse(path, f"is {value!r}: expected an object")
        return []

    def weights(self, section: Mapping[str, Any], path: str) -> dict[str, int]:
        by_member: dict[str, int] = {}
        for member, weight in self._entries(section, path):
            if isinstance(weight, int) and not isinstance(weight, bool) and weight >= 1:
                by_member[str(member)] = weight
            else:
                self.refuse(f"{path}.{member}", f"is {weight!r}: expected a whole number of at least 1")
        return by_member

    def pins(self, section: Mapping[str, Any], path: str, slots: int) -> dict[int, str]:
        by_slot: dict[int, str] = {}
        for slot, member in self._entries(section, path):
            number = whole_number(str(slot))
            if number is not None and number < slots and isinstance(member, str) and member:
                by_slot[number] = member
            else:
                self.refuse(f"{path}.{slot}", f"is {member!r}: expected a member for a slot below {slots}")
        return by_slot


def _clipped(text: str) -> str:
    """A text of some length at most: of what is quoted the beginning, and of what is expected the end."""
    half = MOST_CHARACTERS // 2
    return text if len(text) <= MOST_CHARACTERS else f"{text[:half]} ... {text[-half:]}"
