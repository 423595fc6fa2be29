"""The log against a real nats-server."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any

import nats.errors
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.nats_server import EmbeddedServer
from tests.waiting import until
from tidewright.events import registry
from tidewright.events.timers import TimerFired
from tidewright.log import bus, envelope, errors, subjects, timers
from tidewright.log.connection import Log, Message
from tidewright.log.install import install_log
from tidewright.log.reader import Record
from tidewright.log.subjects import ALL, Slot, Subjects


@given(st.text())
def test_escaping_is_reversible_and_gives_one_token(name: str) -> None:
    token = subjects.escape(name)
    assert subjects.unescape(token) == name
    assert token
    assert not set(token) & set(". *>\t\r\n")
    assert token.isascii()


@given(st.text(), st.text())
def test_different_names_have_different_tokens(a: str, b: str) -> None:
    assert (subjects.escape(a) == subjects.escape(b)) == (a == b)


def test_a_subject_is_read_back() -> None:
    names = Subjects("prod.eu")
    subject = names.fact(Slot("3"), "pod", "shop", "web-1.x")
    parsed = names.parse(subject)
    assert (parsed.cls, parsed.slot) == ("fact", "3")
    assert [subjects.unescape(t) for t in parsed.rest] == ["pod", "shop", "web-1.x"]
    assert names.slot_token(subject) == "3"
    assert names.class_token(subject) == "fact"
    with pytest.raises(ValueError, match=r"cluster 'prod\.eu'"):
        names.parse("tw.other.fact.3.pod.a.b")


async def test_a_batch_is_stored_whole_and_in_order(log: Log) -> None:
    committed = await log.commit([Message(log.subjects.config(f"c{i}"), b"%d" % i) for i in range(5)])
    assert (committed.count, committed.seq_of(0), committed.last_seq) == (5, 1, 5)
    async with log.reader([log.subjects.configs]) as reader:
        records = [r async for r in reader.until_current()]
    assert [(r.seq, r.body) for r in records] == [(i + 1, b"%d" % i) for i in range(5)]


@pytest.mark.parametrize("count", [1, 2])
async def test_what_the_server_takes_is_stored_and_a_byte_more_is_refused_without_asking_it(
    log: Log, count: int
) -> None:
    """A message that is too large would end the connection, for whatever else it carries, too."""
    subject, most = log.subjects.config("large"), log.max_message_bytes
    small = [Message(log.subjects.config(f"c{i}"), b"{}") for i in range(count - 1)]
    headers = {"Tw-Note": "ü"}
    with pytest.raises(
        errors.MessageTooLarge, match=f"{subject} measures .* takes {most} of one.*max_payload"
    ):
        await log.commit([*small, Message(subject, b"x" * most, headers)])
    with pytest.raises(errors.MessageTooLarge) as refused:
        await log.append(Message(subject, b"x" * most, headers))
    over = int(str(refused.value).split("measures ")[1].split()[0]) - most
    if count == 1:
        with pytest.raises(errors.MessageTooLarge):
            await log.append(Message(subject, b"x" * (most - over + 1), headers))
        await log.append(Message(subject, b"x" * (most - over), headers))
    await log.commit([*small, Message(subject, b"{}", headers)])
    assert await log.bounds() == (1, 2)
    assert log.client.stats["reconnects"] == 0


async def test_a_message_that_was_too_large_is_taken_once_the_server_is_told_to_take_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that is told so while it runs says it to nobody who is connected."""
    monkeypatch.setattr(bus, "LIMITS_S", 0.0)
    server = EmbeddedServer(tmp_path)
    await server.start()
    config = tmp_path / "nats-server.conf"
    try:
        config.write_text(config.read_text().replace("max_payload: 8MB", "max_payload: 1MB"))
        os.kill(server.pid, signal.SIGHUP)
        async with await Log.connect(server.url, "test", timeout_s=10.0) as log:
            await install_log(log)
            large = [Message(log.subjects.config("large"), b"x" * (2 << 20))]

            async def refused() -> str:
                try:
                    await log.commit(large)
                except (
                    errors.MessageTooLarge,
                    errors.LogUnavailable,
                ) as error:  # or it is just connecting anew
                    return str(error)
                return ""

            # Connected before or after it was told so.
            await until(refused, lambda said: "takes 1048576 of one" in said)
            config.write_text(config.read_text().replace("max_payload: 1MB", "max_payload: 8MB"))
            os.kill(server.pid, signal.SIGHUP)
            await until(refused, lambda said: not said)
            assert (await log.last(large[0].subject)) is not None
    finally:
        await server.stop()


