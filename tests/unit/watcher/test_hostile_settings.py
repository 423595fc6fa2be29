"""A ConfigMap of any content: a part that cannot be read is left as it was and told, and of what is read each problem names its setting."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hostile.mutations import VALUES, encoded, mutated, own
from tests.hostile.world import CONFIGS, READS, full
from tidewright.autoscaler.policy import Policy
from tidewright.events import registry
from tidewright.events.base import JsonObject
from tidewright.provisioning.flags import KEYS
from tidewright.spread.state import Settings
from tidewright.watcher.configuration import changes, priorities_of

PARTS: dict[str, tuple[JsonObject, tuple[str, ...]]] = {
    "autoscaler": (
        {"forecast": "lead=10m,confidence=0.9", "forecast_selector": "app=web", "labels_as_tags": ["app"], "forecast_models": {"shop/wpa": {}}},
        Policy.__struct_encode_fields__,
    ),
    "provisioning": (
        {
            "profile": "hold",
            "machine-types": [
                {
                    "name": "m",
                    "resources": {"cpu": 4000, "memory": 10, "pods": 5},
                    "labels": {"a": "b"},
                    "taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}],
                    "price_micro": 5,
                    "zones": ["a"],
                    "max_size": 5,
                }
            ],
            "quotas": [{"id": "q", "limits": {"cpu": 5, "nodes": 3}, "groups": ["ga"], "node_selector": {"a": "b"}}],
            "priorities": {"10": ["g.*"]},
            "consolidation": {"*": "underutilised"},
            "consolidation-budgets": {"*": [{"nodes": "10%", "schedule": "0 9 * * *", "duration": "8h", "reasons": ["Empty"]}]},
            "cores-total": "0:100",
            "gpu-total": "a:0:5",
            "drain-priority-config": "100:10,0:5",
            "expander": "priority,least-waste",
            "scale-down-unneeded-time": "10s",
            "as-reference": ["ways"],
        },
        tuple(sorted(KEYS)),
    ),
    "spread": ({"clean_up_deleted": True}, Settings.__struct_encode_fields__),
    "shardmanager": (
        {
            **CONFIGS["shardmanager"][0],
            "services": [{"service": "autoscaler", "namespace": "shop", "deployment": "web", "min": 1, "max": 4}],
        },
        ("managers", "services"),
    ),
}  # fmt: skip
DECIDERS = {decider.config.name: decider for decider in READS.values() if decider.config is not None}


def given_as(seed: int) -> tuple[str, Any]:
    """A part with something else in it."""
    chance = Random(seed)
    name = chance.choice(sorted(PARTS))
    base, keys = PARTS[name]
    data = own(base)
    for key in chance.sample(keys, min(len(keys), chance.choice((0, 1, 3)))):
        data[key] = own(chance.choice(VALUES))
    return name, mutated(data, chance, large=0.0)


@given(st.integers(0, 2**32))
@settings(max_examples=120)
def test_a_part_of_any_content_is_told_or_refused_and_what_is_wrong_in_it_is_named(seed: int) -> None:
    name, data = given_as(seed)
    text = encoded(data).decode("utf-8", "surrogatepass")
    said, bad = changes({}, {f"{name}.yaml": text})
    assert len(said) + len(bad) == 1
    assert all(f"{name}.yaml" in str(error) for error in bad)
    for event in said:
        assert registry.read(registry.encode(event)) == event
        config = DECIDERS[name].config
        assert config is not None
        for problem in config.problems(event.data):
            assert any(str(key)[:40] in problem for key in event.data), problem
    registry.encode(priorities_of({"priorities": text}))


@given(st.integers(0, 2**32))
@settings(max_examples=12)
def test_no_settings_end_a_decider(seed: int) -> None:
    name, data = given_as(seed)
    said, _ = changes({}, {f"{name}.yaml": encoded(data).decode("utf-8", "surrogatepass")})
    world = full(seed % 3)
    for event in said:
        world.tell("config", event)
    world.fire(4)
    world.sample(90_000, 20)
    world.restart()
    world.series()


@pytest.mark.parametrize(
    "text", ['managers: "\\ud800"', '{"priorities": {"\\udfff": ["a"]}}', '10: ["\\ud800"]']
)
def test_half_of_a_character_is_refused_and_ends_nothing(text: str) -> None:
    """Nothing can write it down: it ended the watcher, and each that was started anew."""
    said, (error,) = changes({}, {"shardmanager": text})
    assert not said
    assert "key 'shardmanager', line 1: a text has half of a character" in str(error)
    assert "half of a character" in str(priorities_of({"priorities": text}).data["error"])
