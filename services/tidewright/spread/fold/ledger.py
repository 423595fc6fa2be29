"""Folding the ledger, the decider's own decisions, and what came of them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from tidewright.events.acting import NOT_DONE
from tidewright.events.base import Outcome
from tidewright.events.decisions import (
    DeleteObject,
    EvictPod,
    PatchObject,
    ScaleWorkload,
    SetStatus,
    SetTimer,
)
from tidewright.events.outcomes import Failed, Rejected
from tidewright.events.spread import (
    ChangeLedger,
    EntriesAppended,
    ForeseeScaleIn,
    PodLeaving,
    PodPlaced,
    RecordSpread,
)
from tidewright.kube.customworkloads import BadApiVersion, GroupKind, group_version
from tidewright.kube.workloadspreads.placements import placement_of
from tidewright.kube.workloadspreads.spec import DELETION_COST_ANNOTATION, KIND, MATCHED_ANNOTATION
from tidewright.spread.fold.touched import Shrinks, Touched, Unadopted, Uncounted, Undone
from tidewright.spread.ledger import ledger
from tidewright.spread.state import (
    ADOPTING,
    CALLED,
    HELD,
    LIMIT_VALID,
    TIMER,
    Condition,
    Row,
    SpreadState,
    State,
    spread_key,
    target_key,
    unpack_uid,
)

NOT_ADOPTED = "NotAdopted"
"""Why a place is free again: the pod could not be annotated."""


def entry_appended(state: State, event: PodPlaced | PodLeaving, touched: Touched) -> None:
    """An entry of the admission endpoint."""
    key = spread_key(event.namespace, event.name)
    spread = state.spreads.get(key)
    if spread is None or (event.spread and event.spread != spread.uid):
        return  # of a spread of this name that is gone: its ledger has ended
    if isinstance(event, PodLeaving) and not event.evicted:
        _leaves(spread, event, touched)
    if isinstance(event, PodPlaced) and event.unfenced:
        spread.unfenced_at = event.at
    ledger.fold(spread.ledger, event)
    touched.home = key


def _leaves(spread: SpreadState, event: PodLeaving, touched: Touched) -> None:
    """Whose place an admitted delete frees: that of a pod, or that of a placement whose pod was not seen yet."""
    if (event.uid or event.pod) in spread.ledger.leaving or ledger.places(spread.ledger, event):
        return
    row = spread.pods.get(event.pod)
    if row is not None and row.held and event.uid in ("", unpack_uid(row.uid)):
        row.flags &= ~HELD
    else:
        touched.uncounted.append(Uncounted(event.key, event.pod, event.version, event.subset, event.uid))


def entries_appended(state: State, event: EntriesAppended, touched: Touched) -> None:
    """Several, in their order."""
    for entry in event.entries:
        entry_appended(state, entry, touched)


def ledger_changed(state: State, decision: ChangeLedger, touched: Touched) -> None:
    """An own decision about the ledger."""
    spread = state.spreads.get(spread_key(decision.target.namespace, decision.target.name))
    if spread is None:
        return
    if decision.rules is not None:
        _closures(spread, decision)
    for change in decision.changes:
        row = spread.pods.get(change.pod)
        if row is None:
            continue
        if change.kind in ("Seen", "Held"):
            row.flags |= HELD
        elif change.kind == "Released":
            row.flags &= ~HELD
            if change.reason == NOT_ADOPTED:
                _place(spread, row, "", "")
                row.flags &= ~ADOPTING
    if decision.counts is not None:
        spread.recount = False
    ledger.fold(spread.ledger, decision)


def _closures(spread: SpreadState, decision: ChangeLedger) -> None:
    """Conditions follow from the rules: a subset that closes or opens does so at this moment."""
    if spread.spread is None or decision.rules is None or not spread.spread.adaptive:
        spread.conditions.clear()
        return
    before = spread.conditions
    spread.conditions = {
        rule.name: old
        if (old := before.get(rule.name)) is not None and old.open != rule.closed
        else Condition(not rule.closed, decision.at)
        for rule in decision.rules.subsets
    }


def patched(state: State, decision: PatchObject, touched: Touched) -> None:
    """An own decision about a pod's metadata: a cost was asked for, or a pod adopted."""
    if decision.target.kind != "Pod":
        return
    spread, row = state.find(decision.target.namespace, decision.target.name)
    if row is None:
        return
    annotations: Mapping[str, Any] = (decision.patch.get("metadata") or {}).get("annotations") or {}
    cost = annotations.get(DELETION_COST_ANNOTATION)
    if isinstance(cost, str):
        row.asked = sys.intern(cost)
        _await(spread, decision.id, row.name)
    placement = placement_of(annotations.get(MATCHED_ANNOTATION))
    if placement is not None and spread is not None:
        _place(spread, row, placement.name, placement.subset)
        row.flags |= ADOPTING
        if decision.id:
            spread.adopting[decision.id] = row.name


