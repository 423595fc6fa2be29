"""Groups that are to begin with a size: ordered once, where nobody at the cloud does it."""

from __future__ import annotations

from typing import Any

from tests.vectors.provisioning_life import Cluster
from tidewright.events import facts as f
from tidewright.events import provisioning as p


def orders(cluster: Cluster) -> list[tuple[int, int]]:
    return [(one.from_size, one.size) for one in cluster.of(p.IncreaseNodeGroup)]


def world(config: dict[str, Any] | None = None, **group: Any) -> Cluster:
    cluster = Cluster(config or {})
    cluster.add_group("g", cpu=4000, **{"initial": 3, **group})
    cluster.settle()
    return cluster


def test_a_group_begins_with_its_size_and_keeps_no_right_to_it() -> None:
    cluster = world()
    cluster.advance(60.0)
    assert orders(cluster) == [(0, 3)]
    plan = cluster.of(p.PlanScaleUp)[-1]
    first = plan.because[0]
    assert (first.rule, first.values) == ("Beginning", {"group": "g", "target": 0, "initial": 3})
    # Nobody needs them: they go, and are not ordered again.
    cluster.groups["g"].instances.clear()
    cluster.groups["g"].target = 0
    cluster.observe_group("g")
    cluster.advance(60.0)
    assert orders(cluster) == [(0, 3)]


def test_a_size_that_is_there_or_is_said_later_is_not_ordered() -> None:
    assert orders(world(target=3)) == []
    later = world(initial=0)
    later.groups["g"].extra["initial"] = 3
    later.observe_group("g")
    later.settle()
    assert orders(later) == []


def test_a_group_that_cannot_be_read_begins_when_it_can() -> None:
    cluster = world(error="Invalid")
    assert orders(cluster) == []
    cluster.groups["g"].extra["error"] = ""
    cluster.observe_group("g")
    cluster.settle()
    assert orders(cluster) == [(0, 3)]


def test_what_the_cluster_may_have_bounds_it() -> None:
    assert orders(world({"max-nodes-total": 2})) == [(0, 2)]
    assert orders(world({"cores-total": "0:8"})) == [(0, 2)]


def test_nothing_begins_while_the_cluster_is_unhealthy() -> None:
    cluster = Cluster({"ok-total-unready-count": 0, "max-total-unready-percentage": 10})
    cluster.add_group("old", cpu=4000, target=1)
    cluster.tell(f.NodeObserved(at=cluster.now, name="n", ready=False, provider_id="sim://n", created_at=1.0))
    cluster.groups["old"].instances.append(p.Instance(id="sim://n", state="running"))
    cluster.observe_group("old")
    cluster.add_group("g", cpu=4000, initial=3)
    cluster.settle()
    assert orders(cluster) == []


def test_an_order_that_is_refused_is_not_made_again() -> None:
    cluster = Cluster({})
    cluster.refuse["g"] = "Forbidden"
    cluster.add_group("g", cpu=4000, initial=3)
    cluster.settle()
    cluster.advance(3600.0)
    assert orders(cluster) == [(0, 3)]
