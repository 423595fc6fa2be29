"""The number of replicas of our own services follows their load, by the rule that sizes ShardSets."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.shardmanager.cluster import Cluster
from tidewright.events.base import Decision
from tidewright.events.config import ConfigSet
from tidewright.events.decisions import ScaleWorkload
from tidewright.events.shards import ReportShards, ServiceLoadObserved, SizeShards

ENTRY = {
    "name": "autoscaler",
    "deployment": "ns/autoscaler",
    "min": 1,
    "max": 6,
    "capacity": 1000,
    "target": 0.5,
}


def configured(**changes: Any) -> Cluster:
    cluster = Cluster()
    data = {"services": [{**ENTRY, **changes}]}
    cluster.submit(ConfigSet(at=cluster.now, name="shardmanager", data=data))
    return cluster


def load(cluster: Cluster, *loads: float, replicas: int, seconds: float = 15.0) -> list[Decision]:
    cluster.advance(seconds)
    return cluster.submit(
        ServiceLoadObserved(
            at=cluster.now,
            namespace="ns",
            name="autoscaler",
            service="autoscaler",
            loads=loads,
            replicas=replicas,
        )
    )


def scaled(decided: list[Decision]) -> list[int]:
    return [d.replicas for d in decided if isinstance(d, ScaleWorkload)]


def test_a_load_above_the_band_grows_at_once_with_its_numbers() -> None:
    cluster = configured()
    found = load(cluster, 900.0, replicas=1)
    assert scaled(found) == [2]
    effect = next(d for d in found if isinstance(d, ScaleWorkload))
    assert (effect.target.kind, effect.target.namespace, effect.target.name) == (
        "Deployment",
        "ns",
        "autoscaler",
    )
    assert effect.because[0].values["load"] == 900.0
    assert [d.recommended for d in found if isinstance(d, SizeShards)] == [2]


def test_growth_at_most_doubles_in_a_minute_and_stays_below_the_maximum() -> None:
    cluster = configured()
    assert scaled(load(cluster, 9000.0, replicas=1)) == [2]
    assert scaled(load(cluster, 4500.0, 4500.0, replicas=2)) == []
    assert scaled(load(cluster, 4500.0, 4500.0, replicas=2, seconds=60.0)) == [4]
    assert scaled(load(cluster, *[2250.0] * 4, replicas=4, seconds=60.0)) == [6]


def test_it_shrinks_one_by_one_after_a_quiet_window() -> None:
    cluster = configured()
    load(cluster, 400.0, 400.0, 400.0, replicas=3)
    counts = [n for _look in range(19) for n in scaled(load(cluster, 100.0, 100.0, 100.0, replicas=3))]
    assert counts == []
    assert [n for _look in range(6) for n in scaled(load(cluster, 100.0, 100.0, 100.0, replicas=3))][:1] == [
        2
    ]


def test_a_load_within_the_band_changes_nothing() -> None:
    cluster = configured()
    assert scaled(load(cluster, 520.0, replicas=1)) == []


def test_a_replica_that_does_not_report_is_no_reason_to_shrink() -> None:
    cluster = configured()
    counts = [n for _look in range(40) for n in scaled(load(cluster, 400.0, replicas=2))]
    assert counts == []


def test_what_is_not_configured_is_left_alone() -> None:
    cluster = Cluster()
    assert load(cluster, 9000.0, replicas=1) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": "provisioning"}, "decides over the whole cluster"),
        ({"min": 0}, "min is 0 and max 6: expected whole numbers from 1 to 32"),
        ({"max": 33}, "the number of slots"),
        ({"capacity": 0}, "capacity is 0: expected facts per second above 0"),
        ({"target": 2}, "target is 2: expected a share"),
        ({"maximum": 3}, "unknown key 'maximum'"),
    ],
)
def test_a_wrong_entry_is_named_once_and_not_acted_upon(changes: dict[str, Any], said: str) -> None:
    cluster = configured(**changes)
    name = changes.get("name", "autoscaler")
    found: list[Decision] = []
    for _look in range(2):
        found += cluster.submit(
            ServiceLoadObserved(
                at=cluster.now, namespace="ns", name="autoscaler", service=name, loads=(9e4,), replicas=1
            )
        )
    assert [type(d) for d in found] == [ReportShards]
    assert isinstance(found[0], ReportShards)
    assert said in found[0].message


def test_folding_the_log_again_gives_the_same_state() -> None:
    cluster = configured()
    load(cluster, 9000.0, replicas=1)
    load(cluster, 4500.0, 4500.0, replicas=2, seconds=60.0)
    assert cluster.replayed() == cluster.state
