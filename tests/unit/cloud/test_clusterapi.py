"""Cluster API: which objects, what their machines are like, and removals that are cut short or meet others' marks."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from aiohttp import web

from tests.unit.cloud.contract.moon import API, INFRA, MAX, MERGE, MIN, path
from tests.unit.cloud.contract.of_clusterapi import ClusterApiBench
from tests.waiting import until
from tidewright.cloud.clusterapi import marks
from tidewright.cloud.clusterapi.config import ClusterApiConfig, Selector, config_of, selector_of
from tidewright.cloud.clusterapi.objects import Machine, Scalable
from tidewright.cloud.clusterapi.template import PREFIX, options_of, template_of
from tidewright.cloud.errors import Conflict, Forbidden, Invalid, NotFound, Unavailable
from tidewright.cloud.provider import GroupOptions, InstanceState, Taint

ROOT = Path(__file__).parents[3]
ROOM = {MIN: "0", MAX: "10"}


# --- Which objects ------------------------------------------------------------------------------


def test_objects_are_selected_by_all_parts_of_a_flag_and_flags_are_alternatives(tmp_path: Path) -> None:
    selector = selector_of("clusterapi:namespace=a,clusterName=b,team=blue")
    assert selector == Selector(namespace="a", cluster="b", labels=(("team", "blue"),))
    assert selector.matches("a", "b", {"team": "blue", "x": "y"})
    assert not selector.matches("a", "c", {"team": "blue"})
    assert config_of("", {}) == ClusterApiConfig()
    assert config_of("", {}).namespaces == ("",)
    inline = config_of("management=/etc/capi,namespace=a", {})
    assert (inline.kubeconfig, inline.selectors) == ("/etc/capi", (Selector(namespace="a"),))
    assert config_of("management=/etc/capi", {}).takes("any", "any", {})
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text("kind: Config\nclusters: []\n")
    assert config_of(str(kubeconfig), {}).kubeconfig == str(kubeconfig)
    file = tmp_path / "capi.yaml"
    file.write_text(
        f"kubeconfig: {kubeconfig}\ndiscovery: ['clusterapi:namespace=b', 'clusterapi:namespace=a,clusterName=c']\n"
    )
    both = config_of(str(file), {})
    assert both.namespaces == ("a", "b")
    assert both.takes("b", "any", {})
    assert not both.takes("a", "any", {})
    for content, said in (
        ("colour: blue", "valid are a kubeconfig, or"),
        ("discovery: ['clusterapi:a']", "write namespace=NS"),
    ):
        file.write_text(content)
        with pytest.raises(ValueError, match=r"capi\.yaml") as refused:
            config_of(str(file), {})
        assert said in str(refused.value)
    with pytest.raises(ValueError, match="nor a file that can be read"):
        config_of("/nowhere/at/all", {})


def test_the_environment_says_what_the_configuration_does_not(tmp_path: Path) -> None:
    environment = {
        "CAPI_GROUP": "machine.example.org",
        "CAPI_VERSION": "v1",
        "CAPI_SCALE_ZERO_DEFAULT_ARCH": "arm64",
    }
    config = config_of("", environment)
    assert (config.group, config.version, config.architecture) == ("machine.example.org", "v1", "arm64")
    file = tmp_path / "capi.yaml"
    file.write_text("group: cluster.x-k8s.io\nversion: v1beta2\n")
    config = config_of(str(file), environment | {"CAPI_SCALE_ZERO_DEFAULT_ARCH": "abacus"})
    assert (config.group, config.version, config.architecture) == ("cluster.x-k8s.io", "v1beta2", "amd64")


# --- What they are like -------------------------------------------------------------------------


def machine(
    about: dict[str, Any] | None = None, spec: dict[str, Any] | None = None, **status: Any
) -> Machine:
    metadata = {"name": "m", "namespace": "ns", **(about or {})}
    return msgspec.convert({"metadata": metadata, "spec": spec or {}, "status": status}, Machine)


GOING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
THERE = {"providerID": "p://1"}
JOINED = {"name": "n"}
NO_ROOM = {"type": "InfrastructureReady", "status": "False", "reason": "InstanceProvisionFailed", "message": "InsufficientInstanceCapacity"}  # fmt: skip
OLD = {"v1beta1": {"failureMessage": "CPU quota exceeded"}}


@pytest.mark.parametrize(
    ("said", "state", "error", "instance_id"),
    [
        (machine(spec=THERE, nodeRef=JOINED), InstanceState.RUNNING, None, "p://1"),
        (machine(), InstanceState.CREATING, None, "pending-machine-ns_m"),
        (machine(spec=THERE), InstanceState.CREATING, None, "p://1"),
        (machine(conditions=[NO_ROOM]), InstanceState.CREATING, (1, "ProvisioningFailed"), "pending-machine-ns_m"),
        (machine(spec=THERE, nodeRef=JOINED, conditions=[NO_ROOM]), InstanceState.RUNNING, None, "p://1"),
        (machine(GOING), InstanceState.DELETING, None, "deleting-machine-ns_m"),
        (machine(GOING, phase="Failed"), InstanceState.DELETING, (99, "DeletingFailed"), "deleting-machine-ns_m"),
        (machine(phase="Failed"), InstanceState.CREATING, (99, "ProvisioningFailed"), "failed-machine-ns_m"),
        (machine(phase="Failed", failureMessage="quota 'CPUS'"), InstanceState.CREATING, (1, "ProvisioningFailed"), "failed-machine-ns_m"),
        (machine(phase="Failed", deprecated=OLD), InstanceState.CREATING, (1, "ProvisioningFailed"), "failed-machine-ns_m"),
        (machine(phase="Failed", spec=THERE, nodeRef=JOINED), None, None, "p://1"),
    ],
)  # fmt: skip
def test_what_a_machine_is(
    said: Machine, state: InstanceState | None, error: tuple[int, str] | None, instance_id: str
) -> None:
    instance = said.instance()
    assert (instance.id, instance.state) == (instance_id, state)
    found = None if instance.error is None else (int(instance.error.error_class), instance.error.code)
    assert found == error


def scalable(annotations: dict[str, str], **template: Any) -> Scalable:
    metadata = {"name": "md", "namespace": "ns", "annotations": annotations}
    return msgspec.convert({"metadata": metadata, "spec": {"template": template}}, Scalable)


INFRASTRUCTURE = {
    "status": {"capacity": {"cpu": "4", "memory": "16Gi"}, "nodeInfo": {"architecture": "arm64"}}
}


def test_a_template_is_annotations_over_what_the_infrastructure_says() -> None:
    resource = scalable(
        {
            f"{PREFIX}cpu": "8",
            f"{PREFIX}ephemeral-disk": "100Gi",
            f"{PREFIX}gpu-type": "nvidia.com/gpu",
            f"{PREFIX}gpu-count": "2",
            f"{PREFIX}labels": "pool=blue,bad,zone=z",
            f"{PREFIX}csi-driver": "ebs.csi=25,other=0,bad=x",
        },
        metadata={"labels": {"node-role.kubernetes.io/worker": "", "private": "x"}},
        spec={"taints": [{"key": "a", "value": "b", "effect": "NoExecute"}]},
    )
    template = template_of(resource, INFRASTRUCTURE, "amd64")
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
    assert template_of(resource, None, "amd64") is None  # nobody says the memory


def test_devices_taints_and_pods_of_annotations() -> None:
    resource = scalable(
        {
            f"{PREFIX}cpu": "1",
            f"{PREFIX}memory": "1Gi",
            f"{PREFIX}maxPods": "30",
            f"{PREFIX}taints": "k=v:NoSchedule,x:NoExecute",
            f"{PREFIX}dra-driver": "gpu.example.org",
            f"{PREFIX}gpu-count": "2",
        },
        spec={"taints": [{"key": "replaced", "effect": "NoExecute"}]},
    )
    template = template_of(resource, None, "s390x")
    assert template is not None
    assert template.capacity == {"cpu": "1", "memory": "1Gi", "pods": "30"}
    assert [(t.key, t.value, t.effect) for t in template.taints] == [
        ("k", "v", "NoSchedule"),
        ("x", "", "NoExecute"),
    ]
    assert [device["name"] for device in template.devices] == ["gpu-0", "gpu-1"]
    assert {device["driver"] for device in template.devices} == {"gpu.example.org"}
    assert template.labels["kubernetes.io/arch"] == "s390x"


@pytest.mark.parametrize(
    ("name", "text"), [("cpu", "many"), ("maxPods", "-1"), ("gpu-count", "two"), ("taints", "a=b:Sometimes")]
)
def test_an_annotation_that_cannot_be_read_is_named(name: str, text: str) -> None:
    resource = scalable({f"{PREFIX}{name}": text})
    with pytest.raises(Invalid, match=f"annotation {PREFIX}{name}: "):
        template_of(resource, INFRASTRUCTURE, "amd64")


def test_devices_are_not_made_by_the_million() -> None:
    resource = scalable({f"{PREFIX}gpu-count": "999999999", f"{PREFIX}dra-driver": "gpu.example.org"})
    with pytest.raises(Invalid, match="999999999: valid is a number of devices up to 1024"):
        template_of(resource, INFRASTRUCTURE, "amd64")


def test_options_are_annotations() -> None:
    prefix = f"{API}/autoscaling-options-"
    resource = scalable(
        {
            f"{prefix}scaledownunneededtime": "15M",
            f"{prefix}maxnodeprovisiontime": "soon",
            f"{prefix}scaledownutilizationthreshold": "0.7",
            f"{prefix}scaledowngpuutilizationthreshold": "nan",
        }
    )
    defaults = GroupOptions(max_node_provision_s=900.0)
    assert options_of(resource, API, defaults) == GroupOptions(
        max_node_provision_s=900.0, scale_down_unneeded_s=900.0, scale_down_utilization_threshold=0.7
    )


# --- Groups of an API server --------------------------------------------------------------------


async def annotate(bench: ClusterApiBench, where: str, annotations: dict[str, str | None]) -> None:
    await bench.send("PATCH", where, {"metadata": {"annotations": annotations}}, MERGE)


async def test_all_three_kinds_are_groups_and_their_machines_are_theirs() -> None:
    async with ClusterApiBench() as bench:
        deployment = await bench.define("one", size=1)
        machine_set = await bench.make("MachineSet", "alone", ROOM, size=2)
        pool = await bench.make(
            "MachinePool", "pool", ROOM, size=2, providerIDList=["moon:///a", "moon:///b"]
        )
        await bench.provider.refresh()
        groups = {group.id: group for group in bench.provider.node_groups()}
        assert set(groups) == {deployment, machine_set, pool}  # the set of the deployment is none
        assert [len(await groups[name].nodes()) for name in (deployment, machine_set, pool)] == [1, 2, 2]
        found = await bench.provider.node_group_for_node("moon:///b", {})
        assert found is not None
        assert found.id == pool
        assert [len(await (await bench.provider.group(name)).nodes()) for name in groups] == [
            len(await group.nodes()) for group in groups.values()
        ]


async def test_a_pool_without_machines_gets_smaller_once_for_one_decision() -> None:
    async with ClusterApiBench() as bench:
        name = await bench.make(
            "MachinePool", "pool", {MIN: "1", MAX: "5"}, size=2, providerIDList=["moon:///a", "moon:///b"]
        )
        with pytest.raises(Invalid, match="instance moon:///c is of no group"):
            await (await bench.provider.group(name)).delete_nodes(["moon:///c"], key="k")
        with pytest.raises(Invalid, match="only 0 orders are unfulfilled"):
            await (await bench.provider.group(name)).decrease_target_size(-1, key="k", expect=2)
        bench.lose_answer()
        with pytest.raises(Unavailable):
            await (await bench.provider.group(name)).delete_nodes(["moon:///a"], key="k")
        await (await bench.provider.group(name)).delete_nodes(["moon:///a"], key="k")
        assert await bench.size(name) == 1
        with pytest.raises(Invalid, match="below the minimum 1"):
            await (await bench.provider.group(name)).delete_nodes(["moon:///b"], key="l")


async def test_what_is_no_group_and_what_cannot_be_used_as_one() -> None:
    async with ClusterApiBench() as bench:
        for name in ("paused", "wrong", "unknown", "off", "good"):
            await bench.define(name)
        await annotate(bench, path("MachineDeployment", "paused"), {f"{API}/paused": "true"})
        await annotate(bench, path("MachineDeployment", "wrong"), {MAX: "many"})
        await annotate(bench, path("MachineDeployment", "off"), {MAX: None})
        nothing: dict[str, Any] = {"spec": {"template": {"spec": {"infrastructureRef": None}}}}
        await bench.send("PATCH", path("MachineDeployment", "unknown"), nothing, MERGE)
        await bench.provider.refresh()
        groups = {group.id.rpartition("/")[2]: group for group in bench.provider.node_groups()}
        assert sorted(groups) == ["good", "wrong"]
        # One with limits that cannot be used is told as such, and not as gone.
        with pytest.raises(Invalid, match=f"MachineDeployment/default/wrong: annotation {MAX}: 'many'"):
            await groups["wrong"].target_size()
        with pytest.raises(Conflict, match="is paused"):
            await bench.provider.group("MachineDeployment/default/paused")
        selected = bench.client(bench.cluster(), ClusterApiConfig(selectors=(Selector(namespace="b"),)))
        await selected.refresh()
        assert selected.node_groups() == []
        await selected.cleanup()


@pytest.mark.parametrize("status", [{"capacity": "4"}, {"capacity": ["cpu"]}, {"nodeInfo": "arm64"}])
def test_an_infrastructure_template_that_says_no_map_is_named(status: dict[str, Any]) -> None:
    resource = scalable({f"{PREFIX}cpu": "8", f"{PREFIX}memory": "16Gi"})
    with pytest.raises(
        Invalid, match=r"infrastructure template: status\.(capacity|nodeInfo): .* valid is a map"
    ):
        template_of(resource, {"status": status}, "amd64")


async def test_a_refresh_that_failed_half_way_leaves_no_group_out_of_the_next_one() -> None:
    async with ClusterApiBench() as bench:
        await bench.define("one", size=1)
        provider = bench.provider
        told = provider._tell_unusable

        def broken(*_: Any) -> None:
            provider._tell_unusable = told  # type: ignore[method-assign]
            raise ValueError("nonsense")

        provider._tell_unusable = broken  # type: ignore[method-assign, assignment]
        with pytest.raises(ValueError, match="nonsense"):
            await provider.refresh()
        await provider.refresh()
        assert [group.id for group in provider.node_groups()] == ["MachineDeployment/default/one"]


async def test_a_refresh_is_one_call_whatever_there_is_and_shows_what_the_watches_say() -> None:
    async with ClusterApiBench() as bench:
        for number in range(4):
            await bench.define(f"g{number}", size=1)
        await bench.provider.refresh()
        bench.proxy.calls.clear()
        looking = bench.provider
        await looking.look()
        for group in looking.node_groups():
            await group.nodes()
            await group.template()
        assert [target for _, target, _ in bench.proxy.calls] == [f"/apis/{API}/v1beta1"]
        capacity = {"status": {"capacity": {"cpu": "96"}}}
        await bench.send("PATCH", f"{bench.templates}/m4/status", capacity, MERGE)

        async def cpus() -> set[str]:
            await looking.look()
            return {(await group.template()).capacity["cpu"] for group in looking.node_groups()}

        await until(cpus, lambda found: found == {"96"})
        assert {target for _, target, _ in bench.proxy.calls} == {f"/apis/{API}/v1beta1"}


async def test_what_is_heard_during_a_refresh_is_not_passed_over() -> None:
    async with ClusterApiBench() as bench:
        name = await bench.define("one", size=1)
        await bench.provider.refresh()
        following = bench.provider._followed.follow_templates

        async def meanwhile(resources: Iterable[Scalable]) -> None:
            known = list(resources)
            await following(known)
            await bench.resize(name, 2)
            heard = bench.provider._followed._resources["MachineDeployment", ""]
            await until(lambda: [it.size for it in heard.objects.values()], lambda sizes: sizes == [2])

        bench.provider._followed.follow_templates = meanwhile  # type: ignore[method-assign]
        await bench.provider.look()
        bench.provider._followed.follow_templates = following  # type: ignore[method-assign]
        await bench.provider.look()
        assert [await group.target_size() for group in bench.provider.node_groups()] == [2]


async def test_an_order_is_one_read_and_one_write() -> None:
    async with ClusterApiBench() as bench:
        name = await bench.define("one", size=1)
        await bench.provider.group(name)
        bench.proxy.calls.clear()
        await (await bench.provider.group(name)).increase_size(1, key="k", expect=1)
        there = path("MachineDeployment", "one")
        assert [(method, target) for method, target, _ in bench.proxy.calls] == [
            ("GET", there),
            ("PATCH", f"{there}/scale"),
        ]


async def test_kinds_that_nobody_may_read_are_said_and_what_is_known_stays() -> None:
    async with ClusterApiBench() as bench:
        name = await bench.define("one", size=1)
        status = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "not you"}
        bench.proxy.answer = lambda method, target, body: (
            web.json_response(status, status=403) if "/machinepools" in target else None
        )
        with pytest.raises(Forbidden, match="machinepools: not you"):
            await bench.provider.look()
        bench.proxy.answer = lambda method, target, body: None

        async def known() -> list[str]:
            try:
                await bench.provider.look()
            except Forbidden:
                return []
            return [group.id for group in bench.provider.node_groups()]

        await until(known, lambda found: found == [name])


_VERBS = {"GET": "get", "PATCH": "patch"}


def rights(calls: list[tuple[str, str, bytes]]) -> set[tuple[str, str, str]]:
    """Group, resource and verb of calls; discovery is everybody's."""
    found: set[tuple[str, str, str]] = set()
    for method, target, _ in calls:
        where, _, query = target.partition("?")
        parts = where.removeprefix("/apis/").split("/")
        group, rest = parts[0], parts[4:] if parts[2:3] == ["namespaces"] else parts[2:]
        if not rest:
            continue
        verb = _VERBS[method]
        if len(rest) == 1:
            verb = "watch" if "watch=" in query else "list"
        found.add((group, "/".join((rest[0], *rest[2:])), verb))
    return found


