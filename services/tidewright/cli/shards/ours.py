"""The slots of our own services: who has them, from the membership bucket and the checkpoints.

Who gets which slot is the host's own business (rendezvous hashing over the live replicas), so slots
can be looked at here and not be moved. How many replicas a load needs is worked out by the same
rule that sizes ShardSets.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from fractions import Fraction

from tidewright.asking.answers.form import stamp
from tidewright.asking.errors import BadInput
from tidewright.asking.options import LogOptions
from tidewright.asking.services import BY_NAME, SERVICES, Role, Service
from tidewright.cli.shards.answers import OwnService, OwnSlot
from tidewright.cli.shards.showing import columns
from tidewright.host.loop.membership import rendezvous
from tidewright.log import checkpoint as checkpoints
from tidewright.log.checkpoint import Checkpoint
from tidewright.log.connection import Log
from tidewright.log.errors import Unsound
from tidewright.log.reader import Reader
from tidewright.log.subjects import ALL, Slot
from tidewright.sharding.keyspace import runs
from tidewright.shardmanager.own_services import CAPACITY, TARGET
from tidewright.shardmanager.shardset.assignment.autosize import Demand, Limits, recommend

PREFIX = "service/"
LOOK_S = 2.0
REFUSAL = (
    "the slots of our own services are given out by rendezvous hashing over the live replicas, by the host: "
    "they cannot be moved or pinned, and follow the number of replicas alone"
)


def is_ours(name: str | None) -> bool:
    """Whether a name means one of our own services."""
    return name is not None and name.startswith(PREFIX)


def service(name: str) -> Service:
    """The decider of `service/NAME`. Raises BadInput."""
    known = [s.name for s in SERVICES if s.role is Role.DECIDER]
    decider = BY_NAME.get(name.removeprefix(PREFIX))
    if decider is None or decider.role is not Role.DECIDER:
        raise BadInput(f"{name}: services that own slots are {', '.join(PREFIX + k for k in known)}")
    return decider


@dataclass(frozen=True)
class Standing:
    """One service as the log has it.

    Attributes:
        members: incarnations of the live replicas.
        owners: replica that each slot belongs to, None without any.
        checkpoints: where the service stands, by slot; those that were never claimed are missing.
        troubles: why a checkpoint cannot be gone on from, by slot; such a one is missing, too.
    """

    service: Service
    slots: tuple[Slot, ...]
    members: frozenset[str]
    owners: dict[Slot, str | None]
    checkpoints: dict[Slot, Checkpoint]
    troubles: dict[Slot, str]

    @property
    def settled(self) -> bool:
        """Whether every slot is claimed by whom it belongs to."""
        return all(
            (checkpoint := self.checkpoints.get(slot)) is not None
            and checkpoint.incarnation == self.owners[slot]
            for slot in self.slots
        )


async def standing(log: Log, which: Service) -> Standing:
    """Read the membership and the checkpoints of one service."""
    own = which.name
    stream, root = f"KV_{log.stream}_members", f"$KV.{log.stream}_members.{own}."
    heard: set[str] = set()
    async with Reader(log, (f"{root}>",), 0, last_only=True, stream=stream) as reader:
        while True:
            records = await reader.fetch(timeout_s=0.5)
            for record in records:
                name = record.subject.removeprefix(root)
                if record.body:
                    heard.add(name)
                else:
                    heard.discard(name)
            if not records or not reader.pending:
                break
    slots: tuple[Slot, ...] = (
        (ALL,) if which.partition == "cluster" else tuple(Slot(str(n)) for n in range(log.slots))
    )
    latest: dict[Slot, Checkpoint] = {}
    troubles: dict[Slot, str] = {}
    for slot in slots:
        last = await log.last(log.subjects.checkpoint(slot, own))
        if last is not None:
            try:
                latest[slot] = checkpoints.usable(last)
            except Unsound as error:
                troubles[slot] = str(error)
    members = frozenset(heard)
    owners = {slot: rendezvous(slot, members) for slot in slots}
    return Standing(which, slots, members, owners, latest, troubles)


@asynccontextmanager
async def opened(options: LogOptions | None) -> AsyncIterator[Log]:
    """A connection to the log, with its number of slots."""
    from tidewright.asking.opening import reached

    async with (
        reached(options) as on,
        await Log.connect(on.nats, on.cluster, credentials=on.identity(), name="cli", timeout_s=5.0) as log,
    ):
        await log.adopt_slots()
        yield log


def details(current: Standing) -> str:
    """One service for people."""
    rows = []
    for member in sorted(current.members):
        mine = [s for s in current.slots if current.owners[s] == member]
        claimed = [
            s for s in mine if (c := current.checkpoints.get(s)) is not None and c.incarnation == member
        ]
        rows.append((member, len(mine), len(claimed), _texts(mine)))
    unclaimed = [s for s in current.slots if current.owners[s] is None]
    lines = [
        f"service/{current.service.name}: {len(current.slots)} slots, {len(current.members)} replicas"
        + (", every slot is claimed by whom it belongs to" if current.settled else ", not settled"),
        columns(("REPLICA", "DUE", "CLAIMED", "SLOTS"), rows),
    ]
    if unclaimed:
        lines.append(f"without owner: {_texts(unclaimed)}: no replica is alive")
    lines += [f"slot {slot}: {trouble}" for slot, trouble in current.troubles.items()]
    return "\n".join(lines)


def told(current: Standing) -> OwnService:
    """One service for programs."""
    return OwnService(
        service=current.service.name,
        replicas=tuple(sorted(current.members)),
        settled=current.settled,
        slots=tuple(_told(current, slot) for slot in current.slots),
    )


def _told(current: Standing, slot: Slot) -> OwnSlot:
    owner, trouble = current.owners[slot], current.troubles.get(slot, "")
    checkpoint = current.checkpoints.get(slot)
    if checkpoint is None:
        return OwnSlot(
            slot=str(slot), owner=owner, epoch=0, incarnation=None, sequence=0, at=None, trouble=trouble
        )
    return OwnSlot(
        slot=str(slot),
        owner=owner,
        epoch=checkpoint.epoch,
        incarnation=checkpoint.incarnation,
        sequence=checkpoint.position,
        at=stamp(checkpoint.at),
    )


@dataclass(frozen=True)
class Sizing:
    """How many replicas a service's load needs, by the rule for ShardSets (section 3.8)."""

    facts_per_s: float
    current: int
    recommended: int

    def __str__(self) -> str:
        return (
            f"load {self.facts_per_s:,.0f} facts/s; one replica is to carry {CAPACITY * TARGET:,.0f} "
            f"({CAPACITY:,.0f} at {TARGET:.0%}): {self.recommended} replicas, now {self.current}"
        )


async def sizing(log: Log, which: Service) -> Sizing:
    """Watch the checkpoints for a moment and size the service by what it folded."""
    clock = asyncio.get_running_loop().time
    start, before = clock(), await standing(log, which)
    await asyncio.sleep(LOOK_S)
    after, elapsed = await standing(log, which), clock() - start
    loads: Counter[str] = Counter()
    for slot, last in after.checkpoints.items():
        first = before.checkpoints.get(slot)
        loads[after.owners[slot] or ""] += max(0, last.folded - (first.folded if first else 0))
    rates = [Fraction(count) / Fraction(str(round(elapsed, 3))) for count in loads.values()]
    current = max(1, len(after.members))
    most = 1 if which.partition == "cluster" else len(after.slots)
    demand = Demand(loads=tuple(rates), capacity=Fraction(int(CAPACITY)), utilisation=Fraction(str(TARGET)))
    return Sizing(float(sum(rates)), current, recommend(current, demand, Limits(minimum=1, maximum=most)))


def _texts(slots: list[Slot]) -> str:
    numbers = [int(s) for s in slots if str(s).isdecimal()]
    return runs(numbers) if len(numbers) == len(slots) else ",".join(map(str, slots))
