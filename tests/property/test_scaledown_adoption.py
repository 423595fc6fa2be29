"""Removals that were found before are taken over all at once, as they would be one after the other."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tidewright.kube.keys import PodKey, pod_key
from tidewright.kube.podshape import HostPort, NodeView, PodShape
from tidewright.provisioning.pack.grid import Grid
from tidewright.provisioning.scaledown.drain.rules import Sorted
from tidewright.provisioning.scaledown.scene import Resident
from tidewright.provisioning.scaledown.simulation.placing import Adoption, Destinations

SHAPES = (
    *(PodShape(digest=f"s{cpu}", requests={"pods": 1, "cpu": cpu}) for cpu in (100, 300, 700)),
    PodShape(digest="devices", requests={"pods": 1, "cpu": 100, "example.com/device": 1}),
    PodShape(digest="port", requests={"pods": 1}, host_ports=(HostPort(ip="", protocol="TCP", port=80),)),
)


def one_by_one(
    free: dict[str, dict[str, int]], kept: dict[str, dict[PodKey, str]], pods: dict[str, list[Resident]]
) -> list[str]:
    """Who is taken: each node beside those before it."""
    taken = []
    for name, places in kept.items():
        before = {node: dict(amounts) for node, amounts in free.items()}
        fits = name in free
        for pod in pods[name]:
            place = places[pod.key]
            if place in kept or place not in free or pod.shape.host_ports:
                fits = False
                break
            for resource, amount in pod.shape.requests.items():
                free[place][resource] = free[place].get(resource, 0) - amount
                fits = fits and free[place][resource] >= 0
        if fits:
            taken.append(name)
        else:
            free.clear()
            free.update(before)
    return taken


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
def test_all_at_once_is_one_after_the_other(seed: int) -> None:
    rng = Random(seed)
    grid = Grid()
    free: dict[str, dict[str, int]] = {}
    for i in range(rng.randint(2, 7)):
        free[f"n{i}"] = {"cpu": rng.choice((500, 1000, 1500)), "pods": rng.choice((2, 5, 20))}
        if rng.random() < 0.3:
            free[f"n{i}"]["example.com/device"] = 1
        grid.add_node(NodeView(name=f"n{i}", allocatable=dict(free[f"n{i}"])))
    names = list(free)
    kept: dict[str, dict[PodKey, str]] = {}
    pods: dict[str, list[Resident]] = {}
    for name in rng.sample([*names, "gone"], k=rng.randint(1, len(names))):
        shapes = rng.choices(SHAPES, weights=(8, 8, 4, 2, 1), k=rng.randint(0, 4))
        pods[name] = [Resident(key=pod_key("ns", f"{name}-{i}"), shape=s) for i, s in enumerate(shapes)]
        kept[name] = {
            pod.key: rng.choice([*names, "elsewhere"] if rng.random() < 0.1 else names) for pod in pods[name]
        }
    adoption = Adoption(Destinations(grid, []), kept)
    adoption.stand(
        {
            name: Sorted(
                movers=tuple(movers),
                keys=tuple(pod.key for pod in movers),
                shapes=tuple(pod.shape for pod in movers),
                digests=tuple(pod.shape.digest for pod in movers),
            )
            for name, movers in pods.items()
        }
    )
    taken = [name for name in kept if adoption.take(name)]
    adoption.close()
    assert taken == one_by_one(free, kept, pods)
    for name in names:
        row = grid.rows[name]
        if name in taken:
            continue
        there = {resource: int(column[row]) for resource, column in grid.free.items()}
        assert {resource: there.get(resource, 0) for resource in free[name]} == free[name]
        came = [pod.key for other in taken for pod in pods[other] if kept[other][pod.key] == name]
        assert [pod.key for pod in adoption.at(row)] == came
