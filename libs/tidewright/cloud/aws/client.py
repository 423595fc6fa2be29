"""The provider interface over Auto Scaling, EC2 and EKS.

The desired capacity is set, not added to: the size is the key. Nothing compares it: the size that an order expects is
compared with what was read just before.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from functools import lru_cache
from typing import Any, Final

import msgspec
from aiobotocore.config import AioConfig
from aiobotocore.session import get_session
from botocore.exceptions import BotoCoreError, ClientError

from tidewright.cloud.aws import groups as asg
from tidewright.cloud.aws import templates
from tidewright.cloud.aws.config import (
    ASG,
    DISCOVERY,
    AwsConfig,
    NamedGroup,
    config_of,
    named_of,
    selector_of,
)
from tidewright.cloud.aws.errors import of_sdk
from tidewright.cloud.calls import Calls
from tidewright.cloud.errors import CloudError, Conflict, Invalid, NotFound, NotImplementedByCloud
from tidewright.cloud.optional import MadeElsewhere, WithoutOptionalCalls
from tidewright.cloud.provider import (
    GroupOptions,
    Instance,
    NodeTemplate,
    Promise,
)
from tidewright.cloud.providers import Surroundings

BATCH: Final = 100
"""Names in one request, and records on a page."""
KNOWN_S: Final = 600.0
"""How long what a group's machines are like is believed, wall seconds: launch templates get new versions."""
BEFORE_S: Final = 600.0
"""A group that is seen for the first time: failures so long before count."""


class AwsGroup(MadeElsewhere):
    """One Auto Scaling group as it was read."""

    CLOUD = "aws"
    NOT_MADE = "aws makes no groups here"
    NOT_REMOVED = "aws removes no groups here"

    def __init__(self, provider: AwsProvider, said: Mapping[str, Any], limits: NamedGroup | None) -> None:
        self._provider = provider
        self._said = said
        self._limits = limits
        self._size = int(said["DesiredCapacity"])
        self._template: NodeTemplate | None = None

    @property
    def id(self) -> str:
        return str(self._said["AutoScalingGroupName"])

    @property
    def debug(self) -> str:
        return f"{self.id} ({self.min_size}..{self.max_size}, desired {self._size})"

    @property
    def min_size(self) -> int:
        return self._limits.min_size if self._limits is not None else int(self._said["MinSize"])

    @property
    def max_size(self) -> int:
        return self._limits.max_size if self._limits is not None else int(self._said["MaxSize"])

    @property
    def price_per_hour(self) -> float | None:
        return self._provider.config.prices.get(self.machine_type)

    @property
    def machine_type(self) -> str:
        return "" if self._template is None else self._template.labels["node.kubernetes.io/instance-type"]

    @property
    def zone(self) -> str:
        zones: list[str] = self._said.get("AvailabilityZones") or []
        return str(zones[0]) if len(zones) == 1 else ""

    @property
    def initial(self) -> int:
        return 0

    @property
    def ignored(self) -> tuple[str, ...]:
        return templates.ignored(asg.tags_of(self._said))

    async def target_size(self) -> int:
        return self._size

    async def begun(self, key: str) -> int:
        del key
        return 0

    async def increase_size(self, delta: int, *, key: str, expect: int | None = None) -> None:
        del key
        self._as_expected(expect)
        if delta <= 0:
            raise Invalid(f"{self.id}: increase by {delta}; the delta must be > 0")
        if self._size + delta > self.max_size:
            raise Invalid(f"{self.id}: size {self._size} + {delta} is above the maximum {self.max_size}")
        await self._set(self._size + delta)

    async def delete_nodes(self, instance_ids: Sequence[str], *, key: str) -> None:
        """Terminate and lower the size, one by one; any placeholder among them drops all orders that have not come."""
        del key
        wanted = [self._own(provided) for provided in dict.fromkeys(instance_ids)]
        there = {str(one["InstanceId"]) for one in asg.existing(self._said)}
        doomed = [instance_id for instance_id in wanted if instance_id in there]
        dropped = asg.missing(self._said) if any(map(asg.is_placeholder, wanted)) else 0
        if self._size - len(doomed) - dropped < self.min_size:
            raise Invalid(
                f"{self.id}: size {self._size} - {len(doomed) + dropped} is below the minimum {self.min_size}"
            )
        if dropped:
            await self._set(self._size - dropped)
        for instance_id in doomed:
            await self._provider.ask(
                "autoscaling",
                "TerminateInstanceInAutoScalingGroup",
                InstanceId=instance_id,
                ShouldDecrementDesiredCapacity=True,
            )
            self._size -= 1

    def _own(self, provided: str) -> str:
        instance_id = asg.instance_of(provided)
        placeholder = asg.is_placeholder(instance_id)
        mine = {str(one["InstanceId"]) for one in self._said.get("Instances") or ()}
        owner = self._provider.owner(instance_id)
        gone = not owner and instance_id
        if instance_id not in mine and not placeholder and not gone:
            raise Invalid(f"{self.id}: instance {provided} is of group {owner or 'none'}")
        return instance_id

    async def decrease_target_size(self, delta: int, *, key: str, expect: int | None = None) -> None:
        del key
        self._as_expected(expect)
        if delta >= 0:
            raise Invalid(f"{self.id}: decrease by {delta}; the delta must be < 0")
        open_orders = asg.missing(self._said)
        if open_orders < -delta:
            raise Invalid(
                f"{self.id}: decrease by {-delta}, but only {open_orders} orders are unfulfilled;"
                " existing instances are deleted by id"
            )
        await self._set(self._size + delta)

    def _as_expected(self, expect: int | None) -> None:
        if expect is not None and self._size != expect:
            raise Conflict(f"{self.id}: desired capacity is {self._size}, not {expect}")

    async def _set(self, size: int) -> None:
        await self._provider.ask(
            "autoscaling",
            "SetDesiredCapacity",
            AutoScalingGroupName=self.id,
            DesiredCapacity=size,
            HonorCooldown=False,
        )
        self._size = size

    async def nodes(self) -> Sequence[Instance]:
        failure = await self._provider.failure(self.id) if asg.missing(self._said) else None
        return [*asg.real_instances(self._said), *asg.placeholders(self._said, failure)]

    async def template(self) -> NodeTemplate:
        if self._template is None:
            self._template = await self._provider.template(self._said)
        return self._template

    async def options(self, defaults: GroupOptions) -> GroupOptions:
        return templates.options_of(self._said, defaults)


