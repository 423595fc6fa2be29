"""Who is let in to an endpoint that the API server calls, and how slow or many callers are borne."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from tidewright.host.ports.bodies import Bodies
from tidewright.host.ports.connections import Bounds
from tidewright.host.ports.tokens import BadTokens, first_of
from tidewright.host.process.misconfigured import Misconfigured
from tidewright.host.webhook import certificates
from tidewright.host.webhook.callers import Callers, listen

TOKEN, OTHER = "kY7c1bq0Pq4Jw1nH2nV", "R3kq9sVn2cTtq0zY8w5L"


class Served:
    """An endpoint at work; `hold` keeps its answers back."""

    def __init__(self, port: int, registry: CollectorRegistry) -> None:
        self.url, self.registry = f"https://127.0.0.1:{port}", registry
        self.hold, self.answered = asyncio.Event(), 0
        self.hold.set()

    def refused(self, why: str) -> float:
        return self.registry.get_sample_value("tidewright_callers_refused_total", {"why": why}) or 0.0


@asynccontextmanager
async def served(**callers: object) -> AsyncIterator[Served]:
    registry, bounds = CollectorRegistry(), Bounds()
    certificate = certificates.make(("127.0.0.1",))
    context = certificates.server_context(certificate)
    asked = Callers("test", registry=registry, **callers)  # type: ignore[arg-type]  # as the test gives them
    asked.ask(context)
    app = web.Application(middlewares=[bounds.middleware])

    async def answer(request: web.Request, body: bytes) -> web.Response:
        await it.hold.wait()
        it.answered += 1
        return web.Response(body=body)

    asked.route(app, "/mutate", answer)
    runner = await listen(app, "127.0.0.1", 0, context, bounds)
    it = Served(int(runner.addresses[0][1]), registry)
    try:
        yield it
    finally:
        it.hold.set()
        await runner.cleanup()


def trusting(certificate: Path | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if certificate is not None:
        context.load_cert_chain(certificate)
    return context


async def post(
    it: Served, path: str = "/mutate", *, client: Path | None = None, headers: dict[str, str] | None = None
) -> int:
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{it.url}{path}", data=b"{}", ssl=trusting(client), headers=headers) as answer,
    ):
        return answer.status


def tokens(folder: Path, *lines: str) -> Path:
    file = folder / "tokens"
    file.write_text("\n".join(lines) + "\n")
    return file


async def test_a_token_lets_in_by_the_path_or_by_the_header_and_nothing_else_does(tmp_path: Path) -> None:
    async with served(token_file=tokens(tmp_path, TOKEN, OTHER)) as it:
        assert await post(it, f"/{TOKEN}/mutate") == 200
        assert await post(it, f"/{OTHER}/mutate") == 200  # one replaces the other in peace
        assert await post(it, headers={"Authorization": f"Bearer {TOKEN}"}) == 200
        assert await post(it) == 403
        assert await post(it, f"/{TOKEN[:-1]}/mutate") == 403
        assert await post(it, headers={"Authorization": "Bearer x"}) == 403
        assert (
            await post(it, "/wrong-wrong-wrong/mutate", headers={"Authorization": f"Bearer {TOKEN}"}) == 403
        )
        assert (it.answered, it.refused("caller")) == (3, 4.0)
        tokens(tmp_path, OTHER)
        assert await post(it, f"/{TOKEN}/mutate") == 403  # taken away without a restart


async def test_a_certificate_lets_in_when_the_authority_that_is_given_has_signed_it(tmp_path: Path) -> None:
    ours, others = (certificates.make(("apiserver",)) for _ in range(2))
    for name, made in (("ours", ours), ("others", others)):
        (tmp_path / f"{name}.pem").write_bytes(made._chain_pem + made._key_pem)
    ca = tmp_path / "ca.pem"
    ca.write_text(ours.ca_pem)
    async with served(client_ca=ca, token_file=tokens(tmp_path, TOKEN)) as it:
        assert await post(it) == 403
        assert await post(it, f"/{TOKEN}/mutate") == 200
        with pytest.raises(aiohttp.ClientError):
            await post(it, client=tmp_path / "others.pem")
    async with served(client_ca=ca) as it:
        with pytest.raises(aiohttp.ClientError):
            await post(it)
        assert it.answered == 0


async def test_without_either_whoever_reaches_it_is_answered() -> None:
    async with served() as it:
        assert await post(it) == 200
        assert await post(it, "/anything/mutate") == 200


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="cannot be read"):
        Callers("test", token_file=tmp_path / "none")
    (tmp_path / "ca.pem").write_text("no certificate")
    asked = Callers("test", client_ca=tmp_path / "ca.pem")
    with pytest.raises(Misconfigured, match=r"--client-ca .*ca.pem"):
        asked.ask(certificates.server_context(certificates.make(("x",))))
    assert first_of(tokens(tmp_path, "# of the endpoint", f"{TOKEN} shop", OTHER)) == TOKEN
    with pytest.raises(BadTokens, match=r"other characters than A-Za-z0-9\._~-"):
        first_of(tokens(tmp_path, "a/b/c/d/e/f/g/h/i/j"))


async def test_slow_bodies_keep_nobody_out() -> None:
    """Sixteen of them, as in the trial, where sixteen are all that may be on their way."""
    bodies = Bodies(max_bytes=1 << 20, within_s=60.0, at_once=16)
    async with served(bodies=bodies) as it:
        writers = []
        for _ in range(16):
            port = int(it.url.rpartition(":")[2])
            _reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting())
            writer.write(b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n{")
            await writer.drain()
            writers.append(writer)
        async with asyncio.timeout(90):
            assert await post(it) == 200
        for writer in writers:
            writer.close()


async def test_a_body_that_never_ends_is_given_up() -> None:
    async with served(bodies=Bodies(max_bytes=1 << 20, within_s=0.05)) as it:
        port = int(it.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting())
        writer.write(b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n{")
        async with asyncio.timeout(90):
            assert (await reader.readline()).split()[1] == b"408"
        writer.close()


async def test_a_long_body_is_refused_by_what_it_says_of_itself() -> None:
    async with served(bodies=Bodies(max_bytes=1, within_s=5.0)) as it:
        assert await post(it) == 413
        assert it.answered == 0


async def test_no_more_than_so_many_are_at_work() -> None:
    async with served(at_work=2) as it:
        it.hold.clear()
        asking = [asyncio.create_task(post(it)) for _ in range(3)]
        async with asyncio.timeout(90):
            done, _ = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
            it.hold.set()
            statuses = sorted([await one for one in asking])
        assert [one.result() for one in done] == [503]
        assert (statuses, it.refused("busy")) == ([200, 200, 503], 1.0)
