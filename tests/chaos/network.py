"""The network between the parts: one proxy per way, which can be cut and healed.

Each service reaches the bus, the API server and the cloud through links of its own, and the API
server reaches admission through one. A silent cut keeps bytes back in both directions, and they
arrive when it is healed; a hard one resets what is open and refuses what is new.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count, cycle
from pathlib import Path

from tests.ports import free_port
from tidewright.asking.environment import variable
from tidewright.asking.services import Service
from tidewright.cli.stack import HOST, Stack, StackOptions
from tidewright.cli.supervisor import Program, Sink

CHUNK = 1 << 16
CUTS_S = (0.3, 5.0)
"""The longer ones outlast a membership entry and every wait for an answer."""
REQUESTS_PER_S = 400.0
"""Of the actuator to the API server, per wall second."""
START_S = 300.0
"""Wall seconds that services have to get ready in: so many start at once that on a busy machine it takes minutes."""
WIDE = 0.2
"""Share of cuts that part a service from everything, not from one other part."""


class Link:
    """A way from one part to another."""

    def __init__(self, source: str, to: str, port: int) -> None:
        """Listens at once; `port` is where it leads, on this machine."""
        self.source, self.to = source, to
        self._target = port
        self._socket = socket.create_server((HOST, 0), backlog=128)
        self.port: int = self._socket.getsockname()[1]
        self._whole = asyncio.Event()
        self._whole.set()
        self._hard = False
        self._open: set[asyncio.StreamWriter] = set()
        self._pipes: set[asyncio.Task[None]] = set()
        self._serving = asyncio.create_task(self._serve(), name=f"link {source} to {to}")

    @property
    def is_cut(self) -> bool:
        return not self._whole.is_set()

    def cut(self, *, hard: bool) -> None:
        """Let nothing through any more."""
        self._whole.clear()
        self._hard = hard
        if hard:
            self._reset()

    def heal(self) -> None:
        """Let everything through again, also what waited."""
        self._hard = False
        self._whole.set()

    async def close(self) -> None:
        self._serving.cancel()
        for pipe in self._pipes:
            pipe.cancel()
        self._reset()
        await asyncio.gather(self._serving, *self._pipes, return_exceptions=True)

    def _reset(self) -> None:
        for writer in self._open:
            writer.transport.abort()
        self._open.clear()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._accepted, sock=self._socket)
        async with server:
            await server.serve_forever()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._hard:
            writer.transport.abort()
            return
        self._open.add(writer)
        try:
            await self._whole.wait()
            there, back = await self._reached()
        except OSError:  # nobody there, as at the end of a killed server
            writer.transport.abort()
            self._open.discard(writer)
            return
        self._open.add(back)
        for pair in ((reader, back, writer), (there, writer, back)):
            pipe = asyncio.create_task(self._pump(*pair))
            self._pipes.add(pipe)
            pipe.add_done_callback(self._pipes.discard)

    async def _reached(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to where it leads. Raises OSError."""
        return await asyncio.open_connection(HOST, self._target)

    async def _pump(
        self, source: asyncio.StreamReader, to: asyncio.StreamWriter, other: asyncio.StreamWriter
    ) -> None:
        """Bytes one way until an end is gone; then both ends are."""
        with contextlib.suppress(OSError):
            while data := await source.read(CHUNK):
                await self._whole.wait()
                to.write(data)
                await to.drain()
        # A half-closed connection, of a client that has said all and listens, is used by nobody here.
        for writer in (to, other):
            if not writer.is_closing():
                writer.close()
            self._open.discard(writer)


class Balanced(Link):
    """A way to several that are alike, as a Service has it: whoever listens is as good as another."""

    def __init__(self, source: str, to: str) -> None:
        super().__init__(source, to, 0)
        self._turns: Iterator[int] = iter(())
        self._ports: list[int] = []

    def another(self) -> int:
        """A port for one more of them."""
        self._ports.append(free_port())
        self._turns = cycle(self._ports)
        return self._ports[-1]

    async def _reached(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        for _ in self._ports[1:]:
            with contextlib.suppress(OSError):
                return await asyncio.open_connection(HOST, next(self._turns))
        return await asyncio.open_connection(HOST, next(self._turns))


class Linked(Stack):
    """Everything on one machine, each part behind links."""

    def __init__(self, options: StackOptions, sink: Sink) -> None:
        super().__init__(options, sink)
        self.links: list[Link] = []
        self._numbers = count(1)

    @property
    def side_url(self) -> str:
        """Of the server beside the embedded API server: cloud and metrics."""
        return self._clouds[0].partition(":")[2]

    async def stop(self) -> None:
        await super().stop()
        for link in self.links:
            await link.close()
        self.links.clear()

    def _service(self, service: Service) -> Program:
        program = super()._service(service)
        name = f"{service.name} {next(self._numbers)}"
        command = list(program.command)
        env = dict(program.env)
        bus = variable("--nats")
        if url := env.get(bus):
            env[bus] = self._led(name, "bus", url)
        self._through(command, "--cloud", lambda url: self._led(name, "cloud", url))
        if service.name == "actuator":
            command += [
                "--qps",
                repr(REQUESTS_PER_S),
            ]  # log time is compressed, and so is what there is to do
        self._through(command, "--kubeconfig", lambda path: self._kubeconfig(name, Path(path)))
        if "--port" in command:
            port = int(command[command.index("--port") + 1])
            command += ["--url", f"https://{HOST}:{self._link('API server', name, port)}"]
        return replace(program, command=tuple(command), env=env, ready_within_s=START_S)

    def _through(self, command: list[str], option: str, changed: Callable[[str], str]) -> None:
        if option in command:
            place = command.index(option) + 1
            command[place] = changed(command[place])

    def _led(self, source: str, to: str, url: str) -> str:
        """The same URL through a link."""
        return re.sub(
            rf"{re.escape(HOST)}:(\d+)", lambda found: f"{HOST}:{self._link(source, to, int(found[1]))}", url
        )

    def _kubeconfig(self, source: str, path: Path) -> str:
        own = path.with_name(f"kubeconfig-{source.replace(' ', '-')}")
        own.write_text(self._led(source, "API server", path.read_text()))
        return str(own)

    def _link(self, source: str, to: str, port: int) -> int:
        link = Link(source, to, port)
        self.links.append(link)
        return link.port


class Cutter:
    """Cuts links, and heals them after a while; several at a time."""

    def __init__(self, links: list[Link]) -> None:
        self._links = links
        self._healing: set[asyncio.Task[None]] = set()

    def cut(self, draw: random.Random) -> list[str]:
        """Cut one link, or all of one part; what was cut, by the kinds of its ends."""
        chosen = draw.choice(self._links)
        several = [link for link in self._links if link.source == chosen.source]
        cut = [link for link in (several if draw.random() < WIDE else [chosen]) if not link.is_cut]
        length_s, hard = draw.uniform(*CUTS_S), draw.random() < 0.5
        for link in cut:
            link.cut(hard=hard)
        healing = asyncio.create_task(self._heal(cut, length_s))
        self._healing.add(healing)
        healing.add_done_callback(self._healing.discard)
        return [f"{_kind(link.source)} to {_kind(link.to)}" for link in cut]

    async def _heal(self, cut: list[Link], after_s: float) -> None:
        try:
            await asyncio.sleep(after_s)
        finally:
            for link in cut:
                link.heal()

    async def healed(self) -> None:
        """Return when nothing is cut any more."""
        if self._healing:
            await asyncio.wait(self._healing)


def _kind(part: str) -> str:
    """The kind of a part without its number."""
    return part.rstrip("0123456789 ")
