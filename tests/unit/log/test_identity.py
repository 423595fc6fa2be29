"""Who we are to NATS: lists of servers, passwords that nobody sees, certificates that are replaced."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import nats.errors
import pytest
import uvloop

from tests.attacks.bus import run_server
from tests.certificates import Authority
from tests.nats_server import EmbeddedServer
from tests.ports import free_port
from tests.waiting import until
from tidewright.log.connection import Log
from tidewright.log.errors import LogForbidden, LogUnavailable, NoUrl
from tidewright.log.identity import BusClient, Identity, client_options, shown
from tidewright.log.opening import opened


@pytest.mark.parametrize(
    ("url", "servers", "who"),
    [
        ("nats://u:p@a:4222,nats://u:p@b:4222", ["nats://a:4222", "nats://b:4222"], ("u", "p")),
        ("u:p@a, b:5000", ["nats://a", "nats://b:5000"], ("u", "p")),
        ("nats://u:p%40%2Fq@[::1]:4222", ["nats://[::1]:4222"], ("u", "p@/q")),
        ("nats://a", ["nats://a"], (None, None)),
    ],
)
def test_a_list_of_servers_has_one_user(url: str, servers: list[str], who: tuple[str, str]) -> None:
    found, options = client_options(url, Identity())
    assert found == servers
    assert (options.get("user"), options.get("password")) == who


@pytest.mark.parametrize(
    "url", ["", ",", "http://u:secret@a", "nats://u:secret@a:port", "nats://u:secret@:1"]
)
async def test_what_is_no_url_is_refused_without_its_password(url: str) -> None:
    """Who waits for servers that are away would wait for these for ever."""
    with pytest.raises(NoUrl, match="not the URL of a NATS server") as refused:
        await Log.connect(url, "test")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["nats://u:secret@a:1,nats://u:secret@b:2", "u:secret@a:1,u:sec@ret@b:2", "nats://u:secret@a:1"]
)
def test_no_password_is_shown(url: str) -> None:
    assert "sec" not in shown(url)
    assert "a:1" in shown(url)


async def test_the_servers_that_are_there_are_used(nats: EmbeddedServer) -> None:
    url = f"nats://127.0.0.1:{free_port()},{nats.url}"
    async with await Log.connect(url, "test", timeout_s=10.0) as log:
        await log.ensure(slots=4)
    with pytest.raises(LogUnavailable) as refused:
        await Log.connect("nats://u:secret@127.0.0.1:1,nats://u:secret@127.0.0.1:2", "test")
    assert "127.0.0.1:1,nats://127.0.0.1:2" in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def private(tmp_path: Path, authority: Authority) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A server that speaks TLS alone and asks for certificates; the user's password is in its configuration."""
    cert, key = authority.issue("server")
    port = free_port()
    text = (
        f'tls {{ cert_file: "{cert}", key_file: "{key}", ca_file: "{authority.ca}", verify: true }}\n'
        "authorization { user: u, password: p }\n"
    )
    with run_server(tmp_path, port, text) as process:
        yield f"nats://127.0.0.1:{port}", process


def identity(tmp_path: Path, authority: Authority) -> Identity:
    cert, key = authority.issue("client")
    password = tmp_path / "password"
    password.write_text("p\n")
    return Identity(ca=authority.ca, cert=cert, key=key, user="u", password_file=password)


async def test_a_private_authority_is_named_in_a_file(
    private: tuple[str, subprocess.Popen[bytes]], tmp_path: Path, authority: Authority
) -> None:
    url, _ = private
    who = identity(tmp_path, authority)
    async with await Log.connect(url, "test", credentials=who, timeout_s=10.0) as log:
        await log.ensure(slots=4)
    cases = (
        (Identity(), "name the file of its CA with --nats-ca"),
        (replace(who, ca=Authority(tmp_path, "other").ca), r"other\.pem is not the CA that signed it"),
        (replace(who, cert=None, key=None), "pass --nats-cert FILE and --nats-key FILE"),
        (replace(who, ca=tmp_path / "none"), r"--nats-ca .*none cannot be used"),
        (replace(who, cert=tmp_path / "none"), r"--nats-cert .*none .* cannot be used"),
        (replace(who, password_file=tmp_path / "none"), r"--nats-password-file .*none cannot be read"),
    )
    refusals = (Log.connect(url, "test", credentials=lacking) for lacking, _ in cases)
    async with asyncio.timeout(60):
        outcomes = await asyncio.gather(*refusals, return_exceptions=True)
    for (_, said), outcome in zip(cases, outcomes, strict=True):
        assert isinstance(outcome, LogForbidden), outcome
        assert re.search(said, str(outcome))


async def test_nothing_is_said_in_the_clear_where_tls_is_wanted(
    nats: EmbeddedServer, authority: Authority
) -> None:
    with pytest.raises(LogForbidden, match="does not speak TLS"):
        await Log.connect(nats.url, "test", credentials=Identity(ca=authority.ca))


async def test_a_server_without_tls_is_asked_for_without_it(nats: EmbeddedServer) -> None:
    with pytest.raises(LogForbidden, match="write nats:// in place of tls://"):
        await Log.connect(nats.url.replace("nats://", "tls://"), "test")


async def test_who_is_reached_by_a_name_that_its_certificate_lacks_is_not_told_of_authorities(
    private: tuple[str, subprocess.Popen[bytes]], tmp_path: Path, authority: Authority
) -> None:
    url, _ = private
    with pytest.raises(LogForbidden, match="reach it by a name that is in its certificate"):
        await Log.connect(
            url.replace("127.0.0.1", "localhost"), "test", credentials=identity(tmp_path, authority)
        )


