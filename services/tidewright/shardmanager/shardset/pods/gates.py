"""Gate mode (section 3.5): unmodified workers that elect are replaced while their successors wait, warm.

The pods of a new generation stand beside the old ones, under names and locks of their own. The manager
makes those locks first and holds them, so the new pods start, fill their caches and wait. Old pods are
stopped one at a time; when every pod that may act on a part of a new shard's work is proven gone, the
manager gives that lock away, and the shard is live within one retry period of its worker.

    lock    a Lease `<set>-<generation>-leader-<index>`; pod `<set>-<generation>-<index>`
    states  asked -> held -> opening -> open; stale: it is there from earlier, and to be removed first

The manager's hold needs no manager: the Lease states a duration of a year, and is renewed every few
seconds besides, for workers that go by their own configured duration. `open` is for good: what the
lock is worth from then on is the worker's matter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from tidewright.events.base import Because, Event, JsonObject, ObjectRef, Outcome
from tidewright.events.decisions import CreateObject, DeleteObject, PatchObject
from tidewright.events.outcomes import Applied, Rejected
from tidewright.kube.times import rfc3339_micro
from tidewright.shardmanager.shardset.spec import API_VERSION, KIND
from tidewright.shardmanager.shardset.state import Gate, ShardSetState

LEASE_API, LEASE_KIND = "coordination.k8s.io/v1", "Lease"
HOLD_S = 365 * 86_400
"""Duration that a held lock states: no candidate of a client that reads it takes it before."""
RENEW_S = 5.0
"""Pause between two renewals, for candidates that reckon with their own duration (15 s by default)."""
_LOCK = re.compile(r"(?P<stem>.+)-(?P<generation>[0-9a-f]{8})-leader-(?P<index>\d+)")
_POD = re.compile(r"(?P<stem>.+)-(?P<generation>[0-9a-f]{8})-(?P<index>\d+)")


class Name(msgspec.Struct, frozen=True):
    """What the name of a pod or a lock of gate mode says."""

    generation: str
    index: int


def lock_of(shard_set: ShardSetState, generation: str, index: int) -> str:
    """The lock of a shard's worker in one generation."""
    return f"{shard_set.name}-{generation}-leader-{index}"


def pod_of(shard_set: ShardSetState, generation: str, index: int) -> str:
    """The pod of a shard in one generation."""
    return f"{shard_set.name}-{generation}-{index}"


def read_lock(shard_set: ShardSetState, name: str) -> Name | None:
    """What a lock's name says; None when it is none of this set."""
    return _read(_LOCK, shard_set.name, name)


def read_pod(shard_set: ShardSetState, name: str) -> Name | None:
    """What a pod's name says; None when it is none of gate mode, or of another set."""
    return _read(_POD, shard_set.name, name)


def _read(pattern: re.Pattern[str], stem: str, name: str) -> Name | None:
    match = pattern.fullmatch(name)
    if match is None or match["stem"] != stem:
        return None
    return Name(match["generation"], int(match["index"]))


def closed(shard_set: ShardSetState, pod: str) -> bool:
    """Whether a pod waits for a lock that the manager holds: it does not act."""
    name = read_pod(shard_set, pod)
    if name is None:
        return False
    gate = shard_set.gates.get(lock_of(shard_set, name.generation, name.index))
    return gate is not None and gate.state in ("asked", "held")


# The fold.


def fold(shard_set: ShardSetState, event: Event, now: float) -> None:
    """Take in what was decided about a lock."""
    match event:
        case CreateObject(target=target) if (name := read_lock(shard_set, target.name)) is not None:
            if target.kind == LEASE_KIND:
                shard_set.gates[target.name] = Gate(index=name.index, generation=name.generation)
        case PatchObject(target=target, patch=patch) if target.kind == LEASE_KIND:
            gate = shard_set.gates.get(target.name)
            if gate is not None:
                gate.renewed_at = now
                if gate.state == "held" and "holderIdentity" in (patch.get("spec") or {}):
                    gate.state = "opening"
        case DeleteObject(target=target) if target.kind == LEASE_KIND:
            shard_set.gates.pop(target.name, None)


