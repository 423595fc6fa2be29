"""How far consolidation goes: `off`, `empty`, `underutilised` or `replace`, for all groups or for some. Addendum 4.2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

OFF, EMPTY, UNDERUTILISED, REPLACE = "off", "empty", "underutilised", "replace"
MODES = (OFF, EMPTY, UNDERUTILISED, REPLACE)
OTHERS = "*"
"""In place of a group's id: the groups that are not named."""


def read_modes(value: Any) -> dict[str, str]:
    """Group, or `*` for the others, to its mode; of one word it is that of all.

    Raises:
        ValueError: a mode is none, or what is given is neither a word nor an object of groups.
    """
    # YAML 1.1 reads a bare `off` as false.
    given = value if isinstance(value, Mapping) else {OTHERS: value}
    modes = {str(group): OFF if mode is False else mode for group, mode in given.items()}
    for group, mode in modes.items():
        if mode not in MODES:
            whose = "" if group == OTHERS else f"of group {group} "
            raise ValueError(f"{whose}expected {', '.join(MODES[:-1])} or {MODES[-1]}, not {mode!r}")
    return modes


def mode_of(modes: Mapping[str, str], group: str) -> str:
    """The mode of a group."""
    return modes.get(group, modes.get(OTHERS, OFF))
