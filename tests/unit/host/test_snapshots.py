"""Snapshots: a restart from one is the restart from the log, and one that cannot be trusted is ignored."""

from __future__ import annotations

import asyncio
import time
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import pytest
from structlog.testing import capture_logs

from tests.alone import Alone
from tests.nats_server import EmbeddedServer
from tests.unit.host.counting import COUNTING, State
from tests.unit.host.test_host import NAMESPACES, expect_holds, hosting, pod
from tests.waiting import until
from tidewright.host.fold.decider import Decider, StoredState
from tidewright.host.fold.inputs import Inputs
from tidewright.host.fold.order import Fold
from tidewright.host.fold.restore import Restore
from tidewright.host.loop import snapshotting
from tidewright.host.loop.host import Host
from tidewright.host.loop.settings import Settings
from tidewright.host.process.health import Health
from tidewright.log import errors, snapshots
from tidewright.log.checkpoint import Checkpoint
from tidewright.log.connection import Log, Message
from tidewright.log.envelope import Writer
from tidewright.log.install import Plan, install_log
from tidewright.log.lookups import Lookups
from tidewright.log.outage import Outage
from tidewright.log.snapshots import Snapshot, Snapshots
from tidewright.log.subjects import Slot
from tidewright.sim.nats_server import configuration


async def prepared(log: Log) -> Snapshot:
    """A log with work done and snapshots taken; returns the one of the slot of `shop`."""
    await log.commit([quiet_pod(log, n, i) for n in NAMESPACES for i in range(30)])
    async with hosting(log, snapshot_distance=10):
        await expect_holds(log, 10)
        # The first may be of some of them, and who stops has not the time to take another one where storing is slow.
        await until(lambda: _latest(log), lambda found: found is not None and _pods(found) == 30)
    found = await _latest(log)
    assert found is not None
    return found


def quiet_pod(log: Log, namespace: str, n: int) -> Message:
    """One whose timer does not fire while the test runs: the fold would have gone on by itself."""
    return pod(log, namespace, n, at=time.time() + 3600.0)


async def _latest(log: Log) -> Snapshot | None:
    return await Snapshots(log).latest("counting", log.slot_of("shop"), (1,))


def _pods(snapshot: Snapshot) -> int:
    return msgspec.json.decode(snapshot.state, type=State).pods["shop"]


async def test_a_restart_from_snapshots_is_the_restart_from_the_log(log: Log) -> None:
    snapshot = await prepared(log)
    resumed = Fold.resumed(COUNTING, snapshot)
    assert resumed.state.pods["shop"] == 30
    await log.commit([quiet_pod(log, n, i) for n in NAMESPACES for i in range(30, 36)])
    async with hosting(log) as host:
        await expect_holds(log, 12)
        after = {s: (o.fold.state, o.fold.digest, o.fold.chain, o.fold.folded) for s, o in host.owned.items()}
    for slot in after:
        await store_of(log).put(msgspec.structs.replace(snapshot, slot=slot, digest="00"), b"not a snapshot")
    async with hosting(log) as host:
        await until(lambda: len(host.owned) == log.slots)
        await until(lambda: all(o.fold.folded == after[s][3] for s, o in host.owned.items()))
        assert {
            s: (o.fold.state, o.fold.digest, o.fold.chain, o.fold.folded) for s, o in host.owned.items()
        } == after


async def test_a_checkpoint_older_than_the_snapshot_changes_nothing(log: Log) -> None:
    # A reader that starts at the snapshot's position meets the checkpoints that lie behind it again.
    fold = Fold.resumed(COUNTING, await prepared(log))
    before = (fold.position, fold.digest, fold.chain, fold.folded)
    older = Checkpoint(at=0.0, position=fold.position - 1, epoch=1, incarnation="a", commit=1)
    inputs = Inputs("counting", COUNTING.kinds, log.subjects, log.slots)
    assert Restore(fold, inputs).checkpoint(older)
    assert (fold.position, fold.digest, fold.chain, fold.folded) == before


def store_of(log: Log) -> Snapshots:
    return Snapshots(log)


