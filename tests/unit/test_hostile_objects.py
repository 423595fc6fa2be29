"""No object that a cluster's user may create ends or halts a decider, for its own user or for anybody else.

Beside valid objects of every kind others come, are put right or deleted, and timers fire: each decider folds and
answers, what it decides is read back as it is from bytes that a server takes, its state says the same once it was stored,
and its series can be told.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hostile.mutations import mutated, own
from tests.hostile.objects import CUSTOM, OBJECTS
from tests.hostile.world import CUSTOM_KIND, World, empty, fill, full

EVERY: list[tuple[str, int, Any]] = [
    *((kind, number, obj) for kind, objects in OBJECTS.items() for number, obj in enumerate(objects)),
    *((CUSTOM_KIND, 0, CUSTOM) for _ in range(5)),
]


def live_through(world: World, others: list[tuple[str, Any, Any]]) -> None:
    """Objects come in place of valid ones, stay for a while, and are put right, or go."""
    for kind, _, other in others:
        world.see(kind, other)
    world.fire(3)
    world.sample(50_000, 3000)
    world.restart()
    world.fire(3)
    world.series()
    for n, (kind, valid, other) in enumerate(others):
        if n % 2:
            world.see(kind, valid)
        else:
            world.lose(kind, other)
    world.fire(3)
    world.restart()


@given(st.integers(0, 2**32), st.integers(0, 2))
@settings(max_examples=25)
def test_no_object_ends_a_decider(seed: int, config: int) -> None:
    chance = Random(seed)
    others = []
    for _ in range(chance.choice((1, 2, 4, 6))):
        kind, _, valid = chance.choice(EVERY)
        other = valid
        for _ in range(chance.choice((1, 1, 2, 3))):
            other = mutated(other, chance)
        others.append((kind, valid, other))
    live_through(full(config), others)


@given(st.integers(0, 2**32), st.integers(0, 2))
@settings(max_examples=6)
def test_no_object_ends_a_decider_that_knows_no_other_yet(seed: int, config: int) -> None:
    chance = Random(seed)
    world = empty(config)
    fill(world, {(kind, n): mutated(obj, chance) for kind, n, obj in EVERY if chance.random() < 0.2})
    world.fire(4)
    world.restart()


def put(kind: str, number: int, *changes: tuple[tuple[str | int, ...], Any]) -> tuple[str, Any, Any]:
    valid = OBJECTS[kind][number] if kind in OBJECTS else CUSTOM
    other = own(valid)
    for path, value in changes:
        part = other
        for key in path[:-1]:
            part = part[key]
        part[path[-1]] = value
    return kind, valid, other


REVISION = ("metadata", "annotations", "deployment.kubernetes.io/revision")
SHARD = own(OBJECTS["pod"][7])
SHARD["metadata"] |= {"name": "mapped-0", "uid": "uid-mapped-0"}
SHARD["metadata"]["labels"]["shards.tidewright.dev/set"] = "mapped"

FOUND: dict[str, list[tuple[str, Any, Any]]] = {
    "slots of which a pod has more than there are": [
        (
            "pod",
            SHARD,
            {**SHARD, "metadata": {**SHARD["metadata"], "annotations": {"shards.tidewright.dev/generation": "g", "shards.tidewright.dev/slots": "0-99999999999"}}},
        )
    ],
    "a revision that is no number": [put("replicaset", 0, (REVISION, "\N{SUPERSCRIPT TWO}")), put("deployment", 0, (REVISION, "\N{SUPERSCRIPT TWO}"))],
    "a revision of thousands of digits": [put("replicaset", 0, (REVISION, "9" * 5000)), put("deployment", 0, (REVISION, "9" * 5000))],
    "a watermark of thousands of digits": [put("watermarkpodautoscaler", 0, (("spec", "metrics", 0, "external", "lowWatermark"), "1" * 5000))],
    "a tolerance of thousands of digits": [put("watermarkpodautoscaler", 0, (("spec", "tolerance"), "0." + "0" * 5000 + "1"))],
    "a pin of thousands of digits": [put("shardset", 0, (("spec", "assignment", "pins"), {"9" * 5000: "a"}))],
    "a load of thousands of digits": [put("shardmember", 0, (("status", "load"), {"9" * 5000: 1}))],
    "a node selector that no label can meet": [
        put("resourceslice", 1, (("spec", "nodeSelector", "nodeSelectorTerms", 0, "matchExpressions", 0, "values"), ["no label"]))
    ],
    "parameters of a class that are a list": [put("provisioningclass", 0, (("spec", "parameters"), ["a"]))],
    "details of a class that are a text": [put("provisioningrequest", 0, (("metadata", "uid"), "another"), (("status", "provisioningClassDetails"), "a"))],
    "details of a class that are no texts": [put("provisioningrequest", 0, (("metadata", "uid"), "another"), (("status", "provisioningClassDetails"), {"a": []}))],
    "a generation of a condition that is none": [put("provisioningrequest", 0, (("metadata", "uid"), "another"), (("status", "conditions", 0, "observedGeneration"), {"a": 1}))],
    "a condition whose type is none": [put("capacitybuffer", 0, (("status", "conditions", 0, "type"), {}))],
    "owners in a circle": [
        put("replicaset", 0, (("metadata", "ownerReferences", 0, "kind"), "ReplicaSet"), (("metadata", "ownerReferences", 0, "name"), "web-77"), (("metadata", "ownerReferences", 0, "uid"), "uid-web-77")),
        put("deployment", 0, (("metadata", "ownerReferences"), [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-77", "uid": "uid-web-77", "controller": True}])),
    ],
    "more of everything than there is": [
        put("provisioningrequest", 0, (("spec", "podSets", 0, "count"), 2**31 - 1)),
        put("capacitybuffer", 0, (("spec", "replicas"), 2**31 - 1), (("spec", "limits"), {})),
        put("deployment", 0, (("spec", "replicas"), 2**31 - 1)),
        put("statefulset", 0, (("spec", "replicas"), 2**31 - 1), (("spec", "podManagementPolicy"), "Parallel")),
        put("job", 0, (("spec", "parallelism"), 2**31 - 1), (("spec", "completions"), 2**31 - 1)),
    ],
}  # fmt: skip


@pytest.mark.parametrize("what", FOUND)
@pytest.mark.parametrize("config", [1, 2])
def test_what_once_ended_or_halted_one_does_not(what: str, config: int) -> None:
    live_through(full(config), FOUND[what])
