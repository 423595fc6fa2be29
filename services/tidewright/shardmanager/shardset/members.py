"""A member of a ShardSet as it reports itself in its ShardMember.

A ShardMember is written by its worker and holds its lease:

    spec:    shardSet, member, incarnation, weight, version; taken (written by the manager alone)
    status:  renewals, released, leaving, prepared and acting (runs of slots),
             stopped: [{slot, epoch, checkpoint}], load: {slot: busy units}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tidewright.events.shards import (
    ShardMemberObserved,
)
from tidewright.kube.digits import whole_number
from tidewright.sharding.document import member_id
from tidewright.sharding.keyspace import parse_runs
from tidewright.sharding.lease import LeaseState
from tidewright.sharding.member import Acknowledgement
from tidewright.shardmanager.shardset.spec import SetSpec

HOT_KEYS = 10
"""Keys of a hot slot that are told."""


class MemberSignals(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a worker tells of its work besides its busy time; None where it does not.

    Attributes:
        backlog: pieces of work that wait.
        wait_s: 99th percentile of how long one waits, seconds.
        error_share: of the pieces of work that ended lately, 0 to 1.
        fenced: writes that the sink refused for their epoch, so far.
        hot: the keys with most busy time, by slot.
    """

    backlog: int | None = None
    wait_s: float | None = None
    error_share: float | None = None
    fenced: int = 0
    hot: dict[int, list[str]] = {}


class MemberSeen(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A member as it reports itself.

    Attributes:
        record: name of its ShardMember; empty for a worker whose pod is its membership.
        renewals: counts its renewals; the manager takes a lease only against the number it saw.
        changed_at: log time at which a renewal was last observed, seconds.
        lost: its lease was taken, or its pod is proven gone.
        gone: its record was deleted; it may act until its lease runs out.
        load: busy units by slot, of the last report.
        signals: what else it tells of its work.
        cleared: the deletion of its record was asked for; once is enough.
        lease_s: duration of its lease as it reckons it itself, 0 when it does not say.
        not_taken_at: log time at which an attempt to take its lease was refused, seconds.
    """

    name: str
    incarnation: str
    record: str = ""
    weight: int = 1
    version: str = ""
    renewals: int = 0
    changed_at: float = 0.0
    released: bool = False
    leaving: bool = False
    lost: bool = False
    gone: bool = False
    prepared: list[int] = []
    acting: list[int] = []
    stopped: list[Acknowledgement] = []
    load: dict[int, int] = {}
    signals: MemberSignals = MemberSignals()
    cleared: bool = False
    lease_s: float = 0.0
    not_taken_at: float | None = None

    def spared(self, spec: SetSpec, now: float) -> bool:
        """Whether taking its lease was refused just now: the fact of its renewal is on its way."""
        return self.not_taken_at is not None and now < self.not_taken_at + spec.lease.renew_interval_s

    @property
    def id(self) -> str:
        return member_id(self.name, self.incarnation)

    def expires_at(self, spec: SetSpec) -> float:
        """Log time at which its lease may be taken, seconds.

        A worker that joined under a longer lease than the spec states now still acts by that.
        """
        longer = max(0.0, self.lease_s - spec.lease.duration_s)
        return spec.lease.expires_at(self.changed_at) + longer

    def lease(self, spec: SetSpec, now: float) -> LeaseState:
        """How its lease stands."""
        if self.lost:
            return LeaseState.TAKEN
        if self.released:
            return LeaseState.RELEASED
        if not self.record:
            return LeaseState.READY
        state = LeaseState.EXPIRED if now >= self.expires_at(spec) else LeaseState.READY
        # A record that is gone cannot be renewed any more: its end needs no compare-and-swap.
        return LeaseState.TAKEN if self.gone and state is LeaseState.EXPIRED else state


def member_of(event: ShardMemberObserved, now: float) -> MemberSeen | None:
    """The member that a record is about; None when it does not say who that is. What is no text is left out."""
    spec, status = event.spec, event.status
    name, incarnation = str(spec.get("member") or ""), str(spec.get("incarnation") or "")
    if not name or not incarnation or "#" in incarnation:
        return None
    return MemberSeen(
        name=name,
        incarnation=incarnation,
        record=event.name,
        weight=max(1, _integer(spec.get("weight"), 1)),
        version=str(spec.get("version") or ""),
        renewals=_integer(status.get("renewals"), 0),
        changed_at=now,
        released=status.get("released") is True,
        leaving=status.get("leaving") is True,
        lost=spec.get("taken") is True,
        lease_s=_seconds(spec.get("leaseSeconds")),
        prepared=_runs(status.get("prepared")),
        acting=_runs(status.get("acting")),
        stopped=_acknowledgements(status.get("stopped")),
        load=_load(status.get("load")),
        signals=_signals(status.get("signals")),
    )


def _integer(value: Any, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def _seconds(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0


def _runs(value: Any) -> list[int]:
    try:
        return parse_runs(value) if isinstance(value, str) else []
    except ValueError:
        return []  # a worker that reports nonsense is treated as silent about it


def _acknowledgements(value: Any) -> list[Acknowledgement]:
    acknowledgements = []
    for item in value if isinstance(value, list) else ():
        if (
            isinstance(item, Mapping)
            and isinstance(item.get("slot"), int)
            and isinstance(item.get("epoch"), int)
        ):
            acknowledgements.append(
                Acknowledgement(item["slot"], item["epoch"], str(item.get("checkpoint") or ""))
            )
    return acknowledgements


def _signals(value: Any) -> MemberSignals:
    if not isinstance(value, Mapping):
        return MemberSignals()
    backlog, wait, errors = value.get("backlog"), value.get("waitP99"), value.get("errorShare")
    hot = value.get("hot")
    return MemberSignals(
        backlog=max(0, _integer(backlog, 0)) if backlog is not None else None,
        wait_s=max(0.0, _seconds(wait)) if wait is not None else None,
        error_share=min(1.0, max(0.0, _seconds(errors))) if errors is not None else None,
        fenced=max(0, _integer(value.get("fenced"), 0)),
        hot={
            item["slot"]: [str(key) for key in item["keys"]][:HOT_KEYS]
            for item in (hot if isinstance(hot, list) else ())
            if isinstance(item, Mapping)
            and isinstance(item.get("slot"), int)
            and isinstance(item.get("keys"), list)
        },
    )


def _load(value: Any) -> dict[int, int]:
    if not isinstance(value, Mapping):
        return {}
    return {
        slot: max(0, _integer(busy, 0))
        for text, busy in value.items()
        if (slot := whole_number(text)) is not None
    }
