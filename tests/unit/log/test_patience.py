"""A question that gets no answer is asked again, for as long as the asker has patience."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import nats as nats_py
import nats.errors as nats_errors
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from tests.nats_server import EmbeddedServer
from tests.waiting import until
from tidewright.log import bus, errors
from tidewright.log.connection import Log, Message


async def test_who_has_patience_is_answered_by_the_server_that_comes_back(nats: EmbeddedServer) -> None:
    async with await Log.connect(nats.url, "shop", timeout_s=10.0, patience_s=60.0) as log:
        await log.ensure(slots=4)
        subject = log.subjects.config("clock")
        await log.commit([Message(subject, b"a")])
        log.timeout_s = 1.0  # asked once, nobody would wait for long enough
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


QUESTION = "A.QUESTION.OF.OURS"
"""Which the server itself leaves to others."""
LEADERLESS = (
    b'{"error":{"code":503,"err_code":10008,"description":"JetStream system temporarily unavailable"}}'
)


async def _is_asked(client: Client) -> bool:
    """Whether questions reach whoever answers: a server takes a moment until it leaves them to others."""
    try:
        await client.request(f"$JS.API.{QUESTION}", b"{}", timeout=1.0)
    except (nats_errors.NoRespondersError, nats_errors.TimeoutError):
        return False
    return True


@asynccontextmanager
async def _leaderless_until(nats: EmbeddedServer, enough: asyncio.Event) -> AsyncIterator[None]:
    """Servers without a leader: somebody answers for them, by their words, until `enough`."""
    client = await nats_py.connect(nats.url)

    async def answer(question: Msg) -> None:
        await question.respond(b'{"found": true}' if enough.is_set() else LEADERLESS)

    await client.subscribe(f"$JS.API.{QUESTION}", cb=answer)
    await client.flush()
    await until(partial(_is_asked, client))
    try:
        yield
    finally:
        await client.close()


async def test_servers_without_a_leader_have_not_answered(
    nats: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They answer at once, and that ended whoever waited for nobody to answer at all."""
    monkeypatch.setattr(bus, "SILENT_S", 0.0)
    enough = asyncio.Event()
    async with (
        await Log.connect(nats.url, "shop", patience_s=60.0) as log,
        _leaderless_until(nats, enough),
    ):
        asked = asyncio.create_task(log.api(QUESTION, {}))
        await until(lambda: "temporarily unavailable" in log.unable)
        assert not asked.done()
        enough.set()
        assert await asked == {"found": True}
        assert log.unable == ""


async def test_who_has_no_patience_hears_that_there_is_no_leader(nats: EmbeddedServer) -> None:
    async with (
        await Log.connect(nats.url, "shop", timeout_s=10.0) as log,
        _leaderless_until(nats, asyncio.Event()),
    ):
        with pytest.raises(errors.LogUnavailable, match="10008"):
            await log.api(QUESTION, {})


async def test_who_has_none_is_told_at_once(nats: EmbeddedServer) -> None:
    async with await Log.connect(nats.url, "shop", timeout_s=10.0) as log:
        await log.ensure(slots=4)
        log.timeout_s = 2.0
        await nats.kill()
        with pytest.raises(errors.LogUnavailable):
            await log.last(log.subjects.config("clock"))
