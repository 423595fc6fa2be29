"""Watchers that start: on a log whose beginning was removed one says nothing, stays, and says why; and of two at once both stay."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.unit.watcher.cluster import Cluster
from tests.unit.watcher.test_service import cluster
from tests.waiting import until
from tidewright.events import registry
from tidewright.events.config import ClockSet, ModesSet
from tidewright.host.process.health import Health
from tidewright.host.process.process import Process, ProcessOptions
from tidewright.log.connection import Log, Message
from tidewright.watcher import service
from tidewright.watcher.configuration import set_clock
from tidewright.watcher.modes import OperatorModes
from tidewright.watcher.service import Options

__all__ = ["cluster"]


async def test_a_log_that_lost_its_beginning_is_not_begun_anew(
    cluster: Cluster, log: Log, tmp_path: Path
) -> None:
    for n in range(3):
        await log.commit([Message(f"{log.subjects.root}.checkpoint.{n}.spread", b"{}")])
    await log.api(f"STREAM.PURGE.{log.stream}", {"seq": 3})
    process = Process(ProcessOptions("watcher"), Health("watcher"))
    options = Options(nats_url=log.url, cluster="test", kubeconfig=cluster.kubeconfig(tmp_path))
    task = asyncio.create_task(service.run(options, process))
    try:
        await until(
            lambda: (
                "begins at sequence 3, and the watcher at its start stands at 0" in process.health.not_ready
            )
        )
        await asyncio.sleep(0.5)
        assert await log.bounds() == (3, 3)
        assert not task.done()
    finally:
        process.stop.set()
        await task


async def test_two_that_start_at_once_both_stay(
    cluster: Cluster, log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has the part of the first words taken away before they are said, says them anew, or finds them said."""
    both, met = asyncio.Barrier(2), False

    async def when_both_have_the_part(*what: Any, **how: Any) -> None:
        nonlocal met
        if not met:
            await both.wait()
            met = True
        await set_clock(*what, **how)

    monkeypatch.setattr(service, "set_clock", when_both_have_the_part)
    modes = OperatorModes(mode="shadow")
    options = Options(
        nats_url=log.url, cluster="test", kubeconfig=cluster.kubeconfig(tmp_path), speed=2.0, modes=modes
    )
    processes = [Process(ProcessOptions("watcher"), Health("watcher")) for _ in range(2)]
    tasks = [asyncio.create_task(service.run(options, process)) for process in processes]
    try:
        await until(lambda: any(not process.health.not_ready for process in processes))
        assert not any(task.done() for task in tasks)
        said = [record async for record in log.last_per_subject([log.subjects.configs])]
        assert {type(registry.decode(record.body)) for record in said} >= {ClockSet, ModesSet}
    finally:
        for process in processes:
            process.stop.set()
        await asyncio.gather(*tasks)
