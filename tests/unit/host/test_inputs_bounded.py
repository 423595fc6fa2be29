"""What strangers may do to a port of ours: slow bodies, half requests, many connections, `/metrics`."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp
import pytest
import uvloop
from aiohttp import web

from tidewright.host.ports.bodies import BadBody, Bodies
from tidewright.host.ports.connections import EVERYWHERE, Bounds, Site
from tidewright.host.ports.tokens import BadTokens, Tokens, is_loopback, parse
from tidewright.host.process import probes as probes_module
from tidewright.host.process.health import Health
from tidewright.host.process.probes import Probes

Wire = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def served(bodies: Bodies, bounds: Bounds | None = None) -> AsyncIterator[int]:
    async def handle(request: web.Request) -> web.Response:
        try:
            return web.Response(text=str(len(await bodies.read(request))))
        except BadBody as error:
            return web.Response(status=error.status, text=str(error))

    bounds = bounds or Bounds()
    app = web.Application(middlewares=[bounds.middleware])
    app.router.add_post("/", handle)
    runner = web.AppRunner(app, access_log=None, lingering_time=0.1)
    await runner.setup()
    await Site(runner, "127.0.0.1", 0, bounds).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def begin(port: int, length: int, content: bytes = b"") -> Wire:
    """A request whose body comes later, or never."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n".encode() + content)
    await writer.drain()
    return reader, writer


async def posted(port: int, body: bytes) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.post(f"http://127.0.0.1:{port}/", data=body) as it:
        return it.status, await it.text()


async def test_the_slowest_body_makes_room_for_the_one_that_comes() -> None:
    bodies = Bodies(max_bytes=1000, within_s=60.0, at_once=4)
    async with served(bodies) as port:
        slow = []
        for _ in range(4):
            slow.append(await begin(port, 100, b"x"))
            assert await posted(port, b"quick") == (200, "5")
        slow.append(await begin(port, 100, b"x"))
        async with asyncio.timeout(90):
            assert b"503" in await slow[0][0].readline()
        assert await posted(port, b"quick") == (200, "5")
        for _, writer in slow:
            writer.close()


async def test_what_bodies_hold_together_is_bounded() -> None:
    bodies = Bodies(max_bytes=1000, within_s=60.0, total_bytes=2500)
    async with served(bodies) as port:
        slow = [await begin(port, 1000, b"x" * 900) for _ in range(4)]
        async with asyncio.timeout(90):
            for reader, _ in slow[:2]:
                assert b"503" in await reader.readline()
        assert await posted(port, b"x" * 1000) == (200, "1000")
        for _, writer in slow:
            writer.close()


async def test_bodies_that_are_too_long_or_too_slow_are_named_so() -> None:
    async with served(Bodies(max_bytes=10, within_s=0.05)) as port:
        assert await posted(port, b"x" * 11) == (413, "is 11 bytes, at most 10")
        reader, writer = await begin(port, 5, b"x")
        async with asyncio.timeout(90):
            assert b"408" in await reader.readline()
        writer.close()
        # Without a length, what comes is counted.
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n14\r\n" + b"x" * 20)
        async with asyncio.timeout(90):
            assert b"413" in await reader.readline()
        writer.close()


async def test_half_a_head_is_hung_up_on_and_connections_make_room() -> None:
    bounds = Bounds(head_s=0.1)
    async with served(Bodies(max_bytes=10, within_s=5.0), bounds) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST / HTTP/1.1\r\nHo")
        async with asyncio.timeout(90):
            with suppress(ConnectionResetError):
                assert await reader.read() == b""
        writer.close()
    bounds = Bounds(at_once=3)
    async with served(Bodies(max_bytes=10, within_s=5.0), bounds) as port:
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
        assert await posted(port, b"probe") == (200, "5")
        for _, writer in idle:
            writer.close()


