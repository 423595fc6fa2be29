"""What the shard manager knows to say about its sets and fleets, for `tidewright explain`. Pure.

    explain shardset/NAME          its assignment, rollout and conditions, and the decisions about it
    explain podtemplate/NAME       the propeller fleet that is made from it
    explain pod/NAME               why a shard's pod was made or deleted

Which slot a key has, and why it is where it is, is told by `tidewright shards explain KEY`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from tidewright.events.acting import HELD_BACK, held_back
from tidewright.events.base import Because, Decision, Event, target_of
from tidewright.events.decisions import RecordObjectEvent, SetStatus, SetTimer
from tidewright.events.shards import (
    BeginPass,
    ChangeAssignment,
    ChangeRollout,
    RecordPass,
    ReportShards,
    SizeShards,
)
from tidewright.host.fold.explainer import Explainer, Reference, Told
from tidewright.sharding.document import SlotState
from tidewright.sharding.keyspace import runs
from tidewright.shardmanager.propeller.fleet import Fleet
from tidewright.shardmanager.propeller.fleet_verdict import verdict
from tidewright.shardmanager.shardset.members import MemberSeen
from tidewright.shardmanager.shardset.pods.marks import index_of, is_managed
from tidewright.shardmanager.shardset.pods.stateful_set import ordinal
from tidewright.shardmanager.shardset.spec import Driver
from tidewright.shardmanager.shardset.state import ShardSetState, judged
from tidewright.shardmanager.state import State
from tidewright.shardmanager.tell.sentences import begins, sentence

LEASES_NAMED = 3
"""Leases of workers that a sentence names."""
_RULES = {
    "ShardMissing": "There was no pod for shard {shard}.",
    "ShardFailed": "Pod {pod} had ended.",
    "ArgsDrift": "Pod {pod} fits by its annotations and was told other things: {found}",
    "GateClosed": "Pods that may act on the same slots are still there; the new one is to wait for {lock}.",
    "GateHeld": "The lock {lock} is held until they are gone.",
    "GateOpened": "No pod that may act on the slots behind {lock} is left.",
    "GateOver": "The lock {lock} belongs to a generation that is over.",
    "FleetLockWanted": "The configuration elects by the lease {lock}: pods are looked after only while it is held.",
    "FleetLockHeld": "The lease {lock} is held, so that no other manager acts.",
    "FleetLockStopped": "{holder} was not seen to renew the lease {lock} for {duration_s:g} s.",
    "FleetLockReturned": "The fleet is no longer looked after here: the lease {lock} is free for another manager.",
    "ShardTwice": "Pod {pod} is the second one of its shard, left from gate mode.",
    "ShardOutdated": "Pod {pod} was made from an earlier template, or told other slots.",
    "ShardStuck": "Pod {pod} did not go away, and the set allows that it is removed by force.",
    "MemberOver": "Member {member} is over and does not come back.",
    "LeaseExpired": "{member} was not seen to renew its lease for {duration_s:g} s and the margin of {skew_margin_s:g} s.",
    "DrainNotAcknowledged": "{member} did not stop in time when it was asked to, so it loses all its slots.",
    "ShardCount": "{shards} shards are wanted, the StatefulSet has {replicas}; members up to ordinal {still_holding} still hold slots.",
    "Demand": "The members are busy {load:g} in total ({missing} do not report); one shard is to carry {target:.0%} of {capacity:g}.",
    "SlotLabelMissing": "The object had no slot label; its key has slot {slot}.",
    "SlotLabelIllegal": "The object's slot label was {found!r}, which is no slot; its key has slot {slot}.",
    "ConfigurationWarning": "The configuration is used with a warning: {message}.",
}


class ShardExplainer:
    """Sets and fleets in sentences."""

    kinds = frozenset({"shardset", "shardmember", "podtemplate", "pod", "statefulset"})

    def told(self, state: State, asked: Reference) -> Told:
        """Decisions about a set are on it; those about its pods and members are on these."""
        shard_set = state.sets.get(f"{asked.namespace}/{asked.name}")
        if asked.kind != "shardset" or shard_set is None:
            return Told((asked,))
        pods = state.pods.get(asked.namespace, {})
        stem = f"{asked.name}-"
        references = [
            Reference("pod", asked.namespace, name) for name in sorted(pods) if name.startswith(stem)
        ]
        references += [
            Reference("shardmember", asked.namespace, m.record)
            for m in shard_set.members.values()
            if m.record
        ]
        if shard_set.spec.driver is Driver.STATEFULSET:
            references.append(Reference("statefulset", asked.namespace, shard_set.spec.template))
        return Told((asked, *references))

    def concerns(self, event: Event, asked: Reference) -> bool:
        """Everything but timers and the writing of the status."""
        return isinstance(event, Decision) and not isinstance(event, SetTimer | SetStatus)

    def sentences(self, event: Event) -> Sequence[str]:
        """Why a decision is what it is."""
        reasons = [text for reason in getattr(event, "because", ()) if (text := _reason(reason))]
        match event:
            case ChangeAssignment(entry=entry):
                return [
                    sentence(entry),
                    *(held_back(reason.values) for reason in event.because if reason.rule == HELD_BACK),
                ]
            case SizeShards():
                size = f"From {event.from_shards} to {event.shards} shards; the load calls for {event.recommended}."
                return [*reasons, size]
            case ChangeRollout():
                about = f" of pod {event.pod}" if event.pod else ""
                return [f"The rollout{about} is {event.state}: {event.reason}.", *reasons]
            case ReportShards():
                if not event.message:
                    return [f"{event.reason} is over."]
                return [f"{event.reason}: {event.message}."]
            case BeginPass():
                return [f"A pass begins that is to {begins(event)}."]
            case RecordPass():
                return [*reasons, *_pass(event)]
            case SetStatus() | RecordObjectEvent() | SetTimer():
                return []
        return reasons

    def part(self, state: State, event: Event, asked: Reference) -> Event:
        """All of it: decisions here are about one object."""
        return event

    def facts(self, state: State, event: Event) -> Sequence[Reference]:
        """The set itself, the template, and what a member said."""
        target = target_of(event)
        if target is None:
            return []
        if isinstance(event, BeginPass | RecordPass):
            return [Reference("podtemplate", target.namespace, target.name)]
        shard_set = state.sets.get(f"{target.namespace}/{target.name}")
        if shard_set is None:
            return [Reference(target.kind.lower(), target.namespace, target.name)]
        references = [Reference("shardset", target.namespace, target.name)]
        if isinstance(event, ChangeRollout) and shard_set.spec.template:
            references.append(Reference("podtemplate", target.namespace, shard_set.spec.template))
        if isinstance(event, ChangeAssignment):
            member = shard_set.members.get(event.entry.member)
            if member is not None and member.record:
                references.append(Reference("shardmember", target.namespace, member.record))
        return references

    def opposite(self, state: State, event: Event) -> Sequence[str]:
        """Taking a lease and sizing are decided by thresholds."""
        for reason in getattr(event, "because", ()):
            values = reason.values
            if reason.rule == "LeaseExpired" and "observed_at_s" in values:
                wait = float(values["duration_s"] or 0) + float(values["skew_margin_s"] or 0)
                return [f"A renewal within {wait:g} s of the one before would have kept the lease."]
            if reason.rule == "Demand" and isinstance(event, SizeShards):
                unit = float(values["capacity"] or 0) * float(values["target"] or 0)
                low, high = unit * event.from_shards * 0.9, unit * event.from_shards * 1.1
                return [f"A load between {low:g} and {high:g} would have kept {event.from_shards} shards."]
        return []

    def aggregate(self, state: State, asked: Reference) -> Mapping[str, object] | None:
        """A set; a template with its fleets; a member or a pod with the name of the set that has it."""
        key = f"{asked.namespace}/{asked.name}"
        match asked.kind:
            case "shardset":
                shard_set = state.sets.get(key)
                return None if shard_set is None else {"set": shard_set}
            case "podtemplate":
                template = state.templates.get(key)
                fleets = {name: f for name, f in sorted(state.fleets.items()) if f.template_key == key}
                return None if template is None and not fleets else {"template": template, "fleets": fleets}
            case "shardmember":
                membership = _member(state, asked)
                return None if membership is None else {"member": membership[1], "set": membership[0].name}
            case "pod":
                pod = state.pods.get(asked.namespace, {}).get(asked.name)
                if pod is None:
                    return None
                owner = next((s.name for s in _sets(state, asked.namespace) if is_managed(s, pod)), None)
                return {"pod": pod, "set": owner}
            case "statefulset":
                replicas = state.replicas.get(key)
                return None if replicas is None else {"replicas": replicas}
        return None

    def standing(self, state: State, asked: Reference, now: float) -> Sequence[str]:
        """How a set, a fleet, a member or a shard's pod stands."""
        if asked.kind == "shardmember":
            membership = _member(state, asked)
            return _membership(*membership, now) if membership is not None else []
        if asked.kind == "pod":
            pod = state.pods.get(asked.namespace, {}).get(asked.name)
            owner = next((s for s in _sets(state, asked.namespace) if pod and is_managed(s, pod)), None)
            return [f"It is shard {index_of(owner, asked.name)} of ShardSet {owner.name}."] if owner else []
        if asked.kind == "shardset":
            shard_set = state.sets.get(f"{asked.namespace}/{asked.name}")
            return _set(shard_set, now) if shard_set is not None and shard_set.present else []
        if asked.kind == "podtemplate":
            key = f"{asked.namespace}/{asked.name}"
            return [text for f in state.fleets.values() if f.template_key == key for text in _fleet(f, now)]
        return []


