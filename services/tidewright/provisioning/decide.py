"""The decider: what is done about an event, with reasons.

Reads   the facts of its line in `asking/services.py`; its own decisions; outcomes; timers; the configuration `provisioning`
Writes  the decisions of that line
Pure    no clock, no I/O, no randomness

One partition for the whole cluster: it reads the facts of all slots. Whatever may be answered wakes
it through one timer, after a short quiet window, so that a burst of pods is decided once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from tidewright.events.acting import INCUMBENT
from tidewright.events.base import Decision, Event
from tidewright.events.decisions import RecordObjectEvent, ScaleWorkload, SetTimer
from tidewright.events.outcomes import Applied, Failed, Rejected, Superseded
from tidewright.events.provisioning import (
    FillBuffer,
    NodeGroupGone,
    ProvisioningRequestGone,
    ProvisioningRequestObserved,
    ReleaseCapacity,
    RemoveNode,
)
from tidewright.events.timers import TimerFired
from tidewright.host.fold.configuration import ConfigPart
from tidewright.host.fold.decider import Decider
from tidewright.host.fold.parts import Parts
from tidewright.host.fold.series import Exposition
from tidewright.kube.keys import request_key
from tidewright.log.input_set import InputSet
from tidewright.provisioning import holding
from tidewright.provisioning.cluster import status_map
from tidewright.provisioning.cluster.follow_up import answered, cancelled, not_taken_back, respecified
from tidewright.provisioning.consolidation.replacing import concluded
from tidewright.provisioning.evaluate import Evaluation, room_of
from tidewright.provisioning.flags import problems
from tidewright.provisioning.fold.common import EVALUATE, SCAN
from tidewright.provisioning.fold.evolve import evolve
from tidewright.provisioning.fold.stirring import changes, stirs
from tidewright.provisioning.fold.touched import Touched
from tidewright.provisioning.foresight import shares
from tidewright.provisioning.foresight.room import unread
from tidewright.provisioning.index.index import Index
from tidewright.provisioning.index.indexing import index_of
from tidewright.provisioning.pending.burst import goes_on_until, quiet_s
from tidewright.provisioning.scaledown.live import cards_of
from tidewright.provisioning.scaledown.next_pass import SOON_S, may_come, rest_s
from tidewright.provisioning.scaledown.removal import words
from tidewright.provisioning.scaledown.removal.saga import REMOVALS
from tidewright.provisioning.scaledown.removal.soft import soft_marks
from tidewright.provisioning.scaledown.removal.steps import Steps
from tidewright.provisioning.scaledown.scanning import (
    Found,
    as_of,
    forgotten,
    healthy,
    let_go,
    part_of_a_pass,
    reads_first,
    taken_up,
)
from tidewright.provisioning.scaleup.orders import COMPONENT, STATUS_MAP
from tidewright.provisioning.state import State, owner_key
from tidewright.provisioning.tell import exposition, parts
from tidewright.provisioning.upcasts import UPCASTS

SERVICE = "provisioning"
STATE_VERSION = 5
TAINT_RULE = "devicetaintrule"
KINDS = frozenset(
    (
        "pod",
        "node",
        "shape",
        "cloud",
        "nodegroup",
        "provisioningrequest",
        "provisioningclass",
        "podtemplate",
        "daemonset",
        "resourcequota",
        "namespace",
        "persistentvolumeclaim",
        "persistentvolume",
        "storageclass",
        "csinode",
        "csidriver",
        "csistoragecapacity",
        "resourceclaim",
        "resourceclaimtemplate",
        "resourceslice",
        "deviceclass",
        TAINT_RULE,
        INCUMBENT,
        "poddisruptionbudget",
        "replicationcontroller",
        "capacitybuffer",
        "limitrange",
        "priorityclass",
        "deployment",
        "replicaset",
        "statefulset",
        "job",
        "cloneset",
        "customworkload",
        "kindrefused",
        "scaledworkload",
        "scaledkindrefused",
        "template",
        "workloadspread",
        "targetreplicas",
    )
)
BEFORE_TAINT_RULES = InputSet(
    (
        "csidriver", "csinode", "csistoragecapacity", "daemonset", "deviceclass", "incumbent",
        "namespace", "node", "nodegroup", "persistentvolume", "persistentvolumeclaim", "pod",
        "podtemplate", "provisioningclass", "provisioningrequest", "resourceclaim",
        "resourceclaimtemplate", "resourcequota", "resourceslice", "shape", "storageclass",
    )
)  # fmt: skip
"""What was read before DeviceTaintRules were; written out, since it stays what it was."""
BEFORE_REMOVALS = InputSet(tuple(sorted((*BEFORE_TAINT_RULES.kinds, TAINT_RULE))))
"""What was read before nodes with pods were removed, and before there were several clouds, or buffers."""
BEFORE_CUSTOM_SCALES = InputSet(
    (
        "capacitybuffer", "cloneset", "cloud", "csidriver", "csinode", "csistoragecapacity", "customworkload", "daemonset", "deployment",
        "deviceclass", "devicetaintrule", "incumbent", "job", "kindrefused", "limitrange", "namespace", "node", "nodegroup",
        "persistentvolume", "persistentvolumeclaim", "pod", "poddisruptionbudget", "podtemplate", "priorityclass", "provisioningclass",
        "provisioningrequest", "replicaset", "replicationcontroller", "resourceclaim", "resourceclaimtemplate", "resourcequota",
        "resourceslice", "scaledkindrefused", "scaledworkload", "shape", "statefulset", "storageclass", "targetreplicas", "template",
        "workloadspread",
    ),
    ("autoscaler",),
    ("cloneset", "deployment", "replicaset", "replicationcontroller", "statefulset"),
)  # fmt: skip
"""What was read before it was of custom workloads, too, what came of decisions to scale them."""
OUTCOMES = frozenset(("deployment", "statefulset", "replicaset", "cloneset", "replicationcontroller"))
"""Kinds of which it was read then. All but `NO_WORKLOADS` are read by now, these among them: they are named all the same, for software of
before, which does not know the other form and takes over after an update that is taken back. Without them it reads them once more."""
NO_WORKLOADS = frozenset(
    (
        "configmap",
        "event",
        "lease",
        "node",
        "nodegroup",
        "pod",
        "podtemplate",
        "shardmember",
        "shardset",
        "watermarkpodautoscaler",
        "workloadspread",
    )
)
"""Kinds that nobody scales: what came of decisions about them is not read. Of all others it is, whatever autoscalers scale."""
TOGETHER_S = 0.01
"""For so long workloads that grow together are waited for: how many pods come is known already."""
ALONE_S = 1.0
"""So long after an order, or another decision, a decision is answered at once; sooner, with those that come together with it."""
PARTS = Parts(
    durations="cluster_autoscaler_function_duration_seconds",
    activity="cluster_autoscaler_last_activity",
    loop=parts.MAIN,
)


def decide(state: State, event: Event, touched: Touched) -> Sequence[Decision]:
    """Answer one event; `state` already includes it."""
    decisions = _decided(state, event, touched)
    if not decisions:
        return decisions
    if any(isinstance(decision, RemoveNode) and not decision.shadow for decision in decisions):
        # Looked at as soon as they are on the log: what follows bears their names.
        return [*decisions, SetTimer(at=event.at, key=REMOVALS, due=state.now)]
    if any(isinstance(decision, (ReleaseCapacity, FillBuffer)) for decision in decisions):
        # Nobody else says that the room is free: in a cluster in which nothing happens its nodes would stay for ever.
        return [*decisions, *_look_soon(state, index_of(state), event.at)]
    return decisions


def _decided(state: State, event: Event, touched: Touched) -> Sequence[Decision]:
    kind = type(event)  # `isinstance` of one Struct after the other costs more than all the rest here
    if kind in _LED and (led := _led(state, event, touched)) is not None:
        return led
    index = index_of(state)
    let_go(state, index)
    decisions = _followed(state, index, event, touched) if kind in _FOLLOWED else []
    if touched.removals:
        decisions += _removals(state, touched)
    grows = touched.workloads and shares.stirred(state, index, state.now)
    if touched.woken or grows:
        wait_s = quiet_s(state, index)
        due = state.now + (min(TOGETHER_S, wait_s) if grows and touched.wishes else wait_s)
        if state.due is None or state.due > due:
            decisions.append(SetTimer(at=event.at, key=EVALUATE, due=due))
    elif touched.taken:
        decisions += _look_whether_all_have_room(state, index, event.at)
    if touched.deleted:
        decisions += _go_on(state, index, event.at)
    elif stirs(event, touched):
        decisions += _look_soon(state, index, event.at)
    elif state.paused and changes(event, touched):
        decisions += _look_again(state, index, event.at)
    return holding.recorded(state, _addressed(state, decisions)) if decisions else decisions


_LED = frozenset((TimerFired, ScaleWorkload))


def _led(state: State, event: Event, touched: Touched) -> Sequence[Decision] | None:
    """What a timer stands for, or what cannot wait for one; None of anything else."""
    if isinstance(event, TimerFired) and event.key == EVALUATE:
        return _evaluated(state, event)
    if isinstance(event, TimerFired) and event.key == REMOVALS:
        return holding.recorded(state, _addressed(state, _looked_at(state, [*state.removals, *state.left])))
    if isinstance(event, TimerFired) and event.key == SCAN:
        return _scanned(state, event)
    if _at_once(state, event, touched):
        return _evaluation(state, event.at)
    return None


_FOLLOWED = frozenset(
    (
        Applied,
        Rejected,
        Failed,
        Superseded,
        NodeGroupGone,
        ProvisioningRequestObserved,
        ProvisioningRequestGone,
        ScaleWorkload,
    )
)


def _followed(state: State, index: Index, event: Event, touched: Touched) -> list[Decision]:
    """What is told of orders and requests right away."""
    decisions: list[Decision] = []
    match event:
        case Applied() | Rejected() | Failed() | Superseded():
            decisions += answered(state, index, touched.plans, event.decision)
            if touched.not_decreased:
                decisions.append(not_taken_back(state, touched.not_decreased, event.message))
        case NodeGroupGone():
            decisions += answered(state, index, touched.plans, "")
        case ProvisioningRequestObserved() if touched.respecified:
            decisions += respecified(state, touched.respecified)
        case ProvisioningRequestGone():
            decisions += cancelled(state, index, request_key(event.namespace, event.name))
        case ScaleWorkload():
            decisions += unread(state, index, event)
    return decisions


def _look_whether_all_have_room(state: State, index: Index, now: float) -> Sequence[Decision]:
    """Pods that wait were left to the scheduler, for there was room: another one has some of it, of which the scheduler says nothing."""
    due = now + index.settings.scan_interval_s
    if state.due is not None and state.due <= due:
        return ()
    return (SetTimer(at=now, key=EVALUATE, due=due),)


def _look_soon(state: State, index: Index, now: float) -> Sequence[Decision]:
    """Something has changed that a pass of scale-down looks at: it comes as soon as the last one is long enough ago."""
    settings, scan = index.settings, state.scan
    due = now + settings.scan_interval_s
    if scan.at is not None:
        due = max(now + settings.quiet_s, scan.at + rest_s(state, settings))
    return _pass_by(state, index, due, now)


def _go_on(state: State, index: Index, now: float) -> Sequence[Decision]:
    """Nodes are gone for whose removal others may have waited, of which only so many are under way at a time: nothing more is gathered."""
    if state.scan.at is None:
        return _look_soon(state, index, now)
    return _pass_by(state, index, max(now, state.scan.at + index.settings.scan_interval_s), now)


def _pass_by(state: State, index: Index, due: float, now: float) -> Sequence[Decision]:
    """A pass then, if not before."""
    if (state.scan.due is not None and state.scan.due <= due) or not may_come(state, index):
        return ()
    return (SetTimer(at=now, key=SCAN, due=due),)


def _look_again(state: State, index: Index, now: float) -> Sequence[Decision]:
    """Something has changed that may bear on nodes that stayed: they are tried again when they have rested, if not before."""
    soonest, due = now + index.settings.scan_interval_s, state.scan.due
    if (due is not None and due <= soonest) or not may_come(state, index):
        return ()
    rested = max(min(paused.until for paused in state.paused.values()), soonest)
    if due is not None and due <= rested:
        return ()
    return (SetTimer(at=now, key=SCAN, due=rested),)


def _scanned(state: State, event: TimerFired) -> Sequence[Decision]:
    """A part of a pass of scale-down; after the evaluation that is due, where one is."""
    now = event.at
    if state.due is not None and state.due <= now:
        return [SetTimer(at=now, key=SCAN, due=state.due + SOON_S)]
    index = index_of(state)
    made = taken_up(state, index, now)
    if not may_come(state, index):
        return []
    if reads_first(state, index, now):
        return [SetTimer(at=now, key=SCAN, due=now + SOON_S)]
    with PARTS.measure(parts.FIND_UNNEEDED):
        at = as_of(state, index.settings, now)
        room = made.scene.room if made is not None and made.whole else room_of(state, at)
        if not index.settings.scale_down or not healthy(cards_of(state, index, at), index.settings):
            found = forgotten(state, now)
        else:
            found = part_of_a_pass(state, index, room, made, now)
    decisions, due = found.decisions, found.due
    if found.plan is None or not found.plan.more:
        with PARTS.measure(parts.FIND_UNNEEDED):
            more = concluded(state, index, room, found.plan, now)
        decisions += more.decisions
        due = min((at for at in (due, more.due) if at is not None), default=None)
        soft = soft_marks(state, _waiting(found), index.settings.soft_taints, now)
        decisions += soft.marks
        if soft.more and holding.marks(state):
            due = min(due or now + index.settings.scan_interval_s, now + index.settings.scan_interval_s)
    if due is not None:
        decisions.append(SetTimer(at=now, key=SCAN, due=due))
    return holding.recorded(state, _addressed(state, decisions)) if decisions else decisions


def _waiting(found: Found) -> Mapping[str, float]:
    """Nodes that nobody needs and that do not go yet, to the time since when."""
    if found.plan is None:
        return {}
    going = {leaver.name for leaver in found.plan.going}
    return {name: since for name, since in found.plan.memory.unneeded.items() if name not in going}


def _at_once(state: State, event: Event, touched: Touched) -> bool:
    """Whether nodes are ordered for a decision before anybody carries it out.

    Right after an order, or another decision, it waits for others like it: they are ordered for together. Where there is
    room for all of them nothing is ordered, and each would be an evaluation of the whole cluster.
    """
    if not isinstance(event, ScaleWorkload) or not touched.workloads:
        return False
    key = owner_key(event.target.kind, event.target.namespace, event.target.name)
    last = [scaling.at for other, scaling in state.scalings.items() if other != key]
    if state.last_scale_up is not None:
        last.append(state.last_scale_up)
    alone = not last or state.now - max(last) >= ALONE_S
    return alone and shares.comes(state, index_of(state), key, state.now)


def _evaluated(state: State, event: TimerFired) -> Sequence[Decision]:
    """An evaluation of the whole cluster, or the timer set again while a burst goes on.

    Pods that are expected are in its orders already: nobody has to wait for them to be there.
    """
    index = index_of(state)
    due = None if shares.waited_for(state, index, event.at) else goes_on_until(state, index, event.at)
    if due is not None:
        return [SetTimer(at=event.at, key=EVALUATE, due=due)]
    return _evaluation(state, event.at)


def _evaluation(state: State, now: float) -> Sequence[Decision]:
    with PARTS.measure(parts.MAIN):
        decisions = Evaluation(state, seed=f"{now:.6f}", part=PARTS.measure).run()
    return holding.recorded(state, _addressed(state, decisions), evaluated=True)


def _removals(state: State, touched: Touched) -> list[Decision]:
    """What is told of nodes that go, and what comes next for them."""
    now = state.now
    told: list[Decision] = [
        words.marked(now, name, state.removals[name]) for name in touched.marked if name in state.removals
    ]
    told += [words.evicted(now, key, uid) for key, uid in touched.evicted]
    for name, uid, drains in touched.deleted:
        told += words.deleted(now, name, uid, drains=drains)
    return told + _looked_at(state, touched.removals)


def _looked_at(state: State, nodes: Iterable[str]) -> list[Decision]:
    """The next steps of these nodes, and the timer for those that time alone brings on."""
    steps = Steps(state)
    steps.run(nodes)
    due = steps.due
    if due is not None and (state.removals_due is None or due < state.removals_due):
        steps.decisions.append(SetTimer(at=state.now, key=REMOVALS, due=due))
    return steps.decisions


def _addressed(state: State, decisions: list[Decision]) -> list[Decision]:
    """Object events about groups are about the status ConfigMap, wherever it is configured to be, and together where they can be."""
    target = status_map.target(index_of(state).settings)
    decisions = words.together(decisions)
    return [
        msgspec.structs.replace(d, target=target)
        if isinstance(d, RecordObjectEvent) and d.target == STATUS_MAP and target != STATUS_MAP
        else d
        for d in decisions
    ]


DECIDER = Decider(
    service=SERVICE,
    state_version=STATE_VERSION,
    state_type=State,
    kinds=KINDS,
    outcomes=OUTCOMES,
    outcomes_but=NO_WORKLOADS,
    evolve=evolve,
    decide=decide,
    upcasts=UPCASTS,
    config=ConfigPart(
        name=SERVICE,
        problems=problems,
        component=COMPONENT,
        held=lambda state: state.acting.of_service(SERVICE),
        tells=False,
    ),
    exposition=Exposition(series=exposition.series, help=exposition.HELP),
    parts=PARTS,
    formerly=(BEFORE_TAINT_RULES, BEFORE_REMOVALS, BEFORE_CUSTOM_SCALES),
)
"""What the host runs."""
