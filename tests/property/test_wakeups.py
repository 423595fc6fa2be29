"""Whatever has happened, provisioning looks again by itself: who is woken when nothing has changed for long finds nothing to do.

Time alone ends what is kept (room that is booked or buffered, pods that are expected), and nobody tells of that. A cluster is
played for a while and left alone for a day. Then something stirs that changes nothing: a decision that comes only now had been
forgotten.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis
from hypothesis import strategies as st

from tests.unit.provisioning.removalworld import Removing
from tests.unit.provisioning.workloads import ON, Workloads, replica_set
from tests.vectors.capacity_buffers import Buffers, pod_spec
from tidewright.events import facts as f
from tidewright.events import provisioning as p

CHECK = "check-capacity.autoscaling.x-k8s.io"
DISABLED = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
NODES = 4
DAY_S = 86_400.0
DONE = (p.RemoveNode, p.IncreaseNodeGroup, p.BookCapacity, p.ReleaseCapacity, p.FillBuffer)
QUICK = {**ON, "scale-down-unneeded-time": "60s", "scale-down-delay-after-add": "0s"}

Happening = tuple[Any, ...]


class Quiet(Buffers, Workloads, Removing):
    """Nodes of 4 cores that may all go, and whatever may keep them."""

    def __init__(self, profile: str) -> None:
        super().__init__({**QUICK, "profile": profile})
        self.template("half", "1500m")
        self.pod_template("chunk", pod_spec({"cpu": "1"}))
        self.grown(NODES)
        self.large = self.form("3500m")

    def happens(self, what: str, *which: int) -> None:
        """One happening; `which` says to what, and how many."""
        getattr(self, f"_{what}")(*which)

    def _pod_comes(self, node: int, number: int) -> None:
        if (name := f"p{node}{number}") not in self.placed and f"n{node}" in self.objects:
            self.run_pod(name, f"n{node}")

    def _pod_ends(self, node: int, number: int) -> None:
        if (name := f"p{node}{number}") in self.placed:
            self.end_pod(name)

    def _capacity_is_asked_for(self, name: int, count: int) -> None:
        self.request(f"r{name}", CHECK, [("half", count)], {"BookingSeconds": "300"})

    def _request_goes(self, name: int, _: int) -> None:
        self.delete_request(f"r{name}")

    def _buffer_is_set(self, name: int, chunks: int) -> None:
        self.buffer(f"b{name}", {"podTemplateRef": {"name": "chunk"}, "replicas": chunks})

    def _buffer_goes(self, name: int, _: int) -> None:
        self.tell(p.CapacityBufferGone(at=self.now, namespace="ns", name=f"b{name}"))

    def _deployment_is_set(self, name: int, replicas: int) -> None:
        self.deployment(f"d{name}", replicas, template=self.large)

    def _deployment_goes(self, name: int, _: int) -> None:
        if f"Deployment/d{name}" in self.told:
            gone = f.WorkloadGone(
                at=self.now, namespace="ns", name=f"d{name}", kind="Deployment", api_version="apps/v1"
            )
            self.tell(gone)

    def _pod_is_made(self, number: int, waits: int) -> None:
        """One that the scheduler has found no room for, or has not looked at: somebody holds it back, it may be."""
        self.deployment("made", 1, template=self.large)
        self.replicas_of("made", "made-1", 1, status_replicas=1)
        since = {"unschedulable_since": self.now} if waits else {}
        self.made(f"m{number}", self.shape({"cpu": 2000}), replica_set("made-1"), **since)

    def _pod_that_was_made_goes(self, number: int, _: int) -> None:
        self.tell(f.PodGone(at=self.now, namespace="ns", name=f"m{number}", uid=f"uid-m{number}"))

    def _budget_is_set(self, allowed: int, _: int) -> None:
        self.budget("budget", allowed)

    def _node_is_to_stay(self, node: int, stays: int) -> None:
        if found := self.objects.get(f"n{node}"):
            annotations = {DISABLED: "true"} if stays else {}
            found["metadata"]["annotations"] = {
                **{k: v for k, v in found["metadata"]["annotations"].items() if k != DISABLED}, **annotations,
            }  # fmt: skip
            self.tell(self.fact_of(f"n{node}"))


WHAT = tuple(name[1:] for name in vars(Quiet) if name.startswith("_") and not name.startswith("__"))
HAPPENINGS = st.lists(
    st.tuples(
        st.sampled_from((0.0, 2.0, 15.0, 100.0, 1000.0)),
        st.tuples(st.sampled_from(WHAT), st.integers(0, NODES - 1), st.integers(0, 4)),
    ),
    min_size=1,
    max_size=10,
)


def done(cluster: Quiet) -> list[str]:
    """Nodes that were ordered or went, and room that was kept or given back. Requests without room are tried again at any sign."""
    return [type(d).__name__ for d in cluster.said if isinstance(d, DONE)]


@pytest.mark.parametrize("profile", ["compat", "hold"])
@given(happenings=HAPPENINGS)
@hypothesis(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
def test_who_is_woken_when_all_has_been_quiet_for_long_finds_nothing_to_do(
    profile: str, happenings: list[tuple[float, Happening]]
) -> None:
    cluster = Quiet(profile)
    for seconds, happening in happenings:
        cluster.advance(seconds)
        cluster.happens(*happening)
    cluster.advance(DAY_S)
    before, said = done(cluster), len(cluster.said)
    cluster.tell(f.PodGone(at=cluster.now, namespace="ns", name="nobody"))
    cluster.advance(3600.0)
    late = [type(decision).__name__ for decision in cluster.said[said:]]
    assert done(cluster) == before, late
