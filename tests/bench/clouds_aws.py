"""500 Auto Scaling groups with 5,000 instances: a refresh with all groups as facts, and an order from its start to its acceptance.

The services' answers are made once and given again over HTTP, from this process. Each group has a launch configuration of its own, which is the
most that a cold look can cost. The baseline is the SDK alone: the same pages, and the same two requests, read by it and thrown away.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from urllib.parse import parse_qs

from aiohttp import web

from tests.bench.figures import Bench, Figure, Size, figure
from tidewright.actuator.allowance import Allowance
from tidewright.actuator.cloud import CloudApplier
from tidewright.actuator.verdict import Done
from tidewright.cloud.aws.client import BATCH, AwsProvider
from tidewright.cloud.aws.config import AwsConfig, TagSelector
from tidewright.cloud.calls import Calls
from tidewright.cloud.providers import CloudSpec
from tidewright.events.base import ObjectRef
from tidewright.events.provisioning import IncreaseNodeGroup, NodeGroupObserved
from tidewright.watcher.clouds import CloudReader, Names
from tidewright.watcher.log_time import Stamp
from tidewright.watcher.nodegroups import read

AUTOSCALING = "http://autoscaling.amazonaws.com/doc/2011-01-01/"
TAG = "k8s.io/cluster-autoscaler/enabled"
INSTANCES = 10
REFRESH_TARGET_S, CALLS_TARGET, ORDER_TARGET_MS = 3.0, 30, 50.0
ORDERS = 200
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_EC2_METADATA_DISABLED": "true"}


def member(number: int) -> str:
    """One group as DescribeAutoScalingGroups tells it."""
    instances = "".join(
        f"<member><InstanceId>i-{number:04}{one:04}</InstanceId><AvailabilityZone>z1</AvailabilityZone>"
        "<LifecycleState>InService</LifecycleState><HealthStatus>Healthy</HealthStatus>"
        "<ProtectedFromScaleIn>false</ProtectedFromScaleIn></member>"
        for one in range(INSTANCES)
    )
    return (
        f"<member><AutoScalingGroupName>g{number:04}</AutoScalingGroupName><MinSize>0</MinSize><MaxSize>100</MaxSize>"
        f"<DesiredCapacity>{INSTANCES}</DesiredCapacity><LaunchConfigurationName>lc{number:04}</LaunchConfigurationName>"
        f"<AvailabilityZones><member>z1</member></AvailabilityZones><Instances>{instances}</Instances>"
        f"<Tags><member><Key>{TAG}</Key><Value>true</Value></member></Tags></member>"
    )


class Recorded:
    """The services, as they once answered."""

    def __init__(self, groups: int) -> None:
        self.calls = 0
        self._members = [member(number) for number in range(groups)]

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.calls += 1
        asked = {name: values[0] for name, values in parse_qs((await request.read()).decode()).items()}
        action = asked["Action"]
        return web.Response(text=self._answer(action, asked), content_type="text/xml")

    def _answer(self, action: str, asked: dict[str, str]) -> str:
        match action:
            case "DescribeAutoScalingGroups" if "AutoScalingGroupNames.member.1" in asked:
                content = self._page(
                    self._members[int(asked["AutoScalingGroupNames.member.1"][1:]) :][:1], ""
                )
            case "DescribeAutoScalingGroups":
                start = int(asked.get("NextToken", "0"))
                following = start + BATCH
                more = str(following) if following < len(self._members) else ""
                content = self._page(self._members[start:following], more)
            case "DescribeLaunchConfigurations":
                name = asked["LaunchConfigurationNames.member.1"]
                content = (
                    f"<LaunchConfigurations><member><LaunchConfigurationName>{name}</LaunchConfigurationName>"
                    "<InstanceType>m5.large</InstanceType></member></LaunchConfigurations>"
                )
            case "DescribeInstanceTypes":
                return (
                    '<DescribeInstanceTypesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><instanceTypeSet><item>'
                    "<instanceType>m5.large</instanceType><vCpuInfo><defaultVCpus>2</defaultVCpus></vCpuInfo>"
                    "<memoryInfo><sizeInMiB>8192</sizeInMiB></memoryInfo></item></instanceTypeSet></DescribeInstanceTypesResponse>"
                )
            case _:
                content = ""
        return f'<{action}Response xmlns="{AUTOSCALING}"><{action}Result>{content}</{action}Result></{action}Response>'

    @staticmethod
    def _page(members: Sequence[str], token: str) -> str:
        following = f"<NextToken>{token}</NextToken>" if token else ""
        return f"<AutoScalingGroups>{''.join(members)}</AutoScalingGroups>{following}"


async def timed(work: Callable[[], Awaitable[Any]]) -> float:
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began


async def measure(groups: int) -> list[Figure]:
    recorded = Recorded(groups)
    runner = web.ServerRunner(web.Server(recorded.handle))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    config = AwsConfig(selectors=(TagSelector(((TAG, ""),)),), region="r", endpoint=url)
    provider = AwsProvider(config, Calls("bench", per_s=1e6))
    first: dict[str, int] = {}

    async def refreshed() -> None:
        await provider.refresh()
        for group in provider.node_groups():
            await read(group)

    async def told() -> None:
        """All groups as facts, as the watcher has them on the log: part by part."""
        stamp = Stamp(time.time, time.monotonic, lambda: 1.0)
        facts = 0
        async for part in CloudReader(CloudSpec("bench", "aws"), provider, Names(), stamp).parts():
            facts += sum(isinstance(fact, NodeGroupObserved) for fact in part)
            first.setdefault("calls", recorded.calls)
            first.setdefault("groups", facts)
        if facts != groups:
            raise RuntimeError(f"{facts} groups were told of {groups}")

    async def pages() -> None:
        token: dict[str, str] = {}
        while True:
            page = await provider.ask("autoscaling", "DescribeAutoScalingGroups", MaxRecords=BATCH, **token)
            if not page.get("NextToken"):
                return
            token = {"NextToken": page["NextToken"]}

    try:
        cold_s = await timed(told)
        cold_calls, recorded.calls = recorded.calls, 0
        warm_s = await timed(refreshed)
        warm_calls = recorded.calls
        alone_s = await timed(pages)
        recorded.calls = 0
        ours_ms = await orders(provider, groups)
        order_calls = recorded.calls / ORDERS
        sdk_ms = await orders_alone(provider, groups)
    finally:
        await provider.cleanup()
        await runner.cleanup()
    size = f"{groups} groups, {groups * INSTANCES} instances"
    return [
        figure(
            f"clouds_aws/refresh warm, {size}", warm_s, "s", "lower", REFRESH_TARGET_S,
            baseline="the SDK reads the pages", baseline_value=alone_s,
        ),
        figure(f"clouds_aws/refresh cold, {size}", cold_s, "s", "lower"),
        figure("clouds_aws/calls of a warm refresh", warm_calls, "calls", "lower", CALLS_TARGET),
        figure("clouds_aws/calls of a cold refresh", cold_calls, "calls", "lower"),
        figure(
            f"clouds_aws/calls before the first {first['groups']} groups are told, cold", first["calls"], "calls", "lower"
        ),
        figure("clouds_aws/calls of an order", order_calls, "calls", "lower", 2),
        figure("clouds_aws/calls per minute at rest", warm_calls * 6, "calls/min", "lower"),
        figure(
            "clouds_aws/order to accepted, our own part, p99", max(0.0, p99(ours_ms) - p99(sdk_ms)), "ms", "lower",
            ORDER_TARGET_MS, baseline="the SDK's two requests, p99", baseline_value=p99(sdk_ms),
        ),
    ]  # fmt: skip


async def spend() -> None:
    """The budget of a benchmark has no end."""


async def orders(provider: AwsProvider, groups: int) -> list[float]:
    """Milliseconds from an effect to its result, one by one."""
    applier = CloudApplier(provider)
    taken = []
    for number in range(ORDERS):
        name = f"g{number % groups:04}"
        effect = IncreaseNodeGroup(
            at=1.0,
            id=f"d{number}",
            target=ObjectRef(api_version="cloud/v1", kind="NodeGroup", name=name),
            size=INSTANCES + 1,
            from_size=INSTANCES,
        )
        began = time.perf_counter()
        result = await applier.attempt(effect, Allowance(spend), name)
        taken.append((time.perf_counter() - began) * 1000)
        if not isinstance(result, Done):
            raise TypeError(f"an order was not taken: {result}")
    return taken


async def orders_alone(provider: AwsProvider, groups: int) -> list[float]:
    """Milliseconds of the two requests alone."""
    taken = []
    for number in range(ORDERS):
        name = f"g{number % groups:04}"
        began = time.perf_counter()
        await provider.ask(
            "autoscaling", "DescribeAutoScalingGroups", AutoScalingGroupNames=[name], MaxRecords=BATCH
        )
        await provider.ask(
            "autoscaling",
            "SetDesiredCapacity",
            AutoScalingGroupName=name,
            DesiredCapacity=INSTANCES + 1,
            HonorCooldown=False,
        )
        taken.append((time.perf_counter() - began) * 1000)
    return taken


def p99(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.99)]


def run(size: Size) -> list[Figure]:
    os.environ.update(CREDENTIALS)
    return asyncio.run(measure(500 if size == "full" else 50))


BENCHES = (Bench("clouds_aws", run),)
