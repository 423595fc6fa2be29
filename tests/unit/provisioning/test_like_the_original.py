"""What the original's own code was seen to do beyond the specification's cases, each by a small case of ours."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from tests.unit.provisioning.watched import three_nodes
from tests.vectors.provisioning_scaledown_plans import found_in, memory_of, scene_of, settings_of
from tests.vectors.provisioning_world import NOW
from tidewright.events.base import JsonObject
from tidewright.kube.keys import pod_key
from tidewright.kube.podshape import NodeView, PodShape, PodTerm, TopologySpread
from tidewright.kube.selectors import LabelSelector
from tidewright.kube.taints import Taint
from tidewright.provisioning.cluster.cluster_state import Readiness, readiness
from tidewright.provisioning.differences import DIFFERENCES
from tidewright.provisioning.index.indexing import index_of
from tidewright.provisioning.pack.classes import Item
from tidewright.provisioning.pack.estimate import UNLIMITED, Fill, Order, _Counting, estimate
from tidewright.provisioning.pack.grid import Grid
from tidewright.provisioning.pack.runs import Needs, Runs, needs_of
from tidewright.provisioning.pack.templates import Estimate, Template
from tidewright.provisioning.pack.topology import Walk
from tidewright.provisioning.scaledown import passes
from tidewright.provisioning.scaledown.simulation.placing import Destinations
from tidewright.provisioning.state import State

ALL = tuple(DIFFERENCES)
ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
CA = "cluster-autoscaler.kubernetes.io/"


def node(name: str, cpu: str = "4", **more: object) -> JsonObject:
    labels = {HOST: name, ZONE: name}
    allocatable = {"cpu": cpu, "memory": "8Gi", "pods": "110", **more.pop("allocatable", {})}  # type: ignore[dict-item]
    return {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": allocatable}, **more}


def pod(name: str, on: str, kind: str = "ReplicaSet", *, cpu: str = "100m", **more: JsonObject) -> JsonObject:
    group = {"ReplicationController": "v1", "Job": "batch/v1"}.get(kind, "apps/v1")
    owner = {"apiVersion": group, "kind": kind, "name": "a", "uid": "a", "controller": True}
    return {
        "metadata": {"name": name, "labels": {"app": "a"}, "ownerReferences": [owner]}
        | more.get("metadata", {}),
        "spec": {"nodeName": on, "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}
        | more.get("spec", {}),
    }


def case(nodes: list[JsonObject], pods: list[JsonObject], **more: object) -> JsonObject:
    names = [one["metadata"]["name"] for one in nodes]
    return {
        "nodes": nodes,
        "pods": pods,
        "groups": [{"id": "g", "nodes": names, "target": len(names), "min": 0, "max": 9}],
        "controllers": [{"kind": "ReplicaSet", "namespace": "default", "name": "a", "replicas": 2}],
        "passes": [0],
        **more,
    }


def first_pass(scene: JsonObject, ways: tuple[str, ...] = ALL) -> JsonObject:
    found: JsonObject = found_in(scene, ways)["passes"][0]
    return found


def test_that_a_nodes_use_cannot_be_told_comes_before_that_it_is_not_ready() -> None:
    unready = {"conditions": [{"type": "Ready", "status": "False"}]}
    silent, plain = node("a"), node("b")
    for one in (silent, plain):
        one["status"].update(unready)
    del silent["status"]["allocatable"]["cpu"]
    found = first_pass(case([silent, plain], [], settings={"scale_down_unready_enabled": False}))
    assert found["unremovable"] == {
        "a": {"reason": "UnexpectedError"},
        "b": {"reason": "ScaleDownUnreadyDisabled"},
    }
    assert found["utilization"] == {}


@pytest.mark.parametrize("kind", ["disk-pressure", "network-unavailable"])
def test_a_node_out_of_disk_or_without_network_is_not_ready(kind: str) -> None:
    taints = [Taint(f"node.kubernetes.io/{kind}", "", "NoSchedule")]
    assert readiness(ready=True, age_s=900.0, taints=taints, startup_s=600.0) is Readiness.UNREADY
    assert readiness(ready=True, age_s=900.0, taints=[], startup_s=600.0) is Readiness.READY


def test_that_a_node_cannot_be_reached_is_said_by_its_condition() -> None:
    """The taint of a node that is ready is about to go; of one that is not, it says nothing new."""
    taints = [Taint("node.kubernetes.io/unreachable", "", "NoExecute")]
    assert readiness(ready=True, age_s=900.0, taints=taints, startup_s=600.0) is Readiness.READY
    assert readiness(ready=False, age_s=900.0, taints=taints, startup_s=600.0) is Readiness.UNREADY


@pytest.mark.parametrize(
    ("kind", "drain"),
    [
        ("ReplicaSet", {"daemonset": ["default/p"]}),
        ("Job", {"daemonset": ["default/p"]}),
        ("ReplicationController", {"blocking": {"pod": "default/p", "reason": "ControllerNotFound"}}),
        ("DaemonSet", {"blocking": {"pod": "default/p", "reason": "ControllerNotFound"}}),
    ],
)
def test_of_a_pod_that_counts_as_a_daemons_few_controllers_are_looked_up(
    kind: str, drain: JsonObject
) -> None:
    said = {"annotations": {f"{CA}daemonset-pod": "true"}}
    scene = case([node("a")], [pod("p", "a", kind, metadata=said)], controllers=[])
    assert found_in(scene, ALL)["drainability"] == {"a": drain}


@pytest.mark.parametrize(("said", "goes"), [("true", True), ("false", False), ("yes", False), (None, True)])
def test_a_daemons_pod_that_says_something_else_than_true_stays(said: str | None, goes: bool) -> None:
    annotations = {} if said is None else {f"{CA}enable-ds-eviction": said}
    scene = case(
        [node("a")],
        [pod("p", "a", "DaemonSet", metadata={"annotations": annotations})],
        controllers=[{"kind": "DaemonSet", "namespace": "default", "name": "a"}],
        settings={"unneeded_time": 0, "daemonset_eviction_for_empty_nodes": True},
    )
    found = first_pass(scene)
    assert found["delete"] == {"empty": ["a"]}
    assert found["evict"] == ({"a": {"daemonset": ["default/p"]}} if goes else {})


@pytest.mark.parametrize(("ways", "left"), [(ALL, ["a", "b"]), ((), ["a"])])
def test_nodes_of_a_group_count_alike_in_limits_as_the_reference_has_it(
    ways: tuple[str, ...], left: list[str]
) -> None:
    """[B25] Four cores each, of which c does not say so: eight may not go of those that must stay."""
    nodes = [node("a"), node("b"), node("c")]
    nodes[2]["status"]["capacity"] = {"memory": "8Gi"}
    scene = case(nodes, [], settings={"unneeded_time": 0, "min_cores": 4})
    scene["nodes"][2]["metadata"]["annotations"] = {f"{CA}scale-down-disabled": "true"}
    assert first_pass(scene, ways)["removable"] == {"empty": left}


def test_no_pod_is_thought_to_move_onto_a_cordoned_node_that_it_would_tolerate() -> None:
    tolerant = {"tolerations": [{"operator": "Exists"}]}
    pods = [pod("p", "a", spec=tolerant), pod("big", "b", cpu="3")]
    assert first_pass(case([node("a"), node("b")], pods))["unneeded"] == ["a"]
    cordoned = node("b", spec={"unschedulable": True})
    assert first_pass(case([node("a"), cordoned], pods))["unneeded"] == []


@pytest.mark.parametrize("tainted", [True, False])
def test_a_cordon_is_no_taint_where_domains_are_counted(tainted: bool) -> None:
    """An empty node that takes nobody is the smallest domain; one with the taint of its cordon is none."""
    spread = {
        "topologyKey": HOST, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "nodeTaintsPolicy": "Honor",
        "labelSelector": {"matchLabels": {"app": "a"}},
    }  # fmt: skip
    leaving = node("a", spec={"taints": [{"key": "x", "effect": "NoSchedule"}]})
    taints = [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}] if tainted else []
    cordoned = node("b", spec={"unschedulable": True, "taints": taints})
    staying = node("c")
    for one in (cordoned, staying):
        one["metadata"]["annotations"] = {f"{CA}scale-down-disabled": "true"}
    scene = case(
        [leaving, cordoned, staying],
        [pod("p", "a", spec={"topologySpreadConstraints": [spread]}), pod("q", "c")],
    )
    assert first_pass(scene)["moved"] == ({"a": ["default/p"]} if tainted else {})


@pytest.mark.parametrize(("ways", "tried"), [(ALL, True), ((), False)])
def test_pods_of_lower_priority_are_tried_beside_one_that_finds_no_place(
    ways: tuple[str, ...], tried: bool
) -> None:
    """In the reference's way; later searches go on where these ended."""
    asks = {"requests": {"example.com/x": "1"}, "limits": {"example.com/x": "1"}}
    high = {"priority": 9, "containers": [{"name": "c", "resources": asks}]}
    nodes = [node("a", allocatable={"example.com/x": "1"}), node("b")]
    scene = case(nodes, [pod("high", "a", spec=high), pod("low", "a"), pod("full", "b", cpu="3")])
    settings = settings_of(scene, ways)
    plan = passes.evaluate(scene_of(scene, settings), memory_of(scene), settings, NOW)
    assert plan.refused["a"].reason == "NoPlaceToMovePods"
    assert plan.memory.hints == ({pod_key("default", "low"): "b"} if tried else {})


