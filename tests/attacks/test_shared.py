"""Three clusters, one NATS: two straight and one by a leaf of its own; nobody reaches another's, and one reader sees all."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest.mock import patch

import aiohttp
import msgspec
import nats
import pytest

from tests.attacks.bus import run_server
from tests.ports import free_port
from tests.waiting import until
from tidewright.asking.questions import ROOT
from tidewright.asking.running_log import RunningLog
from tidewright.asking.services import DECIDERS, EVERY
from tidewright.cli.contract.permissions import (
    ARCHIVE,
    INSTALLER,
    READER,
    USERS,
    hub_variable,
    leaf,
    of_several,
    stream_of,
    variable,
)
from tidewright.console.access import Access, named
from tidewright.console.server import Console
from tidewright.events.config import ClockSet
from tidewright.events.facts import PodGone
from tidewright.events.registry import encode
from tidewright.log.archive import install_archive, user_beside
from tidewright.log.connection import Log, Message
from tidewright.log.errors import LogError
from tidewright.log.install import Plan, install_log
from tidewright.log.reader import Record
from tidewright.log.snapshots import Snapshot, Snapshots
from tidewright.log.snapshots import encode as encoded

CLUSTERS = ("east", "west", "north")
BY_LEAF = "north"


@dataclass(frozen=True)
class Shared:
    """The hub's port, and the leaf's."""

    hub: int
    leaf: int

    def url(self, cluster: str, user: str) -> str:
        """As a user of a cluster reaches its log: the password of each is its name."""
        if cluster == BY_LEAF:
            return f"nats://{user}:{user}@127.0.0.1:{self.leaf}"
        return f"nats://{cluster}-{user}:{cluster}-{user}@127.0.0.1:{self.hub}"

    async def log(self, cluster: str, user: str) -> Log:
        return await Log.connect(self.url(cluster, user), cluster, timeout_s=10.0, patience_s=60.0)

    async def everybodys(self, cluster: str) -> Log:
        log = await Log.connect(f"nats://{READER}:{READER}@127.0.0.1:{self.hub}", cluster, timeout_s=10.0)
        log.directly = True  # as whoever asks: it may make no consumer
        return log


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    folder = tmp_path_factory.mktemp("shared")
    ports = Shared(free_port(), free_port())
    leaves = free_port()
    users = [f"{cluster}-{user}" for cluster in CLUSTERS for user in USERS]
    addresses = {
        hub_variable(user): f"nats-leaf://{BY_LEAF}-{user}:{BY_LEAF}-{user}@127.0.0.1:{leaves}"
        for user in USERS
    }
    hub = f'leafnodes {{ host: "127.0.0.1", port: {leaves} }}\n{of_several(CLUSTERS)}'
    with (
        patch.dict(os.environ, {variable(user): user for user in users} | addresses),
        run_server(folder, ports.hub, hub, "hub"),
        run_server(folder, ports.leaf, leaf(BY_LEAF), "leaf", store=False),
    ):
        asyncio.run(install(ports))
        yield ports


async def install(shared: Shared) -> None:
    """Each log, and its archive, with that cluster's installer."""
    for cluster in CLUSTERS:
        async with (
            await shared.log(cluster, INSTALLER) as log,
            await shared.log(cluster, ARCHIVE) as archive,
        ):
            await until(partial(both, log, archive), what=f"the leaf of {cluster}")
            await install_log(log, Plan(slots=4, deciders=DECIDERS))
            await install_archive(log, archive)


async def answers(log: Log) -> bool:
    """Whether JetStream is there: a leaf says first that it is ready, and then logs in over there."""
    try:
        await log.settings(log.stream)
    except LogError:
        return False
    return True


async def both(log: Log, archive: Log) -> bool:
    return await answers(log) and await answers(archive)


async def test_every_service_of_each_cluster_does_what_it_does_alone(shared: Shared) -> None:
    """Appends, batches, consumers, members and snapshots, also by the leaf."""
    for cluster in CLUSTERS:
        async with await shared.log(cluster, "watcher") as log:
            await log.adopt_slots()
            root = log.subjects.root
            clock = ClockSet(at=1.0, wall=1.0, log=1.0)
            gone = PodGone(at=1.0, namespace="shop", name=cluster)
            said = {"config.all.clock": clock, f"fact.1.pod.shop.{cluster}": gone}
            await log.commit([Message(f"{root}.{subject}", encode(event)) for subject, event in said.items()])
        for service in EVERY:
            async with await shared.log(cluster, service) as log:
                await log.adopt_slots()
                async with log.reader([log.subjects.everything]) as reader:
                    seen: list[Record] = []
                    async with asyncio.timeout(60):
                        while len(seen) < 2:
                            seen += await reader.fetch(2, timeout_s=10.0)
                assert seen[-1].subject == f"{root}.fact.1.pod.shop.{cluster}", (cluster, service)
                if service in DECIDERS:
                    snapshot = Snapshot(
                        service=service, slot="1", checkpoint_seq=1, position=1, folded=1, digest="", chain="", at=0.0,
                        timers={}, state_version=1, version="", state=b"{}",  # type: ignore[arg-type]  # raw JSON
                    )  # fmt: skip
                    assert await Snapshots(log).put(snapshot, encoded(snapshot))
        async with await shared.log(cluster, ARCHIVE) as archive:
            settings = await archive.settings(archive.stream)
            assert settings is not None
            assert settings["mirror"]["name"] == stream_of(cluster)


