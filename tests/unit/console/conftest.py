"""A console on the recorded log, and a browser that is let in or not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

import pytest
from aiohttp import ClientSession, CookieJar

from tests.unit.console import children
from tidewright.asking.exported import ExportedLog
from tidewright.asking.source import Source
from tidewright.console import apart
from tidewright.console.access import Access, named
from tidewright.console.server import Console
from tidewright.log.export import ExportFile

LOG = Path(__file__).parents[2] / "recorded" / "chaos.twlog"
ONCE = "a-token-that-lets-in-once"


@pytest.fixture(autouse=True)
def no_lowest_priority(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that is made by a child comes while others test, too; which priority a child has, is tested of children alone."""
    if request.path.name != "test_apart.py":
        monkeypatch.setattr(apart, "_begin", children.begin)


@dataclass(frozen=True)
class Got:
    """An answer.

    Attributes:
        elements: tag and attributes of everything on the page, in order.
    """

    status: int
    text: str
    headers: dict[str, str]

    @property
    def elements(self) -> list[tuple[str, dict[str, str]]]:
        found: list[tuple[str, dict[str, str]]] = []

        class Reading(HTMLParser):
            def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
                found.append((tag, {name: value or "" for name, value in attrs}))

        Reading().feed(self.text)
        return found

    @property
    def words(self) -> str:
        """The text of the page, without its elements."""
        parts: list[str] = []

        class Reading(HTMLParser):
            def handle_data(self, data: str) -> None:
                parts.append(data)

        Reading().feed(self.text)
        return " ".join(" ".join(parts).split())


class Browser:
    """What asks a console."""

    def __init__(self, console: Console, session: ClientSession) -> None:
        self.console, self.session = console, session
        self.root = f"http://127.0.0.1:{console.port}"

    async def get(self, path: str, *, method: str = "GET", follow: bool = False, **headers: str) -> Got:
        """One request; a header's `_` stands for `-`."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.session.request(
            method, self.root + path, headers=given, allow_redirects=follow
        ) as answer:
            text = (await answer.read()).decode()
            return Got(answer.status, text, dict(answer.headers))

    async def enter(self) -> Browser:
        """Be let in."""
        answer = await self.get(f"/?token={ONCE}")
        assert answer.status == 303
        return self


async def serve(source: Source, access: Access | None = None) -> Console:
    """A console on a free port of this machine."""
    console = Console(source, access or Access(frozenset(), once=ONCE), following=False)
    await console.start("127.0.0.1", 0)
    console.access.hosts = named("127.0.0.1", console.port, ())
    return console


@pytest.fixture
async def stranger() -> AsyncIterator[Browser]:
    """A browser that is not let in yet."""
    console = await serve(ExportedLog(ExportFile(LOG)))
    async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as session:
        yield Browser(console, session)
    await console.stop()


@pytest.fixture
async def browser(stranger: Browser) -> Browser:
    """A browser that is let in."""
    return await stranger.enter()
