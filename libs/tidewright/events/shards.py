"""Events of the shard manager: shard sets, their members, and what is decided about them.

Facts      ShardSet..., ShardMember..., ...Gone; a pod's template is `PodTemplateObserved`
Records    BeginPass, RecordPass (compat), ChangeAssignment (one entry of a set's ledger), SizeShards,
           ChangeRollout, ReportShards

Effects are the shared ones: pods are created and deleted, a lease is taken by a patch of the
member's own record, the assignment is published in the set's status.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from tidewright.events.base import Decision, ObjectRef
from tidewright.events.facts import ObjectFact, ResourceFact


class ShardSetObserved(ResourceFact, frozen=True, kw_only=True, tag="fact.shard-set-observed.v1"):
    """A ShardSet (`shards.tidewright.dev/v1alpha1`)."""


class ShardSetGone(ObjectFact, frozen=True, kw_only=True, tag="fact.shard-set-gone.v1"):
    """A ShardSet is no longer there. Its workers keep running."""


class ShardMemberObserved(ResourceFact, frozen=True, kw_only=True, tag="fact.shard-member-observed.v1"):
    """A ShardMember: one worker process, as it reports itself; its renewals are its lease."""


class ShardMemberGone(ObjectFact, frozen=True, kw_only=True, tag="fact.shard-member-gone.v1"):
    """A ShardMember's record was deleted. Its process may still act until its lease runs out."""


class BeginPass(Decision, frozen=True, kw_only=True, tag="decision.begin-pass.v1"):
    """A pass over a propeller fleet begins that deletes or creates; one that does neither is not recorded.

    Attributes:
        target: the PodTemplate of the fleet.
        application: the fleet's name, value of its pods' `app` label.
        deletions: names of the pods to delete, in order and one after the other.
        creations: indexes of the shards to create then.
        running: expected pods in phase Running.
        adopted: pods of the fleet that were found as they should be.
        foreign, drifted: as in `RecordPass`.
    """

    target: ObjectRef
    application: str
    deletions: tuple[str, ...] = ()
    creations: tuple[int, ...] = ()
    running: int = 0
    adopted: int = 0
    foreign: tuple[str, ...] = ()
    drifted: tuple[str, ...] = ()


class RecordPass(Decision, frozen=True, kw_only=True, tag="decision.record-pass.v1"):
    """How a pass over a propeller fleet ended, when that differs from the pass before.

    Attributes:
        target: the PodTemplate of the fleet.
        application: the fleet's name, value of its pods' `app` label.
        created: pods created in this pass.
        deleted: pods deleted in this pass.
        running: expected pods in phase Running; None when the pass ended before it knew.
        adopted: pods of the fleet that were found as they should be.
        foreign: pods with the application's label that no manager made; they are left alone.
        drifted: pods of others with the right annotations that were told other things; replaced in turn.
        error: the error of the pass in the words of the original, empty when there is none.
        standing_by: another manager may act, because the fleet's lock is not ours.
        rival: pod that another manager with another configuration made; nothing is written while that one runs.
        refused: the fleet's last configuration is not acted upon: the one before stays in force, or, with an `error` that
            says why, none is.
    """

    target: ObjectRef
    application: str
    created: int = 0
    deleted: int = 0
    running: int | None = None
    adopted: int = 0
    foreign: tuple[str, ...] = ()
    drifted: tuple[str, ...] = ()
    error: str = ""
    standing_by: bool = False
    rival: str = ""
    refused: bool = False


EntryKind = Literal[
    "create",
    "join",
    "leave",
    "expire",
    "recover",
    "take",
    "depart",
    "offer",
    "withdraw",
    "drain",
    "cancel",
    "release",
    "grant",
    "force",
    "double",
    "reshape",
    "freeze",
    "unfreeze",
]


class AssignmentEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One change of an assignment document.

    Attributes:
        kind: what happens; `tidewright.sharding.document` says when it is allowed.
        revision: of the document that it was decided on.
        at: log time, seconds.
        slots: the slots concerned, as runs (`0-7,12`).
        member: the member concerned: who joins, acknowledges, or is given the slots.
        weight: of a member that joins.
        version: of its software.
        checkpoints: by slot, with a release.
        keyspace: number of slots, with `create` and `reshape` (sets with one slot per shard).
        cause: why: `crash`, `exit`, `planned`, `rebalance`, ...
        target: which slots each member ought to own from now on, as runs; with the first entry since that changed.
        basis: digest of what the target was made for; empty where none is told.
    """

    kind: EntryKind
    revision: int
    at: float
    slots: str = ""
    member: str = ""
    weight: int = 1
    version: str = ""
    checkpoints: dict[str, str] = {}
    keyspace: int = 0
    cause: str = ""
    target: dict[str, str] = {}
    basis: str = ""


class ChangeAssignment(Decision, frozen=True, kw_only=True, tag="decision.change-assignment.v1"):
    """One entry of a ShardSet's ledger. The document is the fold of these, in order."""

    target: ObjectRef
    entry: AssignmentEntry


class SizeShards(Decision, frozen=True, kw_only=True, tag="decision.size-shards.v1"):
    """Set the number of shards of a ShardSet. The demand that led to it is in `because`.

    Attributes:
        shards: the wanted number.
        from_shards: what it was.
        recommended: what the load calls for; `shards` follows it with hysteresis.
    """

    target: ObjectRef
    shards: int
    from_shards: int
    recommended: int


RolloutChange = Literal["started", "paused", "resumed", "complete", "draining", "canary", "approved"]


class ChangeRollout(Decision, frozen=True, kw_only=True, tag="decision.change-rollout.v1"):
    """A rollout of a ShardSet starts, pauses, goes on, drains a pod before replacing it, or is complete.

    `canary`: it holds after its first pods, which are looked at from now on; `approved`: they did as well as the others.

    Attributes:
        generation: digest of template and injected parts that is being rolled out.
        last_good: the last generation that was complete.
        pod: that is drained.
        rejected: version of the template that is rolled back, with `paused`.
        tables: with `complete`, the slots of each shard as runs, where its worker was told them once and for all.
    """

    target: ObjectRef
    state: RolloutChange
    generation: str
    last_good: str = ""
    pod: str = ""
    reason: str = ""
    rejected: str = ""
    tables: tuple[str, ...] = ()


class ReportShards(Decision, frozen=True, kw_only=True, tag="decision.report-shards.v1"):
    """Something about a ShardSet that needs no action of ours, when it differs from the last report.

    Attributes:
        reason: `InvalidSpec`, `ShardStuck`, `DrainOverdue`, `HotSlot`, `ForeignPod`, ...; empty when
            there is nothing to report any more.
    """

    target: ObjectRef
    reason: str = ""
    message: str = ""


class UnlabelledObject(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An object of a set's source whose slot label is missing, or names no slot.

    Attributes:
        parent, parent_uid: its controller, when that is of the same kind.
        value: what the label says; None when it is missing.
    """

    namespace: str
    name: str
    uid: str
    parent: str = ""
    parent_uid: str = ""
    value: str | None = None


class SlotLabelsScanned(ObjectFact, frozen=True, kw_only=True, tag="fact.slot-labels-scanned.v1"):
    """A page of the objects of a ShardSet that no worker's selector can match. Written by: watcher.

    Said while there are any, and once more when there are none. `namespace` and `name` are the set's.

    Attributes:
        api_version, kind: of the objects.
        label: the slot label that was looked for.
        objects: at most a page of them; those that got their label are not in the next one.
        remaining: how many more there are, as far as the API server says.
    """

    api_version: str = ""
    kind: str = ""
    label: str = ""
    objects: tuple[UnlabelledObject, ...] = ()
    remaining: int = 0


class ServiceLoadObserved(ObjectFact, frozen=True, kw_only=True, tag="fact.service-load-observed.v1"):
    """What one of our own services folded lately. `namespace` and `name` are its Deployment's. Written by: watcher.

    Attributes:
        service: its name on the bus.
        loads: facts folded per second of wall time, by replica that holds slots, the busiest first.
        replicas: that its Deployment wants.
    """

    service: str = ""
    loads: tuple[float, ...] = ()
    replicas: int = 0
