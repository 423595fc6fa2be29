"""Batches of check requests: as many in one evaluation as the configuration says, and all without it."""

from __future__ import annotations

import pytest

from tests.vectors.provisioning_life import Cluster
from tidewright.events import provisioning as p

CHECK = "check-capacity.autoscaling.x-k8s.io"


@pytest.mark.parametrize(
    ("config", "together"),
    [
        ({}, 12),
        ({"check-capacity-provisioning-request-max-batch-size": 3}, 12),
        ({"check-capacity-batch-processing": True}, 10),
        (
            {
                "check-capacity-batch-processing": True,
                "check-capacity-provisioning-request-max-batch-size": 3,
            },
            3,
        ),
    ],
)
def test_so_many_check_requests_are_tried_together(config: dict[str, object], together: int) -> None:
    cluster = Cluster(config)
    cluster.add_node("n", cpu=64_000)
    cluster.template("t", "1")
    for number in range(12):
        cluster.request(f"r{number:02}", CHECK, [("t", 1)])
    cluster.settle()
    tries = cluster.of(p.AttemptRequest)
    assert len(tries) == 12  # the others follow at once
    assert sum(attempt.at == tries[0].at for attempt in tries) == together
