"""One message may erase the log, and nothing on the server refuses it. The archive keeps everything."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attacks.bus import STREAM, Bus, answer, free_port, served
from tests.attacks.conftest import filled
from tidewright.cli.asking.exports import exported, imported, part_of
from tidewright.cli.asking.source import RunningLog
from tidewright.cli.contract.permissions import ARCHIVE, INSTALLER
from tidewright.cli.services import EVERY
from tidewright.host.membership import BucketMembership
from tidewright.log.connection import Log
from tidewright.log.export import ExportFile
from tidewright.log.install import members_of
from tidewright.log.reader import Reader


@pytest.fixture
def doomed(tmp_path: Path) -> Iterator[Bus]:
    """A bus of the test's own: its log will be erased."""
    port = free_port()
    with served(tmp_path, port):
        found = Bus((f"127.0.0.1:{port}",))
        asyncio.run(filled(found))
        yield found


async def archived(archive: Log, last: int) -> list[tuple[int, str, bytes]]:
    """What the archive has, once it has followed up to a sequence."""
    async with asyncio.timeout(60):
        while (await archive.bounds())[1] < last:  # noqa: ASYNC110  # another account's log, asked
            await asyncio.sleep(0.05)
    await archive.adopt_slots()
    return [(r.seq, r.subject, r.body) async for r in RunningLog(archive).records()]


@pytest.mark.parametrize("attacker", EVERY)
async def test_what_was_erased_is_in_the_archive_and_comes_back(
    doomed: Bus, attacker: str, tmp_path: Path
) -> None:
    async with await doomed.log(INSTALLER) as log, await doomed.log(ARCHIVE) as archive:
        await log.adopt_slots()
        _, last = await log.bounds()
        before = await archived(archive, last)
        assert len(before) == last
        async with doomed.client(attacker) as client:
            mine = f"tw.prod.checkpoint.1.{attacker}.erased"
            await answer(client, mine, b"{}", **{"Nats-Rollup": "all"})
        assert await log.bounds() == (last + 1, last + 1)
        assert (await archived(archive, last + 1))[:last] == before

        # Neither who has taken over a service nor the archive's own user takes that away.
        for user in (attacker, ARCHIVE):
            async with doomed.client(user) as client:
                for verb in ("PURGE", "MSG.DELETE"):
                    got = await answer(client, f"$JS.API.STREAM.{verb}.{STREAM}", {"seq": 1})
                    assert "error" in got
        # As docs/log.md has it: export the archive, make the log anew, import.
        file = tmp_path / "archive.twlog"
        source = RunningLog(archive)
        assert (await exported(source, file, await part_of(source, "", "", ()))).records == last + 1
        await log.api(f"STREAM.DELETE.{STREAM}", {})
        await doomed.install()
        assert await imported(log, ExportFile(file)) == last + 1
        found = [(r.seq, r.subject, r.body) async for r in RunningLog(log).records()]
        assert found[:last] == before
        # The archive goes on behind what it has.
        async with doomed.client("watcher") as client:
            await answer(client, "tw.prod.fact.1.pod.shop.later", b"{}")
        assert (await archived(archive, last + 2))[-1][1] == "tw.prod.fact.1.pod.shop.later"


@pytest.mark.parametrize("attacker", ["shard-labels", "autoscaler"])
async def test_who_empties_the_bucket_of_members_puts_nobody_out(doomed: Bus, attacker: str) -> None:
    async with await doomed.log("spread") as log, doomed.client(attacker) as client:
        await log.adopt_slots()
        membership = BucketMembership(log, "spread", "victim")
        await membership.join()
        bucket = members_of(STREAM)
        for _ in range(5):
            got = await answer(client, f"$KV.{bucket}.{attacker}.x", b"1", **{"Nats-Rollup": "all"})
            assert "seq" in got  # the server lets it
        heard = asyncio.Event()
        async with Reader(log, (f"$KV.{bucket}.spread.>",), got["seq"], stream=f"KV_{bucket}") as reader:
            async with asyncio.timeout(30):
                while not heard.is_set():
                    if any(r.subject.endswith(".victim") and r.body for r in await reader.fetch()):
                        heard.set()
        assert "victim" in membership.members
        await membership.leave()
