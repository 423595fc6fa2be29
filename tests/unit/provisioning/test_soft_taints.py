"""The taint that nodes have while nobody needs them and they do not go yet."""

from __future__ import annotations

from tests.unit.provisioning.removalworld import Removing, world
from tidewright.events import provisioning as p
from tidewright.events.config import ConfigSet, ModesSet
from tidewright.events.decisions import SetTimer
from tidewright.kube.taints import DELETION_CANDIDATE
from tidewright.provisioning.scaledown.removal.soft import soft_marks


def softened(cluster: Removing, most: int = 10, **unneeded: float) -> tuple[list[str], list[str], bool]:
    """Nodes that get and lose the soft taint in one pass, and whether it leaves more to do."""
    found = soft_marks(cluster.state, unneeded, most, cluster.now)
    if found.marks:
        cluster.decided(*found.marks)
    got = [mark.target.name for mark in found.marks if mark.present]
    return got, [mark.target.name for mark in found.marks if not mark.present], found.more


def test_nodes_that_wait_have_the_soft_taint_and_lose_it_first() -> None:
    cluster = world(4)
    assert softened(cluster, n0=7.0, n1=8.0) == (["n0", "n1"], [], False)
    assert cluster.objects["n0"]["spec"]["taints"] == [
        {"key": DELETION_CANDIDATE, "value": "7", "effect": "PreferNoSchedule"}
    ]
    assert softened(cluster, n0=7.0, n1=8.0) == ([], [], False)
    assert softened(cluster, 2, n1=8.0, n2=9.0, n3=9.0) == (["n2"], ["n0"], True)
    assert softened(cluster, 2, n1=8.0, n2=9.0, n3=9.0) == (["n3"], [], False)
    assert softened(cluster, 0, n1=8.0) == ([], ["n1", "n2", "n3"], False)
    assert cluster.marked() == set()


def test_soft_taints_of_others_and_of_nodes_that_go_are_left_alone() -> None:
    cluster = world(3)
    cluster.object("n0", [{"key": DELETION_CANDIDATE, "value": "1", "effect": "PreferNoSchedule"}])
    assert softened(cluster, n0=7.0) == ([], [], False)
    assert softened(cluster) == ([], [], False)
    cluster.remove("n1", drain=False)
    assert softened(cluster, n1=7.0) == ([], [], False)


def test_a_soft_taint_that_could_not_be_set_is_set_by_a_later_pass() -> None:
    cluster = world(1)
    cluster.mark_fails = "Conflict"
    assert softened(cluster, n0=7.0) == (["n0"], [], False)
    assert softened(cluster, n0=7.0) == (["n0"], [], False)


def test_soft_taints_come_off_all_nodes_when_scale_down_ends() -> None:
    config = {"scale-down-unneeded-time": "10h", "max-bulk-soft-taint-count": 3}
    cluster = Removing(config)
    cluster.grown(5)
    cluster.advance(120.0)
    assert len(cluster.marked()) == 5
    off = {**config, "scale-down-enabled": False}
    cluster.tell(ConfigSet(at=cluster.now, name="provisioning", data=off))
    cluster.advance(120.0)
    assert cluster.marked() == set()


def test_in_shadow_no_timer_goes_on_for_soft_taints_that_are_not_set() -> None:
    cluster = Removing({"scale-down-unneeded-time": "10h", "max-bulk-soft-taint-count": 3})
    cluster.tell(ModesSet(at=cluster.now, mode="shadow"))
    cluster.grown(5)
    cluster.advance(120.0)
    before = len(cluster.said)
    cluster.advance(3600.0)
    assert [d for d in cluster.said[before:] if isinstance(d, SetTimer) and d.key == "scan"] == []


def test_a_soft_taint_that_is_refused_is_not_asked_for_again_while_nothing_changes() -> None:
    cluster = Removing({"scale-down-unneeded-time": "10h"})
    cluster.mark_fails = "Forbidden"
    cluster.grown(3)
    cluster.advance(600.0)
    before = len(cluster.of(p.MarkNode))
    cluster.advance(3600.0)
    assert len(cluster.of(p.MarkNode)) == before
    cluster.mark_fails = ""
    cluster.run_pod("p0", "n0")
    cluster.advance(60.0)
    assert cluster.marked() == {"n1", "n2"}, "its pod has no other place when they go"
