"""What an evaluation takes for granted about nodes and pods: spec 3.2, 3.4 and 3.5, sentence by sentence."""

from __future__ import annotations

import msgspec
import pytest

from tests.vectors.provisioning_life import Cluster
from tidewright.events import facts as f
from tidewright.events import provisioning as p
from tidewright.events.base import JsonObject
from tidewright.kube import kinds, podspecs
from tidewright.kube.keys import request_key
from tidewright.provisioning.cluster.view import look
from tidewright.provisioning.fold import evolve
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.index.indexing import index_of
from tidewright.provisioning.requests import conditions as cond
from tidewright.provisioning.state import State

CHECK = "check-capacity.autoscaling.x-k8s.io"
ZONE = "topology.kubernetes.io/zone"
STARTING = {"key": "startup-taint.cluster-autoscaler.kubernetes.io/x", "value": "", "effect": "NoSchedule"}


def provisioned(cluster: Cluster, name: str) -> bool:
    return cond.is_true(cluster.conditions(name).values(), cond.PROVISIONED)


def on_node(cluster: Cluster, name: str, **changes: object) -> None:
    """Tell a node again as a fact with these changes."""
    node = cluster.state.nodes[name]
    fact = f.NodeObserved(
        at=cluster.now,
        name=name,
        labels=node.labels,
        allocatable=node.allocatable,
        ready=True,
        ready_changed_at=cluster.now - 120,
        created_at=cluster.now - 180,
        provider_id=node.provider_id,
    )
    cluster.tell(msgspec.structs.replace(fact, **changes))


def test_a_node_that_has_not_started_is_counted_once_as_one_that_is_on_its_way() -> None:
    cluster = Cluster(boots=False)
    cluster.add_group("g", cpu=4000)
    everywhere = {"tolerations": [{"operator": "Exists"}]}
    shape = cluster.shape({"cpu": 3000}, everywhere)
    cluster.pod("p1", shape)
    cluster.settle()
    node = cluster.node_fact("g", "g-new-1")
    assert isinstance(node, f.NodeObserved)
    cluster.tell(msgspec.structs.replace(node, taints=(STARTING,)))
    cluster.pod("p2", shape)  # tolerates the taint; the node it would go to is promised to the first
    cluster.settle()
    assert [d.size for d in cluster.of(p.IncreaseNodeGroup)] == [1, 2]


def test_a_group_without_a_good_node_remembers_the_last_one() -> None:
    cluster = Cluster({"scale-down-enabled": False}, boots=False)
    cluster.add_group("g", cpu=4000, target=1)
    cluster.add_node("n", "g", **{"example.com/disk": 1})
    on_node(cluster, "n", unschedulable=True)
    wanted = cluster.shape({"cpu": 1000, "example.com/disk": 1})
    cluster.pod("p", wanted)
    cluster.settle()
    assert [d.size for d in cluster.of(p.IncreaseNodeGroup)] == [2]


def test_a_node_that_was_never_ready_is_no_template() -> None:
    cluster = Cluster({"scale-down-enabled": False})
    cluster.add_group("g", cpu=4000, target=1)
    cluster.add_node("n", "g", cpu=100)
    on_node(cluster, "n", ready=False)
    cluster.state.groups[NodeGroupId("g")].patterns = ()
    cluster.tell(f.NodeGone(at=cluster.now, name="n"))
    assert cluster.state.groups[NodeGroupId("g")].patterns == ()
    template = (
        look(cluster.state, index_of(cluster.state), cluster.now).groups[NodeGroupId("g")].group.template
    )
    assert template is not None
    assert template.view.allocatable["cpu"] == 4000


def test_ports_of_a_container_that_ends_before_the_others_are_free_again() -> None:
    port = [{"containerPort": 1, "hostPort": 1}]
    spec = {"containers": [], "initContainers": [{"ports": port}, {"ports": port, "restartPolicy": "Always"}]}
    assert len(podspecs.scheduling_fields(spec)["hostPorts"]) == 1


