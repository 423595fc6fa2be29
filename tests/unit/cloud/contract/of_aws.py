"""Auto Scaling groups of moto, behind a proxy that adds what moto lacks: orders that take time, activities that failed.

An order is kept by the proxy, and said as the desired capacity, until machines come: moto would have them at once.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, ClassVar, Self
from urllib.parse import parse_qs
from xml.etree import ElementTree as ET

from aiobotocore.session import get_session
from aiohttp import web
from moto.server import ThreadedMotoServer

from tests.unit.cloud.contract.bench import TIMEOUT_S, Bench, Fault
from tests.unit.cloud.contract.proxy import Proxy
from tidewright.cloud.aws.client import AwsProvider
from tidewright.cloud.aws.config import AwsConfig, TagSelector
from tidewright.cloud.calls import Calls

NAMESPACE = "http://autoscaling.amazonaws.com/doc/2011-01-01/"
TAG = "k8s.io/cluster-autoscaler/enabled"
ZONE = "us-east-1a"
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_EC2_METADATA_DISABLED": "true",
}
_CODES: dict[Fault, tuple[int, str]] = {
    "Throttled": (400, "Throttling"),
    "Forbidden": (403, "ExpiredToken"),
    "Unavailable": (503, "ServiceUnavailable"),
}
_CHANGES = frozenset({"SetDesiredCapacity", "TerminateInstanceInAutoScalingGroup"})

ET.register_namespace("", NAMESPACE)


def fields(body: bytes) -> dict[str, str]:
    """Of a request: its form, flat."""
    return {name: values[0] for name, values in parse_qs(body.decode()).items()}


def answered(operation: str, content: str = "") -> web.Response:
    result = f"<{operation}Result>{content}</{operation}Result>" if content else ""
    text = f'<{operation}Response xmlns="{NAMESPACE}">{result}</{operation}Response>'
    return web.Response(text=text, content_type="text/xml")


def error_text(code: str) -> str:
    return (
        f'<ErrorResponse xmlns="{NAMESPACE}"><Error><Type>Sender</Type><Code>{code}</Code>'
        f"<Message>as the test wants it</Message></Error></ErrorResponse>"
    )


@lru_cache
def moto() -> str:
    """The URL of one moto for all tests of this process; it ends with it."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    return f"http://{host}:{port}"


SESSION = get_session()
"""Loads the descriptions of services once."""


def raw_client(service: str) -> Any:
    """A client of moto itself."""
    return SESSION.create_client(service, region_name="us-east-1", endpoint_url=moto())


