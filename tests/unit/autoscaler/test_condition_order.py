"""In which order conditions stand, strictly: as the original has them."""

from __future__ import annotations

from tests.unit.autoscaler.world import World, one, pod, sample, spec, workload, wpa
from tidewright.autoscaler.api.conditions import Change, Condition, Setting
from tidewright.autoscaler.passes import conditions as c
from tidewright.events.decisions import SetStatus

SETTING = Setting(c.ABLE_TO_SCALE, True, "Reason", "text")


def types(conditions: list[Condition]) -> list[str]:
    return [condition.type for condition in conditions]


def unsorted() -> list[Condition]:
    return [
        Condition("Older", True, 10.0, "", ""),
        Condition(c.ABLE_TO_SCALE, True, 20.0, "Reason", "text"),
    ]


def test_strictly_conditions_are_sorted_also_where_none_has_changed_and_that_is_a_change() -> None:
    conditions = unsorted()
    assert c.apply(conditions, [SETTING], 30.0, strict=True) is Change.TEXT
    assert types(conditions) == [c.ABLE_TO_SCALE, "Older"]
    assert c.apply(conditions, [SETTING], 40.0, strict=True) is Change.NONE


def test_by_default_an_order_that_somebody_wrote_stays() -> None:
    conditions = unsorted()
    assert c.apply(conditions, [SETTING], 30.0, strict=False) is Change.NONE
    assert types(conditions) == ["Older", c.ABLE_TO_SCALE]


def test_strictly_what_a_pass_sets_comes_before_what_was_set_in_the_same_second() -> None:
    """The status holds whole seconds, and the order is that of the exact times."""
    world = World(strict=True)
    known = {
        "lastScaleTime": "1970-01-01T00:00:01Z",
        "conditions": [
            {"type": "BelowLowWatermark", "status": "False", "lastTransitionTime": "1970-01-01T00:01:41Z"}
        ],
    }
    world.feed(
        wpa(100, spec=spec(), status=known), workload(100, 2), pod(100, "web-77-a"), pod(100, "web-77-b")
    )
    status = one(world.feed(sample(101.5, 15_000)), SetStatus).status
    assert {entry["lastTransitionTime"] for entry in status["conditions"]} == {"1970-01-01T00:01:41Z"}
    assert status["conditions"][0]["type"] != "BelowLowWatermark"
