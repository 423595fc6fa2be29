"""State is a function of the log alone: specs, pods, rollouts, gates and sizes under another policy."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from tests.property.other_policy import assert_state_of_the_log_alone
from tests.unit.shardmanager.cluster import Cluster
from tests.unit.shardmanager.test_compat import KOZMO, elected, fleet, renewed
from tests.unit.shardmanager.test_driver import settle, spec, template
from tests.unit.shardmanager.test_fold import started, work
from tests.unit.shardmanager.test_own_services import ENTRY, configured
from tests.unit.shardmanager.test_own_services import load as seen
from tidewright.events.config import ConfigSet
from tidewright.events.shards import RecordPass, ReportShards, SizeShards


def test_of_a_set_that_is_doubled_resized_and_left() -> None:
    cluster = started("a", "b", "c")
    cluster.shard_set({"keyspace": {"slots": 64}}, generation=2)
    for _second in range(30):
        cluster.advance(1.0)
        for name in ("a", "b"):
            cluster.member(name, "1", load={"3": 90, "4": 80})
    while work(cluster, "c"):
        pass
    assert {r.owner for r in cluster.state.sets["ns/orders"].document.slots} == {"a#1", "b#1"}
    assert_state_of_the_log_alone(cluster.recorded)


def test_of_a_rollout_and_a_resize_of_pods() -> None:
    cluster = Cluster()
    template(cluster, "10")
    cluster.shard_set(spec(3))
    settle(cluster)
    template(cluster, "11", image="v2")
    settle(cluster)
    cluster.shard_set(spec(5), generation=2)
    settle(cluster)
    assert len(cluster.pods) == 5
    assert cluster.state.sets["ns/orders"].rollout.complete
    assert_state_of_the_log_alone(cluster.recorded)


def test_of_a_fleet_that_stands_by_and_takes_over() -> None:
    cluster = Cluster(KOZMO)
    renewed(cluster)
    cluster.configure(elected())
    cluster.template()
    cluster.advance(40.0)
    cluster.run()
    cluster.template("11")
    cluster.vanish()
    assert {p.annotations["podTemplateResourceVersion"] for p in cluster.pods.values()} == {"11"}
    assert_state_of_the_log_alone(cluster.recorded)


def test_of_a_fleet_whose_configuration_is_refused_and_put_right() -> None:
    cluster = Cluster(KOZMO)
    late: dict[str, Any] = {"renew-deadline": "20s"}
    cluster.configure(elected(**late))
    cluster.template()
    for entry in (elected(2), fleet(40), fleet(), elected(33), elected(4), {**elected(4), "brand": "no"}):
        cluster.configure(entry)
        cluster.advance(3.0)
        cluster.vanish()
        cluster.run()
    cluster.configure(elected(1), fleet(2))
    cluster.advance(30.0)
    records = [d for d in cluster.decided if isinstance(d, RecordPass)]
    flips = [r.refused for before, r in pairwise(records) if r.refused is not before.refused]
    assert flips == [False, True, False, True, False, True, False]
    assert_state_of_the_log_alone(cluster.recorded)


def test_of_specs_that_are_refused_and_put_right() -> None:
    cluster = started("a", "b")
    spoiled: list[dict[str, Any]] = [
        {"keyspace": {"slots": 32, "hash": "fnv1a32"}},
        {"keyspace": {"slots": 33}},
        {"keyspace": {"slots": 32}, "membership": {"leaseDuration": "5s"}},
        {"keyspace": "many"},
    ]
    for generation, spec_of_set in enumerate(spoiled, 2):
        cluster.shard_set(spec_of_set, generation=2 * generation)
        cluster.advance(1.0)
        cluster.member("a", "1")
        cluster.shard_set(
            {"keyspace": {"slots": 32}, "workers": {"replicas": 3}}, generation=2 * generation + 1
        )
        cluster.member("b", "1")
    assert {r.owner for r in cluster.state.sets["ns/orders"].document.slots} == {"a#1", "b#1"}
    assert_state_of_the_log_alone(cluster.recorded)


def test_of_a_set_that_grows_and_shrinks_with_its_load() -> None:
    cluster = started("a", "b")
    autosize = {"min": 1, "max": 2, "capacity": 100}
    cluster.shard_set({"keyspace": {"slots": 32}, "autosize": autosize}, generation=2)
    for second in range(600):
        cluster.advance(1.0)
        for name in ("a", "b"):
            cluster.member(name, "1", load={"3": 90 if second < 120 else 5})
    sized = [d for d in cluster.decided if isinstance(d, SizeShards) and d.shards != d.from_shards]
    assert [d.shards for d in sized] == [2, 1]
    assert_state_of_the_log_alone(cluster.recorded)


def test_of_one_of_our_own_services_that_grows_twice_within_a_period() -> None:
    cluster = configured()
    for replicas, busy in ((3, 2000.0), (4, 3000.0)):
        seen(cluster, *[busy / replicas] * replicas, replicas=replicas)
    assert [d.shards for d in cluster.decided if isinstance(d, SizeShards)] == [4, 6]
    assert_state_of_the_log_alone(cluster.recorded)


def test_of_our_own_services_whose_configuration_is_refused_for_a_while() -> None:
    cluster = configured()
    for maximum, busy in ((6, 900.0), (600, 900.0), (6, 1900.0), (6, 10.0)):
        data = {"services": [{**ENTRY, "max": maximum}]}
        cluster.submit(ConfigSet(at=cluster.now, name="shardmanager", data=data))
        for replicas in (1, 2, 3):
            seen(cluster, busy, replicas=replicas, seconds=40.0)
    reports = [d.message for d in cluster.decided if isinstance(d, ReportShards)]
    assert [bool(message) for message in reports] == [True, False]
    assert_state_of_the_log_alone(cluster.recorded)
