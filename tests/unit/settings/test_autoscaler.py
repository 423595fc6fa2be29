"""Every member of the autoscaler's policy changes what is decided or measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.unit.autoscaler.world import World, external, pod, sample, workload, wpa
from tests.unit.settings.trying import ABSENT, Setting, matters, unknown
from tidewright.autoscaler.forecast.asked import asked
from tidewright.autoscaler.forecast.learnt import Model, as_data, learn
from tidewright.autoscaler.forecast.load import digest
from tidewright.autoscaler.policy import Policy
from tidewright.autoscaler.tell.exposition import Sample, samples
from tidewright.events.autoscaler import RecordForecast
from tidewright.events.base import Event, JsonObject
from tidewright.events.decisions import RecordObjectEvent, ScaleWorkload, SetStatus
from tidewright.events.facts import Owner

Scene = Callable[[JsonObject], list[Any]]
CPU = {
    "type": "Resource",
    "resource": {"name": "cpu", "metricSelector": {}, "lowWatermark": "5", "highWatermark": "10"},
}
STRANGER = (Owner(kind="Game", name="web", uid="g", api_version="example.org/v1", controller=True),)
"""Who owns pods of another workload, and is named as the target is."""


def scene(*events: Event, replicas: int = 4, **members: Any) -> Scene:
    """An object with its target, and what is seen then."""

    def told(policy: JsonObject) -> list[Any]:
        world = World(**policy)
        world.start(replicas, **members)
        return [*world.feed(*events), *samples(world.fold.state)]

    return told


def labelled(policy: JsonObject) -> list[Any]:
    world = World(**policy)
    world.feed(wpa(100, labels={"team": "blue"}))
    return list(samples(world.fold.state))


def foreseen(policy: JsonObject) -> list[Any]:
    world = World(**policy)
    return world.feed(wpa(100), workload(100, 2), pod(100, "web-77-0"), sample(101, 9_000))


def rounds(*values: int) -> list[Event]:
    """A value every 30 s."""
    return [sample(101 + 30 * n, value) for n, value in enumerate(values)]


STALE = sample(500, 1_000, sampled_at=300.0)
LEARNT = as_data(
    Model(
        lead_s=600, confidence=0.35,
        seasons={digest("external/rps/app=web"): learn([(0.0, 9_000), (900.0, 12_000)], asked("lead=10m"))},
    )
)  # fmt: skip
TRIED: dict[str, Setting] = {
    "strict": Setting(scene(sample(101, 7_000), metrics=[external()]), (ABSENT, True), ScaleWorkload),
    "skip_not_scaling_events": Setting(
        scene(*rounds(30_000, 31_000), replicas=4), (ABSENT, True), RecordObjectEvent
    ),
    "stale_after_s": Setting(scene(STALE), (300.0, 120.0), ScaleWorkload),
    "status_interval_s": Setting(scene(*rounds(30_000, 31_000, 32_000, 33_000)), (ABSENT, 5.0), SetStatus),
    "enforce_bounds_without_metrics": Setting(
        scene(sample(101, error="gone", error_class="not-found"), replicas=40), (ABSENT, True), ScaleWorkload
    ),
    "guard_resource_zero": Setting(
        scene(
            msgspec.structs.replace(
                sample(101), name="resource/cpu/", pods_milli={f"web-77-{n}": 0 for n in range(4)}
            ),
            metrics=[CPU],
        ),
        (ABSENT, True),
        ScaleWorkload,
    ),
    "align_after_limits": Setting(
        scene(sample(101, 90_000), replicaScalingAbsoluteModulo=4, scaleUpLimitFactor=50),
        (ABSENT, True),
        ScaleWorkload,
    ),
    "walk_owner_chain": Setting(
        scene(
            *(pod(100, f"stranger-{n}", owners=STRANGER) for n in range(4)), sample(101, 60_000), replicas=8
        ),
        (ABSENT, True),
        (ScaleWorkload, SetStatus),
    ),
    "labels_as_tags": Setting(labelled, (ABSENT, ["team"]), Sample),
    "forecast": Setting(foreseen, (ABSENT, "lead=10m"), RecordForecast, {"forecast_selector": ""}),
    "forecast_selector": Setting(foreseen, ("tier=web", "!tier"), RecordForecast, {"forecast": "lead=10m"}),
    "forecast_models": Setting(
        foreseen,
        (ABSENT, {"shop/wpa": LEARNT}),
        RecordForecast,
        {"forecast": "lead=10m", "forecast_selector": ""},
    ),
    "outcome_timeout_s": Setting(scene(*rounds(60_000, 61_000, 62_000)), (ABSENT, 45.0), ScaleWorkload),
}


@pytest.mark.parametrize("key", [field.name for field in msgspec.structs.fields(Policy)])
def test_a_setting_changes_something(key: str) -> None:
    matters(key, TRIED)


def test_every_scene_is_of_a_setting() -> None:
    assert unknown({field.name for field in msgspec.structs.fields(Policy)}, TRIED) == []
