"""A stack in which nothing happens writes next to nothing."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from tests.e2e.up.test_up import Up
from tidewright.cli.stack import KEPT_S
from tidewright.host.webhook.standing import ANNOUNCE_EVERY_S
from tidewright.log.connection import Log
from tidewright.log.reader import Record

DAY_S = 86_400.0
DAILY_BYTES = 1_000_000
"""What the issue gives an idle stack without samples, the refresh under a maximum age apart."""
QUIET_S = 10.0
"""A stack that has said nothing for so long has settled."""
WINDOW_S = 45.0
OVERHEAD = 64
"""Bytes that the store adds to a message, at most."""


def size(record: Record) -> int:
    """Bytes of a message in the store."""
    headers = sum(len(name) + len(value) + 4 for name, value in record.headers.items())
    return len(record.subject) + len(record.body) + headers + OVERHEAD


async def settled(log: Log) -> int:
    """The last sequence, once nothing has come for a while."""
    async with asyncio.timeout(300):
        last = -1
        while (now := (await log.bounds())[1]) != last:
            last = now
            await asyncio.sleep(QUIET_S)
    return last


@pytest.mark.slow
@pytest.mark.timeout(500)
async def test_an_idle_stack_writes_less_than_a_megabyte_a_day(tmp_path: Path) -> None:
    up = await Up.start(tmp_path / "data", "--max-bytes", "1000000000")
    try:
        await up.ready()
        ports = msgspec.json.decode((tmp_path / "data" / "ports.json").read_bytes())
        async with await Log.connect(f"nats://127.0.0.1:{ports['nats']}", "local", timeout_s=10.0) as log:
            await log.adopt_slots()
            assert log.max_age_s == KEPT_S
            assert (
                "max_file_store: 1000000000" in (tmp_path / "data" / "nats" / "nats-server.conf").read_text()
            )
            after = await settled(log)
            await asyncio.sleep(WINDOW_S)
            async with log.reader([log.subjects.everything]) as reader:
                records = [record async for record in reader.until_current()]
        came = [record for record in records if record.seq > after]
        # What comes seldom was said at the start: an endpoint's announcement, its outcome and their checkpoint.
        announced = [r for r in records if ".decision.all.spread-admission." in r.subject][-1:]
        announced += [r for r in records if ".outcome.all." in r.subject][-1:]
        announced += [r for r in records if r.subject.endswith(".checkpoint.all.actuator")][-1:]
        assert len(announced) == 3
        daily = sum(map(size, came)) * DAY_S / WINDOW_S
        daily += sum(map(size, announced)) * 2 * DAY_S / ANNOUNCE_EVERY_S
        assert daily < DAILY_BYTES, Counter(record.subject for record in came)

        for name in ("watcher", "actuator"):
            assert not [r for r in came if f".checkpoint.all.{name}" in r.subject]
    finally:
        assert await up.end() == 0
