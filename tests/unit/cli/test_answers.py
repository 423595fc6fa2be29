"""What commands that ask no log print for programs, beside the schemas; those of the demo, of keys and of a cluster are with their own tests."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import msgspec
import pytest

from tests.answers import fits
from tidewright.cli import main
from tidewright.cli.answers import FaultRules, fault
from tidewright.sim.api.http.faults import Action, Match, Rule
from tidewright.sim.load import LoadReport


def test_versions_are_told_as_the_schema_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["version", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    fits("version", found)
    assert set(found["deciders"]) == {"autoscaler", "provisioning", "spread", "shard-manager"}
    assert main.run(["version"]) == 0
    printed = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert printed["autoscaler"] == found["deciders"]["autoscaler"]
    assert printed["extras"].split() == found["extras"]
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    assert set(found["extras"]) == set(project["optional-dependencies"]) - {"dev"}  # all are here
    assert printed["nats-py"] == found["libraries"]["nats-py"]


def test_a_fault_is_told_with_units_whatever_it_does() -> None:
    rules = (
        Rule(id="slow", action=Action(latency_s=0.5), count=3),
        Rule(
            id="busy", match=Match(verbs=["GET", "WATCH"], path="/pods", user_agent="x"), probability=0.5,
            action=Action(status=429, retry_after_s=7, message="no", drop_watches=True), struck=4,
        ),
    )  # fmt: skip
    told = [fault(msgspec.to_builtins(rule)) for rule in rules]
    for one in told:
        fits("sim.fault.add", one)
    fits("sim.fault.list", FaultRules(items=tuple(told)))
    fits("sim.fault.list", FaultRules(items=()))
    assert (told[0].action.latency_seconds, told[0].count) == (0.5, 3)
    assert (told[1].action.retry_after_seconds, told[1].match.user_agent) == (7, "x")


def test_a_replay_is_told_with_units() -> None:
    from tidewright.cli.sim import load

    answer = load._answer(LoadReport(pods=9, created=8, bound=7, ended=6, peak_pending=5, waited_s=4.5))
    fits("sim.load", answer)
    assert (answer.most_pending, answer.waited_seconds) == (5, 4.5)