def answered(shard_set: ShardSetState, name: str, verb: str, outcome: Outcome, now: float) -> bool:
    """How an effect on a lock came out. False when it was none of a lock."""
    gate = shard_set.gates.get(name)
    if gate is None or read_lock(shard_set, name) is None:
        return False
    applied = isinstance(outcome, Applied)
    if verb == "create":
        if _taken(outcome):
            gate.state = "stale"  # of the same generation, earlier: no pod of it is there any more
            return True
        shard_set.answered(verb, name, now, "" if applied else outcome.message or outcome.reason)
        if applied:
            gate.state, gate.renewed_at = "held", now
        else:
            del shard_set.gates[name]
    elif gate.state == "opening":
        # A lock that somebody else holds is open, whoever opened it.
        gate.state = "open" if applied or _taken(outcome) else "held"
        gate.opened_at = now
    elif gate.state == "held" and _taken(outcome):
        gate.state, gate.lost, gate.opened_at = "open", True, now
    return True


def _taken(outcome: Outcome) -> bool:
    return isinstance(outcome, Rejected) and outcome.reason == "Conflict"


# What is asked for.


def holder(shard_set: ShardSetState) -> str:
    """Under which name the manager holds the locks of a set."""
    return f"tidewright-shard-manager#{shard_set.uid or shard_set.key}"


def make(shard_set: ShardSetState, name: str, now: float) -> CreateObject:
    """Make a lock, held by us from its first moment."""
    owner = {"apiVersion": API_VERSION, "kind": KIND, "name": shard_set.name, "uid": shard_set.uid}
    manifest: JsonObject = {
        "apiVersion": LEASE_API,
        "kind": LEASE_KIND,
        "metadata": {"name": name, "namespace": shard_set.namespace, "ownerReferences": [owner]},
        "spec": {
            "holderIdentity": holder(shard_set),
            "leaseDurationSeconds": HOLD_S,
            "acquireTime": rfc3339_micro(now),
            "renewTime": rfc3339_micro(now),
        },
    }
    why = Because(rule="GateClosed", values={"lock": name})
    return CreateObject(at=now, target=_ref(shard_set, name), manifest=manifest, because=(why,))


def renew(shard_set: ShardSetState, name: str, now: float) -> PatchObject:
    """Hold a lock for longer."""
    return _patch(shard_set, name, {"renewTime": rfc3339_micro(now)}, "GateHeld", now)


def release(shard_set: ShardSetState, name: str, now: float) -> PatchObject:
    """Give a lock away: whoever waits for it takes it at its next look."""
    spec: dict[str, str | int | None] = {
        "holderIdentity": None,
        "leaseDurationSeconds": 1,
        "renewTime": rfc3339_micro(now),
    }
    return _patch(shard_set, name, spec, "GateOpened", now)


def remove(shard_set: ShardSetState, name: str, now: float) -> DeleteObject:
    """Remove the lock of a generation that is over."""
    why = Because(rule="GateOver", values={"lock": name})
    return DeleteObject(at=now, target=_ref(shard_set, name), because=(why,))


def _patch(
    shard_set: ShardSetState, name: str, spec: Mapping[str, str | int | None], rule: str, now: float
) -> PatchObject:
    return PatchObject(
        at=now,
        target=_ref(shard_set, name),
        patch={"spec": dict(spec)},
        expect={"/spec/holderIdentity": holder(shard_set)},
        because=(Because(rule=rule, values={"lock": name}),),
    )


def _ref(shard_set: ShardSetState, name: str) -> ObjectRef:
    return ObjectRef(api_version=LEASE_API, kind=LEASE_KIND, namespace=shard_set.namespace, name=name)
