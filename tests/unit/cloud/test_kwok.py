"""kwok: the ConfigMaps that its users have, and nodes that are named by the order that makes them."""

from __future__ import annotations

import pytest
import yaml

from tests.unit.cloud.contract.kubernetes import NODES
from tests.unit.cloud.contract.of_kwok import KEY, MAPS, KwokBench
from tidewright.cloud.calls import Calls
from tidewright.cloud.errors import Conflict, Invalid, Unavailable
from tidewright.cloud.kwok import config as kwok
from tidewright.cloud.kwok import roles
from tidewright.cloud.kwok.client import DECISION, KwokProvider, provider
from tidewright.cloud.provider import InstanceState, Taint
from tidewright.cloud.providers import Surroundings
from tidewright.cloud.rights import Right
from tidewright.watcher.nodegroups import read

TEMPLATES = """
apiVersion: v1
kind: List
items:
- kind: Node
  metadata: {name: a, labels: {pool: small, kubernetes.io/hostname: a}, annotations: {cluster-autoscaler.kwok.nodegroup/max-count: "5"}}
  spec: {taints: [{key: dedicated, value: x, effect: NoExecute}]}
  status: {capacity: {cpu: 4, memory: 16Gi}, allocatable: {cpu: 3900m, memory: 15Gi}}
- kind: Node
  metadata: {name: b, labels: {pool: small}}
- kind: Node
  metadata: {name: c, labels: {pool: large}, annotations: {cluster-autoscaler.kwok.nodegroup/min-count: "3", cluster-autoscaler.kwok.nodegroup/max-count: "2"}}
- kind: Node
  metadata: {name: d, labels: {other: e}}
"""
GROUPED = kwok.KwokConfig(nodegroups=kwok.GroupSettings(fromNodeLabelKey="pool"))


def test_a_group_is_what_has_one_value_and_the_first_is_its_template() -> None:
    groups = kwok.groups_of(GROUPED, kwok.manifests_of(TEMPLATES, "t"))
    assert list(groups) == ["large", "small"]
    small = groups["small"]
    assert (small.node["metadata"]["name"], small.min_size, small.max_size) == ("a", 0, 5)
    template = kwok.template_of(GROUPED, small)
    assert (template.capacity["cpu"], template.allocatable["cpu"]) == ("4", "3900m")
    assert template.labels == {"pool": "small"}
    assert template.taints == (
        Taint(key="dedicated", value="x", effect="NoExecute"),
        Taint(key="kwok-provider", value="true", effect="NoSchedule"),
    )
    assert groups["large"].problem == (
        "group large: template c: min-count 3, desired-count 3, max-count 2: valid is min <= desired <= max"
    )
    assert groups["large"].max_size == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "key config"),
        ("apiVersion: v2", "valid is v1alpha1"),
        ("readNodesFrom: moon", "valid are configmap, cluster"),
        ("{}", "exactly one of fromNodeLabelKey, fromNodeAnnotationKey"),
        ("nodegroups: {fromNodeLabelKey: kubernetes.io/hostname}", "each node would be a group of its own"),
    ],
)
def test_a_config_that_cannot_be_used_says_why(text: str, said: str) -> None:
    with pytest.raises(Invalid) as refused:
        kwok.config_of(text, "ConfigMap kwok/c")
    assert said in refused.value.message
    assert "ConfigMap kwok/c" in refused.value.message


def test_what_names_no_config_map_is_refused() -> None:
    with pytest.raises(ValueError, match=r"kwok:a/b/c: write \[NAMESPACE/\]NAME"):
        provider("a/b/c", Calls("k"), Surroundings())


async def test_the_nodes_of_an_order_are_named_by_it_and_an_order_that_was_cut_short_is_finished() -> None:
    async with KwokBench() as bench:
        await bench.define("one", size=1)
        group = await bench.provider.group("one")
        bench.lose_answer()
        with pytest.raises(Unavailable):
            await group.increase_size(3, key="order", expect=1)
        assert await bench.size("one") == 2
        half = await bench.provider.group("one")
        assert await half.begun("order") == 1
        assert await half.begun("another") == 0
        await half.increase_size(3, key="order", expect=1)
        assert await bench.size("one") == 4
        nodes = (await bench.send("GET", NODES))["items"]
        made = [node for node in nodes if node["metadata"].get("annotations", {}).get(DECISION) == "order"]
        assert len(made) == 3
        for node in made:
            name = node["metadata"]["name"]
            assert name.startswith("one-")
            assert len(name) == len("one-") + 5
            assert node["spec"]["providerID"] == f"kwok:{name}"
            assert node["metadata"]["annotations"]["kwok.x-k8s.io/node"] == "fake"
            assert node["metadata"]["labels"]["kubernetes.io/hostname"] == name
            assert {"key": "kwok-provider", "value": "true", "effect": "NoSchedule"} in node["spec"]["taints"]
            assert node["status"]["nodeInfo"]["kubeletVersion"] == "fake"


async def test_templates_may_be_the_nodes_of_the_cluster() -> None:
    async with KwokBench() as bench:
        await bench.define("one", size=2)
        config = {
            "apiVersion": "v1alpha1",
            "readNodesFrom": "cluster",
            "nodegroups": {"fromNodeLabelKey": KEY},
        }
        await bench.send(
            "PATCH", f"{MAPS}/kwok-provider-config", {"data": {"config": yaml.safe_dump(config)}},
            "application/merge-patch+json",
        )  # fmt: skip
        await bench.provider.refresh()
        assert bench.provider.node_groups() == []  # its own nodes are no templates
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "real", "labels": {KEY: "one"}}}
        await bench.send("POST", NODES, node)
        assert await bench.size("one") == 2


