"""Three nats-servers that keep a log together, each of which can be killed, paused, cut off, wiped and slowed down.

With `spaces` (for root) each server lives in a network namespace of its own: one network is for clients, another for the
routes between servers, so that a server can be cut off from the other two alone, or from everybody.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
import msgspec

from tests.ports import free_port
from tests.waiting import until
from tidewright.cli.contract.natsservers import PINGED
from tidewright.sim.nats_server import find_binary

HOST = "127.0.0.1"
COUNT = 3
UP_S = 60.0


@dataclass(frozen=True)
class Server:
    """Where one of them listens and keeps what it has.

    Attributes:
        space: its network namespace; empty for that of the machine.
        host: its address for clients; `routes_host` for the other servers.
    """

    number: int
    folder: Path
    host: str
    port: int
    routes_host: str
    routes_port: int
    monitor_port: int
    space: str = ""

    @property
    def name(self) -> str:
        return f"nats-{self.number}"

    @property
    def url(self) -> str:
        return f"nats://{self.host}:{self.port}"

    @property
    def store(self) -> Path:
        return self.folder / "store"

    @property
    def command(self) -> tuple[str, ...]:
        """What starts it; the process is the server itself, in its namespace too."""
        within = ("ip", "netns", "exec", self.space) if self.space else ()
        return (*within, str(find_binary()), "-c", str(self.folder / "nats-server.conf"))

    def configure(self, others: Sequence[Server]) -> None:
        """Write its configuration."""
        self.store.mkdir(parents=True, exist_ok=True)
        routes = ", ".join(f"nats://{other.routes_host}:{other.routes_port}" for other in others)
        (self.folder / "nats-server.conf").write_text(
            f'server_name: "{self.name}"\nhost: "{self.host}"\nport: {self.port}\n'
            f'http: "{self.host}:{self.monitor_port}"\nmax_payload: 8MB\n'
            f'jetstream {{ store_dir: "{self.store}", sync_interval: always, max_file_store: 20GB }}\n'
            f'cluster {{ name: tw, host: "{self.routes_host}", port: {self.routes_port}, no_advertise: true, {PINGED}, routes: [{routes}] }}\n'
        )


@dataclass
class Spaces:
    """Network namespaces, one a server, on two networks of this machine alone."""

    tag: str = field(default_factory=lambda: f"tw{os.getpid() % 10_000}")

    def name(self, number: int) -> str:
        return f"{self.tag}n{number}"

    def _end(self, number: int, what: str) -> str:
        return f"{self.tag}{what}{number}"

    @staticmethod
    def address(number: int, what: str) -> str:
        return f"10.{231 if what == 'c' else 232}.0.{11 + number}"

    async def make(self) -> None:
        """Raises RuntimeError: this machine does not allow it; what `ip` says.

        The routes' network is in a namespace of its own, since a machine may keep packets of its bridges back.
        """
        await _ip("link", "add", f"{self.tag}c", "type", "bridge")
        await _ip("link", "set", f"{self.tag}c", "up")
        await _ip("addr", "add", "10.231.0.1/24", "dev", f"{self.tag}c")
        await _ip("netns", "add", self._switch)
        await _ip("-n", self._switch, "link", "add", f"{self.tag}r", "type", "bridge")
        await _ip("-n", self._switch, "link", "set", f"{self.tag}r", "up")
        for number in range(COUNT):
            space = self.name(number)
            await _ip("netns", "add", space)
            await _ip("-n", space, "link", "set", "lo", "up")
            for what in "cr":
                end, there = self._end(number, what), self._there(what)
                await _ip(
                    *there, "link", "add", end, "type", "veth", "peer", "name", f"eth{what}", "netns", space
                )
                await _ip(*there, "link", "set", end, "master", f"{self.tag}{what}", "up")
                await _ip("-n", space, "addr", "add", f"{self.address(number, what)}/24", "dev", f"eth{what}")
                await _ip("-n", space, "link", "set", f"eth{what}", "up")

    async def cut(self, number: int, *, wholly: bool, cut: bool = True) -> None:
        """Part a server from the other two, or from everybody; or join it again."""
        for what in "cr" if wholly else "r":
            await _ip(*self._there(what), "link", "set", self._end(number, what), "down" if cut else "up")

    async def unmake(self) -> None:
        for space in (*map(self.name, range(COUNT)), self._switch):
            with contextlib.suppress(RuntimeError):
                await _ip("netns", "del", space)
        with contextlib.suppress(RuntimeError):
            await _ip("link", "del", f"{self.tag}c")

    @property
    def _switch(self) -> str:
        return f"{self.tag}r"

    def _there(self, what: str) -> tuple[str, ...]:
        """Where a network is, in the words of `ip`."""
        return ("-n", self._switch) if what == "r" else ()


class Servers:
    """The three of them. An async context manager: inside it they run, unless told otherwise."""

    def __init__(self, folder: Path, *, spaces: bool = False) -> None:
        self.spaces = Spaces() if spaces else None
        self.all = [self._server(number, folder / f"server-{number}") for number in range(COUNT)]
        self._running: dict[int, asyncio.subprocess.Process] = {}
        for server in self.all:
            server.configure(self.all)

    @property
    def url(self) -> str:
        """Of all three, as services take it."""
        return ",".join(server.url for server in self.all)

    def _server(self, number: int, folder: Path) -> Server:
        if self.spaces is not None:
            client, routes = (self.spaces.address(number, what) for what in "cr")
            return Server(number, folder, client, 4222, routes, 6222, 8222, self.spaces.name(number))
        return Server(number, folder, HOST, free_port(), HOST, free_port(), free_port())

    async def __aenter__(self) -> Self:
        try:
            if self.spaces is not None:
                await self.spaces.make()
            for server in self.all:
                await self.start(server.number)
            await self.formed()
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in list(self._running):
            self.signal(number, signal.SIGCONT)
            await self.kill(number)
        if self.spaces is not None:
            await self.spaces.unmake()

    def pid(self, number: int) -> int:
        """Process id; 0 while it does not run."""
        found = self._running.get(number)
        return found.pid if found is not None else 0

    async def start(self, number: int) -> None:
        """Start one; it is up when it answers."""
        server = self.all[number]
        with (server.folder / "server.log").open("a") as words:
            self._running[number] = await asyncio.create_subprocess_exec(
                *server.command, stdin=asyncio.subprocess.DEVNULL, stdout=words, stderr=words, start_new_session=True
            )  # fmt: skip

    def signal(self, number: int, which: signal.Signals) -> None:
        if number in self._running:
            os.kill(self._running[number].pid, which)

    async def kill(self, number: int) -> None:
        """As a crash would."""
        process = self._running.pop(number)
        process.kill()
        await process.wait()

    async def stop(self, number: int) -> None:
        """In good order: a leader hands over first (`lame duck`)."""
        process = self._running.pop(number)
        process.send_signal(signal.SIGUSR2)
        try:
            async with asyncio.timeout(20):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

    def wipe(self, number: int) -> None:
        """Empty the store of one that does not run."""
        shutil.rmtree(self.all[number].store)
        self.all[number].store.mkdir()

    async def formed(self) -> None:
        """Return when the three have a leader among them, who hears of the others. Raises AssertionError."""
        await until(self._peers, lambda peers: peers == COUNT - 1, every_s=0.2)

    async def _peers(self) -> int:
        """How many others the leader of all hears of."""
        told = [(await self.asked(server.number, "jsz")).get("meta_cluster", {}) for server in self.all]
        heard = [
            sum(bool(peer.get("current")) and not peer.get("offline") for peer in meta.get("replicas") or ())
            for server, meta in zip(self.all, told, strict=True)
            if meta.get("leader") == server.name
        ]
        return max(heard, default=0)

    async def asked(self, number: int, what: str) -> dict[str, Any]:
        """What one's monitoring says; nothing while it says nothing."""
        server = self.all[number]
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=3)) as session,
                session.get(f"http://{server.host}:{server.monitor_port}/{what}") as answer,
            ):
                found: dict[str, Any] = msgspec.json.decode(await answer.read())
                return found
        except (OSError, TimeoutError, aiohttp.ClientError, msgspec.DecodeError):
            return {}

    async def streams(self, number: int) -> dict[str, dict[str, Any]]:
        """By name, what one says of its streams."""
        found = await self.asked(number, "jsz?streams=1&accounts=1")
        return {
            stream["name"]: stream
            for account in found.get("account_details", [])
            for stream in account.get("stream_detail", [])
        }

    async def leader(self, stream: str) -> int:
        """Who leads a stream, by its own word. Raises TimeoutError: nobody does."""
        async with asyncio.timeout(UP_S):
            while True:
                for server in self.all:
                    told = (await self.streams(server.number)).get(stream, {}).get("cluster") or {}
                    if told.get("leader") == server.name:
                        return server.number
                await asyncio.sleep(0.1)

    async def in_sync(self) -> None:
        """Return when every stream has three copies with everything. Raises AssertionError."""
        await until(self.lacking, lambda lacking: not lacking, within_s=3 * UP_S, every_s=0.5)

    async def lacking(self) -> list[str]:
        """Streams with a copy that is away or behind, or with no leader."""
        told = [await self.streams(server.number) for server in self.all]
        names = sorted({name for streams in told for name in streams})
        return [name for name in names if not any(_whole(streams.get(name), n) for n, streams in enumerate(told))] or (
            [] if names else ["no stream is told of"]
        )  # fmt: skip


def _whole(stream: dict[str, Any] | None, number: int) -> bool:
    """Whether the leader says so, and that everybody has everything."""
    cluster = (stream or {}).get("cluster") or {}
    others = cluster.get("replicas") or []
    return (
        cluster.get("leader") == f"nats-{number}"
        and len(others) == COUNT - 1
        and all(other.get("current") and not other.get("offline") for other in others)
    )


async def _ip(*arguments: str) -> None:
    process = await asyncio.create_subprocess_exec(
        "ip", *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    said, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"ip {' '.join(arguments)}: {said.decode(errors='replace').strip()}")
