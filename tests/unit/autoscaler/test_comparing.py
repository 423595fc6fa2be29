"""Shadow mode beside an incumbent: what both did, what only one did, and why."""

from __future__ import annotations

from tests.unit.autoscaler.world import NS, World, of, sample, workload, wpa
from tidewright.autoscaler.tell.comparing import Comparing, Comparison, PairVerdict
from tidewright.events.base import Event
from tidewright.events.decisions import ScaleWorkload
from tidewright.events.outcomes import Applied


class Shadow(World):
    """The actuator writes nothing; somebody else does."""

    def __init__(self) -> None:
        super().__init__()
        self.comparing = Comparing()

    def feed(self, *events: Event) -> list[Event]:  # type: ignore[override]  # decisions are events
        given: list[Event] = []
        for event in events:
            self.comparing.fold(event)
            for decision in super().feed(event):
                self.comparing.fold(decision)
                given.append(decision)
                if isinstance(decision, ScaleWorkload):
                    given += self.feed(Applied(at=event.at, decision=decision.id, reason="Shadow"))
        return given

    def result(self) -> Comparison:
        (found,) = self.comparing.results()
        return found


def verdicts(world: Shadow) -> list[PairVerdict]:
    return [row.verdict for row in world.result().rows]


def test_the_same_change_within_a_minute_is_the_same() -> None:
    world = Shadow()
    world.start(replicas=2)
    assert of(world.feed(sample(101, 40_000)), ScaleWorkload)  # type: ignore[arg-type]  # decisions among events
    world.feed(workload(130, 3))
    assert verdicts(world) == [PairVerdict.SAME]


def test_another_count_is_different_and_told_with_our_reasons() -> None:
    world = Shadow()
    world.start(replicas=2)
    world.feed(sample(101, 40_000), workload(110, 4))
    (row,) = world.result().rows
    assert row.verdict is PairVerdict.DIFFERENT
    assert row.ours is not None
    assert row.theirs is not None
    assert (row.ours.after, row.theirs.after) == (3, 4)
    assert "scaleUpLimitFactor" in " ".join(row.why)


def test_what_only_the_incumbent_did_is_told_with_why_we_did_not() -> None:
    world = Shadow()
    world.start(replicas=2)
    world.feed(sample(101, 15_000), workload(200, 5))
    (row,) = world.result().rows
    assert (row.verdict, row.ours) == (PairVerdict.ONLY_THEIRS, None)
    assert "within its watermarks" in row.why[0]
    assert row.why[-1].endswith("WithinWatermarks.")


def test_a_repeated_decision_that_the_log_has_after_a_change_it_could_not_know_is_no_second_one() -> None:
    world = Shadow()
    world.start(replicas=2)
    first, second = (
        decision
        for at in (101, 200)
        for decision in world.feed(sample(at, 40_000))
        if isinstance(decision, ScaleWorkload)
    )
    late = Comparing()
    for event in (wpa(100), workload(100, 2), first, workload(201, 3), second, workload(202, 9)):
        late.fold(event)
    (found,) = late.results()
    assert [row.verdict for row in found.rows] == [PairVerdict.SAME, PairVerdict.ONLY_THEIRS]


def test_what_only_we_wanted_again_and_again_is_one_row() -> None:
    world = Shadow()
    world.start(replicas=2)
    for at in (101, 200, 300):
        world.feed(sample(at, 40_000))
    (row,) = world.result().rows
    assert row.verdict is PairVerdict.ONLY_OURS
    assert row.ours is not None
    assert (row.ours.times, row.ours.until) == (3, 300)


def test_a_change_the_other_way_belongs_to_nothing_of_ours() -> None:
    world = Shadow()
    world.start(replicas=2)
    world.feed(sample(101, 40_000), workload(105, 1))
    assert sorted(v.value for v in verdicts(world)) == ["only ours", "only theirs"]


def test_what_we_wrote_ourselves_is_nobody_elses_whichever_is_seen_first() -> None:
    for outcome_first in (True, False):
        world, comparing = World(), Comparing()
        world.start(replicas=2)
        for event in (*_start(), sample(101, 40_000)):
            comparing.fold(event)
        (order,) = of(world.feed(sample(101, 40_000)), ScaleWorkload)
        comparing.fold(order)
        both: list[Event] = [Applied(at=102, decision=order.id), workload(102, order.replicas)]
        for event in both if outcome_first else reversed(both):
            comparing.fold(event)
        (found,) = comparing.results()
        assert (found.rows, found.written, found.namespace) == ((), 1, NS)


def _start() -> list[Event]:
    from tests.unit.autoscaler.world import spec, wpa

    return [wpa(100, spec=spec()), workload(100, 2)]