async def test_a_node_that_became_ready_is_not_cancelled() -> None:
    async with KwokBench() as bench:
        await bench.define("one", size=1)
        await (await bench.provider.group("one")).increase_size(1, key="k", expect=1)
        group = await bench.provider.group("one")
        await bench.come("one")
        with pytest.raises(Conflict):
            await group.decrease_target_size(-1, key="l", expect=2)
        assert await bench.size("one") == 2


@pytest.mark.parametrize(
    ("reason", "state"),
    [("NodeStatusUnknown", InstanceState.RUNNING), ("NodeStatusNeverUpdated", InstanceState.CREATING)],
)
async def test_a_node_whose_kubelet_has_gone_silent_is_no_order_that_can_be_cancelled(
    reason: str, state: InstanceState
) -> None:
    async with KwokBench() as bench:
        await bench.define("one", size=1)
        (node,) = (await bench.send("GET", NODES))["items"]
        silent = {"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": reason}]}}
        path = f"{NODES}/{node['metadata']['name']}/status"
        await bench.send("PATCH", path, silent, "application/merge-patch+json")
        group = await bench.provider.group("one")
        assert [instance.state for instance in await group.nodes()] == [state]
        if state is InstanceState.CREATING:
            await group.decrease_target_size(-1, key="l", expect=1)
            return
        with pytest.raises(Invalid, match="only 0 orders are unfulfilled"):
            await group.decrease_target_size(-1, key="l", expect=1)
        assert await bench.size("one") == 1


async def test_limits_that_cannot_be_used_make_the_group_unreadable_and_not_gone() -> None:
    async with KwokBench() as bench:
        await bench.define("one", size=1)
        annotations = bench._templates["one"]["metadata"]["annotations"]
        for name, value, said in (
            (
                "min-count",
                "two",
                "annotation cluster-autoscaler.kwok.nodegroup/min-count: 'two': valid is a number from 0",
            ),
            (
                "desired-count",
                "11",
                "min-count 0, desired-count 11, max-count 10: valid is min <= desired <= max",
            ),
        ):
            annotations[f"cluster-autoscaler.kwok.nodegroup/{name}"] = value
            await bench._write()
            group = await bench.group("one")
            with pytest.raises(Invalid) as refused:
                await group.target_size()
            assert refused.value.message == f"group one: template template-one: {said}"
            assert len(await group.nodes()) == 1
            del annotations[f"cluster-autoscaler.kwok.nodegroup/{name}"]


async def test_a_group_is_to_begin_with_its_desired_count_and_else_with_its_minimum() -> None:
    async with KwokBench() as bench:
        await bench.define("asked", minimum=1)
        await bench.define("plain", minimum=2)
        note = "cluster-autoscaler.kwok.nodegroup/desired-count"
        bench._templates["asked"]["metadata"]["annotations"][note] = "4"
        await bench._write()
        facts = [await read(await bench.group(name)) for name in ("asked", "plain")]
        assert [(fact.target_size, fact.initial) for fact in facts] == [(0, 4), (0, 2)]


async def test_what_others_write_on_a_new_node_does_not_keep_it_from_being_cancelled() -> None:
    async with KwokBench() as bench:
        await bench.define("one", size=1)
        await (await bench.provider.group("one")).increase_size(1, key="k", expect=1)
        group = await bench.provider.group("one")
        (new,) = [
            node for node in (await bench.send("GET", NODES))["items"]
            if node["metadata"].get("annotations", {}).get(DECISION) == "k"
        ]  # fmt: skip
        mark = {"metadata": {"annotations": {"a.controller/was": "here"}}}
        await bench.send("PATCH", f"{NODES}/{new['metadata']['name']}", mark, "application/merge-patch+json")
        await group.decrease_target_size(-1, key="l", expect=2)
        assert await bench.size("one") == 1


async def test_the_roles_have_what_watcher_and_actuator_ask_for_and_no_more() -> None:
    def rights(calls: list[tuple[str, str, bytes]]) -> set[tuple[str, str]]:
        verbs = {"POST": "create", "DELETE": "delete"}
        found = set()
        for method, target, _ in calls:
            parts = target.partition("?")[0].split("/")
            resource = "configmaps" if "configmaps" in parts else "nodes"
            alone = parts[-1] == resource
            found.add((resource, verbs.get(method) or ("list" if alone else "get")))
        return found

    def granted(*some: Right) -> set[tuple[str, str]]:
        return {(resource, verb) for right in some for resource in right.resources for verb in right.verbs}

    async with KwokBench() as bench:
        await bench.define("one", size=1)
        bench.proxy.calls.clear()
        await bench.provider.refresh()
        assert rights(bench.proxy.calls) == granted(*roles.READS) | {("nodes", "list")}
        bench.proxy.calls.clear()
        acting = KwokProvider(bench.cluster(), bench.namespace, "kwok-provider-config")
        bench.lose_answer()
        with pytest.raises(Unavailable):
            await (await acting.group("one")).increase_size(2, key="k", expect=1)
        await (await acting.group("one")).increase_size(2, key="k", expect=1)  # finds the first one
        await (await acting.group("one")).decrease_target_size(-1, key="l", expect=3)
        await acting.cleanup()
        assert rights(bench.proxy.calls) == granted(*roles.READS, *roles.WRITES)