async def test_the_end_of_a_connection_over_tls_is_said_to_nobody(
    private: tuple[str, subprocess.Popen[bytes]], tmp_path: Path, authority: Authority,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    """asyncio would warn on the stderr of each command, where its answer is read."""
    url, _ = private
    async with await Log.connect(url, "test", credentials=identity(tmp_path, authority), timeout_s=10.0):
        pass
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []


async def test_certificates_and_passwords_are_replaced_without_a_restart(
    private: tuple[str, subprocess.Popen[bytes]], tmp_path: Path, authority: Authority
) -> None:
    url, process = private
    who = identity(tmp_path, authority)
    async with await Log.connect(url, "test", credentials=who, timeout_s=10.0) as log:
        await log.ensure(slots=4)
        config = tmp_path / "bus.conf"
        # Another authority signs all of them from now on, and the password is another.
        other = Authority(tmp_path, "ca")
        other.issue("server")
        other.issue("client")
        (tmp_path / "password").write_text("q\n")
        config.write_text(config.read_text().replace("password: p", "password: q"))
        reconnects = log.client.stats["reconnects"]
        process.send_signal(signal.SIGHUP)
        await until(lambda: log.client.stats["reconnects"] != reconnects and log.client.is_connected)
        assert await log.adopt_slots() == 4


@pytest.mark.parametrize("first", ["file", "server"])
async def test_who_is_turned_away_comes_back_with_what_lies_there_then(tmp_path: Path, first: str) -> None:
    """The server says why it ends a connection, and the library would give up for good at whatever it says."""
    port, password = free_port(), tmp_path / "password"
    password.write_text("p\n")
    with run_server(tmp_path, port, "authorization { user: u, password: p }\n") as process:
        who = Identity(user="u", password_file=password)
        async with await Log.connect(
            f"nats://127.0.0.1:{port}", "test", credentials=who, timeout_s=1.0
        ) as log:
            await log.ensure(slots=4)

            async def asked() -> str:
                try:
                    await log.bounds()
                except LogUnavailable as error:
                    return str(error)
                return ""

            if first == "file":
                password.write_text("q\n")
            config = tmp_path / "bus.conf"
            config.write_text(config.read_text().replace("password: p", "password: q"))
            process.send_signal(signal.SIGHUP)
            if first == "server":
                await until(asked, lambda why: "does not let us in any more" in why)
                password.write_text("q\n")
            await until(lambda: log.client.stats["reconnects"] > 0)
            await until(asked, lambda why: not why)
            assert log.client.turned_away == ""


async def left(client: BusClient) -> None:
    """Somebody has waited for an answer for too long."""
    await client.leave()


async def stale(client: BusClient) -> None:
    """The client library has seen no sign of life for too long."""
    await client._process_op_err(nats.errors.StaleConnectionError())


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("leaving", [left, stale])
@pytest.mark.parametrize("tls", [True, False], ids=["tls", "plain"])
def test_nobody_waits_for_the_farewell_of_a_server_that_is_silent(
    tmp_path: Path, authority: Authority, tls: bool,
    leaving: Callable[[BusClient], Coroutine[None, None, None]], loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:  # fmt: skip
    """Over TLS that is 30 s, and without it for ever if there is something left to send."""
    cert, key = authority.issue("server")
    text = f'tls {{ cert_file: "{cert}", key_file: "{key}" }}\n' if tls else ""
    who = Identity(ca=authority.ca) if tls else Identity()
    ports = free_port(), free_port()
    urls = [f"nats://127.0.0.1:{port}" for port in ports]

    async def goes_on(servers: dict[str, subprocess.Popen[bytes]]) -> None:
        client, _ = await opened(",".join(urls), who, "test")
        silent = client.server
        servers[silent].send_signal(signal.SIGSTOP)
        try:
            writer = client._transport._io_writer  # type: ignore[union-attr]  # connected, by TCP
            while not writer.transport.get_write_buffer_size():
                writer.write(b"PUB a 1000000\r\n" + bytes(1_000_000) + b"\r\n")
            await leaving(client)
            await until(lambda: client.is_connected and client.server != silent, within_s=20.0)
            await client.flush(timeout=20)
        finally:
            servers[silent].send_signal(signal.SIGCONT)
            await client.close()

    with (
        run_server(tmp_path, ports[0], text, "one") as one,
        run_server(tmp_path, ports[1], text, "other") as other,
        asyncio.Runner(loop_factory=loop) as runner,
    ):
        runner.run(goes_on(dict(zip(urls, (one, other), strict=True))))


async def test_of_servers_that_are_left_the_one_that_was_left_first_is_tried_again_last() -> None:
    """By chance one that is cut off would be come back to while the others are still looking for a leader."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"server_id":"x","version":"2.14.0","max_payload":1048576,"headers":true}\r\n')
        while line := await reader.readline():
            if line.startswith(b"PING"):
                writer.write(b"PONG\r\n")
        writer.close()

    def come(client: BusClient, count: int) -> bool:
        return client.is_connected and client.stats["reconnects"] == count

    async with AsyncExitStack() as opened_servers:
        listening = [
            await opened_servers.enter_async_context(await asyncio.start_server(serve, "127.0.0.1", 0))
            for _ in range(3)
        ]
        ports = [server.sockets[0].getsockname()[1] for server in listening]
        client, _ = await opened(",".join(f"nats://127.0.0.1:{port}" for port in ports), None, "test")
        try:
            visited = [client.server]
            for count in range(1, 9):
                await client.leave()
                await until(partial(come, client, count))
                visited.append(client.server)
        finally:
            await client.close()
    assert len(set(visited[:3])) == 3
    assert visited == visited[:3] * 3
