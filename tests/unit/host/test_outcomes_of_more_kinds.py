"""A decider of the whole cluster that learns to read what came of decisions about kinds that nobody has named."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import msgspec
import pytest
from structlog.testing import capture_logs

from tests.unit.host.test_host import hosting
from tests.waiting import until
from tidewright.events import registry
from tidewright.events.autoscaler import HoldReplicas
from tidewright.events.base import Decision, Event, ObjectRef
from tidewright.events.facts import PodObserved
from tidewright.events.outcomes import Applied, Rejected
from tidewright.host.fold.decider import Decider
from tidewright.host.fold.inputs import Inputs
from tidewright.host.fold.verify import Report, Verification, Verifier
from tidewright.log.connection import Log, Message
from tidewright.log.reader import Record
from tidewright.log.subjects import ALL, Slot

FOLLOWS = frozenset({"scaler"})


class State(msgspec.Struct):
    answers: list[str] = []
    held: int = 0


def evolve(state: State, event: Event) -> None:
    match event:
        case Applied() | Rejected():
            state.answers.append(event.message)
        case HoldReplicas():
            state.held += 1


def decide(state: State, event: Event, _: None) -> list[Decision]:
    """Every pod is worth a word on all that is known by then."""
    if not isinstance(event, PodObserved):
        return []
    target = ObjectRef(api_version="games.example.com/v1", kind="Fleet", namespace="shop", name="own")
    return [HoldReplicas(at=event.at, target=target, replicas=1, reason=" ".join(state.answers))]


BEFORE: Decider[State, None] = Decider(
    service="heeding",
    state_version=1,
    state_type=State,
    kinds=frozenset({"pod"}),
    outcomes=frozenset({"deployment"}),
    evolve=evolve,
    decide=decide,
)


def inputs_of(decider: Decider[State, None], log: Log) -> Inputs:
    return Inputs(
        "heeding", decider.kinds, log.subjects, log.slots, "cluster", FOLLOWS, formerly=decider.formerly,
        outcomes=decider.outcomes, outcomes_but=decider.outcomes_but,
    )  # fmt: skip


class Story:
    """What the log is told, and who decides meanwhile."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.pods = 0
        self.today = replace(
            BEFORE,
            outcomes=frozenset(),
            outcomes_but=frozenset({"pod"}),
            formerly=(inputs_of(BEFORE, log).today,),
        )

    async def answers(self, part: str) -> None:
        """To a Deployment's and a Fleet's scaling, to a pod's, and to the decider's own decision about a Fleet."""
        slot = self.log.slot_of("shop")
        await self.log.commit(
            [
                self._answer(slot, "deployment", "web", "scaler.7.1.0", f"web{part}"),
                self._answer(slot, "fleet", "arena", "scaler.7.2.0", f"arena{part}"),
                self._answer(slot, "pod", "x", "scaler.7.3.0", f"pod{part}"),
                self._answer(slot, "fleet", "other", "spread.7.3.0", f"spread{part}"),
                self._answer(ALL, "fleet", "own", "heeding.all.1.0", f"own{part}"),
            ]
        )

    def _answer(self, slot: Slot, kind: str, name: str, decision: str, message: str) -> Message:
        event = Rejected(at=1.0, decision=decision, reason="Conflict", message=message)
        return Message(self.log.subjects.outcome(slot, kind, "shop", name), registry.encode(event))

    async def decided_by(self, decider: Decider[State, None], snapshots: int = 10_000) -> None:
        """One more pod, which is answered, while a decider runs."""
        fact = PodObserved(at=1.0, namespace="shop", name=f"p{self.pods}")
        self.pods += 1
        subject = self.log.subjects.fact(self.log.slot_of("shop"), "pod", "shop", fact.name)
        await self.log.commit([Message(subject, registry.encode(fact))])
        async with hosting(
            self.log, decider=decider, snapshot_distance=snapshots, partition="cluster", follows=FOLLOWS
        ) as host:
            await until(lambda: ALL in host.owned and host.owned[ALL].fold.state.held == self.pods)

    async def stored(self) -> list[Record]:
        async with self.log.reader([self.log.subjects.everything]) as reader:
            return [record async for record in reader.until_current()]

    def verified(self, records: Iterable[Record]) -> Report:
        report = Report()
        verification = Verification([Verifier(self.today, inputs_of(self.today, self.log), report)])
        for record in records:
            verification.take(record)
        verification.finish()
        return report


def said(records: Iterable[Record]) -> list[str]:
    events = [registry.read(r.body) for r in records if ".decision." in r.subject]
    return [event.reason for event in events if isinstance(event, HoldReplicas)]


@pytest.mark.parametrize("snapshots", [1, 10_000])
async def test_it_begins_with_the_last_answers_of_all_kinds_and_each_stretch_verifies_by_its_own_set(
    log: Log, snapshots: int
) -> None:
    story = Story(log)
    await story.answers("0")
    await story.answers("1")
    await story.decided_by(BEFORE, snapshots)
    with capture_logs() as lines:
        await story.decided_by(story.today)
        await story.answers("2")
        await story.decided_by(story.today)
    assert [line for line in lines if "another digest" in line["event"]] == []
    records = await story.stored()
    assert said(records) == [
        "web0 own0 web1 own1",
        "web0 own0 web1 own1 arena1",
        "web0 own0 web1 own1 arena1 web2 arena2 own2",
    ]
    report = story.verified(records)
    assert (report.differences, report.decisions) == ([], 3)


async def test_an_old_log_verifies_with_answers_that_nobody_read_then(log: Log) -> None:
    story = Story(log)
    for part in "01":
        await story.answers(part)
        await story.decided_by(BEFORE)
    report = story.verified(await story.stored())
    assert (report.differences, report.decisions) == ([], 2)


async def test_the_version_before_may_come_back_and_go_again(log: Log) -> None:
    """Facts and answers are none too many or missing; what it decided meanwhile, without some of them, is told."""
    story = Story(log)
    await story.answers("0")
    for part, decider in (("1", story.today), ("2", BEFORE), ("3", story.today)):
        await story.decided_by(decider)
        await story.answers(part)
    await story.decided_by(story.today)
    differences = story.verified(await story.stored()).differences
    assert {difference.cause for difference in differences} <= {"different decision"}
