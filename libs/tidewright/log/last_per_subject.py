"""The last message of subjects as of an earlier sequence, from the server's subject index."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any

from tidewright.log import batched_get, errors
from tidewright.log.batched_get import TooMany
from tidewright.log.connection import Log
from tidewright.log.reader import Record

AT_ONCE = 1000
"""Subjects in one request; the server refuses to find more than 1,024."""
BESIDE = 2
"""Requests of such a look that wait for the server at once."""
MANY = 200
"""Subjects from which on it is looked up first which of them have anything earlier at all."""


Known = MutableMapping[tuple[str, ...], list[Record]]
"""Filters to what was found of them."""


Heard = Callable[[Sequence[Record]], None]
"""Is given what is found as it is found, each of it once, in parts and in no order."""


async def last_words(
    log: Log,
    filters: Sequence[str],
    *,
    up_to: int = 0,
    known: Known | None = None,
    heard: Heard | None = None,
) -> list[Record]:
    """The last message at or before sequence `up_to` (0: at all) of every subject that matches, in stream order.

    What is not believed is no word: the one before it is. With `known`, the
    same filters are asked for once, and "at all" is as of then.

    Raises:
        TooMany: more than about a thousand subjects match: name them more narrowly.
        LogUnavailable: no answer in time.
    """
    return await _in_parts(filters, lambda part: _asked(log, part, up_to, known), heard)


async def earlier_words(
    log: Log, subjects: Sequence[str], up_to: int, heard: Heard | None = None
) -> list[Record]:
    """As `last_words`, of subjects that were spoken of since: where the last word lies need not be looked up first.

    Raises:
        LogUnavailable: no answer in time.
    """
    if len(subjects) >= MANY:
        subjects = await _spoken_of_twice(log, subjects)
    return await _in_parts(subjects, lambda part: _earlier(log, part, up_to), heard)


async def _in_parts(
    subjects: Sequence[str],
    asked: Callable[[Sequence[str]], Awaitable[list[Record]]],
    heard: Heard | None = None,
) -> list[Record]:
    """What several requests find, in stream order: the server looks for the next part while the answers of one are taken apart."""
    turns = asyncio.Semaphore(BESIDE)

    async def of(start: int) -> list[Record]:
        async with turns:
            found = await asked(subjects[start : start + AT_ONCE])
        if heard is not None:
            heard(found)
        return found

    parts = await asyncio.gather(*(of(start) for start in range(0, len(subjects), AT_ONCE)))
    return sorted((record for part in parts for record in part), key=lambda record: record.seq)


async def _spoken_of_twice(log: Log, subjects: Sequence[str]) -> list[str]:
    """Those of subjects that were spoken of since which have more than that one message.

    For a subject that has nothing earlier the server goes back through the whole log, once for each request: objects that were
    made since would make every look at a moment before as slow as the log is long.
    """
    wanted: dict[str, list[str]] = {}
    depth = log.subjects.root.count(".") + 1
    for subject in subjects:
        tokens = subject.split(".")
        tokens[depth + 1 :] = ["*", *tokens[depth + 2 : depth + 3], ">"]  # of all slots
        wanted.setdefault(".".join(tokens), []).append(subject)
    found: list[str] = []
    for pattern, of in wanted.items():
        counts = await log.messages_by_subject(log.stream, pattern)
        found += [subject for subject in of if counts.get(subject) != 1]
    return found


async def last_words_of_all(
    log: Log, filters: Sequence[str], up_to: int, heard: Heard | None = None
) -> list[Record]:
    """As `last_words`, however many subjects match; that takes a reader, or as many questions as there are thousands.

    Raises:
        LogUnavailable: no answer in time.
    """
    records: list[Record] = []
    later: list[str] = []

    def taken(part: Sequence[Record]) -> None:
        present = [record for record in part if record.seq <= up_to]
        later.extend(record.subject for record in part if record.seq > up_to)
        records.extend(present)
        if heard is not None:
            heard(present)

    if log.directly:
        await log.last_directly(filters, taken)
    else:
        taken([record async for record in log.last_per_subject(filters)])
    earlier = await earlier_words(log, later, up_to, heard)
    return sorted([*records, *earlier], key=lambda record: record.seq)


async def _asked(log: Log, filters: Sequence[str], up_to: int, known: Known | None) -> list[Record]:
    # As of an earlier sequence the server goes back through the log until it has found every subject,
    # also those that were last spoken of long ago; as of now each is one look. So only what has been
    # spoken of since is asked for once more.
    believed: list[Record] = []
    later: list[str] = []
    present = known.get(tuple(filters)) if known is not None else None
    if present is None:
        present = await _matching(log, {"multi_last": list(filters)})
        if known is not None:
            known[tuple(filters)] = present
    for record in present:
        if up_to and record.seq > up_to:
            later.append(record.subject)
        elif await log.lookups.believed(record):
            believed.append(record)
        elif record.seq > 1:
            believed += await _earlier(log, [record.subject], record.seq - 1)
    return believed + (await _earlier(log, later, up_to) if later else [])


async def _earlier(log: Log, subjects: Sequence[str], up_to: int) -> list[Record]:
    believed: list[Record] = []
    try:
        found = await _matching(log, {"multi_last": list(subjects), "up_to_seq": up_to})
    except errors.LogForbidden:
        # A service may not ask so: it looks for each by itself, which takes a question or more for every message in between.
        looked_up = [await log.lookups.before(subject, up_to + 1) for subject in subjects]
        return [record for record in looked_up if record is not None]
    for record in found:
        if await log.lookups.believed(record):
            believed.append(record)
        elif record.seq > 1:
            believed += await _earlier(log, [record.subject], record.seq - 1)
    return believed


async def _matching(log: Log, query: dict[str, Any]) -> list[Record]:
    try:
        records, _ = await batched_get.ask(log, query)
    except TooMany as error:
        raise TooMany(f"{', '.join(query['multi_last'])}: {error}") from error
    return records