def test_pods_that_stay_on_a_node_that_is_to_go_are_nowhere_while_places_are_looked_for() -> None:
    """A pod that goes with its node keeps nobody of its zone away, and is no company."""
    said = {"annotations": {f"{CA}daemonset-pod": "true"}}
    apart = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": ZONE}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    nodes = [node("a"), node("b")]
    for one in nodes:
        one["metadata"]["labels"][ZONE] = "z"
    nodes[1]["metadata"]["annotations"] = {f"{CA}scale-down-disabled": "true"}
    pods = [pod("stays", "a", metadata=said, spec={"affinity": affinity}), pod("moves", "a")]
    assert first_pass(case(nodes, pods))["moved"] == {"a": ["default/moves"]}
    scene = case(nodes, pods)
    settings = settings_of(scene, ALL)
    tried = scene_of(scene, settings)
    places = Destinations(tried.grid.fork(), [])
    before = {digest: dict(inner) for digest, inner in places.grid.where.items()}
    row = places.grid.rows["a"]
    stays = tried.pods("a")[0].shape
    places.grid.leave(stays.digest, row)
    places.restore(row, places.clear(row))
    assert {digest: dict(inner) for digest, inner in places.grid.where.items()} == before
    assert places.grid.leaving == {stays.digest: {row: 1}}
    assert places.clear(row) != []
    assert all(row not in inner for inner in places.grid.leaving.values())


