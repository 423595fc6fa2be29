"""A browser, the console that it looks at, and what is asked beside it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from shutil import which
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.nats_server import EmbeddedServer
from tests.unit.console.conftest import ONCE, serve
from tests.unit.console.test_live import group
from tidewright.asking.running_log import RunningLog
from tidewright.asking.source import Source
from tidewright.console.access import Access, named
from tidewright.console.server import Console
from tidewright.log.connection import Log
from tidewright.log.install import Plan, install_log

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := which(name))), None
)
IN_A_BROWSER = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: apt-get install chromium"),
    pytest.mark.timeout(180),
]
WITHIN_MS = 60_000
"""Surely too long for anything that a page does."""


class Served:
    """A console in a thread of its own, since a browser is waited for."""

    def __init__(self, source: Source | None) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.console: Console = self.run(self._begun(source))
        self.source = self.console.source

    async def _begun(self, source: Source | None) -> Console:
        assert source is not None
        return await serve(source)

    async def _ended(self) -> None:
        await self.console.stop()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(170)

    def close(self) -> None:
        self.run(self._ended())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)

    @property
    def root(self) -> str:
        port: int = self.console.port
        return f"http://127.0.0.1:{port}"


class Written(Served):
    """A console of a log that is written meanwhile, on a server of its own."""

    log: Log

    def __init__(self, folder: Path) -> None:
        self._server = EmbeddedServer(folder)
        super().__init__(None)

    async def _begun(self, source: Source | None) -> Console:
        self.log = await Log.connect(await self._server.start(), "test", timeout_s=30.0)
        await install_log(self.log, Plan(slots=8, deciders=("counting",)))
        await self.log.commit([group(self.log, "small", 2, 0.0)])
        self.log.directly = True
        console = Console(RunningLog(self.log), Access(frozenset(), once=ONCE))
        await console.start("127.0.0.1", 0)
        console.access.hosts = named("127.0.0.1", console.port, ())
        return console

    async def _ended(self) -> None:
        await super()._ended()
        await self.log.close()
        await self._server.stop()


@dataclass
class Tab:
    """A page of the browser, and what it complained of."""

    page: Any
    root: str
    complaints: list[str] = field(default_factory=list)

    def open(self, path: str) -> Any:
        self.page.goto(self.root + path)
        return self.page

    @property
    def at(self) -> str:
        query: str = urlsplit(str(self.page.url)).query
        return parse_qs(query).get("at", [""])[0]


def entered_in(chromium: Any, served: Served) -> Any:
    context = chromium.new_context()
    page = context.new_page()
    page.goto(f"{served.root}/?token={ONCE}")
    assert "token" not in page.url
    state = context.storage_state()
    context.close()
    return state


def tab_on(chromium: Any, root: str, state: Any, **more: Any) -> Iterator[Tab]:
    context = chromium.new_context(
        storage_state=state, **{"viewport": {"width": 1280, "height": 900}, **more}
    )
    context.set_default_timeout(WITHIN_MS)
    tab = Tab(context.new_page(), root)
    tab.page.on("console", lambda said: tab.complaints.append(said.text) if said.type == "error" else None)
    tab.page.on("pageerror", lambda error: tab.complaints.append(str(error)))
    yield tab
    context.close()
    assert not tab.complaints


def beyond_their_cards(page: Any) -> list[str]:
    """Cards whose content stands out of them."""
    out = "[...document.querySelectorAll('.card')].filter(card => card.scrollWidth > card.clientWidth + 1)"
    found: list[str] = page.evaluate(f"{out}.map(card => card.innerText.slice(0, 60))")
    return found


def answered(served: Served, capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    """What a command of ours answers with `-o json`; in a thread, since this one has the browser's loop."""
    from tidewright.cli import main

    code = served.run(asyncio.to_thread(main.run, [*words, "-o", "json"]))
    said = capsys.readouterr()
    assert code in (0, 1), said.err
    return json.loads(said.out)
