"""What `tidewright install` makes, and that it is made once and by nobody else."""

from __future__ import annotations

import ast
import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.nats_server import EmbeddedServer
from tidewright.events import registry
from tidewright.events.acting import Acting
from tidewright.events.config import ModesSet
from tidewright.host.loop.membership import BucketMembership
from tidewright.log import errors, install
from tidewright.log.connection import Log, Message
from tidewright.log.install import Plan

ROOT = Path(__file__).parents[3]
PLAN = Plan(slots=4, cluster_id="u1", max_age_s=3600.0, deciders=("autoscaler",))


async def test_a_new_log_begins_with_its_mode_before_any_service_can_join(
    nats: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An endpoint that was up before the watcher had its webhook registered in a cluster that was to be left alone."""
    provide = install.provide
    modes: list[object] = []

    async def provided(log: Log, wanted: dict[str, Any]) -> str:
        record = await log.last(log.subjects.config("modes"))
        modes.append(None if record is None else registry.decode(record.body))
        return await provide(log, wanted)

    monkeypatch.setattr(install, "provide", provided)
    async with await Log.connect(nats.url, "careful", timeout_s=10.0) as log:
        plan = Plan(slots=4, mode="shadow", deciders=("autoscaler",))
        said = await install.install_log(log, plan)
        assert "modes: shadow, until the watcher says others" in said
        assert modes == [ModesSet(at=0.0, mode="shadow")] * 2
        acting = Acting()
        acting.heard(ModesSet(at=0.0, mode="shadow"))
        assert not acting.of_service("spread-admission").acts
        # Again, and on a log that others have written to, it says nothing.
        end = await log.bounds()
        assert not any("modes" in line for line in await install.install_log(log, plan))
        assert await log.bounds() == end
    async with await Log.connect(nats.url, "older", timeout_s=10.0) as log:
        await install.install_log(log, Plan(slots=4))
        await log.commit([Message(log.subjects.config("clock"), b"{}")])
        await install.install_log(log, plan)
        assert await log.last(log.subjects.config("modes")) is None


@pytest.mark.parametrize(("takes", "said"), [(1 << 20, True), (8 << 20, False)])
async def test_it_says_that_the_server_takes_small_messages_only(
    nats: EmbeddedServer, monkeypatch: pytest.MonkeyPatch, takes: int, said: bool
) -> None:
    """A server that is told nothing takes one MiB."""
    monkeypatch.setattr(Log, "max_message_bytes", takes)
    async with await Log.connect(nats.url, f"takes{takes}", timeout_s=10.0) as log:
        lines = await install.install_log(log, PLAN)
    assert any("max_payload to 8MB" in line for line in lines) is said


async def test_it_says_what_it_made_and_leaves_alone_what_is_as_it_should_be(nats: EmbeddedServer) -> None:
    async with await Log.connect(nats.url, "shop", timeout_s=10.0) as log:
        names = [
            "stream TW_shop",
            "bucket KV_TW_shop_members",
            "bucket OBJ_TW_shop_snapshots_autoscaler",
        ]
        assert await install.install_log(log, PLAN) == [f"{name}: made" for name in names]
        assert await install.install_log(log, PLAN) == [f"{name}: is as it should be" for name in names]
        assert await install.install_log(log, Plan(deciders=("autoscaler",))) == [
            f"{name}: is as it should be" for name in names
        ]  # what is not said stays as it was chosen
        said = await install.install_log(log, Plan(max_age_s=7200.0, deciders=("autoscaler", "spread")))
        assert said == [
            f"{names[0]}: changed",
            f"{names[1]}: is as it should be",
            f"{names[2]}: is as it should be",
            "bucket OBJ_TW_shop_snapshots_spread: made",
        ]
        assert (log.slots, log.max_age_s) == (4, 7200.0)


async def test_several_at_once_make_one_log(nats: EmbeddedServer) -> None:
    async with await Log.connect(nats.url, "shop", timeout_s=10.0) as log:
        await asyncio.gather(*(install.install_log(log, PLAN) for _ in range(4)))
        assert (await install.install_log(log, PLAN))[0] == "stream TW_shop: is as it should be"


async def test_another_clusters_log_and_other_slots_are_refused(nats: EmbeddedServer) -> None:
    async with await Log.connect(nats.url, "shop", timeout_s=10.0) as log:
        await install.install_log(log, PLAN)
        with pytest.raises(errors.OtherCluster, match="u1"):
            await install.install_log(log, Plan(cluster_id="u2"))
        with pytest.raises(errors.WrongStream, match="use --slots 4"):
            await install.install_log(log, Plan(slots=8))


async def test_a_bucket_of_members_in_memory_is_replaced_by_one_that_outlives_a_restart(
    nats: EmbeddedServer,
) -> None:
    async with await Log.connect(nats.url, "shop", timeout_s=10.0) as log:
        old = install.members(log) | {"storage": "memory"}
        await log.api(f"STREAM.CREATE.{old['name']}", old)
        said = await install.install_log(log, PLAN)
        assert said[1] == f"bucket {old['name']}: made anew, in another kind of store"
    await nats.stop()
    await nats.start()
    async with await Log.connect(nats.url, "shop", timeout_s=10.0) as log:
        assert await log.settings(old["name"]) is not None


async def test_who_finds_nothing_installed_says_what_to_run(nats: EmbeddedServer) -> None:
    async with await Log.connect(nats.url, "shop", timeout_s=10.0) as log:
        with pytest.raises(errors.WrongStream, match="run `tidewright install` first, with --cluster shop"):
            await log.adopt_slots()
        with pytest.raises(errors.WrongStream, match="run `tidewright install` first, with --cluster shop"):
            await BucketMembership(log, "autoscaler", "a").join()


async def test_a_service_writes_nothing_where_nothing_is_installed(nats: EmbeddedServer) -> None:
    async with await Log.connect(nats.url, "shop", timeout_s=1.0) as log:
        with pytest.raises(errors.LogUnavailable):
            await log.commit([Message(log.subjects.config("x"), b"{}")])
        assert await log.settings(log.stream) is None


def test_no_service_makes_or_changes_a_stream() -> None:
    """The server's permissions hold it; here it is seen before one asks for what it may not."""
    allowed = {"install.py", "connection.py", "exports.py", "restoring.py"}
    for folder in ("libs", "services"):
        for path in (ROOT / folder).rglob("*.py"):
            if path.name in allowed or path.parent.name == "contract":
                continue
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    for verb in ("CREATE", "UPDATE", "PURGE", "DELETE", "RESTORE"):
                        assert f"STREAM.{verb}" not in node.value, f"{path}: {node.value}"
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                    names = (
                        "create_object_store",
                        "create_key_value",
                        "add_stream",
                        "purge_stream",
                        "ensure",
                    )
                    assert node.func.attr not in names, f"{path}:{node.lineno}"
