"""Whose a pod is: by the names of its owners, and by their real chain (D26)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.unit.autoscaler.world import NS, World, holds, of, one, pod, sample, spec, workload, wpa
from tidewright.autoscaler.fold.ownership import ancestors, references
from tidewright.autoscaler.state import State, Workload
from tidewright.events.base import Decision
from tidewright.events.config import ConfigSet
from tidewright.events.decisions import ScaleWorkload
from tidewright.events.facts import Owner, PodObserved, WorkloadGone, WorkloadObserved


def owner(kind: str, name: str, uid: str = "", **fields: Any) -> tuple[Owner, ...]:
    given = {"api_version": "apps/v1", "controller": True, **fields}
    return (Owner(kind=kind, name=name, uid=uid or f"{name}-uid", **given),)


def replica_set(at: float, name: str, owners: tuple[Owner, ...], **fields: Any) -> WorkloadObserved:
    given: dict[str, Any] = {"name": name, "kind": "ReplicaSet", "uid": f"{name}-uid", **fields}
    return workload(at, 1, owners=owners, **given)


def owned_pods(at: float, count: int, owners: tuple[Owner, ...], prefix: str = "") -> list[PodObserved]:
    return [pod(at, f"{prefix or owners[0].name}-{i}", owners=owners) for i in range(count)]


def scaled(given: list[Decision]) -> list[int]:
    return [order.replicas for order in of(given, ScaleWorkload)]


WEB = owner("Deployment", "web")


@pytest.mark.parametrize(("walks", "ready"), [(False, 4), (True, 2)])
def test_pods_of_what_is_only_named_like_the_target_count_by_name_alone(walks: bool, ready: int) -> None:
    world = World(walk_owner_chain=walks)
    world.feed(
        wpa(100),
        workload(100, 4),
        replica_set(100, "web-77", WEB),
        replica_set(100, "web-x", owner("Deployment", "web-x")),
        *owned_pods(100, 2, owner("ReplicaSet", "web-77")),
        *owned_pods(100, 1, owner("ReplicaSet", "web-x")),  # a set without a suffix, of another Deployment
        *owned_pods(100, 1, owner("Game", "web", api_version="example.org/v1")),
    )
    order = one(world.feed(sample(101, 90_000)), ScaleWorkload)
    assert order.because[0].values["ready"] == ready


@pytest.mark.parametrize(
    ("between", "pods", "counts"),
    [
        ([replica_set(100, "web-77", WEB)], owner("ReplicaSet", "web-77"), True),
        ([replica_set(100, "other", WEB)], owner("ReplicaSet", "other"), True),  # the name says nothing
        ([], WEB, True),
        ([], owner("Deployment", "web", "an-older-one"), False),
        ([], owner("StatefulSet", "web"), False),
        ([], owner("Deployment", "web", api_version="example.org/v1"), False),
        ([], owner("ReplicaSet", "web-77"), False),  # never seen
        ([replica_set(100, "web-77", WEB)], owner("ReplicaSet", "web-77", "an-older-one"), False),
        ([replica_set(100, "web-77", owner("Deployment", "web", "x"))], owner("ReplicaSet", "web-77"), False),
        ([replica_set(100, "web-77", ())], owner("ReplicaSet", "web-77"), False),
        (  # a custom owner in between, whose owner is the target
            [workload(100, 1, name="g", kind="Game", api_version="example.org/v1", uid="g-uid", owners=WEB)],
            owner("Game", "g", api_version="example.org/v1"),
            True,
        ),
        (  # only the controller is followed
            [],
            (*owner("Game", "g"), *owner("Deployment", "web", controller=False)),
            False,
        ),
        ([], owner("Deployment", "web", controller=False), True),  # where there is one
    ],
)
def test_a_chain_is_followed_by_group_kind_name_and_uid(
    between: list[WorkloadObserved], pods: tuple[Owner, ...], counts: bool
) -> None:
    world = World(walk_owner_chain=True)
    world.feed(wpa(100), workload(100, 2), *between, *owned_pods(100, 2, pods, "p"))
    given = world.feed(sample(101, 40_000))
    assert scaled(given) == ([3] if counts else [])
    assert holds(given) == ([] if counts else ["PodsNotReady"])


def test_a_custom_target_owns_the_pods_of_its_deployment() -> None:
    game = {"name": "game", "kind": "Game", "api_version": "example.org/v1", "uid": "game-uid"}
    target = {"scaleTargetRef": {"kind": "Game", "name": "game", "apiVersion": "example.org/v1beta1"}}
    for walks, expected in ((False, []), (True, [3])):
        world = World(walk_owner_chain=walks)
        world.feed(
            wpa(100, spec=spec(**target)),
            workload(100, 2, **game),
            workload(100, 2, owners=owner("Game", "game", api_version="example.org/v1")),
            replica_set(100, "web-77", WEB),
            *owned_pods(100, 2, owner("ReplicaSet", "web-77")),
        )
        assert scaled(world.feed(sample(101, 40_000))) == expected


def test_an_owner_that_is_seen_late_ends_the_wait_for_pods_at_once() -> None:
    world = World(walk_owner_chain=True)
    world.feed(wpa(100), workload(100, 2), *owned_pods(100, 2, owner("ReplicaSet", "web-77")))
    assert holds(world.feed(sample(101, 40_000))) == ["PodsNotReady"]
    assert scaled(world.feed(replica_set(102, "other", owner("Deployment", "other")))) == []
    assert scaled(world.feed(replica_set(103, "web-77", WEB))) == [3]


def test_pods_whose_chain_breaks_count_no_more() -> None:
    world = World(walk_owner_chain=True)
    world.feed(
        wpa(100),
        workload(100, 2),
        replica_set(100, "web-77", WEB),
        *owned_pods(100, 2, owner("ReplicaSet", "web-77")),
    )
    gone = WorkloadGone(at=102, namespace=NS, name="web-77", api_version="apps/v1", kind="ReplicaSet")
    assert holds(world.feed(sample(101, 15_000))) == ["WithinWatermarks"]
    assert holds(world.feed(gone, sample(116, 40_000))) == ["PodsNotReady"]


def test_the_object_that_asks_for_no_owner_gets_none_checked() -> None:
    world = World(walk_owner_chain=True)
    trusting = {"wpa.datadoghq.com/skip-owner-check": "true"}
    world.feed(wpa(100, annotations=trusting), workload(100, 2), *owned_pods(100, 2, owner("Game", "g")))
    assert scaled(world.feed(sample(101, 40_000))) == [3]


def test_the_switch_acts_on_pods_that_are_known_already() -> None:
    world = World()
    world.start(replicas=2)  # their ReplicaSet was never seen
    assert holds(world.feed(sample(101, 15_000))) == ["WithinWatermarks"]
    on = ConfigSet(at=102, name="autoscaler", data={"walk_owner_chain": True})
    assert holds(world.feed(on, sample(116, 15_000))) == ["PodsNotReady"]
    off = ConfigSet(at=117, name="autoscaler", data={})
    assert one(world.feed(off, sample(131, 40_000)), ScaleWorkload).replicas == 3


def test_the_chains_survive_the_encoding_of_the_state() -> None:
    world = World(walk_owner_chain=True)
    world.feed(
        wpa(100),
        workload(100, 2),
        replica_set(100, "web-77", WEB),
        *owned_pods(100, 2, owner("ReplicaSet", "web-77")),
    )
    world.fold.state = msgspec.json.decode(msgspec.json.encode(world.fold.state), type=State)
    assert scaled(world.feed(sample(101, 40_000))) == [3]


def test_owners_in_a_circle_are_walked_once() -> None:
    a, b = owner("Game", "a", api_version=""), owner("Game", "b", api_version="")
    objects = {
        "/Game/a": Workload("v1", "Game", "a", owners=references(b)),
        "/Game/b": Workload("v1", "Game", "b", owners=references(a)),
    }
    assert list(ancestors(objects, references(a))) == ["/Game/a", "/Game/b"]
