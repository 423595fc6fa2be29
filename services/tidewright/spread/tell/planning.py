"""Where pods would land: the decider and the ledger asked about what has not happened. Pure.

landing     N new pods, from none
change      a changed spread, and another number of replicas, over the pods that are there
"""

from __future__ import annotations

import msgspec

from tidewright.events.base import JsonObject
from tidewright.events.decisions import PatchObject
from tidewright.events.facts import WorkloadObserved
from tidewright.events.spread import LedgerRules, PodPlaced, SubsetRule, WorkloadSpreadObserved
from tidewright.kube.workloadspreads import limits
from tidewright.kube.workloadspreads.choose import by_ordinal
from tidewright.kube.workloadspreads.spec import DELETION_COST_ANNOTATION, Spread
from tidewright.spread.control.versions import versions_by
from tidewright.spread.control.victims import leaving as leaving_first
from tidewright.spread.decide import DECIDER
from tidewright.spread.fold.owners import pods_of_target
from tidewright.spread.ledger import ledger as ledgers
from tidewright.spread.ledger.ledger import Ledger
from tidewright.spread.state import SpreadState, State, spread_key


class PlanRow(msgspec.Struct, frozen=True):
    """One subset; the name "" stands for pods in none.

    Attributes:
        limit: in pods; None for unlimited.
        now: active pods that are there.
        then: active pods once the target has reached its replicas.
    """

    subset: str
    limit: int | None
    now: int
    then: int


class Plan(msgspec.Struct, frozen=True):
    """What would come of it.

    Attributes:
        replicas: of the workload; of the spread's own pods where paths say them (`replicasPathList`).
        leaving: pods that would be scaled in, first one first, as `name (subset)`; of a spread with a selector those
            that it takes, while the workload's own controller looks at all. New pods are taken to be its own: that is
            the most that may come.
        costs: pods whose deletion cost would change.
        surplus: subset to the pods over its limit; nothing moves them but scaling in or a rollout.
    """

    replicas: int
    rows: tuple[PlanRow, ...]
    leaving: tuple[str, ...] = ()
    costs: int = 0
    surplus: dict[str, int] = {}


def landing(spread: Spread, replicas: int) -> Plan:
    """Where so many pods of one revision land when there is none yet."""
    limits_of = {s.name: _limit(s.limit, replicas) for s in spread.subsets}
    then = _placed(spread, Ledger(rules=_rules(spread, limits_of)), "", replicas, 0)
    return Plan(replicas, _rows(limits_of, {}, then))


def change(state: State, spread: Spread, spec: JsonObject, replicas: int) -> Plan:
    """What a changed spread would do to the pods that the state holds. The state is used up."""
    key = spread_key(spread.namespace, spread.name)
    known = state.spreads.get(key)
    now, before = state.now, _counts(known) if known is not None else {}
    fact = WorkloadSpreadObserved(
        at=now,
        namespace=spread.namespace,
        name=spread.name,
        uid=known.uid if known is not None else "planned",
        generation=(known.generation if known is not None else 0) + 1,
        spec=spec,
    )
    costs: dict[str, str] = {}
    _decided(state, fact, costs)
    planned = state.spreads[key]
    target = state.workloads.get(planned.target_uid)
    if target is not None and target.replicas != replicas:
        scaled = WorkloadObserved(
            at=now,
            namespace=spread.namespace,
            name=target.name,
            uid=target.uid,
            api_version=spread.target.api_version if spread.target is not None else "",
            kind=target.kind.kind,
            replicas=replicas,
            revision=target.revision,
            labels={"pod-template-hash": target.template_hash} if target.template_hash else {},
        )
        _decided(state, scaled, costs)
    before = before or _counts(planned)
    limits_of = {s.name: _limit(s.limit, replicas) for s in spread.subsets}
    of_role = spread.target_filter is not None and bool(spread.target_filter.replicas_path_list)
    counted = {row.name for row in (planned.pods.values() if of_role else pods_of_target(state, planned))}
    order = [row for row in leaving_first(state, planned).rows if row.name in counted]
    active = len(order)
    leaving = [row for row in order[: max(0, active - replicas)] if row.name in planned.pods]
    then = dict(_counts(planned))
    for row in leaving:
        subset = _subset(planned, row.subset if row.placed_by == planned.name else "")
        then[subset] -= 1
    if (more := replicas - active) > 0:
        latest = versions_by(state.settings).latest(state, planned)
        for subset, count in _placed(spread, planned.ledger, latest, more, active).items():
            then[subset] = then.get(subset, 0) + count
    over = {
        name: then.get(name, 0) - limit
        for name, limit in limits_of.items()
        if limit is not None and then.get(name, 0) > limit
    }
    return Plan(
        replicas,
        _rows(limits_of, before, then),
        tuple(f"{row.name} ({row.subset or 'no subset'})" for row in leaving),
        len(costs),
        over,
    )


def _decided(state: State, fact: WorkloadSpreadObserved | WorkloadObserved, costs: dict[str, str]) -> None:
    """Fold a fact and what the decider makes of it; note the costs that change."""
    touched = DECIDER.evolve(state, fact)
    for decision in DECIDER.decide(state, fact, touched):
        DECIDER.evolve(state, decision)
        if isinstance(decision, PatchObject):
            annotations = (decision.patch.get("metadata") or {}).get("annotations") or {}
            if DELETION_COST_ANNOTATION in annotations:
                costs[decision.target.name] = str(annotations[DELETION_COST_ANNOTATION])


def _placed(spread: Spread, ledger: Ledger, version: str, count: int, first: int) -> dict[str, int]:
    """Where further pods go, one after the other; "" for those that no subset takes."""
    placed: dict[str, int] = {}
    closed = (
        frozenset(rule.name for rule in ledger.rules.subsets if rule.closed) if ledger.rules else frozenset()
    )
    for n in range(count):
        name = f"planned-{first + n}"
        if spread.target is not None and spread.target.kind == "StatefulSet":
            subset = by_ordinal(spread.subsets, name, closed).subset or ""
        else:
            subset = ledgers.place(ledger, version, name, name).subset
            entry = PodPlaced(
                at=0.0, namespace=spread.namespace, name=spread.name, key=name, version=version, subset=subset
            )
            ledgers.fold(ledger, entry)
        placed[subset] = placed.get(subset, 0) + 1
    return placed


def _rules(spread: Spread, limits_of: dict[str, int | None]) -> LedgerRules:
    return LedgerRules(subsets=tuple(SubsetRule(s.name, limits_of[s.name]) for s in spread.subsets))


def _limit(limit: limits.Limit | None, replicas: int) -> int | None:
    if limit is None:
        return None
    try:
        return max(0, limits.strict(limit, replicas))
    except limits.NotALimit:
        return 0


def _subset(planned: SpreadState, name: str) -> str:
    known = planned.spread is not None and planned.spread.subset(name) is not None
    return name if known else ""


def _counts(planned: SpreadState) -> dict[str, int]:
    counts: dict[str, int] = {}
    for row in planned.pods.values():
        if row.active:
            subset = _subset(planned, row.subset if row.placed_by == planned.name else "")
            counts[subset] = counts.get(subset, 0) + 1
    return counts


def _rows(limits_of: dict[str, int | None], now: dict[str, int], then: dict[str, int]) -> tuple[PlanRow, ...]:
    rows = [PlanRow(name, limit, now.get(name, 0), then.get(name, 0)) for name, limit in limits_of.items()]
    outside = PlanRow("", None, sum(v for k, v in now.items() if k not in limits_of), then.get("", 0))
    return (*rows, outside) if outside.now or outside.then else tuple(rows)
