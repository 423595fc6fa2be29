"""A recorded log with forecasts verifies byte for byte, and its forecasts are in what was decided."""

from __future__ import annotations

import pytest

from tests.recorded.ended import FORECASTS
from tidewright.asking.exported import ExportedLog
from tidewright.asking.service_state import deciders
from tidewright.asking.verify import verified
from tidewright.cli import main
from tidewright.events import registry
from tidewright.events.autoscaler import RecordForecast
from tidewright.events.decisions import ScaleWorkload
from tidewright.log.export import ExportFile


def decisions() -> list[object]:
    return [
        registry.decode(record.body)
        for record in ExportFile(FORECASTS).records()
        if ".decision." in record.subject
    ]


async def test_every_decision_is_what_its_facts_give_byte_for_byte() -> None:
    outcome = await verified(ExportedLog(ExportFile(FORECASTS)), deciders(("autoscaler",)))
    assert outcome.good, (
        "decided otherwise about forecasts than was recorded: is that meant, and the version that recorded not given out yet, record anew "
        f"(python -m tests.recorded.forecasting, about four minutes). {outcome.report.differences[:3]}"
    )
    assert outcome.report.decisions == len(decisions()) > 150


def test_there_are_forecasts_that_raised_and_one_that_began_with_a_model() -> None:
    made = decisions()
    raised = {
        scale.target.name
        for scale in made
        if isinstance(scale, ScaleWorkload)
        and scale.replicas > scale.from_replicas
        and any(step.rule == "Forecast" for step in scale.because)
    }
    assert raised == {"api", "web"}
    begun: dict[str, RecordForecast] = {}
    for record in made:
        if isinstance(record, RecordForecast):
            begun.setdefault(record.target.name, record)
    assert begun["web"].seasons == {}
    assert len(begun["api"].seasons) == 1


def test_it_is_explained_with_what_came(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["explain", "wpa/web", "-n", "shop", "--log", str(FORECASTS)]) == 0
    told = capsys.readouterr().out
    assert "it is expected to reach" in told
    assert "came: the bound held" in told or "came: the bound did not hold" in told