def granted(role: str) -> set[tuple[str, str, str]]:
    roles = yaml.safe_load_all((ROOT / "deploy" / "clouds" / "clusterapi.yaml").read_text())
    (rules,) = [it["rules"] for it in roles if it["kind"] == "ClusterRole" and it["metadata"]["name"] == role]
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


async def test_the_roles_have_what_watcher_and_actuator_ask_for_and_no_more() -> None:
    async with ClusterApiBench() as bench:
        names = [await bench.make(kind, "one", ROOM, size=2) for kind in ("MachineDeployment", "MachineSet")]
        bare = await bench.make(
            "MachinePool", "pool", ROOM, size=2, providerIDList=["moon:///a", "moon:///b"]
        )
        await bench.provider.refresh()
        follows = {
            (group, "*" if group == INFRA else resource, verb)
            for group, resource, verb in rights(bench.proxy.calls)
        }
        assert follows == granted("tidewright-clusterapi-reads")
        bench.proxy.calls.clear()
        acting = bench.client(bench.cluster())
        for name in (*names, bare):
            gone, _ = [it.id for it in await (await acting.group(name)).nodes()]
            await (await acting.group(name)).delete_nodes([gone], key="k")
            await bench.act()
            await (await acting.group(name)).increase_size(2, key="l", expect=1)
            await (await acting.group(name)).decrease_target_size(-1, key="m", expect=3)
        await acting.cleanup()
        assert rights(bench.proxy.calls) == granted("tidewright-clusterapi-writes")


