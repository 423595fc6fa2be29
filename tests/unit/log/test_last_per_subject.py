"""The last message of subjects as of an earlier sequence."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import pytest

from tests.waiting import until
from tidewright.log import batched_get, timers
from tidewright.log.batched_get import TooMany
from tidewright.log.connection import Log, Message
from tidewright.log.last_per_subject import MANY, earlier_words, last_words, last_words_of_all
from tidewright.log.reader import Record
from tidewright.log.subjects import Slot


async def test_the_last_word_as_of_a_sequence(log: Log) -> None:
    names = ("a", "b", "a", "c", "a")
    for n, name in enumerate(names, 1):
        await log.commit([Message(log.subjects.config(name), str(n).encode(), {"Tw-Id": f"m{n}"})])
    everything = [log.subjects.configs]
    now = await last_words(log, everything)
    assert [(r.seq, r.body) for r in now] == [(2, b"2"), (4, b"4"), (5, b"5")]
    assert now[0].headers == {"Tw-Id": "m2"}
    assert [r.seq for r in await last_words(log, everything, up_to=3)] == [2, 3]
    assert [r.seq for r in await last_words(log, everything, up_to=1)] == [1]
    two = [log.subjects.config("a"), log.subjects.config("nobody")]
    assert [r.seq for r in await last_words(log, two, up_to=4)] == [3]
    assert await last_words(log, [log.subjects.config("nobody")]) == []


async def test_many_subjects_are_asked_for_in_parts_and_too_many_are_refused(log: Log) -> None:
    subjects = [log.subjects.config(f"n{i}") for i in range(1_100)]
    for start in range(0, len(subjects), 1_000):
        await log.commit([Message(subject, b"{}") for subject in subjects[start : start + 1_000]])
    assert len(await last_words(log, subjects)) == len(subjects)
    with pytest.raises(TooMany, match="more subjects match"):
        await last_words(log, [log.subjects.configs])


async def test_subjects_without_anything_earlier_are_not_looked_for(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    subjects = [log.subjects.fact(Slot("1"), "deployment", "a", f"n{i}") for i in range(2 * MANY)]
    before = subjects[:3]
    await log.commit([Message(subject, b"before") for subject in before])
    await log.commit([Message(subject, b"now") for subject in subjects])
    asked: list[str] = []
    ask = batched_get.ask

    async def noted(log: Log, query: Mapping[str, Any]) -> tuple[list[Record], int]:
        asked.extend(query["multi_last"])
        return await ask(log, query)

    monkeypatch.setattr(batched_get, "ask", noted)
    found = await earlier_words(log, subjects, len(before))
    assert [(r.subject, r.body) for r in found] == [(subject, b"before") for subject in before]
    assert asked == before
    assert await earlier_words(log, subjects[3:], len(before)) == []
    filters = [f"{log.subjects.root}.fact.1.deployment.a.*"]
    assert [r.subject for r in await last_words_of_all(log, filters, len(before))] == before


async def test_the_first_message_from_a_sequence_on(log: Log) -> None:
    for name in ("a", "b", "a"):
        await log.commit([Message(log.subjects.config(name), name.encode())])
    found = await log.first_of(log.subjects.config("a"), 2)
    assert found is not None
    assert found.seq == 3
    assert await log.first_of(log.subjects.config("b"), 3) is None


async def forge(log: Log, victim: str) -> int:
    """Have a schedule store a message where it has no business; returns its sequence."""
    query = {"last_by_subj": victim}
    before = await log.lookups.stored(query)
    schedule = log.subjects.schedule(Slot("1"), "autoscaler", "x")
    await log.commit(
        [Message(schedule, b"{}", {timers.SCHEDULE: timers.due(time.time() - 1), timers.TARGET: victim})]
    )
    found = await until(lambda: log.lookups.stored(query), lambda found: found not in (before, None))
    assert found is not None
    return found.seq


async def test_what_a_schedule_put_where_it_has_no_business_is_no_word(log: Log) -> None:
    said, never = log.subjects.config("a"), log.subjects.config("b")
    for n in (1, 2):
        await log.commit([Message(said, str(n).encode())])
    first, second = await forge(log, said), await forge(log, said)
    await forge(log, never)
    assert [r.body for r in await last_words(log, [log.subjects.configs])] == [b"2"]
    assert [r.body for r in await last_words(log, [said], up_to=first)] == [b"2"]
    assert [r.body for r in await last_words(log, [said], up_to=second)] == [b"2"]
    assert [r.body for r in await last_words(log, [said], up_to=1)] == [b"1"]
    assert await last_words(log, [never]) == []
