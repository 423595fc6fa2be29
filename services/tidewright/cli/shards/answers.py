"""What `tidewright shards` prints with `-o json`: one type each, by the rules of `tidewright.cli.answers`."""

from __future__ import annotations

from typing import Any

import msgspec


class ShardSetStanding(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Answer to `shards get NAME`: who owns which slots of a ShardSet.

    Attributes:
        assignment: as the object's status has it; null before the first.
        conditions: as the object's status has them.
    """

    namespace: str
    name: str
    assignment: dict[str, Any] | None
    conditions: tuple[dict[str, Any], ...]


class ShardSetStandings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Answer to `shards get`: all sets of a namespace, or of all."""

    items: tuple[ShardSetStanding, ...]


class OwnSlot(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A slot of one of our own services.

    Attributes:
        owner: incarnation of the replica that it is due to; null without any.
        epoch: grows with every claim; 0 where nobody has claimed it yet.
        incarnation: of the replica that wrote the last checkpoint; null without one.
        sequence: up to which everything is decided.
        at: log time of the last event that was folded; null without one.
        trouble: why the checkpoint cannot be gone on from; empty where it can.
    """

    slot: str
    owner: str | None
    epoch: int
    incarnation: str | None
    sequence: int
    at: str | None
    trouble: str = ""


class OwnService(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One of our own services that own slots.

    Attributes:
        replicas: incarnations of those that are there.
        settled: every slot is claimed by whom it is due to.
    """

    service: str
    replicas: tuple[str, ...]
    settled: bool
    slots: tuple[OwnSlot, ...]


class OwnServices(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Answer to `shards get services`, and to `shards get service/NAME`."""

    items: tuple[OwnService, ...]


class ExplainedSlot(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Answer to `shards explain`: which slot a key has, who owns it, and why.

    Attributes:
        key: null where a slot was asked for.
        keyspace: slots in all.
        hash: by which keys get their slots; null for a set whose shards have values of a label.
        label: that label; null for a set with a hash.
        state: of the slot: `Free`, `Owned`, `Draining`.
        owner: the member, as NAME#INCARNATION; null without one.
        incoming: the member that prepares to take it over; null without one.
        pinned: the member that it is pinned to; null without one.
        since: log time since which the owner has it; null where that is not known.
        history: what happened to it, the newest last.
        unknown: why the history is not known; empty where it is.
    """

    key: str | None
    slot: int
    keyspace: int
    hash: str | None
    label: str | None
    state: str
    owner: str | None
    epoch: int
    incoming: str | None
    pinned: str | None
    since: str | None
    history: tuple[str, ...]
    unknown: str


class ExplainedOwnSlot(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Answer to `shards explain --set service/NAME`: which slot a namespace has, and which replica.

    Attributes:
        namespace: null where a slot was asked for.
        owner: incarnation of the replica that it is due to; null without any.
        claimed: that replica has claimed it.
        sequence: up to which everything is decided.
    """

    namespace: str | None
    slot: str
    owner: str | None
    epoch: int
    claimed: bool
    sequence: int


class ShardCheck(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One thing that was looked at.

    Attributes:
        good: it is as it should be; null: it could not be looked at, and the message says why.
    """

    check: str
    good: bool | None
    message: str


class ShardChecks(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Answer to `shards verify`: the live cluster held against the assignment.

    Attributes:
        verified: nothing was found that is not as it should be.
    """

    verified: bool
    items: tuple[ShardCheck, ...]


class SpecProblem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is wrong with a spec: the path of the field, and the value found and what would be valid."""

    path: str
    message: str


class SlotsMoved(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Slots that go from one member to another.

    Attributes:
        slots: as runs, `0-3,7`.
        source: null: they have no owner now.
    """

    slots: str
    count: int
    source: str | None
    target: str


class ShardPlan(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Answer to `shards plan`: what a change would do.

    Attributes:
        problems: of the spec; with any of them nothing would be done.
        moved: slots with an owner that change it.
        slots: of the keyspace.
        starts, stops, restarts: names of pods, or members that are to start or end.
        gap_seconds: the longest time that one slot is without an owner; null when it has no bound.
        gap: the same in words, with what it is made of.
        crash_gap_seconds: that of a member which fails meanwhile.
        notes: what else is worth knowing.
    """

    namespace: str
    name: str
    problems: tuple[SpecProblem, ...]
    moves: tuple[SlotsMoved, ...]
    moved: int
    slots: int
    starts: tuple[str, ...]
    stops: tuple[str, ...]
    restarts: tuple[str, ...]
    gap_seconds: float | None
    gap: str
    crash_gap_seconds: float
    notes: tuple[str, ...]


class ServiceSizing(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Answer to `shards plan --set service/NAME`: how many replicas its load needs.

    Attributes:
        events: that it folds, a second.
        replicas, recommended_replicas: that are there, and that are needed.
        note: what can be done about it.
    """

    service: str
    events_per_second: float
    replicas: int
    recommended_replicas: int
    note: str


class RolloutStanding(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Answer to `shards rollout status`: how far a rolling update of a set's pods is.

    Attributes:
        state: `Progressing`, `Paused` or `Complete`.
        template: version of the template that is rolled out.
        outdated, not_ready, standing_by: names of pods.
        draining: the pod that hands over its slots before it is replaced; empty without one.
        waits_for: the reason; empty where nothing is waited for.
        paused: why it is paused; empty where it is not.
    """

    namespace: str
    name: str
    state: str
    shards: int
    template: str
    outdated: tuple[str, ...]
    not_ready: tuple[str, ...]
    standing_by: tuple[str, ...]
    draining: str
    waits_for: str
    paused: str


SHARDS: dict[str, type[msgspec.Struct]] = {
    "shards.explain": ExplainedSlot,
    "shards.explain.service": ExplainedOwnSlot,
    "shards.get": ShardSetStanding,
    "shards.list": ShardSetStandings,
    "shards.plan": ShardPlan,
    "shards.plan.service": ServiceSizing,
    "shards.rollout.status": RolloutStanding,
    "shards.services": OwnServices,
    "shards.verify": ShardChecks,
}
"""By question, as the schemas are named."""
