"""Consumers: nobody has one deliver to where he may not publish, does anything to another's, or takes them all away."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from nats.aio.client import Client

from tests.attacks.bus import ATTACKERS, CLUSTER, ROOT, STREAM, STREAMS, Bus, answer, answered, asked, served
from tests.attacks.conftest import filled
from tests.attacks.test_replies import TARGETS
from tests.ports import free_port
from tidewright.cli.contract.permissions import READER, imports
from tidewright.host.loop.membership import BucketMembership
from tidewright.log.connection import Message
from tidewright.log.errors import NoConsumer
from tidewright.log.install import members_of
from tidewright.log.stream_settings import CONSUMER_LIMITS

CREATE = "$JS.API.CONSUMER.CREATE."


def streams(attacker: str) -> list[str]:
    """Those on which the attacker may make a consumer."""
    return [s.removeprefix(CREATE) for s in imports(CLUSTER)[attacker] if s.startswith(CREATE)]


@pytest.mark.parametrize("attacker", ATTACKERS)
async def test_a_push_consumer_delivers_to_nobodys_subjects(bus: Bus, attacker: str) -> None:
    before = await bus.contents()
    async with bus.client(attacker) as client:
        for stream in streams(attacker):
            for target in (*TARGETS, f"{ROOT}.fact.7.pod.shop.new", "$SYS.REQ.SERVER.PING"):
                config = {"ack_policy": "none", "deliver_subject": target, "deliver_policy": "all"}
                await answer(client, CREATE + stream, {"stream_name": stream, "config": config})
        # What would be delivered: the attacker's own words, as a request of the server's API.
        for subject in imports(CLUSTER)[attacker]:
            if subject.startswith(f"$KV.{members_of(STREAM)}"):
                await asked(client, subject.replace(">", "mine"), {"name": STREAM, "max_msgs": 1})
        await asyncio.sleep(0.5)
    after = dict(await bus.contents())
    mine = f"$KV.{members_of(STREAM)}.{attacker}.mine"
    kept = after.pop(f"KV_{members_of(STREAM)}")
    assert {subject for subject in kept[2] if "forged" in subject} == set()
    assert set(kept[2]) - set(before[f"KV_{members_of(STREAM)}"][2] or ()) <= {mine}
    assert after == {key: value for key, value in before.items() if key in after}


@pytest.mark.parametrize("attacker", ATTACKERS)
async def test_anothers_consumer_goes_on(bus: Bus, attacker: str) -> None:
    victim = "actuator" if attacker != "actuator" else "watcher"
    async with await bus.log(victim) as log:
        await log.adopt_slots()
        async with log.reader([log.subjects.everything]) as reader:
            read = [r.seq for r in await reader.fetch(1, timeout_s=60.0)]
            name = reader._consumer
            async with bus.client(attacker) as client:

                async def tried(verb: str, body: object, consumer: str = "") -> None:
                    got = await answer(client, f"$JS.API.{verb}.{STREAM}{consumer}", body)
                    assert "error" in got, (verb, got)

                long = {"pause_until": "2100-01-01T00:00:00Z"}
                changing = ("DELETE", "PAUSE", "LEADER.STEPDOWN", "UNPIN")
                await asyncio.gather(
                    *(tried(f"CONSUMER.{verb}", long, f".{name}") for verb in changing),
                    *(tried(f"CONSUMER.{verb}", {}) for verb in ("NAMES", "LIST", "INFO")),
                )
                config = {"name": name, "ack_policy": "none", "filter_subject": f"{ROOT}.nothing"}
                await answer(client, f"{CREATE}{STREAM}", {"stream_name": STREAM, "config": config})
                await answer(client, f"{CREATE}{STREAM}.{name}", {"stream_name": STREAM, "config": config})
            _, last = await log.bounds()
            async with asyncio.timeout(90):
                while read[-1] < last:
                    read += [r.seq for r in await reader.fetch(500)]
            assert read[-1] == last
            assert reader._consumer == name


async def taken(attacker: str, client: Client) -> int:
    """How many consumers the attacker got, of all streams that it may read: as many as there are to be had."""
    count = 0
    for stream in streams(attacker):
        config = {"ack_policy": "none", "mem_storage": True, "num_replicas": 1}
        while True:
            asks = (
                answered(client, CREATE + stream, {"stream_name": stream, "config": config})
                for _ in range(50)
            )
            made = ["error" not in found for found in await asyncio.gather(*asks)]
            count += sum(made)
            if not all(made):
                break
    return count


@pytest.mark.parametrize("attacker", ["spread", "actuator"])
async def test_who_takes_all_consumers_keeps_nobody_from_reading(attacker: str, tmp_path: Path) -> None:
    port = free_port()
    with served(tmp_path, port):
        bus = Bus((f"127.0.0.1:{port}",))
        await filled(bus)
        victim = "autoscaler"
        async with (
            bus.client(attacker) as client,
            await bus.log(victim) as log,
            await bus.log("watcher") as says,
        ):
            assert await taken(attacker, client) > 100
            await log.adopt_slots()
            await says.adopt_slots()
            with pytest.raises(NoConsumer):
                await log.api(
                    f"CONSUMER.CREATE.{STREAM}", {"stream_name": STREAM, "config": {"ack_policy": "none"}}
                )
            async with log.reader([log.subjects.everything]) as reader, asyncio.timeout(90):
                read = [record.seq async for record in reader.until_current()]
                first, last = await log.bounds()
                assert read == list(range(first, last + 1))
                committed = await says.commit(
                    [Message(f"{ROOT}.fact.1.pod.shop.{n}", b"{}") for n in range(300)]
                )
                while not read or read[-1] < committed.last_seq:
                    read += [record.seq for record in await reader.fetch(timeout_s=5.0)]
                assert read == list(range(first, committed.last_seq + 1))
            kept = [record.subject async for record in log.last_per_subject([f"{ROOT}.fact.1.pod.shop.*"])]
            assert {f"{ROOT}.fact.1.pod.shop.{n}" for n in range(300)} <= set(kept)
            member = BucketMembership(log, victim, "newcomer")
            async with asyncio.timeout(90):
                await member.join()
            assert "newcomer" in member.members
            await member.leave()


async def test_who_asks_reads_everything_and_has_no_consumer(bus: Bus) -> None:
    config = {"ack_policy": "none", "mem_storage": True}
    async with bus.client(READER) as client:
        for stream in STREAMS:
            for place in (stream, f"{stream}.mine", f"{stream}.mine.{ROOT}.fact.>"):
                found = await answer(client, CREATE + place, {"stream_name": stream, "config": config})
                assert "error" in found, place
            assert "error" in await answer(client, f"$JS.API.CONSUMER.DURABLE.CREATE.{stream}.mine", {})
    before = await bus.contents()
    async with await bus.log(READER) as log:
        log.directly = True
        await log.adopt_slots()
        first, last = await log.bounds()
        async with log.reader([log.subjects.everything]) as reader:
            assert [record.seq async for record in reader.until_current()] == list(range(first, last + 1))
        words = [record.seq async for record in log.last_per_subject([log.subjects.everything])]
        assert words[-1] == last
        assert words == sorted(words)
    assert await bus.contents() == before


@pytest.mark.parametrize("attacker", ATTACKERS)
async def test_a_consumer_outlives_nobody_for_long(bus: Bus, attacker: str) -> None:
    async with bus.client(attacker) as client:
        for stream in streams(attacker):
            config = {"ack_policy": "none", "inactive_threshold": 3_600_000_000_000}
            found = await answered(client, CREATE + stream, {"stream_name": stream, "config": config})
            assert found["error"]["err_code"] == 10153, found
            del config["inactive_threshold"]
            found = await answered(client, CREATE + stream, {"stream_name": stream, "config": config})
            assert found["config"]["inactive_threshold"] <= CONSUMER_LIMITS["inactive_threshold"]
