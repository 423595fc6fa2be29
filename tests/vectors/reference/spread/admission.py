"""Admission against the ledger in the status, as the original keeps it (specification, 2.2, 2.9, 2.10).

create    a new pod
remove    a delete or an eviction
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from tests.vectors.reference.spread import ways as w
from tests.vectors.reference.spread.limits import in_force
from tests.vectors.reference.spread.matching import replicas_at_admission
from tests.vectors.reference.spread.status import (
    UNLIMITED_MISSING,
    Entry,
    Status,
    closed_subsets,
    entry_named,
    initial_entries,
)
from tests.vectors.reference.spread.ways import Ways
from tidewright.events.base import JsonObject
from tidewright.kube.customworkloads import BadApiVersion, BadPath, Whitelist
from tidewright.kube.selectors import SelectorError
from tidewright.kube.strategicmerge import InvalidPatch
from tidewright.kube.workloadspreads.choose import Choice, Slot, by_ordinal, by_slots
from tidewright.kube.workloadspreads.inject import inject
from tidewright.kube.workloadspreads.sharing import selected
from tidewright.kube.workloadspreads.spec import Spread, Subset
from tidewright.spread.match.matching import (
    Forbidden,
    NotFound,
    Reader,
    could_lead_to,
    group_kind,
    owner_matches,
)
from tidewright.spread.match.pods import VERSIONED_KINDS, Owner, Pod, pod_of, pod_version


class Refused(Exception):
    """The request is refused: `status` is what stays recorded, `subset` the one whose patch did not apply."""

    def __init__(
        self, reason: str, message: str, status: Status | None = None, subset: Subset | None = None
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.status = status
        self.subset = subset


class Around(msgspec.Struct, frozen=True):
    """What a request is answered by, beside its object and its spread."""

    whitelist: Whitelist
    read: Reader
    ways: Ways
    versioned_kinds: frozenset[str] = VERSIONED_KINDS
    now: float = 0.0


def spread_for(pod: Pod, spreads: Iterable[Spread], around: Around) -> Spread | None:
    """The spread that takes a new pod.

    Raises:
        Refused: an owner is not there yet, on account of whichever spread asked for it [Q-5].
    """
    if not pod.active or pod.owner is None or not _known(pod.owner, around.whitelist):
        return None
    for spread in spreads:
        if spread.deleting or spread.target is None:
            continue
        selects = (
            spread.target_filter is None
            or spread.target_filter.selector is not None
            or w.FILTER_WITHOUT_SELECTOR in around.ways
        )
        try:
            mine = owner_matches(spread.target, pod.owner, around.whitelist, around.read) and selects
            if mine and selected(spread.target_filter, pod.labels):
                return spread
        except NotFound as error:
            related = could_lead_to(spread.target, pod.owner, around.whitelist)
            if related or w.UNRELATED_OWNER not in around.ways:
                raise Refused("NotFound", str(error)) from error
        except (Forbidden, BadApiVersion, SelectorError):
            continue
    return None


def _known(owner: Owner, whitelist: Whitelist) -> bool:
    try:
        return whitelist.known(group_kind(owner))
    except BadApiVersion:
        return False


class Created(msgspec.Struct, frozen=True):
    """An admitted pod.

    Attributes:
        pod: the object as admitted; the incoming one when nothing was injected.
        subset: None: untouched.
        key: the generated ledger key, "" when none was needed.
        status: of the spread afterwards.
    """

    pod: JsonObject
    subset: str | None
    key: str
    status: Status


def create(obj: JsonObject, spread: Spread | None, status: Status, around: Around, new_key: str) -> Created:
    """Place a new pod by the ledger in the status of the spread that `spread_for` found, and inject.

    `new_key` is a fresh uid, used when the pod has no name yet.

    Raises:
        Refused: the target's replicas cannot be known, or the patch does not apply; `status` then
            carries the slot that stays taken.
    """
    if spread is None:
        return Created(obj, None, "", status)
    pod = pod_of(obj)
    chosen: str | None = None
    key, after = "", status
    if spread.trivial:
        chosen = spread.subsets[0].name
    elif spread.target is not None and spread.target.kind == "StatefulSet":
        chosen = by_ordinal(spread.subsets, pod.name, closed_subsets(status.subsets)).subset
    else:
        chosen, key, after = _by_ledger(pod, _Ledger.of(pod, spread, status, around), new_key)
    subset = None if chosen is None else spread.subset(chosen)
    if subset is None:
        return Created(obj, None, key, after)
    try:
        return Created(inject(obj, spread.name, subset, key), subset.name, key, after)
    except InvalidPatch as error:
        message = f"subset {subset.name!r}: patch: {error}"
        if w.REFUSED_TAKES_NOTHING in around.ways:
            raise Refused("InvalidPatch", message) from error
        raise Refused("InvalidPatch", message, status=after, subset=subset) from error


class _Ledger(msgspec.Struct, frozen=True):
    """The entries of a pod's version.

    Attributes:
        entries: of this version, as they stand or as they begin.
        closed: names of subsets that take no pod of it.
        before: the status as it was.
        status: the same with the lists of all versions as they stand.
    """

    around: Around
    before: Status
    status: Status
    version: str
    entries: tuple[Entry, ...]
    closed: frozenset[str]

    @classmethod
    def of(cls, pod: Pod, spread: Spread, status: Status, around: Around) -> _Ledger:
        """Raises Refused: the target's replicas cannot be known."""
        version = pod_version(pod.owner, pod.labels, around.versioned_kinds)
        own = status.versions.get(version) or ()
        closed = closed_subsets(own)
        if not own and w.CLOSURE_SHARED in around.ways:
            closed = closed_subsets(status.subsets)
        try:
            replicas = replicas_at_admission(spread, around.whitelist, around.read, around.ways)
        except (BadPath, Forbidden) as error:
            if w.LAST_KNOWN not in around.ways and not own:
                raise Refused("ReplicasPath", f"replicas of the target: {error}") from error
            replicas = 0
        if w.CURRENT_SPEC in around.ways:
            lists = {v: by_spec(spread, e, replicas) for v, e in status.versions.items() if e}
            entries = lists.get(version) or by_spec(spread, (), replicas)
            whole = msgspec.structs.replace(status, versions={**status.versions, **lists})
            return cls(around, status, whole, version, entries, closed)
        return cls(around, status, status, version, own or initial_entries(spread.subsets, replicas), closed)

    def with_entry(self, entry: Entry) -> Status:
        """The status with one entry of this version replaced."""
        entries = tuple(entry if e.name == entry.name else e for e in self.entries)
        return msgspec.structs.replace(self.status, versions={**self.status.versions, self.version: entries})

    def placed(self, name: str) -> str | None:
        """The subset in which a pod of this name is being created, in whatever version."""
        for entries in self.status.versions.values():
            for entry in entries:
                if name in entry.creating:
                    return entry.name
        return None

    def leaving(self, name: str) -> bool:
        """Whether the delete of a pod of this name was admitted, in whatever version."""
        return any(name in entry.deleting for entries in self.status.versions.values() for entry in entries)


