"""Folding events into the state: facts, ledger entries, and the decider's own decisions.

Nothing is concluded here. Each fold notes what it changed in the `Touched` that it is given, for `decide`;
everything that `decide` concludes comes back as a decision, so a replay of recorded decisions gives the same state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from tidewright.events.base import Event
from tidewright.events.config import ConfigSet, ModesSet
from tidewright.events.decisions import (
    DeleteObject,
    EvictPod,
    PatchObject,
    ScaleWorkload,
    SetStatus,
    SetTimer,
)
from tidewright.events.facts import (
    NodeGone,
    NodeObserved,
    PodGone,
    PodObserved,
    ShapeGone,
    ShapeObserved,
    WorkloadGone,
    WorkloadObserved,
)
from tidewright.events.incumbents import IncumbentObserved
from tidewright.events.outcomes import Applied, Failed, Rejected, Superseded
from tidewright.events.spread import (
    ChangeLedger,
    EntriesAppended,
    ForeseeScaleIn,
    KindRefused,
    PodLeaving,
    PodPlaced,
    RecordSpread,
    TargetReplicasObserved,
    WorkloadSpreadGone,
    WorkloadSpreadObserved,
)
from tidewright.events.timers import TimerFired
from tidewright.kube.customworkloads import (
    WHITELIST_CONFIG_MAP,
    WHITELIST_KEY,
    BadWhitelist,
    Whitelist,
    whitelist_of,
)
from tidewright.kube.podapi.nodeterms import Node
from tidewright.spread.fold import modes
from tidewright.spread.fold.ledger import (
    announced,
    answered,
    called,
    entries_appended,
    entry_appended,
    foreseen,
    ledger_changed,
    patched,
    recorded,
    status_set,
    timer_set,
)
from tidewright.spread.fold.pods import pod_gone, pod_observed
from tidewright.spread.fold.spreads import kind_refused, spread_gone, spread_observed, target_replicas
from tidewright.spread.fold.touched import NOTHING, Touched
from tidewright.spread.fold.workloads import workload_gone, workload_observed
from tidewright.spread.settings import NAME
from tidewright.spread.state import TIMER, Settings, State

_UNSCHEDULABLE_TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def evolve(state: State, event: Event) -> Touched:
    """Fold one event, in place, and say what it touched."""
    if event.at > state.now:
        state.now = event.at
    fold = _FOLDS.get(type(event))
    if fold is None:
        return NOTHING
    touched = Touched()
    fold(state, event, touched)
    return touched


def _node(state: State, fact: NodeObserved, touched: Touched) -> None:
    taints = tuple(
        {"key": t.get("key", ""), "value": t.get("value", ""), "effect": t.get("effect", "")}
        for t in fact.taints
    )
    if fact.unschedulable and not any(t["key"] == _UNSCHEDULABLE_TAINT["key"] for t in taints):
        taints = (*taints, {**_UNSCHEDULABLE_TAINT, "value": ""})
    node = Node(fact.name, fact.labels, taints)
    known = state.nodes.get(fact.name)
    state.nodes[fact.name] = node
    if known != node:
        _waken_unplaced(state, fact.name, touched)


def _node_gone(state: State, fact: NodeGone, touched: Touched) -> None:
    state.nodes.pop(fact.name, None)


def _waken_unplaced(state: State, node: str, touched: Touched) -> None:
    """A node that was not known when its pods were seen, or is another one now: those without a place may be adopted."""
    for key, spread in state.spreads.items():
        if not spread.active_in(""):
            continue  # all of its pods have a place: nearly always
        if any(r.node == node and not r.subset and r.active for r in spread.pods.values() if not r.held):
            touched.spreads.append(key)


def _shape(state: State, fact: ShapeObserved, touched: Touched) -> None:
    # Only pods without a placement are ever fitted to nodes; the rest of a shape is never asked for.
    kept = {k: v for k, v in fact.scheduling.items() if k in ("affinity", "tolerations", "nodeSelector")}
    state.shapes[fact.digest] = kept


def _shape_gone(state: State, fact: ShapeGone, touched: Touched) -> None:
    state.shapes.pop(fact.digest, None)


def _config(state: State, event: ConfigSet, touched: Touched) -> None:
    whitelist = state.settings.whitelist
    if event.name == NAME:
        try:
            touched.settings = state.settings
            state.settings = msgspec.convert(event.data, Settings)
        except msgspec.ValidationError:
            return
        whitelist = state.settings.whitelist or whitelist
    elif event.name == WHITELIST_CONFIG_MAP:
        whitelist = _text_of(event.data)
    else:
        return
    try:
        state.whitelist = whitelist_of(whitelist) if whitelist else Whitelist()
        state.whitelist_fault = ""
    except BadWhitelist as error:
        state.whitelist_fault = str(error)  # the last one that could be read holds
        if touched.settings is None:
            return
    touched.spreads.extend(state.spreads)


def _text_of(data: Mapping[str, Any]) -> str:
    text = data.get(WHITELIST_KEY, "")
    return text if isinstance(text, str) else msgspec.json.encode(text).decode()


def _timer(state: State, event: TimerFired, touched: Touched) -> None:
    if event.key.startswith(TIMER):
        key = event.key.removeprefix(TIMER)
        spread = state.spreads.get(key)
        if spread is not None:
            spread.due = None
            touched.spreads.append(key)


_FOLDS: dict[type[Event], Callable[[State, Any, Touched], None]] = {
    PodObserved: pod_observed,
    PodGone: pod_gone,
    WorkloadObserved: workload_observed,
    WorkloadGone: workload_gone,
    WorkloadSpreadObserved: spread_observed,
    WorkloadSpreadGone: spread_gone,
    TargetReplicasObserved: target_replicas,
    KindRefused: kind_refused,
    NodeObserved: _node,
    NodeGone: _node_gone,
    ShapeObserved: _shape,
    ShapeGone: _shape_gone,
    ConfigSet: _config,
    ModesSet: modes.acting_set,
    IncumbentObserved: modes.acting_set,
    TimerFired: _timer,
    PodPlaced: entry_appended,
    PodLeaving: entry_appended,
    EntriesAppended: entries_appended,
    ChangeLedger: ledger_changed,
    PatchObject: patched,
    DeleteObject: called,
    EvictPod: called,
    SetStatus: status_set,
    SetTimer: timer_set,
    RecordSpread: recorded,
    ForeseeScaleIn: foreseen,
    ScaleWorkload: announced,
    Applied: answered,
    Rejected: answered,
    Failed: answered,
    Superseded: answered,
}