@pytest.mark.parametrize(
    "change",
    [
        {"digest": "00"},
        {"chain": "00"},
        {"position": 1},
        {"state_version": 2},
        {"checkpoint_seq": 1},
        {"service": "other"},
    ],
)
async def test_a_snapshot_that_disagrees_is_ignored(log: Log, change: dict[str, object]) -> None:
    snapshot = await prepared(log)
    altered = msgspec.structs.replace(snapshot, **change)
    store = store_of(log)
    data = snapshots.encode(altered)
    await store.put(snapshot, data)  # under the name where the host looks
    assert await store.latest("counting", log.slot_of("shop"), (1,)) is None
    await store.put(snapshot, snapshots.encode(snapshot))
    assert await store.latest("counting", log.slot_of("shop"), (1,)) == snapshot


async def test_history_is_kept_for_replay_and_pruned_beyond_retention(log: Log) -> None:
    snapshot = await prepared(log)
    store, slot = store_of(log), log.slot_of("shop")
    older = msgspec.structs.replace(snapshot, position=snapshot.position - 1)
    for one in (older, snapshot):
        await store.put(one, snapshots.encode(one), keep=True)
    assert sorted(await store.history("counting", slot)) == [older.position, snapshot.position]
    found = await store.before("counting", slot, (1,), snapshot.position)
    assert found == snapshot
    oldest = await store.oldest("counting", slot, (1,), snapshot.position + 1)
    assert oldest == snapshot  # the older one lacks the event between it and the log's beginning
    await store.prune("counting", slot, snapshot.position + 1)
    assert await store.before("counting", slot, (1,), older.position) is None
    # Its name goes a second later.
    await until(lambda: store.history("counting", slot), lambda found: found == [snapshot.position])
    assert await store.before("counting", Slot("0"), (1,), 5) is None


