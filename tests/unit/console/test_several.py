"""A console of several clusters: which of them a path leads to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import ClientSession, CookieJar

from tests.unit.console.conftest import LOG, ONCE, Browser
from tidewright.asking.errors import BadInput
from tidewright.asking.exported import ExportedLog
from tidewright.asking.options import AskedLogOptions
from tidewright.asking.running_log import RunningLog
from tidewright.asking.source import Source
from tidewright.cli import main, webconsole
from tidewright.console import listing
from tidewright.console.access import Access, named
from tidewright.console.server import Console, place_of
from tidewright.log.connection import Log
from tidewright.log.export import ExportFile

PLACES = {"east": "", "west": "/in/west", "north": "/in/north"}


@pytest.fixture
async def visitor() -> AsyncIterator[Browser]:
    """A browser that is not let in yet, at the console of three clusters."""
    access = Access(frozenset(), once=ONCE)
    first, *others = (
        Console(ExportedLog(ExportFile(LOG)), access, following=False, under=under, clusters=PLACES)
        for under in PLACES.values()
    )
    first.others = tuple(others)
    await first.start("127.0.0.1", 0)
    access.hosts = named("127.0.0.1", first.port, ())
    async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as session:
        yield Browser(first, session)
    await first.stop()


@pytest.mark.parametrize("under", ["/in/west", "/in/north"])
async def test_a_cluster_without_the_last_slash_is_its_first_page(visitor: Browser, under: str) -> None:
    await visitor.enter()
    answer = await visitor.get(f"{under}?at=seq:3000")
    assert (answer.status, answer.headers["Location"]) == (303, f"{under}/?at=seq:3000")
    page = await visitor.get(under, follow=True)
    assert page.status == 200
    assert ("body", under) in [(tag, a.get("data-under")) for tag, a in page.elements]


@pytest.mark.parametrize(
    ("path", "under"),
    [
        ("/in/west/no-such-page", "/in/west"),
        ("/in/north/no-such-page", "/in/north"),
        ("/in/west/capacity?at=nonsense", "/in/west"),
        ("/in/westward/", ""),
        ("/no-such-page", ""),
    ],
)
async def test_what_cannot_be_answered_leads_on_to_the_same_cluster(
    visitor: Browser, path: str, under: str
) -> None:
    page = await (await visitor.enter()).get(path)
    assert page.status in (400, 404)
    links = {a["href"] for tag, a in page.elements if tag == "a"}
    assert f"{under}/capacity" in links
    current = [a["href"] for tag, a in page.elements if tag == "a" and a.get("aria-current") == "true"]
    assert current == [f"{under}/"]


@pytest.mark.parametrize("under", PLACES.values())
async def test_questions_of_whoever_is_not_let_in_are_answered_as_questions(
    visitor: Browser, under: str
) -> None:
    answer = await visitor.get(f"{under}/api/v1/get")
    assert (answer.status, answer.headers["Content-Type"].partition(";")[0]) == (401, "application/json")


@pytest.mark.parametrize("option", ["--log", "--data", "--archive"])
def test_further_clusters_are_refused_beside_the_log_of_one(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["console", option, str(tmp_path / "march"), "--also", "west"]) == 2
    assert f"--also and {option} {tmp_path / 'march'}: " in capsys.readouterr().err


def test_a_log_of_another_cluster_is_not_shown_under_the_name_that_was_asked_for(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """`local` is the default, and counts as no name where a stack runs."""

    @asynccontextmanager
    async def opened(where: AskedLogOptions, _: Path | None) -> AsyncIterator[Source]:
        cluster = "shop" if where.cluster == "local" else where.cluster
        yield RunningLog(Log(None, cluster, "nats://127.0.0.1:1", 1.0))  # type: ignore[arg-type]  # it is not asked

    monkeypatch.setattr(webconsole, "opened", opened)
    assert main.run(["console", "--cluster", "east", "--also", "local"]) == 2
    said = capfd.readouterr()
    assert "--also local: what is found under this name is the log of cluster shop" in said.out + said.err


ODD = ("prod eu", "a/b", "50% off", "été", "a+b", "x&y=1", "it's", "{name}", 'quo"te', "50%20", "#1?", "<b>")


@asynccontextmanager
async def beside(name: str) -> AsyncIterator[Browser]:
    """A browser at the console of two clusters, of which one has such a name."""
    access = Access(frozenset(), once=ONCE)
    places = {"east": "", name: place_of(name)}
    first, other = (
        Console(ExportedLog(ExportFile(LOG)), access, following=False, under=under, clusters=places)
        for under in places.values()
    )
    first.others = (other,)
    await first.start("127.0.0.1", 0)
    access.hosts = named("127.0.0.1", first.port, ())
    async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as session:
        yield Browser(first, session)
    await first.stop()


@pytest.mark.parametrize("name", ODD)
async def test_every_name_of_a_cluster_leads_to_its_pages_and_from_one_to_the_next(name: str) -> None:
    async with beside(name) as browser:
        under = place_of(name)
        token = await browser.get(f"{under}/events?token={ONCE}&at=seq:3000")
        assert (token.status, token.headers["Location"]) == (303, f"{under}/events?at=seq:3000")
        start = await browser.get("/?at=seq:3000")
        (there,) = {
            a["href"] for tag, a in start.elements if tag == "a" and a.get("href", "").startswith("/in/")
        }
        assert there == f"{under}/"
        assert name in start.words
        for path, here in (("/", "/"), ("/events", "/events"), ("/capacity", "/capacity")):
            page = await browser.get(f"{under}{path}?at=seq:3000")
            assert page.status == 200, path
            ours = {a["href"] for tag, a in page.elements if tag == "a" and a.get("aria-current") == "page"}
            assert [url.partition("?")[0] for url in ours] == [f"{under}{here}"]
            (form,) = (a for tag, a in page.elements if tag == "form" and a.get("id") == "time")
            assert form["action"] == f"{under}{path}"
            assert (await browser.get(f"{form['action']}?at=seq:2000")).status == 200
            links = {a["href"] for tag, a in page.elements if tag == "a" and a["href"].startswith("/object")}
            assert not links, "a page of this cluster leads to those of this cluster"
        lost = await browser.get(f"{under}/no-such-page")
        assert lost.status == 404
        assert f"{under}/capacity" in {a["href"] for tag, a in lost.elements if tag == "a"}
        assert (await browser.get(f"{under}/api/v1/get")).status == 200


async def test_the_next_page_of_a_list_is_one_of_the_same_cluster(
    visitor: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "AT_ONCE", 1)
    page = await (await visitor.enter()).get("/in/west/objects/watermarkpodautoscaler?at=seq:3000")
    (onward,) = (a["href"] for tag, a in page.elements if tag == "a" and a.get("rel") == "next")
    assert onward.startswith("/in/west/objects/watermarkpodautoscaler?")
    assert (await visitor.get(onward)).status == 200


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_name_that_no_path_can_have_is_refused(name: str) -> None:
    with pytest.raises(BadInput, match="no path can have this name"):
        place_of(name)
