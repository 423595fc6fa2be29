"""A bus per module: attacks leave no trace, or they have succeeded."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.attacks.bus import Bus, served
from tests.ports import free_port
from tidewright.asking.services import DECIDERS
from tidewright.cli.contract.permissions import INSTALLER
from tidewright.log.connection import Message
from tidewright.log.snapshots import Snapshot, Snapshots, encode

OWN = {
    "watcher": ("fact.1.pod.shop.web-0", "config.all.clock"),
    "autoscaler": ("decision.1.autoscaler.deployment.shop.web",),
    "provisioning": ("decision.all.provisioning.nodegroup._.a",),
    "spread": ("ledger.1.spread.shop.web",),
    "shard-manager": ("decision.1.shard-manager.shardset.shop.orders",),
    "actuator": ("outcome.1.deployment.shop.web", "checkpoint.all.actuator"),
    "spread-admission": ("decision.all.spread-admission.webhook._.a",),
    "shard-labels": ("decision.all.shard-labels.webhook._.a",),
}
"""What each service has said before the attack: nobody else may say more there."""


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bus]:
    """One server with the generated accounts, a log on it, and something of everybody's on the log."""
    folder, port = tmp_path_factory.mktemp("bus"), free_port()
    with served(folder, port):
        found = Bus((f"127.0.0.1:{port}",))
        asyncio.run(filled(found))
        yield found


async def filled(bus: Bus) -> None:
    """Install the log, and let each service say something with its own credentials."""
    await bus.install()
    async with await bus.log(INSTALLER) as log:
        for name in DECIDERS:
            await log.append(Message(f"$KV.{log.stream}_members.{name}.a", b"1", {"Nats-TTL": "never"}))
    for service, subjects in OWN.items():
        async with await bus.log(service) as log:
            await log.adopt_slots()
            for subject in subjects:
                await log.commit([Message(f"{log.subjects.root}.{subject}", b"{}")])
            if service in DECIDERS:
                snapshot = Snapshot(
                    service=service, slot="1", checkpoint_seq=1, position=1, folded=1, digest="", chain="", at=0.0,
                    timers={}, state_version=1, version="", state=b"{}",  # type: ignore[arg-type]  # raw JSON
                )  # fmt: skip
                assert await Snapshots(log).put(snapshot, encode(snapshot))
