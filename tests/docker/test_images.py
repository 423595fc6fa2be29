"""The images of the deployment: NATS with its permissions, an embedded cluster, and a metric that scales a workload.

Run where a container engine is and the variables name the images; skipped elsewhere. Nothing is pulled
but these two.

    TIDEWRIGHT_IMAGE=tidewright TIDEWRIGHT_EMBEDDED_IMAGE=tidewright-embedded NATS_IMAGE=nats:2.15-alpine pytest -m docker
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from tests.e2e.conftest import Cluster
from tests.e2e.pipeline.test_pipeline import DEPLOYMENT, LABELS, World, autoscaler, ready
from tests.waiting import until_now
from tidewright.asking.services import SERVICES, Role, Service
from tidewright.cli.contract import permissions
from tidewright.kube.client import Kube

IMAGE, NATS = os.environ.get("TIDEWRIGHT_IMAGE", ""), os.environ.get("NATS_IMAGE", "")
EMBEDDED_IMAGE = os.environ.get("TIDEWRIGHT_EMBEDDED_IMAGE", "")
ROOT = Path(__file__).resolve().parents[2]
API, SIDE, PROBES = 8080, 8082, 8081
READY_WITHIN_S = 60.0

pytestmark = [
    pytest.mark.docker,
    pytest.mark.skipif(
        not (IMAGE and EMBEDDED_IMAGE and NATS),
        reason="TIDEWRIGHT_IMAGE, TIDEWRIGHT_EMBEDDED_IMAGE and NATS_IMAGE name no images",
    ),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.timeout(300),
]


class Engine:
    """Containers of one network, ended together; each is reached by its name."""

    def __init__(self, ending: contextlib.ExitStack) -> None:
        from testcontainers.core.config import testcontainers_config
        from testcontainers.core.network import Network

        testcontainers_config.ryuk_disabled = True  # it would be a third image
        self._ending = ending
        self._network = ending.enter_context(Network())

    def run(
        self,
        image: str,
        name: str,
        command: list[str],
        *,
        env: dict[str, str] | None = None,
        files: dict[Path, str] | None = None,
        ports: tuple[int, ...] = (),
    ) -> Running:
        """Start a container; `files` are mounted for reading."""
        from testcontainers.core.container import DockerContainer

        container = DockerContainer(image).with_command(command).with_network(self._network)
        container = container.with_network_aliases(name).with_exposed_ports(*ports)
        for key, value in (env or {}).items():
            container = container.with_env(key, value)
        for path, inside in (files or {}).items():
            container = container.with_volume_mapping(str(path), inside, "ro")
        return Running(name, self._ending.enter_context(container))


class Running:
    """A container that runs."""

    def __init__(self, name: str, container: object) -> None:
        self.name, self._container = name, container

    def url(self, port: int) -> str:
        """Where this machine reaches one of its ports."""
        made = self._container
        return f"http://{made.get_container_host_ip()}:{made.get_exposed_port(port)}"  # type: ignore[attr-defined]  # testcontainers has no types

    def said(self) -> str:
        """Everything that it has written."""
        out, err = self._container.get_logs()  # type: ignore[attr-defined]  # as above
        return f"{out.decode()}{err.decode()}"

    def until_said(self, text: str) -> None:
        """Wait for a word in its output.

        Raises:
            AssertionError: it was not said in time; what was said instead is in the message.
        """
        what = f"{text!r} of {self.name}"
        until_now(self.said, lambda said: text in said, what=what, within_s=READY_WITHIN_S, every_s=0.2)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    """The container engine of this machine; a skip where there is none."""
    from testcontainers.core.docker_client import DockerClient

    failure = import_module("docker.errors").DockerException  # by name: it has no types
    try:
        DockerClient().client.ping()
    except failure as error:
        pytest.skip(f"no container engine answers: {error}")
    with contextlib.ExitStack() as ending:
        yield Engine(ending)


@pytest.fixture(scope="module")
def cluster(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """NATS, the embedded cluster and every service but the admission endpoint, ready."""
    nats = engine.run(
        NATS, "nats", ["-c", "/etc/nats/nats.conf"],
        env={permissions.variable(user): "local" for user in permissions.USERS},
        files={
            ROOT / "deploy" / "compose" / "nats.conf": "/etc/nats/nats.conf",
            ROOT / "deploy" / "nats" / "permissions.conf": "/etc/nats/permissions.conf",
        },
    )  # fmt: skip
    nats.until_said("Server is ready")
    embedded = engine.run(
        EMBEDDED_IMAGE, "cluster",
        ["sim", "up", "--host", "0.0.0.0", "--port", str(API), "--side-port", str(SIDE), "--start-delay", "0.1"],
        ports=(API, SIDE),
    )  # fmt: skip
    embedded.until_said("simulated cluster up")
    kubeconfig = ROOT / "deploy" / "compose" / "kubeconfig"
    mounted = {kubeconfig: "/etc/tidewright/kubeconfig"}
    at = ["--kubeconfig", "/etc/tidewright/kubeconfig"]
    engine.run(IMAGE, "definitions", ["crds", *at], files=mounted).until_said("watermarkpodautoscalers")
    installer = {
        "TIDEWRIGHT_NATS": f"nats://{permissions.INSTALLER}:local@nats:4222",
        "TIDEWRIGHT_ARCHIVE_NATS": f"nats://{permissions.ARCHIVE}:local@nats:4222",
    }
    install = engine.run(
        IMAGE, "install", ["install", "--cluster", "prod", *at], env=installer, files=mounted
    )
    install.until_said("archive TW_prod: ")

    def start(service: Service) -> Running:
        command = ["run", service.name, "--cluster", "prod"]
        if service.role is Role.WATCHER:
            command += ["--mode", "enforce"]
        asks = service.role in (Role.WATCHER, Role.ACTUATOR)
        env = {"TIDEWRIGHT_NATS": f"nats://{service.name}:local@nats:4222"}
        return engine.run(
            IMAGE, service.name, command + (at if asks else []), env=env, files=mounted if asks else {}
        )

    services = {s.name: start(s) for s in SERVICES if s.role is not Role.ENDPOINT}
    for service in SERVICES:
        if service.role is Role.DECIDER:
            services[service.name].until_said("slots claimed")
    services["watcher"].until_said("listed")
    services["actuator"].until_said("acting")
    host = tmp_path_factory.mktemp("images") / "kubeconfig"
    host.write_text(kubeconfig.read_text().replace(f"http://cluster:{API}", embedded.url(API)))
    return Cluster(host, embedded.url(SIDE), embedded=True)


async def test_a_metric_scales_a_workload_in_containers(cluster: Cluster) -> None:
    async with await Kube.connect(cluster.kubeconfig) as kube:
        world = World(kube, "default")
        cluster.push({"name": "requests", "value": 60.0, "namespace": "default", "labels": LABELS})
        await world.make(world.deployments, DEPLOYMENT)
        await world.until(f"{world.deployments}/web", ready(2))
        await world.make(world.autoscalers, autoscaler("requests"))
        await world.until(f"{world.deployments}/web", lambda d: d["spec"]["replicas"] == 6)
        await world.until(
            f"{world.autoscalers}/web", lambda w: w.get("status", {}).get("desiredReplicas") == 6
        )
