"""A log and its file answer alike, and what they answer is right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.e2e.asking.conftest import Ask
from tests.e2e.asking.world import APP, SPACE
from tidewright.events import registry
from tidewright.events.decisions import ScaleWorkload
from tidewright.log.reader import Record

ABOUT = (f"wpa/{APP}", "-n", SPACE)


def scale_of(records: list[Record]) -> tuple[Record, ScaleWorkload]:
    """A scale somewhere in the middle, which was applied."""
    found = [
        (record, event)
        for record in records
        if f".deployment.{SPACE}.{APP}" in record.subject
        and isinstance(event := registry.decode(record.body), ScaleWorkload)
    ]
    return found[0]


@pytest.mark.parametrize(
    "question",
    [
        ("explain", *ABOUT),
        ("explain", *ABOUT, "--at", "seq:5000", "-o", "json"),
        ("explain", f"deployment/{APP}", "-n", SPACE, "--at", "40s"),
        ("state", *ABOUT, "--at", "30s"),
        ("state", f"pod/{APP}-5d8f6c7b9-00003", "-n", SPACE, "-o", "yaml"),
        ("events", "--for", f"wpa/{APP}", "-n", SPACE),
        (
            "events",
            "-n",
            SPACE,
            "--class",
            "decision",
            "--class",
            "outcome",
            "--since",
            "60s",
            "--until",
            "20s",
        ),
        ("events", "--class", "outcome", "-o", "json"),
        ("verify",),
    ],
    ids=" ".join,
)
def test_a_running_log_and_its_file_answer_alike(
    ask: Ask, running: tuple[str, ...], whole: Path, question: tuple[str, ...]
) -> None:
    live = ask(*question, *running)
    filed = ask(*question, "--log", whole)
    assert (live.code, live.err) == (0, "")
    assert live.out.replace("stream TW_bench", str(whole)) == filed.out
    assert len(filed.out.splitlines()) > 1


def test_explain_tells_a_scale_from_cause_to_outcome(ask: Ask, whole: Path, records: list[Record]) -> None:
    record, scale = scale_of(records)
    by_id = json.loads(ask("explain", "--decision", scale.id, "--log", whole, "-o", "json").out)
    (told,) = by_id["decisions"]
    rules = [step["rule"] for step in told["because"]]
    assert rules[0] == "Measured"
    assert rules[-1] == "ScaleDecided"
    assert all(step["sentence"].endswith(".") for step in told["because"])
    assert told["causes"][0]["event"]["type"] == "fact.metric-sampled.v1"
    assert told["causes"][0]["sequence"] == int(scale.id.split(".")[2])
    assert told["outcome"]["event"] == {
        "type": "outcome.applied.v1", "at": told["outcome"]["event"]["at"], "decision": scale.id, "attempts": 1,
    }  # fmt: skip
    assert "instead of" in told["opposite"][0]
    assert [one["event"]["type"] for one in told["restsOn"]] == [
        "fact.watermark-pod-autoscaler-observed.v1", "fact.workload-observed.v1",
    ]  # fmt: skip
    at_once = ask("explain", *ABOUT, "--at", f"seq:{record.seq}", "--log", whole).out
    assert f"set replicas {scale.from_replicas} -> {scale.replicas}" in at_once
    assert "is on its way: nothing else is decided" in at_once


def test_explain_says_why_nothing_happens(ask: Ask, whole: Path) -> None:
    found = json.loads(ask("explain", *ABOUT, "--log", whole, "-o", "json").out)
    (sentences,) = found["standing"].values()
    assert sentences[0].startswith(f"Deployment {APP} is at ")
    assert any(s.startswith(("Nothing", "The upscale", "The downscale")) for s in sentences)


def test_state_is_as_of_the_moment(ask: Ask, whole: Path, records: list[Record]) -> None:
    record, scale = scale_of(records)
    cause = int(scale.id.split(".")[2])

    def ordered(seq: int) -> object:
        found = json.loads(ask("state", *ABOUT, "--at", f"seq:{seq}", "--log", whole, "-o", "json").out)
        return found["state"]["autoscaler"]["object"].get("ordered")

    assert ordered(cause - 1) is None
    assert ordered(cause) == {
        "decision": scale.id, "at": scale.at, "replicas": scale.replicas, "from_replicas": scale.from_replicas,
        "reason": scale.because[-1].values["reason"],
    }  # fmt: skip
    assert record.seq > cause


def test_events_keep_to_what_was_asked(ask: Ask, whole: Path) -> None:
    lines = [
        json.loads(line) for line in ask("events", "-n", SPACE, "--log", whole, "-o", "json").out.splitlines()
    ]
    assert {line["namespace"] for line in lines} == {SPACE}
    assert {line["class"] for line in lines} == {"fact", "decision", "outcome"}
    about = [
        json.loads(line)
        for line in ask(
            "events", "--for", f"wpa/{APP}", "-n", SPACE, "--log", whole, "-o", "json"
        ).out.splitlines()
    ]
    # Its scales are decided about its target, and their outcomes lie there.
    assert {(line["kind"], line["class"]) for line in about} >= {
        ("watermarkpodautoscaler", "fact"), ("watermarkpodautoscaler", "decision"), ("deployment", "decision"),
        ("deployment", "outcome"),
    }  # fmt: skip
    assert not [line for line in about if line["kind"] == "deployment" and line["class"] == "fact"]
    documents = list(
        yaml.safe_load_all(
            ask("events", "--for", f"wpa/{APP}", "-n", SPACE, "--log", whole, "-o", "yaml").out
        )
    )
    assert documents == about


def test_a_log_is_the_same_as_itself_and_as_its_replay(ask: Ask, whole: Path) -> None:
    assert "They are the same." in ask("diff", whole, whole).out
    assert "They are the same." in ask("diff", whole).out


def test_diff_names_what_another_configuration_changes(ask: Ask, whole: Path, tmp_path: Path) -> None:
    config = tmp_path / "strict.yaml"
    config.write_text("strict: true\n")
    answer = ask("diff", whole, "--config", f"autoscaler={config}", "-o", "json")
    found = json.loads(answer.out)
    assert answer.code == 1
    assert found["kinds"]["changed HoldReplicas"] > 0
    assert all(change["before"] != change["after"] for change in found["first"])
    refused = ask("diff", whole, "--config", f"auto={config}")
    assert (refused.code, "'auto' configures nobody" in refused.err) == (2, True)
