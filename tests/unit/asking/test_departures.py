"""What became of a node's removal: from its mark to its end and where others came for its pods, or that it was undone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import msgspec
import pytest

from tests.unit.asking.test_aftermath import Told, pod
from tidewright.asking import aftermath
from tidewright.asking.departures import ASKED_TOGETHER, DECISIONS_LOOKED_AT, NOT_ALL
from tidewright.asking.lookups import Found
from tidewright.asking.source import Source
from tidewright.events import facts as f
from tidewright.events import provisioning as p
from tidewright.events.base import ObjectRef
from tidewright.events.decisions import EvictPod
from tidewright.events.outcomes import Applied, Rejected
from tidewright.host.fold.explainer import Reference
from tidewright.log.reader import Record
from tidewright.log.subjects import ALL

NODE = Reference("node", "", "n1")
GROUP = ObjectRef(api_version="cloud/v1", kind="NodeGroup", name="g")


def mark(log: Told, drain: str) -> None:
    target = ObjectRef(api_version="v1", kind="Node", name="n1", uid="u")
    said = p.MarkNode(at=2.0, id=f"m.{drain}", target=target, key="k", present=True, drain=drain)
    log.decide("provisioning", "node", "", "n1", said)
    log.say(log.subjects.outcome(ALL, "node", "", "n1"), Applied(at=2.0, decision=said.id))


def evict(log: Told, name: str, node: str = "n1") -> None:
    target = ObjectRef(api_version="v1", kind="Pod", namespace="shop", name=name, uid=name)
    log.decide(
        "provisioning", "pod", "shop", name, EvictPod(at=3.0, id=f"e.{name}", target=target, node=node)
    )


def seen(log: Told, name: str, on: str, deployment: str = "web", at: float = 4.0) -> None:
    log.fact("pod", "shop", name, msgspec.structs.replace(pod(name, on, deployment), at=at, uid=name))


def delete(log: Told, *nodes: str) -> None:
    said = p.DeleteInstances(
        at=5.0, id=f"d.{nodes[0]}", target=GROUP, instances=nodes, nodes=nodes, uids=tuple("u" for _ in nodes),
    )  # fmt: skip
    log.decide("provisioning", "nodegroup", "", "g", said)
    log.say(log.subjects.outcome(ALL, "nodegroup", "", "g"), Applied(at=5.0, decision=said.id))


def begun(*pods: str) -> tuple[Told, Found]:
    """A node with these pods, of which an earlier removal was undone, and the decision to remove it."""
    log = Told()
    mark(log, "before")
    for name in (*pods, "elsewhere"):
        seen(log, name, "n1" if name in pods else "n2")
    leaving = tuple(p.PodToEvict(namespace="shop", name=name, uid=name) for name in pods)
    said = p.RemoveNode(
        at=2.0, id="r", node="n1", uid="u", provider_id="i", group="g", kind="drain", pods=leaving
    )
    return log, log.decide("provisioning", "none", "", "", said)


def steps(log: Told, removed: Found, up_to: int = 0) -> list[tuple[str, Any]]:
    found = asyncio.run(aftermath.chain(cast("Source", log), NODE, [removed], up_to))
    return [
        (step.what, getattr(step.found.event, "name", "") or type(step.found.event).__name__)
        for step in found
    ]


def drained() -> tuple[Told, Found, list[tuple[str, str]]]:
    log, removed = begun("a", "b")
    mark(log, "r")
    evict(log, "other", node="n3")
    evict(log, "a")
    evict(log, "b")
    seen(log, "elsewhere", "n2")  # of the same owner, and there before
    seen(log, "stranger", "n2", "other")
    seen(log, "x", "")
    seen(log, "x", "n2")
    delete(log, "n3")
    delete(log, "n2", "n1")
    seen(log, "y", "n4", at=5.5)
    log.fact("node", "", "n1", f.NodeGone(at=6.0, name="n1", uid="u"))
    told = [
        ("it was marked, and takes no pods", "Applied"),
        ("the first of 2 pods was asked to leave", "EvictPod"),
        ("the last of 2 pods was asked to leave", "EvictPod"),
        ("in place of shop/a came", "x"),
        ("its instance was to be deleted", "DeleteInstances"),
        ("the cloud answered", "Applied"),
        ("in place of shop/b came", "y"),
        ("it was gone", "n1"),
    ]
    return log, removed, told


def test_a_removal_is_told_to_its_end_and_for_each_pod_which_one_came_in_its_place() -> None:
    log, removed, told = drained()
    assert steps(log, removed) == told


def test_nothing_is_told_of_what_came_after_the_moment_that_is_asked_about() -> None:
    log, removed, told = drained()
    for up_to in range(removed.seq, len(log.kept) + 1):
        found = asyncio.run(aftermath.chain(cast("Source", log), NODE, [removed], up_to))
        assert all(step.found.seq <= up_to for step in found)
    assert len(found) == len(told)
    assert steps(log, removed, removed.seq) == []


def test_a_removal_that_was_undone_says_so() -> None:
    log, removed = begun("a")
    mark(log, "r")
    for removal in ("other", "r"):
        said = p.UndoRemoval(at=4.0, node="n1", uid="u", group="g", removal=removal, reason="NodeNeeded")
        log.decide("provisioning", "none", "", "", said)
    assert steps(log, removed) == [
        ("it was marked, and takes no pods", "Applied"),
        ("it was undone", "UndoRemoval"),
    ]


def test_a_deletion_that_was_refused_and_asked_again_is_told_to_the_one_that_did_it() -> None:
    log, removed = begun("a")
    for name in ("one", "two"):
        said = p.DeleteInstances(
            at=5.0, id=f"d.{name}", target=GROUP, instances=("n1",), nodes=("n1",), uids=("u",)
        )
        log.decide("provisioning", "nodegroup", "", "g", said)
        refused = Rejected(at=5.0, decision=said.id, reason="NodeNotEmpty", message="a pod is on it")
        log.say(log.subjects.outcome(ALL, "nodegroup", "", "g"), refused)
    delete(log, "n1")
    log.fact("node", "", "n1", f.NodeGone(at=6.0, name="n1", uid="u"))
    delete(log, "n1")  # of another node of the name and uid of these tests, later
    assert steps(log, removed) == [
        ("its instance was to be deleted", "DeleteInstances"),
        ("the cloud answered", "Rejected"),
        ("its instance was to be deleted, for the last of 3 times", "DeleteInstances"),
        ("the cloud answered", "Applied"),
        ("it was gone", "n1"),
    ]


def test_evictions_are_found_among_those_of_many_nodes_that_go_at_once() -> None:
    log, removed = begun("a", "b")
    for number in range(DECISIONS_LOOKED_AT):
        evict(log, f"other{number}", node="n3")
    evict(log, "a")
    assert steps(log, removed) == [(f"the pod was asked to leave ({NOT_ALL})", "EvictPod")]
    evict(log, "b")
    assert steps(log, removed) == [
        ("the first of 2 pods was asked to leave", "EvictPod"),
        ("the last of 2 pods was asked to leave", "EvictPod"),
    ]


def test_who_came_in_place_of_a_pod_is_found_with_few_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where its owner has many other pods that say something first."""
    log, removed = begun("a")
    for number in range(300):
        seen(log, f"there{number}", "n2")
    evict(log, "a")
    for number in range(300):
        seen(log, f"there{number}", "n2")
    seen(log, "x", "n2")
    asked: list[int] = []
    last = log.last

    async def counted(patterns: Sequence[str], up_to: int = 0) -> list[Record]:
        asked.append(len(patterns))
        return await last(patterns, up_to)

    monkeypatch.setattr(log, "last", counted)
    assert steps(log, removed)[-1] == ("in place of shop/a came", "x")
    assert len(asked) < 15
    assert max(asked) <= ASKED_TOGETHER


@pytest.mark.parametrize("shadow", [True, False])
def test_what_was_only_recorded_leads_to_nothing(*, shadow: bool) -> None:
    log, removed, _ = drained()
    said = msgspec.structs.replace(cast("p.RemoveNode", removed.event), shadow=shadow)
    assert (steps(log, Found(removed.record, said)) == []) is shadow
