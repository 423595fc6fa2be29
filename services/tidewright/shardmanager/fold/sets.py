"""ShardSets: their specs, members, assignment and rollouts. What they ask for is in `shardset.rounds`."""

from __future__ import annotations

from tidewright.events.base import Event, ObjectRef, Outcome
from tidewright.events.decisions import CreateObject, DeleteObject, PatchObject, SetStatus, SetTimer
from tidewright.events.facts import PodGone, PodObserved
from tidewright.events.outcomes import Applied
from tidewright.events.provisioning import PodTemplateGone, PodTemplateObserved
from tidewright.events.shards import (
    ChangeAssignment,
    ChangeRollout,
    ReportShards,
    ShardMemberGone,
    ShardMemberObserved,
    ShardSetGone,
    ShardSetObserved,
    SizeShards,
)
from tidewright.events.timers import TimerFired
from tidewright.kube.conditions import by_type
from tidewright.shardmanager.fold import set_pods
from tidewright.shardmanager.fold.touched import Touched
from tidewright.shardmanager.labels import labeller
from tidewright.shardmanager.shardset.pods import gates, stateful_set
from tidewright.shardmanager.shardset.pods.marks import index_of
from tidewright.shardmanager.shardset.spec import KIND, MEMBER_KIND
from tidewright.shardmanager.shardset.state import (
    ShardSetState,
    fold_entry,
    member_gone,
    observe_member,
    observe_set,
    reported,
)
from tidewright.shardmanager.shardset.status import digest
from tidewright.shardmanager.state import SET_TIMER, Asked, State


def fold(state: State, event: Event, touched: Touched) -> None:  # noqa: C901  # a dispatcher by match
    """Take in one event."""
    match event:
        case ShardSetObserved():
            observe_set(_set(state, event.namespace, event.name), event)
            touched.touch(f"{event.namespace}/{event.name}")
        case ShardSetGone():
            # The workers go on; their records go with the set's object.
            state.sets.pop(f"{event.namespace}/{event.name}", None)
        case ShardMemberObserved():
            name = str(event.spec.get("shardSet") or "")
            if name and observe_member(_set(state, event.namespace, name), event, state.now):
                touched.touch(f"{event.namespace}/{name}")
        case ShardMemberGone():
            for key, shard_set in state.sets.items():
                if shard_set.namespace == event.namespace:
                    member_gone(shard_set, event)
                    touched.touch(key)
        case PodObserved() | PodGone():
            set_pods.fold(state, event, touched)
        case PodTemplateObserved() | PodTemplateGone():
            for key, shard_set in state.sets.items():
                if shard_set.namespace == event.namespace and shard_set.spec.template == event.name:
                    touched.touch(key)
        case TimerFired(key=key) if key.startswith(SET_TIMER):
            if (timed := state.sets.get(key.removeprefix(SET_TIMER))) is not None:
                timed.timer_due = None
                touched.touch(timed.key)
        case SetTimer(key=key, due=due) if key.startswith(SET_TIMER):
            if (timed := state.sets.get(key.removeprefix(SET_TIMER))) is not None:
                timed.timer_due = due
        case CreateObject() | PatchObject() | DeleteObject() if event.target.kind == gates.LEASE_KIND:
            for shard_set in state.sets.values():
                if shard_set.namespace == event.target.namespace:
                    gates.fold(shard_set, event, event.at)
        case DeleteObject(target=target, grace_period_s=0) if target.kind == "Pod":
            for shard_set in state.sets.values():
                if shard_set.namespace == target.namespace and index_of(shard_set, target.name) is not None:
                    shard_set.forced = [*shard_set.forced[-63:], f"{target.name}#{target.uid}"]
        case DeleteObject(target=target) if target.kind == MEMBER_KIND:
            for shard_set in state.sets.values():
                for seen in shard_set.members.values():
                    if (shard_set.namespace, seen.record) == (target.namespace, target.name):
                        seen.cleared = True
        case ChangeAssignment() | SizeShards() | ChangeRollout() | SetStatus() | ReportShards():
            _fold_decision(state, event)
        case _:
            for key in (*stateful_set.fold(state, event), *labeller.fold(state, event)):
                touched.touch(key)


def answered(state: State, asked: Asked, outcome: Outcome, touched: Touched) -> None:
    """How an effect came out."""
    shard_set = state.sets.get(asked.shard_set)
    if shard_set is None:
        return
    if gates.answered(shard_set, asked.name, asked.verb, outcome, state.now):
        pass
    elif asked.verb == "take":
        for member, seen in shard_set.members.items():
            if seen.record == asked.name:
                shard_set.taking = [m for m in shard_set.taking if m != member]
                # A refusal means that it renewed after all; the fact about it follows.
                seen.lost = seen.lost or isinstance(outcome, Applied)
                seen.not_taken_at = None if seen.lost else state.now
    else:
        set_pods.answered(state, shard_set, asked, outcome)
    touched.touch(shard_set.key)


def owner_of(state: State, target: ObjectRef) -> str:
    """Key of the set that an effect belongs to, empty for none."""
    for key, shard_set in state.sets.items():
        if shard_set.namespace != target.namespace:
            continue
        if target.kind == MEMBER_KIND and any(m.record == target.name for m in shard_set.members.values()):
            return key
        if target.kind == stateful_set.WORKLOAD and stateful_set.runs_on(shard_set, target.name):
            return key
        if target.kind == gates.LEASE_KIND and gates.read_lock(shard_set, target.name) is not None:
            return key
        if target.kind == "Pod" and index_of(shard_set, target.name) is not None:
            return key
    return ""


def _fold_decision(
    state: State, event: ChangeAssignment | SizeShards | ChangeRollout | SetStatus | ReportShards
) -> None:
    if event.target.kind != KIND:
        return
    shard_set = state.sets.get(f"{event.target.namespace}/{event.target.name}")
    if shard_set is None:
        return
    match event:
        case ChangeAssignment(entry=entry):
            fold_entry(shard_set, entry)
            if entry.cause == "load":
                shard_set.rebalanced_at = entry.at
        case SizeShards():
            shard_set.follower.observe(event.at, event.recommended)
            shard_set.follower.changed(event.at, event.from_shards, event.shards)
            shard_set.sized = event.shards
        case ChangeRollout():
            set_pods.fold_rollout(state, shard_set, event)
        case SetStatus(status=status):
            if shard_set.asked is None and event.observed_generation == shard_set.generation:
                shard_set.former = None
            shard_set.published = digest(status)
            shard_set.conditions = by_type(status.get("conditions", ()))
        case ReportShards(reason=reason, message=message):
            reported(shard_set, reason, message)


def _set(state: State, namespace: str, name: str) -> ShardSetState:
    key = f"{namespace}/{name}"
    if key not in state.sets:
        state.sets[key] = ShardSetState(namespace=namespace, name=name)
    return state.sets[key]
