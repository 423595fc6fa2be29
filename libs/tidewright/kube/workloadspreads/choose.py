"""The choice of a subset for a new pod: pure functions of what is free and of the request (2.5).

    by_slots      the first open subset with a free slot, in the order of the ledger
    by_ordinal    StatefulSet: the subset whose range of ordinals holds the pod's

A `Choice` keeps why each earlier subset was passed over, for the record and for `explain`.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence
from typing import Literal

import msgspec

from tidewright.kube.workloadspreads.limits import UNLIMITED, NotALimit, strict
from tidewright.kube.workloadspreads.spec import Subset

Why = Literal["Closed", "Full", "OrdinalBeyond"]

_ORDINAL = re.compile(r".*-([0-9]+)", re.ASCII | re.DOTALL)
_INT32_MAX = 2**31 - 1


class Slot(msgspec.Struct, frozen=True):
    """What one subset offers: `missing` free slots (-1: unlimited), unless it is closed."""

    name: str
    missing: int
    closed: bool = False


class SkippedSubset(msgspec.Struct, frozen=True):
    """A subset that was passed over."""

    subset: str
    why: Why


class Choice(msgspec.Struct, frozen=True):
    """The chosen subset, or None: the pod goes in untouched.

    Attributes:
        counted: a limited slot was taken, so the choice must be recorded.
        refused: subsets before it, with the reason, in order.
    """

    subset: str | None
    counted: bool = False
    refused: tuple[SkippedSubset, ...] = ()


def by_slots(slots: Iterable[Slot]) -> Choice:
    """The first slot in order that is open and free."""
    refused: list[SkippedSubset] = []
    for slot in slots:
        if slot.closed:
            refused.append(SkippedSubset(slot.name, "Closed"))
        elif slot.missing > 0 or slot.missing == -1:
            return Choice(slot.name, slot.missing != -1, tuple(refused))
        else:
            refused.append(SkippedSubset(slot.name, "Full"))
    return Choice(None, refused=tuple(refused))


def ordinal_of(pod_name: str) -> int:
    """The digits after the last dash; -1 without any, or beyond 32 bits."""
    match = _ORDINAL.fullmatch(pod_name)
    if match is None:
        return -1
    ordinal = int(match[1])
    return ordinal if ordinal <= _INT32_MAX else -1


def by_ordinal(subsets: Sequence[Subset], pod_name: str, closed: Container[str]) -> Choice:
    """The subset of a StatefulSet's pod.

    A closed subset's range is left out, so the ordinals behind it move forward [Q-7]. Percentages
    are refused by validation; a stored one counts as 0.
    """
    ordinal = ordinal_of(pod_name)
    top = 0
    refused: list[SkippedSubset] = []
    for subset in subsets:
        if subset.name in closed:
            refused.append(SkippedSubset(subset.name, "Closed"))
            continue
        top += _range(subset)
        if ordinal < top:
            return Choice(subset.name, refused=tuple(refused))
        refused.append(SkippedSubset(subset.name, "OrdinalBeyond"))
    return Choice(None, refused=tuple(refused))


def _range(subset: Subset) -> int:
    if subset.limit is None:
        return UNLIMITED
    try:
        return strict(subset.limit, 0)
    except NotALimit:
        return 0
