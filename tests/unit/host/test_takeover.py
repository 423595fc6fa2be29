"""What a take-over costs, and what it must not wait for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

import msgspec
import pytest

from tests.unit.host.counting import COUNTING, State
from tests.unit.host.test_host import NAMESPACES, decisions, expect_holds, hosting, pod, until_recorded
from tests.waiting import until
from tidewright.host.fold.order import Fold
from tidewright.host.loop.arriving import Arrival
from tidewright.host.loop.commit import Committer, Restored
from tidewright.host.loop.host import Host
from tidewright.host.loop.membership import shares
from tidewright.host.loop.settings import Settings
from tidewright.host.process.health import Health
from tidewright.log import errors
from tidewright.log.connection import Log
from tidewright.log.envelope import Writer
from tidewright.log.snapshots import Snapshot, Snapshots
from tidewright.log.subjects import Slot


class Told:
    """Members as the test says."""

    def __init__(self, *members: str) -> None:
        self.changed, self.left = asyncio.Event(), asyncio.Event()
        self.members = frozenset(members)

    def tell(self, *members: str) -> None:
        self.members = frozenset(members)
        self.changed.set()

    async def join(self) -> None:
        """Everybody is known."""

    async def leave(self) -> None:
        self.left.set()


class Held(Snapshots):
    """Snapshots that are read and stored when the test lets them."""

    def __init__(self, log: Log) -> None:
        super().__init__(log)
        self.unread: frozenset[Slot] = frozenset()
        self.reading, self.storing, self.let = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def latest(self, service: str, slot: Slot, readable: Sequence[int]) -> Snapshot | None:
        if slot in self.unread:
            self.reading.set()
            await self.let.wait()
        return await super().latest(service, slot, readable)

    async def put(self, snapshot: Snapshot, data: bytes, *, keep: bool = False) -> bool:
        self.storing.set()
        await self.let.wait()
        return await super().put(snapshot, data, keep=keep)


def a_host(log: Log, member: str, membership: Told, settings: Settings, stored: Snapshots) -> Host[State]:
    return Host(
        COUNTING,
        log,
        membership,
        Health("counting"),
        writer=Writer("counting", member),
        settings=settings,
        stored=stored,
    )


@asynccontextmanager
async def until_killed(host: Host[State]) -> AsyncIterator[None]:
    """Running as long as the block; then gone without a farewell, but for what a dying task cannot help doing."""
    running = asyncio.create_task(host.run(asyncio.Event()))
    try:
        yield
    finally:
        running.cancel()
        await asyncio.wait([running])


async def test_slots_that_keep_changing_hands_are_snapshotted_all_the_same(log: Log) -> None:
    """Else each take-over reads further back than the one before: the log since the beginning, in the end."""
    distance = 500  # more than any of them reads while it has the slots
    settings = Settings(snapshot_distance=distance, snapshot_pause_s=0.0)
    slot, read = log.slot_of("shop"), 0
    for life in range(6):
        host = a_host(log, f"m{life}", Told(f"m{life}"), settings, Snapshots(log))
        async with until_killed(host):
            await until(partial(len, host.owned), lambda owned: owned == log.slots)
            claimed_at = host.owned[slot].read
            await log.commit([pod(log, n, life * 30 + i) for n in NAMESPACES for i in range(30)])
            await expect_holds(log, 10 * (life + 1))
            read = max(read, host.owned[slot].read - claimed_at)
    assert read < distance
    _, last = await log.bounds()
    assert last > 2 * distance
    snapshot = await Snapshots(log).latest("counting", slot, (1,))
    assert snapshot is not None
    host = a_host(log, "last", Told("last"), settings, Snapshots(log))
    async with until_killed(host):
        await until(lambda: len(host.owned) == log.slots)
        assert host.owned[slot].fold.state.pods == {"shop": 180} | {
            n: 180 for n in NAMESPACES if log.slot_of(n) == slot
        }


async def test_slots_of_a_second_lost_replica_do_not_wait_for_those_of_the_first(log: Log) -> None:
    stored, membership = Held(log), Told("me", "one", "other")
    host = a_host(log, "me", membership, Settings(), stored)
    mine = shares("me", {"me", "one", "other"}, host.inputs.every)
    stored.unread = shares("me", {"me", "other"}, host.inputs.every) - mine
    rest = frozenset(host.inputs.every) - stored.unread
    assert stored.unread
    assert rest - mine
    async with until_killed(host):
        await until(lambda: set(host.owned) == mine)
        membership.tell("me", "other")
        await stored.reading.wait()
        membership.tell("me")
        await until(lambda: set(host.owned) == rest)
        stored.let.set()
        await until(lambda: set(host.owned) == set(host.inputs.every))


async def test_decisions_go_on_while_a_snapshot_is_being_stored(log: Log) -> None:
    stored = Held(log)
    settings = Settings(snapshot_distance=10, snapshot_pause_s=0.0)
    host = a_host(log, "me", Told("me"), settings, stored)
    async with until_killed(host):
        await log.commit([pod(log, n, i) for n in NAMESPACES for i in range(30)])
        await stored.storing.wait()
        await log.commit([pod(log, n, i) for n in NAMESPACES for i in range(30, 60)])
        await expect_holds(log, 20)
        assert not stored.let.is_set()
        stored.let.set()
        # Stored late, and of the state that it was taken of all the same.
        snapshot = await until(
            lambda: Snapshots(log).latest("counting", log.slot_of("shop"), (1,)),
            lambda found: found is not None,
        )
    assert snapshot is not None
    pods = msgspec.json.decode(snapshot.state, type=State).pods
    assert 0 < pods["shop"] <= 60


async def test_a_store_that_does_not_answer_does_not_hold_up_the_handover(log: Log) -> None:
    stored, membership, stop = Held(log), Told("me"), asyncio.Event()
    host = a_host(log, "me", membership, Settings(), stored)  # none is due until it stops
    running = asyncio.create_task(host.run(stop))
    await log.commit([pod(log, n, i) for n in NAMESPACES for i in range(150)])
    await expect_holds(log, 50)
    assert not stored.storing.is_set()
    stop.set()
    async with asyncio.timeout(90):
        await membership.left.wait()
    assert stored.storing.is_set()
    assert not running.done()
    stored.let.set()
    await running
    assert await Snapshots(log).latest("counting", log.slot_of("shop"), (1,)) is not None


class Late(Snapshots):
    """The first question for one slot fails; the first answer about another comes only after that."""

    def __init__(self, log: Log, fails: Slot, late: Slot) -> None:
        super().__init__(log)
        self._fails, self._late = fails, late
        self._known: set[Slot] = set()
        self.answered = asyncio.Event()

    async def latest(self, service: str, slot: Slot, readable: Sequence[int]) -> Snapshot | None:
        if slot in self._known:
            return None
        self._known.add(slot)
        if slot == self._fails:
            raise errors.LogUnavailable("no answer")
        if slot == self._late:
            await asyncio.sleep(0.5)  # longer than until the next attempt
        snapshot = await super().latest(service, slot, readable)
        self.answered.set()
        return snapshot


async def test_an_answer_that_comes_late_does_not_undo_what_was_restored_since(log: Log) -> None:
    await log.commit([pod(log, n, i) for n in NAMESPACES for i in range(30)])
    async with hosting(log, snapshot_distance=10):
        await expect_holds(log, 10)
    await log.commit([pod(log, n, i) for n in NAMESPACES for i in range(30, 60)])
    async with until_killed(a_host(log, "killed", Told("killed"), Settings(), Snapshots(log))):
        await expect_holds(log, 20)  # a tail behind the snapshots
    shop, bank = log.slot_of("shop"), log.slot_of("bank")
    assert shop != bank
    host = a_host(log, "me", Told("me"), Settings(), Snapshots(log))
    stored = Late(log, fails=bank, late=shop)
    arrival = await Arrival(COUNTING, log, host.inputs, stored, [shop, bank]).advance()
    await stored.answered.wait()
    for _ in range(3):
        await log.bounds()  # as many answers as it would need to be made use of
    await arrival.close()
    assert arrival.restores[shop].fold.state.pods["shop"] == 60
    last = await log.last(log.subjects.checkpoint(shop, "counting"))
    assert last is not None
    assert arrival.last[shop][1] == last.seq


async def test_a_slot_is_read_on_from_where_its_restoring_has_read_to(log: Log) -> None:
    """Not from the last checkpoint of a slot where nothing has happened since: that may lie far back."""
    shop = log.slot_of("shop")
    first = a_host(log, "first", Told("first"), Settings(), Snapshots(log))
    async with until_killed(first):
        # A timer that fires before the three that follow would be undecided, too.
        later = time.time() + 3600.0
        said = await log.commit([pod(log, "shop", i, at=later) for i in range(30)])
        await until(lambda: len(first.owned) == log.slots and first.owned[shop].committed >= said.last_seq)
    undecided = await log.commit([pod(log, "shop", i, at=later) for i in range(30, 33)])
    second = a_host(log, "second", Told("second"), Settings(), Snapshots(log))
    arrival = await Arrival(COUNTING, log, second.inputs, Snapshots(log), second.inputs.every).advance()
    assert arrival.read_to(shop) == undecided.seq_of(0) - 1
    idle = next(s for s in second.inputs.every if s != shop)
    assert arrival.read_to(idle) >= undecided.seq_of(0) - 1
    assert arrival.last[idle][0].position == 0
    await arrival.close()
    async with until_killed(second):
        await until(lambda: decisions(log), lambda found: len(found) >= 22)
    ids = [d.id for d in await decisions(log)]
    assert len(ids) == len(set(ids)) == 22


async def test_of_several_claims_only_those_fail_whose_slot_has_moved_on(log: Log) -> None:
    shop, bank = log.slot_of("shop"), log.slot_of("bank")
    one, other = (Committer(log, Writer("counting", name), Health("counting")) for name in ("one", "other"))
    nothing: list[Restored[State]] = [(Fold(COUNTING, slot), None, 0) for slot in (shop, bank)]
    (of_bank,) = await one.claim(nothing[1:])
    (of_shop,) = await other.claim(nothing)
    assert (of_bank.slot, of_shop.slot) == (bank, shop)
    assert (of_bank.epoch, of_shop.epoch) == (1, 1)
    last = await log.last(log.subjects.checkpoint(shop, "counting"))
    assert last is not None
    assert last.seq == of_shop.checkpoint_seq
    again = [(o.fold, o.checkpoint, o.checkpoint_seq) for o in (of_bank, of_shop)]
    both = await one.claim(again)
    assert [(o.slot, o.epoch) for o in both] == [(bank, 2), (shop, 2)]
    assert await other.claim(again) == []


@pytest.mark.parametrize(("replicas", "commits"), [(1, 3), (3, 1)])
async def test_a_few_checkpoints_alone_are_one_batch_where_that_costs_little(
    log: Log, replicas: int, commits: int
) -> None:
    committer = Committer(log, Writer("counting", "one"), Health("counting"))
    nothing: list[Restored[State]] = [(Fold(COUNTING, Slot(str(n))), None, 0) for n in range(3)]
    owned = await committer.claim(nothing)
    for slot in owned:
        slot.dirty = 1
    log.replicas, before = replicas, committer.count
    assert await committer.commit(owned) == []
    assert committer.count - before == commits
    assert all(slot.dirty == 0 for slot in owned)


def _at_least(count: int, found: Sequence[object]) -> bool:
    return len(found) >= count


@pytest.mark.parametrize("partition", ["slots", "cluster"])
async def test_a_slot_goes_on_deciding_after_its_owner_is_gone(log: Log, partition: str) -> None:
    settings = Settings(partition="cluster" if partition == "cluster" else "slots")
    for life, member in enumerate(("a", "b")):
        host = a_host(log, member, Told(member), settings, Snapshots(log))
        async with until_killed(host):
            await log.commit([pod(log, "shop", 3 * life + i) for i in range(3)])
            await until_recorded(log, "shop")
            count = 2 * (life + 1)
            await until(partial(decisions, log), partial(_at_least, count))
    ids = [d.id for d in await decisions(log)]
    assert len(ids) == len(set(ids)) == 4
