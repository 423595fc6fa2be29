"""How often the log is asked what an effect is founded on."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from tidewright.actuator.allowed.grounds import Grounds
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
    """

    def __init__(self, *, marked: bool) -> None:
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


@pytest.mark.parametrize(("marked", "questions"), [(True, 1), (False, 5)])
async def test_of_pods_that_are_evicted_together_their_node_is_asked_about_once_where_it_is_marked(
    *, marked: bool, questions: int
) -> None:
    log = Asked(marked=marked)
    grounds = Grounds(cast("Log", cast("Any", log)))

    def evict(name: str) -> EvictPod:
        target = ObjectRef(api_version="v1", kind="Pod", namespace="ns", name=name, uid=name)
        return EvictPod(at=1.0, target=target, node="n")

    found = await asyncio.gather(*(grounds.refusal("drained", evict(f"p{i}")) for i in range(5)))
    assert [refusal is None for refusal in found] == 5 * [marked]
    assert log.asked.count("pod") == 5
    assert log.asked.count("node") == questions
    await grounds.refusal("drained", evict("late"))
    assert log.asked.count("node") == questions + (not marked)
