"""Consumers: nobody has one deliver to where he may not publish, or does anything to another's."""

from __future__ import annotations

import asyncio

import pytest

from tests.attacks.bus import ATTACKERS, CLUSTER, ROOT, STREAM, Bus, answer, asked
from tests.attacks.test_replies import TARGETS
from tidewright.cli.contract.permissions import imports
from tidewright.log.install import members_of

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
            begun = [r.seq for r in await reader.fetch(1, timeout_s=10.0)]
            name = reader._consumer
            async with bus.client(attacker) as client:
                for verb in (
                    "CONSUMER.DELETE",
                    "CONSUMER.PAUSE",
                    "CONSUMER.LEADER.STEPDOWN",
                    "CONSUMER.UNPIN",
                ):
                    got = await answer(
                        client, f"$JS.API.{verb}.{STREAM}.{name}", {"pause_until": "2100-01-01T00:00:00Z"}
                    )
                    assert "error" in got, (verb, got)
                for verb in ("CONSUMER.NAMES", "CONSUMER.LIST", "CONSUMER.INFO"):
                    assert "error" in await answer(client, f"$JS.API.{verb}.{STREAM}", {})
                config = {"name": name, "ack_policy": "none", "filter_subject": f"{ROOT}.nothing"}
                await answer(client, f"{CREATE}{STREAM}", {"stream_name": STREAM, "config": config})
                await answer(client, f"{CREATE}{STREAM}.{name}", {"stream_name": STREAM, "config": config})
            rest = [r.seq for r in await reader.fetch(500, timeout_s=10.0)]
            assert reader._consumer == name
            _, last = await log.bounds()
            assert (*begun, *rest)[-1] == last