def test_pods_that_came_are_looked_at_in_the_order_in_which_they_were_placed() -> None:
    """The more important one was placed first, so it is the first that the budget does not allow any more."""
    budget = {
        "metadata": {"name": "b"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}},
        "status": {"disruptionsAllowed": 1},
    }
    own = pod("own", "a", metadata={"labels": {"app": "other"}})
    pods = [own, pod("low", "b"), pod("high", "b", spec={"priority": 9})]
    scene = case([node("b"), node("a")], pods, budgets=[budget], state={"unneeded_since": {"b": -5}})
    found = first_pass(scene)
    assert found["unneeded"] == ["b"]
    assert found["unremovable"]["a"]["pod"] == "default/high"


def spread(selector: LabelSelector) -> PodShape:
    constraint = TopologySpread(key=ZONE, max_skew=1, selector=selector)
    return PodShape(digest="new", namespace="ns", labels={"app": "a"}, spread=(constraint,))


def zones() -> tuple[Grid, PodShape]:
    """Two zones; in the first of them is a pod."""
    grid = Grid()
    for name in ("a", "b"):
        grid.add_node(NodeView(name=name, labels={ZONE: name}, allocatable={"pods": 9}))
    there = PodShape(digest="there", namespace="ns", labels={"app": "a"})
    grid.put(there, grid.rows["a"])
    return grid, there


def allowed(grid: Grid, shape: PodShape) -> list[str]:
    mask = Walk(grid, shape).allowed()
    return [name for name, row in grid.rows.items() if mask[row]]


def test_a_spread_over_all_pods_counts_none() -> None:
    grid, _ = zones()
    assert allowed(grid, spread(LabelSelector.parse("app=a"))) == ["b"]
    everything = spread(LabelSelector())
    assert allowed(grid, everything) == ["a", "b"]
    walk = Walk(grid, everything)
    walk.take(grid.rows["a"])
    assert bool(walk.allowed()[grid.rows["a"]])


def test_a_spread_does_not_count_pods_that_are_being_deleted() -> None:
    grid, there = zones()
    grid.leave(there.digest, grid.rows["a"])
    fork = grid.fork()
    assert allowed(fork, spread(LabelSelector.parse("app=a"))) == ["a", "b"]
    fork.leave(there.digest, fork.rows["a"], -1)
    assert allowed(fork, spread(LabelSelector.parse("app=a"))) == ["b"]
    assert allowed(grid, spread(LabelSelector.parse("app=a"))) == ["a", "b"]
    grid.remove_node("a")
    assert grid.leaving == {}


