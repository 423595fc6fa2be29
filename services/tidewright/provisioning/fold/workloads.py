"""Workloads and their templates: what they want, or shall want by somebody's decision; what their controllers say they have,
and how long their pods take to come.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from tidewright.events import facts as f
from tidewright.events import outcomes as o
from tidewright.events.acting import NOT_DONE
from tidewright.events.decisions import ScaleWorkload
from tidewright.events.spread import (
    KindRefused,
    TargetReplicasObserved,
    WorkloadSpreadGone,
    WorkloadSpreadObserved,
)
from tidewright.kube.keys import ObjectKey, key_of, pod_key
from tidewright.provisioning.fold.forgetting import told_unread
from tidewright.provisioning.fold.touched import Touched
from tidewright.provisioning.foresight.kept import (
    FORGETS,
    MOST_FORMS,
    Form,
    Scaling,
    Workload,
    form_of,
    spreading_of,
    workload_of,
)
from tidewright.provisioning.foresight.spreading import place_of
from tidewright.provisioning.state import State, owner_key

_Outcome: TypeAlias = o.Applied | o.Rejected | o.Failed | o.Superseded


def seen(state: State, event: f.WorkloadObserved, touched: Touched) -> None:
    if not event.uid:
        return  # whose pods are its, nobody could tell
    key = owner_key(event.kind, event.namespace, event.name)
    before = state.workloads.get(key)
    if before is not None and before.uid != event.uid:
        _went(state, key, before)
        state.foreseen.pop(key, None)
        before = None
    workload = workload_of(event, before)
    if workload is before:
        return
    if before is not None and not before.complete and workload.observed > before.observed:
        took = event.at - before.since
        state.came_s[event.kind] = max(took, state.came_s.get(event.kind, 0.0) * FORGETS)
    if before is not None:
        _went(state, key, before)
    state.workloads[key] = workload
    counting = state.beside.index.counting if state.beside.index is not None else None
    if counting is not None:
        counting.came(key, workload)
    scaling = state.scalings.get(key)
    if scaling is not None and workload.replicas in (scaling.replicas, *_changed_to(before, workload)):
        del state.scalings[key]
    if key not in state.scalings:
        wanted = scaling.replicas if scaling is not None else before.replicas if before is not None else 0
        _settled(state, key, workload, wanted)
    if before is None or _wants_another(before, workload):
        state.said.pop(key, None)  # whatever was wrong with it is told anew
    touched.workloads = touched.workloads or before is None or _wants_more(before, workload)
    touched.wishes = touched.wishes or before is None or _wants_another(before, workload)


def _settled(state: State, key: str, workload: Workload, wanted: int) -> None:
    """All its pods are there, or are not wanted any more: `wanted` were so far."""
    foreseen = state.foreseen.get(key)
    if foreseen is None:
        return
    if not workload.complete:
        if workload.replicas > wanted:
            _undone(state, key, "")  # what was ordered for pods that were not to come is for these
    elif workload.replicas < wanted and not workload.ended:
        _undone(state, key, f"it wants {workload.replicas} pods by now")
    elif not foreseen.undone:
        del state.foreseen[key]


def _changed_to(before: Workload | None, now: Workload) -> tuple[int, ...]:
    """What somebody has made of its replicas, where it is another number than before."""
    return () if before is None or before.replicas == now.replicas else (now.replicas,)


def _wants_more(before: Workload, now: Workload) -> bool:
    """Whether more may be missing than before: more than pods that have come has changed."""
    return now.observed < before.observed or now != msgspec.structs.replace(
        before, observed=now.observed, since=now.since
    )


def _wants_another(before: Workload, now: Workload) -> bool:
    """Whether somebody has changed what is wanted; what becomes of it, a Job's pods that end for one, changes all the time."""
    return now != msgspec.structs.replace(
        before,
        observed=now.observed,
        succeeded=now.succeeded,
        failed=now.failed,
        ended=now.ended,
        refused=now.refused,
        since=now.since,
    )


def gone(state: State, event: f.WorkloadGone, key: str) -> bool:
    """Whether it is the one that is known: another kind's of the same name, a StatefulSet of Kruise's, may stand there."""
    before = state.workloads.get(key)
    if before is not None and event.uid and event.uid != before.uid:
        return False
    if before is not None:
        _went(state, key, before)
        del state.workloads[key]
    state.scalings.pop(key, None)
    state.foreseen.pop(key, None)
    state.said.pop(key, None)
    return True


