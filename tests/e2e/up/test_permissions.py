"""The bus permissions of the deployment: enough for every service, and not more than its own."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from tests.e2e.conftest import Cluster, tidewright
from tests.e2e.pipeline.test_pipeline import DEPLOYMENT, LABELS, World, autoscaler, ready
from tests.ports import free_port
from tidewright.archive.keys import ArchiverKeys
from tidewright.archive.reading import checked
from tidewright.archive.store import FolderStore
from tidewright.archiver.service import Archiver
from tidewright.asking.running_log import RunningLog
from tidewright.asking.services import DECIDERS
from tidewright.cli.contract.permissions import ARCHIVER, INSTALLER, READER, USERS, configuration, variable
from tidewright.cli.supervisor import Program, Supervisor
from tidewright.kube.client import Kube
from tidewright.log.connection import Log, Message
from tidewright.log.errors import LogError
from tidewright.log.install import Plan, install_log
from tidewright.log.last_per_subject import last_words_of_all
from tidewright.log.snapshots import Snapshot, Snapshots
from tidewright.log.subjects import ALL, Slot

CLUSTER = "guarded"


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[int]:
    """A server with the deployment's permissions; each service's password is its name. Yields its port."""
    port, config = free_port(), tmp_path / "nats.conf"
    config.write_text(
        f'host: "127.0.0.1"\nport: {port}\njetstream {{ store_dir: "{tmp_path}/store" }}\n'
        + configuration(CLUSTER)
    )
    passwords = {variable(name): name for name in USERS}
    supervisor = Supervisor(lambda name, line: None)
    nats = str(Path(sys.executable).parent / "nats-server")
    await supervisor.start(
        Program(
            "nats",
            (nats, "-c", str(config)),
            env=passwords,
            started=lambda line: {} if "is ready" in line else None,
        )
    )
    async with await Log.connect(url(port, INSTALLER), CLUSTER, timeout_s=10.0) as log:
        await install_log(log, Plan(slots=4, deciders=DECIDERS))
    yield port
    await supervisor.stop()


def url(port: int, service: str) -> str:
    return f"nats://{service}:{service}@127.0.0.1:{port}"


async def test_the_pipeline_runs_with_them(
    kube: Kube, namespace: str, cluster: Cluster, installed: list[str], guarded: int
) -> None:
    del installed
    world, lines = World(kube, namespace), list[str]()
    metric = f"{namespace}.requests"
    cluster.push({"name": metric, "value": 60.0, "namespace": namespace, "labels": LABELS})
    await world.make(world.deployments, DEPLOYMENT)
    await world.until(f"{world.deployments}/web", ready(2))
    supervisor = Supervisor(lambda name, line: lines.append(line), stop_within_s=5.0)

    def program(service: str, *more: str) -> Program:
        command = tidewright("run", service, "--cluster", CLUSTER, *more)
        return Program(service, command, env={"KUBECONFIG": None, "TIDEWRIGHT_NATS": url(guarded, service)})

    at = ("--kubeconfig", str(cluster.kubeconfig))
    side = () if cluster.embedded else ("--external-metrics-url", cluster.side_url)
    try:
        await supervisor.start(
            program("watcher", *at, *side), program("autoscaler"), program("actuator", *at),
            program("spread"), program("provisioning"), program("shard-manager"),
        )  # fmt: skip
        await world.make(world.autoscalers, autoscaler(metric))
        await world.until(f"{world.deployments}/web", lambda d: d["spec"]["replicas"] == 6)
    finally:
        await supervisor.stop()
        print("\n".join(lines))  # shown when it fails
    assert [line for line in lines if "permissions violation" in line.lower()] == []


@pytest.mark.parametrize(
    ("service", "subject"),
    [
        ("autoscaler", "fact.0.pod.ns.n"),
        ("autoscaler", "outcome.0.deployment.ns.n"),
        ("autoscaler", "decision.0.provisioning.nodegroup.ns.n"),
        ("autoscaler", "checkpoint.0.spread"),
        ("autoscaler", "config.all.clock"),
        ("watcher", "decision.0.autoscaler.deployment.ns.n"),
        ("watcher", "outcome.0.deployment.ns.n"),
        ("actuator", "fact.0.pod.ns.n"),
        ("actuator", "decision.0.autoscaler.deployment.ns.n"),
        ("spread", "ledger.0.autoscaler.ns.n"),
    ],
)
async def test_a_service_cannot_write_what_is_anothers(guarded: int, service: str, subject: str) -> None:
    async with await Log.connect(url(guarded, service), CLUSTER, timeout_s=0.5) as log:
        with pytest.raises(LogError):
            await log.commit([Message(f"{log.subjects.root}.{subject}", b"{}")])
    async with await Log.connect(url(guarded, "watcher"), CLUSTER, timeout_s=10.0) as log:
        assert await log.last(f"{log.subjects.root}.{subject}") is None


async def test_a_service_finds_what_was_said_before_with_its_own_rights(guarded: int) -> None:
    """As it has to when it has learnt to read what it did not read before."""
    async with await Log.connect(url(guarded, "watcher"), CLUSTER, timeout_s=10.0) as log:
        subjects = [log.subjects.fact(ALL, "node", "", name) for name in ("a", "b", "c")]
        first = [(await log.commit([Message(subject, b"{}")])).last_seq for subject in subjects[:2]]
        for subject in subjects[1:]:
            await log.commit([Message(subject, b"{}")])
    async with await Log.connect(url(guarded, "provisioning"), CLUSTER, timeout_s=10.0) as log:
        await log.adopt_slots()
        found = await last_words_of_all(log, [log.subjects.facts("*", "node")], first[-1])
    assert [(record.seq, record.subject) for record in found] == list(zip(first, subjects, strict=False))


async def test_snapshots_are_their_services_own(guarded: int) -> None:
    snapshot = Snapshot(
        service="autoscaler", slot="0", checkpoint_seq=1, position=1, folded=1, digest="", chain="", at=0.0,
        timers={}, state_version=1, version="", state=msgspec.Raw(b"{}"),
    )  # fmt: skip
    async with await Log.connect(url(guarded, "autoscaler"), CLUSTER, timeout_s=10.0) as log:
        mine = Snapshots(log)
        assert await mine.put(snapshot, b"state")
        assert await mine.put(snapshot, b"later state", keep=True)  # a second one ends the first's chunks
        assert await mine._object("autoscaler", "0.v1") == b"later state"
        assert await mine.history("autoscaler", Slot("0")) == [1]
    async with await Log.connect(url(guarded, READER), CLUSTER, timeout_s=10.0) as log:
        assert await Snapshots(log)._object("autoscaler", "0.v1") == b"later state"
    async with await Log.connect(url(guarded, READER), CLUSTER, timeout_s=0.5) as log:
        with pytest.raises(LogError):
            await log.commit([Message(log.subjects.config("clock"), b"{}")])
    async with await Log.connect(url(guarded, "spread"), CLUSTER, timeout_s=0.5) as log:
        with pytest.raises(LogError):
            await Snapshots(log)._object("autoscaler", "0.v1")
        assert not await Snapshots(log).put(snapshot, b"forged")
    async with await Log.connect(url(guarded, READER), CLUSTER, timeout_s=10.0) as log:
        assert await Snapshots(log)._object("autoscaler", "0.v1") == b"later state"


async def test_the_archiver_seals_the_log_with_a_readers_rights(guarded: int, tmp_path: Path) -> None:
    async with await Log.connect(url(guarded, INSTALLER), CLUSTER, timeout_s=10.0) as log:
        subjects = [log.subjects.config("clock"), log.subjects.checkpoint(Slot("0"), "autoscaler")]
        for subject in subjects:
            await log.commit([Message(subject, b"{}")])
        # As on a log whose beginning aged out, where segments begin with the states that are kept.
        await log.api(f"STREAM.PURGE.{log.stream}", {"seq": 2})
    store = FolderStore(tmp_path / "archive")
    async with await Log.connect(url(guarded, ARCHIVER), CLUSTER, timeout_s=10.0) as log:
        log.directly = True
        await log.adopt_slots()
        archiver = Archiver(RunningLog(log), store, ArchiverKeys(tmp_path / "key"), 0.001)
        async with asyncio.timeout(90):
            while archiver.last < 2:
                await archiver.turn()
        with pytest.raises(LogError):
            await log.commit([Message(subjects[0], b"{}")])
    [head] = (await checked(store, tmp_path)).heads
    assert (head.first, head.last, head.records) == (2, 2, 1)
