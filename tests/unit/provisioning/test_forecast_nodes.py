"""Replicas that a forecast asks for are expected pods: from one decider to the other, before there is any load."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.unit.autoscaler import test_forecasts as forecasting
from tests.unit.autoscaler.world import of
from tests.unit.provisioning.workloads import Workloads
from tidewright.events import provisioning as p
from tidewright.events.decisions import ScaleWorkload

DAY_S = 86400
SEVEN = 8 * DAY_S + 7 * 3600
"""An hour before the load comes, after eight days of it."""


@pytest.fixture(scope="module")
def foreseen() -> ScaleWorkload:
    """What the autoscaler decides an hour before the load comes."""
    world = forecasting.started(forecasting.ASKS)
    forecasting.run(world, 900, SEVEN - forecasting.EVERY_S)
    (scale,) = of(forecasting.run(world, SEVEN - forecasting.EVERY_S, SEVEN + 1), ScaleWorkload)
    assert forecasting.load(scale.at) < forecasting.load(scale.at + 3600)
    assert any(step.rule == "Forecast" for step in scale.because)
    return scale


def told(scale: ScaleWorkload, foresight: str, **more: Any) -> Workloads:
    """A cluster with the target and its pods, in which provisioning reads that decision."""
    cluster = Workloads({"foresight": foresight}, boots=False)
    cluster.add_group("g", maximum=50)
    cluster.deployment(
        "web", scale.from_replicas, status_replicas=scale.from_replicas, template=cluster.form()
    )
    cluster.settle()
    target = msgspec.structs.replace(scale.target, namespace="ns", uid="uid-web")
    cluster.tell(msgspec.structs.replace(scale, at=cluster.now, target=target, **more))
    return cluster


def test_nodes_are_ordered_in_answer_to_a_forecast(foreseen: ScaleWorkload) -> None:
    assert foreseen.target.kind == "Deployment"
    assert foreseen.target.name == "web"
    cluster = told(foreseen, "decisions")
    (plan,) = cluster.of(p.PlanScaleUp)
    missing = foreseen.replicas - foreseen.from_replicas
    assert [(share.pods, share.decision) for share in plan.expected] == [(missing, foreseen.id)]
    assert [order.size for order in cluster.of(p.IncreaseNodeGroup)] == [missing]


@pytest.mark.parametrize(
    ("foresight", "more"), [("off", {}), ("workloads", {}), ("decisions", {"shadow": True})]
)
def test_without_foresight_by_decisions_none_are(
    foreseen: ScaleWorkload, foresight: str, more: dict[str, bool]
) -> None:
    assert told(foreseen, foresight, **more).of(p.IncreaseNodeGroup) == []