def test_who_is_being_deleted_is_known_of_every_node_also_of_one_that_comes_later() -> None:
    cluster = three_nodes()
    cluster.placed("going", "g0", deleting_at=cluster.now)
    cluster.placed("early", "late", deleting_at=cluster.now)
    index = index_of(cluster.state)

    def known() -> list[tuple[int, int]]:
        return sorted(count for inner in index.grid.leaving.values() for count in inner.items())

    assert known() == [(index.grid.rows["g0"], 1)]
    cluster.known("late", "g")
    assert known() == sorted([(index.grid.rows["g0"], 1), (index.grid.rows["late"], 1)])
    copied = msgspec.json.decode(msgspec.json.encode(cluster.state), type=State)
    assert index_of(copied).grid.leaving == index.grid.leaving
    cluster.gone("going")
    cluster.gone("early")
    assert known() == []


def item(name: str, cpu: int, count: int) -> Item:
    return Item(PodShape(digest=name, requests={"cpu": cpu, "pods": 1}), count)


def template(**more: int) -> Template:
    return Template(
        view=NodeView(name="t", labels={HOST: "t"}, allocatable={"cpu": 1000, "pods": 110, **more})
    )


def beside_one_of_a_node() -> list[Item]:
    """Pods, and others of which a node has one."""
    apart = PodTerm(key=HOST, selector=LabelSelector.parse("app=b"), namespaces=frozenset({"ns"}))
    one = PodShape(digest="a", namespace="ns", requests={"cpu": 400, "memory": 400, "pods": 1})
    other = PodShape(
        digest="b",
        namespace="ns",
        labels={"app": "b"},
        requests={"cpu": 500, "memory": 200, "pods": 1},
        anti_affinity=(apart,),
    )
    return [Item(one, 2), Item(other, 2)]


def test_an_estimate_whose_nodes_run_out_tries_to_hold_more_but_not_in_place_of_larger_pods() -> None:
    """Two of each: largest first, both of the one kind are on one node, and only one of the other beside them."""
    assert estimate(beside_one_of_a_node(), template(memory=1000), 2).placed == (2, 2)
    small, large = item("small", 100, 20), item("large", 950, 3)
    assert estimate([small, large], template(), 1).placed == (0, 1)
    assert estimate([small, large], template(), 9).placed == (20, 3)


def tries(monkeypatch: pytest.MonkeyPatch, items: list[Item], limit: int) -> int:
    """How many packings an estimate tries."""
    packed = []
    once = _Counting.pack

    def pack(self: _Counting, order: Order, fill: Fill) -> Estimate:
        packed.append((tuple(order), fill))
        return once(self, order, fill)

    with monkeypatch.context() as patched:
        patched.setattr(_Counting, "pack", pack)
        estimate(items, template(memory=1000), limit)
    assert len(packed) == len(set(packed))
    return len(packed)


def of_two(shapes: int) -> list[Item]:
    """Pods of which two or three are on a node, that are larger in one or the other."""
    sizes = [(260 + 37 * n % 220, 260 + 53 * n % 239) for n in range(shapes)]
    return [
        Item(PodShape(digest=f"{n}", requests={"cpu": cpu, "memory": memory, "pods": 1}), 3)
        for n, (cpu, memory) in enumerate(sizes)
    ]


def test_some_shapes_are_packed_in_all_ways_and_many_in_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each try of many shapes takes long."""
    assert tries(monkeypatch, of_two(12), UNLIMITED) == 12
    assert tries(monkeypatch, of_two(12), 5) == 20
    assert tries(monkeypatch, of_two(400), UNLIMITED) <= 6
    assert tries(monkeypatch, of_two(400), 200) <= 6


def test_no_more_is_tried_once_all_pods_are_on_as_few_nodes_as_can_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where the limit bound at first."""
    assert tries(monkeypatch, beside_one_of_a_node(), 2) == 3
    assert estimate(beside_one_of_a_node(), template(memory=1000), 2).placed == (2, 2)


def test_nodes_are_filled_from_the_fullest_or_the_emptiest() -> None:
    def made() -> tuple[Runs, Needs]:
        runs = Runs([1000])
        runs.add(needs_of(0, [(0, 800)], False, frozenset(), ()), 1, 1)
        runs.add(needs_of(1, [(0, 100)], False, frozenset(), ()), 1, 1)
        return runs, needs_of(2, [(0, 200)], False, frozenset(), ())

    def taken(fill: Callable[[Runs, Needs, int], int]) -> dict[int, int]:
        runs, needs = made()
        assert fill(runs, needs, 1) == 1
        return {next(iter(run.held)): run.held.get(2, 0) for run in runs.runs}

    assert taken(Runs.tightest) == {0: 1, 1: 0}
    assert taken(Runs.widest) == {0: 0, 1: 1}