async def test_some_snapshots_stay_so_that_a_state_of_long_ago_is_found(log: Log) -> None:
    slot, store = log.slot_of("shop"), store_of(log)
    for start in (0, 30, 60):
        await log.commit([pod(log, n, i) for n in NAMESPACES for i in range(start, start + 30)])
        async with hosting(log, snapshot_distance=10, history_distance=150):
            await expect_holds(log, (start + 30) // 3)
    kept = sorted(await store.history("counting", slot))
    assert kept
    assert len({position // 150 for position in kept}) == len(kept)
    _, last = await log.bounds()
    found = await store.before("counting", slot, (1,), last)
    assert found is not None
    assert found.position == kept[-1]


async def latest_after(log: Log, slot: Slot, position: int) -> Snapshot:
    """The slot's latest snapshot, once it lies behind a position."""
    found = await until(
        lambda: store_of(log).latest("counting", slot, (1,)),
        lambda found: found is not None and found.position > position,
    )
    assert found is not None
    return found


class Noting(Snapshots):
    """Notes the positions of what it has stored of one slot."""

    def __init__(self, log: Log, slot: Slot) -> None:
        super().__init__(log)
        self._slot = slot
        self.positions: list[int] = []

    async def put(self, snapshot: Snapshot, data: bytes, *, keep: bool = False) -> bool:
        stored = await super().put(snapshot, data, keep=keep)
        if stored and snapshot.slot == self._slot:
            self.positions.append(snapshot.position)
        return stored


async def test_with_retention_not_every_snapshot_stays_but_the_first_of_a_process_does(log: Log) -> None:
    slot = log.slot_of("shop")
    settings = Settings(snapshot_distance=50, snapshot_pause_s=0.0, renew_s=3600.0)
    stored = Noting(log, slot)
    host = Host(
        COUNTING, log, Alone("a"), Health("counting"), writer=Writer("counting", "a"), settings=settings, stored=stored
    )  # fmt: skip
    stop = asyncio.Event()
    running = asyncio.create_task(host.run(stop))
    try:
        await log.commit([pod(log, n, i) for n in NAMESPACES for i in range(30)])
        await until(lambda: stored.positions)
        await log.commit([pod(log, n, i) for n in NAMESPACES for i in range(30, 60)])
        await until(lambda: len(stored.positions) > 1)
    finally:
        stop.set()
        await running
    assert await store_of(log).history("counting", slot) == stored.positions[:1]


async def test_versions_that_run_side_by_side_do_not_overwrite_each_others_latest(log: Log) -> None:
    store, slot, older = store_of(log), log.slot_of("shop"), await prepared(log)
    newer = msgspec.structs.replace(older, state_version=2)
    for one in (newer, older):  # the one that is shut down last has the last word
        assert await store.put(one, snapshots.encode(one))
    assert await store.latest("counting", slot, (1,)) == older
    assert await store.latest("counting", slot, (2,)) == newer


async def test_a_snapshot_that_is_named_by_its_slot_alone_is_read(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = await prepared(log)
    slot = log.slot_of("shop")
    monkeypatch.setattr(snapshots, "_latest", lambda slot, version: slot)
    assert await store_of(log).put(snapshot, snapshots.encode(snapshot))
    monkeypatch.undo()
    await store_of(log)._drop("counting", f"{slot}.v1")
    assert await store_of(log).latest("counting", slot, (1,)) == snapshot


class Renamed(msgspec.Struct):
    """`State` two versions later: pods are counted under another name, and since a version before in all."""

    counted: dict[str, int] = {}
    total: int = 0
    holds: dict[str, int] = {}
    woken: int = 0


def with_total(stored: StoredState) -> StoredState:
    return {**stored, "total": sum(stored["pods"].values())}


def renamed(stored: StoredState) -> StoredState:
    stored["counted"] = stored.pop("pods")
    return stored


LATER = Decider(
    service="counting",
    state_version=3,
    state_type=Renamed,
    kinds=COUNTING.kinds,
    evolve=lambda state, event: None,
    decide=lambda state, event, touched: [],
    upcasts={1: with_total, 2: renamed},
)


def stored_by(version: int, state: object) -> Snapshot:
    fold = Fold(COUNTING, Slot("1"))
    snapshot = fold.snapshot(checkpoint_seq=1, position=0)
    return msgspec.structs.replace(
        snapshot, state_version=version, state=msgspec.Raw(msgspec.json.encode(state))
    )


def test_a_stored_state_of_an_earlier_version_is_brought_up_to_date_step_by_step() -> None:
    of_one = stored_by(1, {"pods": {"shop": 3, "bank": 4}, "holds": {"shop": 1}, "woken": 2})
    of_two = stored_by(2, {"pods": {"shop": 3, "bank": 4}, "total": 7, "holds": {"shop": 1}, "woken": 2})
    expected = Renamed({"shop": 3, "bank": 4}, 7, {"shop": 1}, 2)
    assert LATER.readable == (3, 2, 1)
    for snapshot in (of_one, of_two, stored_by(3, expected)):
        assert Fold.resumed(LATER, snapshot).state == expected


@pytest.mark.parametrize("version", [0, 1, 4])
def test_a_stored_state_from_which_no_upcasts_lead_here_is_refused(version: int) -> None:
    gap = replace(LATER, upcasts={0: with_total, 2: renamed})
    assert gap.readable == (3, 2)
    with pytest.raises(msgspec.ValidationError, match=rf"of version {version} cannot be read: .* reads 3, 2"):
        Fold.resumed(gap, stored_by(version, {"counted": {}}))


def test_what_an_upcast_makes_is_checked_as_a_stored_state_is() -> None:
    broken = replace(LATER, upcasts={1: lambda stored: {"total": "many"}, 2: lambda stored: stored})
    with pytest.raises(msgspec.ValidationError):
        Fold.resumed(broken, stored_by(1, {}))


async def test_a_snapshot_of_the_version_before_is_found_where_it_can_be_upcast(log: Log) -> None:
    snapshot = await prepared(log)
    store, slot = store_of(log), log.slot_of("shop")
    assert await store.latest("counting", slot, LATER.readable) == snapshot
    assert await store.latest("counting", slot, (3, 2)) is None
    async with hosting(log, decider=LATER) as host:
        await until(lambda: slot in host.owned)
        assert host.owned[slot].fold.state.counted["shop"] == 30  # nothing of it was folded by LATER


async def test_what_an_ignored_snapshot_knew_and_the_log_has_forgotten_is_said_to_be_lost(log: Log) -> None:
    await prepared(log)
    slot = log.slot_of("shop")
    with capture_logs() as lines:
        assert await store_of(log).latest("counting", slot, (2,)) is None
    assert [line["log_level"] for line in lines] == ["warning"]  # it is all on the log still
    await log.jetstream.purge_stream(log.stream, seq=3)
    with capture_logs() as lines:
        assert await store_of(log).latest("counting", slot, (2,)) is None
    (error,) = [line for line in lines if line["log_level"] == "error"]
    assert (error["slot"], error["first_seq"], error["state_version"]) == (slot, 3, 1)


class Refusing(Snapshots):
    """Stores nothing until it is told to."""

    refuses = True
    refused = 0

    async def put(self, snapshot: Snapshot, data: bytes, *, keep: bool = False) -> bool:
        if not self.refuses:
            return await super().put(snapshot, data, keep=keep)
        self.refused += 1
        return False


async def test_a_snapshot_that_could_not_be_stored_is_due_still_but_not_at_once(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored, stop = Refusing(log), asyncio.Event()
    settings = Settings(snapshot_distance=10, snapshot_pause_s=0.0)
    writer = Writer("counting", "a")
    host = Host(
        COUNTING, log, Alone("a"), Health("counting"), writer=writer, settings=settings, stored=stored
    )
    running = asyncio.create_task(host.run(stop))
    try:
        await log.commit([pod(log, "shop", i) for i in range(30)])
        slot = log.slot_of("shop")
        await until(lambda: stored.refused >= log.slots)
        await until(lambda: not host._snapshotter.busy)
        owned = host.owned[slot]
        assert owned.snapshotted == 0
        assert not host._snapshotter.due(owned)
        stored.refuses = False
        monkeypatch.setattr(snapshotting, "FAILED_S", 0.0)
        await latest_after(log, slot, 0)
        await until(lambda: owned.snapshotted > 0)
    finally:
        stop.set()
        await running


class Busy:
    """A log that does not answer the first questions for a message of another stream."""

    def __init__(self, log: Log, times: int) -> None:
        self._log, self.left = log, times

    def __getattr__(self, name: str) -> object:
        return getattr(self._log, name)

    @property
    def lookups(self) -> Lookups:
        return Lookups(self)  # type: ignore[arg-type]  # what is used of Log

    async def asked(self, verb: str, query: Mapping[str, Any], stream: str = "") -> dict[str, Any] | None:
        if stream:
            self.left -= 1
            if self.left >= 0:
                raise errors.LogUnavailable("no answer in time")
        return await self._log.asked(verb, query, stream)


async def test_a_bucket_that_looks_for_a_leader_is_asked_again_until_it_has_one(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left alone is a bucket that never answers: without a snapshot the whole log is folded."""
    monkeypatch.setattr(snapshots, "ASK_AGAIN_S", 0.0)
    snapshot = await prepared(log)
    for election_s, expected in ((60.0, snapshot), (0.0, None)):
        monkeypatch.setattr(snapshots, "ELECTION_S", election_s)
        store = Snapshots(Busy(log, 20))  # type: ignore[arg-type]  # what is used of Log
        assert await store.latest("counting", log.slot_of("shop"), (1,)) == expected


async def test_a_bucket_is_waited_for_where_the_log_has_forgotten_its_beginning(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left of the log folds to another state, by which everything would be decided from then on."""
    monkeypatch.setattr(snapshots, "ASK_AGAIN_S", 0.0)
    monkeypatch.setattr(snapshots, "ELECTION_S", 0.0)
    snapshot = await prepared(log)
    await log.jetstream.purge_stream(log.stream, seq=3)
    store = Snapshots(Busy(log, 2))  # type: ignore[arg-type]  # what is used of Log
    for _ in range(2):
        with pytest.raises(errors.LogUnavailable, match="the log begins at 3"):
            await store.latest("counting", log.slot_of("shop"), (1,))
    assert await store.latest("counting", log.slot_of("shop"), (1,)) == snapshot


async def test_what_a_bucket_has_is_read_though_nothing_could_be_stored_in_it(log: Log) -> None:
    snapshot = await prepared(log)
    busy = Busy(log, 1)
    store = Snapshots(busy)  # type: ignore[arg-type]  # what is used of Log
    assert not await store.put(snapshot, b"")
    assert busy.left == 0
    assert await store.latest("counting", log.slot_of("shop"), (1,)) == snapshot


class Away:
    """A log that answers nothing."""

    def __init__(self, log: Log) -> None:
        self._log, self.outage = log, Outage()
        self.append = self.asked = self.bounds = self.unanswered

    def __getattr__(self, name: str) -> object:
        return getattr(self._log, name)

    @property
    def lookups(self) -> Lookups:
        return Lookups(self)  # type: ignore[arg-type]  # what is used of Log

    async def unanswered(self, *_: object) -> NoReturn:
        raise errors.LogUnavailable("no answer in time")


async def test_that_the_log_does_not_answer_is_not_said_of_each_snapshot(log: Log) -> None:
    snapshot = await prepared(log)
    store = Snapshots(Away(log))  # type: ignore[arg-type]  # what is used of Log
    with capture_logs() as lines:
        for _ in range(3):
            assert not await store.put(snapshot, b"")
    assert [line["event"] for line in lines] == ["the log does not answer, going on when it does"]


async def test_what_has_no_name_of_ours_in_a_bucket_keeps_nothing_from_being_found(log: Log) -> None:
    snapshot = await prepared(log)
    bucket = snapshots.bucket(log.stream, "counting")
    no_number = urlsafe_b64encode(f"{snapshot.slot}/²".encode()).decode()
    for name in ("a", "é", "__8=", no_number):  # no base64, no ASCII, no UTF-8
        await log.client.jetstream().publish(f"$O.{bucket}.M.{name}", b"{}")
    store = Snapshots(log)
    assert await store.latest("counting", Slot(snapshot.slot), (2, 1)) == snapshot
    assert await store.furthest("counting") == 0


def test_bytes_that_are_no_snapshot_are_refused() -> None:
    with pytest.raises(ValueError, match="not a snapshot"):
        snapshots.decode(b"zzz")


DECIDER = """
authorization { users = [{ user: decider, password: decider, permissions: {
  publish: { allow: ["tw.>", "$JS.API.STREAM.INFO.TW_test", "$JS.API.STREAM.MSG.GET.TW_test",
    "$JS.API.CONSUMER.>", %s] }
  subscribe: { allow: ["_INBOX.>"] } } },
  { user: all, password: all }] }
"""


@pytest.mark.parametrize(
    "allowed",
    ['"none"', '"$JS.API.STREAM.INFO.*"'],
    ids=["nothing", "looking"],
)
async def test_a_bucket_that_may_not_be_used_is_asked_for_once_and_the_log_is_folded(
    tmp_path: Path, allowed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = configuration
    monkeypatch.setattr("tests.nats_server.configuration", lambda *a, **k: plain(*a, **k) + DECIDER % allowed)
    nats = EmbeddedServer(tmp_path)
    url = await nats.start()
    try:
        async with await Log.connect(url.replace("//", "//all:all@"), "test", timeout_s=10.0) as log:
            await install_log(log, Plan(slots=8, deciders=("counting", "reminding")))
            await prepared(log)
        async with await Log.connect(url.replace("//", "//decider:decider@"), "test", timeout_s=3.0) as log:
            await log.adopt_slots()
            with capture_logs() as lines:
                async with hosting(log) as host:
                    await until(lambda: sum(o.fold.folded for o in host.owned.values()) >= 120)
    finally:
        await nats.stop()
    away = [line for line in lines if "cannot be used" in line["event"]]
    assert len(away) == 1, lines
    assert "snapshots_counting" in away[0]["bucket"]


async def test_what_the_credentials_may_not_write_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = configuration
    monkeypatch.setattr(
        "tests.nats_server.configuration", lambda *a, **k: plain(*a, **k) + DECIDER % '"$JS.API.>"'
    )
    nats = EmbeddedServer(tmp_path)
    url = await nats.start()
    try:
        async with await Log.connect(url.replace("//", "//decider:decider@"), "test", timeout_s=3.0) as log:
            await install_log(log, Plan(slots=8, deciders=("counting", "reminding")))
            allowed, denied = Message(log.subjects.config("x"), b""), Message("other.config", b"")
            for messages in ([denied], [allowed, denied, allowed]):
                with pytest.raises(errors.LogForbidden, match=r"publish on other\.config"):
                    await log.commit(messages)
            await log.commit([allowed, allowed])
    finally:
        await nats.stop()


async def test_who_asks_for_the_log_of_a_cluster_that_is_not_theirs_is_told_how_to_name_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = configuration
    monkeypatch.setattr(
        "tests.nats_server.configuration",
        lambda *a, **k: plain(*a, **k) + DECIDER % '"$JS.API.STREAM.*.TW_prod"',
    )
    nats = EmbeddedServer(tmp_path)
    url = await nats.start()
    try:
        async with await Log.connect(url.replace("//", "//decider:decider@"), "local", timeout_s=3.0) as log:
            with pytest.raises(errors.LogForbidden, match=r"TW_local: .* or name another cluster with --cl"):
                await log.adopt_slots()
    finally:
        await nats.stop()
