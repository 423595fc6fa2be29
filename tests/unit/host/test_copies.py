"""What a server says of the copies of a stream, and what is told of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from tests.waiting import until
from tidewright.host.process.copies import Copies, copies_of, watch
from tidewright.log.connection import Log


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
