"""A decider among attackers: with the run of the bus but without its key, nobody makes it decide or stop."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.nats_server import EmbeddedServer
from tests.unit.host.test_host import NAMESPACES, decisions, expect_holds, hosting, pod
from tests.unit.host.test_verify import verified
from tests.unit.log import authenticated
from tests.unit.log.authenticated import Authority
from tidewright.events import registry
from tidewright.events.autoscaler import HoldReplicas
from tidewright.events.base import ObjectRef
from tidewright.log import checkpoint as checkpoints
from tidewright.log.belief import Cause
from tidewright.log.connection import Log, Message
from tidewright.log.install import Plan, install_log
from tidewright.log.snapshots import Snapshots, encode

WRITES = {
    "watcher": authenticated.WRITES["watcher"],
    "counting": ("decision.*.counting.>", "schedule.*.counting.>", "checkpoint.*.counting"),
}


async def forge(log: Log, n: int) -> None:
    """All that would matter: facts, a decision, an unreadable checkpoint and one that says all is done."""
    await log.commit([pod(log, namespace, 1000 + n, at=2e9) for namespace in NAMESPACES])
    slot = log.slot_of("shop")
    names = log.subjects
    decision = HoldReplicas(
        at=1.0, id=f"counting.{slot}.{n}.0", reason="forged", replicas=1,
        target=ObjectRef(api_version="v1", kind="Deployment", namespace="shop", name="web"),
    )  # fmt: skip
    subject = names.decision(slot, "counting", "deployment", "shop", "web")
    done = checkpoints.Checkpoint(at=1.0, position=10**9, epoch=9, incarnation="x", commit=1)
    for body in (b"garbage", checkpoints.encode(done)):
        await log.commit([Message(names.checkpoint(slot, "counting"), body)])
    await log.commit([Message(subject, registry.encode(decision), {"Tw-Writer": "counting"})])
    await log.commit(
        [Message(names.config("clock"), b'{"type":"config.clock-set.v1","at":1,"wall":0,"log":9e9}')]
    )


async def test_what_is_forged_is_nothing_to_a_host_neither_while_it_runs_nor_when_it_starts(
    log: Log, nats: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authenticated, "WRITES", WRITES)
    authority = Authority(tmp_path)
    await authority.install(log)
    async with await authority.connect(nats.url, "watcher") as watcher:
        for start in (0, 10, 20):
            count = (start + 10) // 3
            await forge(log, start)
            async with await authority.connect(nats.url, "counting") as own, hosting(own) as host:
                await watcher.commit(_ended(watcher, start))
                await expect_holds(own, count)
                await forge(log, start + 1)
                await watcher.commit(_ended(watcher, start + 100, ()))
                assert all(not owned.halted for owned in host.owned.values())
                assert own.doubts.counts[Cause.UNSIGNED] > 0
        async with await authority.connect(nats.url) as reader:
            found = await decisions(reader)
            assert not [d for d in found if isinstance(d, HoldReplicas) and d.reason == "forged"]
            assert len(found) == len({d.id for d in found}) == 80
            # Every checkpoint's digest is what a fold of what is believed gives.
            async with reader.reader([reader.subjects.everything]) as everything:
                records = [r async for r in everything.until_current()]
    assert verified(log, records).count == 0


def _ended(log: Log, start: int, namespaces: tuple[str, ...] = NAMESPACES) -> list[Message]:
    """Facts, ended by the watcher's checkpoint."""
    facts = [pod(log, n, i) for n in namespaces for i in range(start, start + 10)]
    return [*facts, Message(f"{log.subjects.root}.checkpoint.all.watcher.pod", b"{}")]


async def test_a_state_that_its_service_did_not_sign_is_not_gone_on_from(
    log: Log, nats: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Free content in the bucket of snapshots, with the very digest of the checkpoint."""
    monkeypatch.setattr(authenticated, "WRITES", WRITES)
    authority = Authority(tmp_path)
    await install_log(log, Plan(slots=8, deciders=("counting",)))
    await authority.install(log)
    async with await authority.connect(nats.url, "watcher") as watcher:
        await watcher.commit(_ended(watcher, 0))
    slot = log.slot_of("shop")
    async with await authority.connect(nats.url, "counting") as own:
        async with hosting(own, snapshot_distance=1):
            await expect_holds(own, 3)
        store = Snapshots(own)
        good = await store.latest("counting", slot, (1,))
        assert good is not None
        evil = msgspec.structs.replace(good, state=msgspec.Raw(b"{}"))
        for attacker in (log, await authority.connect(nats.url, "watcher", believing=False)):
            assert await Snapshots(attacker).put(evil, encode(evil))
            assert (
                await Snapshots(log).latest("counting", slot, (1,)) == evil
            )  # without an anchor it would be
            assert await store.latest("counting", slot, (1,)) is None
        assert await Snapshots(own).put(good, encode(good))
        assert await store.latest("counting", slot, (1,)) == good
