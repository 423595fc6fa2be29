"""A ShardSet as a row of a list. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tidewright.events.base import Event
from tidewright.events.shards import ShardSetObserved
from tidewright.host.fold.explainer import Reference
from tidewright.host.fold.lister import (
    Lister,
    Measured,
    Row,
    Words,
    conditions,
    is_true,
    said,
    status_of,
    unwritten,
)
from tidewright.kube.times import seconds_or_none

_TROUBLE = ("InvalidSpec", "DoublyClaimed", "Orphaned", "Stuck", "RolloutPaused", "PinUnmet")
"""Conditions that are true when something is wrong, the worst first."""


class ShardManagerLister:
    """What the shard manager knows to say of its objects in a list."""

    context: frozenset[str] = frozenset()
    usual: frozenset[str] = frozenset()

    def elsewhere(self, fact: Event) -> Sequence[Reference]:
        """Nothing: a row speaks of the set, not of its pods."""
        del fact
        return ()

    def row(self, words: Words, now: float) -> Row:
        """Shards that are ready and that shall be; what is wrong with it."""
        del now
        if not isinstance(words.fact, ShardSetObserved):
            return Row()
        status = status_of(words)
        found = conditions(status)
        ready, members = _members(status)
        changed = [seconds_or_none(condition.get("lastTransitionTime")) for condition in found.values()]
        wanted = _replicas(words.fact.spec)
        return Row(
            now=str(ready),
            wanted=str(members if wanted is None else wanted),
            why=_why(words, found),
            changed_at=max((at for at in changed if at is not None), default=None),
            wrong=any(is_true(found.get(type_)) for type_ in _TROUBLE),
        )

    def measured(self, words: Words) -> Sequence[Measured]:
        """Nothing: nothing here is decided by a value between marks."""
        del words
        return ()


LISTER: Lister = ShardManagerLister()


def _why(words: Words, found: Mapping[str, Mapping[str, Any]]) -> str:
    for type_ in _TROUBLE:
        if (condition := found.get(type_)) is not None and is_true(condition):
            return f"{type_}: {said(condition)}".removesuffix(": ")
    return said(found["Ready"]) if "Ready" in found else unwritten(words)


def _members(status: Mapping[str, Any]) -> tuple[int, int]:
    """Members that are ready, and all."""
    assignment = status.get("assignment")
    members = assignment.get("members") if isinstance(assignment, Mapping) else None
    if not isinstance(members, Sequence):
        return 0, 0
    ready = sum(1 for member in members if isinstance(member, Mapping) and member.get("state") == "Ready")
    return ready, len(members)


def _replicas(spec: object) -> int | None:
    workers = spec.get("workers") if isinstance(spec, Mapping) else None
    replicas = workers.get("replicas") if isinstance(workers, Mapping) else None
    return replicas if isinstance(replicas, int) else None
