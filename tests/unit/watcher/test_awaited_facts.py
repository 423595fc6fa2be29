"""Which facts a follower does not leave waiting: what a drain goes on by."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

import msgspec
import pytest

from tests.unit.watcher.silent_log import SilentLog
from tidewright.events import registry
from tidewright.events.base import JsonObject
from tidewright.events.facts import NodeGone, NodeObserved
from tidewright.kube.kinds import BY_NAME
from tidewright.kube.listwatch import Deleted, Item, ListDone, ListStarted, Modified, Page
from tidewright.kube.taints import DRAIN
from tidewright.watcher import follow
from tidewright.watcher.follow import Follower
from tidewright.watcher.log_time import Stamp

NAMED = {"name": "n", "uid": "u", "resourceVersion": "1"}
POD: JsonObject = {"metadata": {**NAMED, "namespace": "ns"}, "spec": {"nodeName": "node", "containers": []}}
NODE: JsonObject = {"metadata": NAMED, "spec": {}, "status": {}}
MARKED: JsonObject = {**NODE, "metadata": {**NAMED, "annotations": {DRAIN: "d"}}}


class Log(SilentLog):
    """Takes what is said."""

    def slot_of(self, namespace: str) -> int:
        return 0

    def __init__(self) -> None:
        super().__init__()
        self.said: list[list[bytes]] = []

    async def say(self, facts: Sequence[tuple[str, bytes]], **position: object) -> None:
        """Nothing refuses it."""
        self.said.append([body for _, body in facts])


class Owing:
    """A pace by which the next commit has to wait, also one that is urgent where `urgent_s` says so."""

    left_s = 0.08

    def __init__(self, urgent_s: float) -> None:
        self._urgent_s = urgent_s

    def took(self, seconds: float) -> None:
        """However long it was."""

    def left(self, *, urgent: bool) -> float:
        return self._urgent_s if urgent else self.left_s


def listed(obj: JsonObject) -> list[Item]:
    return [ListStarted(relist=False), Page([msgspec.json.encode(obj)]), ListDone("1")]


def other(obj: JsonObject) -> JsonObject:
    return {**obj, "spec": {**obj["spec"], "unschedulable": True, "priority": 7}}


def raw(obj: JsonObject) -> bytes:
    return msgspec.json.encode(obj)


ALL, SHORT = Owing.left_s, follow.TOGETHER_S


@pytest.mark.parametrize(
    ("kind", "batches", "pauses"),
    [
        (
            "pod",
            [listed(POD), [Modified(raw(other(POD)))], [Deleted(raw(POD))]],
            [ALL, ALL, SHORT],
        ),
        (
            "node",
            [
                listed(NODE),
                [Modified(raw(MARKED))],
                [Modified(raw(other(NODE)))],
                [Deleted(raw(NODE))],
            ],
            [ALL, SHORT, ALL, SHORT],
        ),
    ],
)
@pytest.mark.parametrize("urgent_s", [0.0, 0.03])
async def test_what_follows_the_end_of_a_pod_or_node_or_a_mark_of_ours_waits_as_little_as_a_decision(
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    batches: list[list[Item]],
    pauses: list[float],
    urgent_s: float,
) -> None:
    async def watched(*_: object, **__: object) -> AsyncIterator[list[Item]]:
        for batch in batches:
            yield batch

    paused: list[float] = []

    async def sleep(seconds: float) -> None:
        paused.append(seconds)

    log = cast("Any", Log())
    follower = Follower(
        BY_NAME[kind], cast("Any", None), log, log, Stamp(lambda: 1.0, lambda: 1.0, lambda: 1.0)
    )
    monkeypatch.setattr(follow, "list_watch_batches", watched)
    monkeypatch.setattr(follower, "_pace", Owing(urgent_s))
    monkeypatch.setattr(asyncio, "sleep", sleep)
    await follower._follow()
    assert paused == [max(urgent_s, pause) for pause in pauses]


async def test_of_a_node_that_changes_twice_at_a_moment_the_last_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The cluster's own taint comes right behind our mark; another node of the name is not the same one."""
    other_node = {**MARKED, "metadata": {**NAMED, "uid": "v", "annotations": {DRAIN: "e"}}}
    both = [Modified(raw(MARKED)), Modified(raw(other(MARKED))), Modified(raw(other_node))]

    async def watched(*_: object, **__: object) -> AsyncIterator[list[Item]]:
        yield listed(NODE)
        yield cast("list[Item]", both)

    async def sleep(seconds: float) -> None:
        """At once."""

    log = Log()
    follower = Follower(
        BY_NAME["node"],
        cast("Any", None),
        cast("Any", log),
        cast("Any", log),
        Stamp(lambda: 1.0, lambda: 1.0, lambda: 1.0),
    )
    monkeypatch.setattr(follow, "list_watch_batches", watched)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    await follower._follow()
    facts = [registry.decode(body) for body in log.said[-1]]
    assert [type(fact) for fact in facts] == [NodeObserved, NodeGone, NodeObserved]
    first, _, last = cast("list[NodeObserved]", facts)
    assert (first.uid, first.unschedulable, last.uid) == ("u", True, "v")
