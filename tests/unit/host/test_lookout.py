"""Whether somebody looks: a sign counts that is renewed, of all that is needed, for a while."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from tests.waiting import until
from tidewright.host.loop.lookout import (
    GRACE_S,
    INCUMBENTS,
    MODES,
    NEEDED,
    NOBODY,
    PATIENCE_S,
    BucketLookout,
    Entries,
    entry,
    parts_of,
    watched,
)
from tidewright.host.loop.membership import STALE_S, BucketMembership
from tidewright.log.connection import Log
from tidewright.log.errors import LogUnavailable
from tidewright.log.outage import OVER_S, Outage

parts = st.frozensets(st.sampled_from(sorted(NEEDED)))
beats = st.lists(
    st.tuples(st.sampled_from("ab"), st.one_of(st.none(), parts), st.floats(0.0, 2 * GRACE_S)), max_size=30
)


@given(parts)
def test_an_entry_says_what_is_looked_at_and_is_never_empty(looks: frozenset[str]) -> None:
    assert entry(looks)
    assert parts_of(entry(looks)) == looks


@given(st.binary(min_size=1))
def test_any_entry_can_be_read(body: bytes) -> None:
    assert parts_of(body) <= NEEDED


@given(beats)
def test_somebody_looks_while_all_that_is_needed_was_renewed_lately(
    said: list[tuple[str, frozenset[str] | None, float]],
) -> None:
    entries, now = Entries(), 0.0
    heard: dict[str, tuple[int, frozenset[str], float]] = {}
    covered_at: float | None = None
    for seq, (name, looks, after_s) in enumerate(said, 1):
        now += after_s
        if looks is None:
            heard.pop(name, None)
        else:
            heard[name] = (heard[name][0] + 1 if name in heard else 1, looks, now)
        entries.heard(name, seq, b"" if looks is None else entry(looks), now)
        current = [looks for times, looks, at in heard.values() if times > 1 and now - at <= STALE_S]
        if frozenset().union(*current) >= NEEDED:
            covered_at = now
        assert (entries.since is not None) == (covered_at is not None and now - covered_at <= GRACE_S)
        assert entries.since is None or entries.since <= now
    entries.judge(now + 2 * GRACE_S)
    assert entries.since is None


def test_what_two_watchers_look_at_is_enough_together() -> None:
    entries = Entries()
    for seq, now in ((1, 0.0), (2, 0.5), (3, 1.0)):
        entries.heard("a", 2 * seq, entry([INCUMBENTS]), now)
        entries.heard("b", 2 * seq + 1, entry([MODES]), now)
    assert entries.since == 0.5


def test_an_entry_from_before_is_no_sign() -> None:
    entries = Entries()
    entries.heard("a", 1, entry(NEEDED), 0.0)
    entries.judge(0.1)
    assert entries.since is None
    entries.deaf()
    entries.heard("a", 2, entry(NEEDED), 0.2)
    assert entries.since is None
    entries.heard("a", 3, entry(NEEDED), 0.7)
    assert entries.since == 0.7


async def test_who_acts_hears_a_watcher_that_looks_and_misses_one_that_went(log: Log) -> None:
    now = [0.0]
    looks: set[str] = set()
    lookout = BucketLookout(log, monotonic=lambda: now[0])

    def reason() -> str:
        return lookout.why_not

    listening = asyncio.create_task(lookout.run())
    member = BucketMembership(log, "watcher", "one", says=lambda: entry(looks))
    try:
        await member.join()
        assert reason()
        looks.add(INCUMBENTS)
        await asyncio.sleep(1.2)
        assert reason()
        assert not await watched(log)
        looks.add(MODES)
        async with asyncio.timeout(90):
            assert await lookout.kept() == 0.0
            assert not reason()
        assert await watched(log)
        await member.leave()
        await until(lambda: watched(log), lambda found: not found)
        assert not reason()  # another one may be on its way
        now[0] += GRACE_S + 1.0
        assert reason()
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


async def test_while_the_log_does_not_answer_nobody_is_missed(log: Log) -> None:
    """Entries run out then, too: whoever is told to look after the watcher finds it waiting for the log."""
    now = [0.0]
    log.outage = Outage(lambda: now[0])
    lookout = BucketLookout(log, monotonic=lambda: now[0])

    def missed(after_s: float) -> bool:
        now[0] += after_s
        with capture_logs() as lines:
            lookout._tell()
        return NOBODY in [line["event"] for line in lines]

    with capture_logs():
        log.outage.met("deciding", LogUnavailable("no answer"))
    assert not missed(OVER_S - 1.0)
    assert not missed(PATIENCE_S - 1.0)
    assert missed(PATIENCE_S)