async def test_metrics_are_for_this_machine_or_for_a_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    probes = Probes([Health("watcher")])
    await probes.start("127.0.0.1", 0)
    url = f"http://127.0.0.1:{probes.port}"
    try:
        async with aiohttp.ClientSession(url) as session:

            async def status(path: str, **headers: str) -> int:
                async with session.get(path, headers=headers) as answer:
                    return answer.status

            assert await status("/metrics") == 200
            monkeypatch.setattr(probes_module, "is_loopback", lambda _: False)  # as from another pod
            assert await status("/metrics") == 403
            assert await status("/livez") == 200
            (tmp_path / "token").write_text("a-token-that-nobody-guesses")
            probes.metrics_tokens = Tokens(tmp_path / "token")
            assert await status("/metrics") == 401
            assert await status("/metrics", Authorization="Bearer a-token-that-nobody-guesses") == 200
            assert await status("/metrics", Authorization="Basic a-token-that-nobody-guesses") == 401
            monkeypatch.undo()
            assert await status("/metrics") == 401
    finally:
        await probes.stop()


async def test_readiness_shows_no_password() -> None:
    health = Health("watcher", not_ready="nobody answers at nats://a:s3cret@one:4222,nats://a:p@ss@two:4222")
    probes = Probes([health])
    await probes.start("127.0.0.1", 0)
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{probes.port}") as session:
            for path in ("/readyz", "/other"):
                async with session.get(path) as answer:
                    text = await answer.text()
                    assert text == "nobody answers at nats://***@one:4222,nats://***@two:4222\n"
    finally:
        await probes.stop()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "where is empty"),
        ("# only a remark\n", "where is empty"),
        ("short\n", "line 1: a token of 5 characters"),
        ("a-token-that-nobody-guesses x y\n", "line 1: a token and, behind a space, namespaces"),
    ],
)
def test_tokens_that_cannot_be_used_are_named_and_not_repeated(text: str, problem: str) -> None:
    with pytest.raises(BadTokens) as refused:
        parse(text, "where")
    assert problem in str(refused.value)
    assert "guesses" not in str(refused.value)


@pytest.mark.parametrize(
    ("host", "own"),
    [
        ("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("::ffff:127.0.0.1", True), ("localhost", True),
        ("0.0.0.0", False), ("::", False), ("10.0.0.1", False), ("", False), (None, False), ("example", False),
    ],
)  # fmt: skip
def test_what_is_this_machine(host: str | None, own: bool) -> None:
    assert is_loopback(host) is own


def test_it_serves_in_the_loop_that_services_run_in() -> None:
    async def asked() -> tuple[int, str]:
        async with served(Bodies(max_bytes=10, within_s=5.0), Bounds(at_once=1)) as port:
            idle = await asyncio.open_connection("127.0.0.1", port)
            found = await posted(port, b"probe")
            idle[1].close()
            return found

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(asked()) == (200, "5")


@pytest.mark.parametrize("v6", [True, False])
async def test_every_address_is_that_of_both_families_or_of_the_one_there_is(
    monkeypatch: pytest.MonkeyPatch, v6: bool
) -> None:
    if not v6:
        monkeypatch.setattr("socket.has_dualstack_ipv6", lambda: False)
    elif not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    probes = Probes([Health("watcher", not_ready="")])
    await probes.start(EVERYWHERE, 0)
    try:
        async with aiohttp.ClientSession() as session:
            for host in ("127.0.0.1", "[::1]") if v6 else ("127.0.0.1",):
                # A caller of IPv4 on a socket of IPv6 is this machine's own as well.
                async with session.get(f"http://{host}:{probes.port}/metrics") as answer:
                    assert answer.status == 200
        if not v6:
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("::1", probes.port)
        again = Probes([Health("watcher")])
        with pytest.raises(OSError, match="in use"):
            await again.start(EVERYWHERE, probes.port)
        await again.stop()
    finally:
        await probes.stop()
