"""The pods of ShardSets: which are there, since when they are ready, and how effects on them came out."""

from __future__ import annotations

from collections.abc import Sequence

from tidewright.events.base import Outcome
from tidewright.events.facts import PodGone, PodObserved
from tidewright.events.outcomes import Applied
from tidewright.events.shards import ChangeRollout
from tidewright.sharding.keyspace import parse_runs
from tidewright.shardmanager.fold.touched import Touched
from tidewright.shardmanager.propeller.fleet import KnownPod, Template
from tidewright.shardmanager.shardset import signals
from tidewright.shardmanager.shardset.members import MemberSeen
from tidewright.shardmanager.shardset.pods.marks import digest_of, id_of, index_of, is_managed
from tidewright.shardmanager.shardset.spec import SET_LABEL
from tidewright.shardmanager.shardset.state import ShardSetState
from tidewright.shardmanager.state import Asked, State


def fold(state: State, event: PodObserved | PodGone, touched: Touched) -> None:
    """Take in what a pod's change means to its set."""
    after = state.pods.get(event.namespace, {}).get(event.name)
    for key, shard_set in state.sets.items():
        if shard_set.namespace != event.namespace or index_of(shard_set, event.name) is None:
            continue
        shard_set.seen(event.name)
        if isinstance(event, PodObserved) and event.labels.get(SET_LABEL) == shard_set.name and after:
            _note_readiness(shard_set, after, state.now)
            if not shard_set.spec.dynamic:
                _member_of(shard_set, after)
        elif isinstance(event, PodGone) or after is None:
            for member, seen in shard_set.members.items():
                if seen.name == event.name and not seen.record and member != id_of(after):
                    seen.lost = True
            current = id_of(after)
            shard_set.ready_at = {
                pod: at
                for pod, at in shard_set.ready_at.items()
                if pod == current or not pod.startswith(f"{event.name}#")
            }
            if shard_set.rollout.leaving == event.name:
                shard_set.rollout.leaving = ""
        touched.touch(key)


def answered(state: State, shard_set: ShardSetState, asked: Asked, outcome: Outcome) -> None:
    """How a creation, deletion or scale came out. A fact follows; what was refused is tried again later."""
    refusal = "" if isinstance(outcome, Applied) else outcome.message or outcome.reason
    there = state.pods.get(shard_set.namespace, {}).get(asked.name)
    if asked.verb == "create" and there is not None and is_managed(shard_set, there):
        refusal = ""  # the fact was faster than the answer: nothing is missing, and no further fact may come
    shard_set.answered(asked.verb, asked.name, state.now, refusal)
    if asked.verb == "delete" and not refusal and there is not None and asked.meant(there):
        there.deleting = True


def fold_rollout(state: State, shard_set: ShardSetState, event: ChangeRollout) -> None:
    """Take over a change of the rollout."""
    rollout = shard_set.rollout
    match event.state:
        case "started":
            rollout.template = _template(state, shard_set, event.generation)
            rollout.complete = rollout.paused = False
            rollout.progress_at = event.at
            rollout.backlog = rollout.canary_since = None
            rollout.judged = rollout.why = ""
            if rollout.good is None:
                rollout.good = rollout.template
        case "paused":
            rollout.paused, rollout.resumes, rollout.why = True, shard_set.spec.resumes, event.reason
            rollout.rejected = event.rejected or rollout.rejected
        case "resumed":
            rollout.paused, rollout.progress_at = False, event.at
            rollout.rejected, rollout.resumes = "", shard_set.spec.resumes
            rollout.canary_since, rollout.why = None, ""
        case "draining":
            rollout.leaving = event.pod
            rollout.backlog = signals.backlog(shard_set)
        case "canary":
            rollout.canary_since = event.at
        case "approved":
            rollout.judged, rollout.progress_at = event.generation, event.at
        case "complete":
            rollout.complete, rollout.paused = True, False
            rollout.good = _template(state, shard_set, event.generation)
            shard_set.index_table = _index_table(event.tables)


def _template(state: State, shard_set: ShardSetState, generation: str) -> Template | None:
    """The template that a change of the rollout is about, by the digest of what it says."""
    rollout = shard_set.rollout
    seen = state.templates.get(f"{shard_set.namespace}/{shard_set.spec.template}")
    known = [template for template in (seen, rollout.template, rollout.good) if template is not None]
    return next((template for template in known if digest_of(template.template) == generation), seen)


def _index_table(tables: Sequence[str]) -> list[int]:
    """The shard index of each slot, from the slots of each shard as runs; -1 where no shard has it."""
    parts = [parse_runs(shard_runs) for shard_runs in tables]
    table = [-1] * (1 + max((slot for part in parts for slot in part), default=-1))
    for index, part in enumerate(parts):
        for slot in part:
            table[slot] = index
    return table


def _note_readiness(shard_set: ShardSetState, pod: KnownPod, now: float) -> None:
    member = id_of(pod)
    if pod.ready and not pod.deleting and pod.phase == "Running":
        if member not in shard_set.ready_at:
            shard_set.ready_at[member] = now
            shard_set.rollout.progress_at = now
    else:
        shard_set.ready_at.pop(member, None)


def _member_of(shard_set: ShardSetState, pod: KnownPod) -> None:
    """An injected worker's pod is its membership: there from its start to its proven end."""
    member = MemberSeen(name=pod.name, incarnation=pod.uid)
    if member.id not in shard_set.members:
        for seen in shard_set.members.values():
            # A new pod of this name proves that the earlier one is gone, also when its end went unseen.
            seen.lost = seen.lost or (seen.name == pod.name and not seen.record)
        shard_set.members[member.id] = member
