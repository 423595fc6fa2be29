"""The status of a spread as it shall be (specification, 1.3), from its ledger and its pods."""

from __future__ import annotations

from tidewright.events.base import JsonObject
from tidewright.events.spread import LedgerRules
from tidewright.kube.conditions import entry as condition
from tidewright.kube.conditions import transition
from tidewright.kube.times import rfc3339
from tidewright.kube.workloadspreads import limits
from tidewright.kube.workloadspreads.spec import Subset
from tidewright.spread.control.gathering import Gathering
from tidewright.spread.state import LIMIT_VALID

SCHEDULABLE = "Schedulable"
EXACT = "Exact"
"""Condition of a subset whose spread is placed by the last known state while the log is away."""
IN_FORCE = "InForce"
"""A condition of ours: False where an older spread has the target and may select the same pods."""
SUFFICIENT = "Sufficient"
POD_UNSCHEDULABLE = "PodUnschedulable"


def status(g: Gathering) -> JsonObject:
    """The status as it shall be: counts of active pods, free slots, what is in flight (1.3)."""
    spread = g.s.spread
    if spread is None:
        return {}
    rules = g.rules or g.s.ledger.rules or LedgerRules()
    limit_of = {rule.name: rule.limit for rule in rules.subsets}
    versions = sorted(
        {*g.versions.with_pods(g.s), *g.s.ledger.counts, *(v for v, _ in g.held_delta)}
        | {h.version for h in g.s.ledger.leaving.values()}
    )
    written: JsonObject = {}
    if g.s.generation:
        written["observedGeneration"] = g.s.generation
    written["subsetStatuses"] = [
        _entry(
            g,
            s,
            g.s.active_in(s.name),
            g.held(None, s.name),
            limit_of.get(s.name),
        )
        for s in spread.subsets
    ]
    by_version = {}
    for version in versions:
        entries = []
        for subset in spread.subsets:
            entry = _entry(
                g,
                subset,
                g.versions.active(g.s, version, subset.name),
                g.held(version, subset.name),
                limit_of.get(subset.name),
            )
            _add_in_flight(g, entry, version, subset.name)
            entries.append(entry)
        if any(e["replicas"] or "creatingPods" in e or "deletingPods" in e for e in entries):
            by_version[version] = entries
    if by_version:
        written["versionedSubsetStatuses"] = by_version
    return written


def _entry(g: Gathering, subset: Subset, active: int, held: int, limit: int | None) -> JsonObject:
    entry: JsonObject = {
        "name": subset.name,
        "replicas": active,
        "missingReplicas": -1 if limit is None else max(0, limit - held),
    }
    conditions = []
    if subset.name in g.conditions and g.s.spread is not None and g.s.spread.adaptive:
        old, is_open = g.s.conditions.get(subset.name), g.conditions[subset.name]
        since = transition(None if old is None else (old.open, old.at), is_open, g.now)
        reason = SUFFICIENT if is_open else POD_UNSCHEDULABLE
        conditions.append(condition(SCHEDULABLE, is_open, since, reason=reason))
    if g.s.fail_open:
        conditions.append(_inexact(g))
    if g.s.taken_by:
        conditions.append(
            condition(IN_FORCE, False, g.s.taken_since, reason="TargetTaken", message=g.s.invalid)
        )
    if (fault := _limit_fault(g, subset)) is not None:
        since = _fault_since(g, subset.name)
        conditions.append(condition(LIMIT_VALID, False, since, reason="NotANumber", message=fault))
    if conditions:
        entry["conditions"] = conditions
    return entry


def _inexact(g: Gathering) -> JsonObject:
    """A spread that fails open is exempt from exactness, and its status says so."""
    happened = g.s.unfenced_at > 0
    return condition(
        EXACT,
        False,
        g.s.unfenced_at or g.s.fail_open_since,
        reason="AdmittedUnfenced" if happened else "FailOpen",
        message="pods were placed while the log was away: limits may be exceeded"
        if happened
        else "while the log is away pods are placed by the last known state",
    )


def _limit_fault(g: Gathering, subset: Subset) -> str | None:
    """Why a stored limit is no number: it slipped past validation, and offers no slot [Q-2]."""
    if subset.limit is None:
        return None
    try:
        value = limits.strict(subset.limit, 100)
    except limits.NotALimit as error:
        return str(error)
    return None if value >= 0 else f"maxReplicas {subset.limit!r} is negative"


def _fault_since(g: Gathering, name: str) -> float:
    """When it was found: as the last status has it, so that a status does not change by being written."""
    return g.s.fault_since.get(name, g.now)


def _add_in_flight(g: Gathering, entry: JsonObject, version: str, subset: str) -> None:
    for field, held_by, gone in (
        ("creatingPods", g.s.ledger.placed, g.placed_gone),
        ("deletingPods", g.s.ledger.leaving, g.leaving_gone),
    ):
        since = {
            # One that was set aside has its request behind its name.
            (key.partition("#")[0] if field == "creatingPods" else h.pod): rfc3339(h.at)
            for key, h in held_by.items()
            if h.version == version and h.subset == subset and key not in gone
        }
        if since:
            entry[field] = since
