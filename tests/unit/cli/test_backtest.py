"""`tidewright backtest`: files in, figures out, and one line for everything refused."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.exports import write_export
from tidewright.asking.exported import ExportedLog
from tidewright.asking.options import AskedLogOptions, LogOptions
from tidewright.cli import main
from tidewright.cli.backtest import command
from tidewright.events import registry
from tidewright.events.facts import MetricSampled, ObjectFact, WorkloadObserved
from tidewright.log.export import ExportFile, Manifest
from tidewright.log.reader import Record
from tidewright.log.subjects import SLOT_HASH, Subjects, slot_of

RECORDED = Path(__file__).parents[2] / "recorded" / "chaos.twlog"
SPEC: dict[str, Any] = {
    "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"},
    "algorithm": "average",
    "minReplicas": 2,
    "maxReplicas": 30,
    "metrics": [
        {
            "type": "External",
            "external": {
                "metricName": "requests",
                "metricSelector": {"matchLabels": {"app": "shop"}},
                "highWatermark": "20",
                "lowWatermark": "12",
            },
        }
    ],
}


def manifest(folder: Path, name: str = "wpa.yaml", **spec: Any) -> str:
    path = folder / name
    body = {
        "apiVersion": "datadoghq.com/v1alpha1",
        "kind": "WatermarkPodAutoscaler",
        "metadata": {"name": "shop"},
    }
    path.write_text(yaml.safe_dump({**body, "spec": {**SPEC, **spec}}))
    return str(path)


@pytest.fixture
def load(tmp_path: Path) -> str:
    rows = [f"{1.8e9 + 60 * n},{100 + 80 * math.sin(n / 40)}" for n in range(300)]
    path = tmp_path / "load.csv"
    path.write_text("\n".join(["timestamp,value", *rows]))
    return str(path)


def run(*arguments: str) -> int:
    return main.run(["backtest", "wpa", *arguments])


def test_the_figures_of_two_policies_stand_beside_each_other(
    tmp_path: Path, load: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lazy = manifest(tmp_path, "lazy.yaml", upscaleForbiddenWindowSeconds=1800)
    assert run("-f", manifest(tmp_path), "--metrics", load, "--compare", lazy) == 0
    printed = capsys.readouterr().out
    header, one, two, difference = printed.split("\n\n")[1].splitlines()
    assert header.split()[:3] == ["POLICY", "REPLICA-HOURS", "ABOVE-HIGH"]
    assert (one.split()[0], two.split()[0], difference.split()[0]) == ("wpa.yaml", "lazy.yaml", "difference")
    hours = [float(line.split()[1].replace(",", "")) for line in (one, two, difference)]
    assert hours[1] - hours[0] == pytest.approx(hours[2], abs=0.11)
    assert "requests{map[app:shop]} above target" in printed


def test_json_has_every_decision_with_its_sentences(
    tmp_path: Path, load: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("-f", manifest(tmp_path), "--metrics", load, "-o", "json", "--start-replicas", "4") == 0
    found = json.loads(capsys.readouterr().out)
    (made,) = found["policies"]
    assert (found["load"]["samples"], found["load"]["model"]) == (300, "shared")
    assert made["figures"]["scaleUps"] + made["figures"]["scaleDowns"] == len(made["decisions"])
    assert made["decisions"][0]["from"] == 4
    first = made["decisions"][0]["because"][0]
    assert (first["rule"], first["values"]["algorithm"]) == ("Measured", "average")
    assert first["sentence"].startswith("average per ready pod of requests{map[app:shop]} is ")
    assert len(made["chart"]) > 100
    assert run("-f", manifest(tmp_path), "--metrics", load, "-o", "yaml", "--start-replicas", "4") == 0
    assert yaml.safe_load(capsys.readouterr().out) == found


class _Page(HTMLParser):
    """Collects what a page refers to, and checks that every element is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "line", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in ("meta", "line", "br"):
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_and_needs_nothing_else(
    tmp_path: Path, load: str, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = manifest(tmp_path, "a<script>b.yaml", maxReplicas=8)
    assert run("-f", manifest(tmp_path), "--metrics", load, "--compare", evil, "-o", "html") == 0
    text = capsys.readouterr().out
    page = _Page()
    page.feed(text)
    assert (page.open, page.links, "script" in page.tags) == ([], [], False)
    assert page.tags.count("polygon") == 1
    assert page.tags.count("details") > 10
    assert "http" not in text
    assert text.startswith("<!doctype html>")


def test_a_sweep_by_the_name_of_a_field_alone_finds_the_one_place_that_it_can_mean(
    tmp_path: Path, load: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = manifest(tmp_path)
    assert run("-f", file, "--metrics", load, "--sweep", "highWatermark=20,25", "-o", "json") == 0
    runs = json.loads(capsys.readouterr().out)["policies"]
    assert [made["name"] for made in runs] == [
        f"metrics[0].external.highWatermark={mark}" for mark in (20, 25)
    ]
    two = manifest(tmp_path, "two.yaml", metrics=[*SPEC["metrics"], *SPEC["metrics"]])
    assert run("-f", two, "--metrics", load, "--sweep", "highWatermark=20,25") == 2
    assert capsys.readouterr().err == (
        "error: --sweep highWatermark: may be metrics[0].external.highWatermark or metrics[1].external.highWatermark: "
        "write which\n"
    )


def test_a_manifest_with_a_field_that_nobody_knows_is_refused(
    tmp_path: Path, load: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = manifest(tmp_path, toleranse="50m")
    assert run("-f", file, "--metrics", load) == 2
    assert capsys.readouterr().err == (
        f"error: --filename {file}: WatermarkPodAutoscaler shop: spec has no field 'toleranse'; did you mean tolerance?\n"
    )
    assert run("-f", manifest(tmp_path, "a.yaml"), "--metrics", load, "--compare", file) == 2
    assert "did you mean tolerance?" in capsys.readouterr().err


def test_a_sweep_tries_every_combination(
    tmp_path: Path, load: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = ("--sweep", "spec.tolerance=50m,0.2", "--sweep", "metrics[0].external.highWatermark=20,25")
    assert run("-f", manifest(tmp_path), "--metrics", load, *sweep, "-o", "json") == 0
    runs = json.loads(capsys.readouterr().out)["policies"]
    assert [made["name"] for made in runs] == [
        f"tolerance={t}, metrics[0].external.highWatermark={high}"
        for t in ("50m", "0.2")
        for high in (20, 25)
    ]
    assert len({made["figures"]["replicaHours"] for made in runs}) == 4


def test_columns_are_found_by_the_names_of_the_metrics(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    second = {"metricName": "queue", "metricSelector": {}, "highWatermark": "5", "lowWatermark": "2"}
    path = manifest(tmp_path, metrics=[*SPEC["metrics"], {"type": "External", "external": second}])
    (tmp_path / "two.csv").write_text(
        "queue,timestamp,requests\n" + "\n".join(f"50,2026-03-01 12:{n:02}:00,1" for n in range(30))
    )
    assert run("-f", path, "--metrics", str(tmp_path / "two.csv"), "-o", "json") == 0
    made = json.loads(capsys.readouterr().out)["policies"][0]
    assert made["figures"]["mostReplicas"] == 10  # 50 queued, 5 each
    assert made["decisions"][0]["at"].startswith("2026-03-01T12:00")


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ("", "line 1: no column timestamp; found nothing"),
        ("time,a,b\n1,2,3", "name them like the metrics"),
        ("timestamp,value\n", "no rows after the header"),
        ("timestamp,value\nsoon,1", "line 2"),
        ("timestamp,value\n1", "line 2"),
        ("timestamp,value\n1,nan", "line 2"),
        ("timestamp,value\n2,1\n1,1", "line 3: its time lies before"),
    ],
)
def test_a_load_that_cannot_be_read_is_refused_by_its_line(
    rows: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.csv").write_text(rows)
    assert run("-f", manifest(tmp_path), "--metrics", str(tmp_path / "bad.csv")) == 2
    assert text in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--metrics", "LOAD", "--sweep", "tolerance"), "write FIELD=VALUE"),
        (
            ("--metrics", "LOAD", "--sweep", "tolerence=1"),
            "has no field 'tolerence', at any depth; did you mean tolerance?",
        ),
        (
            ("--metrics", "LOAD", "--sweep", "metrics[0].external.hihgWatermark=1"),
            "spec.metrics[0].external has no field 'hihgWatermark'; did you mean highWatermark?",
        ),
        (
            ("--metrics", "LOAD", "--sweep", "insecureSkipVerify=true"),
            "nothing in the manifest could have a field 'insecureSkipVerify'",
        ),
        (("--metrics", "LOAD", "--sweep", "metrics[3].external.highWatermark=1"), "the list has 1 entries"),
        (("--metrics", "LOAD", "--sweep", "minReplicas=50"), "inferior to the maximum"),
        (("--metrics", "LOAD", "--ready-delay", "-1"), "seconds, 0 or more"),
        (("--metrics", "LOAD", "--start-replicas", "0"), "1 or more"),
        (("--metrics", "nowhere.csv"), "cannot be read"),
        (("--log", "nowhere.twlog"), "there is no such file"),
    ],
)
def test_what_cannot_be_run_is_refused_in_one_line(
    arguments: tuple[str, ...], text: str, tmp_path: Path, load: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [load if argument == "LOAD" else argument for argument in arguments]
    assert run("-f", manifest(tmp_path), *given) == 2
    said = capsys.readouterr().err
    assert text in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("kind: Deployment", "found: Deployment"),
        ("", "found: nothing"),
        ("{", "line 1: not YAML"),
        ("kind: WatermarkPodAutoscaler", "without a spec"),
        ("kind: WatermarkPodAutoscaler\nspec: {maxReplicas: many}", "maxReplicas"),
        (
            "kind: WatermarkPodAutoscaler\nspec: {maxReplicas: 3, scaleTargetRef: {kind: D, name: d}}",
            "spec.metrics",
        ),
    ],
)
def test_a_manifest_that_cannot_be_used_is_refused(
    content: str, text: str, tmp_path: Path, load: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.yaml").write_text(content)
    assert run("-f", str(tmp_path / "bad.yaml"), "--metrics", load) == 2
    assert text in capsys.readouterr().err


def recorded(folder: Path) -> str:
    """An exported log: 2 replicas, a load of 35 that both share, and a scale to 4 after ten minutes."""
    subjects = Subjects("test")
    slot = slot_of("demo", 4)
    target: dict[str, Any] = {
        "name": "shop",
        "api_version": "apps/v1",
        "kind": "Deployment",
        "selector": "app=shop",
    }
    facts: list[ObjectFact] = []
    for n in range(80):
        at = 1.8e9 + 15 * n
        replicas = 2 if n < 40 else 4
        if n in (0, 40):
            facts.append(
                WorkloadObserved(
                    at=at, namespace="demo", replicas=replicas, status_replicas=2, ready_replicas=2, **target
                )
            )
        query = "external/requests/app=shop"
        error = "gone" if n == 20 else ""
        series = () if error else (70_000 + 1000 * n,)
        facts.append(MetricSampled(at=at, namespace="demo", name=query, series_milli=series, error=error))
    records = [
        Record(
            subject=subjects.fact(
                slot, "metric" if isinstance(f, MetricSampled) else "deployment", "demo", f.name
            ),
            seq=n + 1,
            headers={},
            body=registry.encode(f),
        )
        for n, f in enumerate(facts)
    ]
    path = folder / "log.twlog"
    manifest_ = Manifest(
        cluster="test",
        stream="TW_test",
        slots=4,
        slot_hash=SLOT_HASH,
        first_seq=1,
        last_seq=len(records),
        version="0",
    )
    write_export(path, manifest_, (), records)
    return str(path)


def test_the_load_of_a_log_is_what_was_measured_and_what_was_done_stands_beside(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = recorded(tmp_path)
    assert run("-f", manifest(tmp_path), "--log", path, "-n", "demo") == 0
    lines = capsys.readouterr().out.splitlines()
    done = next(line for line in lines if line.startswith("as recorded"))
    # 10 minutes at 2, 9 min 45 s at 4 replicas
    assert done.split()[2] == f"{(2 * 600 + 4 * 585) / 3600:.1f}"
    assert done.split()[5:8] == ["1", "1", "0"]
    assert any(line.startswith("wpa.yaml") for line in lines)
    assert run("-f", manifest(tmp_path), "--log", path, "-n", "demo", "-o", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["load"]["samples"] == 79  # the failed one is none
    assert found["load"]["startReplicas"] == 2
    assert found["policies"][0]["chart"][0]["mostLoad"] == 70
    absolute = manifest(tmp_path, algorithm="absolute")
    assert run("-f", absolute, "--log", path, "-n", "demo", "-o", "json") == 0
    shared = json.loads(capsys.readouterr().out)
    assert shared["policies"][0]["chart"][0]["mostLoad"] == 140  # the value of each of two


def test_a_log_without_the_metric_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = recorded(tmp_path)
    assert run("-f", manifest(tmp_path), "--log", path, "-n", "elsewhere") == 2
    assert "no samples of external/requests/app=shop in namespace elsewhere" in capsys.readouterr().err


def test_a_policy_with_forecasts_stands_beside_itself_without(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"{n * 900},{180 if 8 <= n / 4 % 24 < 20 else 40}" for n in range(12 * 96)]
    (tmp_path / "daily.csv").write_text("timestamp,value\n" + "\n".join(rows))
    arguments = ["-f", manifest(tmp_path), "--metrics", str(tmp_path / "daily.csv")]
    assert run(*arguments, "--forecast", "lead=30m", "--history", "7d", "-o", "json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["load"]["historySeconds"] == 7 * 86400
    without, with_forecast = (run["figures"] for run in result["policies"])
    assert without["samples"] == with_forecast["samples"] == 5 * 96
    assert result["policies"][1]["name"] == "wpa.yaml, lead=30m"
    assert with_forecast["aboveHighSeconds"] < without["aboveHighSeconds"]
    assert result["policies"][0]["forecast"] == []
    why, stands = result["policies"][1]["forecast"]
    assert why.endswith("it is followed.")
    assert stands == "The forecast takes part."
    assert run(*arguments, "--forecast", "lead=30m", "--history", "7d") == 0
    assert f"wpa.yaml, lead=30m: {why}" in capsys.readouterr().out


def test_forecasts_are_swept_over_lead_and_confidence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "load.csv").write_text("timestamp,value\n0,40\n900,40\n")
    arguments = ["-f", manifest(tmp_path), "--metrics", str(tmp_path / "load.csv"), "-o", "json"]
    zone = "zone=CET-1CEST,M3.5.0,M10.5.0/3"
    assert (
        run(*arguments, "--forecast", f"lead=10m|30m,confidence=0.2|0.5,{zone}", "--forecast", "lead=1h") == 0
    )
    names = [found["name"] for found in json.loads(capsys.readouterr().out)["policies"]]
    swept = [f"lead={lead},confidence={of},{zone}" for lead in ("10m", "30m") for of in ("0.2", "0.5")]
    assert names == ["wpa.yaml", *(f"wpa.yaml, {text}" for text in [*swept, "lead=1h"])]


@pytest.mark.parametrize(
    ("option", "says"),
    [
        (("--forecast", "lead=10m|"), "--forecast lead=: lead: "),
        (("--forecast", "lead=" + "|".join(["10m"] * 64)), "--forecast: 65 runs, at most 64"),
        (("--forecast", "soon"), "--forecast soon: 'soon' is not understood"),
        (("--forecast", "lead=1s"), "--forecast lead=1s: lead=1s: from 1m0s to 6h0m0s is possible"),
        (("--history", "much"), "--history much: write for instance"),
        (("--history", "nand"), "--history nand: from nothing"),
        (("--history", "9d"), "--history 9d: from nothing to the 0.0d that the load has"),
    ],
)
def test_forecasts_and_histories_that_cannot_be_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: tuple[str, str], says: str
) -> None:
    (tmp_path / "load.csv").write_text("timestamp,value\n0,40\n900,40\n")
    assert run("-f", manifest(tmp_path), "--metrics", str(tmp_path / "load.csv"), *option) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ((), (LogOptions.nats, None, None)),
        (("--log", str(RECORDED)), (LogOptions.nats, None, RECORDED)),
        (("--data", "folder"), (LogOptions.nats, Path("folder"), None)),
        (("--nats", "nats://there:4222"), ("nats://there:4222", None, None)),
    ],
)
def test_the_load_is_that_of_the_log_which_other_questions_would_ask(
    given: tuple[str, ...], asked: tuple[str, Path | None, Path | None],
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    seen: list[tuple[str, Path | None, Path | None]] = []

    @asynccontextmanager
    async def opened(where: AskedLogOptions | None, file: Path | None) -> AsyncIterator[ExportedLog]:
        where = where or AskedLogOptions()
        seen.append((where.nats, where.data, file))
        yield ExportedLog(ExportFile(RECORDED))

    monkeypatch.setattr(command, "opened", opened)
    tried = manifest(
        tmp_path,
        scaleTargetRef={"apiVersion": "apps/v1", "kind": "Deployment", "name": "app-0"},
        metrics=[
            {
                "type": "External",
                "external": {
                    "metricName": "app-0.load", "metricSelector": {"matchLabels": {"app": "app-0"}},
                    "highWatermark": "20", "lowWatermark": "12",
                },
            }
        ],
    )  # fmt: skip
    code = run("-f", tried, "-n", "team-0", "-o", "json", *given)
    said = capsys.readouterr()
    assert seen == [asked], said.err
    assert code == 0, said.err
    assert json.loads(said.out)["load"]["samples"] > 100


def test_a_load_is_said_once(tmp_path: Path, load: str, capsys: pytest.CaptureFixture[str]) -> None:
    for given in (("--log", str(RECORDED)), ("--data", "folder"), ("--archive", "folder")):
        assert run("-f", manifest(tmp_path), "--metrics", load, *given) == 2
        assert f"--metrics and {given[0]}: both say where the load is" in capsys.readouterr().err
