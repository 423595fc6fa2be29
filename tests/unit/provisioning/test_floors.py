"""`cores-total` and `memory-total` keep what their lower bounds say, whatever is empty."""

from __future__ import annotations

import pytest

from tests.vectors.provisioning_life import Cluster
from tidewright.events import provisioning as p


@pytest.mark.parametrize(
    ("key", "bounds", "deleted"),
    [
        ("cores-total", "0:100", 3),
        ("cores-total", "4:100", 2),
        ("cores-total", "5:100", 1),
        ("cores-total", "12:100", 0),
        ("memory-total", "17:100", 1),
    ],
)
def test_empty_nodes_go_only_as_far_as_enough_is_left(key: str, bounds: str, deleted: int) -> None:
    cluster = Cluster({key: bounds, "scale-down-unneeded-time": "1m", "scale-down-delay-after-add": "0s"})
    cluster.add_group("g", cpu=4000, memory=16 * 2**30, target=3)
    for name in ("n1", "n2", "n3"):
        cluster.add_node(name, "g")
    cluster.advance(300)
    assert sum(len(d.instances) for d in cluster.of(p.DeleteInstances)) == deleted


def test_a_group_that_goes_as_a_whole_stays_as_a_whole() -> None:
    cluster = Cluster({"cores-total": "4:100", "scale-down-unneeded-time": "1m"})
    cluster.add_group("g", cpu=4000, target=2, maximum=2, zero_or_max=True)
    for name in ("n1", "n2"):
        cluster.add_node(name, "g")
    cluster.advance(300)
    assert cluster.of(p.DeleteInstances) == []
