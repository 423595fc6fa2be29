"""Groups that are to begin with a size: ordered once, where nobody at the cloud does it."""

from __future__ import annotations

from typing import Any

import pytest

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


@pytest.mark.parametrize("config", [{"max-nodes-total": 2}, {"cores-total": "0:8"}])
def test_a_part_is_ordered_once_and_not_again_when_it_has_gone(config: dict[str, Any]) -> None:
    cluster = world(config)
    cluster.advance(60.0)
    cluster.groups["g"].instances.clear()
    cluster.groups["g"].target = 0
    for name in [name for name, node in cluster.state.nodes.items() if node.group == "g"]:
        cluster.tell(f.NodeGone(at=cluster.now, name=name))
    cluster.observe_group("g")
    cluster.advance(600.0)
    assert orders(cluster) == [(0, 2)]


@pytest.mark.parametrize("config", [{}, {"max-nodes-total": 2}])
def test_a_group_that_comes_back_does_not_begin_anew(config: dict[str, Any]) -> None:
    cluster = world(config)
    began = orders(cluster)
    assert len(began) == 1
    cluster.tell(p.NodeGroupGone(at=cluster.now, namespace="", name="g"))
    cluster.groups["g"].instances.clear()
    cluster.groups["g"].target = 0
    for name in list(cluster.state.nodes):
        cluster.tell(f.NodeGone(at=cluster.now, name=name))
    cluster.advance(60.0)
    cluster.observe_group("g")
    cluster.advance(600.0)
    assert orders(cluster) == began


def test_what_is_ordered_for_pods_first_does_not_take_its_place() -> None:
    cluster = Cluster({})
    shape = cluster.shape({"cpu": 3000})
    cluster.pod("p", shape)
    cluster.add_group("g", cpu=4000, initial=3)
    cluster.advance(60.0)
    assert orders(cluster) == [(0, 1), (1, 3)]


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
