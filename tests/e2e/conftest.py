"""What end-to-end tests stand on: a cluster, a log of their own, services as processes.

The cluster is the embedded one, or with `--kubeconfig FILE` (or `KUBECONFIG` in the environment) any
API server, beside which simulated nodes, kubelets and metrics are run. Tests use namespaces of their
own. At the end, what was made is gone: namespaces, nodes, and those CRDs that were not there before.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
import yaml

from tests.nats_server import EmbeddedServer
from tests.ports import free_port
from tests.waiting import until
from tidewright.asking.services import DECIDERS
from tidewright.cli.crds.installing import Outcome, install
from tidewright.cli.supervisor import Program, Supervisor
from tidewright.kube.client import Kube
from tidewright.kube.errors import KubeError
from tidewright.log.connection import Log
from tidewright.log.install import Plan, install_log

CLOUD = {
    "groups": [],
    "machines": [
        {
            "name": "e2e",
            "boot": "0.1",
            "delete": "0.05",
            "zones": ["zone-a", "zone-b"],
            "template": {"capacity": {"cpu": "8", "memory": "32Gi", "pods": "110"}},
        }
    ],
}
"""The simulated cloud: a machine type to make groups of; tests define groups of their own."""
READY_WITHIN_S = 120.0
GONE_WITHIN_S = 300.0


@dataclass(frozen=True)
class Cluster:
    """The cluster that the tests run on.

    Attributes:
        side_url: of the server with the metrics APIs, to which metrics are pushed, and with a simulated
            cloud that has no group until a test defines one.
        embedded: ours, with controllers and scheduler of ours.
        request_log: what the embedded one was asked, by all tests; None of others.
    """

    kubeconfig: Path
    side_url: str
    embedded: bool
    request_log: Path | None = None

    def push(self, *metrics: dict[str, object]) -> None:
        """Push metric values, as `POST /sim/metrics` takes them."""
        body = msgspec.json.encode(metrics)
        request = urllib.request.Request(
            f"{self.side_url}/sim/metrics", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            assert answer.status < 300


def tidewright(*arguments: str) -> tuple[str, ...]:
    """The command line of the tidewright command in this environment."""
    return (sys.executable, "-m", "tidewright.cli.main", *arguments)


@contextlib.contextmanager
def running(arguments: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A tidewright process that is ready, until the end of the block."""
    port = free_port()
    command = tidewright(*arguments, "--health-port", str(port), "--log-format", "json")
    env = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out, env=env) as process:
        try:
            _await_ready(process, port, log)
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()


def _await_ready(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.05)
    raise AssertionError(f"{process.args!r} is not ready; it said:\n{log.read_text()[-4000:]}")


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The cluster of this session."""
    folder = tmp_path_factory.mktemp("cluster")
    given = request.config.getoption("--kubeconfig") or os.environ.get("KUBECONFIG")
    side = free_port()
    cloud = folder / "cloud.yaml"
    cloud.write_text(yaml.safe_dump(CLOUD))
    common = [
        "--cloud",
        str(cloud),
        "--side-port",
        str(side),
        "--start-delay",
        "0.1",
        "--node-prefix",
        f"tw-{uuid.uuid4().hex[:6]}",
    ]
    asked = None if given else folder / "requests.jsonl"
    if given:
        path, arguments = Path(given), ["sim", "attach", "--kubeconfig", str(given), *common]
    else:
        path = folder / "kubeconfig"
        arguments = ["sim", "up", "--write-kubeconfig", str(path), "--request-log", str(asked), *common]
    with running(arguments, folder / "cluster.log"):
        yield Cluster(path, f"http://127.0.0.1:{side}", embedded=not given, request_log=asked)


@pytest.fixture
async def kube(cluster: Cluster) -> AsyncIterator[Kube]:
    """A client of the cluster."""
    async with await Kube.connect(cluster.kubeconfig) as client:
        yield client


@pytest.fixture(scope="session")
def installed(cluster: Cluster) -> Iterator[list[str]]:
    """Our CRDs, by name; those that were absent are made, and removed at the end. Others' are left as they are."""
    outcomes = asyncio.run(_install(cluster.kubeconfig))
    assert not any(outcome.unmet for outcome in outcomes), [outcome.line() for outcome in outcomes]
    yield [outcome.name for outcome in outcomes]
    created = [
        f"{outcome.kind}/{outcome.name}".lower() for outcome in outcomes if outcome.action == "created"
    ]
    if created and not cluster.embedded:
        kubectl = [str(Path(sys.executable).parent / "kubectl"), "--kubeconfig", str(cluster.kubeconfig)]
        removal = [*kubectl, "delete", "--timeout=50s", *created]
        answer = subprocess.run(removal, capture_output=True, text=True, timeout=60, check=False)
        assert answer.returncode == 0, answer.stderr


async def _install(kubeconfig: Path) -> list[Outcome]:
    async with await Kube.connect(kubeconfig) as kube:
        return await install(kube, "missing")


@pytest.fixture
async def namespace(kube: Kube) -> AsyncIterator[str]:
    """A namespace of the test's own, gone at the end."""
    async with made_namespace(kube) as name:
        yield name


