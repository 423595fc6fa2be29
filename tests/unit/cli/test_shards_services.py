"""The slots of our own services, as the log has them."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.answers import fits
from tests.nats_server import EmbeddedServer
from tidewright.cli.main import run
from tidewright.log.connection import Log, Message
from tidewright.log.subjects import Slot


async def test_a_checkpoint_that_nobody_can_read_is_said_with_its_slot(
    nats: EmbeddedServer, log: Log, capsys: pytest.CaptureFixture[str]
) -> None:
    await log.commit([Message(log.subjects.checkpoint(Slot("3"), "spread"), b"\xff not one")])
    on = ("--nats", nats.url, "--cluster", "test")

    async def asked(*words: str) -> str:
        assert await asyncio.to_thread(run, ["shards", *words, *on]) == 0
        return capsys.readouterr().out

    [trouble] = [line for line in (await asked("get", "service/spread")).splitlines() if "slot 3" in line]
    assert "is not readable" in trouble
    answer = json.loads(await asked("get", "services", "-o", "json"))
    fits("shards.services", answer)
    [spread] = [service for service in answer["items"] if service["service"] == "spread"]
    assert [slot["slot"] for slot in spread["slots"] if slot["trouble"]] == ["3"]
    assert (await asked("get", "services", "-o", "name")).split()[0] == "service/autoscaler"
    told = await asked("explain", "--slot", "3", "--set", "service/spread")
    assert "is not readable" in told
