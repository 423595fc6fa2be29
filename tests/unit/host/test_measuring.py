"""How long parts of a decider's work take, by clocks that the test moves."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import pytest
from prometheus_client import CollectorRegistry

from tests.vectors.provisioning_life import Cluster
from tidewright.host.fold.parts import Parts
from tidewright.host.process.measuring import Stopwatch
from tidewright.provisioning.decide import DECIDER
from tidewright.provisioning.tell import parts

WORK = Parts(durations="work_seconds", activity="work_last", loop="all")


def test_parts_are_measured_and_the_loop_is_as_of_its_last_turn() -> None:
    now, wall, registry = [0.0], [1000.0], CollectorRegistry()
    watch = Stopwatch(WORK, registry, lambda: 3.0, clock=lambda: now[0], wall=lambda: wall[0])
    with watch.part("all"):
        now[0] += 0.25
        with watch.part("some"):
            now[0] += 0.5
    wall[0] = 2000.0
    told = registry.get_sample_value
    assert told("work_seconds_sum", {"function": "all"}) == 0.75
    assert told("work_seconds_sum", {"function": "some"}) == 0.5
    assert told("work_seconds_count", {"function": "some"}) == 1
    assert told("work_seconds_bucket", {"function": "some", "le": "0.4096"}) == 0
    assert told("work_last", {"activity": "some"}) == 1000
    assert told("work_last", {"activity": "all"}) == 1997  # three seconds ago, by now


def test_an_evaluation_names_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    entered: list[str] = []

    def part(name: str) -> AbstractContextManager[None]:
        entered.append(name)
        return nullcontext()

    assert DECIDER.parts is not None
    monkeypatch.setattr(DECIDER.parts, "measure", part)
    cluster = Cluster()
    cluster.add_group("a")
    cluster.pod("p", cluster.shape({"cpu": 1000}))
    cluster.settle()
    assert {*entered} == {
        parts.MAIN, parts.UPDATE_STATE, parts.FILTER, parts.SCALE_UP, parts.FIND_UNNEEDED, parts.SCALE_DOWN,
    }  # fmt: skip
    assert cluster.groups["a"].target == 1
