"""How busy our own services are, from their checkpoints."""

from __future__ import annotations

from tidewright.log.checkpoint import Checkpoint
from tidewright.watcher.serviceload import Sized, loads, sized


def mark(incarnation: str, folded: int) -> Checkpoint:
    return Checkpoint(at=0.0, position=1, epoch=1, incarnation=incarnation, commit=1, folded=folded)


def test_the_load_is_what_was_folded_between_two_looks_by_whom_the_slot_belongs_to() -> None:
    before = {"0": mark("a", 100), "1": mark("a", 50), "2": mark("b", 0)}
    after = {"0": mark("a", 400), "1": mark("b", 150), "2": mark("b", 10), "3": mark("b", 900)}
    assert loads(before, after, 10.0) == (30.0, 11.0)


def test_services_without_a_deployment_are_not_looked_at() -> None:
    config = {
        "services": [
            {"name": "autoscaler", "deployment": "tidewright/autoscaler"},
            {"name": "spread", "deployment": "spread"},
            {"deployment": "tidewright/x"},
            "spread",
        ]
    }
    assert sized(config) == [Sized("autoscaler", "tidewright", "autoscaler")]
    assert sized({"services": "all"}) == []
