"""Where a push goes that reaches a watcher which does not sample."""

from __future__ import annotations

import pytest

from tidewright.host.loop import lookout
from tidewright.watcher import passing_on


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


def test_who_listens_on_every_address_is_reached_at_the_machines_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostbyname", lambda name: "10.9.8.7")
    assert passing_on.address("0.0.0.0", 8080, tls=False) == "http://10.9.8.7:8080"


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
