"""`cores-total`, `memory-total` and `gpu-total` keep what their lower bounds say, whatever is empty."""

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


GPU = "nvidia.com/gpu"
TESLA = {"cloud.google.com/gke-accelerator": "nvidia-tesla-t4"}


@pytest.mark.parametrize(
    ("bounds", "deleted"),
    [
        (f"{GPU}:0:100", 4),
        (f"{GPU}:4:100", 3),
        (f"{GPU}:5:100", 2),
        ("nvidia-tesla-t4:8:100", 2),
        (["nvidia-tesla-t4:1:100", "nvidia-tesla-v100:4:100"], 3),
        ("nvidia-tesla-v100:0:100,nvidia-tesla-t4:12:100", 1),
    ],
)
def test_empty_nodes_with_gpus_go_only_as_far_as_enough_are_left(
    bounds: str | list[str], deleted: int
) -> None:
    settings = {"scale-down-unneeded-time": "1m", "scale-down-delay-after-add": "0s"}
    cluster = Cluster({"gpu-total": bounds, **settings})
    cluster.add_group("t4", target=3, labels=TESLA, more={GPU: 4})
    cluster.add_group("plain", target=1)
    for name in ("n1", "n2", "n3"):
        cluster.add_node(name, "t4")
    cluster.add_node("n4", "plain")
    cluster.advance(300)
    assert sum(len(d.instances) for d in cluster.of(p.DeleteInstances)) == deleted


def test_gpus_of_a_type_are_not_ordered_beyond_their_limit() -> None:
    cluster = Cluster({"gpu-total": "nvidia-tesla-t4:0:8"})
    cluster.add_group("t4", labels=TESLA, more={GPU: 4})
    shape = cluster.shape({"cpu": 100, GPU: 4})
    for n in range(3):
        cluster.pod(f"p{n}", shape)
    cluster.settle()
    assert cluster.groups["t4"].target == 2
