"""Slots of shard sets and of our own services: who owns them, under which epoch, and what is on its way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from tidewright.asking.service_state import Asked, restored
from tidewright.asking.services import BY_NAME, DECIDERS
from tidewright.asking.source import Source
from tidewright.console.asked import Looking
from tidewright.console.charts import Stretch, strip
from tidewright.console.kept import Kept
from tidewright.console.lists import Lists
from tidewright.console.standing import Position, standing
from tidewright.host.fold.explainer import Reference
from tidewright.sharding.document import Document, SlotState
from tidewright.sharding.keyspace import runs
from tidewright.shardmanager.state import State

SETS = 40
"""That are shown; each namespace costs a fold."""
SHADES = 6


@dataclass(frozen=True)
class Member:
    """A worker process and what it owns."""

    name: str
    incarnation: str
    state: str
    weight: int
    slots: int
    which: str
    epoch: int
    shade: int


@dataclass(frozen=True)
class Move:
    """Slots that go from one member to another.

    Attributes:
        state: what they are in.
    """

    slots: str
    source: str
    target: str
    state: str
    since: float


@dataclass(frozen=True)
class ShownSet:
    """A shard set."""

    about: Reference
    slots: int
    unowned: str
    frozen: bool
    revision: int
    members: tuple[Member, ...]
    moves: tuple[Move, ...]
    drawing: Markup


@dataclass(frozen=True)
class Owner:
    """A process of ours and the slots that it has claimed."""

    service: str
    incarnation: str
    slots: int
    which: str
    epochs: str


async def page(source: Source, kept: Kept, lists: Lists, looking: Looking) -> dict[str, Any]:
    """What the template is given."""
    rows = (await lists.of("shardset", looking.moment)).items()
    named = [Reference(row.kind, row.namespace, row.name) for row in rows]
    sets, sequence = [], looking.moment.seq
    for namespace in dict.fromkeys(one.namespace for one in named[:SETS]):
        state, made_of = await kept.of(
            f"shards/{namespace}",
            looking.moment,
            lambda space=namespace: _state(source, looking, space),  # type: ignore[misc]
        )
        sequence = min(sequence, made_of)
        for one in named:
            held = state.sets.get(f"{one.namespace}/{one.name}") if one.namespace == namespace else None
            if held is not None:
                sets.append(shown(one, held.document))
    owners = owners_of((await standing(source, looking.moment)).positions)
    return {"sets": sets, "sets_in_all": len(named), "owners": owners, "sequence": sequence}


async def _state(source: Source, looking: Looking, namespace: str) -> State:
    fold = await restored(
        source, Asked.about(source, BY_NAME["shard-manager"], namespace), looking.moment.seq
    )
    state: State = fold.state
    return state


def shown(about: Reference, document: Document) -> ShownSet:
    """A set as it stands in its assignment."""
    ids = sorted(document.members)
    shades = {member: n % SHADES for n, member in enumerate(ids)}
    members = []
    for member in ids:
        record, held = document.members[member], document.owned_by(member)
        members.append(
            Member(
                record.name, record.incarnation[:12], record.state.value, record.weight, len(held), runs(held),
                max((document.slots[slot].epoch for slot in held), default=0), shades[member],
            )
        )  # fmt: skip
    return ShownSet(
        about, len(document.slots), runs(document.unowned()), document.frozen, document.revision,
        tuple(members), moves_of(document), _strip(about, document, shades),
    )  # fmt: skip


def moves_of(document: Document) -> tuple[Move, ...]:
    """What is under way, slots that go the same way together."""
    together: dict[tuple[str, str, str], list[int]] = {}
    for slot in document.moving:
        record = document.slots[slot]
        together.setdefault((record.owner, record.incoming, record.state.value), []).append(slot)
    return tuple(
        Move(runs(slots), _name(document, owner), _name(document, incoming), state, min(document.slots[s].since for s in slots))
        for (owner, incoming, state), slots in sorted(together.items())
    )  # fmt: skip


def _name(document: Document, member: str) -> str:
    record = document.members.get(member)
    return record.name if record is not None else member.partition("#")[0]


def _strip(about: Reference, document: Document, shades: dict[str, int]) -> Markup:
    """Runs of slots with one owner, in their order."""
    found: list[Stretch] = []
    moving = set(document.moving)
    begun = 0
    for slot in range(1, len(document.slots) + 1):
        if slot < len(document.slots) and _same(document, moving, begun, slot):
            continue
        record = document.slots[begun]
        owner = _name(document, record.owner) or "nobody"
        which = f"slot {begun}" if slot - begun == 1 else f"slots {begun} to {slot - 1}"
        said = f"{which}: {owner}, epoch {record.epoch}"
        style = f"shade{shades.get(record.owner, 0)}"
        if record.state is SlotState.FREE:
            style, said = "free", f"{which}: owned by nobody"
        elif begun in moving:
            style, said = (
                f"{style} moving",
                f"{said}, goes to {_name(document, record.incoming) or 'nobody yet'}",
            )
        found.append(Stretch(begun, slot, style, said))
        begun = slot
    return strip(found, len(document.slots), f"Slots of {about.name} and their owners")


def _same(document: Document, moving: set[int], first: int, other: int) -> bool:
    one, two = document.slots[first], document.slots[other]
    return (one.owner, one.state, one.incoming, one.epoch) == (
        two.owner,
        two.state,
        two.incoming,
        two.epoch,
    ) and (first in moving) == (other in moving)


def owners_of(found: Sequence[Position]) -> list[Owner]:
    """Processes of our services by service, with the slots whose last checkpoint is theirs."""
    by_owner: dict[tuple[str, str], list[Position]] = {}
    for position in found:
        if position.checkpoint is not None:
            by_owner.setdefault((position.service, position.checkpoint.incarnation), []).append(position)
    owners = []
    for (service, incarnation), those in sorted(
        by_owner.items(), key=lambda o: (DECIDERS.index(o[0][0]), o[0][1])
    ):
        slots = sorted(int(p.slot) for p in those if p.slot.isdigit())
        epochs = sorted({p.checkpoint.epoch for p in those if p.checkpoint is not None})
        said = str(epochs[0]) if len(epochs) == 1 else f"{epochs[0]} to {epochs[-1]}"
        owners.append(Owner(service, incarnation[:12], len(those), runs(slots) if slots else "all", said))
    return owners
