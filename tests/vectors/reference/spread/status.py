"""The status object: one entry per subset, over all versions together and per version (1.3, 3.5).

Entry, Status        the values
status_of, to_json            from and to the API's object; a `stamp` turns seconds into its times
initial_entries               a ledger not yet begun (2.5)
subset_entry                  one entry recomputed from the pods (3.5)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from tests.vectors.reference.spread.pods import ListedPod, seconds
from tidewright.events.base import JsonObject
from tidewright.kube.times import rfc3339
from tidewright.kube.workloadspreads import limits
from tidewright.kube.workloadspreads.spec import Subset
from tidewright.spread.control.wanted_status import POD_UNSCHEDULABLE, SCHEDULABLE, SUFFICIENT
from tidewright.spread.state import Condition

UNLIMITED_MISSING = -1
CREATING_LIFETIME_S = 30.0
DELETING_LIFETIME_S = 15.0

Stamp = Callable[[float], Any]


class Entry(msgspec.Struct, frozen=True):
    """One subset in one list.

    Attributes:
        missing: free slots; 0 full, -1 unlimited.
        creating: ledger key to the time of an admission that is not yet seen as a pod.
        deleting: pod name to the time of an admitted delete of a pod that is still there.
    """

    name: str
    missing: int
    replicas: int = 0
    creating: dict[str, float] = {}
    deleting: dict[str, float] = {}
    condition: Condition | None = None

    @property
    def closed(self) -> bool:
        return self.condition is not None and not self.condition.open


class Status(msgspec.Struct, frozen=True):
    """The status; `subsets` None: not computed."""

    subsets: tuple[Entry, ...] | None = None
    versions: dict[str, tuple[Entry, ...]] = {}
    observed_generation: int = 0


def status_of(obj: Mapping[str, Any] | None) -> Status:
    """Read a stored status; anything of the wrong shape reads as absent."""
    obj = obj or {}
    subsets = obj.get("subsetStatuses")
    return Status(
        subsets=None if subsets is None else _entries(subsets),
        versions={v: _entries(e) for v, e in (obj.get("versionedSubsetStatuses") or {}).items()},
        observed_generation=obj.get("observedGeneration") or 0,
    )


def _entries(found: Sequence[Mapping[str, Any]] | None) -> tuple[Entry, ...]:
    return tuple(
        Entry(
            name=e.get("name") or "",
            missing=e.get("missingReplicas") or 0,
            replicas=e.get("replicas") or 0,
            creating={k: seconds(t) or 0.0 for k, t in (e.get("creatingPods") or {}).items()},
            deleting={k: seconds(t) or 0.0 for k, t in (e.get("deletingPods") or {}).items()},
            condition=_condition(e.get("conditions") or ()),
        )
        for e in found or ()
    )


def _condition(found: Iterable[Mapping[str, Any]]) -> Condition | None:
    for condition in found:
        if condition.get("type") == SCHEDULABLE:
            return Condition(
                condition.get("status") != "False", seconds(condition.get("lastTransitionTime")) or 0.0
            )
    return None


def to_json(status: Status, stamp: Stamp = rfc3339) -> JsonObject:
    """The status as the API stores it; absent what is empty."""
    written: JsonObject = {}
    if status.observed_generation:
        written["observedGeneration"] = status.observed_generation
    if status.subsets is not None:
        written["subsetStatuses"] = [entry_json(e, stamp) for e in status.subsets]
    if status.versions:
        written["versionedSubsetStatuses"] = {
            v: [entry_json(e, stamp) for e in entries] for v, entries in sorted(status.versions.items())
        }
    return written


def entry_json(entry: Entry, stamp: Stamp = rfc3339) -> JsonObject:
    """One entry as the API stores it."""
    written: JsonObject = {"name": entry.name, "missingReplicas": entry.missing, "replicas": entry.replicas}
    if entry.condition is not None:
        written["conditions"] = [
            {
                "type": SCHEDULABLE,
                "status": "True" if entry.condition.open else "False",
                "reason": SUFFICIENT if entry.condition.open else POD_UNSCHEDULABLE,
                "lastTransitionTime": stamp(entry.condition.at),
            }
        ]
    for key, times in (("creatingPods", entry.creating), ("deletingPods", entry.deleting)):
        if times:
            written[key] = {k: stamp(t) for k, t in sorted(times.items())}
    return written


def initial_entries(subsets: Iterable[Subset], replicas: int) -> tuple[Entry, ...]:
    """A ledger not yet begun: every slot free; a limit that is no number offers none (2.5)."""
    return tuple(Entry(s.name, _initial_missing(s, replicas)) for s in subsets)


def _initial_missing(subset: Subset, replicas: int) -> int:
    if subset.limit is None:
        return UNLIMITED_MISSING
    try:
        return limits.strict(subset.limit, replicas)
    except limits.NotALimit:
        return 0


class Recount(msgspec.Struct):
    """What a recount of one entry found besides the entry: events and when to look again (seconds)."""

    events: list[str]
    delays_s: list[float]


def subset_entry(
    subset: Subset,
    pods: Sequence[ListedPod],
    old: Entry | None,
    replicas: int,
    now: float,
    recount: Recount,
) -> Entry:
    """One entry from its pods, in list order, and the previous entry of that name (3.5).

    `missing` saturates pod by pod, so it depends on the list order [Q-12].

    Raises:
        NotALimit: the limit is no number, or negative.
    """
    limit = UNLIMITED_MISSING if subset.limit is None else limits.strict(subset.limit, replicas)
    if subset.limit is not None and limit < 0:
        raise limits.NotALimit(f"subset {subset.name!r}: maxReplicas {subset.limit!r} is negative")
    creating = dict(old.creating) if old is not None else {}
    recorded = old.deleting if old is not None else {}
    missing, active = limit, 0
    deleting: dict[str, float] = {}
    for pod in pods:
        creating.pop(pod.key, None)
        if not pod.active:
            continue
        active += 1
        if missing > 0:
            missing -= 1
        since = recorded.get(pod.name)
        if since is None:
            continue
        if since + DELETING_LIFETIME_S < now:
            recount.events.append("DeletePodFailed")
            continue
        deleting[pod.name] = since
        recount.delays_s.append(since + DELETING_LIFETIME_S - now)
        if missing < limit:
            missing += 1
    for key, since in list(creating.items()):
        if since + CREATING_LIFETIME_S < now:
            recount.events.append("CreatePodFailed")
            del creating[key]
            continue
        recount.delays_s.append(since + CREATING_LIFETIME_S - now)
        if missing > 0:
            missing -= 1
    return Entry(subset.name, missing, active, creating, deleting)


def entry_named(entries: Iterable[Entry] | None, name: str) -> Entry | None:
    return next((e for e in entries or () if e.name == name), None)


def closed_subsets(entries: Iterable[Entry] | None) -> frozenset[str]:
    """Names of the subsets that are closed by rescheduling."""
    return frozenset(e.name for e in entries or () if e.closed)
