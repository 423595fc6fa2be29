"""How often the log is asked what an effect is founded on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

import pytest

from tidewright.actuator.allowed.grounds import MANY, TOGETHER, Grounds
from tidewright.events import registry
from tidewright.events.base import ObjectRef
from tidewright.events.decisions import EvictPod
from tidewright.events.facts import NodeObserved, PodObserved
from tidewright.kube.taints import DRAIN, TO_BE_DELETED
from tidewright.log.connection import Log
from tidewright.log.reader import Record
from tidewright.log.subjects import Subjects

TAINT = {"key": TO_BE_DELETED, "value": "1", "effect": "NoSchedule"}


class Asked:
    """A log that takes its time to answer.

    Attributes:
        asked: kinds of the objects that were asked about.
        together: how many subjects were asked about with one question, for each such question.
    """

    def __init__(self, *, marked: bool, unknown: str = "", broken: bool = False) -> None:
        """`unknown`: of the pod of this name many at once find nothing; `broken`: they are not answered as anybody expects."""
        self.together: list[int] = []
        self._unknown, self._broken = unknown, broken
        self.answers = asyncio.Event()
        self.answers.set()
        self.questions = asyncio.Event()
        self.subjects = Subjects("t")
        self.asked: list[str] = []
        self._node = NodeObserved(
            at=1.0, name="n", uid="n", taints=(TAINT,), annotations={DRAIN: "d"} if marked else {}
        )

    def slot_of(self, namespace: str) -> int:
        return len(namespace)

    async def last(self, subject: str) -> Record:
        kind, _, name = self.subjects.parse(subject).rest
        self.asked.append(kind)
        await asyncio.sleep(0)
        event = (
            self._node
            if kind == "node"
            else PodObserved(at=1.0, namespace="ns", name=name, uid=name, node="n")
        )
        return Record(1, subject, registry.encode(event), {})

    async def last_per_subject(self, filters: Sequence[str]) -> AsyncIterator[Record]:
        self.together.append(len(filters))
        self.questions.set()
        await self.answers.wait()
        if self._broken:
            raise ValueError("no answer")
        for subject in filters:
            _, _, name = self.subjects.parse(subject).rest
            event = PodObserved(at=1.0, namespace="ns", name=name, uid=name, node="n")
            if name != self._unknown:
                yield Record(1, subject, registry.encode(event), {})


def evict(name: str, *, node: str = "n") -> EvictPod:
    target = ObjectRef(api_version="v1", kind="Pod", namespace="ns", name=name, uid=name)
    return EvictPod(at=1.0, target=target, node=node)


@pytest.mark.parametrize(("marked", "questions"), [(True, 1), (False, 5)])
async def test_of_pods_that_are_evicted_together_their_node_is_asked_about_once_where_it_is_marked(
    *, marked: bool, questions: int
) -> None:
    log = Asked(marked=marked)
    grounds = Grounds(cast("Log", cast("Any", log)))

    found = await asyncio.gather(*(grounds.refusal("drained", evict(f"p{i}")) for i in range(5)))
    assert [refusal is None for refusal in found] == 5 * [marked]
    assert log.asked.count("pod") == 5
    assert log.asked.count("node") == questions
    await grounds.refusal("drained", evict("late"))
    assert log.asked.count("node") == questions + (not marked)


@pytest.mark.parametrize(
    ("count", "together", "alone"), [(TOGETHER + MANY, [TOGETHER, MANY], 0), (MANY - 1, [], MANY - 1)]
)
async def test_pods_of_evictions_that_are_read_together_are_asked_about_together(
    count: int, together: list[int], alone: int
) -> None:
    log = Asked(marked=True)
    grounds = Grounds(cast("Log", cast("Any", log)))
    evictions = [evict(f"p{i}") for i in range(count)]
    for eviction in evictions:
        grounds.expect("drained", eviction)
    found = await asyncio.gather(*(grounds.refusal("drained", eviction) for eviction in evictions))
    assert found == [None] * count
    assert log.together == together
    assert log.asked.count("pod") == alone


async def test_what_many_at_once_do_not_ground_is_asked_about_by_itself() -> None:
    log = Asked(marked=True, unknown="p0")
    grounds = Grounds(cast("Log", cast("Any", log)))
    elsewhere = evict("p1", node="m")
    others = [evict(f"p{i}") for i in range(2, MANY)]
    evictions = [evict("p0"), elsewhere, *others]
    for eviction in evictions:
        grounds.expect("drained", eviction)
    found = await asyncio.gather(*(grounds.refusal("drained", eviction) for eviction in evictions))
    assert log.together == [MANY]
    assert log.asked.count("pod") == 2
    said = "pod p1 is on node n (WithoutGround)"
    assert [str(refusal or "") for refusal in found] == ["", said, *([""] * len(others))]


async def test_a_pod_is_asked_about_anew_where_its_eviction_is_tried_again() -> None:
    log = Asked(marked=True)
    grounds = Grounds(cast("Log", cast("Any", log)))
    evictions = [evict(f"p{i}") for i in range(MANY)]
    for eviction in evictions:
        grounds.expect("drained", eviction)
    await grounds.refusal("drained", evictions[0])
    assert log.asked.count("pod") == 0
    await grounds.refusal("drained", evictions[0])
    assert log.asked.count("pod") == 1


async def test_a_pod_that_is_to_be_evicted_twice_is_found_for_both_while_many_are_asked_about() -> None:
    """Decided anew before the first was answered: that waits for a word that nobody would have said."""
    log = Asked(marked=True)
    grounds = Grounds(cast("Log", cast("Any", log)))
    log.answers.clear()
    for i in range(TOGETHER):
        grounds.expect("drained", evict(f"p{i}"))
    await log.questions.wait()
    grounds.expect("drained", evict("twice"))
    first = asyncio.create_task(grounds.refusal("drained", evict("twice")))
    await asyncio.sleep(0)
    grounds.expect("drained", evict("twice"))
    log.answers.set()
    async with asyncio.timeout(90):
        assert [await first, await grounds.refusal("drained", evict("twice"))] == [None, None]


async def test_whatever_goes_wrong_with_many_at_once_nobody_waits_for_it() -> None:
    log = Asked(marked=True, broken=True)
    grounds = Grounds(cast("Log", cast("Any", log)))
    evictions = [evict(f"p{i}") for i in range(TOGETHER + MANY)]
    for eviction in evictions:
        grounds.expect("drained", eviction)
    async with asyncio.timeout(90):
        found = await asyncio.gather(*(grounds.refusal("drained", eviction) for eviction in evictions))
    assert found == [None] * len(evictions)
    assert log.asked.count("pod") == len(evictions)
