"""What is kept back of a kind is said after a while, and a restart sees it again before that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

import msgspec
import pytest

from tests.unit.watcher.silent_log import SilentLog
from tests.unit.watcher.test_diff import OURS, scaler
from tidewright.kube.kinds import BY_NAME
from tidewright.kube.listwatch import Bookmark, Item, ListDone, ListStarted, Modified, Page
from tidewright.watcher import follow
from tidewright.watcher.follow import Follower
from tidewright.watcher.log_time import Stamp


class Log(SilentLog):
    """Takes what is said, and up to which version everything is said then."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[tuple[list[int], str]] = []
        self.more = asyncio.Event()

    def slot_of(self, namespace: str) -> int:
        return 0

    async def say(
        self, facts: Sequence[tuple[str, bytes]], *, resource_version: str, **position: object
    ) -> None:
        """Nothing refuses it."""
        counts = [msgspec.json.decode(body)["status"]["currentReplicas"] for _, body in facts]
        self.said.append((counts, resource_version))
        self.more.set()


def follower(log: Log) -> Follower:
    given = cast("Any", log)
    return Follower(
        BY_NAME["watermarkpodautoscaler"], cast("Any", None), given, given, Stamp(lambda: 1.0, lambda: 1.0, lambda: 1.0)
    )  # fmt: skip


def changed(count: int, version: str, **fields: Any) -> Item:
    return Modified(scaler(count, OURS, version=version, **fields))


LISTED: list[Item] = [ListStarted(relist=False), Page([scaler(1)]), ListDone("1")]


@pytest.fixture
def log() -> Log:
    return Log()


async def played(monkeypatch: pytest.MonkeyPatch, one: Follower, *batches: list[Item]) -> None:
    """Follow what a watch brings."""

    async def watched(*_: object, **__: object) -> AsyncIterator[list[Item]]:
        for batch in batches:
            yield batch

    monkeypatch.setattr(follow, "list_watch_batches", watched)
    await one._follow()


async def test_it_is_said_late_and_the_position_follows_then(
    monkeypatch: pytest.MonkeyPatch, log: Log
) -> None:
    monkeypatch.setattr(follow, "LATE_S", 0.0)
    one = follower(log)
    await played(monkeypatch, one, LISTED, [changed(2, "2")], [changed(3, "3"), Bookmark("4")])
    assert log.said == [([1], "1")]
    log.more.clear()
    late = asyncio.create_task(one._say_late())
    await log.more.wait()
    assert log.said[1:] == [([3], "4")]
    log.more.clear()
    await played(monkeypatch, one, [changed(4, "5")])
    await log.more.wait()
    assert log.said[2:] == [([4], "5")]
    late.cancel()


async def test_what_is_kept_back_is_said_with_whatever_else_is(
    monkeypatch: pytest.MonkeyPatch, log: Log
) -> None:
    """Who takes over would else see another object as it was before it was said, and say that once more."""
    one = follower(log)
    other: Item = Modified(scaler(7, version="3").replace(b'"name":"a"', b'"name":"b"'))
    await played(monkeypatch, one, LISTED, [changed(2, "2")], [other])
    assert log.said == [([1], "1"), ([7, 2], "3")]
    await played(monkeypatch, one, [changed(3, "4")], [changed(4, "5", spec={"maxReplicas": 9})])
    assert log.said[2:] == [([4], "5")]
    assert not one._keeps.is_set()


async def test_what_is_said_again_for_the_logs_sake_leaves_what_is_kept_back(
    monkeypatch: pytest.MonkeyPatch, log: Log
) -> None:
    one = follower(log)
    await played(monkeypatch, one, LISTED, [changed(2, "2")])
    await one._say([], 1.0)
    assert log.said == [([1], "1"), ([], "1")]


async def test_a_list_that_begins_says_all_and_begins_anew_until_it_is_done(
    monkeypatch: pytest.MonkeyPatch, log: Log
) -> None:
    one = follower(log)
    started: list[Item] = [ListStarted(relist=True), Page([scaler(2, OURS)])]
    await played(monkeypatch, one, LISTED, [changed(2, "2")], started, [ListDone("9")])
    assert log.said == [([1], "1"), ([2], ""), ([], "9")]


async def test_a_process_that_takes_over_sees_it_again(monkeypatch: pytest.MonkeyPatch, log: Log) -> None:
    monkeypatch.setattr(follow, "LATE_S", 0.0)
    one = follower(log)
    await played(monkeypatch, one, LISTED, [changed(2, "2")])
    asked: list[str | None] = []

    async def watched(*_: object, resource_version: str | None, **__: object) -> AsyncIterator[list[Item]]:
        asked.append(resource_version)
        yield []

    monkeypatch.setattr(follow, "list_watch_batches", watched)
    taken = follower(log)
    taken._version = log.said[-1][1]
    await taken._follow()
    assert asked == ["1"]
