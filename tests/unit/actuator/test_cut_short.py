"""An order at a cloud that only adds, and an actuator that ends between the order and its answer."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import msgspec

from tests.unit.actuator.effects import Watched
from tests.unit.actuator.test_fencing import Shared
from tests.unit.provisioning.cloud import Cloud, group
from tests.waiting import until
from tidewright.actuator.acting import Actuator
from tidewright.actuator.allowance import Allowance
from tidewright.actuator.apply import Applier
from tidewright.actuator.cloud import Clouds
from tidewright.actuator.ledger import ActPosition, Ledger
from tidewright.actuator.options import Options
from tidewright.actuator.plan import Job
from tidewright.actuator.verdict import Done
from tidewright.cloud.provider import Promise
from tidewright.events import registry
from tidewright.events.base import ObjectRef
from tidewright.events.outcomes import Failed
from tidewright.events.provisioning import IncreaseNodeGroup
from tidewright.log.connection import Log
from tidewright.log.reader import Record

ORDER = IncreaseNodeGroup(
    at=1.0,
    id="provisioning.all.7.0",
    target=ObjectRef(api_version="cloud/v1", kind="NodeGroup", name="g"),
    size=3,
    from_size=0,
    plan="p",
)
SUBJECT = "tw.c.decision.all.provisioning.nodegroup._.g"


class Slots(Shared):
    @staticmethod
    def slot_of(namespace: str) -> str:
        return "all"


def acting(cloud: Cloud) -> tuple[Actuator, list[ActPosition]]:
    """An actuator with this cloud, and what it commits."""

    async def whose(name: str) -> tuple[str, str]:
        return "c", name

    provider: Any = cloud
    actuator = Actuator(
        Options(nats_url="", cluster="c"),
        cast("Log", Slots([])),
        cast("Applier", None),
        clouds=Clouds({"c": provider}, whose),
        lookout=Watched(),
    )
    committed: list[ActPosition] = []

    async def commit(messages: object, position: ActPosition) -> None:
        committed.append(position)

    part: Any = actuator._part
    part.commit = commit
    return actuator, committed


async def ordered(cloud: Cloud) -> list[ActPosition]:
    """What is on the log when the cloud is asked for the machines."""
    actuator, committed = acting(cloud)
    actuator._ledger.take(7)
    job = Job(7, SUBJECT, ORDER)
    seen: list[ActPosition] = []

    def refuse(name: str) -> None:
        if name == "increase":
            seen.extend(committed)

    cloud.refuse = refuse

    async def spend() -> None:
        """The budget of a test has no end."""

    committing = asyncio.create_task(actuator._outcomes.run())
    assert actuator._clouds is not None

    async def record() -> None:
        await actuator._outcomes.begin(job)

    result = await actuator._clouds.attempt(ORDER, Allowance(spend, record=record), ("c", "g"))
    assert result == Done(result={"size": 3})
    committing.cancel()
    return seen


async def test_an_order_that_must_not_be_made_twice_is_on_the_log_before_it_is_made() -> None:
    adding = Cloud(group())
    adding.promise = Promise.DELTA
    (position,) = await ordered(adding)
    assert (position.position, position.begun) == (6, (7,))


async def test_others_cost_no_message() -> None:
    assert await ordered(Cloud(group())) == []


async def test_after_a_restart_in_between_nothing_is_ordered_and_that_is_said() -> None:
    cloud = Cloud(group())
    cloud.promise = Promise.DELTA
    actuator, _ = acting(cloud)
    kept = msgspec.json.decode(
        msgspec.json.encode(ActPosition(at=0.0, position=6, begun=(7,))), type=ActPosition
    )
    actuator._reset(kept)
    actuator._take(Record(7, SUBJECT, registry.encode(ORDER), {}), ORDER)
    await until(lambda: not actuator._outcomes.waiting.empty())
    said = actuator._outcomes.waiting.get_nowait()
    assert said is not None
    outcome = said[1]
    assert isinstance(outcome, Failed)
    assert outcome.reason == "Unknown"
    assert "it is not asked again" in outcome.message
    assert len(actuator._plan) == 0
    assert cloud.calls == []


def test_a_decision_with_its_outcome_is_no_longer_begun() -> None:
    ledger = Ledger()
    ledger.take(7)
    assert ledger.begin(7)
    assert not ledger.begin(7)
    assert ledger.begun == (7,)
    ledger.finish(7)
    assert not ledger.begun
