"""Whether an event may change what a pass of scale-down finds, as far as its type tells."""

from __future__ import annotations

from typing import cast

from tidewright.events import registry
from tidewright.events.base import Event, Fact
from tidewright.events.config import ConfigSet
from tidewright.events.decisions import SetTimer
from tidewright.events.facts import (
    NodeGone,
    NodeObserved,
    PodGone,
    PodObserved,
    WorkloadGone,
    WorkloadObserved,
)
from tidewright.events.outcomes import Failed, Rejected
from tidewright.events.provisioning import (
    CapacityBufferGone,
    NodeGroupGone,
    NodeGroupObserved,
    PodDisruptionBudgetGone,
    PodDisruptionBudgetObserved,
    TrackUnneededNodes,
)
from tidewright.events.timers import TimerFired
from tidewright.provisioning.fold.common import SCAN
from tidewright.provisioning.fold.touched import Touched

STIRRING = frozenset(
    (
        PodObserved,
        PodGone,
        NodeObserved,
        NodeGone,
        NodeGroupObserved,
        NodeGroupGone,
        PodDisruptionBudgetObserved,
        PodDisruptionBudgetGone,
        CapacityBufferGone,
        WorkloadObserved,
        WorkloadGone,
        ConfigSet,
        Rejected,
        Failed,
    )
)
"""After these a pass of scale-down may find something else than the last one."""
_CHANGING = registry.FACTS | STIRRING


def stirs(event: Event, touched: Touched) -> bool:
    """Whether a pass comes soon after an event."""
    return (type(event) in STIRRING or touched.kept) and not _quiet(event, touched)


def changes(event: Event, touched: Touched) -> bool:
    """Whether anything is otherwise after an event that a pass might ever look at: then nodes are tried again that stayed."""
    return (type(event) in _CHANGING or touched.kept) and not _quiet(event, touched)


def disturbs(event: Event, touched: Touched) -> bool:
    """Whether a pass that goes on may find otherwise what it has looked at: after all but what passes themselves record."""
    if type(event) is TimerFired:
        return event.key != SCAN
    return type(event) not in (SetTimer, TrackUnneededNodes) and not _quiet(event, touched)


def _quiet(event: Event, touched: Touched) -> bool:
    return touched.unsoftened or (type(event) in registry.FACTS and cast("Fact", event).refresh)
