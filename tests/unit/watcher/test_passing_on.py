"""Where a push goes that reaches a watcher which does not sample."""

from __future__ import annotations

import socket
from typing import cast

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from tests.waiting import until
from tidewright.host.loop import lookout
from tidewright.host.process.health import Health
from tidewright.host.process.process import Process, ProcessOptions
from tidewright.watcher import passing_on, pushport
from tidewright.watcher.pushport import PushOptions, PushPort
from tidewright.watcher.sampler import Sampler


@pytest.mark.parametrize(
    ("host", "port", "tls", "url"),
    [
        ("127.0.0.1", 8080, False, "http://127.0.0.1:8080"),
        ("10.1.2.3", 9443, True, "https://10.1.2.3:9443"),
        ("fd00::7", 8080, False, "http://[fd00::7]:8080"),
        ("127.0.0.1", 0, False, ""),
    ],
)
def test_a_watcher_says_where_it_takes_pushes(host: str, port: int, tls: bool, url: str) -> None:
    assert passing_on.address(host, port, tls=tls) == url
    entry = lookout.entry([*lookout.NEEDED, *passing_on.said(url)])
    assert lookout.parts_of(entry) == lookout.NEEDED
    assert passing_on.place([b"-", entry]) == url


def named(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> list[str]:
    """This machine's name has these addresses; the names that are asked for."""
    asked: list[str] = []

    def look(name: str, port: object, family: int = 0, *_: object, **__: object) -> list[tuple[object, ...]]:
        asked.append(name)
        families = {one: socket.AF_INET6 if ":" in one else socket.AF_INET for one in addresses}
        found: list[tuple[object, ...]] = [
            (of, socket.SOCK_STREAM, 6, "", (one, 0)) for one, of in families.items() if family in (0, of)
        ]
        if not found:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return found

    monkeypatch.setattr("socket.getaddrinfo", look)
    return asked


@pytest.mark.parametrize(
    ("host", "addresses", "called"),
    [
        ("0.0.0.0", ["fd00::7", "10.9.8.7"], "10.9.8.7"),
        ("::", ["10.9.8.7", "fe80::1", "fd00::7"], "10.9.8.7"),
        ("::", ["fe80::1", "fd00::7"], "fd00::7"),
        ("", ["fd00::7"], "fd00::7"),
        ("0.0.0.0", ["127.0.1.1", "10.9.8.7"], "10.9.8.7"),
        ("0.0.0.0", ["127.0.1.1"], "127.0.1.1"),
        ("0.0.0.0", ["fd00::7"], ""),
        ("::", ["fe80::1"], ""),
        ("10.1.2.3", [], "10.1.2.3"),
    ],
)
async def test_who_listens_on_every_address_is_reached_at_the_machines_own(
    monkeypatch: pytest.MonkeyPatch, host: str, addresses: list[str], called: str
) -> None:
    named(monkeypatch, *addresses)
    assert await passing_on.called_at(host) == called


async def test_the_address_is_looked_for_until_it_is_found_and_its_lack_said_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pushport, "LOOK_AGAIN_S", 0.01)
    asked = named(monkeypatch, "fd00::7")
    process = Process(ProcessOptions("watcher", health_host="0.0.0.0"), Health("watcher"))
    process.health.port = 8080
    with capture_logs() as logs:
        port = PushPort(
            PushOptions(token="a-token-that-nobody-guesses shop"),
            cast("Sampler", None),
            process,
            CollectorRegistry(),
        )
        async with port.served():
            await until(lambda: len(asked) > 2)
            assert port.address == ""
            asked = named(monkeypatch, "10.9.8.7")
            await until(lambda: port.address)
            assert port.address == "http://10.9.8.7:8080"
            assert len(asked) == 1
    said = [line for line in logs if "cannot pass pushes on" in line["event"]]
    assert [(line["host"], "--health-host" in line["do"]) for line in said] == [("0.0.0.0", True)]


@pytest.mark.parametrize(
    "said",
    [
        b"", b"-", b"pushes=", b"pushes=ftp://10.0.0.1:21", b"pushes=http://10.0.0.1", b"pushes=http://10.0.0.1:80/path",
        b"pushes=http://user:word@10.0.0.1:80", b"pushes=http://example.org:80", b"pushes=http://[::1:80", b"pushes=http://10.0.0.1:x",
        b"pushes=http://0.0.0.0:80", b"\xff\xfe pushes=\xff",
    ],
)  # fmt: skip
def test_an_entry_that_names_no_address_is_passed_over(said: bytes) -> None:
    assert passing_on.place([said]) == ""
    assert passing_on.place([said, b"modes pushes=http://10.0.0.2:80"]) == "http://10.0.0.2:80"


async def test_what_was_passed_on_is_not_passed_on_again() -> None:
    way = passing_on.PassingOn(lambda: {"other": b"pushes=http://127.0.0.1:9"})
    assert await way.answer("/v1/metrics", {passing_on.PASSED_ON: "1"}, b"[]") is None
    assert await way.answer("/v1/metrics", {}, b"[]") is None  # nobody listens there