def by_spec(spread: Spread, entries: Sequence[Entry], replicas: int) -> tuple[Entry, ...]:
    """A list in the order and with the names and limits of the spec: free is what is not held."""
    found = []
    for subset in spread.subsets:
        before = entry_named(entries, subset.name)
        limit = in_force(subset.limit, replicas)
        entry = before or Entry(subset.name, 0 if limit is None else limit)
        if limit is None:
            missing = UNLIMITED_MISSING
        elif entry.missing == UNLIMITED_MISSING:
            held = entry.replicas + len(entry.creating) - len(entry.deleting)
            missing = max(0, limit - max(0, held))
        else:
            missing = max(0, entry.missing)
        found.append(msgspec.structs.replace(entry, missing=missing))
    return tuple(found)


def _by_ledger(pod: Pod, ledger: _Ledger, new_key: str) -> tuple[str | None, str, Status]:
    """The subset, the generated key, and the status afterwards; of the status a recorded place alone changes something."""
    ways, before = ledger.around.ways, ledger.before
    again: str | None = None
    if pod.name and w.ONE_PLACE in ways:
        if (own := ledger.placed(pod.name)) is not None:
            return own, "", before
        open_ones = {e.name for e in ledger.entries if e.missing != 0 and e.name not in ledger.closed}
        again = next((e.name for e in ledger.entries if pod.name in e.deleting and e.name in open_ones), None)
    elif pod.name:
        for entry in ledger.entries:
            if pod.name in entry.creating or pod.name in entry.deleting:
                return entry.name, "", before
    choice: Choice = by_slots(Slot(e.name, e.missing, e.name in ledger.closed) for e in ledger.entries)
    found = entry_named(ledger.entries, again or choice.subset or "")
    if found is None:
        return None, "", before
    if found.missing == UNLIMITED_MISSING and w.UNLIMITED_RECORDED not in ways:
        return found.name, "", before
    key = pod.name or new_key
    missing = found.missing if found.missing == UNLIMITED_MISSING else found.missing - 1
    creating = {**found.creating, key: ledger.around.now}
    taken = msgspec.structs.replace(found, missing=missing, creating=creating)
    return found.name, "" if pod.name else new_key, ledger.with_entry(taken)


def remove(
    obj: Mapping[str, Any], spread: Spread | None, status: Status, around: Around, *, evicted: bool = False
) -> Status:
    """Record a delete or an eviction; it is always allowed.

    `spread` is the one that the pod's annotation names, None when it does not exist.

    Raises:
        Refused: the target's replicas cannot be known.
    """
    pod, ways = pod_of(obj), around.ways
    if spread is None or pod.placement is None or not pod.active or pod.owner is None:
        return status
    if spread.trivial or spread.target is None or spread.target.kind == "StatefulSet":
        return status
    if evicted and w.EVICTION_LATER in ways:
        return status
    ledger = _Ledger.of(pod, spread, status, around)
    entry = entry_named(ledger.entries, pod.placement.subset)
    if w.ONE_PLACE in ways:
        recorded = ledger.leaving(pod.name)
    else:
        recorded = any(pod.name in e.creating or pod.name in e.deleting for e in ledger.entries)
    if recorded or entry is None:
        return status
    if entry.missing == UNLIMITED_MISSING and w.UNLIMITED_RECORDED not in ways:
        return status
    creating = entry.creating
    if w.ONE_PLACE in ways:
        creating = {key: at for key, at in creating.items() if key != pod.key}
    free = entry.missing if entry.missing == UNLIMITED_MISSING else entry.missing + 1
    freed = msgspec.structs.replace(
        entry, missing=free, creating=creating, deleting={**entry.deleting, pod.name: around.now}
    )
    return ledger.with_entry(freed)