# --- Removals -----------------------------------------------------------------------------------


async def notes_by_id(bench: ClusterApiBench, name: str) -> dict[str, dict[str, str]]:
    return {
        it["spec"].get("providerID", ""): it["metadata"].get("annotations", {})
        for it in await bench.machines(name)
    }


async def test_a_removal_that_was_cut_short_between_mark_and_size_is_finished() -> None:
    async with ClusterApiBench() as bench:
        name = await bench.define("one", size=3)
        first, *others = await bench.running(name)
        bench.lose_answer()  # of the mark, which is the first write
        with pytest.raises(Unavailable):
            await (await bench.provider.group(name)).delete_nodes([first], key="order")
        marked = (await notes_by_id(bench, name))[first]
        assert marked[marks.DECISION].startswith("order generation=")
        assert f"{API}/delete-machine" in marked
        assert await bench.size(name) == 3
        await (await bench.provider.group(name)).delete_nodes([first], key="order")
        # Once more before Cluster API has acted, as after a lost answer: the size that it leads to is there.
        await (await bench.provider.group(name)).delete_nodes([first], key="order")
        assert (await bench.size(name), await bench.running(name)) == (2, others)


async def test_a_removal_whose_size_is_refused_is_undone() -> None:
    async with ClusterApiBench() as bench:
        name = await bench.define("one", size=2)
        first, _ = await bench.running(name)
        group = await bench.provider.group(name)
        bench.proxy.answer = refused_scale
        with pytest.raises(Forbidden):
            await group.delete_nodes([first], key="order")
        assert all(marks.DECISION not in notes for notes in (await notes_by_id(bench, name)).values())


