"""The provider interface over the externalgrpc protocol.

The protocol adds and takes away, and knows no keys: a call whose answer is lost is never repeated. Nor can it compare:
the size that an order expects is compared with what was read just before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import grpc

from tidewright.cloud.calls import Calls
from tidewright.cloud.errors import CloudError, Conflict, Invalid, NotFound, NotImplementedByCloud
from tidewright.cloud.externalgrpc import objects
from tidewright.cloud.externalgrpc.config import GrpcConfig, config_of
from tidewright.cloud.externalgrpc.errors import of_rpc
from tidewright.cloud.externalgrpc.wire import externalgrpc_pb2 as wire
from tidewright.cloud.optional import MadeElsewhere, WithoutOptionalCalls
from tidewright.cloud.provider import (
    GroupOptions,
    Instance,
    NodeTemplate,
    Promise,
)
from tidewright.cloud.providers import Surroundings

SERVICE: Final = "clusterautoscaler.cloudprovider.v1.externalgrpc.CloudProvider"
KNOWN_S: Final = 60.0
"""How long limits of groups are taken as they were listed, where nobody refreshes."""
HOUR_S: Final = 3600
_CHANGES = frozenset(
    {"NodeGroupIncreaseSize", "NodeGroupDeleteNodes", "NodeGroupDecreaseTargetSize", "Cleanup"}
)


class GrpcGroup(MadeElsewhere):
    """One group as it was listed; its size is read when it is first asked for."""

    CLOUD = "externalgrpc"
    NOT_MADE = "externalgrpc makes no groups"
    NOT_REMOVED = "externalgrpc removes no groups"

    def __init__(self, provider: ExternalGrpcProvider, listed: Any, size: int | None = None) -> None:
        self._provider = provider
        self._listed = listed
        self._size = size
        self._instances: Sequence[Instance] | None = None
        self._template: NodeTemplate | None = None
        self._price: float | None = None

    @property
    def id(self) -> str:
        return str(self._listed.id)

    @property
    def debug(self) -> str:
        return str(self._listed.debug) or f"{self.id} ({self.min_size}..{self.max_size})"

    @property
    def min_size(self) -> int:
        return int(self._listed.minSize)

    @property
    def max_size(self) -> int:
        return int(self._listed.maxSize)

    @property
    def price_per_hour(self) -> float | None:
        return self._price

    @property
    def machine_type(self) -> str:
        return self._label("node.kubernetes.io/instance-type")

    @property
    def zone(self) -> str:
        return self._label("topology.kubernetes.io/zone")

    def _label(self, name: str) -> str:
        return "" if self._template is None else self._template.labels.get(name, "")

    @property
    def initial(self) -> int:
        return 0

    @property
    def ignored(self) -> tuple[str, ...]:
        return ()

    async def target_size(self) -> int:
        if self._size is None:
            request = wire.NodeGroupTargetSizeRequest(id=self.id)
            self._size = int((await self._provider.ask("NodeGroupTargetSize", request)).targetSize)
        return self._size

    async def begun(self, key: str) -> int:
        del key
        return 0

    async def increase_size(self, delta: int, *, key: str, expect: int | None = None) -> None:
        del key  # nobody there knows it
        size = await self._as_expected(expect)
        if delta <= 0:
            raise Invalid(f"{self.id}: increase by {delta}; the delta must be > 0")
        if size + delta > self.max_size:
            raise Invalid(f"{self.id}: size {size} + {delta} is above the maximum {self.max_size}")
        await self._provider.ask(
            "NodeGroupIncreaseSize", wire.NodeGroupIncreaseSizeRequest(id=self.id, delta=delta)
        )
        self._size = size + delta

    async def delete_nodes(self, instance_ids: Sequence[str], *, key: str) -> None:
        del key
        size = await self.target_size()
        if size - len(instance_ids) < self.min_size:
            raise Invalid(
                f"{self.id}: size {size} - {len(instance_ids)} is below the minimum {self.min_size}"
            )
        instances = self._instances if self._instances is not None else await self.nodes()
        foreign = sorted(set(instance_ids) - {instance.id for instance in instances})
        if foreign:
            raise Invalid(f"{self.id}: instance {foreign[0]} is not of this group")
        nodes = [wire.ExternalGrpcNode(providerID=instance_id) for instance_id in instance_ids]
        await self._provider.ask(
            "NodeGroupDeleteNodes", wire.NodeGroupDeleteNodesRequest(id=self.id, nodes=nodes)
        )
        self._size = size - len(instance_ids)

    async def decrease_target_size(self, delta: int, *, key: str, expect: int | None = None) -> None:
        del key
        size = await self._as_expected(expect)
        if delta >= 0:
            raise Invalid(f"{self.id}: decrease by {delta}; the delta must be < 0")
        request = wire.NodeGroupDecreaseTargetSizeRequest(id=self.id, delta=delta)
        await self._provider.ask("NodeGroupDecreaseTargetSize", request)
        self._size = size + delta

    async def _as_expected(self, expect: int | None) -> int:
        size = await self.target_size()
        if expect is not None and size != expect:
            raise Conflict(f"{self.id}: target size is {size}, not {expect}")
        return size

    async def nodes(self) -> Sequence[Instance]:
        response = await self._provider.ask("NodeGroupNodes", wire.NodeGroupNodesRequest(id=self.id))
        self._instances = objects.instances_of(response)
        return self._instances

    async def template(self) -> NodeTemplate:
        if self._template is None:
            request = wire.NodeGroupTemplateNodeInfoRequest(id=self.id)
            response = await self._provider.ask("NodeGroupTemplateNodeInfo", request)
            self._template = objects.template_of(response.nodeBytes)
            if self._template is not None:
                self._price = await self._provider.hourly(self._template)
        if self._template is None:
            raise NotImplementedByCloud(f"{self.id}: the server has no template for it")
        return self._template

    async def options(self, defaults: GroupOptions) -> GroupOptions:
        request = wire.NodeGroupAutoscalingOptionsRequest(
            id=self.id, defaults=objects.options_message(defaults)
        )
        try:
            response = await self._provider.ask("NodeGroupGetOptions", request)
        except NotImplementedByCloud:
            return defaults
        return objects.options_of(response, defaults)


class ExternalGrpcProvider(WithoutOptionalCalls):
    """A server of the externalgrpc protocol. Call `refresh` before reading groups."""

    NO_MACHINE_TYPES = "externalgrpc has no machine types"
    NO_NEW_GROUPS = GrpcGroup.NOT_MADE

    name = "externalgrpc"
    promise = Promise.DELTA

    def __init__(self, config: GrpcConfig, calls: Calls) -> None:
        self._config = config
        self._calls = calls
        self._channel: grpc.aio.Channel | None = None
        self._groups: dict[str, GrpcGroup] = {}
        self._listed_at: float | None = None
        self._owners: dict[str, str] = {}
        self._gpu_label: str | None = None
        self._gpu_types: tuple[str, ...] | None = None
        self._prices = True

    async def refresh(self) -> None:
        self._owners.clear()
        await self.ask("Refresh", wire.RefreshRequest())
        await self._list()
        if self._gpu_label is None:
            try:
                self._gpu_label = (await self.ask("GPULabel", wire.GPULabelRequest())).label
            except NotImplementedByCloud:
                self._gpu_label = ""
            except CloudError:
                pass  # asked again by the next refresh: nothing hangs on it

    async def _list(self) -> None:
        response = await self.ask("NodeGroups", wire.NodeGroupsRequest())
        self._groups = {group.id: GrpcGroup(self, group) for group in response.nodeGroups}
        self._listed_at = asyncio.get_running_loop().time()

    def node_groups(self) -> Sequence[GrpcGroup]:
        return [group for _, group in sorted(self._groups.items())]

    async def group(self, group_id: str) -> GrpcGroup:
        now = asyncio.get_running_loop().time()
        if group_id not in self._groups or self._listed_at is None or now - self._listed_at > KNOWN_S:
            await self._list()
        known = self._groups.get(group_id)
        if known is None:
            others = ", ".join(sorted(self._groups)) or "none"
            raise NotFound(f"no node group {group_id!r}; there are: {others}")
        fresh = GrpcGroup(self, known._listed)  # noqa: SLF001 - of this module
        await fresh.target_size()
        return fresh

    async def node_group_for_node(self, provider_id: str, labels: Mapping[str, str]) -> GrpcGroup | None:
        known = self._owners.get(provider_id)
        if known not in self._groups:
            node = wire.ExternalGrpcNode(providerID=provider_id, labels=dict(labels))
            response = await self.ask("NodeGroupForNode", wire.NodeGroupForNodeRequest(node=node))
            known = response.nodeGroup.id
            if not known:
                return None
            self._owners[provider_id] = known
        return self._groups.get(known)

    async def hourly(self, template: NodeTemplate) -> float | None:
        """Price of a node for one hour; None where the server has no prices."""
        if not self._prices:
            return None
        try:
            return await self.node_price(template, 0, HOUR_S)
        except NotImplementedByCloud:
            self._prices = False
        except CloudError:
            pass
        return None

    async def node_price(self, template: NodeTemplate, start: float, end: float) -> float:
        request = wire.PricingNodePriceRequest(node=wire.ExternalGrpcNode(labels=template.labels))
        request.startTimestamp.FromNanoseconds(round(start * 1e9))
        request.endTimestamp.FromNanoseconds(round(end * 1e9))
        return float((await self.ask("PricingNodePrice", request)).price)

    async def pod_price(self, requests: Mapping[str, int], start: float, end: float) -> float:
        request = wire.PricingPodPriceRequest(pod_bytes=objects.pod_bytes(requests))
        request.startTimestamp.FromNanoseconds(round(start * 1e9))
        request.endTimestamp.FromNanoseconds(round(end * 1e9))
        return float((await self.ask("PricingPodPrice", request)).price)

    def gpu_label(self) -> str:
        return self._gpu_label or ""

    async def gpu_types(self) -> Sequence[str]:
        if self._gpu_types is None:
            response = await self.ask("GetAvailableGPUTypes", wire.GetAvailableGPUTypesRequest())
            self._gpu_types = tuple(sorted(response.gpuTypes))
        return self._gpu_types

    async def cleanup(self) -> None:
        if self._channel is not None:
            await self._channel.close()
            self._channel = None

    async def ask(self, method: str, request: Any) -> Any:
        """One call.

        Raises:
            CloudError: as the server says; `Unavailable` without an answer.
        """
        answer: type[Any] = getattr(wire, _ANSWERS.get(method, f"{method}Response"))
        what = f"{method} {self._config.address}"
        async with self._calls.call(what):
            call = self._open().unary_unary(
                f"/{SERVICE}/{method}",
                request_serializer=type(request).SerializeToString,
                response_deserializer=answer.FromString,
            )
            try:
                return await call(request, timeout=self._config.timeout_s)
            except grpc.aio.AioRpcError as error:
                raise of_rpc(error, what, changes=method in _CHANGES) from error

    def _open(self) -> grpc.aio.Channel:
        if self._channel is None:
            config = self._config
            if config.cert:
                credentials = grpc.ssl_channel_credentials(
                    root_certificates=_file(config.cacert),
                    private_key=_file(config.key),
                    certificate_chain=_file(config.cert),
                )
                options = (("grpc.ssl_target_name_override", config.host),)
                self._channel = grpc.aio.secure_channel(config.address, credentials, options=options)
            else:
                self._channel = grpc.aio.insecure_channel(config.address)
        return self._channel


_ANSWERS: Final = {"NodeGroupGetOptions": "NodeGroupAutoscalingOptionsResponse"}


def _file(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise Invalid(f"{path}: cannot be read: {error.strerror}") from error


def provider(config: str, calls: Calls, around: Surroundings) -> ExternalGrpcProvider:
    """The server that a file or address names.

    Raises:
        ValueError: it names none.
    """
    text = config or around.config
    if not text:
        raise ValueError(
            "no server: write externalgrpc:FILE or externalgrpc:HOST:PORT, or give --cloud-config FILE"
        )
    return ExternalGrpcProvider(config_of(text), calls)
