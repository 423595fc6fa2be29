"""What is wrong at a cloud, as the watcher says it: cloud, group, field and remedy; the others go on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.unit.cloud.contract.bench import Bench
from tests.unit.cloud.contract.benches import BENCHES
from tests.unit.cloud.contract.moon import API, MAX, MIN
from tests.unit.cloud.contract.of_aws import AwsBench, error_text, fields
from tests.unit.cloud.contract.of_clusterapi import ClusterApiBench
from tests.unit.cloud.contract.of_kwok import KwokBench
from tests.unit.provisioning.cloud import Cloud, group
from tidewright.actuator.allowance import Allowance
from tidewright.actuator.cloud import CloudApplier
from tidewright.actuator.verdict import Refused
from tidewright.cloud.aws import client as aws
from tidewright.cloud.aws.client import AwsProvider
from tidewright.cloud.aws.config import AwsConfig, TagSelector, config_of
from tidewright.cloud.calls import Calls
from tidewright.cloud.errors import Forbidden, NotFound
from tidewright.cloud.provider import Provider
from tidewright.cloud.providers import CloudSpec
from tidewright.events.base import ObjectRef
from tidewright.events.provisioning import CloudObserved, IncreaseNodeGroup, NodeGroupObserved
from tidewright.log.clock import Clock
from tidewright.watcher.clouds import FAILURES_BEFORE_SAID, CloudReader, Names
from tidewright.watcher.log_time import Stamp

TAGGED = (TagSelector((("k8s.io/cluster-autoscaler/enabled", ""),)),)


def reader(provider: Provider | Cloud, name: str = "east") -> CloudReader:
    clock = Clock(lambda: 1000.0)
    stamp = Stamp(clock.now, lambda: 0.0, lambda: 1.0)
    given: Any = provider
    return CloudReader(CloudSpec(name, "some"), given, Names(), stamp)


async def said(clouds: CloudReader, polls: int = 1) -> tuple[CloudObserved, dict[str, NodeGroupObserved]]:
    """What is said of a cloud and of its groups after so many looks."""
    groups: dict[str, NodeGroupObserved] = {}
    for _ in range(polls):
        for fact in await clouds.poll():
            if isinstance(fact, NodeGroupObserved):
                groups[fact.name] = fact
    return clouds.state, groups


# --- Who asks, and where --------------------------------------------------------------------------


async def test_aws_without_credentials_says_where_they_are_looked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "nowhere"))
    aws.session.cache_clear()
    provider = AwsProvider(
        AwsConfig(selectors=TAGGED, region="us-east-1", endpoint="http://127.0.0.1:9"), Calls("c")
    )
    cloud, _ = await said(reader(provider))
    await provider.cleanup()
    aws.session.cache_clear()
    assert (cloud.name, cloud.state, cloud.error) == ("east", "failing", "Forbidden")
    assert "a role of the service account, of the machine, or a profile" in cloud.message


@pytest.mark.parametrize("code", ["ExpiredToken", "SignatureDoesNotMatch", "InvalidClientTokenId"])
async def test_credentials_that_are_not_valid_degrade_the_cloud_and_what_is_known_stays(code: str) -> None:
    async with AwsBench() as bench:
        await bench.define("one", size=1)
        clouds = reader(bench.provider)
        await said(clouds)
        bench.proxy.refusal = (403, {"Content-Type": "text/xml"}, error_text(code).encode())
        cloud, groups = await said(clouds)
        assert (cloud.state, cloud.error) == ("failing", "Forbidden")
        assert "the credentials are not valid, or not any more: give credentials as" in cloud.message
        assert (groups["one"].error, groups["one"].target_size) == ("Forbidden", 1)
        cloud, groups = await said(clouds)
        assert (cloud.state, cloud.error, groups["one"].error) == ("ready", "", "")


async def test_one_call_without_permission_holds_only_the_groups_that_need_it() -> None:
    async with AwsBench() as bench:
        await bench.define("allowed")
        await bench.raw.create_launch_configuration(
            LaunchConfigurationName="secret", ImageId="ami-12c6146b", InstanceType="m5.xlarge"
        )
        await bench.raw.create_auto_scaling_group(
            AutoScalingGroupName="denied", LaunchConfigurationName="secret", MinSize=0, MaxSize=1,
            AvailabilityZones=["us-east-1a"],
            Tags=[{"Key": TAGGED[0].tags[0][0], "Value": "true", "PropagateAtLaunch": False}],
        )  # fmt: skip
        passed_on = bench.proxy.answer

        def denying(method: str, path: str, body: bytes) -> Any:
            asked = fields(body)
            if asked.get("LaunchConfigurationNames.member.1") == "secret":
                return web.Response(status=403, text=error_text("AccessDenied"), content_type="text/xml")
            return passed_on(method, path, body)

        bench.proxy.answer = denying
        clouds = reader(bench.provider)
        cloud, groups = await said(clouds)
        assert (cloud.state, groups["allowed"].error, groups["denied"].error) == ("ready", "", "Forbidden")
        assert groups["denied"].message.startswith("DescribeLaunchConfigurations: ")
        assert groups["denied"].message.endswith(
            "deploy/clouds/aws has all that watcher and actuator ask for"
        )
        assert [fact.name for fact in clouds.unreadable] == ["denied"]


async def test_an_order_without_permission_is_refused_with_the_call_and_where_rights_are() -> None:
    async def spend() -> None:
        pass

    async with AwsBench() as bench:
        await bench.define("one", size=1)
        passed_on = bench.proxy.answer

        def denying(method: str, path: str, body: bytes) -> Any:
            if fields(body).get("Action") == "SetDesiredCapacity":
                return web.Response(status=403, text=error_text("AccessDenied"), content_type="text/xml")
            return passed_on(method, path, body)

        bench.proxy.answer = denying
        target = ObjectRef(api_version="cloud/v1", kind="NodeGroup", name="one")
        order = IncreaseNodeGroup(at=1.0, id="d", target=target, size=2, from_size=1)
        result = await CloudApplier(bench.provider).attempt(order, Allowance(spend), "one")
        assert isinstance(result, Refused)
        assert result.reason == Forbidden.reason
        assert result.message.startswith("SetDesiredCapacity: ")
        assert "deploy/clouds/aws has all that watcher and actuator ask for" in result.message
        assert await bench.size("one") == 1


async def test_a_region_that_is_none_is_named_with_where_it_is_written() -> None:
    async with AwsBench():  # has credentials
        config = AwsConfig(selectors=TAGGED, region="moon-1", endpoint="http://autoscaling.moon-1.invalid")
        provider = AwsProvider(config, Calls("c"))
        cloud, _ = await said(reader(provider), FAILURES_BEFORE_SAID)
        await provider.cleanup()
    assert (cloud.state, cloud.error) == ("failing", "Unavailable")
    assert "autoscaling.moon-1.invalid" in cloud.message
    assert "is the region one of AWS's? It is region in the cloud's file, else AWS_REGION" in cloud.message


async def test_a_kubeconfig_without_permission_says_which_request_and_where_roles_are() -> None:
    async with KwokBench() as bench:
        await bench.define("one", size=1)
        clouds = reader(bench.provider)
        await said(clouds)
        bench.spoil("Forbidden")
        cloud, groups = await said(clouds)
        assert (cloud.error, groups["one"].error) == ("Forbidden", "Forbidden")
        assert cloud.message.startswith("GET /api/v1/namespaces/default/configmaps/kwok-provider-config: ")
        assert cloud.message.endswith("deploy/clouds has the roles of watcher and actuator")


async def test_a_refusal_that_reads_otherwise_each_time_is_said_once_and_another_one_anew() -> None:
    cloud = Cloud(group("one"))
    clouds = reader(cloud)
    answers = iter(
        (
            "DescribeInstanceTypes: Encoded authorization failure message: rT9xGq2" + "aQ" * 40,
            "DescribeInstanceTypes: Encoded authorization failure message: wLp0Zb8" + "Xz" * 40,
            "DescribeGroups: Signature expired: 20261123T112205Z is now earlier than 20261123T112705Z",
            "DescribeGroups: Signature expired: 20261123T112235Z is now earlier than 20261123T112735Z",
            "DescribeGroups: not allowed",
        )
    )

    def refuse(name: str) -> None:
        if name == "target":
            raise Forbidden(next(answers))

    cloud.refuse = refuse
    polls = [[fact for fact in await clouds.poll() if isinstance(fact, NodeGroupObserved)] for _ in range(5)]
    assert [len(facts) for facts in polls] == [1, 0, 1, 0, 1]
    assert polls[4][0].message == "DescribeGroups: not allowed"


@pytest.mark.parametrize("kind", BENCHES, ids=lambda kind: kind.kind)
async def test_a_provider_that_hangs_is_said_to_and_what_is_known_stays(kind: type[Bench]) -> None:
    async with kind() as bench:
        name = await bench.define("one", size=1)
        clouds = reader(bench.provider)
        await said(clouds)
        clouds.provider = bench.short
        bench.hang()
        cloud, groups = await said(clouds, FAILURES_BEFORE_SAID)
        assert (cloud.state, cloud.error) == ("failing", "Unavailable")
        assert "cloud c: " in cloud.message
        assert "no answer within 0.5 s" in cloud.message
        assert (groups[name].error, groups[name].target_size) == ("Unavailable", 1)


# --- Groups ---------------------------------------------------------------------------------------


async def test_limits_that_are_none_are_told_of_their_group_alone() -> None:
    cloud, groups = await said(reader(Cloud(group("good"), group("bad", min=5, max=3))))
    assert (cloud.state, groups["good"].error, groups["bad"].error) == ("ready", "", "Invalid")
    assert groups["bad"].message == "bad: minimum 5 is above the maximum 3: correct them at the cloud"


async def test_an_annotation_that_cannot_be_read_is_named_with_group_value_and_what_is_valid() -> None:
    async with ClusterApiBench() as bench:
        good = await bench.define("good", size=1)
        bad = await bench.make("MachineDeployment", "bad", {MIN: "one", MAX: "3"}, size=1)
        cloud, groups = await said(reader(bench.provider))
        assert (cloud.state, groups[good].error, groups[bad].error) == ("ready", "", "Invalid")
        assert groups[bad].message == f"{bad}: annotation {MIN}: 'one': valid is a decimal number from 0"


async def test_tags_that_cannot_be_read_are_ignored_and_said_with_what_is_valid() -> None:
    prefix = "k8s.io/cluster-autoscaler/node-template/"
    async with AwsBench() as bench:
        tags = {
            f"{prefix}resources/ephemeral-storage": "much",
            f"{prefix}taint/dedicated": "batch:Sometimes",
            f"{prefix}autoscaling-options/scaledownunneededtime": "later",
            f"{prefix}autoscaling-options/scaledownutilizationthreshold": "nan",
            f"{prefix}autoscaling-options/scaledownunreadytime": "15m",
            f"{prefix}label/pool": "blue",
        }
        await bench.define("one", tags=tags)
        _, groups = await said(reader(bench.provider))
        assert not groups["one"].error
        assert groups["one"].own.unready_s == 900.0
        valid = (
            "a value of its kind; options are scaledownutilizationthreshold, scaledowngpuutilizationthreshold"
        )
        options, resource, taint, share = groups["one"].ignored
        assert options.startswith(
            f"tag {prefix}autoscaling-options/scaledownunneededtime: 'later': valid is {valid}"
        )
        assert (
            taint
            == f"tag {prefix}taint/dedicated: 'batch:Sometimes': valid is VALUE:EFFECT, EFFECT one of NoExecute, NoSchedule, PreferNoSchedule"
        )
        assert (
            resource == f"tag {prefix}resources/ephemeral-storage: 'much': valid is a quantity, as in 100Gi"
        )
        assert share == "scale-down-utilization-threshold nan: valid is a number from 0 to 1"


async def test_annotations_of_options_that_cannot_be_read_are_ignored_and_said_with_what_is_valid() -> None:
    start = f"{API}/autoscaling-options-"
    async with ClusterApiBench() as bench:
        notes = {
            f"{start}scaledownunneededtime": "later",
            f"{start}scaledownunreadytime": "15m",
            f"{start}colour": "blue",
        }
        name = await bench.make("MachineDeployment", "one", {MIN: "0", MAX: "3", **notes}, size=1)
        _, groups = await said(reader(bench.provider))
        assert (groups[name].error, groups[name].own.unready_s) == ("", 900.0)
        wrong = [f"{start}colour: 'blue'", f"{start}scaledownunneededtime: 'later'"]
        assert [text.partition(": valid is ")[0] for text in groups[name].ignored] == [
            f"annotation {one}" for one in wrong
        ]
        assert "options are scaledownutilizationthreshold, " in groups[name].ignored[0]


async def test_amounts_that_are_none_are_told_of_their_group_alone() -> None:
    async with KwokBench() as bench:
        await bench.define("good", size=1)
        await bench.define("bad")
        bench._templates["bad"]["status"]["capacity"]["cpu"] = "plenty"
        await bench._write()
        cloud, groups = await said(reader(bench.provider))
        assert (cloud.state, groups["good"].error, groups["bad"].error) == ("ready", "", "Invalid")
        assert groups["bad"].message.startswith("bad: what is said of it cannot be read: ")
        assert "plenty" in groups["bad"].message


async def test_an_answer_that_is_none_is_told_of_its_cloud_alone() -> None:
    cloud = Cloud(group("one"))

    async def nonsense() -> None:
        raise KeyError("DesiredCapacity")

    cloud.refresh = nonsense  # type: ignore[method-assign]
    told, _ = await said(reader(cloud))
    assert (told.state, told.error) == ("failing", "Invalid")
    assert told.message == "cloud east: what is said of it cannot be read: 'DesiredCapacity'"


@pytest.mark.parametrize("kind", BENCHES, ids=lambda kind: kind.kind)
async def test_an_order_for_a_group_that_was_deleted_under_us_is_refused_with_those_that_there_are(
    kind: type[Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidewright.cloud.kwok.client.KNOWN_S", 0.0)  # a minute has gone by

    async def spend() -> None:
        pass

    async with kind() as bench:
        name, other = await bench.define("one"), await bench.define("other")
        await bench.provider.refresh()
        await bench.remove(name)
        target = ObjectRef(api_version="cloud/v1", kind="NodeGroup", name=name)
        order = IncreaseNodeGroup(at=1.0, id="d", target=target, size=1, from_size=0)
        result = await CloudApplier(bench.provider).attempt(order, Allowance(spend), name)
        assert isinstance(result, Refused)
        assert result.reason == NotFound.reason
        assert name in result.message
        assert await bench.size(other) == 0


# --- Files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("price", ["cheap", "-0.1"])
@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("reserved: {cpu: lots}", "reserved: cpu: "),
        ("prices: PRICES", "m5.large"),
        ("prices: /nowhere/prices.yaml", "prices: /nowhere/prices.yaml: cannot be read"),
    ],
)
def test_a_file_of_aws_that_cannot_be_used_names_the_field(
    content: str, said: str, price: str, tmp_path: Path
) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text(f"m5.large: {price}\n")
    file = tmp_path / "aws.yaml"
    file.write_text(f"discovery: ['asg:tag=a']\n{content.replace('PRICES', str(prices))}\n")
    with pytest.raises(ValueError, match=r"aws\.yaml") as refused:
        config_of(str(file))
    assert said in str(refused.value)
