"""`tidewright compare`: what it says it told, and of when."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tidewright.cli import main
from tidewright.cli.compare.command import _text
from tidewright.kube.times import seconds

LOG = str(Path(__file__).parents[2] / "recorded" / "chaos.twlog")


def test_no_change_at_all_is_no_agreement() -> None:
    assert _text([], "stream TW_local", 0.0).endswith(
        "stream TW_local, from 1970-01-01 00:00:00 UTC on: 0 changes by anybody: there is nothing to compare yet."
    )


def test_a_day_is_told_where_nobody_says_since_when_and_the_answer_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    told = {}
    for since in ((), ("--since", "24h"), ("--since", "2h"), ("--since", "30000d")):
        assert main.run(["compare", "wpa", "-A", "--log", LOG, *since, "-o", "json"]) in (0, 1)
        told[since] = json.loads(capsys.readouterr().out)
    assert told[()] == told["--since", "24h"]
    assert seconds(told[()]["at"]) - seconds(told[()]["since"]) == pytest.approx(86_400, abs=0.002)
    assert seconds(told["--since", "30000d"]["since"]) == 0.0
    assert main.run(["compare", "wpa", "-A", "--log", LOG, "--since", "2h"]) in (0, 1)
    day, time = told["--since", "2h"]["since"][:19].split("T")
    assert f"from {day} {time} UTC on: " in capsys.readouterr().out.splitlines()[-1]
