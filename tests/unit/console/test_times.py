"""On every page an event has the time that `events -o json` gives it, and what is listed by time is in its order."""

from __future__ import annotations

import asyncio
import html
import json
import re
from collections.abc import AsyncIterator
from urllib.parse import quote

import pytest
from aiohttp import ClientSession, CookieJar

from tests.unit.console.conftest import LOG as CHAOS
from tests.unit.console.conftest import Browser, serve
from tidewright.asking.exported import ExportedLog
from tidewright.cli import main
from tidewright.log.export import ExportFile

DEMO = CHAOS.with_name("demo.twlog")
OBJECT = "/object/watermarkpodautoscaler/demo/shop"


@pytest.fixture
async def demo() -> AsyncIterator[Browser]:
    console = await serve(ExportedLog(ExportFile(DEMO)))
    async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as session:
        yield await Browser(console, session).enter()
    await console.stop()


async def test_a_decision_has_the_same_time_on_every_page(
    demo: Browser, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await asyncio.to_thread(main.run, ["events", "--log", str(DEMO), "-o", "json"]) == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    at = {str(event["sequence"]): event["at"][:19].replace("T", " ") for event in events}
    by_id = {event["decision"]: event for event in events if event["class"] == "decision"}
    scales = [event for event in by_id.values() if event["event"]["type"] == "decision.scale-workload.v1"]
    assert len(scales) > 20
    for scale in scales[::6]:
        moment = quote(f"seq:{scale['sequence'] + 30}")
        page = await demo.get(f"/events?window=1d&at={moment}")
        rows = re.findall(r'<time>([^<]+)</time></a></td>\s*<td class="n">(\d+)</td>', page.text)
        assert len(rows) > 100
        assert all(at[seq] == shown for shown, seq in rows)
        assert [shown for shown, _ in rows] == sorted((shown for shown, _ in rows), reverse=True)

        overview = await demo.get(f"/?window=1d&at={moment}")
        changes = re.findall(
            r'<li><time class="at" title="([^"]+) UTC">[^<]*</time> <a href="[^"]*decision=([^"#&]+)',
            overview.text,
        )
        assert changes
        assert all(shown == at[str(by_id[html.unescape(i)]["sequence"])] for shown, i in changes)
        assert [shown for shown, _ in changes] == sorted((shown for shown, _ in changes), reverse=True)

        page = await demo.get(f"{OBJECT}?window=1d&decision={scale['decision']}")
        assert f"<time>{at[str(scale['sequence'])]}</time> · sequence {scale['sequence']}" in page.text
        mark = re.search(
            rf'decision={re.escape(scale["decision"])}[^"]*" class="mark[^"]*" aria-label="([^"]+)"',
            page.text,
        )
        assert mark is not None
        assert mark[1].startswith(at[str(scale["sequence"])])
        before = re.findall(r'<time class="at">([^<]+)</time> <a href="[^"]*decision=([^"#&]+)', page.text)
        assert all(shown == at[str(by_id[identity]["sequence"])] for shown, identity in before)
        assert [shown for shown, _ in before] == sorted((shown for shown, _ in before), reverse=True)
