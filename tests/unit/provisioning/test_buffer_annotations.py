"""Annotations of ours on buffers: windows in which they want room, and pods whose burst they are for."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.unit.provisioning.test_buffers import CHUNKS, kept, said
from tests.vectors.capacity_buffers import Buffers, pod_spec
from tidewright.events import provisioning as p
from tidewright.host.fold.explainer import Reference
from tidewright.provisioning.buffers import conditions as cond
from tidewright.provisioning.tell.explaining import EXPLAINER
from tidewright.provisioning.tell.what_if_buffers import preview

SCHEDULE, FOR = "tidewright.dev/buffer-schedule", "tidewright.dev/buffer-for"


def standing(cluster: Buffers) -> str:
    return " ".join(EXPLAINER.standing(cluster.state, Reference("capacitybuffer", "ns", "b"), cluster.now))


def scheduled(cluster: Buffers, minutes: int) -> str:
    """A window of ten minutes that opens in so many minutes, each day."""
    opens = datetime.fromtimestamp(cluster.now + 60 * minutes, UTC)
    return f"{opens.minute} {opens.hour} * * * 10m"


def test_outside_its_windows_a_buffer_has_no_chunks_and_in_them_it_has() -> None:
    cluster = Buffers({}, room=8)
    cluster.pod_template("t", pod_spec({"cpu": "1"}))
    cluster.buffer("b", CHUNKS, annotations={SCHEDULE: scheduled(cluster, 5)})
    cluster.settle()
    assert (cluster.status("b") or {})["replicas"] == 0
    assert said(cluster, cond.READY).status == "True"
    empty = said(cluster, cond.PROVISIONING)
    assert (empty.status, empty.reason) == ("False", "BufferIsEmpty")
    assert "outside the windows of its annotation" in standing(cluster)
    assert kept(cluster).wanted == 0
    before = len(cluster.said)
    cluster.advance(200)
    assert cluster.said[before:] == []
    cluster.advance(100)
    assert (kept(cluster).ready, (cluster.status("b") or {})["replicas"]) == (4, 4)
    assert said(cluster, cond.PROVISIONING).reason == "FakePodsInjected"
    cluster.advance(600)
    assert (kept(cluster).ready, kept(cluster).wanted) == (0, 0)
    assert said(cluster, cond.PROVISIONING).reason == "BufferIsEmpty"


def test_a_closed_buffer_leaves_its_part_of_the_quota_to_others() -> None:
    cluster = Buffers({}, room=8)
    cluster.tell(
        p.ResourceQuotaObserved(
            at=cluster.now, namespace="ns", name="q", hard={"requests.cpu": 4000}, used={}
        )
    )
    cluster.pod_template("t", pod_spec({"cpu": "1"}))
    cluster.buffer("a", CHUNKS, annotations={SCHEDULE: scheduled(cluster, 5)})
    cluster.buffer("b", CHUNKS)
    cluster.settle()
    assert kept(cluster).ready == 4


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        (SCHEDULE, "at eight", f"metadata.annotations[{SCHEDULE}]: 'at eight' has 2 parts; valid is for instance"),
        (SCHEDULE, "0 25 * * * 1h", "'0 25 * * * 1h': its hour cannot be read; valid is for instance"),
        (FOR, "app in web", f"metadata.annotations[{FOR}]: 'app in web' is no label selector"),
    ],
)  # fmt: skip
def test_an_annotation_that_cannot_be_read_is_named_with_its_value_and_what_is_valid(
    name: str, value: str, says: str
) -> None:
    cluster = Buffers({}, room=8)
    cluster.pod_template("t", pod_spec({"cpu": "1"}))
    cluster.buffer("b", CHUNKS, annotations={name: value})
    cluster.settle()
    ready = said(cluster, cond.READY)
    assert (ready.status, ready.reason) == ("False", "error")
    assert says in ready.message
    assert "valid is for instance" in ready.message
    cluster.buffer("b", CHUNKS, annotations={})
    cluster.settle()
    assert kept(cluster).ready == 4


def test_a_window_that_cannot_be_read_is_not_open_whoever_works_the_status_out() -> None:
    cluster = Buffers({"capacity-buffer-controller-enabled": False}, room=8)
    cluster.pod_template("t", pod_spec({"cpu": "1"}))
    ready = {
        "type": cond.READY,
        "status": "True",
        "reason": "r",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = {"conditions": [ready], "podTemplateRef": {"name": "t"}, "podTemplateGeneration": 1, "replicas": 4,
              "provisioningStrategy": "buffer.x-k8s.io/active-capacity"}  # fmt: skip
    cluster.buffer("b", CHUNKS, status=status, annotations={SCHEDULE: "at eight"})
    cluster.settle()
    assert kept(cluster).wanted == 0
    assert f"No room is kept for it: metadata.annotations[{SCHEDULE}]: 'at eight' has 2 parts" in standing(
        cluster
    )
    cluster.buffer("b", CHUNKS, status=status)
    cluster.settle()
    assert kept(cluster).wanted == 4


def burst(cluster: Buffers, pods: int, **labels: str) -> None:
    shape = cluster.shape({"cpu": 1000}, labels=labels)
    for number in range(pods):
        cluster.pod(f"p{number}", shape)


def bursting(**config: object) -> Buffers:
    cluster = Buffers({**config})
    cluster.boots = False
    cluster.add_group("g", cpu=1000, maximum=50)
    cluster.pod_template("t", pod_spec({"cpu": "1"}))
    cluster.buffer("b", CHUNKS, annotations={FOR: "app=web"})
    cluster.settle()
    cluster.boot("g")
    cluster.settle()
    assert kept(cluster).ready == 4
    return cluster


@pytest.mark.parametrize("profile", ["compat", "hold"])
def test_a_burst_does_not_pay_twice(profile: str) -> None:
    cluster = bursting(profile=profile)
    burst(cluster, 10, app="web")
    cluster.settle()
    # Four take the room of the chunks, six have nodes ordered, and no chunk has while they wait.
    assert cluster.groups["g"].target == 10
    assert said(cluster, cond.CAPACITY_READY).message.startswith(
        "0 of 4 chunks on ready nodes, 0 upcoming, 4 missing: 4 of them are not ordered while pods wait"
    )
    assert "while pods wait that tidewright.dev/buffer-for (app=web) means" in standing(cluster)
    cluster.boot("g")
    shape = cluster.shape({"cpu": 1000}, labels={"app": "web"})
    nodes = sorted(cluster.state.nodes)
    for number in range(8):
        cluster.pod(f"p{number}", shape, node=nodes[number])
    cluster.advance(30)
    assert cluster.groups["g"].target == 12  # two still wait: two of four are ordered
    for number in (8, 9):
        cluster.pod(f"p{number}", shape, node=nodes[number])
    cluster.advance(30)
    assert cluster.groups["g"].target == 14


def test_pods_that_it_is_not_for_and_those_of_other_namespaces_change_nothing() -> None:
    cluster = bursting()
    burst(cluster, 2, app="other")
    cluster.settle()
    assert cluster.groups["g"].target == 6


def test_a_pod_that_waits_counts_for_one_buffer() -> None:
    cluster = bursting()
    cluster.buffer("c", CHUNKS, annotations={FOR: "app"})
    cluster.settle()
    cluster.boot("g")
    cluster.settle()
    burst(cluster, 5, app="web")
    cluster.settle()
    # Five pods have their room among eight chunks: four chunks of the first buffer are spared, and one of the second.
    assert cluster.groups["g"].target == 8
    missing = [kept(cluster, name).missing for name in ("b", "c")]
    assert sum(missing) == 5


def test_plan_says_that_a_buffer_is_outside_its_windows() -> None:
    cluster = Buffers({}, room=8)
    template = {"t": {"spec": pod_spec({"cpu": "1"})}}
    closed = {SCHEDULE: scheduled(cluster, 30)}
    answer = preview(
        cluster.state, "ns", "b", CHUNKS, annotations=closed, templates=template, now=cluster.now
    )
    assert answer.result == "NotReady"
    assert any(
        "outside the windows of its annotation buffer-schedule until" in text for text in answer.sentences
    )
