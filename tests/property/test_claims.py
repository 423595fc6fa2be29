"""Claims, templates, slices and pods that come and go: a state that lived on is as one that is restored.

Beside the decider runs a second one whose state is made anew from the first one's as JSON before every event:
it must decide the same, byte for byte, and what it derives must come to the same after every evaluation.
"""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.provisioning.claimworld import GPU, by_template, claim_template, device, exactly, told
from tests.vectors.provisioning_life import Cluster
from tidewright.events import facts as f
from tidewright.events import provisioning as p
from tidewright.events import registry
from tidewright.events.base import Event, JsonObject
from tidewright.events.placement import PlacementObjectGone
from tidewright.host.fold.order import Fold
from tidewright.log.subjects import ALL
from tidewright.provisioning.decide import DECIDER
from tidewright.provisioning.evaluate import Evaluation
from tidewright.provisioning.index.index import Index
from tidewright.provisioning.index.indexing import index_of
from tidewright.provisioning.state import State

CHECK = "check-capacity.autoscaling.x-k8s.io"
NODES = ("n0", "n1", "n2")


def restored(state: State) -> State:
    return msgspec.json.decode(msgspec.json.encode(state), type=State)


def encoded(state: State) -> bytes:
    return msgspec.json.encode(state, order="sorted")


RESOURCE = "example.com/gpu"
ANY_OF_OURS = [{"cel": {"expression": f'device.driver == "{GPU}"'}}]


def derived(state: State) -> dict[str, Any]:
    """What placement sees of devices, once an evaluation has put it right."""
    Evaluation(state, "", binding=False)
    index: Index = index_of(state)
    devices = index.grid.devices
    return {
        "free": {
            name: {node: int(column[row]) for node, row in sorted(index.grid.rows.items())}
            for name, column in sorted(index.grid.free.items())
            if name != RESOURCE or column.any()  # nothing of it is as if no node had ever had any
        },
        "stocks": {node: devices.stocks.get(row) for node, row in sorted(index.grid.rows.items())},
        "common": devices.common,
        "shapes": {digest: (s.requests, s.claims) for digest, s in sorted(index.shapes.items())},
    }


class Twins(Cluster):
    """A cluster whose decider has a twin that is restored before every event."""

    def __init__(self) -> None:
        self.twin: Fold[State] = Fold(DECIDER, ALL)
        super().__init__()

    def tell(self, event: Event) -> None:
        inbox = [event]
        while inbox:
            following = inbox.pop(0)
            self.seq += 1
            body = registry.encode(following)
            self.twin.state = restored(self.state)
            other = registry.decode(body)
            assert isinstance(other, Event)
            ours, theirs = (
                fold.step(self.seq, body, one) for fold, one in ((self.fold, following), (self.twin, other))
            )
            assert [d.body for d in ours] == [d.body for d in theirs]
            assert encoded(self.state) == encoded(self.twin.state)
            for decided in ours:
                self.said.append(decided.decision)
                self._inbox = []
                self._act(decided.decision)
                inbox += self._inbox

    def compare(self) -> None:
        assert derived(self.state) == derived(restored(self.state))


def asked(chance: Random) -> JsonObject:
    """One of many requests whose matchers overlap."""
    model = chance.choice(("a100", "h100", ""))
    expression = f'device.attributes["{GPU}"].model == "{model}"' if model else "true"
    more: dict[str, Any] = {}
    if chance.random() < 0.15:
        more["allocationMode"] = "All"
    elif chance.random() < 0.15:
        more["adminAccess"] = True
    return exactly(
        count=chance.choice((1, 1, 2)), expression=f"{expression} && {chance.randrange(8)} >= 0", **more
    )


def slice_of(chance: Random, cluster: Cluster) -> None:
    """A slice about a node, about all of them, or one whose devices say it; its pool may have other slices."""
    name = f"s{chance.randrange(5)}"
    where: JsonObject = {"nodeName": chance.choice(NODES)} if chance.random() < 0.75 else {"allNodes": True}
    places: list[JsonObject] = [{}] * 5
    if chance.random() < 0.2:
        where = {"perDeviceNodeSelection": True}
        places = [
            chance.choice(({"nodeName": "n0"}, {"nodeName": "n1"}, {"allNodes": True})) for _ in range(5)
        ]
    if chance.random() < 0.3:
        where["sharedCounters"] = [{"name": "c", "counters": {"memory": {"value": "2"}}}]
    pool = {
        "name": chance.choice(("x", "y", name)),
        "generation": chance.randrange(1, 4),
        "resourceSliceCount": 1,
    }
    devices = [
        {**device(f"{name}-{i}", chance.choice(("a100", "h100"))), **places[i], **part_of(chance)}
        for i in range(chance.randrange(5))
    ]
    told(cluster, "ResourceSlice", name, spec={"driver": GPU, "pool": pool, "devices": devices, **where})


def part_of(chance: Random) -> JsonObject:
    """What makes a device part of another, or lets claims have parts of it."""
    if chance.random() < 0.2:
        return {"consumesCounters": [{"counterSet": "c", "counters": {"memory": {"value": "1"}}}]}
    return {"allowMultipleAllocations": True} if chance.random() < 0.2 else {}


