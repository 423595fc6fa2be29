"""A short seed of the chaos run: a small cluster, a few kills of everything, and all checks but the calm run.

The end is known without one: the scenario has a single fixed point. `make chaos` has the long one.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos import live
from tests.chaos.scenario import (
    FINAL,
    FINAL_PLACES,
    FINAL_REPLICAS,
    FIRST,
    VALLEY,
    VALLEY_REPLICAS,
    Scenario,
    fixed_points,
)

WORKLOADS, KILLS, EVERY_S = 6, 6, 0.8


def test_the_end_of_the_scenario_has_one_fixed_point() -> None:
    assert fixed_points(FINAL) == [FINAL_REPLICAS]
    assert fixed_points(VALLEY) == [VALLEY_REPLICAS]
    assert VALLEY_REPLICAS <= FIRST


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_kills_of_everything_lose_and_double_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "PATIENCE_S", 60.0)  # so that what was missing is said before the test is ended
    scenario = Scenario(
        workloads=WORKLOADS,
        namespaces=2,
        speed=120.0,
        load_s=KILLS * EVERY_S,
        start=1_770_000_000.0,
    )
    ended = await live.run(scenario, tmp_path, kills=KILLS, seed=5, every_s=EVERY_S, lead_s=6.0)
    print("\n".join(ended.told))  # shown when it fails
    assert ended.kills == KILLS
    assert len(ended.ledger.decisions) > 50
    assert ended.report.decisions > 50
    assert ended.report.differences == []
    assert ended.ledger.twice == []
    assert ended.ledger.unanswered == []
    assert ended.ledger.answered_twice == []
    assert ended.ledger.stray == []
    assert (ended.effects.lost, ended.effects.doubled) == ([], [])
    assert ended.effects.foreseen > 0
    assert all(ended.effects.applied[verb] > 0 for verb in ("scale", "status", "create", "delete"))
    assert ended.drains.wrong == []
    assert ended.drains.deleted
    assert ended.wrong == []
    for name, autoscaler in ended.state["autoscalers"].items():
        assert autoscaler["desired"] == autoscaler["current"] == FINAL_REPLICAS, name
        assert autoscaler["conditions"]["ScalingActive"].startswith("True ValidMetricFound"), name
        assert autoscaler["conditions"]["AbleToScale"].startswith("True"), name
    assert ended.state["places"] == dict.fromkeys(scenario.spread, FINAL_PLACES)
    assert ended.state["cloud"] == []
    for name, conditions in ended.state["requests"].items():
        assert conditions["Provisioned"].startswith("True"), name
