"""One message may erase the log, and nothing on the server refuses it. The archive keeps everything."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.attacks.bus import STREAM, Bus, answer, answered, served
from tests.attacks.conftest import filled
from tests.ports import free_port
from tests.waiting import until
from tidewright.asking.exports import exported, imported, part_of
from tidewright.asking.running_log import RunningLog
from tidewright.asking.services import EVERY
from tidewright.cli.contract.permissions import ARCHIVE, INSTALLER
from tidewright.host.loop.membership import BucketMembership
from tidewright.log.connection import Log
from tidewright.log.export import ExportFile
from tidewright.log.install import members_of
from tidewright.log.reader import Reader, Record


@asynccontextmanager
async def doomed(folder: Path) -> AsyncIterator[Bus]:
    """A bus of its own: its log will be erased."""
    port = free_port()
    with served(folder, port):
        found = Bus((f"127.0.0.1:{port}",))
        await filled(found)
        yield found


async def archived(archive: Log, last: int) -> list[tuple[int, str, bytes]]:
    """What the archive has, once it has followed up to a sequence."""
    await until(archive.bounds, lambda found: found[1] >= last)
    await archive.adopt_slots()
    return [(r.seq, r.subject, r.body) async for r in RunningLog(archive).records()]


async def erased_and_brought_back(attacker: str, folder: Path) -> None:
    """Erase a log with an attacker's credentials, and have it back from its archive."""
    async with doomed(folder) as bus, await bus.log(INSTALLER) as log, await bus.log(ARCHIVE) as archive:
        await log.adopt_slots()
        _, last = await log.bounds()
        before = await archived(archive, last)
        assert len(before) == last
        async with bus.client(attacker) as client:
            mine = f"tw.prod.checkpoint.1.{attacker}.erased"
            await answered(client, mine, b"{}", **{"Nats-Rollup": "all"})
        assert await log.bounds() == (last + 1, last + 1)
        assert (await archived(archive, last + 1))[:last] == before

        # Neither who has taken over a service nor the archive's own user takes that away.
        for user in (attacker, ARCHIVE):
            async with bus.client(user) as client:
                for verb in ("PURGE", "MSG.DELETE"):
                    got = await answer(client, f"$JS.API.STREAM.{verb}.{STREAM}", {"seq": 1})
                    assert "error" in got
        # As docs/log.md has it: export the archive, make the log anew, import.
        file = folder / "archive.twlog"
        source = RunningLog(archive)
        assert (await exported(source, file, await part_of(source, "", "", ()))).records == last + 1
        await log.api(f"STREAM.DELETE.{STREAM}", {})
        await bus.install()
        erasing: list[Record] = []
        assert await imported(log, ExportFile(file), erasing) == last
        assert [(record.seq, record.subject) for record in erasing] == [(last + 1, mine)]
        found = [(r.seq, r.subject, r.body) async for r in RunningLog(log).records()]
        assert found == before
        # The archive goes on behind what it has.
        async with bus.client("watcher") as client:
            await answered(client, "tw.prod.fact.1.pod.shop.later", b"{}")
        assert (await archived(archive, last + 2))[-1][1] == "tw.prod.fact.1.pod.shop.later"


@pytest.mark.slow
async def test_what_was_erased_is_in_the_archive_and_comes_back(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    # All attackers at once, each with a server to erase: a server takes 20 s until it follows a log made anew.
    attacks = (erased_and_brought_back(attacker, tmp_path / attacker) for attacker in EVERY)
    outcomes = await asyncio.gather(*attacks, return_exceptions=True)
    for attacker, outcome in zip(EVERY, outcomes, strict=True):
        with subtests.test(attacker=attacker):
            if outcome is not None:
                raise outcome


@pytest.mark.parametrize("attacker", ["shard-labels", "autoscaler"])
async def test_who_empties_the_bucket_of_members_puts_nobody_out(attacker: str, tmp_path: Path) -> None:
    async with (
        doomed(tmp_path / "bus") as bus,
        await bus.log("spread") as log,
        bus.client(attacker) as client,
    ):
        await log.adopt_slots()
        membership = BucketMembership(log, "spread", "victim")
        await membership.join()
        bucket = members_of(STREAM)
        for _ in range(5):
            got = await answered(client, f"$KV.{bucket}.{attacker}.x", b"1", **{"Nats-Rollup": "all"})
            assert "seq" in got  # the server lets it
        heard = asyncio.Event()
        async with Reader(log, (f"$KV.{bucket}.spread.>",), got["seq"], stream=f"KV_{bucket}") as reader:
            async with asyncio.timeout(90):
                while not heard.is_set():
                    if any(r.subject.endswith(".victim") and r.body for r in await reader.fetch()):
                        heard.set()
        assert "victim" in membership.members
        await membership.leave()
