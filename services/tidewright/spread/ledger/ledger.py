"""The spread's ledger: rules, placements and what came of them, folded to free slots.

The admission endpoint and the decider fold the same entries with the same function, so they agree on
every prefix. A choice is a function of that prefix and the request (`place`); it is appended under the
ledger's expected sequence, and a conflict folds and chooses again.

The fold keeps counts, not pods: a placement is remembered by its key only until its pod has been seen
(so that a retried admission finds its own), an admitted delete until the pod is gone. Pods of one name
follow one another, maybe faster than anybody is told: placements are known by their request, deletes by
the uid of the pod. What a subset has free is its limit minus what it holds, at least 0 [Q-9, Q-12].
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tidewright.events.base import Event
from tidewright.events.spread import (
    ChangeLedger,
    EntriesAppended,
    LedgerChange,
    LedgerRules,
    PassedOver,
    PodLeaving,
    PodPlaced,
    SubsetRule,
)
from tidewright.kube.workloadspreads.choose import Slot, by_slots

UNLIMITED = -1
UNSAID_REQUEST_LIFETIME_S, UNSAID_EVICTED_WITHIN_S = 30.0, 2.0
"""What holds for an entry that says neither: old logs are folded by it, so it never changes."""
REQUEST_LIFETIME_S = UNSAID_REQUEST_LIFETIME_S
"""The longest time that an API server waits for a webhook: an attempt of a request is no older."""
EVICTED_WITHIN_S = UNSAID_EVICTED_WITHIN_S
"""An admitted eviction that is not seen as a leaving pod after this was refused."""


class InFlight(msgspec.Struct, frozen=True, gc=False):
    """A place that is in flight: of a pod not seen yet, or of one whose delete was admitted."""

    version: str
    subset: str
    at: float
    pod: str = ""
    request: str = ""
    passed: tuple[PassedOver, ...] = ()


class Ledger(msgspec.Struct):
    """The fold of one ledger.

    Attributes:
        counts: places held per version and subset, unlimited ones too.
        placed: ledger key to a placement whose pod was not seen yet.
        seen: placements whose pod was seen, for as long as an attempt of their request may still be
            on its way (`REQUEST_LIFETIME_S`).
        leaving: uid of a pod (its name, where no uid was told) to the place that its admitted delete has freed.
        left: pod name to the key in `leaving` of the last one of this name.
        evicting: pod name to the place that its admitted eviction will free, if no budget refuses it.
        last: request of the last entry of admission.
    """

    rules: LedgerRules | None = None
    counts: dict[str, dict[str, int]] = {}
    placed: dict[str, InFlight] = {}
    seen: dict[str, InFlight] = {}
    leaving: dict[str, InFlight] = {}
    left: dict[str, str] = {}
    evicting: dict[str, InFlight] = {}
    last: str = ""

    def held(self, version: str, subset: str) -> int:
        return self.counts.get(version, {}).get(subset, 0)

    def held_in_all(self, subset: str) -> int:
        return sum(counts.get(subset, 0) for counts in self.counts.values())

    def missing(self, rule: SubsetRule, version: str) -> int:
        """Free slots of a subset in one version; -1 for an unlimited one."""
        return UNLIMITED if rule.limit is None else max(0, rule.limit - self.held(version, rule.name))


class Place(msgspec.Struct, frozen=True):
    """A place for a pod: found again, or newly chosen.

    Attributes:
        subset: "" when no subset has room: the pod goes in untouched.
        again: it was placed before: nothing is to be appended.
    """

    subset: str
    again: bool = False
    passed: tuple[PassedOver, ...] = ()


def fold(ledger: Ledger, event: Event) -> Ledger:
    """Fold one entry, in place. Other events change nothing."""
    match event:
        case EntriesAppended():
            for entry in event.entries:
                fold(ledger, entry)
        case PodPlaced():
            ledger.last = event.request
            if event.subset and event.key not in ledger.placed:
                ledger.placed[event.key] = InFlight(
                    event.version, event.subset, event.at, event.pod, event.request, event.passed
                )
                count(ledger, event.version, event.subset, 1)
        case PodLeaving(evicted=True):
            ledger.last = event.request
            _set_aside(ledger, event.key)
            ledger.evicting.pop(event.pod, None)  # the order is that of their times
            ledger.evicting[event.pod] = InFlight(event.version, event.subset, event.at, event.pod)
        case PodLeaving():
            ledger.last = event.request
            key = event.uid or event.pod
            if key not in ledger.leaving:
                if places(ledger, event):
                    del ledger.placed[event.key]
                ledger.leaving[key] = InFlight(event.version, event.subset, event.at, event.pod)
                ledger.left[event.pod] = key
                count(ledger, event.version, event.subset, -1)
        case ChangeLedger():
            if event.rules is not None:
                ledger.rules = event.rules
                if event.rules.gone:
                    for held in (ledger.placed, ledger.seen, ledger.leaving, ledger.evicting):
                        held.clear()
                    ledger.left.clear()
            _forget(ledger, event)
            for change in event.changes:
                _change(ledger, change)
            if event.counts is not None:
                ledger.counts = {version: dict(counts) for version, counts in event.counts.items()}
    return ledger


def _forget(ledger: Ledger, decided: ChangeLedger) -> None:
    """Let go of seen placements whose request cannot come again, and of evictions that did not come about.

    How long these count was recorded: what a ledger holds follows from its entries alone.
    """
    now, evicted_within_s, lifetime_s = decided.at, decided.evicted_within_s, decided.request_lifetime_s
    evicted_within_s = UNSAID_EVICTED_WITHIN_S if evicted_within_s is None else evicted_within_s
    lifetime_s = UNSAID_REQUEST_LIFETIME_S if lifetime_s is None else lifetime_s
    while ledger.evicting:
        pod = next(iter(ledger.evicting))
        if ledger.evicting[pod].at + evicted_within_s > now:
            break
        del ledger.evicting[pod]
    while ledger.seen:
        key = next(iter(ledger.seen))
        if ledger.seen[key].at + lifetime_s > now:
            return
        del ledger.seen[key]


def _change(ledger: Ledger, change: LedgerChange) -> None:
    match change.kind:
        case "Seen":
            placed = ledger.placed.pop(placed_key(ledger, change.key, change.request), None)
            if placed is not None:
                ledger.seen[change.key] = placed
        case "Held":
            _stay(ledger, change)
            count(ledger, change.version, change.subset, 1)
        case "Released":
            if change.pod:
                _stay(ledger, change)
            else:
                ledger.placed.pop(placed_key(ledger, change.key, change.request), None)
            ledger.evicting.pop(change.pod, None)
            count(ledger, change.version, change.subset, -1)
        case "Gone":
            _stay(ledger, change)
        case "Uncounted":
            _stay(ledger, change)
            count(ledger, change.version, change.subset, 1)


def placed_key(ledger: Ledger, key: str, request: str) -> str:
    """Where a placement waits for its pod: that of a request, or any of this key where none is told; "" for nowhere."""
    placed = ledger.placed.get(key)
    if placed is not None and (not request or placed.request == request):
        return key
    aside = f"{key}#{request}"
    return aside if aside in ledger.placed else ""


def _set_aside(ledger: Ledger, key: str) -> None:
    """A pod of this name is being evicted, so it was seen: what comes after it gets a place of its own.

    The placement that waits is that of this very pod, and whoever folds the facts says soon that it was seen; or
    it is that of a create which is refused, because the name is taken.
    """
    placed = ledger.placed.pop(key, None)
    if placed is not None:
        ledger.placed[f"{key}#{placed.request}"] = placed


def places(ledger: Ledger, event: PodLeaving) -> bool:
    """Whether the pod that leaves is that of a placement which waits for it: one of its key, in its subset.

    A create of a name that is taken is admitted before it is refused, and may have found another subset.
    """
    placed = ledger.placed.get(event.key)
    return placed is not None and (placed.version, placed.subset) == (event.version, event.subset)


def leaving_key(ledger: Ledger, pod: str, uid: str) -> str:
    """The key under which a pod is leaving; "" when it is not."""
    if uid in ledger.leaving:
        return uid
    return pod if pod in ledger.leaving else ""


def _stay(ledger: Ledger, change: LedgerChange) -> None:
    """A pod is not leaving any more: it is gone, or will not go."""
    if change.uid:
        key = change.uid if change.uid in ledger.leaving else change.pod
    else:  # as it was said before uids were
        key = ledger.left.get(change.pod, change.pod)
    forget_leaving(ledger, key)


def forget_leaving(ledger: Ledger, key: str) -> None:
    """Let go of an admitted delete."""
    held = ledger.leaving.pop(key, None)
    if held is not None and ledger.left.get(held.pod) == key:
        del ledger.left[held.pod]


def count(ledger: Ledger, version: str, subset: str, by: int) -> None:
    """Count pods of a version in a subset in or out."""
    count_of(ledger.counts, version, subset, by)


def count_of(counts: dict[str, dict[str, int]], version: str, subset: str, by: int) -> None:
    """Change a count by version and subset; one of nothing is not kept."""
    subsets = counts.setdefault(version, {})
    number = subsets.get(subset, 0) + by
    if number:
        subsets[subset] = number
        return
    subsets.pop(subset, None)
    if not subsets:
        del counts[version]


def slots(ledger: Ledger, version: str) -> Iterator[Slot]:
    """What each subset offers to a pod of this version."""
    for rule in ledger.rules.subsets if ledger.rules is not None else ():
        yield Slot(rule.name, ledger.missing(rule, version), rule.closed)


def place(ledger: Ledger, version: str, key: str, pod: str, request: str = "") -> Place:
    """The place of a new pod: its own from an earlier attempt, or the first free one.

    A pod whose name was in flight gets the place of its predecessor: it is a retry, or a recreation
    while the old pod is still leaving.
    """
    known = ledger.placed.get(key)
    if known is not None:
        return Place(known.subset, again=True)
    seen = ledger.seen.get(key)
    if seen is not None and request and seen.request == request:
        return Place(seen.subset, again=True)
    leaving = ledger.leaving.get(ledger.left.get(pod, "")) if pod else None
    rules = {rule.name: rule for rule in ledger.rules.subsets} if ledger.rules is not None else {}
    if leaving is not None and leaving.version == version:
        # The place was offered again when the delete was admitted, and may have been taken meanwhile.
        rule = rules.get(leaving.subset)
        if rule is not None and not rule.closed and ledger.missing(rule, version) != 0:
            return Place(leaving.subset)
    choice = by_slots(slots(ledger, version))
    passed = tuple(
        PassedOver(r.subset, r.why, ledger.held(version, r.subset), rules[r.subset].limit)
        for r in choice.refused
    )
    return Place(choice.subset or "", passed=passed)


def awaits_eviction(ledger: Ledger, version: str, now: float) -> bool:
    """Whether a subset that a new pod would pass over as full may be about to have room: a pod in it is being evicted.

    `now` is in log seconds.
    """
    since = now - EVICTED_WITHIN_S
    subsets = {h.subset for h in ledger.evicting.values() if h.version == version and h.at > since}
    if not subsets:
        return False
    choice = by_slots(slots(ledger, version))
    return any(refused.why == "Full" and refused.subset in subsets for refused in choice.refused)
