"""How long a change takes to ten watchers of the embedded API server.

One client patches objects at an even rate; ten connections in a process of their own watch, and note when
each change arrives. Sender and watchers share a clock (one machine), and the time of sending travels in the
object. Beside it, in the same run: a bare aiohttp server that writes the same lines to ten streams.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import msgspec
import uvloop
from aiohttp import web

from tests.bench.figures import Bench, Figure, Size, figure
from tests.bench.sim_clients import Clients, request
from tests.bench.sim_writes import namespaces, pod, serving

P99_TARGET_MS = 5.0
WATCHERS, PODS, RATE = 10, 50, 500
_STAMP = b'"example.com/sent":"'


class Watcher(asyncio.Protocol):
    """One watch: the delays of what arrives, in seconds."""

    def __init__(self, path: str, delays: list[float], expected: int) -> None:
        self._path, self._delays, self._left = path, delays, expected
        self._rest = b""
        self.begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.write(f"GET {self._path} HTTP/1.1\r\nHost: bench\r\n\r\n".encode())  # type: ignore[attr-defined]  # every transport here writes

    def data_received(self, data: bytes) -> None:
        now = time.time()
        if not self.begun.done():
            self.begun.set_result(None)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            at = line.find(_STAMP)
            if at >= 0:
                start = at + len(_STAMP)
                self._delays.append(now - float(line[start : line.index(b'"', start)]))
                self._left -= 1
        if self._left <= 0 and not self.done.done():
            self.done.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(error or ConnectionError("a watch ended"))


async def watch(host: str, port: int, path: str, expected: int) -> list[float]:
    """The child: watches until every watcher has seen all changes."""
    delays: list[float] = []
    loop = asyncio.get_running_loop()
    made = [
        (await loop.create_connection(partial(Watcher, path, delays, expected), host, port))[1]
        for _ in range(WATCHERS)
    ]
    await asyncio.gather(*(watcher.begun for watcher in made))
    print("ready", flush=True)
    await asyncio.gather(*(watcher.done for watcher in made))
    return delays


async def patch(host: str, port: int, count: int, content: str) -> None:
    """Change one object after the other at an even rate, each answer awaited."""
    reader, writer = await asyncio.open_connection(host, port)
    begun = time.perf_counter()
    for n in range(count):
        ahead_s = begun + n / RATE - time.perf_counter()
        if ahead_s > 0:
            await asyncio.sleep(ahead_s)
        body = msgspec.json.encode({"metadata": {"annotations": {"example.com/sent": f"{time.time():.6f}"}}})
        path = f"/api/v1/namespaces/team-0/pods/web-{n % PODS}"
        writer.write(request("PATCH", path, body, content))
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
    writer.close()


@contextmanager
def watching(url: str, path: str, expected: int) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "tests.bench.sim_watch", "--watch", url, path, str(expected)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def p99_ms(url: str, path: str, count: int) -> float:
    """The 99th percentile of all delays of all watchers."""
    host, port = url.removeprefix("http://").split(":")
    with watching(url, path, count) as process:
        assert process.stdout is not None
        process.stdout.readline()
        uvloop.run(patch(host, int(port), count, "application/merge-patch+json"))
        delays = sorted(msgspec.json.decode(process.stdout.readline(), type=list[float]))
    return 1000.0 * delays[int(0.99 * (len(delays) - 1))]


def echo() -> None:
    """The baseline: a server that passes every body on to its streams, with the weight of a pod."""
    padding = pod("web-0") * 4
    streams: set[asyncio.Queue[bytes]] = set()

    async def handle(http: web.BaseRequest) -> web.StreamResponse:
        if http.method == "GET":
            response = web.StreamResponse()
            response.enable_chunked_encoding()
            await response.prepare(http)
            queue: asyncio.Queue[bytes] = asyncio.Queue()
            streams.add(queue)
            await response.write(b"\n")
            while True:
                await response.write(await queue.get())
        body = await http.read()
        for queue in streams:
            queue.put_nowait(b'{"type":"MODIFIED","object":' + body + b',"rest":' + padding + b"}\n")
        return web.Response(body=padding)

    async def main() -> None:
        runner = web.ServerRunner(web.Server(handle, access_log=None))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        print(f"http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
        await asyncio.Event().wait()

    uvloop.run(main())


def run(size: Size) -> list[Figure]:
    count = 5_000 if size == "full" else 500
    path = "/api/v1/namespaces/team-0/pods?watch=true&resourceVersion=0"
    with serving("echo", module="tests.bench.sim_watch") as (url, _):
        plain = p99_ms(url, path, count)
    with serving("api") as (url, _):
        namespaces(url)
        made = [request("POST", "/api/v1/namespaces/team-0/pods", pod(f"web-{n}")) for n in range(PODS)]
        Clients(url, [made]).run()
        found = p99_ms(url, path, count)
    return [
        figure(f"sim_watch/to_{WATCHERS}_watchers_at_{RATE}_per_s_p99", found, "ms", "lower", P99_TARGET_MS,
               baseline="bare aiohttp streams with lines as long", baseline_value=plain),
    ]  # fmt: skip


BENCHES = (Bench("sim_watch", run),)

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--watch", nargs=3, metavar=("URL", "PATH", "COUNT"))
    parser.add_argument("--serve", choices=("echo",))
    arguments = parser.parse_args()
    if arguments.watch:
        url, path, count = arguments.watch
        host, port = url.removeprefix("http://").split(":")
        print(msgspec.json.encode(uvloop.run(watch(host, int(port), path, int(count)))).decode(), flush=True)
    else:
        echo()