def refused_scale(method: str, target: str, body: bytes) -> Any:
    if not target.endswith("/scale"):
        return None
    return web.json_response(
        {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no"}, status=403
    )


async def test_a_removal_stands_aside_when_somebody_else_sets_the_size() -> None:
    async with ClusterApiBench() as bench:
        name = await bench.define("one", size=3)
        first, *_ = await bench.running(name)
        bench.lose_answer()
        with pytest.raises(Unavailable):
            await (await bench.provider.group(name)).delete_nodes([first], key="order")
        await bench.resize(name, 5)
        with pytest.raises(Conflict, match="set to 5 by somebody else during the removal order"):
            await (await bench.provider.group(name)).delete_nodes([first], key="order")
        assert all(marks.DECISION not in notes for notes in (await notes_by_id(bench, name)).values())
        assert await bench.size(name) == 5


async def test_what_changes_beside_the_size_does_not_stop_a_removal() -> None:
    async with ClusterApiBench() as bench:
        name = await bench.define("one", size=2)
        first, second = await bench.running(name)
        group = await bench.provider.group(name)
        await group.nodes()
        await annotate(bench, path("MachineDeployment", "one"), {"of": "another"})
        await group.delete_nodes([first], key="order")
        assert (await bench.size(name), await bench.running(name)) == (1, [second])


async def test_marks_of_a_removal_that_was_given_up_are_undone_before_the_size_gets_smaller() -> None:
    async with ClusterApiBench() as bench:
        name = await bench.define("one", size=3)
        first, second, third = await bench.running(name)
        bench.lose_answer()
        with pytest.raises(Unavailable):
            await (await bench.provider.group(name)).delete_nodes([first], key="given-up")
        await (await bench.provider.group(name)).delete_nodes([second], key="order")
        assert (await bench.size(name), await bench.running(name)) == (2, [first, third])
        # Cancelling is not to delete it, either.
        bench.lose_answer()
        with pytest.raises(Unavailable):
            await (await bench.provider.group(name)).delete_nodes([first], key="given-up-too")
        await (await bench.provider.group(name)).increase_size(1, key="k", expect=2)
        await bench.act()
        await (await bench.provider.group(name)).decrease_target_size(-1, key="l", expect=3)
        assert (await bench.size(name), await bench.running(name)) == (2, [first, third])


async def test_no_size_gets_smaller_while_a_mark_that_stayed_behind_cannot_be_taken_off() -> None:
    async with ClusterApiBench() as bench:
        name = await bench.define("one", size=3)
        first, second, third = await bench.running(name)
        bench.lose_answer()
        with pytest.raises(Unavailable):
            await (await bench.provider.group(name)).delete_nodes([first], key="given-up")
        bench.proxy.answer = lambda method, target, body: (
            web.json_response({"kind": "Status", "code": 403, "message": "no"}, status=403)
            if method == "PATCH" and b"null" in body
            else None
        )
        with pytest.raises(Forbidden):
            await (await bench.provider.group(name)).delete_nodes([second], key="order")
        assert (await bench.size(name), await bench.running(name)) == (3, [first, second, third])


async def test_no_size_gets_smaller_while_a_machine_has_a_mark_of_another() -> None:
    async with ClusterApiBench() as bench:
        name = await bench.define("one", size=2)
        first, second = await bench.running(name)
        await annotate(bench, path("Machine", first.rpartition("/")[2]), {f"{API}/delete-machine": "now"})
        with pytest.raises(Conflict, match="which is not ours"):
            await (await bench.provider.group(name)).delete_nodes([second], key="k")
        await (await bench.provider.group(name)).increase_size(1, key="k", expect=2)
        await bench.act()
        with pytest.raises(Conflict, match="which is not ours"):
            await (await bench.provider.group(name)).decrease_target_size(-1, key="l", expect=3)
        assert await bench.running(name) == [first, second]


async def test_machines_that_hang_or_fail_are_cancelled_by_size_or_by_id() -> None:
    async with ClusterApiBench() as bench:
        name = await bench.define("one", size=1)
        before = await bench.running(name)
        bench.hanging.add(name)
        bench.failing[name] = "the moon is closed"
        await (await bench.provider.group(name)).increase_size(2, key="k", expect=1)
        await bench.come(name)
        failed = [it for it in await bench.alive(name) if it.error is not None]
        assert [(it.error.code, int(it.error.error_class)) for it in failed if it.error] == [
            ("ProvisioningFailed", 99)
        ] * 2
        await (await bench.provider.group(name)).delete_nodes([failed[0].id], key="l")
        assert await bench.size(name) == 2
        await (await bench.provider.group(name)).decrease_target_size(-1, key="m", expect=2)
        assert (await bench.size(name), await bench.running(name)) == (1, before)


async def test_an_id_that_is_no_groups_is_not_found() -> None:
    async with ClusterApiBench() as bench:
        for wrong in ("one", "Deployment/default/one", "MachineSet/default/", "MachineSet/default/none"):
            with pytest.raises(NotFound, match="no node group"):
                await bench.provider.group(wrong)


async def test_without_cluster_api_it_is_said_that_it_is_not_served() -> None:
    async with ClusterApiBench() as bench:
        elsewhere = bench.client(bench.cluster(), ClusterApiConfig(group="elsewhere.example.org"))
        with pytest.raises(NotFound, match=r"does not serve elsewhere\.example\.org"):
            await elsewhere.refresh()
        await elsewhere.cleanup()


def test_a_mark_is_read_as_it_was_written() -> None:
    mark = marks.Mark("a/b:c", 7, 3)
    written = marks.marking(mark, API, 0.0)["metadata"]
    marked = machine({"annotations": written["annotations"]})
    assert marks.mark_of(marked) == mark
    assert not marks.is_of_another(marked, API)
    assert json.loads(json.dumps(written))["annotations"][f"{API}/delete-machine"] == "1970-01-01T00:00:00Z"
