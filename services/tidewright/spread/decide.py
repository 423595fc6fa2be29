"""The spread's decider: what is done about an event, with reasons.

Slots hold whole namespaces, so a spread, its target and its pods are in one state. Every relevant fact
wakes the spread at once [Q-10]: most events look at one pod, changes of the spread, its target or the
time look at everything.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidewright.events.acting import INCUMBENT
from tidewright.events.base import Because, Decision, Event, ObjectRef, Scalar
from tidewright.events.decisions import PatchObject
from tidewright.events.spread import (
    ChangeLedger,
    Foreseen,
    ForeseeScaleIn,
    LedgerRules,
    PodPlaced,
    WorkloadSpreadObserved,
)
from tidewright.host.fold.configuration import ConfigPart
from tidewright.host.fold.decider import Decider
from tidewright.kube.workloadspreads.spec import (
    COMPONENT,
    DELETION_COST_ANNOTATION,
    GROUP,
    KIND,
    MATCHED_ANNOTATION,
)
from tidewright.spread import holding
from tidewright.spread.control.conclude import Conclusion
from tidewright.spread.control.versions import versions_by
from tidewright.spread.control.victims import leaving
from tidewright.spread.fold.evolve import evolve
from tidewright.spread.fold.owners import filtered, pods_of_target
from tidewright.spread.fold.touched import Shrinks, Touched
from tidewright.spread.settings import NAME, problems
from tidewright.spread.state import SpreadState, State, unpack_uid
from tidewright.spread.upcasts import UPCASTS

SERVICE = "spread"
KINDS = frozenset(
    {
        "pod",
        "shape",
        "node",
        "workloadspread",
        "targetreplicas",
        "deployment",
        "replicaset",
        "statefulset",
        "cloneset",
        "job",
        "customworkload",
        INCUMBENT,
        "kindrefused",
    }
)
SAME_SCALE_IN_S = 30.0
"""A scale-in to a number that was foreseen so recently is the same one."""
NAMED_AT_MOST = 500
"""Pods that one decision names; a message has a size."""


def decide(state: State, event: Event, touched: Touched) -> list[Decision]:
    """What follows from one event that the state already includes, given what it touched."""
    if not touched:
        return []
    decisions: list[Decision] = []

    def take(spread: SpreadState, concluded: Iterable[Decision]) -> None:
        decisions.extend(holding.recorded(state, spread, concluded))

    if touched.removed is not None:
        take(touched.removed, _removed(state, touched.removed))
    if (undone := touched.failed) is not None:
        concerned = state.spreads[undone.spread]
        take(concerned, Conclusion(state, concerned).failed(undone.pod, deletion=undone.deletion))
    if (left_out := touched.unadopted) is not None:
        concerned = state.spreads[left_out.spread]
        take(concerned, Conclusion(state, concerned).not_adopted(left_out.pod, refused=left_out.refused))
    if touched.fault and (spread := state.spreads.get(touched.fault)) is not None:
        take(spread, Conclusion(state, spread).replicas_unknown())
    for key in touched.refused:
        take(state.spreads[key], Conclusion(state, state.spreads[key]).unreadable())
    if touched.renew and (spread := state.spreads.get(touched.renew)) is not None:
        take(spread, Conclusion(state, spread).renewed())
    if touched.home and touched.home not in touched.spreads and (spread := state.spreads.get(touched.home)):
        unfenced = isinstance(event, PodPlaced) and event.unfenced
        take(spread, _one(state, spread, touched, unfenced=unfenced))
    before = touched.settings
    recounting = before is not None and versions_by(before).kinds != versions_by(state.settings).kinds
    for key in touched.spreads:
        if (spread := state.spreads.get(key)) is not None:
            take(spread, _whole(state, spread, touched, recounting=recounting))
    for shrinks in touched.shrinks:
        decisions.extend(_foresee(state, shrinks))
    return decisions


def _whole(state: State, spread: SpreadState, touched: Touched, *, recounting: bool) -> list[Decision]:
    return Conclusion(state, spread).whole(touched.pod, touched.key, recounting=recounting)


def _one(state: State, spread: SpreadState, touched: Touched, *, unfenced: bool) -> list[Decision]:
    conclusion = Conclusion(state, spread)
    if not touched.pod:
        return conclusion.entry(touched.uncounted, unfenced=unfenced)
    return conclusion.one_pod(touched.before, touched.after, touched.key)


def _ref(spread: SpreadState) -> ObjectRef:
    return ObjectRef(
        api_version=f"{GROUP}/v1alpha1",
        kind=KIND,
        namespace=spread.namespace,
        name=spread.name,
        uid=spread.uid,
    )


def _removed(state: State, spread: SpreadState) -> list[Decision]:
    """A spread is gone: its ledger ends; its pods are cleaned only when asked to [Q-20]."""
    gone = LedgerRules(generation=spread.generation, gone=True)
    because = (Because(rule="SpreadGone", values={"spread": spread.name}),)
    decisions: list[Decision] = [
        ChangeLedger(at=state.now, target=_ref(spread), rules=gone, counts={}, because=because)
    ]
    if not state.settings.clean_up_deleted:
        return decisions
    for row in state.strays.get(spread.namespace, {}).values():
        if row.placed_by == spread.name:
            ref = ObjectRef(
                api_version="v1",
                kind="Pod",
                namespace=spread.namespace,
                name=row.name,
                uid=unpack_uid(row.uid),
            )
            patch = {"metadata": {"annotations": {MATCHED_ANNOTATION: None, DELETION_COST_ANNOTATION: None}}}
            decisions.append(PatchObject(at=state.now, target=ref, patch=patch, because=because))
    return decisions


def _foresee(state: State, shrinks: Shrinks) -> list[Decision]:
    """Which pods go, before they go: by the workload controller's own order (3.6)."""
    spread, replicas = state.spreads.get(shrinks.spread), shrinks.replicas
    if spread is None or spread.spread is None or _foreseen(state, spread, shrinks):
        return []
    active = sum(row.active for row in pods_of_target(state, spread))
    leave = active - replicas
    if leave <= 0:
        return []
    part = filtered(spread)
    order = leaving(state, spread, leave if part else min(leave, NAMED_AT_MOST))
    own = [row for row in order.rows if row.name in spread.pods]
    if not own:
        return []
    count = len(own) if part else leave
    numbers: dict[str, Scalar] = {"replicas": replicas, "active": active}
    if count < leave:
        numbers["of_others"] = leave - count
    last = own[-1] is order.rows[-1]  # only of that one it is known how many are like it
    return [
        ForeseeScaleIn(
            at=state.now,
            target=_ref(spread),
            replicas=replicas,
            count=count,
            alike=order.alike if last and count <= NAMED_AT_MOST else 0,
            pods=tuple(Foreseen(row.name, row.subset, row.asked or row.cost) for row in own[:NAMED_AT_MOST]),
            because=(Because(rule="ScaleIn", values=numbers),),
        )
    ]


def _foreseen(state: State, spread: SpreadState, shrinks: Shrinks) -> bool:
    """Whether it was said who leaves. What an autoscaler decided is not said again when it shows.

    It may be decided once more before that; one that has not come about after a while is another one.
    """
    if spread.foreseen != shrinks.replicas:
        return False
    return not shrinks.announced or state.now - spread.foreseen_at < SAME_SCALE_IN_S


DECIDER = Decider(
    service=SERVICE,
    state_version=5,
    state_type=State,
    kinds=KINDS,
    evolve=evolve,
    decide=decide,
    upcasts=UPCASTS,
    config=ConfigPart(
        name=NAME, problems=problems, component=COMPONENT, held=lambda state: state.acting.of_service(SERVICE)
    ),
    ledgers=True,  # its own: the admission endpoint writes there too
    renews=frozenset(
        {WorkloadSpreadObserved}
    ),  # its ledger is said again with it, before retention forgets it
)
"""What the host runs."""
