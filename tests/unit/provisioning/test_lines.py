"""Lists of events: every event of provisioning says what it is in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.vectors.provisioning_life import Cluster
from tidewright.asking.lines import line
from tidewright.events import provisioning as p
from tidewright.events import registry
from tidewright.events.base import Decision
from tidewright.provisioning.tell.lines import line as own

SAMPLES = Path(__file__).parents[2] / "golden" / "events"
ATOMIC = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"


def lines(cluster: Cluster, kind: type[Decision]) -> list[str]:
    return [line(decision) for decision in cluster.of(kind)]


def test_a_request_reads_as_a_story() -> None:
    cluster = Cluster()
    cluster.add_group("workers", cpu=4000, maximum=5)
    cluster.template("t", "3")
    cluster.request("train", ATOMIC, [("t", 3)])
    cluster.request("big", ATOMIC, [("t", 30)])
    cluster.settle()
    (plan,) = cluster.of(p.PlanScaleUp)
    assert lines(cluster, p.AcceptRequest)[1] == "accept request ns/train for 3 pods of 1 pod set"
    assert line(plan) == f"grow workers 0 -> 3 for request ns/train (plan {plan.plan})"
    assert lines(cluster, p.IncreaseNodeGroup) == ["order 3 nodes: size 0 -> 3"]
    attempts = lines(cluster, p.AttemptRequest)
    assert "attempt 1 at request ns/train: it has room once group workers grows" in attempts
    refused = next(text for text in attempts if "no room" in text)
    assert refused.startswith("attempt 1 at request ns/big: no room (1 group: not all pods would fit")
    assert lines(cluster, p.BookCapacity)[0].startswith("keep room for 3 pods of request ns/train until ")


@pytest.mark.parametrize("sample", sorted(SAMPLES.glob("*.json")), ids=lambda path: path.stem)
def test_every_decision_of_provisioning_has_a_line_of_its_own(sample: Path) -> None:
    event = registry.decode(sample.read_bytes())
    if type(event).__module__ == p.__name__ and isinstance(event, Decision):
        assert own(event), "no case for it in services/tidewright/provisioning/tell/lines.py"
        assert "=" not in own(event)


def test_nothing_is_ordered_where_no_group_is_known_and_that_is_why() -> None:
    declined = p.DeclineScaleUp(at=1.0, shape="s", count=2)
    assert own(declined) == "nothing is ordered for 2 pods: no node group could be asked"
