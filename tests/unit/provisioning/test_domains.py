"""Gangs with a topology stay in the domain in which they have their room: what is booked, and what grows. [B8]"""

from __future__ import annotations

from tests.vectors.provisioning_life import Cluster
from tidewright.events import facts as f
from tidewright.events import provisioning as p
from tidewright.kube.keys import request_key
from tidewright.provisioning.requests import conditions as cond

CHECK = "check-capacity.autoscaling.x-k8s.io"
ATOMIC = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
ZONE = "topology.kubernetes.io/zone"


def zoned(cluster: Cluster, name: str, zone: str, cpu: int) -> None:
    allocatable = {"cpu": cpu, "memory": 2**34, "pods": 110}
    cluster.tell(
        f.NodeObserved(
            at=cluster.now,
            name=name,
            labels={ZONE: zone, "kubernetes.io/hostname": name},
            allocatable=allocatable,
            ready=True,
        )
    )


def provisioned(cluster: Cluster, name: str) -> bool:
    return cond.is_true(cluster.conditions(name).values(), cond.PROVISIONED)


def sizes(cluster: Cluster) -> dict[str, int]:
    return {name: group.target for name, group in cluster.groups.items()}


def gang(maximum: int) -> Cluster:
    """Five pods of which two are enough; zone b is the larger one at first."""
    cluster = Cluster({"scale-down-enabled": False})
    cluster.add_group("a", maximum=1, labels={ZONE: "a"})
    cluster.add_group("b", maximum=maximum, labels={ZONE: "b"})
    cluster.template("three", "3")
    cluster.request(
        "gang", ATOMIC, [("three", 5)], {"MinCount": "2", "Topology": ZONE, "BookingSeconds": "7200"}
    )
    cluster.settle()
    return cluster


def test_a_gang_grows_where_it_is() -> None:
    cluster = gang(maximum=3)
    assert sizes(cluster) == {"a": 0, "b": 2}
    cluster.groups["a"].maximum = 100
    cluster.observe_group("a")
    cluster.advance(600)
    assert sizes(cluster) == {"a": 0, "b": 3}
    cluster.groups["b"].maximum = 9
    cluster.observe_group("b")
    cluster.advance(700)
    assert sizes(cluster) == {"a": 0, "b": 5}
    assert cluster.conditions("gang")["FullyProvisioned"].status == "True"
    assert cluster.statuses["ns/gang"]["provisioningClassDetails"]["topology"] == "b"


def test_what_is_booked_stays_in_its_domain() -> None:
    cluster = Cluster()
    zoned(cluster, "n1", "a", 4000)
    zoned(cluster, "n2", "b", 3000)
    cluster.template("one", "1")
    cluster.template("three", "3")
    cluster.request("gang", CHECK, [("one", 3)], {"Topology": ZONE})
    cluster.settle()
    assert cluster.statuses["ns/gang"]["provisioningClassDetails"]["topology"] == "a"
    cluster.request("other", CHECK, [("three", 1)])
    cluster.settle()
    assert provisioned(cluster, "other")
    cluster.request("more", CHECK, [("three", 1)])
    cluster.settle()
    assert not provisioned(cluster, "more")


def test_pod_sets_with_domains_of_their_own_are_told_apart() -> None:
    cluster = Cluster()
    zoned(cluster, "n1", "a", 4000)
    zoned(cluster, "n2", "b", 3000)
    cluster.template("three", "3")
    parameters = {"Topology": ZONE, "TopologyScope": "PodSet"}
    cluster.request("gang", CHECK, [("three", 1), ("three", 1)], parameters)
    cluster.settle()
    details = cluster.statuses["ns/gang"]["provisioningClassDetails"]
    assert (details["topology.0"], details["topology.1"]) == ("a", "b")


def test_placeholders_of_a_gang_stand_in_its_domain() -> None:
    cluster = Cluster({"profile": "hold"})
    zoned(cluster, "n1", "a", 4000)
    zoned(cluster, "n2", "b", 3000)
    cluster.template("one", "1")
    cluster.request("gang", CHECK, [("one", 3)], {"Topology": ZONE})
    cluster.settle()
    held = cluster.state.held.values()
    assert [(h.request, h.node) for h in held] == [("ns/gang", "n1")] * 3
    cluster.advance(5)
    assert len(cluster.state.held) == 3
    assert all(h.shape.endswith(f"@{ZONE}=a") for h in held)


def test_a_domain_that_was_not_recorded_is_that_of_the_pods_there() -> None:
    cluster = gang(maximum=3)
    request = cluster.state.requests[request_key("ns", "gang")]
    shape = cluster.shape({"cpu": 3000, "memory": 2**20})
    nodes = sorted(cluster.state.nodes)
    for i, node in enumerate(nodes):
        cluster.pod(
            f"c{i}",
            shape,
            node=node,
            annotations={"autoscaling.x-k8s.io/consume-provisioning-request": "gang"},
        )
    request.domains = ()
    cluster.groups["a"].maximum = 100
    cluster.observe_group("a")
    cluster.advance(400)
    assert sizes(cluster) == {"a": 0, "b": 3}
    assert len(cluster.of(p.AttemptRequest)) >= 2
