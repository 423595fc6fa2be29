"""Which facts a follower does not leave waiting: what a drain goes on by."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

import msgspec
import pytest

from tests.unit.watcher.silent_log import SilentLog
from tidewright.events.base import JsonObject
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

    async def say(self, facts: Sequence[tuple[str, bytes]], **position: object) -> None:
        """Nothing refuses it."""


class Asked:
    """A pace that notes whether it was urgent, each time it was asked."""

    def __init__(self) -> None:
        self.urgent: list[bool] = []

    def took(self, seconds: float) -> None:
        """However long it was."""

    def left(self, *, urgent: bool) -> float:
        self.urgent.append(urgent)
        return 0.0


def listed(obj: JsonObject) -> list[Item]:
    return [ListStarted(relist=False), Page([msgspec.json.encode(obj)]), ListDone("1")]


def other(obj: JsonObject) -> JsonObject:
    return {**obj, "spec": {**obj["spec"], "unschedulable": True, "priority": 7}}


def raw(obj: JsonObject) -> bytes:
    return msgspec.json.encode(obj)


@pytest.mark.parametrize(
    ("kind", "batches", "urgent"),
    [
        (
            "pod",
            [listed(POD), [Modified(raw(other(POD)))], [Deleted(raw(POD))]],
            [False, False, True],
        ),
        (
            "node",
            [
                listed(NODE),
                [Modified(raw(MARKED))],
                [Modified(raw(other(NODE)))],
                [Deleted(raw(NODE))],
            ],
            [False, True, False, False],
        ),
    ],
)
async def test_what_follows_the_end_of_a_pod_or_a_mark_of_ours_waits_as_little_as_a_decision(
    monkeypatch: pytest.MonkeyPatch, kind: str, batches: list[list[Item]], urgent: list[bool]
) -> None:
    async def watched(*_: object, **__: object) -> AsyncIterator[list[Item]]:
        for batch in batches:
            yield batch

    log, pace = cast("Any", Log()), Asked()
    follower = Follower(
        BY_NAME[kind], cast("Any", None), log, log, Stamp(lambda: 1.0, lambda: 1.0, lambda: 1.0)
    )
    monkeypatch.setattr(follow, "list_watch_batches", watched)
    monkeypatch.setattr(follower, "_pace", pace)
    await follower._follow()
    assert pace.urgent == urgent
