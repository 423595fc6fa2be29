"""Custom workloads of a watcher that steps back and takes over again."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.watcher.silent_log import SilentLog
from tests.unit.watcher.test_scales import ARENA, FACT, PLACE
from tests.waiting import until
from tidewright.events.spread import WorkloadSpreadObserved
from tidewright.kube.customworkloads import GroupKind, Whitelist, WhitelistEntry
from tidewright.watcher.custom_workloads import CustomWorkloads


async def test_what_was_seen_before_another_process_had_the_part_is_not_said_of_a_new_spread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The object went meanwhile, and the other one said so: nobody here will ever hear of it."""
    nothing, stamp = cast("Any", SilentLog()), cast("Any", SimpleNamespace(raise_to=lambda at: None))
    custom = CustomWorkloads(cast("Any", None), cast("Any", None), nothing, nothing, stamp, config_map="n/c")
    await custom._scales.observe(ARENA, "subject", PLACE, FACT)
    arranged = asyncio.Event()

    async def arrange(tasks: asyncio.TaskGroup) -> None:
        custom._scales.follow(frozenset((ARENA,)))
        arranged.set()

    async def idle() -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(custom, "_arrange", arrange)
    monkeypatch.setattr(custom._sayings, "run", idle)
    monkeypatch.setattr(custom, "_follow_whitelist", idle)
    monkeypatch.setattr("tidewright.watcher.scales.Scales.run", lambda self: idle())
    owning = asyncio.create_task(custom._own())
    async with asyncio.timeout(90):
        await arranged.wait()
    owning.cancel()
    await asyncio.gather(owning, return_exceptions=True)
    assert custom._scales._waiting == {}


async def test_of_a_kind_that_is_watched_no_more_nothing_is_said_to_a_new_spread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nothing, (namespace, kind, name) = cast("Any", SilentLog()), ARENA
    custom = CustomWorkloads(
        cast("Any", None), cast("Any", None), nothing, nothing, nothing, config_map="n/c"
    )
    following, ended = asyncio.Event(), asyncio.Event()

    async def follow(followed: GroupKind) -> None:
        assert followed == kind
        await custom._scales.observe(ARENA, "subject", PLACE, FACT)
        following.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    monkeypatch.setattr(custom, "_follow_kind", follow)
    custom._whitelisted.whitelist = Whitelist((WhitelistEntry(kind.group, "v1", kind.kind),))

    async def arrange() -> None:
        async with asyncio.TaskGroup() as tasks:
            await custom._arrange(tasks)

    arranging = asyncio.create_task(arrange())
    async with asyncio.timeout(90):
        await following.wait()
        custom._whitelisted.whitelist = Whitelist()
        custom._whitelisted.changed.set()
        await ended.wait()
    target = {"apiVersion": f"{kind.group}/v1", "kind": kind.kind, "name": name}
    custom.observe(
        WorkloadSpreadObserved(at=1.0, namespace=namespace, name="s", uid="s", spec={"targetRef": target})
    )
    await until(lambda: custom._scales._targets, every_s=0.0)
    arranging.cancel()
    await asyncio.gather(arranging, return_exceptions=True)
    assert custom._scales._waiting == {}
