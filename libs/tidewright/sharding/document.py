"""The assignment document: who owns which slot, under which epoch (section 3.2).

A document changes only by entries of its ledger, each made for one revision of it: an entry that
was decided on an older revision is refused (rule R4), so a manager that wakes up late changes
nothing. The document is a fold of its ledger, and `apply` is that fold.

    FREE --grant--> OWNED --drain--> DRAINING --release--> FREE
                      ^                 | cancel (epoch + 1)
                      `-----------------'
    OWNED, DRAINING --force, after the owner's lease was taken--> FREE
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from itertools import chain
from typing import TypeAlias

import msgspec

from tidewright.events.shards import AssignmentEntry as Entry
from tidewright.events.shards import EntryKind
from tidewright.sharding.keyspace import parse_runs, runs

__all__ = ["Document", "Entry", "EntryKind", "Refused", "apply", "created", "replay"]

_Rule: TypeAlias = "Callable[[Document, Entry, Sequence[int]], None]"


class SlotState(StrEnum):
    """Who may act on a slot: nobody, its owner, or its owner until it acknowledges."""

    FREE = "Free"
    OWNED = "Owned"
    DRAINING = "Draining"


class MemberState(StrEnum):
    """How a member stands. Only a ready one is given slots; a taken or gone one holds none."""

    READY = "Ready"
    DRAINING = "Draining"
    EXPIRED = "Expired"
    TAKEN = "Taken"


class SlotRecord(msgspec.Struct, omit_defaults=True):
    """One slot.

    Attributes:
        owner: member id, empty when free.
        epoch: grows by one with every owner.
        incoming: the member that prepares to take over, or that a drain is for.
        checkpoint: where the last owner stopped, as it said in its acknowledgement.
        since: log time of the last change, seconds.
    """

    state: SlotState = SlotState.FREE
    owner: str = ""
    epoch: int = 0
    incoming: str = ""
    checkpoint: str = ""
    since: float = 0.0


class MemberRecord(msgspec.Struct, omit_defaults=True):
    """A running worker process. Its id is `<name>#<incarnation>`, never the bare name (rule R1)."""

    name: str
    incarnation: str
    weight: int = 1
    state: MemberState = MemberState.READY
    version: str = ""

    @property
    def id(self) -> str:
        return member_id(self.name, self.incarnation)


class Refused(Exception):
    """An entry that the document does not allow."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Document(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The state of one shard set.

    Attributes:
        revision: number of entries folded.
        moving: slots that are offered or draining, ascending.
    """

    revision: int = 0
    frozen: bool = False
    slots: list[SlotRecord] = []
    members: dict[str, MemberRecord] = {}
    moving: list[int] = []

    def copy(self) -> Document:
        """A document that changes apart from this one."""
        replace = msgspec.structs.replace
        return Document(
            revision=self.revision,
            frozen=self.frozen,
            slots=[replace(record) for record in self.slots],
            members={member: replace(record) for member, record in self.members.items()},
            moving=list(self.moving),
        )

    def ready(self) -> list[str]:
        """Ids of the members that may be given slots, sorted."""
        return sorted(m for m, record in self.members.items() if record.state is MemberState.READY)

    def owned_by(self, member: str) -> list[int]:
        """The slots that a member owns or drains, ascending."""
        return [slot for slot, record in enumerate(self.slots) if record.owner == member]

    def unowned(self) -> list[int]:
        """The slots that nobody may act on, ascending."""
        return [slot for slot, record in enumerate(self.slots) if record.state is SlotState.FREE]


def member_id(name: str, incarnation: str) -> str:
    """The identity of one process: its name alone comes back after a crash, its incarnation does not."""
    if not incarnation:
        raise ValueError(f"member {name!r} has no incarnation: a name alone is not an identity")
    return f"{name}#{incarnation}"


def created(slots: int, at: float = 0.0) -> Entry:
    """The first entry of a ledger."""
    return Entry(kind="create", revision=0, at=at, keyspace=slots)


def replay(entries: Iterable[Entry]) -> Document:
    """The document of a ledger."""
    document = Document()
    for entry in entries:
        apply(document, entry)
    return document


def apply(document: Document, entry: Entry) -> None:
    """Fold one entry, in place; a refused one changes nothing.

    Raises:
        Refused: `StaleRevision` for an entry that was decided on another revision (R4), otherwise
            the name of the rule that it breaks.
    """
    if entry.revision != document.revision:
        raise Refused(
            "StaleRevision",
            f"{entry.kind}: decided on revision {entry.revision}, the document is at {document.revision}",
        )
    touched = parse_runs(entry.slots)
    if touched and not 0 <= touched[-1] < len(document.slots):
        raise Refused("NoSuchSlot", f"{entry.kind}: slot {touched[-1]} of {len(document.slots)}")
    for check in _CHECKS.get(entry.kind, ()):
        check(document, entry, touched)
    _CHANGES[entry.kind](document, entry, touched)
    document.revision += 1


# What must hold before a change. Each raises `Refused`.


def _known(document: Document, entry: Entry, _: Sequence[int]) -> None:
    if entry.member not in document.members:
        raise Refused("NoSuchMember", f"{entry.kind}: {entry.member!r} is no member")


def _new(document: Document, entry: Entry, _: Sequence[int]) -> None:
    name, _hash, incarnation = entry.member.rpartition("#")
    if not name or not incarnation:
        raise Refused("NoIncarnation", f"join: {entry.member!r} is not <name>#<incarnation> (R1)")
    if entry.member in document.members:
        raise Refused(
            "AlreadyMember", f"join: {entry.member!r} was a member before: a new incarnation is needed"
        )


def _ready(document: Document, entry: Entry, _: Sequence[int]) -> None:
    record = document.members.get(entry.member)
    if record is None or record.state is not MemberState.READY:
        state = record.state.value if record else "no member"
        raise Refused("NotReady", f"{entry.kind}: {entry.member!r} is {state}")


def _lost(document: Document, entry: Entry, _: Sequence[int]) -> None:
    record = document.members[entry.member]
    if record.state is not MemberState.TAKEN:
        raise Refused(
            "LeaseNotTaken", f"force: the lease of {entry.member!r} is not taken, it is {record.state.value}"
        )


def _states(*allowed: SlotState) -> _Rule:
    def check(document: Document, entry: Entry, touched: Sequence[int]) -> None:
        for slot in touched:
            state = document.slots[slot].state
            if state not in allowed:
                expected = " or ".join(s.value for s in allowed)
                raise Refused(
                    "WrongState", f"{entry.kind}: slot {slot} is {state.value}, expected {expected}"
                )

    return check


def _owner(document: Document, entry: Entry, touched: Sequence[int]) -> None:
    for slot in touched:
        if (owner := document.slots[slot].owner) != entry.member:
            raise Refused(
                "NotOwner", f"{entry.kind}: slot {slot} belongs to {owner!r}, not to {entry.member!r}"
            )


def _empty_handed(document: Document, entry: Entry, _: Sequence[int]) -> None:
    if held := document.owned_by(entry.member):
        raise Refused("HoldsSlots", f"leave: {entry.member!r} still holds {runs(held)}")


# What a change does. None of them fails.


def _create(document: Document, entry: Entry, _: Sequence[int]) -> None:
    document.slots = [SlotRecord(since=entry.at) for _slot in range(entry.keyspace)]


def _join(document: Document, entry: Entry, _: Sequence[int]) -> None:
    name, _hash, incarnation = entry.member.rpartition("#")
    document.members[entry.member] = MemberRecord(
        name=name, incarnation=incarnation, weight=entry.weight, version=entry.version
    )


def _leave(document: Document, entry: Entry, _: Sequence[int]) -> None:
    del document.members[entry.member]


def _set_state(state: MemberState) -> _Rule:
    def change(document: Document, entry: Entry, _: Sequence[int]) -> None:
        document.members[entry.member].state = state

    return change


def _offer(document: Document, entry: Entry, touched: Sequence[int]) -> None:
    for slot in touched:
        record = document.slots[slot]
        record.incoming, record.since = entry.member, entry.at
    document.moving = sorted({*document.moving, *touched})


def _withdraw(document: Document, _: Entry, touched: Sequence[int]) -> None:
    for slot in touched:
        document.slots[slot].incoming = ""
    _settled(document, touched)


def _drain(document: Document, entry: Entry, touched: Sequence[int]) -> None:
    for slot in touched:
        record = document.slots[slot]
        record.state, record.since = SlotState.DRAINING, entry.at
    document.moving = sorted({*document.moving, *touched})


def _cancel(document: Document, entry: Entry, touched: Sequence[int]) -> None:
    """The owner stays, under a new epoch: an acknowledgement that is still on its way is void."""
    for slot in touched:
        record = document.slots[slot]
        record.state, record.incoming, record.since = SlotState.OWNED, "", entry.at
        record.epoch += 1
    _settled(document, touched)


def _release(document: Document, entry: Entry, touched: Sequence[int]) -> None:
    for slot in touched:
        record = document.slots[slot]
        record.state, record.owner, record.since = SlotState.FREE, "", entry.at
        record.checkpoint = entry.checkpoints.get(str(slot), record.checkpoint)


def _grant(document: Document, entry: Entry, touched: Sequence[int]) -> None:
    for slot in touched:
        record = document.slots[slot]
        record.state, record.owner, record.since = SlotState.OWNED, entry.member, entry.at
        record.incoming = ""
        record.epoch += 1
    _settled(document, touched)


def _force(document: Document, entry: Entry, touched: Sequence[int]) -> None:
    for slot in touched:
        record = document.slots[slot]
        record.state, record.owner, record.since = SlotState.FREE, "", entry.at


def _double(document: Document, _: Entry, __: Sequence[int]) -> None:
    """Slot s becomes s and s + S: same owner, same epoch, so that no key changes its owner."""
    document.slots = list(
        chain(document.slots, (msgspec.structs.replace(record) for record in document.slots))
    )


def _reshape(document: Document, entry: Entry, _: Sequence[int]) -> None:
    """Another number of slots, for sets in which a slot is a shard: new ones are free, those at the end go."""
    fresh = range(len(document.slots), entry.keyspace)
    document.slots = [*document.slots[: entry.keyspace], *(SlotRecord(since=entry.at) for _slot in fresh)]


def _freeze(document: Document, entry: Entry, _: Sequence[int]) -> None:
    document.frozen = entry.kind == "freeze"


def _still(document: Document, entry: Entry, _: Sequence[int]) -> None:
    if document.moving:
        raise Refused("InMotion", f"{entry.kind}: slots {runs(document.moving)} are changing their owner")


def _tail_is_free(document: Document, entry: Entry, _: Sequence[int]) -> None:
    held = [s for s in range(entry.keyspace, len(document.slots)) if document.slots[s].owner]
    if held or entry.keyspace < 1:
        raise Refused("HoldsSlots", f"reshape: slots {runs(held)} still have an owner, or none would be left")


def _fresh(document: Document, entry: Entry, _: Sequence[int]) -> None:
    if document.slots:
        raise Refused("AlreadyCreated", f"create: the document has {len(document.slots)} slots already")


def _settled(document: Document, touched: Iterable[int]) -> None:
    gone = set(touched)
    document.moving = [slot for slot in document.moving if slot not in gone]


_CHECKS: dict[EntryKind, tuple[_Rule, ...]] = {
    "create": (_fresh,),
    "join": (_new,),
    "leave": (_known, _empty_handed),
    "expire": (_known,),
    "recover": (_known,),
    "take": (_known,),
    "depart": (_known,),
    "offer": (_ready, _states(SlotState.OWNED)),
    "withdraw": (_states(SlotState.OWNED),),
    "drain": (_states(SlotState.OWNED),),
    "cancel": (_states(SlotState.DRAINING), _owner),
    "release": (_known, _states(SlotState.DRAINING), _owner),
    "grant": (_ready, _states(SlotState.FREE)),
    "force": (_known, _lost, _states(SlotState.OWNED, SlotState.DRAINING), _owner),
    "double": (_still,),
    "reshape": (_still, _tail_is_free),
}

_CHANGES: dict[EntryKind, _Rule] = {
    "create": _create,
    "join": _join,
    "leave": _leave,
    "expire": _set_state(MemberState.EXPIRED),
    "recover": _set_state(MemberState.READY),
    "take": _set_state(MemberState.TAKEN),
    "depart": _set_state(MemberState.DRAINING),
    "offer": _offer,
    "withdraw": _withdraw,
    "drain": _drain,
    "cancel": _cancel,
    "release": _release,
    "grant": _grant,
    "force": _force,
    "double": _double,
    "reshape": _reshape,
    "freeze": _freeze,
    "unfreeze": _freeze,
}
