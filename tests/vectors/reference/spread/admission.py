"""Admission against the ledger in the status, as the original keeps it (specification, 2.2, 2.9, 2.10).

create    a new pod
remove    a delete or an eviction
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tests.vectors.reference.spread.matching import replicas_at_admission
from tests.vectors.reference.spread.status import Entry, Status, closed_subsets, entry_named, initial_entries
from tidewright.events.base import JsonObject
from tidewright.kube.customworkloads import BadApiVersion, BadPath, Whitelist
from tidewright.kube.selectors import SelectorError
from tidewright.kube.strategicmerge import InvalidPatch
from tidewright.kube.workloadspreads.choose import Choice, Slot, by_ordinal, by_slots
from tidewright.kube.workloadspreads.inject import inject
from tidewright.kube.workloadspreads.sharing import selected
from tidewright.kube.workloadspreads.spec import Spread, Subset
from tidewright.spread.match.matching import Forbidden, NotFound, Reader, owner_matches
from tidewright.spread.match.pods import VERSIONED_KINDS, Pod, pod_of, pod_version


class Refused(Exception):
    """The request is refused: `status` is what stays recorded, `subset` the one whose patch did not apply."""

    def __init__(
        self, reason: str, message: str, status: Status | None = None, subset: Subset | None = None
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.status = status
        self.subset = subset


def spread_for(pod: Pod, spreads: Iterable[Spread], whitelist: Whitelist, read: Reader) -> Spread | None:
    """The spread that takes a new pod.

    Raises:
        Refused: an owner is not there yet, on account of whichever spread asked for it [Q-5].
    """
    if not pod.active or pod.owner is None:
        return None
    for spread in spreads:
        if spread.deleting or spread.target is None:
            continue
        selects = spread.target_filter is None or spread.target_filter.selector is not None  # else none
        try:
            mine = owner_matches(spread.target, pod.owner, whitelist, read) and selects
            if mine and selected(spread.target_filter, pod.labels):
                return spread
        except NotFound as error:
            raise Refused("NotFound", str(error)) from error
        except (Forbidden, BadApiVersion, SelectorError):
            continue
    return None


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


def create(
    obj: JsonObject,
    spread: Spread | None,
    status: Status,
    whitelist: Whitelist,
    read: Reader,
    now: float,
    new_key: str,
    *,
    versioned_kinds: frozenset[str] = VERSIONED_KINDS,
) -> Created:
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
        chosen, key, after = _by_ledger(
            pod,
            spread,
            status,
            whitelist,
            read,
            now,
            new_key,
            pod_version(pod.owner, pod.labels, versioned_kinds),
        )
    subset = None if chosen is None else spread.subset(chosen)
    if subset is None:
        return Created(obj, None, key, after)
    try:
        return Created(inject(obj, spread.name, subset, key), subset.name, key, after)
    except InvalidPatch as error:
        raise Refused(
            "InvalidPatch", f"subset {subset.name!r}: patch: {error}", status=after, subset=subset
        ) from error


def _by_ledger(
    pod: Pod,
    spread: Spread,
    status: Status,
    whitelist: Whitelist,
    read: Reader,
    now: float,
    new_key: str,
    version: str,
) -> tuple[str | None, str, Status]:
    ledger = _ledger(spread, status, whitelist, read, version)
    if pod.name:
        for entry in ledger:
            if pod.name in entry.creating or pod.name in entry.deleting:
                return entry.name, "", status
    choice: Choice = by_slots(Slot(e.name, e.missing, e.closed) for e in ledger)
    if choice.subset is None or not choice.counted:
        return choice.subset, "", status
    key = pod.name or new_key
    taken = tuple(
        msgspec.structs.replace(e, missing=e.missing - 1, creating={**e.creating, key: now})
        if e.name == choice.subset
        else e
        for e in ledger
    )
    return choice.subset, "" if pod.name else new_key, _with_version(status, version, taken)


def _ledger(
    spread: Spread, status: Status, whitelist: Whitelist, read: Reader, version: str
) -> tuple[Entry, ...]:
    if ledger := status.versions.get(version):
        return ledger
    try:
        return initial_entries(spread.subsets, replicas_at_admission(spread, whitelist, read))
    except (BadPath, Forbidden) as error:
        raise Refused("ReplicasPath", f"replicas of the target: {error}") from error


def _with_version(status: Status, version: str, ledger: tuple[Entry, ...]) -> Status:
    return msgspec.structs.replace(status, versions={**status.versions, version: ledger})


def remove(
    obj: Mapping[str, Any],
    spread: Spread | None,
    status: Status,
    whitelist: Whitelist,
    read: Reader,
    now: float,
    *,
    versioned_kinds: frozenset[str] = VERSIONED_KINDS,
) -> Status:
    """Record a delete or an eviction; it is always allowed.

    `spread` is the one that the pod's annotation names, None when it does not exist.

    Raises:
        Refused: the target's replicas cannot be known.
    """
    pod = pod_of(obj)
    if spread is None or pod.placement is None or not pod.active or pod.owner is None:
        return status
    if spread.trivial or spread.target is None or spread.target.kind == "StatefulSet":
        return status
    version = pod_version(pod.owner, pod.labels, versioned_kinds)
    ledger = _ledger(spread, status, whitelist, read, version)
    if any(pod.name in e.creating or pod.name in e.deleting for e in ledger):
        return status
    entry = entry_named(ledger, pod.placement.subset)
    if entry is None or entry.missing == -1:
        return status
    freed = msgspec.structs.replace(
        entry, missing=entry.missing + 1, deleting={**entry.deleting, pod.name: now}
    )
    return _with_version(status, version, tuple(freed if e is entry else e for e in ledger))
