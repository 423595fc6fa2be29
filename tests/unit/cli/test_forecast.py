"""`tidewright forecast learn` and `backtest --suggest`: a log or file in, configuration and advice out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.exports import write_export
from tests.unit.cli.test_backtest import SPEC, manifest
from tidewright.autoscaler.forecast import bounds, season
from tidewright.autoscaler.forecast.asked import ANNOTATION
from tidewright.autoscaler.forecast.load import digest
from tidewright.autoscaler.policy import of_config, problems
from tidewright.cli import main
from tidewright.events import registry
from tidewright.events.autoscaler import WatermarkPodAutoscalerObserved
from tidewright.events.facts import MetricSampled, ObjectFact, WorkloadObserved
from tidewright.kube import yamltext
from tidewright.log.export import Manifest
from tidewright.log.reader import Record
from tidewright.log.subjects import SLOT_HASH, Subjects, slot_of

DAYS, EVERY_S = 10, 900
QUERY = "external/{name}/app=shop"


def load(at: float) -> int:
    """Busy from 8 to 20 o'clock."""
    return 180_000 if 8 <= at % 86400 / 3600 < 20 else 40_000


def exported(folder: Path, *, annotation: str = "") -> str:
    """Ten days of two objects: `shop` has a rhythm, `flat` is never busy; `bare` was never measured."""
    subjects, slot = Subjects("test"), slot_of("demo", 32)
    records: list[Record] = []

    def put(kind: str, fact: ObjectFact) -> None:
        subject = subjects.fact(slot, kind, "demo", fact.name)
        records.append(Record(len(records) + 1, subject, registry.encode(fact), {}))

    for name in ("shop", "flat", "bare"):
        spec = json.loads(json.dumps(SPEC))
        spec["scaleTargetRef"]["name"] = name
        spec["metrics"][0]["external"]["metricName"] = name
        annotations = {ANNOTATION: annotation} if annotation and name == "shop" else {}
        put(
            "watermarkpodautoscaler",
            WatermarkPodAutoscalerObserved(
                at=0.0, namespace="demo", name=name, uid=name, spec=spec, annotations=annotations
            ),
        )
        put(
            "deployment",
            WorkloadObserved(
                at=0.0,
                namespace="demo",
                name=name,
                api_version="apps/v1",
                kind="Deployment",
                replicas=4,
                ready_replicas=4,
            ),
        )
    for n in range(DAYS * 86400 // EVERY_S):
        at = float(n * EVERY_S)
        for name, value in (("shop", load(at)), ("flat", 50_000)):
            query = QUERY.format(name=name)
            put("metric", MetricSampled(at=at, namespace="demo", name=query, series_milli=(value,)))
    path = folder / "it.twlog"
    told = Manifest(
        cluster="test", stream="TW_test", slots=32, slot_hash=SLOT_HASH, first_seq=1, last_seq=len(records),
        version="0",
    )  # fmt: skip
    write_export(path, told, (), records)
    return str(path)


def test_what_is_learnt_of_a_log_is_configuration_that_the_autoscaler_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["forecast", "learn", "--log", exported(tmp_path), "--forecast", "lead=30m"]) == 0
    printed = capsys.readouterr()
    data = yamltext.one(printed.out, "autoscaler", "a mapping", yamltext.FROM_CLUSTER)
    assert problems(data) == ()
    found = of_config(data).forecast_models
    assert sorted(found) == ["demo/flat", "demo/shop"]
    assert found["demo/shop"].lead_s == 1800
    known = found["demo/shop"].seasons[digest(QUERY.format(name="shop"))]
    assert bounds.mute(known, found["demo/shop"].confidence) == ""
    ahead = season.ahead(known, lead_s=1800, confidence=0.35)
    assert ahead is not None
    assert abs(ahead.load - 40_000) < 4_000  # at midnight
    assert "demo/shop: 10.0 days of load" in printed.err
    assert "demo/shop: Counted over " in printed.err
    assert "it is followed." in printed.err
    assert "left out: " in printed.err
    assert "no samples of external/bare/app=shop" in printed.err


