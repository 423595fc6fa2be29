"""The cache: the newest word on an object wins, wherever it comes from."""

from __future__ import annotations

import msgspec

from tidewright.sim.controllers.cache import Cache
from tidewright.sim.controllers.objects import Pod


def pod(version: int, *, uid: str = "u1", node: str = "", owner: str = "") -> bytes:
    owners = [{"kind": "ReplicaSet", "name": owner, "uid": owner, "controller": True}] if owner else []
    return msgspec.json.encode(
        {
            "metadata": {
                "name": "p",
                "namespace": "default",
                "uid": uid,
                "resourceVersion": str(version),
                "ownerReferences": owners,
            },
            "spec": {"nodeName": node},
        }
    )


KEY = ("default", "p")


def test_an_older_event_after_our_own_write_changes_nothing() -> None:
    pods = Cache().pods
    pods.absorb(pod(7, node="n1"))
    pods.absorb(pod(5))
    found = pods.get(KEY)
    assert found is not None
    assert found.spec.node_name == "n1"
    assert [one.metadata.name for one in pods.on_node("n1")] == ["p"]


def test_a_forgotten_object_stays_away_until_another_of_its_name_comes() -> None:
    pods = Cache().pods
    pods.absorb(pod(5))
    pods.forget(KEY, "u1")
    pods.absorb(pod(6))
    assert pods.get(KEY) is None
    pods.absorb(pod(9, uid="u2"))
    found = pods.get(KEY)
    assert found is not None
    assert found.metadata.uid == "u2"


def test_indexes_follow_changes() -> None:
    pods = Cache().pods
    pods.absorb(pod(1, owner="rs1"))
    assert len(pods.owned("rs1")) == 1
    pods.absorb(pod(2, owner="rs2", node="n1"))
    assert (len(pods.owned("rs1")), len(pods.owned("rs2")), len(pods.on_node("n1"))) == (0, 1, 1)
    pods.forget(KEY, "u1")
    assert (len(pods.owned("rs2")), len(pods.on_node("n1")), len(list(pods.in_namespace("default")))) == (
        0,
        0,
        0,
    )


def test_listeners_hear_of_what_is_there_and_of_what_changes() -> None:
    pods = Cache().pods
    pods.absorb(pod(1))
    heard: list[tuple[str | None, str | None]] = []

    def listener(old: Pod | None, new: Pod | None) -> None:
        heard.append(
            (
                old.metadata.resource_version if old else None,
                new.metadata.resource_version if new else None,
            )
        )

    pods.listen(listener)
    pods.absorb(pod(2))
    pods.forget(KEY, "u1")
    assert heard == [(None, "1"), ("1", "2"), ("2", None)]
