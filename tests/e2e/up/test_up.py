"""`tidewright up` as its user sees it: one command, and an end that leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
from aiohttp import ClientSession, CookieJar

from tests.e2e.conftest import Cluster, tidewright
from tests.nats_server import EmbeddedServer
from tests.ports import free_port
from tests.waiting import text_of, until
from tidewright.kube.client import Kube

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
WITHIN_S = 100.0
"""For a dozen processes that start at once on a machine that does much else."""


class Up:
    """One `tidewright up`: what it printed, and its children."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.out: list[str] = []
        self.lines: list[dict[str, Any]] = []
        self.words: list[str] = []
        self._reading = [asyncio.create_task(self._stdout()), asyncio.create_task(self._stderr())]

    @classmethod
    async def start(cls, data: Path, *arguments: str) -> Up:
        env = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *tidewright("up", "--data", str(data), *arguments),
            stdout=pipe, stderr=pipe, env=env, process_group=0,
        )  # fmt: skip
        return cls(process)

    async def _stdout(self) -> None:
        assert self.process.stdout is not None
        async for raw in self.process.stdout:
            self.out.append(raw.decode().rstrip())

    async def _stderr(self) -> None:
        assert self.process.stderr is not None
        async for raw in self.process.stderr:
            line = raw.decode().rstrip()
            try:
                self.lines.append(msgspec.json.decode(line))
            except msgspec.DecodeError:
                self.words.append(line)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until what it printed is as wanted; fails when it ends before."""

        def printed() -> str:
            return f"out {self.out}, words {self.words}, lines {self.lines[-20:]}"

        await until(
            printed,
            lambda _: holds() or all(reading.done() for reading in self._reading),
            what=text_of(holds),
            within_s=WITHIN_S,
        )
        assert holds(), f"it ended: {printed()}"

    async def ready(self) -> None:
        await self.until(lambda: any(line.startswith("Ctrl-C ends it") for line in self.out))

    def said(self, pattern: str) -> str:
        """The first group of a pattern in what it printed."""
        match = re.search(pattern, "\n".join(self.out))
        assert match is not None, self.out
        return match[1]

    def count(self, program: str, event: str) -> int:
        return sum(line.get("program") == program and line.get("event") == event for line in self.lines)

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    async def ended(self) -> int:
        async with asyncio.timeout(WITHIN_S):
            await asyncio.gather(*self._reading)
            return await self.process.wait()

    async def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return await self.ended()


def lasting(processes: list[psutil.Process]) -> int:
    """How many of them are no runs of the console's verification, which come and go."""
    return len(processes) - sum("verify" in _command(process) for process in processes)


def _command(process: psutil.Process) -> list[str]:
    with contextlib.suppress(psutil.Error):
        return process.cmdline()
    return []  # it has ended


def gone(processes: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(processes, timeout=30)
    assert [p for p in alive if p.status() != psutil.STATUS_ZOMBIE] == []


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Callable[..., Any]]:
    """Starts `tidewright up` on a folder of the test's own."""
    started: list[Up] = []

    async def begin(*arguments: str, data: Path = tmp_path / "data") -> Up:
        up = await Up.start(data, *arguments)
        started.append(up)
        return up

    yield begin
    for up in started:
        with contextlib.suppress(ProcessLookupError):
            up.process.kill()
        await up.ended()


