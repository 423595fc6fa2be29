"""A WorkloadSpread as a row of a list. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tidewright.events.base import Event
from tidewright.events.spread import ChangeLedger
from tidewright.host.fold.explainer import Reference
from tidewright.host.fold.lister import Lister, Measured, Row, Words, status_of, unwritten


class SpreadLister:
    """What spread knows to say of its objects in a list."""

    context: frozenset[str] = frozenset()
    usual: frozenset[str] = frozenset()

    def elsewhere(self, fact: Event) -> Sequence[Reference]:
        """Nothing: a row speaks of subsets, not of single pods."""
        del fact
        return ()

    def row(self, words: Words, now: float) -> Row:
        """Pods by subset, and how many shall be in each."""
        del now
        subsets = _subsets(status_of(words))
        short = [(name, missing) for name, _, missing in subsets if missing > 0]
        changed = words.last(ChangeLedger) or next(iter(words.decisions), None)
        return Row(
            now=", ".join(f"{name} {count}" for name, count, _ in subsets),
            wanted=", ".join(f"{name} {count + max(0, missing)}" for name, count, missing in subsets),
            why=", ".join(f"{name} lacks {missing}" for name, missing in short)
            or ("as it shall be" if subsets else unwritten(words)),
            changed_at=changed.at if changed is not None else None,
        )

    def measured(self, words: Words) -> Sequence[Measured]:
        """Nothing: nothing here is decided by a value between marks."""
        del words
        return ()


LISTER: Lister = SpreadLister()


def _subsets(status: Mapping[str, Any]) -> list[tuple[str, int, int]]:
    """Name, pods, and pods that are missing (below zero: as many as come) of every subset."""
    entries = status.get("subsetStatuses")
    return [
        (str(entry.get("name", "")), _count(entry.get("replicas")), _count(entry.get("missingReplicas")))
        for entry in (entries if isinstance(entries, Iterable) else ())
        if isinstance(entry, Mapping)
    ]


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0
