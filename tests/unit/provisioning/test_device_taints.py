"""DeviceTaintRules taint devices besides what their slices say of them, and claims tolerate it or do not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.provisioning.claimworld import (
    ATOMIC,
    CHECK,
    GPU,
    by_template,
    claim_template,
    device,
    device_class,
    exactly,
    grown,
    offers,
    provisioned,
    told,
    with_devices,
)
from tests.vectors.provisioning_life import Cluster
from tidewright.events import provisioning as p
from tidewright.events.base import JsonObject
from tidewright.events.placement import PlacementObjectGone

TAINT = {"key": "repair", "value": "now", "effect": "NoSchedule"}


def rule(cluster: Cluster, selector: JsonObject | None, name: str = "r", **taint: str) -> None:
    spec: dict[str, Any] = {"taint": {**TAINT, **taint}}
    if selector is not None:
        spec["deviceSelector"] = selector
    told(cluster, "DeviceTaintRule", name, spec=spec)


def gone(cluster: Cluster, name: str = "r") -> None:
    cluster.tell(PlacementObjectGone(at=cluster.now, name=name, kind="DeviceTaintRule"))


def fits(cluster: Cluster, name: str, pods: int, template: str = "worker") -> bool:
    cluster.request(name, CHECK, [(template, pods)])
    cluster.settle()
    found = provisioned(cluster, name)
    cluster.delete_request(name)
    cluster.settle()
    return found


@pytest.mark.parametrize(
    ("selector", "left"),
    [
        (None, 4),
        ({}, 0),
        ({"driver": GPU}, 0),
        ({"driver": "other.example.com"}, 4),
        ({"pool": "n0"}, 2),
        ({"driver": GPU, "pool": "n0", "device": "d1"}, 3),
        ({"device": "d1"}, 2),
        ({"device": "d7"}, 4),
    ],
)
@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
def test_a_rule_taints_the_devices_that_it_selects(
    selector: JsonObject | None, left: int, effect: str
) -> None:
    cluster = with_devices(nodes=2, devices=2)
    rule(cluster, selector, effect=effect)
    assert [pods for pods in range(1, 6) if fits(cluster, f"r{pods}", pods)] == [*range(1, left + 1)]


def test_a_rule_without_effect_keeps_nobody_away() -> None:
    cluster = with_devices(nodes=1, devices=2)
    rule(cluster, {}, effect="None")
    assert fits(cluster, "r", 2)


def test_what_is_tolerated_is_had() -> None:
    cluster = with_devices(nodes=1, devices=2)
    rule(cluster, {"device": "d0"})
    tolerations = [{"key": "repair", "operator": "Equal", "value": "now", "effect": "NoSchedule"}]
    claim_template(cluster, "bears", exactly(tolerations=tolerations))
    cluster.template("bearer", "100m", resourceClaims=by_template("bears"))
    assert (fits(cluster, "a", 2), fits(cluster, "b", 2, "bearer")) == (False, True)


def test_a_rule_that_comes_changes_and_goes_is_seen_by_those_that_wait() -> None:
    cluster = with_devices(nodes=2, devices=2)
    rule(cluster, {"pool": "n0"})
    cluster.request("r", CHECK, [("worker", 4)])
    cluster.settle()
    assert not provisioned(cluster, "r")
    rule(cluster, {"pool": "n1"})
    cluster.advance(120)
    assert not provisioned(cluster, "r")
    gone(cluster)
    cluster.advance(300)
    assert provisioned(cluster, "r")


def test_devices_that_several_nodes_reach_are_tainted_like_others() -> None:
    cluster = Cluster()
    device_class(cluster)
    for node in ("a", "b"):
        cluster.add_node(node)
    pool = {"name": "net", "generation": 1, "resourceSliceCount": 1}
    told(
        cluster, "ResourceSlice", "s",
        spec={"driver": GPU, "pool": pool, "allNodes": True, "devices": [device("d0"), device("d1")]},
    )  # fmt: skip
    claim_template(cluster, "one", exactly())
    cluster.template("worker", "100m", resourceClaims=by_template("one"))
    rule(cluster, {"pool": "net", "device": "d0"})
    assert (fits(cluster, "x", 1), fits(cluster, "y", 2)) == (True, False)


def test_a_rule_about_a_driver_holds_on_nodes_to_come_and_one_about_a_pool_does_not() -> None:
    def ordered(selector: JsonObject) -> dict[str, int]:
        cluster = Cluster({"scale-down-enabled": False})
        device_class(cluster)
        cluster.add_group("g", target=1)
        cluster.add_node("n", "g")
        offers(cluster, "n", device("d0"))
        claim_template(cluster, "one", exactly())
        cluster.template("worker", "100m", resourceClaims=by_template("one"))
        rule(cluster, selector)
        cluster.request("r", ATOMIC, [("worker", 1)])
        cluster.settle()
        return grown(cluster)

    assert ordered({"pool": "n"}) == {"g": 2}
    assert ordered({"driver": GPU}) == {}


def test_a_rule_holds_for_the_template_of_a_group_without_nodes() -> None:
    cluster = Cluster()
    device_class(cluster)
    for name, model in (("a", "d0"), ("b", "d1")):
        cluster.add_group(name)
        told_devices = ({"driver": GPU, **device(model)},)
        template = p.TemplateNode(allocatable=cluster.groups[name].template.allocatable, devices=told_devices)
        cluster.groups[name].template = template
        cluster.observe_group(name)
    claim_template(cluster, "one", exactly())
    cluster.template("worker", "100m", resourceClaims=by_template("one"))
    rule(cluster, {"driver": GPU, "device": "d0"})
    cluster.request("r", ATOMIC, [("worker", 1)])
    cluster.settle()
    assert grown(cluster) == {"b": 1}
