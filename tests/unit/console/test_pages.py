"""Each page of the recorded log, beside what the library answers about the same moment."""

from __future__ import annotations

import asyncio
import html
import json
import re
from urllib.parse import quote

import msgspec
import pytest

from tests.unit.console.conftest import LOG, Browser
from tests.unit.console.test_looking import VERIFIED
from tidewright.asking import rendering
from tidewright.asking.answers.table import ANSWERS
from tidewright.asking.explain import explained
from tidewright.asking.exported import ExportedLog
from tidewright.asking.listing import listed
from tidewright.asking.point_in_time import moment_of
from tidewright.asking.questions import QUESTIONS
from tidewright.asking.service_state import Hands
from tidewright.asking.services import EVERY
from tidewright.cli import main
from tidewright.console.events import WRITERS
from tidewright.console.lists import ALL_KINDS, Lists
from tidewright.console.verifying import Ran
from tidewright.host.fold.explainer import Reference
from tidewright.log import keyrecord
from tidewright.log.envelope import WRITER
from tidewright.log.export import ExportFile

MOMENTS = ("", "seq:400", "seq:2000", "2026-02-02T05:47:00Z", "seq:3600")


async def answered(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    """What the command line answers, which has a loop of its own."""
    capsys.readouterr()
    assert await asyncio.to_thread(main.run, [*words, "--log", str(LOG), "-o", "json"]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize("at", MOMENTS)
async def test_the_overview_shows_what_get_says(browser: Browser, at: str) -> None:
    page = await browser.get(f"/?at={quote(at)}")
    assert page.status == 200
    source = ExportedLog(ExportFile(LOG))
    moment = await moment_of(source, at)
    for item in (await listed(source, "watermarkpodautoscaler", moment)).items:
        assert f">{item.name}</b>" in page.text
        assert html.escape(item.why) in page.text
    groups = (await listed(source, "nodegroup", moment)).items
    assert all(f">{group.name}</b>" in page.text for group in groups)
    assert f"seq {moment.seq}" in page.words


async def test_what_is_wrong_stands_first(browser: Browser) -> None:
    page = await browser.get("/?at=seq:595")  # an autoscaler has no metrics then
    assert page.words.index("wrong now") < page.words.index("Autoscalers")
    assert "wrong now" in page.words
    assert "Nothing is wrong now" in (await browser.get("/")).words


async def test_what_changed_leads_to_its_reasons(browser: Browser) -> None:
    page = await browser.get("/?at=2026-02-02T05:50:00Z")
    links = [a["href"] for tag, a in page.elements if tag == "a" and "decision=" in a.get("href", "")]
    assert any("/object/watermarkpodautoscaler/" in link for link in links)
    scale = next(link for link in links if "/object/watermarkpodautoscaler/" in link)
    told = await browser.get(html.unescape(scale).partition("#")[0])
    assert "set replicas" in told.words
    assert "One decision is looked at" in told.words


async def test_an_object_is_explained_as_explain_does(
    browser: Browser, capsys: pytest.CaptureFixture[str]
) -> None:
    page = await browser.get("/object/wpa/team-0/app-0?at=2026-02-02T06:05:00Z&window=6h")
    words = page.words
    assert re.search(r"createdAt: '2026-02-02T\d\d:\d\d:\d\d\.\d{3}Z'", html.unescape(page.text))
    explained = await answered(capsys, "explain", "wpa/app-0", "-n", "team-0", "--at", "2026-02-02T06:05:00Z")
    decisions = msgspec.convert(explained, ANSWERS["explain"], strict=False).decisions  # type: ignore[attr-defined]
    assert decisions
    for decision in decisions:
        assert decision.text in words
        for told in (*decision.because,):
            assert " ".join(told.sentence.split()) in words
        for sentence in decision.opposite:
            assert sentence in words
    drawn = await answered(
        capsys,
        "series",
        "wpa/app-0",
        "-n",
        "team-0",
        "--until",
        "2026-02-02T06:05:00Z",
        "--since",
        "2026-02-02T04:23:09Z",
    )
    values = {line["name"]: line["points"][-1]["value"] for line in drawn["lines"]}  # type: ignore[attr-defined]
    for name in ("wanted", "ready", "existing"):
        assert re.search(rf'data-line="{name}">{values[name]}<', page.text), name
    assert "highWatermark: '10'" in words
    marks = [a for tag, a in page.elements if tag == "a" and a.get("class", "").startswith("mark")]
    assert {"mark up", "mark down", "mark hold"} <= {mark["class"] for mark in marks}
    assert all("decision=" in mark["href"] and mark["aria-label"] for mark in marks)


async def test_a_decision_on_the_chart_leads_to_causes_and_outcome(browser: Browser) -> None:
    page = await browser.get("/object/wpa/team-0/app-0?window=6h")
    marks = [a for tag, a in page.elements if tag == "a" and a.get("class") == "mark down"]
    one = await browser.get(marks[0]["href"].partition("#")[0])
    assert "7 -> 2" in one.words
    assert "caused by" in one.words
    assert "came of it" in one.words
    assert "What would have changed it" in one.words
    links = [a["href"] for tag, a in one.elements if tag == "a" and "seq%3A" in a.get("href", "")]
    assert any("/object/metric/" in link for link in links)
    assert (await browser.get(next(link for link in links if "/object/metric/" in link))).status == 200


@pytest.mark.parametrize(
    ("query", "every"),
    [
        ("class=decision", lambda row: row["class"] == "decision"),
        ("class=fact&kind=metric", lambda row: row["kind"] == "metric"),
        (
            "kind=wpa&namespace=team-1",
            lambda row: (row["kind"], row["namespace"]) == ("watermarkpodautoscaler", "team-1"),
        ),
        (
            "service=spread&class=decision",
            lambda row: (row["class"], row["headers"]["Tw-Writer"]) == ("decision", "spread"),
        ),
        ("text=set+replicas", lambda row: "set replicas" in row["text"]),
    ],
)
async def test_events_are_those_that_are_asked_for(
    browser: Browser, capsys: pytest.CaptureFixture[str], query: str, every: object
) -> None:
    page = await browser.get(f"/events?window=7d&{query}")
    assert await asyncio.to_thread(main.run, ["events", "--log", str(LOG), "-o", "json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    wanted = [row["sequence"] for row in rows if every(row)]  # type: ignore[operator]
    assert f"{len(wanted):,} events" in page.words
    shown = [int(seq) for seq in re.findall(r'<td class="n">(\d+)</td>', page.text)]
    assert shown == list(reversed(wanted))[:200]


async def test_earlier_events_follow_page_by_page(browser: Browser) -> None:
    path, seen = "/events?window=7d&class=fact", list[int]()
    for _ in range(3):
        page = await browser.get(path)
        shown = [int(seq) for seq in re.findall(r'<td class="n">(\d+)</td>', page.text)]
        assert not seen or max(shown) < min(seen)
        seen += shown
        times = re.findall(r"<time>([^<]+)</time></a></td>", page.text)
        assert len(times) == len(shown) == 200
        assert times == sorted(times, reverse=True)
        path = next(a["href"] for tag, a in page.elements if a.get("rel") == "next")
    assert len(set(seen)) == 600


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/?at=never", 400, "is not a time"),
        ("/?at=seq:999999", 400, "retained are"),
        ("/?window=1y", 400, "one of 15m"),
        ("/objects/pod", 400, "valid are"),
        ("/objects/nodegroup?page=7", 400, "1 to 1"),
        ("/object/wpa/team-0/app-77", 400, "app-77"),
        ("/object/wpa/team-0/app-0?decision=nonsense", 400, "an id is"),
        ("/events?class=rumour", 400, "one of fact"),
        ("/events?service=nobody&kind=wpa", 400, "service=nobody: one of watcher"),
        ("/events?service=*.>&kind=wpa", 400, "service=*.>: one of"),
        ("/events?kind=pod.team-0", 400, "kind 'pod.team-0': a kind has letters"),
        ("/events?kind=>", 400, "kind '>'"),
        ("/object/*/team-0/app-0", 400, "kind '*'"),
        ("/object/wpa/team-0/app-0?decision=*.0.400.0", 400, "an id is <service>"),
        ("/object/wpa/team-0/app-0?decision=autoscaler.>.400.0", 400, "an id is <service>"),
        ("/api/v1/events?kind=*&name=app-0", 400, "kind '*'"),
        ("/api/v1/explain?kind=*&name=app-0", 400, "kind '*'"),
        ("/nothing", 404, "There is no such page"),
    ],
)
async def test_what_cannot_be_asked_is_answered_with_what_would_be_valid(
    browser: Browser, path: str, status: int, said: str
) -> None:
    answer = await browser.get(path)
    assert answer.status == status
    assert said in answer.words


@pytest.mark.parametrize(
    "begin",
    ["/", "/?at=seq:2134", "/object/nodegroup/_/asked?window=6h", "/object/ws/team-0/app-0?window=6h"],
)
async def test_links_of_a_page_lead_to_pages(browser: Browser, begin: str) -> None:
    page = await browser.get(begin)
    links = {
        html.unescape(a["href"]).partition("#")[0] for tag, a in page.elements if tag == "a" and "href" in a
    }
    places = {link.partition("?")[0]: link for link in sorted(links) if link.startswith("/")}
    assert len(places) > 6
    answered_ = {link: (await browser.get(link)).status for link in places.values()}
    assert {link for link, status in answered_.items() if status != 200} == set()


async def test_what_happened_is_listed_in_the_order_of_the_log_and_of_time(browser: Browser) -> None:
    for path in ("/events?window=7d", "/events?window=7d&at=seq:3000", "/events?window=7d&class=decision"):
        page = await browser.get(path)
        times = re.findall(r'<td class="at"><a[^>]*><time>([^<]+)<', page.text)
        assert len(times) == 200
        assert times == sorted(times, reverse=True)


async def test_a_time_of_day_becomes_the_moment_that_it_meant(browser: Browser) -> None:
    asked = await browser.get("/object/wpa/team-1/app-3?at=05:45&window=6h")
    assert asked.status == 303
    onward = asked.headers["Location"]
    assert onward == "/object/wpa/team-1/app-3?at=2026-02-02T05:45:59.999Z&window=6h"
    assert "set replicas 4 -&gt; 7" in (await browser.get(onward)).text
    before = await browser.get("/object/wpa/team-1/app-3?at=2026-02-02T05:45:00Z&window=6h")
    assert "set replicas 4 -&gt; 7" not in before.text


async def test_a_page_comes_without_its_frame_for_who_scrubs(browser: Browser) -> None:
    part = await browser.get("/?at=seq:2000", X_Part="main")
    tags = [tag for tag, _ in part.elements]
    assert "script" not in tags
    assert "main" in tags
    assert "app-0" in part.text


async def test_an_object_says_who_folded_where_another_software_decided(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "/object/wpa/team-0/app-0?at=seq:3000"
    source = ExportedLog(ExportFile(LOG))
    asked = Reference("watermarkpodautoscaler", "team-0", "app-0")
    explanation = rendering.answer(await explained(source, asked, await moment_of(source, "seq:3000")))
    hands = explanation.hands["autoscaler"]
    page = await browser.get(path)
    assert f"as autoscaler sees it, folded by {hands.folded_by} , decided by {hands.decided_by}" in page.words

    async def one(*_: object) -> Hands:
        return Hands()

    monkeypatch.setattr("tidewright.asking.explain.hands_on", one)
    assert "folded by" not in (await browser.get(path)).words


async def test_events_can_be_chosen_by_everybody_who_writes(browser: Browser) -> None:
    assert (*EVERY, keyrecord.WRITER) == WRITERS
    written = {r.headers[WRITER] async for r in ExportedLog(ExportFile(LOG)).records() if WRITER in r.headers}
    assert written
    assert written <= set(WRITERS)
    page = await browser.get("/events?service=spread")
    assert "<option selected>spread</option>" in page.text


async def test_links_keep_the_moment(browser: Browser) -> None:
    page = await browser.get("/?at=seq:2000&window=6h")
    objects = [a["href"] for tag, a in page.elements if a.get("class") == "object"]
    assert objects
    assert all("at=seq%3A2000" in link and "window=6h" in link for link in objects)


@pytest.mark.parametrize("kind", ALL_KINDS)
async def test_lists_of_any_moment_are_those_that_are_made_anew(kind: str) -> None:
    source = ExportedLog(ExportFile(LOG))
    kept = Lists(source)
    steps = [f"seq:{seq}" for seq in range(3000, 600, -119)]
    for at in (
        "",
        "seq:4000",
        "seq:2500",
        "seq:3333",
        "seq:762",
        "seq:640",
        "seq:250",
        "seq:4100",
        *steps,
        "",
    ):
        moment = await moment_of(source, at)
        anew = (await listed(source, kind, moment)).items
        rows = await kept.of(kind, moment)
        assert rows.whole(rows.items()) == anew, at


async def test_questions_are_answered_as_the_command_line_does(
    browser: Browser, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = {
        "get": ("", ["get"]),
        "list": ("kind=wpa&at=seq:3000", ["get", "wpa", "-A", "--at", "seq:3000"]),
        "explain": ("kind=wpa&namespace=team-0&name=app-0", ["explain", "wpa/app-0", "-n", "team-0"]),
        "state": ("kind=wpa&namespace=team-0&name=app-0", ["state", "wpa/app-0", "-n", "team-0"]),
        "series": ("kind=wpa&namespace=team-0&name=app-0&since=2h", ["series", "wpa/app-0", "-n", "team-0", "--since", "2h"]),
        "compare": ("namespace=team-0", ["compare", "wpa", "-n", "team-0", "-A"]),
        "plan.scale-down": ("", ["plan", "scale-down"]),
    }  # fmt: skip
    for name, (query, words) in asked.items():
        answer = await browser.get(f"/api/v1/{name}?{query}")
        assert answer.status == 200, answer.text
        if name == "compare":
            assert msgspec.json.decode(answer.text, type=ANSWERS["compare"]).items  # type: ignore[attr-defined]
        elif name == "plan.scale-down":
            msgspec.json.decode(answer.text, type=ANSWERS[name])
        else:
            assert json.loads(answer.text) == await answered(capsys, *words)
    tail = await browser.get("/api/v1/events?class=decision&tail=3")
    assert [row["class"] for row in json.loads(tail.text)] == ["decision"] * 3
    assert {question.name for question in QUESTIONS} - set(asked) == {"events", "verify"}
    answer = await browser.get("/api/v1/verify")
    assert (answer.status, json.loads(answer.text)["error"]) == (
        503, "this console does not verify: ask `tidewright verify`",
    )  # fmt: skip
    browser.console.verifying.latest = Ran(3, 0.0, 1.0, VERIFIED, 0.0)
    answer = await browser.get("/api/v1/verify")
    assert (answer.status, msgspec.json.decode(answer.text, type=ANSWERS["verify"])) == (200, VERIFIED)
    answer = await browser.get("/api/v1/rumours")
    assert (answer.status, "valid are get, list" in json.loads(answer.text)["error"]) == (404, True)


async def test_a_question_with_an_unknown_parameter_is_refused(browser: Browser) -> None:
    answer = await browser.get("/api/v1/list?kind=wpa&when=now")
    assert answer.status == 400
    assert "when: no parameter" in json.loads(answer.text)["error"]


async def test_a_decision_that_is_looked_at_has_one_time_on_its_page(browser: Browser) -> None:
    page = await browser.get("/object/wpa/team-0/app-0?at=seq:3340&decision=autoscaler.2.3311.0")
    (headed,) = re.findall(r"(\d\d:\d\d:\d\d) · sequence \d+ · autoscaler\.2\.3311\.0", page.words)
    assert re.findall(r"decided 2026-02-02 (\d\d:\d\d:\d\d)", page.words) == [headed]