def _sets(state: State, namespace: str) -> list[ShardSetState]:
    return [
        shard_set
        for _, shard_set in sorted(state.sets.items())
        if shard_set.namespace == namespace and shard_set.present
    ]


def _member(state: State, asked: Reference) -> tuple[ShardSetState, MemberSeen] | None:
    """The member that a ShardMember is the record of, and its set."""
    for shard_set in _sets(state, asked.namespace):
        for member in shard_set.members.values():
            if member.record == asked.name:
                return shard_set, member
    return None


def _membership(shard_set: ShardSetState, member: MemberSeen, now: float) -> list[str]:
    identity = f"{member.name}#{member.incarnation}"
    held = [n for n, slot in enumerate(shard_set.document.slots) if slot.owner == identity]
    said = [
        f"It is member {member.name} of ShardSet {shard_set.name}, with weight {member.weight}.",
        f"It owns slots {runs(held)}." if held else "It owns no slot.",
    ]
    if member.released:
        return [*said, "It has released its lease and is over."]
    if member.lost:
        return [*said, "Its lease was taken: it is over, and does not come back under this incarnation."]
    if member.leaving:
        said.append("It is leaving: its slots are handed over.")
    remaining_s = member.expires_at(shard_set.spec) - now
    return [*said, f"Its lease may be taken in {max(0.0, remaining_s):.0f} s unless it renews."]


