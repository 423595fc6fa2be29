"""The console in Chromium, on a recorded log: what is clicked, scrubbed and followed, beside what the library answers."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.e2e.console.browsing import (
    IN_A_BROWSER,
    WITHIN_MS,
    Served,
    Tab,
    Written,
    beyond_their_cards,
    entered_in,
    tab_on,
)
from tests.recorded.ended import FORECASTS
from tests.unit.console.booked import booked_log
from tests.unit.console.conftest import LOG
from tests.unit.console.hostile import NAME, SPACE, hostile_log
from tests.unit.console.test_live import group
from tidewright.asking.exported import ExportedLog
from tidewright.asking.listing import listed
from tidewright.asking.point_in_time import moment_of
from tidewright.log.export import ExportFile

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")

pytestmark = IN_A_BROWSER
PAGES = (
    "/?at=2026-02-02T05:50:00Z", "/objects/watermarkpodautoscaler?at=seq:3000", "/object/wpa/team-0/app-0?window=6h",
    "/events?window=7d&text=set+replicas", "/capacity?at=seq:3000", "/shards?at=seq:3000", "/trust",
    "/what-if?namespace=team-0&name=app-0&window=6h&high0=20",
)  # fmt: skip


@pytest.fixture(scope="module")
def recorded() -> Iterator[Served]:
    served = Served(ExportedLog(ExportFile(LOG)))
    yield served
    served.close()


@pytest.fixture(scope="module")
def entered(chromium: Any, recorded: Served) -> Any:
    """The cookies of whoever was let in."""
    return entered_in(chromium, recorded)


@pytest.fixture
def tab(chromium: Any, recorded: Served, entered: Any) -> Iterator[Tab]:
    """A page that is let in; what its console complains of fails the test."""
    yield from tab_on(chromium, recorded.root, entered)


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_every_page_is_readable_by_everybody(
    chromium: Any, recorded: Served, entered: Any, scheme: str, width: int
) -> None:
    from axe_playwright_python.base import AXE_FILE_PATH

    axe = Path(AXE_FILE_PATH).read_text("utf-8")
    found: dict[str, list[str]] = {}
    view = {"viewport": {"width": width, "height": 844}, "color_scheme": scheme}
    for tab in tab_on(chromium, recorded.root, entered, **view):
        for path in PAGES:
            page = tab.open(path)
            beyond = page.evaluate(
                "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            )
            assert beyond <= 0, f"{path} is wider than the screen by {beyond} pixels"
            assert not beyond_their_cards(page), path
            page.evaluate(axe)
            violations = page.evaluate(
                "axe.run({resultTypes: ['violations']}).then(found => found.violations)"
            )
            serious = [v for v in violations if v["impact"] in ("serious", "critical")]
            found[path] = [f"{v['id']}: {[n['target'] for n in v['nodes'][:3]]}" for v in serious]
    assert not {path: those for path, those in found.items() if those}


def test_a_step_back_shows_the_moment_and_keeps_it_in_links(tab: Tab, recorded: Served) -> None:
    page = tab.open("/")
    page.locator("body").press("Shift+ArrowLeft")
    page.wait_for_url(re.compile("at="))
    at = tab.at
    seq = int(page.locator(".seq").inner_text().split()[-1])
    rows = page.locator(".watermarkpodautoscaler tbody tr")
    shown = {row.locator("b").inner_text(): row.locator(".count").inner_text() for row in rows.all()}

    async def said() -> dict[str, str]:
        moment = await moment_of(recorded.source, at)
        assert moment.seq == seq
        items = (await listed(recorded.source, "watermarkpodautoscaler", moment)).items
        return {
            i.name: i.now if i.now == i.wanted or not i.wanted else f"{i.now} → {i.wanted}" for i in items
        }

    assert shown == recorded.run(said())
    page.locator(".watermarkpodautoscaler tbody a").first.click()
    page.wait_for_url(re.compile("/object/"))
    assert tab.at == at
    page.locator("body").press("n")
    page.wait_for_url(lambda url: "at=" not in url)


def test_the_slider_moves_what_is_shown_without_another_page(tab: Tab) -> None:
    page = tab.open("/objects/watermarkpodautoscaler")
    page.evaluate("window.same = true")
    before = page.locator(".seq").inner_text()
    page.locator("#slider").fill("400")
    sync_api.expect(page.locator(".seq")).not_to_have_text(before, timeout=WITHIN_MS)
    assert tab.at
    assert page.evaluate("window.same")


def test_what_is_written_comes_to_a_page_that_looks_at_now_and_to_no_other(
    chromium: Any, tmp_path: Path
) -> None:
    served = Written(tmp_path)
    try:
        for tab in tab_on(chromium, served.root, entered_in(chromium, served)):
            page = tab.open("/objects/nodegroup")
            page.evaluate("window.same = true")
            sync_api.expect(page.locator(".list")).not_to_contain_text("large")
            served.run(served.log.commit([group(served.log, "large", 7, 5.0)]))
            sync_api.expect(page.locator(".list")).to_contain_text("large", timeout=WITHIN_MS)
            assert page.locator(".seq").inner_text() == "seq 2"
            assert page.evaluate("window.same")
            tab.open("/objects/nodegroup?at=seq:1")
            assert "large" not in page.locator(".list").inner_text()
            assert page.locator(".state").inner_text() == "as it was"
    finally:
        served.close()


def test_what_comes_while_an_answer_of_a_moment_ago_is_given_is_shown_all_the_same(
    chromium: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = Written(tmp_path)
    try:
        for tab in tab_on(chromium, served.root, entered_in(chromium, served)):
            monkeypatch.setattr("tidewright.console.asked.FRESH_S", 3.0)
            page = tab.open("/objects/nodegroup")
            page.evaluate("window.same = true")
            served.run(served.log.commit([group(served.log, "large", 7, 5.0)]))
            sync_api.expect(page.locator(".list")).to_contain_text("large", timeout=WITHIN_MS)
            assert page.evaluate("window.same")
    finally:
        served.close()


def test_a_decision_on_the_chart_leads_to_its_reasons_and_their_causes(tab: Tab) -> None:
    page = tab.open("/object/wpa/team-0/app-0?window=6h")
    page.locator(".wide .mark.down .reach").first.click()
    page.wait_for_url(re.compile("decision="))
    assert "7 -> 2" in page.locator("#why h2").first.inner_text()
    assert page.locator("#why .reasons li").count() > 0
    assert page.locator("#why .came-of-it").count() == 1
    page.locator("#why .caused-by a").last.click()
    page.wait_for_url(re.compile("/object/metric/"))
    assert tab.at.startswith("seq:")


def test_a_policy_is_tried_with_its_slider_and_the_answer_is_that_of_the_backtest(
    tab: Tab, recorded: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from tidewright.cli import main

    page = tab.open("/what-if?namespace=team-0&name=app-0&window=6h")
    page.evaluate("window.same = true")
    page.locator("#s-high0").fill("20")
    page.wait_for_selector("text=To have it so")
    assert page.evaluate("window.same")
    assert "high0=20" in page.url
    manifest = tmp_path / "tried.yaml"
    manifest.write_text(page.locator("section:has(#apply) pre").inner_text())
    words = ["backtest", "wpa", "-f", str(manifest), "--log", str(LOG), "-o", "json"]
    assert recorded.run(asyncio.to_thread(main.run, words)) == 0
    figures = json.loads(capsys.readouterr().out)["policies"][0]["figures"]
    assert page.locator("[data-figure='Scales to more']").inner_text() == str(figures["scaleUps"])
    assert page.locator("[data-figure='Most replicas']").inner_text() == str(figures["mostReplicas"])
    page.get_by_label("no more for, after a scale, seconds", exact=True).fill("95")
    page.keyboard.press("Tab")
    page.wait_for_selector("text=upscaleForbiddenWindowSeconds: 95")
    assert "high0=20" in page.url
    assert "up_window=95" in page.url


# -- what a new user comes with -------------------------------------------------------------------


def test_why_did_this_scale_at_a_time_of_day(tab: Tab) -> None:
    page = tab.open("/")
    page.locator("#at").fill("06:01")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("at="))
    assert tab.at == "2026-02-02T06:01:59.999Z"
    change = page.locator(".changes li", has_text="app-0 set replicas 2 -> 4")
    assert change.locator("time").inner_text().startswith("06:01:39 \u00b7 ")
    change.locator("a").click()
    page.wait_for_url(re.compile("decision="))
    why = page.locator("#why")
    assert "set replicas 2 -> 4" in why.locator("h2").first.inner_text()
    assert "above its high watermark" in why.locator(".reasons li").first.inner_text()
    assert "applied" in why.locator(".came-of-it").inner_text()


def test_who_holds_the_room_that_a_request_waits_for(chromium: Any, tmp_path: Path) -> None:
    served = Served(ExportedLog(ExportFile(booked_log(tmp_path))))
    try:
        for tab in tab_on(chromium, served.root, entered_in(chromium, served)):
            page = tab.open("/")
            page.locator(".provisioningrequest tbody a", has_text="report").click()
            page.wait_for_url(re.compile("/ns/report"))
            holder = page.locator(".standing li a", has_text="ns/nightly")
            assert "held until 2026-09-21 14:23:20 UTC" in holder.locator("xpath=..").inner_text()
            holder.click()
            page.wait_for_url(re.compile("/ns/nightly"))
            assert "Room is kept for it until" in page.locator(".standing").inner_text()
            page.get_by_role("link", name="Capacity").click()
            page.wait_for_url(re.compile("/capacity"))
            kept = page.locator("section:has(#booked) tbody tr").inner_text()
            assert "nightly" in kept
            assert "2026-09-21 14:23:20" in kept
            page.set_viewport_size({"width": 390, "height": 844})
            assert not beyond_their_cards(page)
            page.locator("section:has(#waiting) a", has_text="report").click()
            page.wait_for_url(re.compile("/ns/report"))
    finally:
        served.close()


def test_what_would_another_mark_have_done_last_week(
    chromium: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from tidewright.cli import main

    served = Served(ExportedLog(ExportFile(FORECASTS)))
    try:
        for tab in tab_on(chromium, served.root, entered_in(chromium, served)):
            page = tab.open("/")
            page.get_by_role("link", name="What if").click()
            page.locator(".choices a", has_text="web").click()
            page.wait_for_url(re.compile("name=web"))
            page.get_by_label("Stretch before the moment").select_option("7d")
            page.wait_for_url(re.compile("window=7d"))
            page.get_by_label("high watermark of web", exact=True).fill("80")
            page.keyboard.press("Tab")
            page.wait_for_selector("text=To have it so")
            manifest = tmp_path / "tried.yaml"
            manifest.write_text(page.locator("section:has(#apply) pre").inner_text())
            assert "highWatermark: '80'" in manifest.read_text()
            words = ["backtest", "wpa", "-f", str(manifest), "--log", str(FORECASTS), "-o", "json"]
            assert served.run(asyncio.to_thread(main.run, words)) == 0
            tried = json.loads(capsys.readouterr().out)["policies"][0]["figures"]
            shown = page.locator("[data-figure='Replica-hours']").inner_text()
            assert float(shown.replace(",", "")) == pytest.approx(tried["replicaHours"], rel=1e-3)
            assert page.locator("[data-figure='Scales to less']").inner_text() == str(tried["scaleDowns"])
    finally:
        served.close()


def test_events_are_filtered_and_lead_to_their_moment(tab: Tab) -> None:
    page = tab.open("/events?window=7d")
    page.locator("body").press("/")
    page.keyboard.type("set replicas")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("text=set"))
    rows = page.locator(".events tbody tr")
    assert rows.count() > 0
    assert all("set replicas" in text for text in rows.locator(".what").all_inner_texts())
    seq = rows.first.locator("td.n").inner_text()
    rows.first.locator("td.at a").click()
    page.wait_for_url(re.compile("at=seq"))
    assert page.locator(".seq").inner_text() == f"seq {seq}"


def test_nothing_that_others_wrote_runs(chromium: Any, tmp_path: Path) -> None:
    served = Served(ExportedLog(ExportFile(hostile_log(tmp_path))))
    try:
        who = f"{SPACE}/{quote(NAME, safe='')}"
        for tab in tab_on(chromium, served.root, entered_in(chromium, served)):
            tab.page.on("dialog", lambda dialog, heard=tab.complaints: heard.append(dialog.message))
            for path in ("/", "/events", "/objects/nodegroup", f"/object/wpa/{who}", "/what-if", "/capacity"):
                page = tab.open(path)
                assert page.evaluate("window.hacked") is None
                assert page.locator("main script, main img").count() == 0
            page = tab.open("/objects/watermarkpodautoscaler")
            page.locator("#slider").fill("900")
            page.wait_for_url(re.compile("at="))
            assert page.evaluate("window.hacked") is None
    finally:
        served.close()
