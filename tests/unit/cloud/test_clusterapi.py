"""Cluster API: which objects, what their machines are like, and a deletion that was cut short between mark and size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.cloud.contract.of_clusterapi import (
    CAPACITY,
    DECISION_AT,
    GROUP,
    MERGE,
    SPACE,
    ClusterApiBench,
)
from tidewright.cloud.clusterapi import resources as capi
from tidewright.cloud.clusterapi.client import ClusterApiProvider
from tidewright.cloud.clusterapi.config import ClusterApiConfig, Selector, config_of, selector_of
from tidewright.cloud.errors import Conflict, NotFound, Unavailable
from tidewright.cloud.provider import GroupOptions, InstanceState, Taint


def machine(**more: Any) -> dict[str, Any]:
    about = {"name": "m", "namespace": "ns", **more.pop("about", {})}
    return {"metadata": about, "spec": more.pop("spec", {}), "status": more}


def test_objects_are_selected_by_all_parts_of_a_flag_and_flags_are_alternatives(tmp_path: Path) -> None:
    selector = selector_of("clusterapi:namespace=a,clusterName=b,team=blue")
    assert selector == Selector(namespace="a", cluster="b", labels=(("team", "blue"),))
    assert selector.matches("a", "b", {"team": "blue", "x": "y"})
    assert not selector.matches("a", "c", {"team": "blue"})
    assert config_of("").selectors == ()
    assert config_of("namespace=a").selectors == (Selector(namespace="a"),)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text("kind: Config\nclusters: []\n")
    assert config_of(str(kubeconfig)).kubeconfig == str(kubeconfig)
    file = tmp_path / "capi.yaml"
    file.write_text(
        f"kubeconfig: {kubeconfig}\ndiscovery: ['clusterapi:namespace=a', 'clusterapi:namespace=b']\n"
    )
    assert len(config_of(str(file)).selectors) == 2
    for content, said in (
        ("colour: blue", "valid are a kubeconfig, or"),
        ("discovery: ['clusterapi:a']", "write namespace=NS"),
    ):
        file.write_text(content)
        with pytest.raises(ValueError, match=r"capi\.yaml") as refused:
            config_of(str(file))
        assert said in str(refused.value)
    with pytest.raises(ValueError, match="nor a file that can be read"):
        config_of("/nowhere/at/all")


@pytest.mark.parametrize(
    ("said", "state", "error", "instance_id"),
    [
        (machine(spec={"providerID": "p://1"}, nodeRef={"name": "n"}), InstanceState.RUNNING, None, "p://1"),
        (machine(), InstanceState.CREATING, None, "pending-machine-ns_m"),
        (machine(spec={"providerID": "p://1"}), InstanceState.CREATING, None, "p://1"),
        (machine(about={"deletionTimestamp": "t"}), InstanceState.DELETING, None, "deleting-machine-ns_m"),
        (machine(phase="Failed", about={"deletionTimestamp": "t"}), InstanceState.DELETING, (99, "DeletingFailed"), "deleting-machine-ns_m"),
        (machine(phase="Failed"), InstanceState.CREATING, (99, "ProvisioningFailed"), "failed-machine-ns_m"),
        (machine(phase="Failed", failureMessage="quota 'CPUS' exceeded"), InstanceState.CREATING, (1, "ProvisioningFailed"), "failed-machine-ns_m"),
        (machine(phase="Failed", spec={"providerID": "p://1"}, nodeRef={"name": "n"}), None, None, "p://1"),
    ],
)  # fmt: skip
def test_what_a_machine_is(
    said: dict[str, Any], state: InstanceState | None, error: tuple[int, str] | None, instance_id: str
) -> None:
    instance = capi.instance_of(said)
    assert (instance.id, instance.state) == (instance_id, state)
    found = None if instance.error is None else (int(instance.error.error_class), instance.error.code)
    assert found == error


def test_a_template_is_annotations_over_what_the_infrastructure_says() -> None:
    resource = {
        "metadata": {
            "annotations": {
                f"{CAPACITY}cpu": "8",
                f"{CAPACITY}ephemeral-disk": "100Gi",
                f"{CAPACITY}gpu-type": "nvidia.com/gpu",
                f"{CAPACITY}gpu-count": "2",
                f"{CAPACITY}labels": "pool=blue,bad,zone=z",
                f"{CAPACITY}csi-driver": "ebs.csi=25,other=0",
            }
        },
        "spec": {
            "template": {
                "metadata": {"labels": {"node-role.kubernetes.io/worker": "", "private": "x"}},
                "spec": {"taints": [{"key": "a", "value": "b", "effect": "NoExecute"}]},
            }
        },
    }
    infrastructure = {
        "status": {"capacity": {"cpu": "4", "memory": "16Gi"}, "nodeInfo": {"architecture": "arm64"}}
    }
    template = capi.template_of(resource, infrastructure)
    assert template is not None
    assert template.capacity == {
        "cpu": "8",
        "memory": "16Gi",
        "ephemeral-storage": "100Gi",
        "pods": "110",
        "nvidia.com/gpu": "2",
        "attachable-volumes-csi-ebs.csi": "25",
    }
    assert template.labels == {
        "kubernetes.io/arch": "arm64",
        "kubernetes.io/os": "linux",
        "node-role.kubernetes.io/worker": "",
        "pool": "blue",
        "zone": "z",
    }
    assert template.taints == (Taint(key="a", value="b", effect="NoExecute"),)
    assert capi.template_of(resource, None) is None  # nobody says the memory
    replaced: dict[str, Any] = {
        "metadata": {"annotations": {f"{CAPACITY}taints": "k=v:NoSchedule,x:NoExecute"}},
        "spec": resource["spec"],
    }
    replaced["metadata"]["annotations"] |= {
        f"{CAPACITY}cpu": "1",
        f"{CAPACITY}memory": "1Gi",
        f"{CAPACITY}maxPods": "30",
    }
    other = capi.template_of(replaced, None)
    assert other is not None
    assert [(t.key, t.value, t.effect) for t in other.taints] == [
        ("k", "v", "NoSchedule"),
        ("x", "", "NoExecute"),
    ]
    assert other.capacity["pods"] == "30"


def test_options_are_annotations() -> None:
    prefix = f"{GROUP}/autoscaling-options-"
    resource = {
        "metadata": {
            "annotations": {f"{prefix}scaledownunneededtime": "15M", f"{prefix}maxnodeprovisiontime": "soon"}
        }
    }
    defaults = GroupOptions(max_node_provision_s=900.0)
    assert capi.options_of(resource, defaults) == GroupOptions(
        max_node_provision_s=900.0, scale_down_unneeded_s=900.0
    )


async def test_a_deletion_that_was_cut_short_between_mark_and_size_is_finished() -> None:
    async with ClusterApiBench() as bench:
        name = await bench.define("one", size=3)
        first, *others = await bench.running(name)
        group = await bench.provider.group(name)
        (marked,) = [one for one in await group.machines() if capi.provider_id(one) == first]  # type: ignore[attr-defined]
        await bench.provider.mark(marked, "order 3 2")  # type: ignore[attr-defined]
        assert await bench.size(name) == 3
        await (await bench.provider.group(name)).delete_nodes([first], key="order")
        assert (await bench.size(name), await bench.running(name)) == (2, others)
        # Once more, as after a lost answer: the size that it leads to is there.
        await (await bench.provider.group(name)).delete_nodes([first], key="order")
        assert await bench.size(name) == 2


async def test_marks_say_the_order_and_are_taken_off_when_the_size_is_refused() -> None:
    async with ClusterApiBench() as bench:
        name = await bench.define("one", size=2)
        (first, _) = await bench.running(name)
        group = await bench.provider.group(name)

        async def refused(*args: Any, **more: Any) -> str:
            (there,) = [one for one in await bench.machines("one") if one["spec"]["providerID"] == first]
            assert there["metadata"]["annotations"][DECISION_AT] == "order 2 1"
            assert there["metadata"]["annotations"][f"{GROUP}/delete-machine"]
            raise NotFound("gone")

        bench.provider.scale = refused  # type: ignore[attr-defined]
        with pytest.raises(NotFound):
            await group.delete_nodes([first], key="order")
        for one in await bench.machines("one"):
            assert DECISION_AT not in one["metadata"].get("annotations", {})
        assert len(await bench.running(name)) == 2


async def test_what_is_paused_or_wrongly_annotated_or_empty_without_a_template_is_no_group() -> None:
    async with ClusterApiBench() as bench:
        for name in ("paused", "wrong", "unknown", "good"):
            await bench.define(name, size=0)
        for name, notes in (
            ("paused", {f"{GROUP}/paused": "true"}),
            ("wrong", {f"{GROUP}/cluster-api-autoscaler-node-group-max-size": "many"}),
            ("unknown", {f"{CAPACITY}cpu": None}),
        ):
            body = {"metadata": {"annotations": notes}}
            await bench.send("PATCH", f"{SPACE}/machinedeployments/{name}", body, MERGE)
        await bench.provider.refresh()
        assert [group.id for group in bench.provider.node_groups()] == ["MachineDeployment/capi/good"]
        with pytest.raises(NotFound, match="paused or not selected"):
            await bench.provider.group("MachineDeployment/capi/paused")
        elsewhere = ClusterApiProvider(
            ClusterApiConfig(selectors=(Selector(namespace="b"),)), bench.cluster()
        )
        await elsewhere.refresh()
        assert elsewhere.node_groups() == []
        await elsewhere.cleanup()


async def test_a_refresh_is_four_lists_whatever_the_number_of_groups() -> None:
    async with ClusterApiBench() as bench:
        for number in range(4):
            await bench.define(f"g{number}", size=1)
        await bench.provider.refresh()
        bench.proxy.calls.clear()
        await bench.provider.refresh()
        for group in bench.provider.node_groups():
            await group.nodes()
            await group.template()
        assert len(bench.proxy.calls) == 4


async def test_an_object_that_changes_meanwhile_is_a_conflict_and_hanging_is_told() -> None:
    async with ClusterApiBench() as bench:
        name = await bench.define("one", size=1)
        group = await bench.provider.group(name)
        await bench.send(
            "PATCH", f"{SPACE}/machinedeployments/one", {"metadata": {"labels": {"a": "b"}}}, MERGE
        )
        with pytest.raises(Conflict):
            await group.increase_size(1, key="k", expect=1)
        bench.hang()
        with pytest.raises(Unavailable, match="no answer within"):
            await bench.short.group(name)
