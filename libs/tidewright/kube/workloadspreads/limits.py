"""Limits (`maxReplicas`) as numbers (specification, 3.5).

strict       an integer, or `<integer>%`
percentage   the number in a textual limit

A percentage of the target's replicas is rounded up, for each subset by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeAlias

Limit: TypeAlias = int | str
"""`maxReplicas` as given: pods, or a percentage of the target's replicas."""

UNLIMITED = 2**31 - 1
"""What an absent limit counts as where a number is needed."""

_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_INT64_DIGITS = 19


class NotALimit(ValueError):
    """The limit is neither an integer nor a percentage; the message quotes it."""


def strict(limit: Limit, replicas: int) -> int:
    """The limit in pods, of a target with `replicas` pods.

    Raises:
        NotALimit: text that is not `<integer>%`.
    """
    if isinstance(limit, int):
        return limit
    if not limit.endswith("%"):
        raise NotALimit(f"maxReplicas {limit!r} is no percentage; valid are integers and '<integer>%'")
    return share(_integer(limit[:-1], limit), replicas)


def percentage(limit: str) -> int:
    """The number in a textual limit, wherever its percent sign stands. Raises NotALimit."""
    return _integer(limit.replace("%", ""), limit)


def share(percent: int, replicas: int) -> int:
    """`percent` % of `replicas`, rounded up; a negative count is rounded towards plus infinity too."""
    return -(-percent * replicas // 100)


def needs_replicas(limits: Iterable[Limit | None]) -> bool:
    """Whether a number cannot be had without the target's replicas: some limit ends in `%`."""
    return any(isinstance(limit, str) and limit.endswith("%") for limit in limits)


def _integer(text: str, limit: str) -> int:
    if not _INTEGER.fullmatch(text) or len(text.lstrip("+-0")) > _INT64_DIGITS:
        raise NotALimit(f"maxReplicas {limit!r} is no number; valid are integers and '<integer>%'")
    return int(text)
