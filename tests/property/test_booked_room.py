"""In `hold` the room that is held for a booking never falls below what is booked, whatever comes and goes beside it."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.vectors.capacity_buffers import Buffers, pod_spec, priority_class
from tidewright.events import facts as f
from tidewright.kube.keys import name_of, parts
from tidewright.provisioning.requests import conditions as cond
from tidewright.provisioning.requests.spec import CONSUME

CHECK = "check-capacity.autoscaling.x-k8s.io"
ATOMIC = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"


class Scheduled(Buffers):
    """A cluster with a scheduler: pods go where room is, and displace the placeholders of buffers."""

    def __init__(self) -> None:
        super().__init__({"profile": "hold", "namespace": "system", "booking-duration": "2h"})
        self.tell(priority_class(self.now))
        self.add_group("g", cpu=4000, maximum=4)
        for name, cpu in (("one", "1"), ("two", "2")):
            self.template(name, cpu)
            self.pod_template(f"chunk-{name}", pod_spec({"cpu": cpu}))

    def cpu(self, digest: str) -> int:
        return self.state.shapes[digest].requests["cpu"]

    def free(self) -> dict[str, int]:
        """What no pod asks for, by node."""
        free = {name: node.allocatable["cpu"] for name, node in self.state.nodes.items()}
        for pod in self.state.pods.values():
            if pod.node in free:
                free[pod.node] -= self.cpu(pod.shape)
        return free

    def schedule(self) -> None:
        """Consumers first: a placeholder has gone for each that found no room."""
        waiting = [(not pod.consumes, key) for key, pod in self.state.pods.items() if not pod.node]
        for _, key in sorted(waiting):
            pod = self.state.pods[key]
            where = self.room(self.cpu(pod.shape))
            if where:
                notes = {CONSUME: name_of(pod.consumes)} if pod.consumes else {}
                self.pod(name_of(key), pod.shape, node=where, annotations=notes)
                self.settle()

    def room(self, cpu: int) -> str:
        """A node with room, made by displacing the chunks on it where there is none."""
        free = self.free()
        fitting = [name for name, left in sorted(free.items()) if left >= cpu]
        if fitting:
            return fitting[0]
        for name, left in sorted(free.items()):
            chunks = [
                key
                for key in self.state.held_chunks
                if key in self.state.pods and self.state.pods[key].node == name
            ]
            if left + sum(self.cpu(self.state.pods[key].shape) for key in chunks) >= cpu:
                for key in chunks:
                    namespace, pod = parts(key)
                    self.tell(f.PodGone(at=self.now, namespace=namespace, name=pod))
                return name
        return ""


def step(cluster: Scheduled, chance: Random, number: int) -> None:
    match chance.randrange(8):
        case 0:
            cluster.add_node(f"n{number}", cpu=4000)
        case 1 | 2:
            kind, size = chance.choice((CHECK, ATOMIC)), chance.choice(("one", "two"))
            cluster.request(f"r{number}", kind, [(size, chance.randint(1, 3))])
        case 3 | 4:
            booked = [key for key in cluster.state.requests if in_force(cluster, key)]
            if booked:
                consume(cluster, name_of(chance.choice(sorted(booked))), number)
        case 5:
            cluster.pod(f"p{number}", cluster.shape({"cpu": chance.choice((1000, 2000))}))
        case 6:
            size = chance.choice(("one", "two"))
            spec = {"podTemplateRef": {"name": f"chunk-{size}"}, "replicas": chance.randrange(4)}
            cluster.buffer(f"b{chance.randrange(2)}", spec)
        case _:
            ordinary = [key for key in sorted(cluster.state.pods) if name_of(key).startswith("p")]
            if ordinary:
                gone = name_of(chance.choice(ordinary))
                cluster.tell(f.PodGone(at=cluster.now, namespace="ns", name=gone))
    cluster.advance(chance.choice((0.01, 2.0, 30.0)))


def consume(cluster: Scheduled, request: str, number: int) -> None:
    """One more of the pods of a request, as long as it lacks some."""
    key = next(key for key in cluster.state.requests if name_of(key) == request)
    ((digest, many),) = cluster.state.requests[key].sets
    if sum(pod.consumes == key for pod in cluster.state.pods.values()) < many:
        shape = cluster.shape({"cpu": cluster.cpu(digest)})
        cluster.pod(f"c{number}", shape, annotations={CONSUME: request})


def in_force(cluster: Scheduled, key: str) -> bool:
    request = next(r for k, r in cluster.state.requests.items() if k == key)
    return cond.bookable(request.conditions) and bool(request.sets)


def check(cluster: Scheduled) -> None:
    state = cluster.state
    assert all(left >= 0 for left in cluster.free().values()), "a node has more pods than room"
    for key, request in state.requests.items():
        if not in_force(cluster, key):
            continue
        booked = sum(many for _, many in request.sets)
        come = sum(pod.consumes == key for pod in state.pods.values())
        held = sum(
            placeholder.request == key and not placeholder.leaving and name in state.pods
            for name, placeholder in state.held.items()
        )
        assert held + come >= booked, f"{key}: {held} held and {come} come of {booked}"


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_held_room_never_falls_below_what_is_booked(seed: int) -> None:
    chance = Random(seed)
    cluster = Scheduled()
    for number in range(2):
        cluster.add_node(f"first-{number}", cpu=4000)
    for number in range(chance.randrange(6, 22)):
        step(cluster, chance, number)
        cluster.settle()
        cluster.schedule()
        cluster.advance(15.0)
        check(cluster)
    cluster.advance(60.0)
    cluster.schedule()
    assert not [key for key, pod in cluster.state.pods.items() if pod.consumes and not pod.node]
