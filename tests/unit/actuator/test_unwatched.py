"""While nobody looks, decisions wait: none is carried out, none is lost, and a webhook is taken out all the same."""

from __future__ import annotations

import asyncio
import time
from typing import cast

import pytest

from tests.unit.actuator.effects import ANYTHING, Watched, status
from tests.unit.actuator.effects import said as object_event
from tests.unit.actuator.test_fencing import Shared
from tests.unit.actuator.test_unsound import WEB, outcomes
from tests.waiting import until
from tidewright.actuator.acting import REPORTS_AT_ONCE, REPORTS_REST_S, REPORTS_WITHIN_S, Actuator
from tidewright.actuator.allowance import Allowance
from tidewright.actuator.apply import Applier
from tidewright.actuator.cloud import Clouds, Unless
from tidewright.actuator.options import Options
from tidewright.actuator.plan import Job, Plan, Rank
from tidewright.actuator.verdict import Done, Refused, Result
from tidewright.events import registry
from tidewright.events.acting import INCUMBENT
from tidewright.events.base import ObjectRef
from tidewright.events.decisions import Effect, ScaleWorkload
from tidewright.events.endpoints import ForgetEndpoint
from tidewright.events.incumbents import IncumbentObserved
from tidewright.events.outcomes import Applied, Superseded
from tidewright.events.provisioning import DeleteInstances
from tidewright.host.loop.lookout import NOBODY
from tidewright.host.process.health import Health
from tidewright.log.connection import Log, Message
from tidewright.log.subjects import ALL

WEBHOOK = ObjectRef(
    api_version="admissionregistration.k8s.io/v1",
    kind="MutatingWebhookConfiguration",
    name="tidewright-spread",
)


class Noted:
    """Notes what it is asked to apply."""

    def __init__(self) -> None:
        self.applied: list[str] = []

    async def attempt(self, effect: Effect, allowance: Allowance, marks: object) -> Result:
        self.applied.append(effect.id)
        return Done()

    def finished(self, effect: object) -> None:
        """Nothing is kept."""


async def no_budget() -> None:
    """Nothing is waited for."""


async def decide(log: Log, effect: Effect) -> None:
    target = effect.target
    slot = log.slot_of(target.namespace) if target.namespace else ALL
    service = effect.id.partition(".")[0]
    subject = log.subjects.decision(slot, service, target.kind.lower(), target.namespace, target.name)
    await log.commit([Message(subject, registry.encode(effect))])


def scale(to: int) -> ScaleWorkload:
    return ScaleWorkload(at=1.0, id=f"autoscaler.1.{to}.0", target=WEB, replicas=to, from_replicas=3)


async def said(log: Log) -> dict[str, object]:
    async with log.reader([log.subjects.outcomes("*")]) as reader:
        events = [registry.read(record.body) async for record in reader.until_current()]
    return {getattr(event, "decision", ""): event for event in events}


