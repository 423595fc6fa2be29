"""What the actuator leaves for later: while much is under way object events unjudged, and outcomes until some have come together; and
what else is wanted of a node group until it is on the log what came of its last size."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from tests.unit.actuator.effects import ANYTHING, Watched, job, scale
from tests.unit.actuator.effects import said as object_event
from tests.unit.actuator.test_fencing import Shared
from tests.unit.actuator.test_unwatched import Noted, no_budget
from tests.waiting import until
from tidewright.actuator import acting, committing
from tidewright.actuator.acting import REPORTS_READ, REPORTS_REST_S, Actuator
from tidewright.actuator.allowance import Allowance
from tidewright.actuator.allowed.table import Grant
from tidewright.actuator.apply import Applier
from tidewright.actuator.committing import FEW
from tidewright.actuator.ledger import ActPosition
from tidewright.actuator.options import Mode, Options
from tidewright.actuator.plan import Job
from tidewright.events import registry
from tidewright.events.base import ObjectRef
from tidewright.events.outcomes import Applied
from tidewright.events.provisioning import IncreaseNodeGroup
from tidewright.log.connection import Log, Message
from tidewright.log.reader import Record
from tidewright.log.subjects import Subjects

HOUR_S = 3600.0


class Taking(Shared):
    """A log that takes all of a commit at once."""

    subjects = Subjects("test")

    def slot_of(self, namespace: str) -> int:
        return 1

    def one_by_one(self, count: int) -> bool:
        return False


class Commits:
    """In place of the actuator's part: what came onto the log together."""

    renewal_in_s = HOUR_S
    position = ActPosition(at=0.0)

    def __init__(self) -> None:
        self.made: list[tuple[int, tuple[int, ...]]] = []
        """Of each commit how many outcomes it had, and which decisions it says were begun."""
        self.there = asyncio.Event()
        """Whether the log answers."""
        self.there.set()

    async def commit(self, messages: list[Message], position: ActPosition) -> None:
        await self.there.wait()
        self.made.append((len(messages), position.begun))


def actuating(judged: list[str], mode: Mode = "enforce") -> Actuator:
    def judging(_: object, effect: object, *__: object) -> Grant:
        judged.append(getattr(effect, "id", ""))
        return ANYTHING

    options = Options(nats_url="", cluster="test", mode=mode)
    return Actuator(
        options, cast("Log", Taking([])), cast("Applier", Noted()), judging=judging, lookout=Watched()
    )


def read(actuator: Actuator, seq: int) -> str:
    """Have an object event read; its id."""
    effect = object_event(f"message {seq}", id=f"autoscaler.1.{seq}.0")
    subject = f"tw.test.decision.1.autoscaler.deployment.shop.web{seq}"
    actuator._take(Record(seq, subject, registry.encode(effect), {}), effect)
    return effect.id


def under_way(actuator: Actuator, count: int) -> list[Job]:
    """So many changes that have begun."""
    begun = []
    for seq in range(1, count + 1):
        actuator._ledger.take(seq)
        actuator._plan.add(job(seq, scale(5, 3, name=f"w{seq}")))
        begun.append(cast("Job", actuator._plan.next()))
    return begun


def end(actuator: Actuator, ended: Job) -> None:
    actuator._end(ended, Applied(at=1.0, decision=ended.effect.id), Allowance(no_budget))


def sized(seq: int, before: int, after: int) -> IncreaseNodeGroup:
    group = ObjectRef(api_version="cloud/v1", kind="NodeGroup", name="g")
    return IncreaseNodeGroup(
        at=1.0,
        id=f"provisioning.all.{seq}.0",
        target=group,
        size=after,
        from_size=before,
        plan=f"{seq}-1",
        request="",
    )


def test_object_events_are_open_and_not_judged_while_something_changes() -> None:
    judged: list[str] = []
    actuator = actuating(judged)
    (change,) = under_way(actuator, 1)
    told = read(actuator, 2)
    assert not actuator._take_reports()
    assert (judged, actuator._ledger.open) == ([], 2)
    end(actuator, change)
    assert not actuator._take_reports()  # more may come right behind it
    actuator._changed_at -= REPORTS_REST_S
    assert actuator._take_reports()
    assert judged == [told]
    assert actuator._plan.first_report is not None


async def test_object_events_that_are_not_to_be_made_wait_for_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(acting, "REPORTS_REST_S", HOUR_S)
    actuator = actuating([], mode="shadow")
    for seq in range(1, 3 * REPORTS_READ):
        read(actuator, seq)
    async with asyncio.timeout(90), asyncio.TaskGroup() as tasks:
        dispatching = tasks.create_task(actuator._dispatch(tasks))
        await until(lambda: actuator._outcomes.waiting.qsize() == 3 * REPORTS_READ - 1)
        dispatching.cancel()


@pytest.mark.parametrize("waited_for", [False, True])
async def test_outcomes_come_together_until_few_are_left_or_a_commit_is_waited_for(
    waited_for: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committing, "TOGETHER_S", HOUR_S)
    actuator, commits = actuating([]), Commits()
    monkeypatch.setattr(actuator._outcomes, "_part", commits)
    *ended, last = under_way(actuator, FEW + 3)
    running = asyncio.create_task(actuator._outcomes.run())
    try:
        for one in ended[:2]:
            end(actuator, one)
            for _ in range(20):  # whoever commits each by itself has begun by then
                await asyncio.sleep(0)
        assert commits.made == []
        async with asyncio.timeout(90):
            if waited_for:
                await actuator._outcomes.begin(last)
                assert commits.made == [(2, (last.seq,))]
            else:
                end(actuator, ended[2])
                await until(lambda: bool(commits.made))
                assert commits.made == [(3, ())]
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_of_a_node_group_nothing_else_is_done_before_the_outcome_of_its_size_is_on_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who takes over sees the size that the last of them wanted, and would take the first for refused, or order it again."""
    actuator, commits = actuating([]), Commits()
    monkeypatch.setattr(actuator._outcomes, "_part", commits)
    commits.there.clear()
    orders = [job(seq, sized(seq, 2 * seq - 2, 2 * seq)) for seq in (1, 2)]
    for order in orders:
        actuator._ledger.take(order.seq)
        actuator._plan.add(order)
    running = asyncio.create_task(actuator._outcomes.run())
    try:
        assert actuator._plan.next() is orders[0]
        end(actuator, orders[0])
        for _ in range(20):
            await asyncio.sleep(0)
        assert actuator._plan.next() is None
        commits.there.set()
        async with asyncio.timeout(90):
            await until(lambda: bool(commits.made))
        assert actuator._plan.next() is orders[1]
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