def _reason(reason: Because) -> str:
    if reason.rule == HELD_BACK:
        return held_back(reason.values)
    text = _RULES.get(reason.rule)
    if text is None:
        return ""
    try:
        return text.format(**reason.values)
    except (KeyError, ValueError, TypeError):
        return ""  # of another version, with other values


def _pass(event: RecordPass) -> list[str]:
    running = "" if event.running is None else f", {event.running} of them running"
    said = [
        f"The pass deleted {event.deleted} pods and made {event.created}; {event.adopted} were as they should be{running}."
    ]
    if event.foreign:
        said.append(
            f"{', '.join(event.foreign)} carry the application's label, and no manager made them: they are left alone."
        )
    return [*said, f"It ended with an error: {event.error}."] if event.error else said


def _set(shard_set: ShardSetState, now: float) -> list[str]:
    document = shard_set.document
    shard_set, problems = judged(shard_set)
    if problems:
        return [f"Its spec is not acted upon: {'; '.join(map(str, problems))}."]
    shares = Counter(record.owner.partition("#")[0] for record in document.slots if record.owner)
    held = ", ".join(f"{name} {count}" for name, count in sorted(shares.items()))
    said = [
        f"Of {len(document.slots)} slots {sum(shares.values())} have an owner{f': {held}' if held else ''}."
    ]
    if free := document.unowned():
        said.append(f"Slots {runs(free)} have none.")
    if document.moving:
        draining = [s for s in document.moving if document.slots[s].state is SlotState.DRAINING]
        said.append(f"Slots {runs(document.moving)} are moving; {len(draining)} of them are being stopped.")
    if document.frozen:
        said.append("It is frozen: no move begins.")
    for member, seen in sorted(shard_set.members.items()):
        if seen.record and not seen.lost and not seen.released:
            remaining_s = seen.expires_at(shard_set.spec) - now
            if remaining_s < shard_set.spec.lease.duration_s / 2:
                said.append(
                    f"The lease of {member} may be taken in {max(0.0, remaining_s):.0f} s unless it renews."
                )
    if shard_set.spec.driver is Driver.PODS:
        rollout = shard_set.rollout
        word = (
            "paused"
            if rollout.paused or shard_set.spec.paused
            else "complete"
            if rollout.complete
            else "under way"
        )
        said.append(f"{shard_set.size} pods are wanted; the rollout is {word}.")
    if shard_set.spec.driver is Driver.STATEFULSET:
        late = sorted(m for m in shares if (n := ordinal(shard_set, m)) is not None and n >= shard_set.size)
        if late:
            said.append(f"{', '.join(late)} hand over their slots before the StatefulSet shrinks.")
    return [
        *said,
        *(f"{reason}: {message}." for reason, message in sorted(shard_set.reported.items()) if message),
    ]


def _fleet(fleet: Fleet, now: float) -> list[str]:
    config, last = fleet.config, fleet.recorded
    said = [
        (
            f"It is the template of fleet {fleet.key} with {config.shard.pod_count} shards ({config.shard.type.value}); "
            + (
                f"the last pass of which something is recorded made {last.created} pods and deleted {last.deleted}."
                if last is not None
                else "nothing is recorded of a pass yet."
            )
        )
    ]
    if fleet.asked is not None:
        refused = (fleet.judged or verdict(fleet.asked)).refused
        stays = "" if fleet.void else " The one before stays in force."
        said.append(f"Its configuration is not acted upon: {refused}.{stays}")
    if fleet.lock is not None:
        leases = fleet.lock.election.worker_leases(config.shard.pod_count)
        more = f" and {len(leases) - LEASES_NAMED} more" if len(leases) > LEASES_NAMED else ""
        said.append(f"Its shards elect by the leases {', '.join(leases[:LEASES_NAMED])}{more}.")
        if why := fleet.lock.why_not(now):
            said.append(f"Nothing is written: {why}.")
    if fleet.rival:
        said.append(f"Nothing is written: another manager with another configuration made pod {fleet.rival}.")
    return said


EXPLAINER: Explainer[State] = ShardExplainer()
