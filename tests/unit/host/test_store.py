"""What a server says of the room that the log's account has, and what is told of it."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from tests.waiting import until
from tidewright.host.process import store
from tidewright.host.process.store import watch
from tidewright.log.connection import Log, Message
from tidewright.log.errors import LogUnavailable
from tidewright.log.store_quota import Store, store_of


@pytest.mark.parametrize(
    ("info", "found"),
    [
        ({"storage": 5, "limits": {"max_storage": 7}}, Store(5, 7)),
        ({"storage": 5, "limits": {"max_storage": -1}}, Store(5, 0)),
        ({"storage": 5}, Store(5, 0)),
    ],
)
def test_an_account_without_a_limit_has_none(info: Any, found: Store) -> None:
    assert store_of(info) == found


class Told:
    """A log that tells of its room at every second question."""

    def __init__(self) -> None:
        self.asked = 0

    async def answer_of(self, verb: str, body: object) -> dict[str, Any]:
        assert verb == "INFO"
        self.asked += 1
        match self.asked % 3:
            case 0:
                raise LogUnavailable("no answer in 1 s")
            case 1:
                return {"error": {"code": 503, "description": "JetStream system temporarily unavailable"}}
        return {"storage": self.asked, "limits": {"max_storage": 100}}


async def test_it_is_looked_at_again_and_stays_while_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "EVERY_S", 0.0)
    registry, log = CollectorRegistry(), Told()
    task = asyncio.create_task(watch(cast("Log", log), registry))
    try:
        await until(lambda: (registry.get_sample_value("tidewright_log_store_bytes") or 0) > 5)
        assert registry.get_sample_value("tidewright_log_store_limit_bytes") == 100
    finally:
        task.cancel()


async def test_a_running_log_tells_what_it_has_taken(log: Log) -> None:
    registry = CollectorRegistry()
    await log.commit([Message(log.subjects.config("clock"), b"{}")])
    task = asyncio.create_task(watch(log, registry))
    try:
        await until(lambda: registry.get_sample_value("tidewright_log_store_bytes"))
        assert registry.get_sample_value("tidewright_log_store_limit_bytes") == 0
    finally:
        task.cancel()