class AwsProvider(WithoutOptionalCalls):
    """The Auto Scaling groups that tags or names select. Call `refresh` before reading groups."""

    NO_PRICES = "aws has no prices of pods"
    NO_MACHINE_TYPES = "aws makes no groups here"
    NO_NEW_GROUPS = AwsGroup.NOT_MADE

    name = "aws"
    promise = Promise.ABSOLUTE

    def __init__(self, config: AwsConfig, calls: Calls) -> None:
        self.config = config
        self._calls = calls
        self._stack = AsyncExitStack()
        self._clients: dict[str, Any] = {}
        self._opening = asyncio.Lock()
        self._groups: dict[str, AwsGroup] = {}
        self._owners: dict[str, str] = {}
        self._desired: dict[str, int] = {}
        self._changed_at: dict[str, float] = {}
        self._refreshed_at: float | None = None
        self._machines: dict[str, tuple[float, templates.InstanceType]] = {}
        self._eks: dict[tuple[str, str], tuple[float, templates.EksGroup]] = {}
        self._had_nodes: set[str] = set()

    # --- groups -------------------------------------------------------------------------------

    async def refresh(self) -> None:
        began = time.time()
        found = await self._selected()
        # When a size was changed is not known, but that it was between two looks: failures since the look before count.
        before = self._refreshed_at if self._refreshed_at is not None else began - BEFORE_S
        for name, said in found.items():
            desired = int(said["DesiredCapacity"])
            if self._desired.get(name) != desired:
                self._changed_at[name] = before
            self._desired[name] = desired
            if asg.existing(said):
                self._had_nodes.add(name)
        self._refreshed_at = began
        self._owners = asg.owners(found.values())
        self._groups = {name: self._group(said) for name, said in sorted(found.items())}

    async def _selected(self) -> dict[str, Mapping[str, Any]]:
        found: dict[str, Mapping[str, Any]] = {}
        for selector in self.config.selectors:
            filters = [
                {"Name": f"tag:{key}", "Values": [value]} if value else {"Name": "tag-key", "Values": [key]}
                for key, value in selector.tags
            ]
            for said in await self._described(Filters=filters):
                if selector.matches(asg.tags_of(said)):
                    found[str(said["AutoScalingGroupName"])] = said
        for names in asg.batches([named.name for named in self.config.named], BATCH):
            for said in await self._described(AutoScalingGroupNames=list(names)):
                found[str(said["AutoScalingGroupName"])] = said
        return found

    async def _described(self, **which: Any) -> list[Mapping[str, Any]]:
        found: list[Mapping[str, Any]] = []
        token: dict[str, str] = {}
        while True:
            page = await self.ask(
                "autoscaling", "DescribeAutoScalingGroups", MaxRecords=BATCH, **which, **token
            )
            # One that is being deleted takes no orders any more.
            found += [said for said in page.get("AutoScalingGroups") or () if not said.get("Status")]
            if not page.get("NextToken"):
                return found
            token = {"NextToken": str(page["NextToken"])}

    def _group(self, said: Mapping[str, Any]) -> AwsGroup:
        name = said["AutoScalingGroupName"]
        limits = next((named for named in self.config.named if named.name == name), None)
        return AwsGroup(self, said, limits)

    def node_groups(self) -> Sequence[AwsGroup]:
        return list(self._groups.values())

    async def group(self, group_id: str) -> AwsGroup:
        found = await self._described(AutoScalingGroupNames=[group_id])
        named = any(named.name == group_id for named in self.config.named)
        if not found or not (named or any(s.matches(asg.tags_of(found[0])) for s in self.config.selectors)):
            known = ", ".join(self._groups) or "none known here"
            raise NotFound(f"no Auto Scaling group {group_id!r} that is selected; there are: {known}")
        return self._group(found[0])

    def owner(self, instance_id: str) -> str:
        """The group of an instance, as of the last refresh; empty when nobody's."""
        return self._owners.get(instance_id, "")

    async def node_group_for_node(self, provider_id: str, labels: Mapping[str, str]) -> AwsGroup | None:
        del labels
        return self._groups.get(self._owners.get(asg.instance_of(provider_id), ""))

    # --- what is known of a group besides -----------------------------------------------------

    async def failure(self, name: str) -> str | None:
        """Why what was ordered of a group does not come; None also where nobody says, and for a process that does not refresh."""
        if name not in self._changed_at:
            return None
        try:
            page = await self.ask(
                "autoscaling", "DescribeScalingActivities", AutoScalingGroupName=name, MaxRecords=BATCH
            )
        except CloudError:
            return None
        return asg.failure_since(page.get("Activities") or (), self._changed_at[name])

    async def template(self, said: Mapping[str, Any]) -> NodeTemplate:
        """What the next node of a group will look like.

        Raises:
            CloudError: nobody knows its instance type.
        """
        source = templates.source_of(said)
        machine = await self._machine(source)
        eks = None
        managed = templates.managed_by_eks(asg.tags_of(said))
        if managed is not None and said["AutoScalingGroupName"] not in self._had_nodes:
            eks = await self._eks_group(managed)
        return templates.template_of(
            said, machine, region=await self._region(), reserved=self.config.reserved, eks=eks
        )

    async def _machine(self, source: templates.Source) -> templates.InstanceType:
        key = msgspec.json.encode(source).decode()
        known = self._machines.get(key)
        if known is not None and time.monotonic() - known[0] < KNOWN_S:
            return known[1]
        machine = await self._look_up(source)
        self._machines[key] = (time.monotonic(), machine)
        return machine

    async def _look_up(self, source: templates.Source) -> templates.InstanceType:
        if source.launch_configuration:
            page = await self.ask(
                "autoscaling",
                "DescribeLaunchConfigurations",
                LaunchConfigurationNames=[source.launch_configuration],
            )
            for one in page.get("LaunchConfigurations") or ():
                return await self._machine(templates.Source(instance_type=one["InstanceType"]))
            raise NotFound(f"no launch configuration {source.launch_configuration!r}")
        if any(source.launch_template):
            return await self._machine(await self._launch_template(source.launch_template))
        if source.requirements is not None:
            return templates.at_least(
                await self._machine(
                    templates.Source(instance_type=await self._first_type(source.requirements))
                ),
                source.requirements,
            )
        page = await self.ask("ec2", "DescribeInstanceTypes", InstanceTypes=[source.instance_type])
        for one in page.get("InstanceTypes") or ():
            return templates.machine_of(one)
        raise NotFound(f"no instance type {source.instance_type!r}")

    async def _launch_template(self, named: tuple[str, str, str]) -> templates.Source:
        template_id, name, version = named
        which = {"LaunchTemplateId": template_id} if template_id else {"LaunchTemplateName": name}
        page = await self.ask("ec2", "DescribeLaunchTemplateVersions", Versions=[version], **which)
        for one in page.get("LaunchTemplateVersions") or ():
            data = one.get("LaunchTemplateData") or {}
            if data.get("InstanceType"):
                return templates.Source(instance_type=data["InstanceType"])
            if data.get("InstanceRequirements"):
                return templates.Source(requirements=data["InstanceRequirements"])
        raise NotImplementedByCloud(
            f"launch template {template_id or name}, version {version}, names no instance type"
        )

    async def _first_type(self, requirements: Mapping[str, Any]) -> str:
        page = await self.ask(
            "ec2",
            "GetInstanceTypesFromInstanceRequirements",
            ArchitectureTypes=["x86_64", "arm64"],
            VirtualizationTypes=["hvm"],
            InstanceRequirements=dict(requirements),
            MaxResults=1,
        )
        for one in page.get("InstanceTypes") or ():
            return str(one["InstanceType"])
        raise NotFound("no instance type meets the group's requirements")

    async def _eks_group(self, named: tuple[str, str]) -> templates.EksGroup | None:
        known = self._eks.get(named)
        if known is not None and time.monotonic() - known[0] < KNOWN_S:
            return known[1]
        cluster, name = named
        try:
            answer = await self.ask("eks", "DescribeNodegroup", clusterName=cluster, nodegroupName=name)
        except CloudError:
            return known[1] if known is not None else None  # the tags say most of it
        eks = templates.eks_of(answer.get("nodegroup") or {})
        self._eks[named] = (time.monotonic(), eks)
        return eks

    # --- optional -----------------------------------------------------------------------------

    async def node_price(self, template: NodeTemplate, start: float, end: float) -> float:
        price = self.config.prices.get(template.labels.get("node.kubernetes.io/instance-type", ""))
        if price is None:
            raise NotImplementedByCloud("no price of such a node: name a table as prices in the cloud's file")
        return price * (end - start) / 3600

    def gpu_label(self) -> str:
        return templates.GPU_LABEL

    async def gpu_types(self) -> Sequence[str]:
        return ()

    async def cleanup(self) -> None:
        await self._stack.aclose()
        self._clients.clear()

    # --- calls --------------------------------------------------------------------------------

    async def ask(self, service: str, operation: str, **parameters: Any) -> Mapping[str, Any]:
        """One call, without the SDK's own retries.

        Raises:
            CloudError: as the service says; `Unavailable` without an answer.
        """
        try:
            async with self._calls.call(operation):
                client = await self._client(service)
                answer: Mapping[str, Any] = await getattr(client, _method(operation))(**parameters)
                return answer
        except (ClientError, BotoCoreError) as error:
            raise of_sdk(error, operation) from error

    async def _region(self) -> str:
        return str((await self._client("autoscaling")).meta.region_name)

    async def _client(self, service: str) -> Any:
        async with self._opening:
            if service not in self._clients:
                made = session().create_client(
                    service,
                    region_name=self.config.region or None,
                    endpoint_url=self.config.endpoint or None,
                    config=AioConfig(
                        retries={"total_max_attempts": 1}, connect_timeout=3600, read_timeout=3600
                    ),
                )
                self._clients[service] = await self._stack.enter_async_context(made)
            return self._clients[service]


@lru_cache(1)
def session() -> Any:
    """The SDK's session: how services are described is read once."""
    return get_session()


def _method(operation: str) -> str:
    """The SDK's name of an operation: `SetDesiredCapacity` is `set_desired_capacity`."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in operation).lstrip("_")


def provider(config: str, calls: Calls, around: Surroundings) -> AwsProvider:
    """The groups that a file or `asg:tag=...` selects.

    Raises:
        ValueError: it selects none.
    """
    said = config_of(config) if config else AwsConfig()
    own = tuple(text for text in around.discovery if text.startswith(ASG))
    said = msgspec.structs.replace(
        said,
        selectors=(*said.selectors, *map(selector_of, own)),
        named=(*said.named, *map(named_of, around.nodes)),
    )
    if not said.selectors and not said.named:
        raise ValueError(
            f"no group would be ours: write aws:{DISCOVERY}KEY or aws:FILE, or give --node-group-auto-discovery or --nodes"
        )
    return AwsProvider(said, calls)