async def test_what_waited_is_carried_out_by_what_is_said_then(log: Log) -> None:
    applier, health, lookout = Noted(), Health("actuator"), Watched(looks=False)
    actuator = Actuator(
        Options(nats_url="", cluster="test"), log, cast("Applier", applier), health=health,
        judging=lambda *_: ANYTHING, lookout=lookout,
    )  # fmt: skip
    forget = ForgetEndpoint(at=1.0, id="spread-admission.all.2.0", target=WEBHOOK, ca="PEM")
    task = asyncio.create_task(actuator.run())
    try:
        for effect in (scale(5), scale(6), forget):
            await decide(log, effect)
        await until(lambda: applier.applied == [forget.id])
        await until(lambda: health.not_ready == NOBODY)
        await until(lambda: outcomes(log), lambda found: found >= 2)
        assert applier.applied == [forget.id]

        # Somebody who looks has seen an incumbent, and says so before it is heard to look.
        rival = IncumbentObserved(at=2.0, service="autoscaler", rival="WPA", present=True, everywhere=True)
        subject = log.subjects.fact(ALL, INCUMBENT, "", "autoscaler")
        await log.commit([Message(subject, registry.encode(rival))])
        lookout.found()
        await until(lambda: outcomes(log), lambda found: found >= 3)
        assert applier.applied == [forget.id]
        found = await said(log)
        assert isinstance(found["autoscaler.1.5.0"], Superseded)
        dry = found["autoscaler.1.6.0"]
        assert isinstance(dry, Applied)
        assert dry.reason == "DryRun"

        gone = IncumbentObserved(at=3.0, service="autoscaler", rival="WPA")
        await log.commit([Message(subject, registry.encode(gone))])
        await decide(log, scale(7))
        await until(lambda: applier.applied == [forget.id, "autoscaler.1.7.0"])
        lookout.lost()
        await decide(log, scale(8))
        await until(lambda: health.not_ready == NOBODY)
        await until(lambda: len(actuator._plan) == 1)
        assert applier.applied == [forget.id, "autoscaler.1.7.0"]
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_object_events_take_few_places_and_what_changes_something_has_the_others() -> None:
    actuator = Actuator(
        Options(nats_url="", cluster="c"),
        cast("Log", Shared([])),
        cast("Applier", Noted()),
        lookout=Watched(),
    )
    plan = actuator._plan
    for seq in range(2 * REPORTS_AT_ONCE):
        plan.add(Job(seq, "s", object_event("x", f"n{seq}")))

    def begin() -> list[Job]:
        begun = []
        while actuator._best()[0] == "waiting" and (job := plan.next()) is not None:
            begun.append(job)
        return begun

    begun = begin()
    assert len(begun) == REPORTS_AT_ONCE
    change = Job(1000, "s", scale(5))
    plan.add(change)
    assert actuator._best() == ("waiting", Rank.SCALE_UP)
    assert plan.next() == change
    for job in begun:
        plan.done(job)
    assert actuator._best()[0] is None
    plan.add(Job(1001, "s", status(1, "other")))
    assert actuator._best() == ("waiting", Rank.STATUS)
    assert plan.next(reports=False) is not None
    oldest = plan.first_report
    assert oldest is not None
    actuator._read_at[oldest[1]] = time.monotonic() - REPORTS_WITHIN_S
    assert len(begin()) == 1  # the next one has not waited yet
    actuator._end(change, Applied(at=1.0, decision=change.effect.id), Allowance(no_budget))
    assert actuator._best()[0] is None
    actuator._changed_at = time.monotonic() - REPORTS_REST_S
    assert len(begin()) == REPORTS_AT_ONCE - 1


async def test_looks_at_nodes_before_a_deletion_wait_together_for_the_budget_of_the_api_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Looking(Noted):
        async def occupied(self, effect: Effect, allowance: Allowance) -> Refused:
            await asyncio.gather(*(allowance.take() for _ in range(6)))
            return Refused("NodeNotEmpty", "")

    class Deleting:
        async def attempt(
            self, effect: Effect, allowance: Allowance, whose: tuple[str, str], unless: Unless
        ) -> object:
            return await unless()

    actuator = Actuator(
        Options(nats_url="", cluster="c"),
        cast("Log", Shared([])),
        cast("Applier", Looking()),
        clouds=cast("Clouds", Deleting()),
        lookout=Watched(),
    )
    waited: list[int] = []

    async def owned() -> None:
        waited.append(len(actuator._spending))

    monkeypatch.setattr(actuator, "_owned", owned)
    group = ObjectRef(api_version="cloud/v1", kind="NodeGroup", name="g")
    job = Job(
        1,
        "s",
        DeleteInstances(at=1.0, id="provisioning.all.1.0", target=group, instances=("i",), nodes=("n",)),
    )
    allowance = Allowance(actuator._owned, prepaid=1)
    async with asyncio.timeout(90), asyncio.TaskGroup() as tasks:
        dispatching = tasks.create_task(actuator._dispatch(tasks))
        assert await actuator._attempt(job, allowance, ("", "")) == Refused("NodeNotEmpty", "")
        dispatching.cancel()
    assert (len(waited), allowance.requests) == (6, 6)


def test_a_webhook_goes_before_everything() -> None:
    plan = Plan()
    plan.add(Job(1, "s", scale(5)))
    plan.add(Job(2, "s", ForgetEndpoint(at=1.0, id="spread-admission.all.2.0", target=WEBHOOK, ca="PEM")))
    job = plan.next()
    assert job is not None
    assert isinstance(job.effect, ForgetEndpoint)
