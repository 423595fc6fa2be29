"""What a server says of the copies of a stream, and what is told of it."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from tests.waiting import until
from tidewright.host.process import copies
from tidewright.host.process.copies import Copies, copies_of, watch
from tidewright.log.connection import Log
from tidewright.log.errors import LogUnavailable


def peer(*, current: bool = True, offline: bool = False) -> dict[str, Any]:
    return {"name": "n", "current": current, "offline": offline}


@pytest.mark.parametrize(
    ("replicas", "cluster", "current"),
    [
        (1, None, 1),
        (1, {"leader": "n0"}, 1),
        (3, {"leader": "n0", "replicas": [peer(), peer()]}, 3),
        (3, {"leader": "n0", "replicas": [peer(), peer(offline=True)]}, 2),
        (3, {"leader": "n0", "replicas": [peer(current=False), peer()]}, 2),
        (3, {"replicas": [peer(), peer()]}, 2),
        (3, {"leader": "n0"}, 1),
        (3, {}, 0),
    ],
)
def test_copies_are_those_that_have_everything(replicas: int, cluster: Any, current: int) -> None:
    answer = {"config": {"num_replicas": replicas}, "cluster": cluster}
    assert copies_of(answer) == Copies(replicas, current)


class Told:
    """A log that tells of its copies, and then nothing any more."""

    def __init__(self, then: Exception | None) -> None:
        self._then, self.asked = then, 0

    async def answer_of(self, verb: str, body: object) -> dict[str, Any]:
        self.asked += 1
        if self.asked == 1:
            return {
                "config": {"num_replicas": 3},
                "cluster": {"leader": "n0", "replicas": [peer(), peer()]},
            }
        if self._then is not None:
            raise self._then
        await asyncio.Event().wait()
        raise AssertionError("it waits for ever")


@pytest.mark.parametrize("then", [LogUnavailable("no answer in 1 s"), None])
async def test_a_stream_that_nobody_answers_for_any_more_has_no_copy(
    then: Exception | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It kept its last value, and what is wrong with it raised no alert."""
    monkeypatch.setattr(copies, "EVERY_S", 0.01)
    monkeypatch.setattr(copies, "ANSWERED_S", 0.01)
    registry, log = CollectorRegistry(), Told(then)
    task = asyncio.create_task(watch(cast("Log", log), ["S"], registry))
    try:
        await until(
            lambda: registry.get_sample_value("tidewright_log_copies_current", {"stream": "S"}) == 0.0
        )
        assert registry.get_sample_value("tidewright_log_copies_wanted", {"stream": "S"}) == 3.0
        assert log.asked > 1
    finally:
        task.cancel()


async def test_a_running_log_has_its_one_copy_and_one_that_is_not_there_none(log: Log) -> None:
    registry = CollectorRegistry()
    task = asyncio.create_task(watch(log, [log.stream, "OBJ_nothing"], registry))
    try:
        name = "tidewright_log_copies_current"
        await until(lambda: registry.get_sample_value(name, {"stream": log.stream}) == 1.0)
        assert registry.get_sample_value("tidewright_log_copies_wanted", {"stream": log.stream}) == 1.0
        assert registry.get_sample_value(name, {"stream": "OBJ_nothing"}) is None
    finally:
        task.cancel()
