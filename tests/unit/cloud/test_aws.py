"""AWS: which groups, what their next node will be like, why instances do not come, and what the services' faults are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError, NoRegionError

from tests.unit.cloud.contract.of_aws import TAG, ZONE, AwsBench, fields, raw_client
from tidewright.cloud.aws import client, policies, templates
from tidewright.cloud.aws.client import AwsProvider
from tidewright.cloud.aws.config import AwsConfig, NamedGroup, TagSelector, config_of, named_of, selector_of
from tidewright.cloud.aws.errors import of_sdk
from tidewright.cloud.calls import Calls
from tidewright.cloud.errors import Invalid, NotFound
from tidewright.cloud.provider import GroupOptions, Taint

PREFIX = "k8s.io/cluster-autoscaler/node-template/"


def group(**more: Any) -> dict[str, Any]:
    tags = more.pop("tags", {})
    said = {
        "AutoScalingGroupName": "g",
        "DesiredCapacity": 0,
        "AvailabilityZones": ["z1", "z2"],
        "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
    }
    return {**said, **more}


MACHINE = templates.InstanceType(name="m5.large", cpus=2, memory_mib=8192)


def template(**tags: str) -> Any:
    named = {key.replace("__", "/"): value for key, value in tags.items()}
    return templates.template_of(group(tags=named), MACHINE, region="r", reserved={})


def test_groups_are_selected_by_tags_and_each_flag_is_an_alternative(tmp_path: Path) -> None:
    both = selector_of("asg:tag=a,b=1")
    assert both == TagSelector((("a", ""), ("b", "1")))
    assert both.matches({"a": "anything", "b": "1"})
    assert not both.matches({"a": "x", "b": "2"})
    assert not both.matches({"b": "1"})
    assert named_of("1:10:my:group") == NamedGroup("my:group", 1, 10)
    assert config_of("asg:tag=a").selectors == (TagSelector((("a", ""),)),)
    prices = tmp_path / "prices.yaml"
    prices.write_text("m5.large: 0.096\n")
    file = tmp_path / "aws.yaml"
    file.write_text(
        f"region: eu-west-1\ndiscovery: ['asg:tag=a', 'asg:tag=b']\nnodes: ['1:3:x']\nprices: {prices}\nreserved: {{cpu: 70m}}\n"
    )
    config = config_of(str(file))
    assert (config.region, len(config.selectors), config.named) == ("eu-west-1", 2, (NamedGroup("x", 1, 3),))
    assert (config.prices, config.reserved) == ({"m5.large": 0.096}, {"cpu": "70m"})
    for content, said in (
        ("{}", "neither discovery nor nodes"),
        ("discovery: ['mig:name=a']", "write asg:tag=KEY[=VALUE]"),
        ("nodes: ['5:3:x']", "write MIN:MAX:NAME"),
        ("regions: x", "valid are region, discovery"),
    ):
        file.write_text(content)
        with pytest.raises(ValueError, match=r"aws\.yaml") as refused:
            config_of(str(file))
        assert said in str(refused.value)
    with pytest.raises(ValueError, match=r"neither asg:tag=\.\.\. nor a file"):
        config_of(str(tmp_path / "nowhere"))


def test_a_node_is_like_its_type_with_what_tags_say() -> None:
    node = template(
        **{
            f"{PREFIX}label/pool": "blue",
            f"{PREFIX}taint/dedicated": "batch:NoSchedule",
            f"{PREFIX}taint/odd": "x:Sometimes",
            f"{PREFIX}resources/ephemeral-storage": "100Gi",
            f"{PREFIX}resources/cpu": "much",
            "eks:nodegroup-name": "ng",
        }
    )
    assert node.capacity == {"cpu": "2", "memory": "8192Mi", "pods": "110", "ephemeral-storage": "100Gi"}
    assert node.labels["pool"] == "blue"
    assert node.labels["nodegroup-name"] == "ng"
    assert node.labels["topology.kubernetes.io/zone"] == "z1"
    assert node.labels["node.kubernetes.io/instance-type"] == "m5.large"
    assert node.taints == (Taint(key="dedicated", value="batch", effect="NoSchedule"),)


def test_what_machines_keep_for_themselves_is_taken_off() -> None:
    node = templates.template_of(
        group(), MACHINE, region="r", reserved={"cpu": "70m", "memory": "1Gi", "gpu": "1"}
    )
    assert node.allocatable == {"cpu": "1930m", "memory": str(7 * 2**30), "pods": "110"}
    assert node.capacity["cpu"] == "2"


def test_eks_says_more_than_tags() -> None:
    eks = templates.eks_of(
        {
            "labels": {"pool": "green"},
            "taints": [{"key": "a", "value": "b", "effect": "NO_EXECUTE"}],
            "tags": {f"{PREFIX}resources/nvidia.com/gpu": "2"},
        }
    )
    said = group(tags={f"{PREFIX}label/pool": "blue", "eks:cluster-name": "c", "eks:nodegroup-name": "n"})
    node = templates.template_of(said, MACHINE, region="r", reserved={}, eks=eks)
    assert node.labels["pool"] == "green"
    assert node.taints == (Taint(key="a", value="b", effect="NoExecute"),)
    assert node.capacity["nvidia.com/gpu"] == "2"
    assert templates.managed_by_eks({"eks:cluster-name": "c"}) is None


def test_options_of_tags_that_cannot_be_read_are_ignored() -> None:
    prefix = f"{PREFIX}autoscaling-options/"
    said = group(
        tags={
            f"{prefix}scaledownunneededtime": "15m",
            f"{prefix}scaledownutilizationthreshold": "high",
            f"{prefix}ignoredaemonsetsutilization": "true",
            f"{prefix}zeroormax": "true",
        }
    )
    defaults = GroupOptions(scale_down_unneeded_s=600.0, scale_down_utilization_threshold=0.5)
    assert templates.options_of(said, defaults) == GroupOptions(
        scale_down_unneeded_s=900.0,
        scale_down_utilization_threshold=0.5,
        ignore_daemon_sets_utilization=True,
    )


def test_where_the_type_is_said() -> None:
    lt = {"LaunchTemplateId": "lt-1", "Version": "3"}
    assert templates.source_of(group(LaunchTemplate=lt)).launch_template == ("lt-1", "", "3")
    assert templates.source_of(group(LaunchConfigurationName="lc")).launch_configuration == "lc"

    def mixed(*overrides: dict[str, Any]) -> dict[str, Any]:
        return group(
            MixedInstancesPolicy={
                "LaunchTemplate": {"LaunchTemplateSpecification": lt, "Overrides": list(overrides)}
            }
        )

    assert templates.source_of(mixed({"InstanceType": "a"}, {"InstanceType": "b"})).instance_type == "a"
    assert templates.source_of(mixed()).launch_template == ("lt-1", "", "3")
    wanted = {"VCpuCount": {"Min": 2}, "MemoryMiB": {"Min": 4096}}
    assert templates.source_of(mixed({"InstanceRequirements": wanted})).requirements == wanted
    least = templates.at_least(
        MACHINE, {**wanted, "AcceleratorCount": {"Min": 1}, "AcceleratorManufacturers": ["nvidia"]}
    )
    assert (least.cpus, least.memory_mib, least.gpus) == (2, 4096, 1)
    with pytest.raises(Invalid, match="one kind of them"):
        templates.source_of(mixed({"InstanceType": "a"}, {"InstanceRequirements": wanted}))


@pytest.mark.parametrize(
    ("code", "status", "text", "reason"),
    [
        ("Throttling", 400, "Rate exceeded", "Throttled"),
        ("ExpiredToken", 403, "expired", "Forbidden"),
        ("UnauthorizedOperation", 403, "no", "Forbidden"),
        ("ScalingActivityInProgress", 400, "busy", "Conflict"),
        ("ValidationError", 400, "AutoScalingGroup name not found - x", "NotFound"),
        ("ValidationError", 400, "New SetDesiredCapacity value 9 is above max value 3", "Invalid"),
        ("VcpuLimitExceeded", 400, "quota", "QuotaExceeded"),
        ("InsufficientInstanceCapacity", 500, "none", "OutOfCapacity"),
        ("InternalFailure", 500, "", "Unavailable"),
        ("SomethingNew", 400, "what", "Invalid"),
    ],
)
def test_codes_of_the_services_are_classes(code: str, status: int, text: str, reason: str) -> None:
    answer: Any = {"Error": {"Code": code, "Message": text}, "ResponseMetadata": {"HTTPStatusCode": status}}
    error = of_sdk(ClientError(answer, "Op"), "Op")
    assert (error.reason, error.code) == (reason, code)
    assert error.message.startswith("Op: ")


def test_what_the_sdk_lacks_is_said_with_a_remedy() -> None:
    no_one = of_sdk(NoCredentialsError(), "Op")
    assert no_one.reason == "Forbidden"
    assert "a role of the service account" in no_one.message
    nowhere = of_sdk(NoRegionError(), "Op")
    assert "AWS_REGION" in nowhere.message
    unreachable = of_sdk(EndpointConnectionError(endpoint_url="https://autoscaling.moon-1.example"), "Op")
    assert unreachable.reason == "Unavailable"
    assert "moon-1" in unreachable.message


def test_policies_are_the_calls_that_are_made() -> None:
    text = Path(client.__file__).read_text()
    made = set(re.findall(r'"([A-Z][A-Za-z]+)"', text)) & (
        {name for names in policies.READS.values() for name in names}
        | {*policies.LOOKS, *policies.WRITES}
        | set(re.findall(r'"((?:Describe|Get|Set|Terminate|Create|Delete|Update)[A-Za-z]+)"', text))
    )
    assert made == {*(name for names in policies.READS.values() for name in names), *policies.WRITES}
    writing = policies.actuator()["Statement"][1]
    assert writing["Condition"]["StringEquals"] == {f"aws:ResourceTag/{TAG}": "true"}


async def test_an_order_is_one_read_and_one_write_and_a_refresh_a_page() -> None:
    async with AwsBench() as bench:
        for number in range(3):
            await bench.define(f"g{number}", size=1)
        await bench.provider.refresh()
        bench.proxy.calls.clear()
        await bench.provider.refresh()
        assert [fields(body)["Action"] for _, _, body in bench.proxy.calls] == ["DescribeAutoScalingGroups"]
        bench.proxy.calls.clear()
        await (await bench.provider.group("g1")).increase_size(1, key="k", expect=1)
        actions = [fields(body)["Action"] for _, _, body in bench.proxy.calls]
        assert actions == ["DescribeAutoScalingGroups", "SetDesiredCapacity"]


async def test_groups_by_name_have_limits_of_ours_and_others_are_not_ours() -> None:
    async with AwsBench() as bench:
        await bench.define("named", minimum=0, maximum=3)
        await bench.raw.delete_tags(
            Tags=[{"ResourceId": "named", "ResourceType": "auto-scaling-group", "Key": TAG}]
        )
        await bench.provider.refresh()
        assert bench.provider.node_groups() == []
        with pytest.raises(NotFound, match="that is selected"):
            await bench.provider.group("named")
        config = AwsConfig(named=(NamedGroup("named", 1, 9),), region="us-east-1", endpoint=bench.proxy.url)
        provider = AwsProvider(config, Calls("c"))
        await provider.refresh()
        (found,) = provider.node_groups()
        assert (found.min_size, found.max_size, found.zone) == (1, 9, ZONE)
        await provider.cleanup()


async def test_a_launch_template_says_the_type_and_a_table_the_price() -> None:
    async with AwsBench() as bench:
        async with raw_client("ec2") as ec2:
            await ec2.create_launch_template(
                LaunchTemplateName="large",
                LaunchTemplateData={"InstanceType": "c5.2xlarge", "ImageId": "ami-12c6146b"},
            )
        await bench.raw.create_auto_scaling_group(
            AutoScalingGroupName="of-template", MinSize=0, MaxSize=5, DesiredCapacity=0, AvailabilityZones=[ZONE],
            LaunchTemplate={"LaunchTemplateName": "large", "Version": "$Latest"},
            Tags=[{"Key": TAG, "Value": "true", "PropagateAtLaunch": False}],
        )  # fmt: skip
        config = AwsConfig(
            selectors=(TagSelector(((TAG, ""),)),), region="us-east-1", endpoint=bench.proxy.url,
            prices={"c5.2xlarge": 0.34},
        )  # fmt: skip
        provider = AwsProvider(config, Calls("c"))
        await provider.refresh()
        (found,) = provider.node_groups()
        assert (await found.template()).capacity["cpu"] == "8"
        assert (found.machine_type, found.price_per_hour) == ("c5.2xlarge", 0.34)
        bench.proxy.calls.clear()
        await provider.refresh()
        await provider.node_groups()[0].template()
        assert len(bench.proxy.calls) == 1  # what its machines are like is known for a while
        await provider.cleanup()


async def test_a_placeholder_among_what_is_deleted_drops_all_that_has_not_come() -> None:
    async with AwsBench() as bench:
        await bench.define("g", size=1)
        await (await bench.provider.group("g")).increase_size(3, key="k", expect=1)
        group = await bench.provider.group("g")
        coming = [
            one.id for one in await group.nodes() if one.state is not None and one.state.name == "CREATING"
        ]
        assert coming[0] == f"aws:///{ZONE}/i-placeholder-g-1"
        await group.delete_nodes(coming[:1], key="l")
        assert await bench.size("g") == 1
        assert len(await bench.running("g")) == 1


async def test_instance_requirements_are_asked_for_a_type_and_its_least_size_counts() -> None:
    async with AwsBench() as bench:
        async with raw_client("ec2") as ec2:
            await ec2.create_launch_template(
                LaunchTemplateName="any",
                LaunchTemplateData={
                    "ImageId": "ami-12c6146b",
                    "InstanceRequirements": {"VCpuCount": {"Min": 3}, "MemoryMiB": {"Min": 8000}},
                },
            )
        await bench.raw.create_auto_scaling_group(
            AutoScalingGroupName="of-any", MinSize=0, MaxSize=5, DesiredCapacity=0, AvailabilityZones=[ZONE],
            LaunchTemplate={"LaunchTemplateName": "any", "Version": "$Latest"},
            Tags=[{"Key": TAG, "Value": "true", "PropagateAtLaunch": False}],
        )  # fmt: skip
        passed_on = bench.proxy.answer

        def with_types(method: str, path: str, body: bytes) -> web.Response | None:
            if fields(body).get("Action") != "GetInstanceTypesFromInstanceRequirements":
                return passed_on(method, path, body)
            text = (
                '<GetInstanceTypesFromInstanceRequirementsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">'
                "<instanceTypeSet><item><instanceType>m5.2xlarge</instanceType></item></instanceTypeSet>"
                "</GetInstanceTypesFromInstanceRequirementsResponse>"
            )
            return web.Response(text=text, content_type="text/xml")

        bench.proxy.answer = with_types
        await bench.provider.refresh()
        (found,) = bench.provider.node_groups()
        template = await found.template()
        assert (template.capacity["cpu"], template.capacity["memory"]) == ("3", "8000Mi")
        assert found.machine_type == "m5.2xlarge"
        (asked,) = [
            fields(body) for _, _, body in bench.proxy.calls
            if fields(body).get("Action") == "GetInstanceTypesFromInstanceRequirements"
        ]  # fmt: skip
        assert asked["InstanceRequirements.VCpuCount.Min"] == "3"


async def test_eks_is_asked_about_a_managed_group_until_it_has_had_a_node() -> None:
    async with AwsBench() as bench:
        tags = {"eks:cluster-name": "c", "eks:nodegroup-name": "ng"}
        await bench.define("managed", tags=tags)
        said = {
            "nodegroup": {
                "labels": {"pool": "green"},
                "taints": [{"key": "a", "value": "b", "effect": "NO_SCHEDULE"}],
            }
        }
        passed_on = bench.proxy.answer
        bench.proxy.answer = lambda method, path, body: (
            web.json_response(said) if path == "/clusters/c/node-groups/ng" else passed_on(method, path, body)
        )
        template = await (await bench.group("managed")).template()
        assert template.labels["pool"] == "green"
        assert template.taints == (Taint(key="a", value="b", effect="NoSchedule"),)
        await (await bench.provider.group("managed")).increase_size(1, key="k", expect=0)
        await bench.come("managed")
        bench.proxy.calls.clear()
        assert "pool" not in (await (await bench.group("managed")).template()).labels
        assert not [path for _, path, _ in bench.proxy.calls if "node-groups" in path]
