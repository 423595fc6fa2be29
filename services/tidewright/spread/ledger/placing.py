"""A pod's admission against the ledger on the log: the pure half of the admission endpoint.

created     what a new pod becomes, and the entry that must be appended before it is answered
removed     the entry for an admitted delete or eviction
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tidewright.events.base import JsonObject
from tidewright.events.spread import LedgerRules, PassedOver, PodLeaving, PodPlaced
from tidewright.kube.strategicmerge import InvalidPatch
from tidewright.kube.workloadspreads.choose import by_ordinal
from tidewright.kube.workloadspreads.inject import inject
from tidewright.kube.workloadspreads.spec import BadSpread, Spread, parse_spec
from tidewright.spread.ledger import ledger as ledgers
from tidewright.spread.ledger.ledger import Ledger
from tidewright.spread.match.admit import Refused
from tidewright.spread.match.pods import VERSIONED_KINDS, Pod, pod_of, pod_version


class Request(msgspec.Struct, frozen=True):
    """What identifies an admission request: its uid, and the log time at which it is answered."""

    uid: str
    at: float


class Placed(msgspec.Struct, frozen=True):
    """An admitted pod.

    Attributes:
        pod: as admitted; the incoming one when it goes in untouched.
        entry: to be appended under the ledger's expected sequence before the answer; None: nothing is.
    """

    pod: JsonObject
    subset: str = ""
    entry: PodPlaced | None = None
    passed: tuple[PassedOver, ...] = ()


def spread_on(ledger: Ledger, namespace: str, name: str) -> Spread | None:
    """The spread as the ledger's rules have it; None when there is none (any more)."""
    rules = ledger.rules
    if rules is None or rules.gone or rules.held_back:
        return None
    try:
        return parse_spec(rules.spec, namespace=namespace, name=name, generation=rules.generation)
    except BadSpread:
        return None


def created(
    ledger: Ledger,
    spread: Spread | None,
    obj: JsonObject,
    *,
    request: Request,
    versioned_kinds: frozenset[str] = VERSIONED_KINDS,
    pod: Pod | None = None,
) -> Placed:
    """Place a new pod. `spread` is what `spread_on` gives for this ledger; `pod` is `obj` read, if it was.

    Raises:
        Refused: the chosen subset's patch does not apply to the pod; no place is taken then.
    """
    if spread is None or spread.target is None:
        return Placed(obj)
    pod = pod or pod_of(obj)
    version = pod_version(pod.owner, pod.labels, versioned_kinds)
    if spread.trivial:
        return Placed(_injected(spread, spread.subsets[0].name, obj, ""), spread.subsets[0].name)
    if spread.target.kind == "StatefulSet":
        choice = by_ordinal(spread.subsets, pod.name, _closed(ledger.rules))
        if choice.subset is None:
            return Placed(obj)
        return Placed(_injected(spread, choice.subset, obj, ""), choice.subset)
    key = pod.name or request.uid
    place = ledgers.place(ledger, version, key, pod.name, request.uid)
    uid = "" if pod.name else request.uid
    admitted = _injected(spread, place.subset, obj, uid) if place.subset else obj
    if place.again:
        return Placed(admitted, place.subset)
    entry = PodPlaced(
        at=request.at,
        namespace=spread.namespace,
        name=spread.name,
        key=key,
        request=request.uid,
        version=version,
        spread=_uid(ledger),
        subset=place.subset,
        pod=pod.name or pod.generate_name,
        passed=place.passed,
    )
    return Placed(admitted, place.subset, entry, place.passed)


def _uid(ledger: Ledger) -> str:
    return "" if ledger.rules is None else ledger.rules.uid


def _closed(rules: LedgerRules | None) -> frozenset[str]:
    return frozenset(rule.name for rule in rules.subsets if rule.closed) if rules is not None else frozenset()


def _injected(spread: Spread, name: str, obj: JsonObject, uid: str) -> JsonObject:
    subset = spread.subset(name)
    if subset is None:
        return obj
    try:
        return inject(obj, spread.name, subset, uid)
    except InvalidPatch as error:
        raise Refused("InvalidPatch", f"subset {name!r}: patch: {error}") from error
    except (TypeError, AttributeError, ValueError, KeyError) as error:
        # No API server sends such a pod: it has read it as one before.
        raise Refused("Unreadable", f"the object is no pod: {error}", code=400) from error


def removed(
    ledger: Ledger,
    spread: Spread | None,
    obj: Mapping[str, Any],
    request: Request,
    versioned_kinds: frozenset[str] = VERSIONED_KINDS,
    *,
    evicted: bool = False,
) -> PodLeaving | None:
    """The entry for a pod whose delete or eviction is admitted; None when nothing is to be recorded (2.9).

    An eviction frees nothing by itself: a budget may still refuse it [Q-4].
    """
    pod: Pod = pod_of(obj)
    placement = pod.placement
    if spread is None or spread.target is None or placement is None or not pod.active or pod.owner is None:
        return None
    if spread.trivial or spread.target.kind == "StatefulSet" or placement.name != spread.name:
        return None
    if spread.subset(placement.subset) is None or ledgers.leaving_key(ledger, pod.name, pod.uid):
        return None
    return PodLeaving(
        at=request.at,
        namespace=spread.namespace,
        name=spread.name,
        key=pod.key,
        request=request.uid,
        version=pod_version(pod.owner, pod.labels, versioned_kinds),
        spread=_uid(ledger),
        subset=placement.subset,
        pod=pod.name,
        uid=pod.uid,
        evicted=evicted,
    )