async def test_one_wrong_expectation_refuses_the_whole_batch(log: Log) -> None:
    position = log.subjects.checkpoint(Slot("1"), "autoscaler")
    first = await log.commit([Message(position, b"a", expect_last=0)])
    with pytest.raises(errors.Conflict):
        await log.commit([Message(log.subjects.config("x"), b""), Message(position, b"b", expect_last=0)])
    assert await log.last(log.subjects.config("x")) is None
    await log.commit(
        [Message(log.subjects.config("x"), b""), Message(position, b"b", expect_last=first.last_seq)]
    )
    last = await log.last(position)
    assert last is not None
    assert last.body == b"b"


async def test_ensure_is_safe_to_repeat_and_refuses_another_shape(nats: EmbeddedServer) -> None:
    async with await Log.connect(nats.url, "shop", timeout_s=10.0) as log:
        await asyncio.gather(*(log.ensure(slots=8, cluster_id="u1") for _ in range(4)))
        await log.ensure(slots=8, cluster_id="u1", max_age_s=3600)
        with pytest.raises(errors.WrongStream, match=r"made with 8 slots.*instead of 16"):
            await log.ensure(slots=16)
        with pytest.raises(errors.WrongStream, match=r"uid u1, this cluster's has u2"):
            await log.ensure(slots=8, cluster_id="u2")
        assert await log.adopt_slots() == 8


async def test_reading_goes_on_over_a_killed_server(nats: EmbeddedServer) -> None:
    async with await Log.connect(nats.url, "test", timeout_s=10.0) as log:
        await log.ensure(slots=8)
        await log.commit([Message(log.subjects.config("a"), b"1")])
        async with log.reader([log.subjects.configs]) as reader:
            assert [r.body for r in await reader.fetch(timeout_s=60)] == [b"1"]
            await nats.kill()
            await nats.start()
            async with asyncio.timeout(60):
                while True:
                    try:
                        await log.commit([Message(log.subjects.config("a"), b"2")])
                        break
                    except errors.LogUnavailable:
                        await asyncio.sleep(0.05)
                got: list[bytes] = []
                while b"2" not in got:
                    try:
                        got += [r.body for r in await reader.fetch(timeout_s=1)]
                    except errors.LogUnavailable:
                        await asyncio.sleep(0.05)
            assert set(got) == {b"2"}


