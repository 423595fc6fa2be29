"""An actuator whose position cannot be gone on from applies nothing, and is not ready."""

from __future__ import annotations

import asyncio
from typing import cast

import msgspec
import pytest

from tests.unit.actuator.effects import ANYTHING, Watched
from tests.waiting import until
from tidewright.actuator import acting
from tidewright.actuator.acting import Actuator
from tidewright.actuator.allowance import Allowance
from tidewright.actuator.apply import Applier
from tidewright.actuator.ledger import ActPosition
from tidewright.actuator.options import Options
from tidewright.actuator.verdict import Done, Result
from tidewright.events import registry
from tidewright.events.base import ObjectRef
from tidewright.events.decisions import ScaleWorkload
from tidewright.host.process.health import Health
from tidewright.log.connection import Log, Message
from tidewright.log.subjects import ALL

WEB = ObjectRef(api_version="apps/v1", kind="Deployment", namespace="ns", name="web")


class Counted:
    """Counts what it is asked to apply."""

    def __init__(self) -> None:
        self.attempts = 0

    async def attempt(self, effect: object, allowance: Allowance, marks: object) -> Result:
        self.attempts += 1
        return Done()

    def finished(self, effect: object) -> None:
        """Nothing is kept."""


def decision(log: Log, n: int) -> Message:
    effect = ScaleWorkload(at=1.0, id=f"autoscaler.1.1.{n}", target=WEB, replicas=5 + n, from_replicas=3)
    subject = log.subjects.decision(log.slot_of("ns"), "autoscaler", "deployment", "ns", "web")
    return Message(subject, registry.encode(effect))


async def outcomes(log: Log) -> int:
    async with log.reader([log.subjects.outcomes("*")]) as reader:
        return len([record async for record in reader.until_current()])


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"?", "is not readable"),
        (
            msgspec.json.encode(ActPosition(at=1.0, epoch=9, incarnation="x", position=10**9)),
            "says that everything up to 1000000000 is done",
        ),
    ],
)
@pytest.mark.parametrize("running", [False, True])
async def test_a_forged_checkpoint_neither_replays_nor_silences(
    log: Log, body: bytes, words: str, running: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acting, "OWNED_S", -1.0)  # look each time
    subject = log.subjects.checkpoint(ALL, "actuator")
    await log.commit([decision(log, 0)])
    if not running:
        await log.commit([Message(subject, body)])
    applier, health = Counted(), Health("actuator")
    actuator = Actuator(
        Options(nats_url="", cluster="test"),
        log,
        cast("Applier", applier),
        health=health,
        judging=lambda *_: ANYTHING,
        lookout=Watched(),
    )
    task = asyncio.create_task(actuator.run())
    try:
        if running:
            await until(lambda: applier.attempts == 1)
            await until(lambda: outcomes(log), lambda found: found >= 1)
            await log.commit([Message(subject, body)])
            await log.commit([decision(log, 1)])
        await until(lambda: words in health.not_ready)
        assert subject in health.not_ready
        await asyncio.sleep(1.0)
        assert words in health.not_ready
        assert applier.attempts == await outcomes(log) == running
        assert health.metrics.halted._value.get() == 1
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_log_that_lost_its_beginning_is_not_begun_anew(log: Log) -> None:
    await log.commit([decision(log, 0), decision(log, 1)])
    await log.api(f"STREAM.PURGE.{log.stream}", {"seq": 2})
    applier, health = Counted(), Health("actuator")
    actuator = Actuator(
        Options(nats_url="", cluster="test"),
        log,
        cast("Applier", applier),
        health=health,
        judging=lambda *_: ANYTHING,
        lookout=Watched(),
    )
    task = asyncio.create_task(actuator.run())
    try:
        await until(
            lambda: "begins at sequence 2, and the actuator's checkpoint stands at 0" in health.not_ready
        )
        await asyncio.sleep(0.5)
        assert applier.attempts == 0
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
