"""The status object: one entry per subset, over all versions together and per version (1.3, 3.5).

Entry, Status        the values
status_of, to_json            from and to the API's object; a `stamp` turns seconds into its times
initial_entries               a ledger not yet begun (2.5)
subset_entry                  one entry recomputed from the pods (3.5)
unseen, leaving_of, in_flight, once     what is in flight: pods that are not there yet, pods whose delete was admitted
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from tests.vectors.reference.spread import ways as w
from tests.vectors.reference.spread.limits import fault, in_force
from tests.vectors.reference.spread.pods import ListedPod, seconds
from tests.vectors.reference.spread.ways import Ways
from tidewright.events.base import JsonObject
from tidewright.kube.times import rfc3339
from tidewright.kube.workloadspreads import limits
from tidewright.kube.workloadspreads.spec import Subset
from tidewright.spread.control.wanted_status import POD_UNSCHEDULABLE, SCHEDULABLE, SUFFICIENT
from tidewright.spread.state import LIMIT_VALID, Condition

UNLIMITED_MISSING = -1

Stamp = Callable[[float], Any]


class Entry(msgspec.Struct, frozen=True):
    """One subset in one list.

    Attributes:
        missing: free slots; 0 full, -1 unlimited.
        creating: ledger key to the time of an admission that is not yet seen as a pod.
        deleting: pod name to the time of an admitted delete of a pod that is still there.
        fault: why its limit is none, and since when that is said.
        reason: of the condition, where it is another than its status has.
    """

    name: str
    missing: int
    replicas: int = 0
    creating: dict[str, float] = {}
    deleting: dict[str, float] = {}
    condition: Condition | None = None
    fault: tuple[str, float] | None = None
    reason: str = ""

    @property
    def closed(self) -> bool:
        return self.condition is not None and not self.condition.open


Lists: TypeAlias = Mapping[str, Sequence[Entry]]
"""Entries by version."""


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
            reason=next((c.get("reason") or "" for c in e.get("conditions") or ()), ""),
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
    conditions = []
    if entry.condition is not None:
        conditions.append(
            {
                "type": SCHEDULABLE,
                "status": "True" if entry.condition.open else "False",
                "reason": entry.reason or (SUFFICIENT if entry.condition.open else POD_UNSCHEDULABLE),
                "lastTransitionTime": stamp(entry.condition.at),
            }
        )
    if entry.fault is not None:
        message, since = entry.fault
        conditions.append(
            {
                "type": LIMIT_VALID,
                "status": "False",
                "reason": "NotANumber",
                "message": message,
                "lastTransitionTime": stamp(since),
            }
        )
    if conditions:
        written["conditions"] = conditions
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


class Everyone(msgspec.Struct, frozen=True):
    """The pods with a place in a subset, and the keys of those that are let in."""

    placed: Sequence[ListedPod]
    waiting: Collection[str]

    @classmethod
    def of(cls, placed: Sequence[ListedPod], lists: Lists) -> Everyone:
        return cls(placed, {key for entries in lists.values() for e in entries for key in e.creating})


def unseen(
    creating: Mapping[str, float],
    group: Sequence[ListedPod],
    everyone: Everyone,
    gone: Container[str],
    ways: Ways,
) -> dict[str, float]:
    """What of a list of pods let in is still to come.

    Args:
        creating: the list, by key.
        group: the pods of its subset and version.
        everyone: all pods with a place in a subset, and all keys that wait for one.
        gone: names of pods of the group whose delete was admitted.
        ways: the group is looked for in the list, or everyone; who has ended is looked for, or has to be gone.
    """
    there = everyone.placed if w.SEEN_ELSEWHERE in ways else group
    there = [p for p in there if p.active or w.ENDED_POD not in ways]
    seen = set()
    left = set(everyone.waiting)
    for pod in there:  # by its name, where nothing waits under its key
        key = pod.name if w.SEEN_ELSEWHERE in ways and pod.key not in left else pod.key
        seen.add(key)
        left.discard(key)
    seen.update(p.key for p in group if not p.active and p.name in gone)
    return {key: at for key, at in creating.items() if key not in seen}


def leaving_of(lists: Lists) -> dict[str, float]:
    """The pods whose delete was admitted, in whatever list."""
    return {pod: at for entries in lists.values() for e in entries for pod, at in e.deleting.items()}


def in_flight(
    before: Entry, pods: Sequence[ListedPod], now: float, recount: Recount
) -> tuple[dict[str, float], dict[str, float]]:
    """Who is still being created, and who of these pods is still being deleted; of the others it is said that they are not."""
    deleting: dict[str, float] = {}
    for pod in pods:
        since = before.deleting.get(pod.name) if pod.active else None
        if since is None:
            continue
        if since + w.LEAVING_LIFETIME_S < now:
            recount.events.append("DeletePodFailed")
            continue
        deleting[pod.name] = since
        recount.delays_s.append(since + w.LEAVING_LIFETIME_S - now)
    creating: dict[str, float] = {}
    for key, since in before.creating.items():
        if since + w.UNSEEN_LIFETIME_S < now:
            recount.events.append("CreatePodFailed")
            continue
        creating[key] = since
        recount.delays_s.append(since + w.UNSEEN_LIFETIME_S - now)
    return creating, deleting


def once(lists: Lists) -> Lists:
    """The same with every pod in one list alone of those that are let in: where it was first."""
    told = sorted(
        (
            (at, key, version, n)
            for version, entries in lists.items()
            for n, e in enumerate(entries)
            for key, at in e.creating.items()
        ),
        key=lambda one: one[0],
    )
    first: dict[str, tuple[str, int]] = {}
    for _, key, version, n in told:
        first.setdefault(key, (version, n))
    return {
        version: tuple(
            msgspec.structs.replace(
                e, creating={k: at for k, at in e.creating.items() if first[k] == (version, n)}
            )
            for n, e in enumerate(entries)
        )
        for version, entries in lists.items()
    }


def subset_entry(
    subset: Subset,
    pods: Sequence[ListedPod],
    before: Entry,
    replicas: int,
    now: float,
    recount: Recount,
    ways: Ways,
) -> Entry:
    """One entry from its pods, in list order, and from what is in flight (3.5).

    `missing` saturates pod by pod, so it depends on the list order [Q-12].

    Raises:
        NotALimit: the limit is no number, or negative.
    """
    limit, invalid = _limit(subset, replicas, ways)
    creating, deleting = in_flight(before, pods, now, recount)
    missing, active = limit, 0
    for pod in pods:
        if not pod.active:
            continue
        active += 1
        if missing > 0:
            missing -= 1
        if pod.name in deleting and missing < limit:
            missing += 1
    for _ in creating:
        if missing > 0:
            missing -= 1
    if w.LIST_ORDER in ways and limit != UNLIMITED_MISSING:
        missing = max(0, limit - active + len(deleting) - len(creating))
    return Entry(subset.name, missing, active, creating, deleting, fault=(invalid, now) if invalid else None)


def _limit(subset: Subset, replicas: int, ways: Ways) -> tuple[int, str]:
    """The limit, and what is wrong with it where that is borne. Raises NotALimit."""
    if subset.limit is None:
        return UNLIMITED_MISSING, ""
    if w.LIMIT_NO_NUMBER in ways:
        return in_force(subset.limit, replicas) or 0, fault(subset.limit)
    limit = limits.strict(subset.limit, replicas)
    if limit < 0:
        raise limits.NotALimit(f"subset {subset.name!r}: maxReplicas {subset.limit!r} is negative")
    return limit, ""


def entry_named(entries: Iterable[Entry] | None, name: str) -> Entry | None:
    return next((e for e in entries or () if e.name == name), None)


def closed_subsets(entries: Iterable[Entry] | None) -> frozenset[str]:
    """Names of the subsets that are closed by rescheduling."""
    return frozenset(e.name for e in entries or () if e.closed)