@contextlib.asynccontextmanager
async def made_namespace(kube: Kube) -> AsyncIterator[str]:
    """A new namespace, until the end of the block."""
    name = f"tw-e2e-{uuid.uuid4().hex[:8]}"
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await kube.request("POST", "/api/v1/namespaces", body=msgspec.json.encode(manifest))
    await _account(kube, name)
    yield name
    path = f"/api/v1/namespaces/{name}"
    await kube.request("DELETE", path)
    deadline = time.monotonic() + GONE_WITHIN_S
    while time.monotonic() < deadline:
        try:
            async for _ in kube.stream("/api/v1/namespaces", query={
                "watch": "true", "fieldSelector": f"metadata.name={name}", "timeoutSeconds": "1",
            }):  # fmt: skip
                pass
            await kube.request("GET", path)
        except KubeError as error:
            if error.status == 404:
                return
            raise
    raise AssertionError(f"namespace {name} is still there after {GONE_WITHIN_S:g} s")


async def _account(kube: Kube, namespace: str) -> None:
    """Wait for a namespace's default account: until it is there, a real API server refuses pods."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
    deadline = time.monotonic() + READY_WITHIN_S
    while True:
        try:
            await kube.request("GET", path)
            return
        except KubeError as error:
            if error.status != 404 or time.monotonic() > deadline:
                raise
        await asyncio.sleep(0.05)


@pytest.fixture
async def nats(tmp_path: Path) -> AsyncIterator[EmbeddedServer]:
    """A log server of the test's own."""
    async with log_server(tmp_path) as server:
        yield server


@contextlib.asynccontextmanager
async def log_server(folder: Path) -> AsyncIterator[EmbeddedServer]:
    """A log server with its store in a folder, until the end of the block."""
    server = EmbeddedServer(folder / "nats")
    await server.start()
    yield server
    await server.stop()


class Services:
    """Services of one test, each its own process."""

    def __init__(self, cluster: Cluster, nats_url: str) -> None:
        self.cluster, self.nats_url = cluster, nats_url
        self.name = f"e2e-{uuid.uuid4().hex[:6]}"
        self.lines: list[tuple[str, str]] = []
        self.installed = False
        self.kubeconfigs: dict[str, Path] = {}
        """Of services that reach the cluster otherwise than the test does."""
        self.ready_within_s = READY_WITHIN_S
        """For how long each may take to be ready; more where it waits for something that is started after it."""
        self.others: list[Services] = []
        self.external_metrics_url = "" if cluster.embedded else cluster.side_url
        """Where the watcher asks; empty for the API server."""
        self.supervisor = Supervisor(lambda name, line: self.lines.append((name, line)), stop_within_s=5.0)

    async def start(self, *services: str, **more: Sequence[str]) -> None:
        """Start services and wait until they are ready; `more` has further arguments by service."""
        if not self.installed:
            async with await Log.connect(self.nats_url, self.name, name="install", timeout_s=10.0) as log:
                await install_log(log, Plan(slots=4, deciders=DECIDERS))
            self.installed = True
        await self.supervisor.start(
            *(self._program(name, more.get(name.replace("-", "_"), ())) for name in services)
        )

    def beside(self) -> Services:
        """More services on the same log, to be started and ended apart from these; with these at the latest."""
        stack = Services(self.cluster, self.nats_url)
        stack.name, stack.installed = self.name, self.installed
        self.others.append(stack)
        return stack

    async def until_said(self, service: str, words: str) -> None:
        """Return when a service has logged some words."""
        await until(
            lambda: [line for name, line in self.lines if name == service],
            lambda lines: any(words in line for line in lines),
            what=f"{words!r} of {service}",
            within_s=READY_WITHIN_S,
        )

    def _program(self, name: str, more: Sequence[str]) -> Program:
        command = ["run", name, "--nats", self.nats_url, "--cluster", self.name, "--log-format", "json"]
        if name in ("watcher", "actuator"):
            command += ["--kubeconfig", str(self.kubeconfigs.get(name, self.cluster.kubeconfig))]
        if name == "watcher":
            if "--mode" not in more:
                command += ["--mode", "enforce"]
            if self.external_metrics_url:
                command += ["--external-metrics-url", self.external_metrics_url]
            if not self.cluster.embedded:
                command += ["--resource-metrics-url", self.cluster.side_url]
        return Program(name, tidewright(*command, *more), ready_within_s=self.ready_within_s)

    async def log(self) -> Log:
        """A connection to the log of this test."""
        log = await Log.connect(
            self.nats_url, self.name, name="test", patience_s=READY_WITHIN_S, timeout_s=10.0
        )
        await log.adopt_slots()
        return log


@pytest.fixture
async def services(cluster: Cluster, installed: list[str], nats: EmbeddedServer) -> AsyncIterator[Services]:
    """Starts services as processes, and ends them."""
    del installed  # wanted for being there
    async with services_on(cluster, nats.url) as stack:
        yield stack


@contextlib.asynccontextmanager
async def services_on(cluster: Cluster, nats_url: str) -> AsyncIterator[Services]:
    """Services on a log server, ended at the end of the block."""
    stack = Services(cluster, nats_url)
    try:
        yield stack
    finally:
        for each in (*stack.others, stack):
            await each.supervisor.stop()
            for name, line in each.lines:  # shown of a test that fails
                print(f"{name}: {line}")
