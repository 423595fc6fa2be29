"""What an incumbent did beside what we would have done, where we decide in shadow."""

from __future__ import annotations

import asyncio
import html
import json
import re
import shlex
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from aiohttp import ClientSession, CookieJar

from tests.exports import write_export
from tests.unit.console.conftest import LOG, Browser, serve
from tidewright.asking.exported import ExportedLog
from tidewright.cli import main
from tidewright.console import beside
from tidewright.events import registry
from tidewright.events.decisions import ScaleWorkload
from tidewright.events.outcomes import Applied
from tidewright.log.export import ExportFile

PAGE = "/what-if?namespace=team-0&name=app-0&window=6h"


@pytest.fixture
def shadowed(tmp_path: Path) -> Path:
    """The recorded log as it would be had the autoscaler scaled in shadow: who changed the replicas was another one."""
    file = ExportFile(LOG)
    scales, records = set[str](), []
    for record in file.records():
        event = registry.read(record.body)
        if isinstance(event, ScaleWorkload):
            scales.add(event.id)
            shadow = msgspec.structs.replace(event, shadow=True)
            record = msgspec.structs.replace(record, body=registry.encode(shadow))
        if not (isinstance(event, Applied) and event.decision in scales):
            records.append(record)
    write_export(tmp_path / "shadow.twlog", file.manifest, [], records)
    return tmp_path / "shadow.twlog"


@pytest.fixture
async def looks(shadowed: Path) -> AsyncIterator[Browser]:
    console = await serve(ExportedLog(ExportFile(shadowed)))
    async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as session:
        yield await Browser(console, session).enter()
    await console.stop()


async def test_both_are_told_side_by_side_as_compare_does(
    looks: Browser, shadowed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = await looks.get(PAGE)
    assert page.status == 200
    assert "Beside the incumbent" in page.words
    words = ["compare", "wpa", "app-0", "-n", "team-0", "--log", str(shadowed), "-o", "json"]
    capsys.readouterr()
    assert await asyncio.to_thread(main.run, words) == 1  # they differ
    said = json.loads(capsys.readouterr().out)["items"][0]
    assert said["counts"]["onlyTheirs"] > 0
    assert f"only the other {said['counts']['onlyTheirs']} ." in page.words
    for row in said["rows"]:
        for change in (row["ours"], row["theirs"]):
            assert change is None or f"{change['from']} → {change['to']}" in page.words
        assert html.escape(row["why"][0], quote=False) in page.text


async def test_the_command_that_is_offered_for_earlier_changes_tells_them_all(
    looks: Browser, shadowed: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beside, "SHOWN", 1)
    page = await looks.get(PAGE)
    offered = re.search(r"(\d+) earlier ones: <code>tidewright (.*?)</code>", page.text)
    assert offered is not None
    begun = re.search(r"samples since <time>(.*?)</time>", page.text)
    assert begun is not None
    capsys.readouterr()
    words = [*shlex.split(html.unescape(offered[2])), "--log", str(shadowed), "-o", "json"]
    assert await asyncio.to_thread(main.run, words) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["since"].startswith(begun[1].replace(" ", "T"))
    assert len(said["items"][0]["rows"]) == int(offered[1]) + 1


async def test_nothing_is_compared_where_we_scale_ourselves(browser: Browser) -> None:
    page = await browser.get(PAGE)
    assert page.status == 200
    assert "Beside the incumbent" not in page.words


@pytest.mark.parametrize(
    ("typed", "said"),
    [("high0=1234.5678", "1234.568"), ("up_window=95", "95"), ("tolerance=0.0125", "0.013")],
)
async def test_a_number_that_is_typed_is_tried_as_it_is(browser: Browser, typed: str, said: str) -> None:
    page = await browser.get(f"{PAGE}&{typed}")
    assert page.status == 200
    fields = {
        a["name"]: a["value"] for tag, a in page.elements if tag == "input" and a.get("type") == "number"
    }
    assert fields[typed.partition("=")[0]] == said
    assert {"up_window", "down_window", "up_delay", "down_delay", "min", "max"} <= fields.keys()
