"""The invariants of buffers (spec 8 of capacity-buffers) over random clusters, pods, quotas and buffers."""

from __future__ import annotations

from random import Random

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.vectors.capacity_buffers import Buffers, pod_spec, priority_class
from tidewright.events import facts as f
from tidewright.events import provisioning as p
from tidewright.kube.keys import name_of
from tidewright.provisioning.buffers.room import held
from tidewright.provisioning.evaluate import Evaluation
from tidewright.provisioning.state import State

CHECK = "check-capacity.autoscaling.x-k8s.io"
HARD = 6000


def step(cluster: Buffers, chance: Random, number: int) -> None:
    match chance.randrange(8):
        case 0:
            cluster.add_node(f"n{number}", cpu=chance.choice((1000, 2000, 4000)))
        case 1 | 2:
            cpu = chance.choice((500, 1000, 2000))
            cluster.buffer(
                f"b{chance.randrange(3)}",
                {"podTemplateRef": {"name": f"t{cpu}"}, "replicas": chance.randrange(6)},
            )
        case 3:
            cluster.pod(f"p{number}", cluster.shape({"cpu": chance.choice((500, 1500))}))
        case 4 if cluster.state.pods:
            key = chance.choice(sorted(cluster.state.pods))
            if key not in cluster.state.held_chunks and key not in cluster.state.held:
                cluster.tell(f.PodGone(at=cluster.now, namespace="ns", name=name_of(key)))
        case 5:
            name = f"b{chance.randrange(3)}"
            cluster.tell(p.CapacityBufferGone(at=cluster.now, namespace="ns", name=name, uid=f"uid-{name}"))
        case 6:
            cluster.template("one", "1")
            cluster.request(f"r{number}", CHECK, [("one", chance.randrange(1, 3))])
        case _:
            free = {"requests.cpu": HARD}
            used = {"requests.cpu": chance.randrange(0, HARD, 500)}
            cluster.tell(
                p.ResourceQuotaObserved(at=cluster.now, namespace="ns", name="q", hard=free, used=used)
            )
    cluster.advance(chance.choice((0.01, 2.0, 30.0)))


def check(cluster: Buffers) -> None:
    state = cluster.state
    for buffer in state.buffers.values():
        written = buffer.written or {}
        assert sum(buffer.places.values()) == buffer.ready
        assert buffer.ready + buffer.upcoming + buffer.missing == buffer.wanted <= written.get("replicas", 0)
        assert buffer.wanted <= buffer.spec["replicas"]
    room = held(state)
    for name, node in state.nodes.items():
        mine = [pod for pod in state.pods.values() if pod.node == name]
        real = sum(_cpu(cluster, pod.shape) for pod in mine if state.shapes[pod.shape].priority >= -10)
        chunks = sum(_cpu(cluster, digest) * many for digest, many in room.get(name, {}).items())
        assert real + chunks <= node.allocatable["cpu"], f"{name} is given twice"
    holding = {key for key, chunk in state.held_chunks.items() if not chunk.leaving}
    assert all(state.held_chunks[key].buffer in state.buffers for key in holding)
    for quota in state.quotas.values():
        taken = sum(_cpu(cluster, b.shape) * b.wanted for b in state.buffers.values() if b.shape)
        used = quota.used["requests.cpu"]
        assert taken + used <= quota.hard["requests.cpu"] or not taken


def _cpu(cluster: Buffers, digest: str) -> int:
    return cluster.state.shapes[digest].requests["cpu"]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.booleans(), st.booleans())
def test_no_room_is_given_twice_and_a_second_look_changes_nothing(seed: int, hold: bool, uses: bool) -> None:
    chance = Random(seed)
    config = {"profile": "hold" if hold else "compat", "namespace": "system", "requests-use-buffers": uses}
    cluster = Buffers(config)
    cluster.tell(priority_class(cluster.now))
    cluster.add_group("g", cpu=2000, maximum=3)
    for cpu in (500, 1000, 2000):
        cluster.pod_template(f"t{cpu}", pod_spec({"cpu": f"{cpu}m"}))
    for number in range(chance.randrange(3, 14)):
        step(cluster, chance, number)
    cluster.advance(60.0)
    check(cluster)
    before = len(cluster.said)
    cluster.advance(40.0)
    check(cluster)
    again = [d for d in cluster.said[before:] if isinstance(d, p.FillBuffer | p.PlanScaleUp)]
    # A request that is tried again may take the room of a buffer then; nothing else changes by itself.
    assert again == [] or any(isinstance(d, p.AttemptRequest) for d in cluster.said[before:])
    copied = msgspec.json.decode(msgspec.json.encode(cluster.state), type=State)
    live, restored = (Evaluation(state, seed="x").run() for state in (cluster.state, copied))
    assert live == restored