async def test_it_brings_everything_up_restarts_what_dies_and_ends_clean(
    start: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    up = await start()
    await up.ready()
    plain = await asyncio.create_subprocess_exec(
        *tidewright("get", "nodegroup", "-o", "json"), stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await plain.communicate()
    assert plain.returncode == 0
    assert msgspec.json.decode(printed)["log"] == "stream TW_local"
    kubectl = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).parent / "kubectl"), "get", "nodes,wpa", "-A",
        env={**os.environ, "KUBECONFIG": up.said(r"export KUBECONFIG=(\S+)")},
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    answer, _ = await kubectl.communicate()
    assert kubectl.returncode == 0
    assert b"Ready" in answer

    # nats-server, the cluster, its cloud, seven services, the console. A verification is called as its parent
    # when it just begins, and not at all when it has just ended.
    before = await until(up.children, lambda children: lasting(children) == 11)
    jar = CookieJar(unsafe=True)  # cookies of an address
    async with ClientSession(cookie_jar=jar) as session, session.get(up.said(r"console  (\S+)")) as page:
        assert page.status == 200
        assert "Overview" in await page.text()
    victim = next(p for p in before if "autoscaler" in _command(p))
    victim.kill()
    await up.until(lambda: up.count("autoscaler", "started") == 2)

    after = up.children()
    up.process.send_signal(signal.SIGINT)
    assert await up.ended() == 0
    gone([*before, *after])
    assert not [*(tmp_path / "state" / "tidewright" / "running").iterdir()]


async def test_a_second_start_continues_and_fresh_starts_anew(start: Callable[..., Any]) -> None:
    async def config_maps(up: Up) -> set[str]:
        async with await Kube.connect(Path(up.said(r"export KUBECONFIG=(\S+)"))) as kube:
            found = msgspec.json.decode((await kube.request("GET", CONFIG_MAPS)).body)
            return {item["metadata"]["name"] for item in found["items"]}

    first = await start("--services", "watcher")
    await first.ready()
    push = first.said(r"POST (\S+)")
    config, url = first.said(r"export KUBECONFIG=(\S+)"), first.said(r"log +(\S+),")
    async with await Kube.connect(Path(config)) as kube:
        body = msgspec.json.encode({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}})
        await kube.request("POST", CONFIG_MAPS, body=body)
    assert await first.end() == 0

    second = await start("--services", "watcher")
    await second.ready()
    assert second.said(r"log +(\S+),") == url
    assert second.said(r"POST (\S+)") == push
    assert "mine" in await config_maps(second)
    # Two supervisors on one folder would fight: the second is told so.
    third = await start("--services", "watcher")
    assert await third.ended() == 69
    assert f"in use by process {second.process.pid}" in third.words[-1]
    assert await second.end() == 0

    fourth = await start("--services", "watcher,autoscaler", "--fresh")
    await fourth.ready()
    assert "up: watcher, autoscaler." in "\n".join(fourth.out)
    assert "mine" not in await config_maps(fourth)


async def webhooks(kube: Kube) -> set[str]:
    """Names of the webhook configurations that are there."""
    names = set()
    for kind in ("mutating", "validating"):
        path = f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations"
        found = msgspec.json.decode((await kube.request("GET", path)).body)
        names |= {item["metadata"]["name"] for item in found["items"]}
    return names


async def test_beside_a_cluster_that_is_there_it_calls_itself_only_where_it_is_told_how(
    start: Callable[..., Any], cluster: Cluster, kube: Kube, installed: list[str]
) -> None:
    del installed  # wanted for being there
    at = ("--kubeconfig", str(cluster.kubeconfig), "--mode", "enforce")
    before = await webhooks(kube)

    up = await start(*at)
    await up.ready()
    # nats-server, six services and the console: no cluster, no endpoint
    await until(up.children, lambda children: lasting(children) == 8)
    assert up.said(r"cluster  (\S+)") == str(cluster.kubeconfig)
    assert up.said(r"spread +(places no pods)")
    assert await webhooks(kube) == before
    assert await up.end() == 0

    url = f"https://127.0.0.1:{free_port()}"
    up = await start(*at, "--services", "watcher,spread,actuator,spread-admission", "--admission-url", url)
    await up.ready()
    assert "tidewright-spread" in await webhooks(kube)
    # A killed replica leaves a certificate behind, and nothing else once all has ended.
    next(p for p in up.children() if "spread-admission" in _command(p)).kill()
    await up.until(lambda: up.count("spread-admission", "the API server trusts this replica") == 2)
    assert await up.end() == 0
    assert await webhooks(kube) == before


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel of Linux does it")
async def test_a_supervisor_killed_with_9_leaves_no_process(start: Callable[..., Any]) -> None:
    up = await start("--services", "watcher")
    await up.ready()
    children = up.children()
    up.process.kill()
    await up.process.wait()
    gone(children)


