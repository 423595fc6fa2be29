"""Groups of which some instances do not come: those go at once, and what became a node goes as nodes do."""

from __future__ import annotations

import pytest

from tests.unit.provisioning.removalworld import Removing
from tidewright.events import provisioning as p

CONFIG = {"scale-down-unneeded-time": "10h", "max-bulk-soft-taint-count": 0, "max-node-provision-time": "5m"}


def world(*, failed: bool, **config: object) -> Removing:
    """Of a group that is there as a whole or not at all two nodes came, with a pod on the first, and one did not."""
    cluster = Removing({**CONFIG, **config})
    cluster.grown(2, maximum=3, zero_or_max=True)
    cluster.run_pod("p0", "n0")
    cluster.budget("web", 0)
    group = cluster.groups["g"]
    late = p.Instance(
        id="sim://late", state="creating", error_class=int(failed), error_code="STOCKOUT" if failed else ""
    )
    group.instances = [*group.instances, late]
    group.target = 3
    cluster.observe_group("g")
    cluster.advance(1.0 if failed else 310.0)
    return cluster


@pytest.mark.parametrize("failed", [True, False])
def test_what_runs_on_a_group_that_is_given_up_is_asked_to_leave_first(failed: bool) -> None:
    cluster = world(failed=failed)
    at_once, *_ = cluster.of(p.DeleteInstances)
    assert at_once.instances == ("sim://late",)
    assert {(d.node, d.whole) for d in cluster.of(p.RemoveNode)} == {
        ("n0", ("n0", "n1")),
        ("n1", ("n0", "n1")),
    }
    cluster.advance(60.0)
    assert cluster.deleted == []
    cluster.budget("web", 1)
    cluster.advance(60.0)
    assert cluster.evicted == ["p0"]
    assert cluster.deleted == ["n0", "n1"]
    last = cluster.of(p.DeleteInstances)[-1]
    assert (last.uids, last.size) == (("uid-n0", "uid-n1"), 0)


def test_what_may_not_leave_keeps_the_nodes_that_came() -> None:
    cluster = Removing(CONFIG)
    cluster.grown(2, maximum=3, zero_or_max=True)
    cluster.run_pod("p0", "n0", owners=())  # nobody would make it again
    group = cluster.groups["g"]
    group.instances = [
        *group.instances,
        p.Instance(id="sim://late", state="creating", error_class=1, error_code="STOCKOUT"),
    ]
    group.target = 3
    cluster.observe_group("g")
    cluster.advance(60.0)
    assert [d.instances for d in cluster.of(p.DeleteInstances)] == [("sim://late",)]
    assert "p0" in cluster.placed
    assert cluster.undone()
    assert cluster.marked() == set()
    removals = len(cluster.of(p.RemoveNode))
    cluster.advance(3600.0)
    assert len(cluster.of(p.RemoveNode)) == removals


@pytest.mark.parametrize("config", [{"scale-down-enabled": False}, {"dry-run": True}])
def test_where_nodes_are_not_removed_those_that_came_stay(config: dict[str, object]) -> None:
    cluster = world(failed=True, **config)
    cluster.advance(60.0)
    assert cluster.of(p.RemoveNode) == []
    assert cluster.deleted == []
