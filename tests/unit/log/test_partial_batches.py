"""A batch in the midst of which the store becomes full comes out whole, and once."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from tests.nats_server import EmbeddedServer
from tests.waiting import until
from tidewright.events.timers import TimerFired
from tidewright.log import errors, partial_batches, store_quota, timers
from tidewright.log.connection import Log, Message
from tidewright.log.envelope import BATCH_ID, BATCH_SEQUENCE, SCHEDULE
from tidewright.log.reader import Record
from tidewright.log.subjects import Slot
from tidewright.sim.nats_server import configuration

LIMIT = 300_000
BATCH = 32


def batch(log: Log, n: int) -> list[Message]:
    padding = b"x" * 1000
    facts = [Message(log.subjects.config(f"b{n}.{i}"), padding + b"%d.%d" % (n, i)) for i in range(BATCH - 1)]
    return [*facts, Message(log.subjects.checkpoint(Slot("1"), "autoscaler"), b"%d" % n)]


async def batches_taken(log: Log) -> int:
    """Fill the log until a batch is not answered; how many were."""
    count = 0
    while True:
        try:
            await log.commit(batch(log, count))
        except errors.LogUnavailable:
            return count
        count += 1


async def on_the_log(log: Log) -> Counter[bytes]:
    async with log.reader([log.subjects.everything]) as reader:
        return Counter([record.body async for record in reader.until_current()])


async def test_nothing_is_appended_beside_a_torn_batch_until_the_server_has_stored_its_rest(
    tmp_path: Path,
) -> None:
    server = EmbeddedServer(tmp_path, max_store_bytes=LIMIT)
    await server.start()
    try:
        async with await Log.connect(server.url, "test", timeout_s=10.0) as log:
            await log.ensure(slots=4)
        async with await Log.connect(server.url, "test", timeout_s=5.0) as log:
            await log.adopt_slots()
            count = await batches_taken(log)
            stored = (await on_the_log(log)).total()
            assert count * BATCH < stored < (count + 1) * BATCH, (
                "this server does not store a part: torn.py can go"
            )
            for again in (batch(log, count), batch(log, count)[:1]):
                with pytest.raises(errors.StoreFull, match=r"\d+ of its 32 messages are stored"):
                    await log.commit(again)
            await server.stop()
            server = EmbeddedServer(tmp_path, port=int(log.url.rsplit(":", 1)[1]))
            await server.start()
            await until(lambda: log.client.is_connected)
            await log.settled()
            await log.commit(batch(log, count + 1))
            everything = await on_the_log(log)
            assert [b[-9:] for b, n in everything.items() if n > 1] == []
            assert everything.total() == (count + 2) * BATCH
    finally:
        await server.stop()


@pytest.mark.parametrize("place", [0, 3, BATCH - 2])
async def test_an_unanswered_batch_of_which_a_schedule_has_fired_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    """It leaves a hole behind: nothing was torn there, and who waited for room would wait for ever."""
    server = EmbeddedServer(tmp_path)
    await server.start()
    try:
        async with await Log.connect(server.url, "test", timeout_s=5.0) as log:
            await log.ensure(slots=4)
            request, slot = log.requested, Slot("1")
            due = TimerFired(at=1.0, key="soon")
            timed, fired = batch(log, 0), log.subjects.timer(slot, "autoscaler", "soon")
            timed[place] = timers.set_message(
                log.subjects, slot, "autoscaler", timer=due, wall=1.0, headers={}
            )

            async def unanswered(subject: str, body: bytes, headers: dict[str, str] | None) -> bytes:
                answer = await request(subject, body, headers)
                if "Nats-Batch-Commit" in (headers or {}):
                    raise errors.LogUnavailable("the answer is lost")
                return answer

            with monkeypatch.context() as patch:
                patch.setattr(log, "requested", unanswered)
                with pytest.raises(errors.LogUnavailable):
                    await log.commit(timed)
            async with asyncio.timeout(90), log.reader([fired], after=0) as reader:
                while not await reader.fetch(1, timeout_s=5.0):
                    pass
            await log.settled()
            await log.commit(batch(log, 1))
            everything = await on_the_log(log)
            assert everything.total() == 2 * BATCH  # the fired timer for its schedule
    finally:
        await server.stop()


@pytest.mark.parametrize("behind", [0, 4])
async def test_a_hole_behind_a_torn_batch_is_no_message_of_it(behind: int) -> None:
    """Others append there, and a schedule of theirs fires: who took it for the checkpoint would lose decisions."""
    timed = Message("c.schedule", b"", {SCHEDULE: "@at 2026-01-01T00:00:00Z"})
    messages = [
        Message("c.decision.a", b""),
        timed,
        Message("c.decision.b", b""),
        Message("c.checkpoint", b""),
    ]
    stored = Record(10, "c.decision.a", b"", {BATCH_ID: "one", BATCH_SEQUENCE: "1"})

    async def last(subject: str) -> Record | None:
        return stored if subject == stored.subject else None

    async def at(seq: int) -> Record | None:
        return None

    async def bounds() -> tuple[int, int]:
        return 1, 11 + behind

    doubts = partial_batches.Torn(last, at, bounds)
    doubts.unanswered("one", messages)
    with pytest.raises(errors.StoreFull, match="2 of its 4"):
        await doubts.check()


ACCOUNT = (
    "accounts { A { jetstream { max_file: %d, max_mem: 1000000 }, users [ { user: a, password: a } ] } }"
)


async def test_an_account_with_a_limit_is_never_filled_to_the_last_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = configuration
    monkeypatch.setattr("tests.nats_server.configuration", lambda *a, **k: plain(*a, **k) + ACCOUNT % LIMIT)
    monkeypatch.setattr(store_quota, "WAIT_FROM_S", 0.0)
    server = EmbeddedServer(tmp_path)
    url = await server.start()
    try:
        async with await Log.connect(url.replace("//", "//a:a@"), "test", timeout_s=10.0) as log:
            await log.ensure(slots=4)
            for n in range(13):
                await log.commit(batch(log, n)[-20:])
            with pytest.raises(errors.StoreFull, match=f"of {LIMIT} bytes are used.*nothing was dropped"):
                await log.commit(batch(log, 13)[-20:])
            assert (await on_the_log(log)).total() == 13 * 20
    finally:
        await server.stop()
