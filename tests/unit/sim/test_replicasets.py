"""Who goes first when a ReplicaSet shrinks."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tidewright.kube.times import rfc3339
from tidewright.sim.controllers.objects import Pod
from tidewright.sim.controllers.replicasets import DELETION_COST, deletion_cost, victims

NOW = 1_700_000_000.0


def pod(
    name: str,
    *,
    node: str = "n1",
    phase: str = "Running",
    ready_for_s: float | None = 1000.0,
    age_s: float = 2000.0,
    cost: str | None = None,
    restarts: int = 0,
) -> Pod:
    conditions: list[dict[str, Any]] = []
    if ready_for_s is not None:
        since = rfc3339(NOW - ready_for_s)
        conditions.append({"type": "Ready", "status": "True", "lastTransitionTime": since})
    return msgspec.convert(
        {
            "metadata": {
                "name": name,
                "uid": f"uid-{name}",
                "creationTimestamp": rfc3339(NOW - age_s),
                "annotations": {} if cost is None else {DELETION_COST: cost},
            },
            "spec": {"nodeName": node},
            "status": {
                "phase": phase,
                "conditions": conditions,
                "containerStatuses": [{"name": "main", "restartCount": restarts}],
            },
        },
        Pod,
    )


@pytest.mark.parametrize(
    ("first", "other"),
    [
        (pod("unbound", node="", phase="Pending", ready_for_s=None), pod("bound", ready_for_s=None)),
        (pod("pending", phase="Pending", ready_for_s=None), pod("running", ready_for_s=None)),
        (pod("unknown", phase="Unknown", ready_for_s=None), pod("running", ready_for_s=None)),
        (pod("unready", ready_for_s=None), pod("ready")),
        (pod("cheap", cost="-5"), pod("dear")),
        (pod("dear-but-unready", cost="100", ready_for_s=None), pod("cheap-and-ready", cost="-100")),
        (pod("young", ready_for_s=10), pod("old", ready_for_s=1000)),
        (pod("restarted", restarts=3), pod("steady")),
        (pod("created-late", age_s=100), pod("created-early", age_s=9000)),
    ],
    ids=lambda one: one.metadata.name,
)
def test_the_first_of_two_goes(first: Pod, other: Pod) -> None:
    assert victims([other, first], 1, [first, other], NOW) == [first]
    assert victims([first, other], 1, [first, other], NOW) == [first]


def test_ready_times_in_one_power_of_two_count_as_equal_and_the_uid_decides() -> None:
    later, earlier = pod("a", ready_for_s=1050), pod("b", ready_for_s=1060)
    assert victims([earlier, later], 1, [], NOW) == [later]
    later, earlier = pod("b", ready_for_s=1050), pod("a", ready_for_s=1060)
    assert victims([earlier, later], 1, [], NOW) == [earlier]


def test_a_pod_on_the_more_crowded_node_goes_first() -> None:
    crowded, alone = pod("z", node="n1"), pod("a", node="n2")
    neighbour = pod("sibling", node="n1")
    assert victims([crowded, alone], 1, [crowded, alone, neighbour], NOW) == [crowded]


def test_all_go_when_all_are_asked_for() -> None:
    pods = [pod("a"), pod("b")]
    assert victims(pods, 2, pods, NOW) == pods


@pytest.mark.parametrize(
    ("text", "cost"),
    [("10", 10), ("-10", -10), ("0", 0), ("07", 0), ("+3", 0), ("x", 0), ("", 0), ("3000000000", 0)],
)
def test_a_cost_that_is_no_integer_counts_as_nothing(text: str, cost: int) -> None:
    assert deletion_cost(pod("a", cost=text)) == cost
