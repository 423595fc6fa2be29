"""Who is let in, under which names, and what is sent with every answer."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import pytest
from aiohttp import ClientSession, CookieJar

from tests.unit.console.conftest import LOG, ONCE, Browser, serve
from tidewright.asking.exported import ExportedLog
from tidewright.cli import main
from tidewright.console.access import Access, named
from tidewright.host.ports.tokens import Tokens
from tidewright.log.export import ExportFile

PAGES = (
    "/",
    "/objects/watermarkpodautoscaler",
    "/object/watermarkpodautoscaler/team-0/app-0",
    "/events",
    "/live",
    "/api/v1/get",
)


@pytest.mark.parametrize("path", PAGES)
async def test_nobody_sees_anything_without_a_token(stranger: Browser, path: str) -> None:
    answer = await stranger.get(path)
    assert answer.status == 401
    assert "app-0" not in answer.text
    assert "team-0" not in answer.text


async def test_a_token_lets_in_once_and_a_cookie_from_then_on(stranger: Browser) -> None:
    wrong = await stranger.get("/?token=another-one")
    assert wrong.status == 401
    first = await stranger.get(f"/events?token={ONCE}&class=fact")
    assert (first.status, first.headers["Location"]) == (303, "/events?class=fact")
    cookie = first.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert (await stranger.get("/events")).status == 200
    stranger.session.cookie_jar.clear()
    again = await stranger.get(f"/?token={ONCE}")
    assert again.status == 401
    assert "Set-Cookie" not in again.headers


async def test_who_is_let_in_stays_here(stranger: Browser) -> None:
    """A path that begins with two slashes would be another host, where a redirect names it."""
    answer = await stranger.get(f"//evil.example/events?token={ONCE}")
    assert (answer.status, answer.headers["Location"]) == (303, "/evil.example/events")


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1.evil.example:{port}"]
)
async def test_a_name_that_is_not_ours_gets_nothing(browser: Browser, host: str) -> None:
    answer = await browser.get("/", Host=host.format(port=browser.console.port))
    assert answer.status == 403
    assert "app-0" not in answer.text


async def test_another_sites_page_gets_nothing_and_its_links_work(browser: Browser) -> None:
    assert (await browser.get("/", Origin="https://evil.example")).status == 403
    assert (await browser.get("/", Origin="null")).status == 403
    assert (await browser.get("/", Origin=browser.root)).status == 200
    assert (await browser.get("/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="no-cors")).status == 403
    assert (await browser.get("/", Sec_Fetch_Site="same-site", Sec_Fetch_Mode="cors")).status == 403
    assert (await browser.get("/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate")).status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_nothing_but_get_is_taken(browser: Browser, method: str) -> None:
    for path in PAGES:
        assert (await browser.get(path, method=method)).status == 405


@pytest.mark.parametrize("path", [*PAGES[:4], "/nothing", "/?at=never", "/static/console.js", "/api/v1/get"])
async def test_every_answer_lets_nothing_but_our_own_files_run(browser: Browser, path: str) -> None:
    answer = await browser.get(path)
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    for tag, attributes in answer.elements:
        assert "style" not in attributes, (tag, attributes)
        assert not [name for name in attributes if name.startswith("on")], (tag, attributes)
        assert tag != "style"
        if tag == "script":
            assert attributes["src"] == "/static/console.js"
        for name in ("src", "href", "action"):
            assert attributes.get(name, "/").startswith(("/", "#", "?")), (tag, attributes)


async def test_a_token_of_a_file_is_exchanged_as_often_as_one_likes(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text("the-token-of-everybody-who-looks\nonly-in-one-namespace shop\n")
    access = Access(frozenset(), tokens=Tokens(file))
    console = await serve(ExportedLog(ExportFile(LOG)), access)
    try:
        for _ in range(2):
            async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as session:
                browser = Browser(console, session)
                assert (
                    await browser.get("/enter", Authorization="Bearer only-in-one-namespace")
                ).status == 401
                entered = await browser.get("/enter", Authorization="Bearer the-token-of-everybody-who-looks")
                assert (entered.status, entered.headers["Location"]) == (303, "/")
                assert (await browser.get("/")).status == 200
    finally:
        await console.stop()


async def test_who_came_with_a_token_that_is_taken_away_goes(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text("the-token-of-somebody-who-leaves\nthe-token-of-everybody-else\n")
    console = await serve(ExportedLog(ExportFile(LOG)), Access(frozenset(), tokens=Tokens(file)))
    try:
        for token, status in (
            ("the-token-of-somebody-who-leaves", 401),
            ("the-token-of-everybody-else", 200),
        ):
            file.write_text("the-token-of-somebody-who-leaves\nthe-token-of-everybody-else\n")
            async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as session:
                browser = Browser(console, session)
                await browser.get("/enter", Authorization=f"Bearer {token}")
                assert (await browser.get("/")).status == 200
                file.write_text("the-token-of-everybody-else\n")
                assert (await browser.get("/")).status == status
    finally:
        await console.stop()


async def test_a_proxys_header_is_believed_from_its_addresses_alone() -> None:
    source = ExportedLog(ExportFile(LOG))
    for network, status in (("127.0.0.0/8", 200), ("10.0.0.0/8", 401)):
        access = Access(frozenset(), proxy_header="X-User", proxies=(ipaddress.ip_network(network),))
        console = await serve(source, access)
        try:
            async with ClientSession() as session:
                browser = Browser(console, session)
                assert (await browser.get("/", X_User="anna")).status == status
                assert (await browser.get("/")).status == 401
                assert (await browser.get("/", X_User="")).status == 401
        finally:
            await console.stop()


def test_names_that_it_is_reached_by() -> None:
    assert "127.0.0.1:80" in named("127.0.0.1", 80, ())
    assert "10.0.0.9:80" not in named("0.0.0.0", 80, ())
    assert {"shop.example", "shop.example:80"} <= named("0.0.0.0", 80, ("Shop.Example",))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--listen", "0.0.0.0"], "a --token-file is needed"),
        (["--proxy-header", "X-User"], "give both"),
        (["--proxy-from", "10.0.0.1"], "give both"),
        (["--proxy-header", "X-User", "--proxy-from", "shop"], "an address or a network"),
        (["--proxy-header", "X-User", "--proxy-from", "10.0.0.1", "--token-file", "t"], "give one of them"),
    ],
)
def test_what_would_let_in_everybody_is_refused(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["console", "--log", str(LOG), *words]) == 2
    assert said in capsys.readouterr().err
