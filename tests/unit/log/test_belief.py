"""What somebody had the server put on the log is believed by nobody: not by readers, not by look-ups."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
import pytest
from nats.js.api import ObjectStoreConfig
from prometheus_client import CollectorRegistry, Counter
from structlog.testing import capture_logs

from tests.waiting import until
from tidewright.events import registry
from tidewright.events.outcomes import Applied
from tidewright.log import belief, errors, lookups, timers
from tidewright.log.belief import Cause
from tidewright.log.connection import Log, Message
from tidewright.log.last_per_subject import last_words
from tidewright.log.reader import Record
from tidewright.log.subjects import ALL, Slot, Subjects

Attack = Callable[[Log, str, bytes], Awaitable[int]]
"""Has the server store a body on a subject; gives the sequence."""


async def _end(log: Log) -> int:
    return (await log.bounds())[1]


async def _grown(log: Log, before: int) -> int:
    return await until(lambda: _end(log), lambda end: end > before)


async def _stored(log: Log, subject: str, stream: str) -> Record:
    return await log.lookups.stored({"last_by_subj": subject}, stream) or pytest.fail(subject)


async def an_answer(log: Log, victim: str, body: bytes) -> int:
    """Free content from a bucket of one's own, with the log's subject as where the answer goes."""
    store = await log.jetstream.create_object_store("mine", ObjectStoreConfig(bucket="mine"))
    await store.put("x", body)
    before = await _end(log)
    query = msgspec.json.encode({"last_by_subj": "$O.mine.C.*"})
    await log.client.publish("$JS.API.DIRECT.GET.OBJ_mine", query, reply=victim)
    return await _grown(log, before)


async def a_schedule(log: Log, victim: str, body: bytes) -> int:
    """A schedule of one's own, with the log's subject as its target."""
    before = await _end(log)
    names = log.subjects
    schedule = names.schedule(Slot("1"), "autoscaler", "x")
    headers = {timers.SCHEDULE: "@at 1970-01-01T00:00:01Z", timers.TARGET: victim}
    await log.commit([Message(schedule, body, headers)])
    return await _grown(log, before + 1)


ATTACKS = pytest.mark.parametrize(
    ("attack", "cause"), [(an_answer, Cause.PUT_BACK), (a_schedule, Cause.SCHEDULED)]
)


@ATTACKS
async def test_no_look_up_finds_it_and_the_word_before_it_counts(
    log: Log, attack: Attack, cause: Cause
) -> None:
    names = log.subjects
    victim = names.checkpoint(ALL, "actuator")
    true = (await log.commit([Message(victim, b"true", {"Tw-Id": "t"}, 0)])).last_seq
    await log.commit([Message(names.config(f"c{i}"), b"{}") for i in range(40)])
    forged = await attack(log, victim, b"forged")

    stored = await log.lookups.stored({"last_by_subj": victim})
    assert stored is not None
    assert (stored.seq, stored.body) == (forged, b"forged")  # it really lies there
    last = await log.last(victim)
    assert last == Record(true, victim, b"true", last.headers if last else {})
    assert await log.at(forged) is None
    assert await log.first_of(victim, true + 1) is None
    assert [r.body for r in await last_words(log, [victim])] == [b"true"]
    assert [r.body for r in await last_words(log, [victim], up_to=forged)] == [b"true"]
    assert [r.body async for r in log.last_per_subject([victim])] == [b"true"]
    async with log.reader([victim]) as reader:
        assert [r.body async for r in reader.until_current()] == [b"true"]
    assert log.doubts.counts == {cause: 1}


@ATTACKS
async def test_alone_on_a_subject_it_is_as_nothing(log: Log, attack: Attack, cause: Cause) -> None:
    victim = log.subjects.config("clock")
    forged = await attack(log, victim, b"forged")
    assert await log.last(victim) is None
    assert await log.at(forged) is None
    assert await last_words(log, [victim]) == []
    assert [r async for r in log.last_per_subject([victim])] == []
    assert log.doubts.counts == {cause: 1}


@ATTACKS
async def test_the_owner_of_a_checkpoint_commits_on_behind_it(log: Log, attack: Attack, cause: Cause) -> None:
    victim = log.subjects.checkpoint(Slot("1"), "autoscaler")
    first = await log.commit([Message(victim, b"one", expect_last=0)])
    await attack(log, victim, b"forged")
    second = await log.commit([Message(victim, b"two", expect_last=first.last_seq)])
    last = await log.last(victim)
    assert last is not None
    assert (last.seq, last.body) == (second.last_seq, b"two")
    with pytest.raises(errors.Conflict):  # another owner is one still
        await log.commit([Message(victim, b"three", expect_last=first.last_seq)])
    assert log.doubts.counts[cause] == 1


async def test_an_object_that_was_put_into_a_bucket_so_is_none(log: Log) -> None:
    """Snapshots are asked for by the same look-ups."""
    store = await log.jetstream.create_object_store("theirs", ObjectStoreConfig(bucket="theirs"))
    await store.put("x", b"true")
    info = await store.get_info("x")
    subject = f"$O.theirs.C.{info.nuid}"
    await an_answer(log, log.subjects.config("x"), b"forged")
    query = msgspec.json.encode({"last_by_subj": "$O.mine.C.*"})
    await log.client.publish("$JS.API.DIRECT.GET.OBJ_mine", query, reply=subject)
    await until(lambda: _stored(log, subject, "OBJ_theirs"), lambda found: found.body != b"true")
    last = await log.lookups.last(subject, "OBJ_theirs")
    assert last is not None
    assert last.body == b"true"


async def test_it_is_counted_and_told_once_per_cause(log: Log) -> None:
    metric = Counter("unbelieved", "", ["cause"], registry=CollectorRegistry())
    log.doubts.metric = metric
    victim = log.subjects.outcome(Slot("2"), "deployment", "shop", "web")
    body = registry.encode(Applied(at=1.0, decision="autoscaler.2.7.0"))
    with capture_logs() as lines:
        for _ in range(2):
            await a_schedule(log, victim, body)
        for _ in range(3):
            assert await log.last(victim) is None
    assert log.doubts.counts == {Cause.SCHEDULED: 2}
    assert metric.labels("foreign-schedule")._value.get() == 2
    alerts = [line for line in lines if line["event"] == "a message on the log is not believed"]
    assert [line["subject"] for line in alerts] == [victim]


async def test_a_search_behind_too_many_of_them_is_given_up(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookups, "AT_MOST", 5)
    victim = log.subjects.config("clock")
    await log.commit([Message(victim, b"true")])
    forged = {"Nats-Stream": log.stream}
    for _ in range(6):
        await log.commit([Message(victim, b"forged", forged)])
    with pytest.raises(errors.Unbelieved, match=r"none of 5 messages on tw\.test\.config\.all\.clock"):
        await log.last(victim)


@pytest.mark.parametrize(
    ("subject", "headers", "cause"),
    [
        ("tw.test.fact.1.pod.a.b", {}, None),
        ("tw.test.fact.1.pod.a.b", {"Tw-Id": "x", "Nats-Batch-Id": "b"}, None),
        ("tw.test.fact.1.pod.a.b", {"Nats-Stream": "S"}, Cause.PUT_BACK),
        ("tw.test.timer.1.spread.k", {"Nats-Subject": "s"}, Cause.PUT_BACK),
        ("tw.test.schedule.1.spread.k", {"Nats-Sequence": "3"}, Cause.PUT_BACK),
        ("tw.test.timer.1.spread.k", {"Nats-Scheduler": "tw.test.schedule.1.spread.k"}, None),
        ("tw.test.timer.1.spread.k", {"Nats-Scheduler": "tw.test.schedule.1.autoscaler.k"}, Cause.SCHEDULED),
        (
            "tw.test.checkpoint.all.actuator",
            {"Nats-Scheduler": "tw.test.schedule.1.spread.k"},
            Cause.SCHEDULED,
        ),
    ],
)
def test_what_speaks_against_a_message(subject: str, headers: dict[str, str], cause: Cause | None) -> None:
    assert belief.refused(Subjects("test"), subject, headers) is cause