@pytest.mark.parametrize("user", [*EVERY, READER, INSTALLER, ARCHIVE])
async def test_nobody_of_one_cluster_reaches_anothers_log(shared: Shared, user: str) -> None:
    for cluster, other in zip(CLUSTERS, (*CLUSTERS[1:], CLUSTERS[0]), strict=True):
        stream = stream_of(other)
        async with await shared.everybodys(other) as log:
            before = await log.settings(stream), await last(log)

        async def silent(error: Exception) -> None:
            del error  # of permissions

        client = await nats.connect(shared.url(cluster, user), error_cb=silent)
        try:
            questions: dict[str, Any] = {
                f"$JS.API.STREAM.INFO.{stream}": {},
                f"$JS.API.STREAM.MSG.GET.{stream}": {"seq": 1},
                f"$JS.API.STREAM.PURGE.{stream}": {},
                f"$JS.API.STREAM.DELETE.{stream}": {},
                f"tw.{other}.fact.1.pod.shop.forged": {},
            }
            for subject, body in questions.items():
                try:
                    answer = await client.request(subject, msgspec.json.encode(body), timeout=0.3)
                except (nats.errors.TimeoutError, nats.errors.NoRespondersError):
                    continue
                # The installer and the archive ask a JetStream of their own, where there is no such stream.
                assert b"stream not found" in answer.data, (user, subject, answer.data)
        finally:
            await client.close()
        async with await shared.everybodys(other) as log:
            assert (await log.settings(stream), await last(log)) == before


async def last(log: Log) -> object:
    return (await log.api(f"STREAM.INFO.{log.stream}", {}))["state"]["last_seq"]


async def test_one_console_shows_all_of_them_and_writes_to_none(shared: Shared) -> None:
    places = {cluster: f"/in/{cluster}" if cluster != CLUSTERS[0] else "" for cluster in CLUSTERS}
    async with AsyncExitStack() as ends:
        access = Access(frozenset(), once="the-token-that-lets-in-once")
        sources: dict[str, RunningLog] = {}
        for cluster in CLUSTERS:
            log = await ends.enter_async_context(await shared.everybodys(cluster))
            await log.adopt_slots()
            before = await last(log)
            with pytest.raises((nats.errors.TimeoutError, nats.errors.NoRespondersError)):
                await log.client.request(f"{log.subjects.root}.fact.1.pod.shop.forged", b"{}", timeout=0.3)
            assert await last(log) == before
            sources[cluster] = RunningLog(log)
        others = tuple(
            Console(sources[cluster], access, under=path, clusters=places)
            for cluster, path in places.items()
            if path
        )
        first = Console(sources[CLUSTERS[0]], access, clusters=places, others=others)
        await first.start("127.0.0.1", 0)
        ends.push_async_callback(first.stop)
        access.hosts = named("127.0.0.1", first.port, ())
        session = await ends.enter_async_context(
            aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True))
        )
        root = f"http://127.0.0.1:{first.port}"
        for cluster, path in places.items():
            async with session.get(f"{root}{path}{ROOT}/events") as answer:
                assert answer.status == (401 if not session.cookie_jar else 200)
            async with session.get(f"{root}{path}/events?token=the-token-that-lets-in-once") as answer:
                page = await answer.text()
            assert f"stream {stream_of(cluster)}" in page
            links = {text.split('"')[0] for text in page.split('href="')[1:]} - {
                "/static/icon.svg",
                "/static/console.css",
            }
            away = {f"{to}/" for to in places.values()}
            assert away <= links
            assert all(link.startswith((f"{path}/", "#")) for link in links - away), links
            async with session.get(f"{root}{path}{ROOT}/events") as answer:
                told = await answer.text()
            assert f"tw.{cluster}.fact.1.pod.shop.{cluster}" in told, told
            assert not any(f"tw.{other}." in told for other in places if other != cluster)


def test_the_archives_user_goes_with_the_installers() -> None:
    assert [user_beside(user) for user in ("installer", "east-installer", "", "somebody")] == [
        "archive", "east-archive", "archive", "archive",
    ]  # fmt: skip