def scaled(state: State, event: ScaleWorkload, touched: Touched) -> None:
    """Another service has decided to scale a workload: it wants so many pods from now on, whoever has seen that."""
    key = owner_key(event.target.kind, event.target.namespace, event.target.name)
    workload = state.workloads.get(key)
    if event.shadow or workload is None or (event.target.uid and event.target.uid != workload.uid):
        return
    before = state.scalings.pop(key, None)
    if event.replicas != workload.replicas:
        state.scalings[key] = Scaling(decision=event.id, replicas=event.replicas, at=event.at)
    if event.replicas > workload.observed:
        _undone(state, key, "")
    elif event.replicas < (workload if before is None else before).replicas:
        _undone(state, key, f"it is to have {event.replicas} pods by decision {event.id}")
    _unsure(state, key)
    touched.workloads = touched.wishes = True


def answered(state: State, event: _Outcome, touched: Touched) -> None:
    """What came of somebody's decision: one that was not carried out says nothing any longer."""
    if isinstance(event, o.Applied) and event.reason not in NOT_DONE:
        return
    key = next((key for key, one in state.scalings.items() if one.decision == event.decision), None)
    if key is None:
        return
    del state.scalings[key]
    foreseen = state.foreseen.get(key)
    if foreseen is not None and foreseen.decision == event.decision:
        _undone(state, key, f"{type(event).__name__}: {event.message or event.reason}")
    elif (workload := state.workloads.get(key)) is not None:
        _settled(state, key, workload, workload.replicas)  # its pods may all have come meanwhile
    _unsure(state, key)
    touched.workloads = touched.wishes = True


def _undone(state: State, key: str, why: str) -> None:
    """Pods for which nodes were ordered will not come: that is told, and what was ordered is looked at once more."""
    foreseen = state.foreseen.get(key)
    if foreseen is not None:
        state.foreseen[key] = msgspec.structs.replace(foreseen, undone=why)


def _unsure(state: State, key: str) -> None:
    counting = state.beside.index.counting if state.beside.index is not None else None
    if counting is not None and key in state.workloads:
        counting.unsure.add(counting.top(key))


def _went(state: State, key: str, workload: Workload) -> None:
    counting = state.beside.index.counting if state.beside.index is not None else None
    if counting is not None:
        counting.went(key, workload)


def refused(state: State, event: KindRefused, _touched: Touched) -> None:
    """Objects of a kind may not be read, or can be again: then nothing that was told of it holds."""
    mine, other = state.unread, state.unread_scaled
    if event.scaled:
        mine, other = other, mine
    if event.error:
        mine[event.name] = event.error
    elif mine.pop(event.name, None) is not None and event.name not in other:
        for key in told_unread(state, event.kind):
            del state.said[key]


def spread(state: State, event: WorkloadSpreadObserved, touched: Touched) -> None:
    key = key_of(event.namespace, event.name)
    spreading = spreading_of(event, state.spreads.get(key))
    if event.deleting_at is not None:
        _unspread(state, key, touched)
    elif state.spreads.get(key) != spreading:
        state.spreads[key] = spreading
        index = state.beside.index
        if index is not None and index.spreads is not None:
            index.spreads.came(key, spreading)
        touched.workloads = True


def target_replicas(state: State, event: TargetReplicasObserved, touched: Touched) -> None:
    """What percentages of a spread are of, where it names paths; while they cannot be read, what was read last holds."""
    key = key_of(event.namespace, event.name)
    spreading = state.spreads.get(key)
    if spreading is None or event.error or spreading.at_paths == event.replicas:
        return
    state.spreads[key] = msgspec.structs.replace(spreading, at_paths=event.replicas)
    touched.workloads = True


def spread_gone(state: State, event: WorkloadSpreadGone, touched: Touched) -> None:
    _unspread(state, key_of(event.namespace, event.name), touched)


def _unspread(state: State, key: ObjectKey, touched: Touched) -> None:
    if state.spreads.pop(key, None) is None:
        return
    index = state.beside.index
    if index is not None and index.spreads is not None:
        index.spreads.went(key)
    touched.workloads = True


def put(state: State, event: f.PodObserved) -> None:
    """Where a WorkloadSpread has put a pod, if one has; of a pod of which no more is told its controller is not known either."""
    key, place = pod_key(event.namespace, event.name), place_of(event)
    if place and event.removal is not None:
        state.subsets[key] = place
    else:
        state.subsets.pop(key, None)


def template(state: State, event: f.TemplateObserved, _touched: Touched) -> None:
    if len(state.forms) >= MOST_FORMS:
        had = {workload.template for workload in state.workloads.values()}
        state.forms = {digest: form for digest, form in state.forms.items() if digest in had}
    state.forms[event.digest] = Form(error=event.error) if event.error else form_of(event.spec)
