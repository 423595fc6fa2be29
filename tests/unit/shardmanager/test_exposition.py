"""What the shard manager tells on /metrics."""

from __future__ import annotations

from tests.unit.shardmanager.cluster import Cluster
from tests.unit.shardmanager.test_fold import started, work
from tidewright.shardmanager.tell import exposition


def told(cluster: Cluster) -> dict[str, float]:
    return {f"{s.name}{sorted(s.labels.items())}": s.value for s in exposition.series(cluster.state)}


def test_the_original_s_series_stand_under_its_names_and_prefix() -> None:
    cluster = Cluster("flyte")
    shard = {"manager": {"shard": {"shard-count": 2}}}
    cluster.configure({"namespace": "flyte", "brand": "flyte", "config": shard})
    cluster.template(name="flytepropeller-template", container="flytepropeller")
    cluster.run()
    cluster.fail("flytepropeller-0")
    cluster.vanish()
    cluster.run()
    cluster.advance(11.0)
    found = told(cluster)
    assert found["flyte:propeller_manager:pods_created_count[]"] == 3
    assert found["flyte:propeller_manager:pods_deleted_count[]"] == 1
    assert found["flyte:propeller_manager:pods_running_count[]"] == 2
    assert found["flyte:propeller_manager:round_time_ms_count[]"] >= 3
    assert "flyte:propeller_manager:round_time_ms[('quantile', '0.99')]" in found
    assert all(s.name.removesuffix("_sum").removesuffix("_count") for s in exposition.series(cluster.state))


def test_a_prefix_of_the_configuration_is_taken() -> None:
    cluster = Cluster("flyte")
    tree = {"manager": {"shard": {"shard-count": 1}}, "propeller": {"metrics-prefix": "my-flyte"}}
    cluster.configure({"namespace": "flyte", "brand": "flyte", "config": tree})
    cluster.template(name="flytepropeller-template", container="flytepropeller")
    assert "my_flyte:propeller_manager:pods_created_count[]" in told(cluster)


def test_orphans_moves_and_leases_of_a_set_are_told() -> None:
    cluster = Cluster()
    cluster.shard_set({"keyspace": {"slots": 32}})
    mine = "[('name', 'orders'), ('namespace', 'ns')]"
    assert told(cluster)[f"shards_unowned_slots{mine}"] == 32
    cluster = started("a", "b")
    for _second in range(20):
        cluster.advance(1.0)
        cluster.member("b", "1")
    while work(cluster):
        pass
    found = told(cluster)
    assert found[f"shards_unowned_slots{mine}"] == 0
    assert found[f"shards_forced_total{mine}"] == 16
    assert found["shards_moves_total[('cause', 'crash'), ('name', 'orders'), ('namespace', 'ns')]"] == 16
    assert found["shards_lease_age_seconds[('member', 'b#1'), ('name', 'orders'), ('namespace', 'ns')]"] == 0
    assert found[f"shards_imbalance_ratio{mine}"] == 1.0
