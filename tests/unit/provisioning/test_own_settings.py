"""What a group has of its own of the settings, by tags and annotations at its cloud: scale-down goes by it, and people are told."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from tests.unit.provisioning.cloud import Cloud, group
from tests.unit.provisioning.removalworld import DAEMON, Removing
from tidewright.cloud.provider import GroupOptions
from tidewright.events import provisioning as p
from tidewright.events import registry
from tidewright.host.fold.explainer import Reference
from tidewright.provisioning.tell.explaining import EXPLAINER
from tidewright.watcher.nodegroups import MOST_IGNORED, MOST_SAID, read, usable

QUIET = {
    "scale-down-delay-after-add": "1s", "scale-down-unneeded-time": "10m", "scan-interval": "1s",
    "max-bulk-soft-taint-count": 0,
}  # fmt: skip


def world(own: p.GroupSettings = p.NO_SETTINGS, **group: Any) -> Removing:
    """Two nodes of group `g`, of which one has to stay."""
    cluster = Removing(dict(QUIET))
    cluster.grown(2, minimum=1, cloud="east", own=own, **group)
    return cluster


def tell_own(cluster: Removing, own: p.GroupSettings) -> None:
    cluster.groups["g"].extra["own"] = own
    cluster.observe_group("g")


def standing(cluster: Removing, kind: str, name: str) -> str:
    return " ".join(EXPLAINER.standing(cluster.state, Reference(kind, "", name), cluster.now))


def test_the_time_that_a_node_must_be_unneeded_is_its_groups() -> None:
    plain, own = world(), world(p.GroupSettings(unneeded_s=30.0))
    for cluster in (plain, own):
        cluster.advance(120.0)
    assert plain.deleted == []
    assert len(own.deleted) == 1
    assert "Its cloud says for it: scale-down-unneeded-time 30 s." in standing(own, "nodegroup", "g")


def test_the_threshold_is_its_groups_and_a_change_of_it_is_seen_at_once() -> None:
    cluster = world(p.GroupSettings(unneeded_s=30.0, threshold=0.02))
    for node in ("n0", "n1"):
        cluster.run_pod(f"p-{node}", node)  # 100 of 4000 millicores
    cluster.advance(120.0)
    assert cluster.deleted == []
    assert "with 2 % or less it would be looked at" in standing(cluster, "node", "n0")
    tell_own(cluster, p.GroupSettings(unneeded_s=30.0, threshold=0.03))
    cluster.advance(120.0)
    assert len(cluster.deleted) == 1


@pytest.mark.parametrize("counted", [False, True])
def test_whether_daemons_count_is_its_groups(counted: bool) -> None:
    cluster = world(p.GroupSettings(unneeded_s=30.0, ignore_daemonsets=not counted))
    cluster.tell(p.DaemonSetObserved(at=cluster.now, namespace="ns", name="log"))
    for node in ("n0", "n1"):
        shape = cluster.shape({"cpu": 3000})
        cluster.run_pod(f"d-{node}", node, shape=shape, owners=(DAEMON,))
    cluster.advance(120.0)
    assert len(cluster.deleted) == (0 if counted else 1)


def test_how_long_a_node_may_start_and_be_unready_is_its_groups() -> None:
    plain, own = world(), world(p.GroupSettings(startup_s=60.0, unready_s=30.0))
    for cluster in (plain, own):
        cluster.tell(msgspec.structs.replace(cluster.fact_of("n1"), ready=False))  # it is three minutes old
        cluster.advance(120.0)
    assert plain.deleted == []
    assert own.deleted == ["n1"]


def test_what_cannot_be_read_of_a_group_is_an_event_with_cloud_group_field_and_remedy() -> None:
    text = (
        "tag node-template/autoscaling-options/scaledownunneededtime: 'later': valid is a value of its kind"
    )
    cluster = world(ignored=(text,))
    cluster.advance(60.0)
    told = [one.message for one in cluster.object_events("GroupSettingIgnored")]
    assert told == [f"node group g of cloud east: {text}; each counts as not said"]
    assert f"Ignored: {text}." in standing(cluster, "nodegroup", "g")


async def test_the_watcher_says_what_a_group_has_of_its_own_and_nothing_of_others() -> None:
    cloud = Cloud(
        group("own", options=GroupOptions(scale_down_unneeded_s=60.0, ignore_daemon_sets_utilization=True)),
        group("plain"),
    )
    own, plain = [await read(one) for one in cloud.node_groups()]
    assert own.own == p.GroupSettings(unneeded_s=60.0, ignore_daemonsets=True)
    assert b'"own"' not in registry.encode(plain)
    assert registry.decode(registry.encode(own)) == own


async def test_a_value_of_any_length_leaves_a_fact_short() -> None:
    class Wordy:
        """A group of which much is said that cannot be read."""

        ignored = ("x" * 10_000,) * 100

        def __init__(self) -> None:
            self._group = Cloud(group("g")).node_groups()[0]

        def __getattr__(self, name: str) -> Any:
            return getattr(self._group, name)

    wordy: Any = Wordy()
    fact = await read(wordy)
    assert (len(fact.ignored), max(map(len, fact.ignored))) == (MOST_IGNORED, MOST_SAID + 3)


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e15, -1.0])
def test_numbers_that_mean_nothing_are_not_taken(value: float) -> None:
    options, said = usable(
        GroupOptions(
            scale_down_utilization_threshold=value, max_node_provision_s=value, scale_down_unready_s=5.0
        )
    )
    assert options == GroupOptions(scale_down_unready_s=5.0)
    assert [text.partition(": ")[2] for text in said] == [
        "valid is a number from 0 to 1",
        "valid is seconds from 0, 292 years at most",
    ]
