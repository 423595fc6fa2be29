"""Nobody hears what others ask and are answered."""

from __future__ import annotations

import asyncio

import pytest
from nats.aio.msg import Msg

from tests.attacks.bus import ATTACKERS, Bus
from tidewright.log.connection import Message

EARS = (
    ">",
    "_INBOX.>",
    "_R_.>",
    "tw.>",
    "$JS.>",
    "$KV.>",
    "$O.>",
    "archive.>",
    "LOG.>",
    "$SYS.>",
    "*.*",
    "*.*.*",
)


@pytest.mark.parametrize("attacker", ATTACKERS)
async def test_a_listener_hears_nothing_of_others(bus: Bus, attacker: str) -> None:
    heard: list[str] = []

    async def on_message(message: Msg) -> None:
        heard.append(message.subject)

    victims = [v for v in ("watcher", "autoscaler") if v != attacker]
    async with bus.client(attacker) as client:
        for ear in EARS:
            await client.subscribe(ear, cb=on_message)
        await client.flush()
        for victim in victims:
            async with await bus.log(victim) as log:
                await log.adopt_slots()
                await log.commit([Message(f"{log.subjects.root}.checkpoint.1.{victim}.heard", b"{}")] * 2)
                assert [record async for record in log.last_per_subject([log.subjects.everything])]
        await client.flush()
        await asyncio.sleep(0.2)
    assert heard == []