class AwsBench(Bench):
    kind = "aws"
    skips: ClassVar[Mapping[str, str]] = {
        "a_size_that_somebody_else_sets_between_look_and_order_is_a_conflict": "SetDesiredCapacity compares nothing: the race is documented in docs/clouds.md",
    }
    reserved: ClassVar[dict[str, str]] = {}

    async def __aenter__(self) -> Self:
        self._environment = {name: os.environ.get(name) for name in CREDENTIALS}
        os.environ.update(CREDENTIALS)
        self.proxy = await Proxy(moto(), self._is_change).__aenter__()
        async with self.proxy._session.post(f"{moto()}/moto-api/reset"):
            pass
        self.proxy.answer, self.proxy.edit = self._answer, self._edit
        self.orders: dict[str, int] = {}
        self.exhausted: set[str] = set()
        self._context = raw_client("autoscaling")
        self.raw = await self._context.__aenter__()
        await self.raw.create_launch_configuration(
            LaunchConfigurationName="lc", ImageId="ami-12c6146b", InstanceType="m5.xlarge"
        )
        config = AwsConfig(
            selectors=(TagSelector(((TAG, ""),)),),
            region="us-east-1",
            endpoint=self.proxy.url,
            reserved=self.reserved,
        )
        self.provider = AwsProvider(config, Calls("c", per_s=1000))
        self.short = AwsProvider(config, Calls("c", per_s=1000, timeout_s=TIMEOUT_S))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.provider.cleanup()
        await self.short.cleanup()
        await self._context.__aexit__(None, None, None)
        await self.proxy.__aexit__()
        for name, value in self._environment.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value

    @staticmethod
    def _is_change(method: str, path: str, body: bytes) -> bool:
        return fields(body).get("Action") in _CHANGES

    def _answer(self, method: str, path: str, body: bytes) -> web.Response | None:
        asked = fields(body)
        match asked.get("Action"):
            case "SetDesiredCapacity":
                self.orders[asked["AutoScalingGroupName"]] = int(asked["DesiredCapacity"])
                assert asked["HonorCooldown"] == "false"
                return answered("SetDesiredCapacity")
            case "DescribeScalingActivities":
                name = asked["AutoScalingGroupName"]
                return answered("DescribeScalingActivities", self._activities(name))
        return None

    def _activities(self, name: str) -> str:
        if name not in self.exhausted:
            return "<Activities/>"
        at = datetime.fromtimestamp(time.time(), UTC).isoformat()
        said = "We currently do not have sufficient m5.xlarge capacity (InsufficientInstanceCapacity)"
        return (
            f"<Activities><member><ActivityId>1</ActivityId><AutoScalingGroupName>{name}</AutoScalingGroupName>"
            f"<Cause>c</Cause><StartTime>{at}</StartTime><StatusCode>Failed</StatusCode>"
            f"<StatusMessage>{said}</StatusMessage></member></Activities>"
        )

    def _edit(self, method: str, path: str, body: bytes, answer: bytes) -> bytes:
        asked = fields(body)
        if asked.get("Action") == "TerminateInstanceInAutoScalingGroup":
            found = re.search(rb"<AutoScalingGroupName>(.*?)</AutoScalingGroupName>", answer)
            name = found[1].decode() if found else ""
            if name in self.orders:
                self.orders[name] -= 1
        if asked.get("Action") != "DescribeAutoScalingGroups" or not self.orders:
            return answer
        root = ET.fromstring(answer)
        for member in root.iter(f"{{{NAMESPACE}}}member"):
            name_at = member.find(f"{{{NAMESPACE}}}AutoScalingGroupName")
            desired = member.find(f"{{{NAMESPACE}}}DesiredCapacity")
            if name_at is not None and desired is not None and name_at.text in self.orders:
                desired.text = str(self.orders[name_at.text])
        return ET.tostring(root)

    async def define(
        self,
        group_id: str,
        *,
        minimum: int = 0,
        maximum: int = 10,
        size: int = 0,
        tags: Mapping[str, str] | None = None,
    ) -> str:
        """As the suite wants it; with `tags` beside the one that selects it."""
        await self.raw.create_auto_scaling_group(
            AutoScalingGroupName=group_id,
            LaunchConfigurationName="lc",
            MinSize=minimum,
            MaxSize=maximum,
            DesiredCapacity=size,
            AvailabilityZones=[ZONE],
            Tags=[
                {"Key": key, "Value": value, "PropagateAtLaunch": False}
                for key, value in {TAG: "true", **(tags or {})}.items()
            ],
        )
        return group_id

    async def come(self, group_id: str) -> None:
        size = self.orders.get(group_id)
        if size is not None:
            await self.raw.set_desired_capacity(AutoScalingGroupName=group_id, DesiredCapacity=size)
            if self.orders.get(group_id) == size:
                del self.orders[group_id]

    async def resize(self, group_id: str, size: int) -> None:
        self.orders[group_id] = size

    async def exhaust(self, group_id: str) -> None:
        self.exhausted.add(group_id)

    async def remove(self, group_id: str) -> None:
        self.orders.pop(group_id, None)
        await self.raw.delete_auto_scaling_group(AutoScalingGroupName=group_id, ForceDelete=True)

    def spoil(self, fault: Fault) -> None:
        status, code = _CODES[fault]
        self.proxy.refusal = (status, {"Content-Type": "text/xml"}, error_text(code).encode())

    def lose_answer(self) -> None:
        self.proxy.losing = True

    def hang(self) -> None:
        self.proxy.hanging = True
