"""What the shard manager tells on /metrics."""

from __future__ import annotations

import msgspec

from tests.unit.shardmanager.cluster import Cluster
from tests.unit.shardmanager.test_fold import started, work
from tidewright.events.base import ObjectRef
from tidewright.events.decisions import SetTimer
from tidewright.events.shards import BeginPass, RecordPass
from tidewright.events.timers import TimerFired
from tidewright.host.process.exposition import text
from tidewright.shardmanager.decide import DECIDER
from tidewright.shardmanager.propeller.fleet import Pass
from tidewright.shardmanager.tell import exposition
from tidewright.shardmanager.tell.tally import PassTally


def told(cluster: Cluster) -> dict[str, float]:
    return {
        f"{s.name}{sorted(s.labels.items())}": s.value
        for s in (*exposition.series(cluster.state), *cluster.tally.series(cluster.state))
    }


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


def fleet_of_two() -> Cluster:
    cluster = Cluster("flyte")
    shard = {"manager": {"shard": {"shard-count": 2}, "scan-interval": "10s"}}
    cluster.configure({"namespace": "flyte", "brand": "flyte", "config": shard})
    cluster.template(name="flytepropeller-template", container="flytepropeller")
    return cluster


def test_a_pass_takes_from_its_beginning_to_its_end_and_one_that_another_manager_ends_is_none() -> None:
    cluster = fleet_of_two()
    cluster.run()
    fleet, timer = cluster.state.fleets["flyte/flytepropeller"], "scan/flyte/flytepropeller"
    target = ObjectRef(
        api_version="v1", kind="PodTemplate", namespace="flyte", name="flytepropeller-template"
    )
    begun = BeginPass(at=2000.0, target=target, application="flytepropeller")
    stands_by = RecordPass(at=2008.0, target=target, application="flytepropeller", standing_by=True)
    event = TimerFired(at=2000.0, key=timer)
    before = told(cluster)
    fleet.current = Pass()
    cluster.tally.take(cluster.state, event, [begun])
    fleet.current = None
    cluster.tally.take(cluster.state, event, [SetTimer(at=2003.0, key=timer, due=2013.0)])
    fleet.current = Pass()
    cluster.tally.take(cluster.state, event, [msgspec.structs.replace(begun, at=2005.0)])
    cluster.tally.take(cluster.state, event, [stands_by])
    cluster.tally.take(cluster.state, event, [SetTimer(at=2013.0, key=timer, due=2023.0)])
    found = {name: value - before[name] for name, value in told(cluster).items() if name in before}
    assert found["flyte:propeller_manager:round_time_ms_sum[]"] == 3000.0
    assert found["flyte:propeller_manager:round_time_ms_count[]"] == 2  # the second one had nothing to do


def test_what_is_counted_is_the_process_s_and_no_part_of_the_state() -> None:
    cluster = fleet_of_two()
    cluster.run()
    assert told(cluster)["flyte:propeller_manager:pods_created_count[]"] == 2
    cluster.tally = PassTally()  # another process has taken the slot over
    assert told(cluster)["flyte:propeller_manager:pods_created_count[]"] == 0
    cluster.vanish("flytepropeller-1")
    assert told(cluster)["flyte:propeller_manager:pods_created_count[]"] == 1


async def test_it_is_told_with_the_series_of_the_states() -> None:
    cluster = fleet_of_two()
    assert DECIDER.exposition is not None
    told_there = await text(DECIDER.exposition, lambda: [cluster.state], cluster.tally)
    assert "# TYPE flyte:propeller_manager:round_time_ms summary" in told_there
    assert "flyte:propeller_manager:pods_created_count{} 2" in told_there
    assert "pods_created_count" not in await text(DECIDER.exposition, lambda: [cluster.state])
