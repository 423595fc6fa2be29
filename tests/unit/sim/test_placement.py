"""Where the scheduler puts a pod, and what it says when it cannot."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewright.sim.controllers.objects import Node, Pod
from tidewright.sim.scheduler.placement import Placer, Refusal, shape_of


def node(name: str, *, cpu: str = "4", zone: str = "a", **changes: Any) -> Node:
    manifest = {
        "metadata": {"name": name, "uid": name, "labels": {"zone": zone, "kubernetes.io/hostname": name}},
        "spec": changes.pop("spec", {}),
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10", **changes}},
    }
    return msgspec.convert(manifest, Node)


def pod(name: str, *, cpu: str = "1", labels: dict[str, str] | None = None, **spec: Any) -> Pod:
    container = {"name": "main", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    ports = spec.pop("ports", [])
    extended = spec.pop("extended", {})
    container = {**container, "ports": ports}
    container["resources"] = {"requests": {"cpu": cpu, "memory": "1Gi", **extended}}
    manifest = {
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": labels or {"app": "web"}},
        "spec": {"containers": [container], **spec},
    }
    return msgspec.convert(manifest, Pod)


class World:
    def __init__(self, *nodes: Node) -> None:
        self.placer = Placer()
        for one in nodes:
            self.placer.table.put(one)

    def choose(self, wanted: Pod) -> str | Refusal:
        found = self.placer.choose(wanted, shape_of(wanted))
        if isinstance(found, Refusal):
            return found
        chosen = self.placer.table.nodes[found]
        assert chosen is not None
        return chosen.metadata.name

    def put(self, wanted: Pod) -> str:
        found = self.placer.choose(wanted, shape_of(wanted))
        assert isinstance(found, int), found
        self.placer.place(wanted, shape_of(wanted), found)
        chosen = self.placer.table.nodes[found]
        assert chosen is not None
        return chosen.metadata.name

    def refusal(self, wanted: Pod) -> str:
        found = self.choose(wanted)
        assert isinstance(found, Refusal), found
        return found.message()


def spread(key: str, skew: int = 1, when: str = "DoNotSchedule", **more: Any) -> dict[str, Any]:
    selector = {"matchLabels": {"app": "web"}}
    return {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": when, "labelSelector": selector, **more}


def anti(key: str, app: str = "web") -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def friends(key: str, app: str) -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def test_the_emptiest_node_is_chosen() -> None:
    world = World(node("n1"), node("n2"))
    assert [world.put(pod(f"p{index}")) for index in range(4)] == ["n1", "n2", "n1", "n2"]


def test_each_short_resource_is_counted_and_reasons_are_sorted() -> None:
    world = World(
        node("n1", cpu="1"), node("n2", cpu="1", pods="0"), node("n3", spec={"unschedulable": True})
    )
    assert world.refusal(pod("big", cpu="2")) == (
        "0/3 nodes are available: 1 Too many pods, 1 node(s) were unschedulable, 2 Insufficient cpu. "
        "no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
    )


def test_a_node_that_is_only_full_now_could_be_helped_by_preemption() -> None:
    world = World(node("n1", cpu="1"))
    world.put(pod("first"))
    assert world.refusal(pod("second")) == (
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: "
        "1 No preemption victims found for incoming pod."
    )


def test_without_nodes_the_message_is_short() -> None:
    assert World().refusal(pod("p")) == "no nodes available to schedule pods"


def test_extended_resources_are_counted() -> None:
    world = World(node("plain"), node("gpu", **{"nvidia.com/gpu": "2"}))
    assert world.put(pod("one", extended={"nvidia.com/gpu": "2"})) == "gpu"
    assert "2 Insufficient nvidia.com/gpu" in world.refusal(pod("two", extended={"nvidia.com/gpu": "1"}))


@pytest.mark.parametrize(
    ("toleration", "fits"),
    [
        ({"key": "dedicated", "operator": "Equal", "value": "ml", "effect": "NoSchedule"}, True),
        ({"key": "dedicated", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "dedicated", "operator": "Equal", "value": "web"}, False),
        ({"key": "dedicated", "operator": "Exists", "effect": "NoExecute"}, False),
    ],
)
def test_taints_need_a_toleration(toleration: dict[str, str], fits: bool) -> None:
    world = World(node("n1", spec={"taints": [{"key": "dedicated", "value": "ml", "effect": "NoSchedule"}]}))
    found = world.choose(pod("p", tolerations=[toleration]))
    assert (found == "n1") is fits
    if not fits:
        assert "1 node(s) had untolerated taint(s)" in world.refusal(pod("p", tolerations=[toleration]))


def test_a_spread_whose_selector_selects_all_pods_counts_none() -> None:
    constraint = {**spread("zone"), "labelSelector": {}}
    world = World(node("n1", zone="a"), node("n2", zone="b", spec={"unschedulable": True}))
    placed = [world.put(pod(f"p{index}", topologySpreadConstraints=[constraint])) for index in range(3)]
    assert placed == ["n1", "n1", "n1"]


def test_node_selectors_and_required_affinity_are_both_needed() -> None:
    world = World(node("n1", zone="a"), node("n2", zone="b"))
    assert world.choose(pod("p", nodeSelector={"zone": "b"})) == "n2"
    terms = [{"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["b"]}]}]
    affinity = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    }
    assert world.choose(pod("p", affinity=affinity)) == "n1"
    refusal = world.refusal(pod("p", affinity=affinity, nodeSelector={"zone": "b"}))
    assert "2 node(s) didn't match Pod's node affinity/selector" in refusal


def test_a_daemon_pod_is_bound_to_the_node_that_its_affinity_names() -> None:
    world = World(node("n1"), node("n2"))
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}]
    affinity = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    }
    assert world.choose(pod("p", affinity=affinity)) == "n2"


def test_a_changed_node_is_judged_anew() -> None:
    world = World(node("n1", zone="a"))
    wanted = pod("p", nodeSelector={"zone": "b"})
    assert isinstance(world.choose(wanted), Refusal)
    world.placer.table.put(node("n1", zone="b"))
    assert world.choose(wanted) == "n1"


def test_host_ports_exclude_each_other() -> None:
    world = World(node("n1"))
    world.put(pod("p1", ports=[{"hostPort": 80, "containerPort": 80}]))
    assert "1 node(s) didn't have free ports" in world.refusal(
        pod("p2", ports=[{"hostPort": 80, "containerPort": 8080}])
    )
    assert world.choose(pod("p3", ports=[{"hostPort": 80, "containerPort": 80, "protocol": "UDP"}])) == "n1"


def test_hard_spreading_keeps_the_skew() -> None:
    world = World(node("a1", cpu="64", zone="a"), node("b1", cpu="2", zone="b"))
    placed = [
        world.put(pod(f"p{index}", cpu="1", topologySpreadConstraints=[spread("zone")])) for index in range(4)
    ]
    assert sorted(placed) == ["a1", "a1", "b1", "b1"]
    assert world.put(pod("p4", topologySpreadConstraints=[spread("zone")])) == "a1"
    refusal = world.refusal(pod("p5", topologySpreadConstraints=[spread("zone")]))
    assert "1 Insufficient cpu, 1 node(s) didn't match pod topology spread constraints" in refusal


def test_a_minimum_of_domains_counts_missing_ones_as_empty() -> None:
    world = World(node("a1", zone="a"))
    constraint = spread("zone", minDomains=2)
    world.put(pod("p0", topologySpreadConstraints=[constraint]))
    assert "pod topology spread constraints" in world.refusal(
        pod("p1", topologySpreadConstraints=[constraint])
    )


def test_nodes_without_the_label_are_left_out_of_spreading() -> None:
    bare = node("bare")
    bare.metadata.labels.pop("zone")
    world = World(bare)
    assert "(missing required label)" in world.refusal(pod("p", topologySpreadConstraints=[spread("zone")]))


def test_soft_spreading_prefers_the_emptier_zone() -> None:
    world = World(node("a1", cpu="64", zone="a"), node("b1", cpu="8", zone="b"))
    soft = [spread("zone", when="ScheduleAnyway")]
    assert sorted(
        world.put(pod(f"p{index}", cpu="100m", topologySpreadConstraints=soft)) for index in range(4)
    ) == [
        "a1",
        "a1",
        "b1",
        "b1",
    ]


def test_anti_affinity_keeps_pods_apart_both_ways() -> None:
    world = World(node("n1"), node("n2"))
    world.put(pod("p1", affinity=anti("kubernetes.io/hostname")))
    assert world.put(pod("p2", affinity=anti("kubernetes.io/hostname"))) == "n2"
    assert "2 node(s) didn't match pod anti-affinity rules" in world.refusal(
        pod("p3", affinity=anti("kubernetes.io/hostname"))
    )
    # A pod without rules of its own is kept away by those of the pods that are there.
    assert "2 node(s) didn't satisfy existing pods anti-affinity rules" in world.refusal(pod("p4"))
    assert world.choose(pod("other", labels={"app": "db"})) in ("n1", "n2")


def test_affinity_wants_company_and_the_first_of_its_kind_may_start() -> None:
    world = World(node("n1", zone="a"), node("n2", zone="b"))
    assert "2 node(s) didn't match pod affinity rules" in world.refusal(
        pod("p", affinity=friends("zone", "db"))
    )
    first = world.put(pod("p0", affinity=friends("zone", "web")))
    assert world.put(pod("p1", affinity=friends("zone", "web"))) == first


def test_what_is_taken_back_is_free_again() -> None:
    world = World(node("n1", cpu="1"))
    one = pod("p1", affinity=anti("zone"))
    world.put(one)
    world.placer.unplace(one, shape_of(one), 0)
    assert world.choose(pod("p2", affinity=anti("zone"))) == "n1"


def test_a_reused_row_remembers_nothing_of_the_node_before() -> None:
    world = World(node("n1", cpu="1"))
    world.placer.table.drop("n1")
    world.placer.table.put(node("n2", cpu="1"))
    assert world.choose(pod("p")) == "n2"


def test_sidecars_and_init_containers_are_requested_as_the_api_defines() -> None:
    wanted = msgspec.convert(
        {
            "metadata": {"name": "p", "uid": "p"},
            "spec": {
                "containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}],
                "initContainers": [
                    {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "500m"}}},
                    {"name": "i", "resources": {"requests": {"cpu": "2"}, "limits": {"memory": "1Gi"}}},
                ],
                "overhead": {"cpu": "100m"},
            },
        },
        Pod,
    )
    assert shape_of(wanted).requests == {"cpu": 2600, "memory": 2**30, "pods": 1}


@given(st.lists(st.tuples(st.sampled_from("PRCDU"), st.integers(0, 5), st.integers(1, 6)), max_size=40))
def test_the_kept_ranking_chooses_what_all_filters_and_scores_choose(
    steps: list[tuple[str, int, int]],
) -> None:
    """Place, remove, cordon, drop and update nodes in any order: the short way equals the long one."""
    world = World(*(node(f"n{index}", cpu="8") for index in range(4)))
    placed: list[tuple[Pod, int]] = []
    for count, (step, index, size) in enumerate(steps):
        name = f"n{index % 4}"
        wanted = pod(f"p{count}", cpu=str(size))
        match step:
            case "P":
                quick = world.placer.choose(wanted, shape_of(wanted))
                slow = world.placer.choose(wanted, msgspec.structs.replace(shape_of(wanted), plain=False))
                assert quick == slow
                if isinstance(quick, int):
                    world.placer.place(wanted, shape_of(wanted), quick)
                    placed.append((wanted, quick))
            case "R" if placed:
                gone, row = placed.pop(index % len(placed))
                world.placer.unplace(gone, shape_of(gone), row)
            case "C":
                world.placer.table.put(node(name, cpu="8", spec={"unschedulable": True}))
            case "U":
                world.placer.table.put(node(name, cpu=str(4 + size)))
            case "D" if name in world.placer.table.row_of:
                row = world.placer.table.row_of[name]
                for gone, at in [one for one in placed if one[1] == row]:
                    world.placer.unplace(gone, shape_of(gone), at)
                    placed.remove((gone, at))
                world.placer.table.drop(name)
