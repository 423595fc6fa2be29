"""State is a function of the log alone: pods, rollouts, gates and sizes under another policy."""

from __future__ import annotations

from tests.property.other_policy import assert_state_of_the_log_alone
from tests.unit.shardmanager.cluster import Cluster
from tests.unit.shardmanager.test_compat import KOZMO, elected, renewed
from tests.unit.shardmanager.test_driver import settle, spec, template
from tests.unit.shardmanager.test_fold import started, work


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