def _place(spread: SpreadState, row: Row, name: str, subset: str) -> None:
    """Put a row into another subset, and into its count."""
    if row.active:
        spread.count(row, -1)
    row.placed_by, row.subset = sys.intern(name), sys.intern(subset)
    if row.active:
        spread.count(row, 1)


def called(state: State, decision: DeleteObject | EvictPod, touched: Touched) -> None:
    """An own decision to delete or evict a pod."""
    if decision.target.kind == "Pod":
        spread, row = state.find(decision.target.namespace, decision.target.name)
        if row is not None:
            row.flags |= CALLED
        if spread is not None and isinstance(decision, EvictPod):
            spread.brought_back_at = decision.at
        _await(spread, decision.id, decision.target.name)


def _await(spread: SpreadState | None, decision_id: str, pod: str) -> None:
    if spread is not None and decision_id:
        spread.awaited[decision_id] = pod


def answered(state: State, outcome: Outcome, touched: Touched) -> None:
    """What was decided about a pod did not come about: forget that it was, and look again."""
    for key, spread in state.spreads.items():
        adopted = spread.adopting.pop(outcome.decision, None)
        if adopted is not None:
            row = spread.pods.get(adopted)
            refused = isinstance(outcome, Rejected | Failed)
            if row is not None and row.flags & ADOPTING and (refused or outcome.reason in NOT_DONE):
                touched.unadopted = Unadopted(key, adopted, refused)
            return
        pod = spread.awaited.pop(outcome.decision, None)
        if pod is None:
            continue
        row = spread.pods.get(pod)
        if row is not None and outcome.reason in NOT_DONE:
            row.flags &= ~CALLED  # its cost was not written either, and need not be asked for again
        elif row is not None and isinstance(outcome, Rejected | Failed):
            touched.failed = Undone(key, pod, bool(row.flags & CALLED))
            row.flags &= ~CALLED
            row.asked = ""
        return


def status_set(state: State, decision: SetStatus, touched: Touched) -> None:
    """An own decision about the status; an autoscaler may have the spread's name."""
    if decision.target.kind != KIND:
        return
    spread = state.spreads.get(spread_key(decision.target.namespace, decision.target.name))
    if spread is not None:
        spread.status, spread.status_at = decision.status, decision.at
        spread.fault_since = {
            entry["name"]: spread.fault_since.get(entry["name"], decision.at)
            for entry in decision.status.get("subsetStatuses") or ()
            if any(c.get("type") == LIMIT_VALID for c in entry.get("conditions") or ())
        }


def announced(state: State, decision: ScaleWorkload, touched: Touched) -> None:
    """Another service's decision to scale a workload, read as an input."""
    try:
        group, _ = group_version(decision.target.api_version)
    except BadApiVersion:
        return
    kind = GroupKind(group, decision.target.kind)
    if decision.replicas >= decision.from_replicas or decision.shadow:
        return
    for spread in state.having(target_key(decision.target.namespace, kind, decision.target.name)):
        key = spread_key(spread.namespace, spread.name)
        touched.shrinks.append(Shrinks(key, decision.replicas, announced=True))


def foreseen(state: State, decision: ForeseeScaleIn, touched: Touched) -> None:
    """Who leaves has been said for this number of replicas."""
    spread = state.spreads.get(spread_key(decision.target.namespace, decision.target.name))
    if spread is not None:
        spread.foreseen, spread.foreseen_at = decision.replicas, decision.at


def recorded(state: State, decision: RecordSpread, touched: Touched) -> None:
    """Why the spread rests has been said."""
    spread = state.spreads.get(spread_key(decision.target.namespace, decision.target.name))
    if spread is not None:
        spread.recorded = decision.message


def timer_set(state: State, decision: SetTimer, touched: Touched) -> None:
    """The spread's timer is set."""
    spread = state.spreads.get(decision.key.removeprefix(TIMER))
    if spread is not None:
        spread.due = decision.due
