"""A watcher that starts on a log whose beginning was removed says nothing on it, stays, and says why."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.unit.watcher.cluster import Cluster
from tests.unit.watcher.test_service import cluster
from tests.waiting import until
from tidewright.host.process.health import Health
from tidewright.host.process.process import Process, ProcessOptions
from tidewright.log.connection import Log, Message
from tidewright.watcher import service
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