def allocated(chance: Random, cluster: Cluster) -> None:
    taken = f"s{chance.randrange(5)}"
    result: JsonObject = {
        "request": "g",
        "driver": GPU,
        "pool": taken,
        "device": f"{taken}-{chance.randrange(4)}",
    }
    if chance.random() < 0.3:
        result |= {"shareID": "1", "consumedCapacity": {"memory": "10Gi"}}
    status: JsonObject = {}
    if chance.random() < 0.7:
        users = [{"uid": f"{i}"} for i in range(chance.choice((0, 1, 255, 256)))]
        status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": users}
    told(
        cluster, "ResourceClaim", f"c{chance.randrange(3)}", "ns",
        spec={"devices": {"requests": [asked(chance)]}}, status=status,
    )  # fmt: skip


def gone(cluster: Cluster, kind: str, name: str, namespace: str = "") -> None:
    cluster.tell(PlacementObjectGone(at=cluster.now, namespace=namespace, name=name, kind=kind))


def happens(chance: Random, cluster: Twins) -> None:
    what = chance.randrange(16)
    number = chance.randrange(10)
    match what:
        case 0 | 1:
            claim_template(cluster, f"t{number}", asked(chance))
        case 2:
            gone(cluster, "ResourceClaimTemplate", f"t{number}", "ns")
        case 3 | 4 | 5:
            claims = by_template(f"t{number}")
            if chance.random() < 0.2:
                claims = [{"name": "c", "resourceClaimName": f"c{chance.randrange(3)}"}]
            shape = cluster.shape({"cpu": 10}, {"resourceClaims": claims})
            if chance.random() < 0.4:
                shape = cluster.shape({"cpu": 10, RESOURCE: 1})
            node = chance.choice(NODES) if chance.random() < 0.3 else ""
            cluster.pod(f"p{number}", shape, node=node)
        case 6 | 7:
            cluster.tell(f.PodGone(at=cluster.now, namespace="ns", name=f"p{number}"))
        case 8:
            slice_of(chance, cluster)
        case 9:
            gone(cluster, "ResourceSlice", f"s{chance.randrange(5)}")
        case 10:
            allocated(chance, cluster)
        case 11:
            taint = {"key": "broken", "effect": "NoSchedule"}
            selector = (
                {"device": f"d{chance.randrange(3)}"}
                if chance.random() < 0.7
                else {"pool": chance.choice(NODES)}
            )
            told(
                cluster,
                "DeviceTaintRule",
                f"r{chance.randrange(2)}",
                spec={"deviceSelector": selector, "taint": taint},
            )
        case 12:
            gone(cluster, "DeviceTaintRule", f"r{chance.randrange(2)}")
        case 13:
            stands = {"extendedResourceName": RESOURCE} if chance.random() < 0.7 else {}
            told(
                cluster,
                "DeviceClass",
                chance.choice(("gpu", "other")),
                spec={**stands, "selectors": ANY_OF_OURS},
            )
        case 14:
            amounts = {RESOURCE: chance.randrange(3)} if chance.random() < 0.5 else {}
            cluster.add_node(chance.choice(NODES), "", **amounts)
        case _ if chance.random() < 0.5:
            cluster.template(f"w{number}", "10m", resourceClaims=by_template(f"t{number}"))
            cluster.request(f"r{number}", CHECK, [(f"w{number}", 2)], {"BookingSeconds": "20"})
        case _:
            cluster.tell(p.ProvisioningRequestGone(at=cluster.now, namespace="ns", name=f"r{number}"))


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32))
def test_a_state_that_lived_on_is_as_one_that_is_restored(seed: int) -> None:
    chance, cluster = Random(seed), Twins()
    told(
        cluster,
        "DeviceClass",
        "gpu",
        spec={"selectors": [{"cel": {"expression": f'device.driver == "{GPU}"'}}]},
    )
    cluster.add_group("g", maximum=3)
    for node in NODES:
        cluster.add_node(node)
    for _ in range(40):
        happens(chance, cluster)
        if chance.random() < 0.3:
            cluster.advance(chance.choice((2.0, 2.0, 15.0, 70.0)))
            cluster.compare()


def test_templates_that_come_and_go_leave_nothing_behind() -> None:
    cluster = Cluster()
    told(cluster, "DeviceClass", "gpu", spec={"selectors": [{"cel": {"expression": "true"}}]})
    cluster.add_node("n0")
    spec = {"driver": GPU, "pool": {"name": "x", "generation": 1}, "nodeName": "n0", "devices": [device("d")]}
    told(cluster, "ResourceSlice", "s", spec=spec)
    columns: list[int] = []
    for number in range(12):
        claim_template(cluster, f"t{number}", exactly(expression=f"{number} >= 0"))
        cluster.pod("p", cluster.shape({"cpu": 100}, {"resourceClaims": by_template(f"t{number}")}))
        cluster.settle()
        columns.append(len(index_of(cluster.state).grid.free))
        gone(cluster, "ResourceClaimTemplate", f"t{number}", "ns")
    assert columns == columns[:1] * 12
