"""A server that keeps its connections and answers nothing, as one that is paused or cut off, is left soon."""

from __future__ import annotations

import time
from urllib.parse import urlsplit

from tests.chaos.network import Link
from tests.nats_server import EmbeddedServer
from tests.waiting import until
from tidewright.cli.stack import HOST
from tidewright.host.loop.membership import UNHEARD, BucketMembership
from tidewright.log.connection import Log, Message
from tidewright.log.errors import LogUnavailable
from tidewright.log.install import Plan, install_log
from tidewright.log.reader import SILENCE_S


async def test_who_gets_no_answer_asks_another_server_from_the_fourth_question_on(
    nats: EmbeddedServer,
) -> None:
    """Each is waited for for 1 s: those are waits of ours, beside what servers need to find a leader."""
    port = urlsplit(nats.url).port
    assert port is not None
    links = [Link("client", name, port) for name in ("one", "other")]
    url = ",".join(f"nats://{HOST}:{link.port}" for link in links)
    try:
        async with await Log.connect(url, "test", timeout_s=10.0) as log:
            await log.ensure(slots=4)
            subject = log.subjects.config("clock")
            await log.commit([Message(subject, b"a")])
            log.timeout_s, client = 1.0, log.client
            silent = next(link for link in links if client.server.endswith(f":{link.port}"))
            silent.cut(hard=False)
            unanswered = 0

            async def answered() -> bool:
                nonlocal unanswered
                asked = client.server
                try:
                    await log.last(subject)
                except LogUnavailable:
                    # What the other one is asked while it is being come to may have to be asked again.
                    unanswered += asked.endswith(f":{silent.port}")
                    return False
                return True

            await until(answered, every_s=0.0)
            assert 0 < unanswered <= 3
            assert not client.server.endswith(f":{silent.port}")
            silent.heal()
    finally:
        for link in links:
            await link.close()


async def test_who_has_nothing_to_append_notices_too_that_nothing_is_taken(nats: EmbeddedServer) -> None:
    """It was ready: nothing of its own failed."""
    port = urlsplit(nats.url).port
    assert port is not None
    link = Link("client", "bus", port)
    try:
        async with await Log.connect(f"nats://{HOST}:{link.port}", "test", timeout_s=10.0) as log:
            await install_log(log, Plan(slots=4))
            log.timeout_s = 1.0
            membership = BucketMembership(log, "actuator", "idle")
            await membership.join()
            await until(lambda: log.unable == "")
            link.cut(hard=False)
            await until(lambda: log.unable == UNHEARD)
            link.heal()
            await until(lambda: log.unable == "")
            await membership.leave()
    finally:
        await link.close()


async def test_who_had_no_processor_time_does_not_take_the_server_for_silent(log: Log) -> None:
    """Each consumer that is made anew leaves one behind for half a minute, and a stream takes a thousand."""
    async with log.reader([log.subjects.configs]) as reader:
        assert await reader.fetch(timeout_s=0.1) == []
        consumer = reader._consumer
        assert consumer
        for _ in range(2):
            time.sleep(SILENCE_S + 0.6)  # noqa: ASYNC251  # nothing that came was read meanwhile
            assert await reader.fetch(timeout_s=0.1) == []
            assert reader._consumer == consumer
