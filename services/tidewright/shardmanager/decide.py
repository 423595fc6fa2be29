"""The shard manager: keep a fixed set of workers alive, each with its own part of a keyspace.

Reads   fact.pod-..., fact.pod-template-..., fact.shard-set-..., fact.shard-member-...,
        fact.workload-... (StatefulSets), fact.slot-labels-scanned, fact.service-load-observed,
        config.config-set (`shardmanager`), outcomes of its effects, its timers
Writes  create-object and delete-object (pods), patch-object (a member's lease, a slot label),
        hold-lease (the original manager's lock), scale-workload, set-status,
        record-pass, change-assignment, size-shards, change-rollout, report-shards, set-timer

Three parts that do not know of each other: `compat` for fleets of the propeller manager, `native` and
`rounds` for ShardSets, `ourservices` for the number of replicas of our own services. Pure: no clock, no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidewright.events.acting import INCUMBENT, NOT_DONE, Held
from tidewright.events.base import Decision, Event, ObjectRef, Outcome
from tidewright.events.config import ModesSet
from tidewright.events.decisions import CreateObject, DeleteObject, HoldLease, PatchObject, ScaleWorkload
from tidewright.events.facts import PodGone, PodObserved
from tidewright.events.incumbents import IncumbentObserved
from tidewright.events.outcomes import Applied, Rejected
from tidewright.events.provisioning import PodTemplateGone, PodTemplateObserved
from tidewright.events.shards import ShardSetObserved
from tidewright.shardmanager import compat, exposition, holding, native, ourservices, rounds
from tidewright.shardmanager.fleet import KnownPod, Template
from tidewright.shardmanager.pods import APP_LABEL, CONFIG_HASH
from tidewright.shardmanager.sets import ShardSetState
from tidewright.shardmanager.shardset import SET_LABEL
from tidewright.shardmanager.state import Asked, State

SERVICE = "shard-manager"
KINDS = frozenset(
    {"pod", "podtemplate", "statefulset", "shardset", "shardmember", "slotlabels", "serviceload", INCUMBENT}
)


class ShardManager:
    """The decider."""

    service = SERVICE
    state_version = 4
    state_type = State
    kinds = KINDS
    series_help = exposition.help_of_fleets()
    series_types = exposition.types_of_fleets()

    def series(self, state: State) -> Iterable[exposition.Sample]:
        """What a state tells on /metrics."""
        return exposition.series(state)

    def initial(self) -> State:
        """The empty state; nothing of slot `all` is needed but the configuration, which all slots get."""
        return State()

    def evolve(self, state: State, event: Event) -> State:
        """Fold one event, in place."""
        state.now = max(state.now, event.at)
        if not isinstance(event, Decision):
            state.touched = []
        before: KnownPod | None = None
        known: ShardSetState | None = None
        held: Held | None = None
        match event:
            case PodObserved() | PodGone():
                before = _keep_pod(state, event)
            case PodTemplateObserved():
                kept = Template(version=event.resource_version, template=event.template)
                state.templates[f"{event.namespace}/{event.name}"] = kept
            case PodTemplateGone():
                state.templates.pop(f"{event.namespace}/{event.name}", None)
            case CreateObject() | DeleteObject() | PatchObject() | ScaleWorkload() | HoldLease():
                _ask(state, event)
            case Outcome():
                _answer(state, event)
            case ModesSet() | IncumbentObserved():
                holding.acting_set(state, event)
            case ShardSetObserved():
                known = state.sets.get(f"{event.namespace}/{event.name}")
                held = holding.of_set(state.acting, known) if known is not None else None
        compat.fold(state, event, before)
        native.fold(state, event)
        if known is not None and held is not None:
            holding.changed(state, known, held)
        ourservices.fold(state, event)
        return state

    def decide(self, state: State, event: Event) -> Iterable[Decision]:
        """What is to be done now."""
        found = (
            *compat.decisions(state),
            *rounds.decisions(state),
            *ourservices.decisions(state, event),
        )
        return holding.recorded(state, found) if found else ()


def _keep_pod(state: State, event: PodObserved | PodGone) -> KnownPod | None:
    """Keep or drop a pod; what was known of it before."""
    pods = state.pods.setdefault(event.namespace, {})
    before = pods.get(event.name)
    manager = any(
        f.manager_pod == event.name and f.namespace == event.namespace for f in state.fleets.values()
    )
    if isinstance(event, PodGone):
        # A late word about an earlier pod of the same name says nothing about the present one.
        if before is not None and (not event.uid or before.uid in ("", event.uid)):
            del pods[event.name]
    elif (
        manager or APP_LABEL in event.labels or SET_LABEL in event.labels or CONFIG_HASH in event.annotations
    ):
        known = pods[event.name] = compat.known_pod(event)
        if known.deleting:
            # Since when, in log time: the object's own stamp is of another clock, and lies ahead by the grace.
            again = before is not None and before.uid == known.uid and before.deleting_since is not None
            known.deleting_since = before.deleting_since if before and again else state.now
    else:
        pods.pop(event.name, None)
    if not pods:
        del state.pods[event.namespace]
    return before


_VERBS = {
    CreateObject: "create",
    DeleteObject: "delete",
    PatchObject: "take",
    ScaleWorkload: "scale",
    HoldLease: "hold",
}


def _ask(state: State, event: CreateObject | DeleteObject | PatchObject | ScaleWorkload | HoldLease) -> None:
    """Remember who asked, so that the outcome finds its way back."""
    target, verb = event.target, _VERBS[type(event)]
    asked = compat.asker_of(state, event) if isinstance(event, HoldLease) else _asker(state, target, verb)
    state.asked[event.id] = asked
    state.in_flight[f"{verb} {target.namespace}/{target.name}"] = event.id


def _asker(state: State, target: ObjectRef, verb: str) -> Asked:
    for key, fleet in sorted(state.fleets.items()):
        if fleet.namespace == target.namespace and fleet.current is not None:
            current, names = fleet.current, fleet.config.pod_names
            if verb == "delete" and target.name in current.deletions:
                return Asked(fleet=key, verb=verb, name=target.name)
            if verb == "create" and target.name in names:
                return Asked(fleet=key, verb=verb, name=target.name, index=names.index(target.name))
    return Asked(shard_set=native.owner_of(state, target), verb=verb, name=target.name)


def _answer(state: State, event: Outcome) -> None:
    asked = state.asked.pop(event.decision, None)
    if asked is None:
        return
    if isinstance(event, Applied) and event.reason in NOT_DONE:
        message = "the actuator writes nothing"
        event = Rejected(at=event.at, decision=event.decision, reason=event.reason, message=message)
    for what in [what for what, decision in state.in_flight.items() if decision == event.decision]:
        del state.in_flight[what]
    if asked.fleet:
        compat.answered(state, asked, event)
    elif asked.shard_set:
        native.answered(state, asked, event)


DECIDER = ShardManager()
