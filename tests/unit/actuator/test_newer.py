"""Decisions of types that this version does not know: each effect is answered, and nothing else is held up by one."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import msgspec

from tests.unit.actuator.effects import ANYTHING, Watched
from tests.waiting import until
from tidewright.actuator.acting import Actuator
from tidewright.actuator.allowed.bounds import Refusal
from tidewright.actuator.allowed.judge import judge
from tidewright.actuator.apply import Applier
from tidewright.actuator.newer import NEWER, NewerEffect, newer_effect
from tidewright.actuator.options import Options
from tidewright.actuator.verdict import Done, Result
from tidewright.events import registry
from tidewright.events.base import ObjectRef, Outcome
from tidewright.events.decisions import ScaleWorkload
from tidewright.events.outcomes import Applied, Rejected
from tidewright.log.connection import Log, Message
from tidewright.log.subjects import Slot

WEB = ObjectRef(api_version="apps/v1", kind="Deployment", namespace="ns", name="web")


class Willing:
    """Applies whatever it is asked for."""

    async def attempt(self, effect: object, allowance: object, marks: object) -> Result:
        return Done()

    def finished(self, effect: object) -> None:
        """Nothing is kept."""


def decision(log: Log, slot: Slot, n: int, named: str | None, **more: Any) -> Message:
    """A scale, or the same fields under another type."""
    effect = ScaleWorkload(at=1.0, id=f"autoscaler.{slot}.1.{n}", target=WEB, replicas=5, from_replicas=3)
    body = msgspec.json.decode(registry.encode(effect)) | more | ({"type": named} if named else {})
    subject = log.subjects.decision(slot, "autoscaler", "deployment", "ns", "web")
    return Message(subject, msgspec.json.encode(body))


async def outcomes(log: Log) -> dict[str, Outcome]:
    async with log.reader([log.subjects.outcomes("*")]) as reader:
        read = [registry.decode(record.body) async for record in reader.until_current()]
    return {event.decision: event for event in read if isinstance(event, Outcome)}


async def test_a_type_of_a_newer_version_is_answered_and_others_go_on(log: Log) -> None:
    slot = log.slot_of("ns")
    sent = [
        decision(log, slot, 0, "decision.scale-workload.v2", strategy="gently"),
        decision(log, slot, 1, "decision.resize-pods.v1"),
        decision(log, slot, 2, "decision.hold-replicas.v7"),
        decision(log, slot, 3, None),
    ]
    for message in sent:
        await log.commit([message])
    actuator = Actuator(
        Options(nats_url="", cluster="test"),
        log,
        cast("Applier", Willing()),
        lookout=Watched(),
        judging=lambda parsed, effect, *rest: (
            judge(parsed, effect, *rest) if isinstance(effect, NewerEffect) else ANYTHING
        ),
    )
    task = asyncio.create_task(actuator.run())
    try:
        await until(lambda: outcomes(log), lambda found: len(found) >= 3)
        found = await outcomes(log)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    ids = [f"autoscaler.{slot}.1.{n}" for n in range(4)]
    assert set(found) == {ids[0], ids[1], ids[3]}
    for n, named in ((0, "decision.scale-workload.v2"), (1, "decision.resize-pods.v1")):
        refused = found[ids[n]]
        assert isinstance(refused, Rejected)
        assert refused.reason == "UnknownType"
        assert named in refused.message
    assert isinstance(found[ids[3]], Applied)


def test_one_that_speaks_of_others_is_refused_for_that(log: Log) -> None:
    """Else an answer could be sent into another's slot by a type that nobody knows."""
    slot = log.slot_of("ns")
    message = decision(log, slot, 0, "decision.resize-pods.v1", id=f"spread.{slot}.1.0")
    effect = newer_effect(message.body)
    assert effect is not None
    refusal = judge(
        log.subjects.parse(message.subject), effect, Options(nats_url="", cluster="c").bounds, log.slot_of
    )
    assert isinstance(refusal, Refusal)
    assert refusal.rule != NEWER


def test_what_names_no_target_is_no_effect() -> None:
    assert newer_effect(b'{"type":"decision.remember.v1","at":1.0,"id":"a.b.1.0"}') is None
    assert newer_effect(b"?") is None