async def refused(up: Up, code: int, *said: str) -> None:
    """It ended with this exit code, one clear message, and no child."""
    assert await up.ended() == code
    errors = [line for line in up.words if line.startswith("error: ")]
    assert len(errors) == 1, up.words
    for text in said:
        assert text in errors[0]
    assert not any("Traceback" in line for line in up.words)


async def test_no_nats_is_one_clear_message(start: Callable[..., Any]) -> None:
    await refused(await start("--nats", "nats://127.0.0.1:1"), 69, "nats://127.0.0.1:1", "--nats URL")


async def test_wrong_credentials_are_one_clear_message(
    start: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "guarded"
    config = folder / "server.conf"
    folder.mkdir()
    port = free_port()
    config.write_text(
        f'port: {port}\nhost: "127.0.0.1"\nauthorization {{ user: a, password: b }}\njetstream {{ store_dir: "{folder}" }}\n'
    )
    server = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).parent / "nats-server"), "-c", str(config), stderr=asyncio.subprocess.PIPE
    )
    assert server.stderr is not None
    async for line in server.stderr:
        if b"Server is ready" in line:
            break
    try:
        monkeypatch.setenv("TIDEWRIGHT_NATS", f"nats://a:wrong@127.0.0.1:{port}")
        up = await start()
        await refused(up, 69, f"127.0.0.1:{port}", "refuses these credentials")
        assert "wrong" not in up.words[-1]  # secrets are not repeated
    finally:
        server.kill()
        await server.communicate()


async def test_a_credentials_file_that_is_none_is_one_clear_message(
    start: Callable[..., Any], tmp_path: Path
) -> None:
    path = tmp_path / "tidewright.creds"
    at = ("--nats", "nats://127.0.0.1:1", "--nats-credentials", str(path))
    await refused(await start(*at), 69, str(path), "cannot be read", "`nsc`")
    path.write_text("a secret that is no credential\n")
    up = await start(*at)
    await refused(up, 69, str(path), "BEGIN NATS USER JWT", "`nsc`")
    assert "a secret" not in up.words[-1]


async def test_no_cluster_is_one_clear_message(start: Callable[..., Any], tmp_path: Path) -> None:
    await refused(await start("--kubeconfig", str(tmp_path / "none")), 2, "no such file", "--kubeconfig")
    path = tmp_path / "kubeconfig"
    path.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n"
        "contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {}}]\n"
    )
    await refused(await start("--kubeconfig", str(path)), 69, "127.0.0.1:1", "--kubeconfig")


async def test_a_port_in_use_is_one_clear_message(start: Callable[..., Any]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        await refused(await start("--nats-port", str(port)), 69, str(port), "--nats-port")
        await refused(await start("--api-port", str(port)), 69, str(port), "--api-port")


async def test_the_store_of_another_cluster_is_one_clear_message(
    start: Callable[..., Any], tmp_path: Path
) -> None:
    server = EmbeddedServer(tmp_path / "shared")
    await server.start()
    try:
        # Quiet, and ready all the same: what a program says of its start is read, and not shown.
        first = await start("--nats", server.url, "--services", "watcher", "--log-level", "error")
        await first.ready()
        assert await first.end() == 0
        other = await start("--nats", server.url, "--services", "watcher", data=tmp_path / "other")
        await refused(other, 2, "is of another cluster", "kube-system", "--cluster NAME")
        third = await start("--nats", server.url, "--services", "watcher", "--slots", "5")
        await refused(third, 2, "was made with 32 slots", "--slots 32")
    finally:
        await server.stop()


async def test_an_unknown_service_is_refused_with_those_that_are_known(start: Callable[..., Any]) -> None:
    await refused(await start("--services", "wtacher"), 2, "'wtacher'", "watcher, autoscaler")
