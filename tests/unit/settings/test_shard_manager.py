"""Every setting of the shard manager changes what is decided or measured: those of the propeller's fleets, under the
names of the original's tree and environment, and those of our own services.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.unit.settings.trying import ABSENT, Setting, matters, unknown
from tests.unit.shardmanager.cluster import Cluster
from tidewright.events.base import JsonObject
from tidewright.events.config import ConfigSet
from tidewright.events.decisions import CreateObject, HoldLease, ScaleWorkload, SetTimer
from tidewright.events.shards import ServiceLoadObserved, SizeShards
from tidewright.kube.times import rfc3339_micro
from tidewright.shardmanager import own_services
from tidewright.shardmanager.propeller import election_read, fleet_config
from tidewright.shardmanager.propeller.config import (
    INTERVAL_KEY,
    MAPPING_KEY,
    SHARD_KEYS,
    TEXT_KEYS,
    ManagerConfig,
    ShardConfig,
)
from tidewright.shardmanager.propeller.election import Election
from tidewright.shardmanager.tell import exposition
from tidewright.shardmanager.tell.samples import Sample

Play = Callable[[Cluster], None]
MANAGER, SHARD = "config.manager", "config.manager.shard"
ELECTION, LOCK = "config.propeller.leader-election", "config.propeller.leader-election.lock-config-map"
PREFIX = "config.propeller.metrics-prefix"
KEYS = {
    *(key for key in fleet_config.KEYS if key != "config"),
    *(f"{MANAGER}.{key}" for key in (*TEXT_KEYS, INTERVAL_KEY)),
    *(f"{SHARD}.{key}" for key in (*SHARD_KEYS, MAPPING_KEY)),
    *(f"{ELECTION}.{key}" for key in election_read.KEYS),
    *(f"{LOCK}.{key}" for key in election_read.LOCK_KEYS),
    PREFIX,
}


def tree(values: JsonObject) -> JsonObject:
    """An entry of the configuration from its values by path."""
    entry: JsonObject = {}
    for path, value in values.items():
        *parents, last = path.split(".")
        place = entry
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value
    return entry


def fleet(play: Play = lambda cluster: cluster.run()) -> Callable[[JsonObject], list[Any]]:
    """A fleet in `kozmo` with its template, and what happens then."""

    def told(config: JsonObject) -> list[Any]:
        cluster = Cluster("kozmo")
        cluster.configure(tree({"namespace": "kozmo", **config}))
        cluster.template()
        play(cluster)
        return [*cluster.decided, *exposition.series(cluster.state)]

    return told


def an_hour(cluster: Cluster) -> None:
    cluster.run()
    cluster.advance(3600.0)


def contested(cluster: Cluster) -> None:
    """An original manager holds the lock."""
    now = rfc3339_micro(cluster.now)
    spec = {"holderIdentity": "original-0", "renewTime": now, "leaseDurationSeconds": 15}
    cluster.leases["lock"] = {"spec": spec}
    cluster.advance(60.0)


IDS = [{"ids": ["one"]}, {"ids": ["*"]}]
ELECTED = {f"{ELECTION}.enabled": True, f"{LOCK}.name": "lock"}
FLEETS: dict[str, Setting] = {
    "namespace": Setting(fleet(), (ABSENT, "elsewhere"), CreateObject),
    "brand": Setting(
        fleet(), (ABSENT, "flyte"), CreateObject, {f"{MANAGER}.pod-template-namespace": "kozmo"}
    ),
    "environment": Setting(fleet(), (ABSENT, {"MANAGER.SHARD.SHARD_COUNT": "2"}), CreateObject),
    f"{MANAGER}.pod-application": Setting(fleet(), (ABSENT, "other"), CreateObject),
    f"{MANAGER}.pod-template-container-name": Setting(fleet(), (ABSENT, "other"), CreateObject),
    f"{MANAGER}.pod-template-name": Setting(fleet(), (ABSENT, "other"), CreateObject),
    f"{MANAGER}.pod-template-namespace": Setting(fleet(), (ABSENT, "elsewhere"), CreateObject),
    f"{MANAGER}.{INTERVAL_KEY}": Setting(fleet(an_hour), (ABSENT, "1m"), SetTimer),
    f"{SHARD}.type": Setting(fleet(), (ABSENT, "Project"), CreateObject, {f"{SHARD}.{MAPPING_KEY}": IDS}),
    f"{SHARD}.shard-count": Setting(fleet(), (ABSENT, 5), CreateObject),
    f"{SHARD}.{MAPPING_KEY}": Setting(
        fleet(), (IDS, [{"ids": ["two"]}, {"ids": ["*"]}]), CreateObject, {f"{SHARD}.type": "Project"}
    ),
    f"{ELECTION}.enabled": Setting(fleet(), (ABSENT, True), HoldLease, {f"{LOCK}.name": "lock"}),
    f"{ELECTION}.lease-duration": Setting(fleet(), (ABSENT, "30s"), HoldLease, ELECTED),
    f"{ELECTION}.renew-deadline": Setting(fleet(an_hour), (ABSENT, "5s"), HoldLease, ELECTED),
    f"{ELECTION}.retry-period": Setting(fleet(contested), (ABSENT, "5s"), HoldLease, ELECTED),
    f"{LOCK}.name": Setting(fleet(), ("lock", "other"), HoldLease, {f"{ELECTION}.enabled": True}),
    f"{LOCK}.namespace": Setting(fleet(), (ABSENT, "elsewhere"), HoldLease, ELECTED),
    PREFIX: Setting(fleet(), (ABSENT, "mine"), Sample),
}


@pytest.mark.parametrize("key", sorted(KEYS))
def test_a_setting_of_a_fleet_changes_something(key: str) -> None:
    matters(key, FLEETS)


def test_every_field_of_a_fleet_has_a_key_and_every_scene_a_setting() -> None:
    derived = {"shard", "unknown_type"}  # the section, and what is wrong with a type
    fields = {f.name for kind in (ManagerConfig, ShardConfig) for f in msgspec.structs.fields(kind)}
    read = {path.rpartition(".")[2].replace("-", "_") for path in KEYS}
    assert fields - derived <= read | {"scan_interval_s"}
    elected = {field.name.removesuffix("_s") for field in msgspec.structs.fields(Election)}
    assert elected <= read
    assert unknown(KEYS, FLEETS) == []


def sized(config: JsonObject) -> list[Any]:
    """A service with much to do, and then with little."""
    cluster = Cluster()
    cluster.submit(ConfigSet(at=cluster.now, name="shardmanager", data={"services": [config]}))
    for replicas, load in ((1, 9000.0), (2, 9000.0), (2, 100.0)):
        cluster.advance(600.0)
        cluster.submit(
            ServiceLoadObserved(
                at=cluster.now, namespace="ns", name="autoscaler", service="autoscaler",
                loads=(load / replicas,) * replicas, replicas=replicas,
            )
        )  # fmt: skip
    return cluster.decided


SERVICE = {"name": "autoscaler", "deployment": "ns/autoscaler"}
SIZES = (SizeShards, ScaleWorkload)
SERVICES: dict[str, Setting] = {
    "name": Setting(sized, ("autoscaler", "spread"), SIZES, SERVICE),
    "deployment": Setting(sized, ("ns/autoscaler", "ns/other"), SIZES, SERVICE),
    "min": Setting(sized, (ABSENT, 2), SIZES, SERVICE),
    "max": Setting(sized, (ABSENT, 1), SIZES, SERVICE),
    "capacity": Setting(sized, (ABSENT, 1000), SIZES, SERVICE),
    "target": Setting(sized, (ABSENT, 0.1), SIZES, SERVICE),
}


@pytest.mark.parametrize("key", sorted(own_services.KEYS))
def test_a_setting_of_our_own_services_changes_what_is_decided(key: str) -> None:
    matters(key, SERVICES)


def test_every_scene_of_our_own_services_is_of_a_setting() -> None:
    assert unknown(own_services.KEYS, SERVICES) == []