def test_the_annotation_says_who_is_learnt_and_for_what(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = exported(tmp_path, annotation="lead=20m,confidence=0.5")
    assert main.run(["forecast", "learn", "--log", path, "-o", "values"]) == 0
    values = yaml.safe_load(capsys.readouterr().out)
    (model,) = values["config"]["autoscaler"]["forecast_models"].values()
    assert (model["lead_s"], model["confidence"]) == (1200, 0.5)
    assert main.run(["forecast", "learn", "shop", "-n", "demo", "--log", path, "-o", "json"]) == 0
    assert list(json.loads(capsys.readouterr().out)["forecast_models"]) == ["demo/shop"]


def test_a_file_is_learnt_under_the_name_of_its_object(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"{n * 900},{load(n * 900.0) / 1000}" for n in range(9 * 96)]
    (tmp_path / "daily.csv").write_text("timestamp,value\n" + "\n".join(rows))
    words = ["-f", manifest(tmp_path), "--metrics", str(tmp_path / "daily.csv"), "-n", "bank"]
    assert main.run(["forecast", "learn", *words, "--forecast", "lead=30m"]) == 0
    data = yaml.safe_load(capsys.readouterr().out)
    assert list(data["forecast_models"]) == ["bank/shop"]
    assert problems(data) == ()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["-f", "{wpa}", "--metrics", "{csv}"], "wpa.yaml: has no annotation tidewright.dev/forecast; say what"),
        (["-f", "{wpa}", "--metrics", "{csv}", "--forecast", "soon"], "--forecast soon: 'soon' is not understood"),
        (["--metrics", "{csv}"], "--metrics: give the object, too, with --filename"),
        (["-f", "{wpa}", "--metrics", "{csv}", "--log", "{log}"], "--metrics and --log: one of them"),
        (["shop", "-f", "{wpa}", "--log", "{log}"], "a name and --filename: one of them"),
        (["nobody", "--log", "{log}"], "has no WatermarkPodAutoscaler nobody"),
        (["--log", "{log}", "-n", "elsewhere"], "has no WatermarkPodAutoscaler in namespace elsewhere"),
        (["bare", "--log", "{log}", "--forecast", "lead=10m"], "no samples of external/bare/app=shop"),
        (["-f", "{wpa}", "--metrics", "{empty}", "--forecast", "lead=10m"], "no rows after the header"),
    ],
)  # fmt: skip
def test_what_cannot_be_learnt_is_told_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    (tmp_path / "it.csv").write_text("timestamp,value\n0,40\n900,40\n")
    (tmp_path / "empty.csv").write_text("timestamp,value\n")
    places: dict[str, Any] = {
        "wpa": manifest(tmp_path), "csv": tmp_path / "it.csv", "log": exported(tmp_path), "empty": tmp_path / "empty.csv",
    }  # fmt: skip
    assert main.run(["forecast", "learn", *(word.format(**places) for word in words)]) == 2
    assert says in capsys.readouterr().err


def test_objects_for_which_a_forecast_would_have_paid_are_named_with_how_much(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = exported(tmp_path)
    words = ["backtest", "--suggest", "--log", path, "--forecast", "lead=30m"]
    assert main.run([*words, "-o", "json"]) == 0
    found = {item["name"]: item for item in json.loads(capsys.readouterr().out)["items"]}
    shop = found["shop"]
    assert shop["pays"]
    assert shop["forecast"] == "lead=30m"
    assert 0 < shop["confidence"] < 1
    assert found["bare"]["confidence"] == 0
    assert shop["with"]["aboveHighSeconds"] < 0.75 * shop["without"]["aboveHighSeconds"]
    assert shop["with"]["replicaHours"] <= 1.05 * shop["without"]["replicaHours"]
    assert found["flat"]["whyNot"] == "its load was never above the high watermark"
    assert "no samples of" in found["bare"]["whyNot"]
    assert main.run(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:4] == ["NAMESPACE", "NAME", "FORECAST", "CONFIDENCE"]
    assert lines[1].split()[:4] == ["demo", "shop", "lead=30m", f"{shop['confidence']:g}"]
    assert main.run([*words, "-o", "name"]) == 0
    assert capsys.readouterr().out == "watermarkpodautoscaler/shop\n"


def test_without_saying_what_a_backtest_is_told_how_it_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["backtest"]) == 2
    assert "--suggest --log FILE" in capsys.readouterr().err
    assert main.run(["backtest", "--suggest", "--forecast", "soon"]) == 2
    assert "--forecast soon: 'soon' is not understood" in capsys.readouterr().err
