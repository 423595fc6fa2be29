"""What others wrote does nothing: not on a page, not in a line of the command line."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import pytest
from aiohttp import ClientSession, CookieJar

from tests.unit.console.conftest import Browser, serve
from tests.unit.console.hostile import NAME, SPACE, hostile_log
from tidewright.asking.exported import ExportedLog
from tidewright.cli import main
from tidewright.log.export import ExportFile

OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
WHO = f"{quote(SPACE)}/{quote(NAME, safe='')}"
PAGES = (
    "/", "/events", "/events?text=script", "/objects/watermarkpodautoscaler", "/objects/nodegroup", f"/object/wpa/{WHO}",
    f"/object/wpa/{WHO}?decision=autoscaler.1.2.0", f"/object/deployment/{WHO}", f"/object/nodegroup/_/{quote(NAME, safe='')}",
    "/capacity", "/shards", "/trust", "/what-if", f"/what-if?namespace={SPACE}&name={quote(NAME)}",
    f"/?at={quote(NAME)}", f"/events?text={quote(NAME)}", f"/objects/{quote(NAME, safe='')}", f"/object/{quote(NAME, safe='')}/a/b",
)  # fmt: skip
LINES = (
    ["get", "wpa", "-A"], ["get", "nodegroup"], ["events"], ["events", "-o", "wide"], ["get"],
    ["explain", f"wpa/{NAME}", "-n", SPACE], ["explain", f"nodegroup/{NAME}"], ["state", f"wpa/{NAME}", "-n", SPACE],
    ["explain", "--decision", "autoscaler.1.2.0"], ["series", f"wpa/{NAME}", "-n", SPACE], ["explain", "wpa/shap", "-n", SPACE],
    *(["get", "wpa", "-A", "-o", form] for form in ("wide", "json", "yaml", "name")),
    *(["events", "-o", form] for form in ("json", "yaml", "name")), ["events", "--parked"],
    *(["explain", f"wpa/{NAME}", "-n", SPACE, "-o", form] for form in ("json", "yaml", "name")),
    *(["state", f"wpa/{NAME}", "-n", SPACE, "-o", form] for form in ("json", "yaml", "name")),
    ["compare", "wpa", "-A"], ["verify"], ["plan", "scale-down"], ["get", f"{NAME}"], ["events", "--for", f"wpa/{NAME}", "-n", SPACE],
)  # fmt: skip


@pytest.fixture
async def hostile(tmp_path: Path) -> AsyncIterator[Browser]:
    """A browser that is let in to a console of a hostile log."""
    console = await serve(ExportedLog(ExportFile(hostile_log(tmp_path))))
    async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as session:
        yield await Browser(console, session).enter()
    await console.stop()


@pytest.mark.parametrize("path", PAGES)
async def test_nothing_of_it_is_an_element_of_a_page(hostile: Browser, path: str) -> None:
    page = await hostile.get(path)
    assert page.status in (200, 400, 404), page.words
    assert not OBEYED.search(page.text)
    for tag, attributes in page.elements:
        assert tag != "img" or attributes["src"] == "/static/icon.svg"
        assert tag != "script" or attributes["src"] == "/static/console.js"
        assert not [name for name in attributes if name.startswith("on")], (tag, attributes)
        for name in ("href", "src", "action"):
            assert attributes.get(name, "/").startswith(("/", "#", "?")), (tag, attributes)
            assert not attributes.get(name, "/").startswith("//"), (tag, attributes)


@pytest.mark.parametrize("words", LINES, ids=" ".join)
async def test_nothing_of_it_is_obeyed_by_a_terminal(
    tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    log = hostile_log(tmp_path)
    code = await asyncio.to_thread(main.run, [*words, "--state" if words[0] == "plan" else "--log", str(log)])
    said = capsys.readouterr()
    assert code in (0, 1, 2), said.err
    assert said.out or said.err
    assert not OBEYED.search(said.out + said.err)
    if "loud" in said.out:
        assert "[bold red]loud" in said.out.replace("\n", "")
