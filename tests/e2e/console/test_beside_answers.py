"""Every page in Chromium, on the recorded log and on one that is written meanwhile: its numbers are those of `-o json`.

The one that is written is the recorded one put on a server. What somebody then says there comes to every page by itself.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.console.browsing import (
    IN_A_BROWSER,
    WITHIN_MS,
    Served,
    Tab,
    answered,
    entered_in,
    tab_on,
)
from tests.nats_server import EmbeddedServer
from tests.unit.console.conftest import LOG, ONCE
from tests.waiting import until_now
from tidewright.asking.exported import ExportedLog
from tidewright.asking.exports import imported
from tidewright.asking.running_log import RunningLog
from tidewright.asking.source import Source
from tidewright.console.access import Access, named
from tidewright.console.server import Console
from tidewright.console.words import number
from tidewright.events import registry
from tidewright.events.autoscaler import WatermarkPodAutoscalerObserved
from tidewright.events.provisioning import NodeGroupObserved
from tidewright.log.connection import Log, Message
from tidewright.log.export import ExportFile
from tidewright.log.install import Plan, install_log
from tidewright.log.subjects import ALL

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
pytestmark = IN_A_BROWSER
CLUSTER = "chaos"
APP = ("-n", "team-0")
LATER = 1_770_020_000.0
"""Log time behind the end of what was recorded."""


def verified(folder: Path, *words: str) -> tuple[str, ...]:
    """A command that says what `verify` has said of a log: at lowest priority, beside other tests, the fold itself may take minutes."""
    command = (sys.executable, "-m", "tidewright.cli.main", "verify", "-o", "json", *words)
    said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=150)
    assert said.returncode in (0, 1), said.stderr
    answer = folder / "verified.json"
    answer.write_text(said.stdout)
    return ("cat", str(answer))


class Verifying(Served):
    """A console of a file that also verifies it."""

    def __init__(self, source: Source, folder: Path) -> None:
        self._folder = folder
        super().__init__(source)

    async def _begun(self, source: Source | None) -> Console:
        assert source is not None
        command = await asyncio.to_thread(verified, self._folder, "--log", str(LOG))
        console = Console(source, Access(frozenset(), once=ONCE), following=False, verifies=(command, {}))
        await console.start("127.0.0.1", 0)
        console.access.hosts = named("127.0.0.1", console.port, ())
        return console


class Living(Served):
    """A console of the recorded log on a server, where more may be said."""

    log: Log

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._server = EmbeddedServer(folder / "nats")
        super().__init__(None)

    async def _begun(self, source: Source | None) -> Console:
        self.url = await self._server.start()
        self.log = await Log.connect(self.url, CLUSTER, timeout_s=30.0)
        file = ExportFile(LOG)
        await install_log(self.log, Plan(slots=file.manifest.slots, deciders=("autoscaler",)))
        await imported(self.log, file)
        self.log.directly = True
        command = await asyncio.to_thread(verified, self._folder, *self.words)
        console = Console(RunningLog(self.log), Access(frozenset(), once=ONCE), verifies=(command, {}))
        await console.start("127.0.0.1", 0)
        console.access.hosts = named("127.0.0.1", console.port, ())
        return console

    @property
    def words(self) -> tuple[str, ...]:
        """What names this log to a command."""
        return ("--nats", self.url, "--cluster", CLUSTER)

    def say(self, message: Callable[[Log], Message]) -> int:
        """Append something, and return its sequence."""
        last: int = self.run(self.log.commit([message(self.log)])).last_seq
        return last

    async def _ended(self) -> None:
        await super()._ended()
        await self.log.close()
        await self._server.stop()


@dataclass
class Looked:
    """A log that is looked at, in one of the two ways.

    Attributes:
        words: name it to a command.
        state: name it to one that plans.
    """

    served: Served
    words: tuple[str, ...]
    state: tuple[str, ...]
    cookies: Any

    @property
    def living(self) -> Living | None:
        return self.served if isinstance(self.served, Living) else None


@pytest.fixture(scope="module", params=["recorded", "living"])
def looked(
    request: pytest.FixtureRequest, chromium: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Looked]:
    folder = tmp_path_factory.mktemp("console")
    served: Served
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(
            "XDG_CACHE_HOME", str(folder / "cache")
        )  # what was verified by another test is not told of
        if request.param == "living":
            living = Living(folder)
            served, words, state = living, living.words, living.words
        else:
            served = Verifying(ExportedLog(ExportFile(LOG)), folder)
            words, state = ("--log", str(LOG)), ("--state", str(LOG))
        try:
            yield Looked(served, words, state, entered_in(chromium, served))
        finally:
            served.close()


@pytest.fixture
def tab(chromium: Any, looked: Looked) -> Iterator[Tab]:
    yield from tab_on(chromium, looked.served.root, looked.cookies)


def nodes_wanted(size: int) -> Callable[[Log], Message]:
    def message(log: Log) -> Message:
        fact = NodeGroupObserved(at=LATER, name="asked", min_size=0, max_size=8, target_size=size)
        return Message(log.subjects.fact(ALL, "nodegroup", "", "asked"), registry.encode(fact))

    return message


def comes(tab: Tab, seq: int) -> None:
    """Wait until the page shows the log up to a sequence, without having been loaded again."""
    sync_api.expect(tab.page.locator(".seq")).to_have_text(f"seq {seq}", timeout=WITHIN_MS)
    assert tab.page.evaluate("window.same")


def opened(tab: Tab, path: str) -> Any:
    """A page that would show if it were loaded again."""
    page = tab.open(path)
    page.evaluate("window.same = true")
    return page


def cells(page: Any, table: str, label: str) -> list[str]:
    found: list[str] = page.locator(f"{table} tbody td[data-label='{label}']").all_inner_texts()
    return [text.strip() for text in found]


def test_overview(tab: Tab, looked: Looked, capsys: pytest.CaptureFixture[str]) -> None:
    page = opened(tab, "/")
    kinds = {
        one["kind"]: one["objects"] for one in answered(looked.served, capsys, "get", *looked.words)["items"]
    }
    for kind in ("watermarkpodautoscaler", "nodegroup", "provisioningrequest", "workloadspread", "shardset"):
        tile = page.locator(f".tiles a[href^='/objects/{kind}'] b")
        assert int(tile.inner_text()) == kinds[kind], kind
    items = answered(looked.served, capsys, "get", "wpa", "-A", *looked.words)["items"]
    shown = page.locator(".watermarkpodautoscaler tbody tr")
    figures = {
        row.locator("a.object").inner_text(): row.locator(".figure").inner_text() for row in shown.all()
    }
    assert figures == {
        f"{i['namespace']}/{i['name']}": f"{number(m['value'])} {number(m['lowWatermark'])}–{number(m['highWatermark'])}"
        for i in items
        for m in i["measured"]
    }
    wrong = [i for i in items if i["wrong"]]
    assert page.locator(".watermarkpodautoscaler tr.wrong").count() == len(wrong)
    page.locator(".changes li a").first.click()
    page.wait_for_url(re.compile("decision="))
    assert page.locator("#why h2").count() >= 1
    if looked.living:
        opened(tab, "/")
        comes(tab, looked.living.say(nodes_wanted(5)))
        assert cells(tab.page, ".nodegroup", "Target") == ["5"]
        (item,) = answered(looked.served, capsys, "get", "nodegroup", *looked.words)["items"]
        assert item["wanted"] == "5"


def test_a_list(tab: Tab, looked: Looked, capsys: pytest.CaptureFixture[str]) -> None:
    page = opened(tab, "/objects/workloadspread")
    items = answered(looked.served, capsys, "get", "workloadspread", "-A", *looked.words)["items"]
    assert cells(page, ".workloadspread", "Now") == [i["now"] for i in items]
    page.locator("body").press("Shift+ArrowLeft")
    page.wait_for_url(re.compile("at="))
    then = answered(looked.served, capsys, "get", "workloadspread", "-A", *looked.words, "--at", tab.at)
    assert page.locator(".seq").inner_text() == f"seq {then['sequence']}"
    assert cells(page, ".workloadspread", "Now") == [i["now"] for i in then["items"]]
    if looked.living:
        opened(tab, "/objects/nodegroup")
        comes(tab, looked.living.say(nodes_wanted(6)))
        assert cells(tab.page, ".nodegroup", "Target") == ["6"]


def test_an_object(tab: Tab, looked: Looked, capsys: pytest.CaptureFixture[str]) -> None:
    page = opened(tab, "/object/wpa/team-0/app-0?window=7d")
    said = answered(looked.served, capsys, "explain", "wpa", "app-0", *APP, *looked.words)
    latest = said["decisions"][0]
    assert f"sequence {latest['sequence']} " in page.locator("#why").inner_text()
    reasons = page.locator("#why .reasons li").all_inner_texts()
    assert reasons[: len(latest["because"])] == [reason["sentence"] for reason in latest["because"]]
    page.locator(".timeline a").first.click()
    page.wait_for_url(re.compile("decision="))
    chosen = re.search(r"decision=([a-z0-9.-]+)", page.url)
    assert chosen is not None
    one = answered(looked.served, capsys, "explain", "--decision", chosen[1], *looked.words)["decisions"][0]
    assert f"sequence {one['sequence']} " in page.locator("#why").inner_text()
    if looked.living:
        page = opened(tab, "/object/wpa/team-0/app-0")
        spec = said["lastWord"]["event"]["spec"]

        def changed(log: Log) -> Message:
            fact = WatermarkPodAutoscalerObserved(
                at=LATER, namespace="team-0", name="app-0", uid="u", generation=7, spec={**spec, "maxReplicas": 11}
            )  # fmt: skip
            subject = log.subjects.fact(log.slot_of("team-0"), "watermarkpodautoscaler", "team-0", "app-0")
            return Message(subject, registry.encode(fact))

        comes(tab, looked.living.say(changed))
        assert "generation 7" in page.locator("main").inner_text()
        assert "maxReplicas: 11" in page.locator("main").inner_text()


def test_events(tab: Tab, looked: Looked, capsys: pytest.CaptureFixture[str]) -> None:
    page = opened(tab, "/events?window=7d")
    page.locator("select[name=class]").select_option("outcome")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url(re.compile("class=outcome"))
    told = answered_lines(looked, capsys, "events", "--class", "outcome", *looked.words)
    assert int(re.sub(r"\D", "", page.locator(".count-line").inner_text().split(" events")[0])) == len(told)
    rows = page.locator(".events tbody tr td:nth-child(2)").all_inner_texts()
    assert [int(n) for n in rows] == [one["sequence"] for one in reversed(told)][: len(rows)]
    if looked.living:
        opened(tab, "/events?class=fact")
        seq = looked.living.say(nodes_wanted(4))
        comes(tab, seq)
        assert tab.page.locator(".events tbody td:nth-child(2)").first.inner_text() == str(seq)


def answered_lines(looked: Looked, capsys: pytest.CaptureFixture[str], *words: str) -> list[Any]:
    """The same of a command that answers one line for each."""
    import json

    from tidewright.cli import main

    assert looked.served.run(asyncio.to_thread(main.run, [*words, "-o", "json"])) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_capacity(tab: Tab, looked: Looked, capsys: pytest.CaptureFixture[str]) -> None:
    page = opened(tab, "/capacity")
    plan = answered(looked.served, capsys, "plan", "scale-down", *looked.state)
    staying = {
        row.locator("small").inner_text(): int(row.locator(".n").inner_text())
        for row in page.locator("section:has(#leaving) details tr").all()
    }
    assert staying == {reason: len(nodes) for reason, nodes in plan["staying"].items()}
    assert page.locator("section:has(#leaving) ol li").count() == len(plan["going"])
    nodes = sum(map(len, plan["staying"].values())) + len(plan["going"]) + len(plan["later"])
    assert page.locator(".count-line").inner_text().startswith(f"{nodes} node")
    page.locator(".group h2 a").first.click()
    page.wait_for_url(re.compile("/object/nodegroup/"))
    if looked.living:
        page = opened(tab, "/capacity")
        comes(tab, looked.living.say(nodes_wanted(3)))
        sync_api.expect(page.locator(".group", has_text="asked")).to_contain_text(
            "of 3 wanted", timeout=WITHIN_MS
        )


def test_shards(tab: Tab, looked: Looked, capsys: pytest.CaptureFixture[str]) -> None:
    page = opened(tab, "/shards?at=seq:3000")
    said = answered(
        looked.served, capsys, "state", "shardset", "shards", *APP, *looked.words, "--at", "seq:3000"
    )
    assert said["sequence"] == 3000
    members = said["fact"]["event"]["status"]["assignment"]["members"]
    shown = page.locator("section:has(#set-1) tbody tr")
    assert [row.locator("td").first.inner_text().split()[0] for row in shown.all()] == [
        member["id"].partition("#")[0] for member in members
    ]
    owned = [int(row.locator("td:nth-child(4)").inner_text()) for row in shown.all()]
    assert sum(owned) == said["fact"]["event"]["status"]["assignment"]["keyspace"]
    page.locator("#set-1 a").click()
    page.wait_for_url(re.compile("/object/shardset/team-0/shards"))
    assert tab.at == "seq:3000"
    if looked.living:
        page = opened(tab, "/shards")
        before = page.locator("section:has(#set-1)").inner_text()
        comes(tab, looked.living.say(nodes_wanted(2)))
        assert page.locator("section:has(#set-1)").inner_text() == before


def test_what_if(tab: Tab, looked: Looked, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = opened(tab, "/what-if?namespace=team-0&name=app-2&window=7d")
    page.locator("#s-high0").fill("20")
    page.wait_for_selector("text=To have it so")
    assert page.evaluate("window.same")
    manifest = tmp_path / "tried.yaml"
    manifest.write_text(page.locator("section:has(#apply) pre").inner_text())
    tried = answered(looked.served, capsys, "backtest", "wpa", "-f", str(manifest), *looked.words)
    figures = tried["policies"][0]["figures"]
    assert page.locator("[data-figure='Scales to more']").inner_text() == str(figures["scaleUps"])
    assert page.locator("[data-figure='Most replicas']").inner_text() == str(figures["mostReplicas"])


def test_trust(tab: Tab, looked: Looked, capsys: pytest.CaptureFixture[str]) -> None:
    page = opened(tab, "/trust")
    verified = page.locator("[data-verified]")
    until_now(lambda: (page.reload(), verified.count())[1], within_s=120.0)  # it runs at lowest priority
    said = answered(looked.served, capsys, "verify", *looked.words)
    told = page.locator("section:has(#verified)").inner_text()
    assert f"{said['decisions']:,} decisions" in told
    assert f"{said['differences']} differences" in told
    page.locator("section:has(#verified) li a").first.click()
    page.wait_for_url(re.compile("/events"))
    assert tab.at == f"seq:{said['first'][0]['sequence']}"
    if looked.living:
        page = opened(tab, "/trust")
        before = int(page.locator("[data-behind='spread']").inner_text().replace(",", ""))
        seq = int(page.locator(".seq").inner_text().split()[-1])
        after = looked.living.say(nodes_wanted(1))
        comes(tab, after)
        behind = int(page.locator("[data-behind='spread']").inner_text().replace(",", ""))
        assert behind - before == after - seq
