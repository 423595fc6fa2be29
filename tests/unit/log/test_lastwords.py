"""The last message of subjects as of an earlier sequence."""

from __future__ import annotations

import pytest

from tidewright.log.connection import Log, Message
from tidewright.log.lastwords import TooMany, last_words


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


async def test_the_first_message_from_a_sequence_on(log: Log) -> None:
    for name in ("a", "b", "a"):
        await log.commit([Message(log.subjects.config(name), name.encode())])
    found = await log.first_of(log.subjects.config("a"), 2)
    assert found is not None
    assert found.seq == 3
    assert await log.first_of(log.subjects.config("b"), 3) is None
