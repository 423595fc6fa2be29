"""A question that gets no answer is asked again, for as long as the asker has patience."""

from __future__ import annotations

import asyncio

import pytest

from tests.nats_server import EmbeddedServer
from tidewright.log import errors
from tidewright.log.connection import Log, Message


async def test_who_has_patience_is_answered_by_the_server_that_comes_back(nats: EmbeddedServer) -> None:
    async with await Log.connect(nats.url, "shop", timeout_s=0.2, patience_s=30.0) as log:
        await log.ensure(slots=4)
        subject = log.subjects.config("clock")
        await log.commit([Message(subject, b"a")])
        await nats.kill()
        asked = asyncio.create_task(log.last(subject))
        listed = asyncio.create_task(_all(log, subject))
        await asyncio.sleep(0)
        await nats.start()
        record = await asked
        assert record is not None
        assert record.body == b"a"
        assert await listed == [b"a"]


async def _all(log: Log, subject: str) -> list[bytes]:
    return [record.body async for record in log.last_per_subject([subject])]


async def test_who_has_none_is_told_at_once(nats: EmbeddedServer) -> None:
    async with await Log.connect(nats.url, "shop", timeout_s=0.2) as log:
        await log.ensure(slots=4)
        await nats.kill()
        with pytest.raises(errors.LogUnavailable):
            await log.last(log.subjects.config("clock"))
