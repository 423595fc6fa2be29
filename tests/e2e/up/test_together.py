"""Services of one kind in one process: each is what it is alone, and they live and end together."""

from __future__ import annotations

import functools
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
import msgspec
import pytest

from tests.e2e.up.processes import Run, started
from tests.nats_server import EmbeddedServer
from tests.unit.watcher.cluster import Cluster
from tests.waiting import until
from tidewright.log.connection import Log

KINDS = (
    ("watcher", "actuator"),
    ("autoscaler", "provisioning", "spread", "shard-manager"),
    ("spread-admission", "shard-labels"),
)


async def answer(port: int, path: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as got:
        return got.status, await got.text()


async def port_of(run: Run) -> int:
    await run.until("health_port")
    line = next(line for line in run.said.splitlines() if "health_port" in line)
    return int(msgspec.json.decode(line)["health_port"])


@pytest.mark.slow
async def test_three_processes_are_the_whole_of_it(nats: EmbeddedServer, log: Log, tmp_path: Path) -> None:
    async with Cluster().serving() as cluster, AsyncExitStack() as stack:
        kubeconfig = ("--kubeconfig", str(cluster.kubeconfig(tmp_path)))
        runs = {}
        for services in KINDS:
            more = kubeconfig if "watcher" in services else ()
            where = ("--nats", nats.url, "--cluster", "test", "--log-format", "json")
            runs[services] = await stack.enter_async_context(started("run", *services, *where, *more))
        for services, run in runs.items():
            port = await port_of(run)
            if "spread-admission" not in services:  # nobody registers them here
                _, said = await until(functools.partial(answer, port, "/readyz"), lambda got: got[0] == 200)
                told = [line.partition(": ")[::2] for line in said.splitlines()]
                assert [name for name, how in told if how.startswith("ok")] == list(services)
            for service in services:
                status, series = await answer(port, f"/metrics/{service}")
                assert status == 200
                assert f'tidewright_build_info{{service="{service}",' in series
            assert await answer(port, "/livez") == (200, "ok\n")
            status, said = await answer(port, "/metrics")
            assert (status, f"/metrics/{services[0]}" in said) == (404, True)
        for run in runs.values():
            assert await run.end() == 0, run.said


@pytest.mark.slow
async def test_one_that_cannot_go_on_ends_all(nats: EmbeddedServer, log: Log, tmp_path: Path) -> None:
    bad = tmp_path / "bad.key"
    bad.write_text("no key")
    flags = (
        "--nats",
        nats.url,
        "--cluster",
        "test",
        "--log-format",
        "json",
        "--spread:signing-key",
        str(bad),
    )
    async with started("run", "autoscaler", "spread", *flags) as run:
        code = await run.process.wait()
        await run.read()
    assert code == 2, run.said
    lines = [msgspec.json.decode(line) for line in run.said.splitlines()]
    assert [line["service"] for line in lines if line["event"] == "cannot go on"] == ["spread"]
