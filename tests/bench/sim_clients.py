"""Clients for the benchmarks of the embedded API server: cheap enough not to be what is measured.

Each client is a process with a few connections. It writes prepared requests to raw sockets, a window of
them ahead of the answers, and of an answer reads no more than its status and length.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import msgspec
import uvloop

WINDOW = 8
"""Requests of a connection that are on their way at once."""
_LENGTH = re.compile(rb"\r\ncontent-length: ?(\d+)", re.IGNORECASE)


def request(method: str, path: str, body: bytes = b"", content_type: str = "application/json") -> bytes:
    """One request's bytes."""
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: bench\r\nUser-Agent: bench/1\r\nAccept: application/json\r\n"
        f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Connection(asyncio.Protocol):
    """Sends all its requests, `WINDOW` ahead of the answers; `done` holds how many were refused."""

    def __init__(self, requests: Sequence[bytes]) -> None:
        self._waiting = iter(requests)
        self._left = len(requests)
        self._buffer = b""
        self._refused = 0
        self._transport: Any = None  # uvloop's transports are no subclass of asyncio's
        self.done: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._send(WINDOW)

    def _send(self, count: int) -> None:
        ready = [next(self._waiting, b"") for _ in range(count)]
        if self._transport is not None and any(ready):
            self._transport.write(b"".join(ready))

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer + data if self._buffer else data
        position = answered = 0
        while True:
            end = buffer.find(b"\r\n\r\n", position)
            if end < 0:
                break
            length = _LENGTH.search(buffer, position, end)
            stop = end + 4 + (int(length[1]) if length else 0)
            if stop > len(buffer):
                break
            if buffer[position + 9 : position + 10] != b"2":
                self._refused += 1
            position = stop
            answered += 1
        self._buffer = buffer[position:]
        self._left -= answered
        if self._left <= 0 and not self.done.done():
            self.done.set_result(self._refused)
        elif answered:
            self._send(answered)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(error or ConnectionError("the server closed the connection"))


async def send(host: str, port: int, requests: Sequence[bytes], connections: int) -> tuple[float, int]:
    """Send everything over so many connections: seconds, and how many were refused."""
    loop = asyncio.get_running_loop()
    begun = time.perf_counter()
    made = [
        await loop.create_connection(partial(Connection, requests[part::connections]), host, port)
        for part in range(connections)
    ]
    refused = sum([await protocol.done for _, protocol in made])
    seconds = time.perf_counter() - begun
    for transport, _ in made:
        transport.close()
    return seconds, refused


class Job(msgspec.Struct):
    """What one client process is to do: handed over on its standard input."""

    host: str
    port: int
    connections: int
    requests: list[bytes]


class Result(msgspec.Struct):
    seconds: float
    refused: int


class Clients:
    """Client processes, ready and waiting until all of them are told to begin."""

    def __init__(self, url: str, shares: Sequence[Sequence[bytes]], connections: int = 4) -> None:
        host, port = url.removeprefix("http://").split(":")
        self._processes = [
            subprocess.Popen(
                [sys.executable, "-m", "tests.bench.sim_clients"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            for _ in shares
        ]  # fmt: skip
        for process, share in zip(self._processes, shares, strict=True):
            body = msgspec.msgpack.encode(Job(host, int(port), connections, list(share)))
            assert process.stdin is not None
            process.stdin.write(len(body).to_bytes(8, "big") + body)
            process.stdin.flush()
        for process in self._processes:
            assert process.stdout is not None
            process.stdout.readline()  # it has read its job

    def run(self) -> float:
        """Requests per second over all clients. Raises RuntimeError when one was refused."""
        begun = time.perf_counter()
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(b"\n")
            process.stdin.close()
        results = [msgspec.json.decode(line, type=Result) for line in self._lines()]
        seconds = time.perf_counter() - begun
        for process in self._processes:
            process.wait()
        refused = sum(result.refused for result in results)
        if refused:
            raise RuntimeError(f"{refused} requests were refused")
        return seconds

    def _lines(self) -> Iterator[Any]:
        for process in self._processes:
            assert process.stdout is not None
            yield process.stdout.readline()


def main() -> None:
    stdin = sys.stdin.buffer
    job = msgspec.msgpack.decode(stdin.read(int.from_bytes(stdin.read(8), "big")), type=Job)
    print("ready", flush=True)
    stdin.readline()
    seconds, refused = uvloop.run(send(job.host, job.port, job.requests, job.connections))
    print(msgspec.json.encode(Result(seconds, refused)).decode(), flush=True)


if __name__ == "__main__":
    main()