async def test_records_that_arrived_are_not_lost_with_the_connection(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    await log.commit([Message(log.subjects.config(f"c{i}"), b"") for i in range(900)])
    publish = log.client.publish

    async def cut(*args: Any, **kwargs: Any) -> None:
        raise nats.errors.ConnectionClosedError

    seen: list[int] = []
    async with asyncio.timeout(90), log.reader([log.subjects.configs]) as reader:
        while len(seen) < 900:
            try:
                seen += [record.seq for record in await reader.fetch(100)]
            except errors.LogUnavailable:
                monkeypatch.setattr(log.client, "publish", publish)
                continue
            # From here on the reader asks for more, in vain, while records wait that have arrived.
            monkeypatch.setattr(log.client, "publish", cut)
    assert seen == list(range(1, 901))


async def test_a_timer_fires_is_replaced_and_is_cancelled(log: Log) -> None:
    names, slot = log.subjects, Slot("2")

    def at(key: str, due: float) -> Message:
        return timers.set_message(
            names, slot, "autoscaler", timer=TimerFired(at=due, key=key), wall=due, headers={}
        )

    now = time.time()
    await log.commit([at("kept", now + 3600), at("gone", now + 60), at("moved", now + 3600)])
    await log.commit([timers.cancel_message(names, slot, "autoscaler", "gone", {}), at("moved", now + 0.3)])
    async with log.reader([names.timers("*", "autoscaler")]) as reader:
        records = await reader.fetch(timeout_s=60)
    assert [registry.decode(r.body) for r in records] == [TimerFired(at=now + 0.3, key="moved")]
    # By what is left to fire, not by waiting for a moment that may pass before the cancelling.
    keys = ("kept", "gone", "moved")
    scheduled = [names.schedule(slot, "autoscaler", key) for key in keys]
    left = [record.subject async for record in log.last_per_subject(scheduled)]
    assert left == [names.schedule(slot, "autoscaler", "kept")]


async def test_a_forged_schedule_is_dropped(log: Log) -> None:
    names = log.subjects
    victim = names.outcome(Slot("2"), "deployment", "shop", "web")
    forged = Message(
        names.schedule(Slot("2"), "autoscaler", "x"),
        b'{"type":"outcome.applied.v1","at":1,"decision":"d"}',
        {timers.SCHEDULE: timers.due(time.time() - 1), timers.TARGET: victim},
    )
    await log.commit([forged])
    await until(lambda: log.lookups.stored({"last_by_subj": victim}), lambda found: found is not None)
    async with log.reader([names.outcomes("*")]) as reader:
        got: list[Record] = []
        while not reader.forged and not got:
            got += await reader.fetch(timeout_s=0.3)
    assert (reader.forged, got) == (1, [])


@pytest.mark.parametrize(
    ("subject", "scheduler", "forged"),
    [
        ("tw.test.timer.1.spread.k", "tw.test.schedule.1.spread.k", False),
        ("tw.test.timer.1.spread.k", "tw.test.schedule.1.autoscaler.k", True),
        ("tw.test.timer.1.spread.k", "tw.test.schedule.2.spread.k", True),
        ("tw.test.fact.1.pod.a.b", "tw.test.schedule.1.spread.k", True),
        ("tw.test.timer.1.spread.k", "", True),
    ],
)
def test_a_schedule_may_only_fire_its_own_timer(subject: str, scheduler: str, *, forged: bool) -> None:
    assert Subjects("test").forged(subject, scheduler) is forged


async def test_nobody_there_and_a_port_in_use_say_what_to_do(nats: EmbeddedServer) -> None:
    with pytest.raises(
        errors.LogUnavailable, match=r"no NATS server answers at nats://127\.0\.0\.1:1 .*--nats URL"
    ):
        await Log.connect("nats://127.0.0.1:1", "test")
    with pytest.raises(errors.LogUnavailable, match="did not start"):
        await EmbeddedServer(nats._store.parent / "other", port=int(nats.url.rsplit(":", 1)[1])).start()


async def test_last_per_subject_gives_each_last_word_once(log: Log) -> None:
    a, b = (log.subjects.fact(Slot("1"), "pod", "ns", n) for n in ("a", "b"))
    await log.commit([Message(a, b"1"), Message(b, b"1"), Message(a, b"2")])
    found = [(r.subject, r.body) async for r in log.last_per_subject([log.subjects.facts("*", "pod")])]
    assert found == [(b, b"1"), (a, b"2")]
    assert [r async for r in log.last_per_subject([log.subjects.facts("*", "node")])] == []


def test_a_writer_stamps_fresh_headers() -> None:
    writer = envelope.Writer("watcher", "i1")
    first, second = writer.headers("m", cause="c", cause_seq=4), writer.headers("m", cause="c", cause_seq=4)
    assert first == second
    assert first is not second
    assert first[envelope.CAUSE_SEQ] == "4"
    assert subjects.slot_of("", 8) == ALL


def test_a_timer_beyond_all_calendars_can_be_set() -> None:
    assert timers.due(1e15) == "@at 2200-01-01T00:00:00.000000Z"
    assert timers.due(-1e15) == "@at 1970-01-01T00:00:00.000000Z"
    assert timers.due(0.5) == "@at 1970-01-01T00:00:00.500000Z"


async def test_a_reader_that_fetches_little_ahead_reads_everything_all_the_same(log: Log) -> None:
    subject = log.subjects.fact(log.slot_of("shop"), "pod", "shop", "p")
    await log.commit([Message(subject, b"%d" % n) for n in range(95)])
    async with log.reader([subject], window=10) as reader:
        bodies = [record.body async for record in reader.until_current()]
    assert bodies == [b"%d" % n for n in range(95)]