@pytest.mark.parametrize("by", ["selector", "keys"])
def test_spread_counts_pods_of_its_own_revision(by: str) -> None:
    cluster = Cluster()
    for name, zone in (("n1", "a"), ("n2", "b")):
        cluster.add_node(name)
        on_node(cluster, name, labels={ZONE: zone, "kubernetes.io/hostname": name})
    constraint: JsonObject = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "x"}},
    }

    def pod(name: str, revision: str, node: str = "") -> None:
        labels = {"app": "x", "pod-template-hash": revision}
        told = dict(constraint)
        if by == "keys":
            told["matchLabelKeys"] = ["pod-template-hash"]
        else:
            told["labelSelector"] = {"matchLabels": labels}
        resources = {"requests": {"cpu": "1500m"}}
        raw = {
            "metadata": {"name": name, "namespace": "ns", "uid": name, "labels": labels},
            "spec": {
                "containers": [{"name": "c", "resources": resources}],
                "topologySpreadConstraints": [told],
                **({"nodeName": node} if node else {}),
            },
            "status": {"phase": "Running" if node else "Pending"},
        }
        found = kinds.BY_NAME["pod"].project(msgspec.json.encode(raw))
        assert found.shape is not None
        assert isinstance(found.fact, f.PodObserved)
        cluster.tell(msgspec.structs.replace(found.shape, at=cluster.now))
        since = None if node else cluster.now
        cluster.tell(msgspec.structs.replace(found.fact, at=cluster.now, unschedulable_since=since))

    for i in range(2):  # of the old revision zone a is full
        pod(f"old{i}", "1", "n1")
    cluster.add_group("g", labels={ZONE: "a"})
    pod("new", "2", "n2")
    pod("newer", "2")  # zone b has one more of its revision than zone a, whatever the old ones are
    cluster.settle()
    assert [d.size for d in cluster.of(p.IncreaseNodeGroup)] == [1]


def test_the_first_of_a_set_goes_anywhere_while_those_there_are_in_no_domain() -> None:
    cluster = Cluster()
    cluster.add_node("outside")
    cluster.add_node("inside")
    on_node(cluster, "inside", labels={ZONE: "a"})
    together = {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "x"}}}
            ]
        }
    }
    cluster.pod("there", cluster.shape({"cpu": 1}, {}, labels={"app": "x"}), node="outside")
    cluster.pod("p", cluster.shape({"cpu": 1}, {"affinity": together}, labels={"app": "x"}))
    cluster.add_group("g", labels={ZONE: "a"})
    cluster.settle()
    assert cluster.of(p.PlanScaleUp) == []  # it fits inside


@pytest.mark.parametrize(
    ("flag", "starting"), [("startup-taint", 1), ("ignore-taint", 1), ("status-taint", 0)]
)
def test_taints_that_settings_name_pass(flag: str, starting: int) -> None:
    cluster = Cluster({flag: ["example.com/warming", "other"], "scale-down-enabled": False})
    cluster.add_group("g", cpu=4000, target=1)
    cluster.add_node("n", "g")
    on_node(cluster, "n", taints=({"key": "example.com/warming", "value": "", "effect": "NoSchedule"},))
    group = look(cluster.state, index_of(cluster.state), cluster.now).groups[NodeGroupId("g")]
    assert group.counts.not_started == starting
    assert group.group.template is not None
    assert group.group.template.view.taints == ()


def test_static_pods_of_a_template_take_room_on_every_new_node() -> None:
    cluster = Cluster(boots=False)
    cluster.add_group("g", cpu=4000)
    proxy = {
        "metadata": {"name": "proxy"},
        "spec": {"containers": [{"resources": {"requests": {"cpu": "1"}}}]},
    }
    group = cluster.groups[NodeGroupId("g")]
    group.template = msgspec.structs.replace(group.template, pods=(proxy,))
    cluster.observe_group("g")
    shape = cluster.shape({"cpu": 2000})
    for i in range(2):  # without it, one node would do
        cluster.pod(f"p{i}", shape)
    cluster.settle()
    assert [d.size for d in cluster.of(p.IncreaseNodeGroup)] == [2]


def test_a_pod_that_goes_first_after_a_restart_frees_its_room_once() -> None:
    cluster = Cluster()
    cluster.add_node("n", cpu=4000)
    cluster.pod("a", cluster.shape({"cpu": 1000}), node="n")
    state = msgspec.json.decode(msgspec.json.encode(cluster.state), type=State)
    evolve.evolve(state, f.PodGone(at=cluster.now, namespace="ns", name="a"))
    grid = index_of(state).grid
    assert int(grid.free["cpu"][grid.rows["n"]]) == 4000


def test_a_shape_stays_while_a_request_has_it_whatever_becomes_of_pods() -> None:
    cluster = Cluster({"booking-duration": "1m"})
    cluster.add_node("n", cpu=4000)
    cluster.template("t", "1")
    cluster.request("r", CHECK, [("t", 2)])
    cluster.settle()
    [(shape, _)] = cluster.state.requests[request_key("ns", "r")].sets
    fields = cluster.state.shapes[shape]
    told = f.ShapeObserved(
        at=cluster.now, digest=shape, requests=fields.requests, namespace="ns", labels=fields.labels
    )
    cluster.tell(told)
    cluster.pod("a", shape, node="n")
    cluster.tell(f.PodGone(at=cluster.now, namespace="ns", name="a"))
    cluster.tell(f.ShapeGone(at=cluster.now, digest=shape, namespace="ns"))
    assert cluster.state.shapes[shape].requests == fields.requests
    cluster.delete_request("r")
    assert shape not in cluster.state.shapes
    cluster.tell(told)
    cluster.pod("b", shape, node="n")
    grid = index_of(cluster.state).grid
    assert int(grid.free["cpu"][grid.rows["n"]]) == 3000
