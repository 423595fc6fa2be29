"""What a test of settings has of each: a scene, two values, and the decisions in which they show."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from tidewright.events.base import Decision, JsonObject


class _Absent:
    def __repr__(self) -> str:
        return "its default"


ABSENT: Final = _Absent()
"""The value of a setting that is not given: its default is in force."""


class Setting(NamedTuple):
    """One setting, tried.

    Attributes:
        scene: plays a short story under a configuration, and hands back all that was decided, or measured.
        values: two of them, under which the story ends differently.
        shows: types of the decisions (or measurements) that tell them apart; others are not looked at.
        beside: what else is configured.
    """

    scene: Callable[[JsonObject], Iterable[Any]]
    values: tuple[Any, Any]
    shows: type[Any] | tuple[type[Any], ...]
    beside: JsonObject = {}

    def told(self, key: str, value: Any) -> list[Any]:
        """What shows it under one value; of decisions without their ids and reasons, which may well repeat the value."""
        given = {} if value is ABSENT else {key: value}
        return [
            msgspec.structs.replace(one, id="", prev="", because=()) if isinstance(one, Decision) else one
            for one in self.scene({**self.beside, **given})
            if isinstance(one, self.shows)
        ]


def matters(key: str, tried: Mapping[str, Setting]) -> None:
    """A setting changes something: the story is told otherwise under its two values, and alike under one."""
    assert key in tried, f"{key} is a setting without a scene that proves what it changes: add one"
    setting = tried[key]
    first, second = (setting.told(key, value) for value in setting.values)
    assert first == setting.told(key, setting.values[0]), f"{key}: one value tells two stories"
    assert first != second, f"{key} changes nothing between {setting.values[0]!r} and {setting.values[1]!r}"


def unknown(keys: Collection[str], tried: Mapping[str, Setting]) -> list[str]:
    """Scenes for what is no setting (any more)."""
    return sorted(set(tried) - set(keys))
