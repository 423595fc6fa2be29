"""Two logs, or a log and its replay, decision by decision."""

from __future__ import annotations

from typing import Any

import msgspec


class DifferingDecision(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A decision that differs; null where one side has none.

    Attributes:
        change: `changed`, `gone`, `new`.
        object: as `kind/namespace/name`.
    """

    change: str
    at: str
    service: str
    object: str
    sequence: int
    before: Any
    after: Any


class LogDifferences(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Answer to `diff`.

    Attributes:
        before, after: what was compared.
        decisions: that were compared.
        differences: how many there are; `first` are the first of them.
        kinds: `changed ScaleWorkload` and the like, to how many.
    """

    before: str
    after: str
    decisions: int
    differences: int
    kinds: dict[str, int]
    first: tuple[DifferingDecision, ...]
