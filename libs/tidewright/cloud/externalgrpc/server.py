"""Our clouds for others: a server of the externalgrpc protocol.

Each order that comes in has a key of its own: who asks twice gets twice, as the protocol has it.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import grpc
import structlog

from tidewright.cloud.errors import CloudError, NotFound, NotImplementedByCloud
from tidewright.cloud.externalgrpc import objects
from tidewright.cloud.externalgrpc.client import SERVICE
from tidewright.cloud.externalgrpc.errors import CODES, REASON
from tidewright.cloud.externalgrpc.wire import externalgrpc_pb2 as wire
from tidewright.cloud.provider import Group, Provider

GRACE_S: Final = 5.0
"""Wall seconds that calls under way have at the end."""

_log = structlog.get_logger(__name__)


class CloudServer:
    """Groups of several clouds behind one service; of two with one id, the first cloud's has it."""

    def __init__(self, clouds: Mapping[str, Provider]) -> None:
        """`clouds`: name to provider, in their order."""
        self._clouds = clouds
        self._groups: dict[str, tuple[Provider, str]] = {}
        self._server: grpc.aio.Server | None = None
        self.port = 0

    async def start(self, address: str, credentials: grpc.ServerCredentials | None = None) -> None:
        """Listen on `host:port`; port 0 takes a free one, which `port` then names.

        Raises:
            OSError: it cannot be listened there.
        """
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, self._handlers()),))
        try:
            if credentials is None:
                self.port = server.add_insecure_port(address)
            else:
                self.port = server.add_secure_port(address, credentials)
        except RuntimeError as error:
            raise OSError(f"cannot listen on {address}: {error}") from error
        await server.start()
        self._server = server

    @property
    def groups(self) -> list[tuple[str, str]]:
        """Kind of cloud and id there of every group that is served, as of the last look."""
        return [(provider.name, group_id) for provider, group_id in self._groups.values()]

    async def look(self) -> None:
        """Read what is there to be served, as far as the clouds answer."""
        with suppress(CloudError):
            await self._refresh(None)

    async def stop(self) -> None:
        """Answer what is under way, and let go of the clouds."""
        if self._server is not None:
            await self._server.stop(GRACE_S)
        for provider in self._clouds.values():
            await provider.cleanup()

    def _handlers(self) -> dict[str, grpc.RpcMethodHandler]:
        calls: dict[str, tuple[Callable[[Any], Awaitable[Any]], str]] = {
            "NodeGroups": (self._node_groups, ""),
            "NodeGroupForNode": (self._for_node, ""),
            "PricingNodePrice": (self._node_price, ""),
            "PricingPodPrice": (self._pod_price, ""),
            "GPULabel": (self._gpu_label, ""),
            "GetAvailableGPUTypes": (self._gpu_types, ""),
            "Cleanup": (self._cleanup, ""),
            "Refresh": (self._refresh, ""),
            "NodeGroupTargetSize": (self._target_size, ""),
            "NodeGroupIncreaseSize": (self._increase, ""),
            "NodeGroupDeleteNodes": (self._delete, ""),
            "NodeGroupDecreaseTargetSize": (self._decrease, ""),
            "NodeGroupNodes": (self._nodes, ""),
            "NodeGroupTemplateNodeInfo": (self._template, ""),
            "NodeGroupGetOptions": (self._options, "NodeGroupAutoscalingOptions"),
        }
        return {
            name: grpc.unary_unary_rpc_method_handler(
                _answering(name, call),
                request_deserializer=getattr(wire, f"{message or name}Request").FromString,
                response_serializer=getattr(wire, f"{message or name}Response").SerializeToString,
            )
            for name, (call, message) in calls.items()
        }

    async def _refresh(self, _: Any) -> Any:
        """Read all clouds anew; of one that fails beside others what was known stays."""
        outcomes = await asyncio.gather(
            *(provider.refresh() for provider in self._clouds.values()), return_exceptions=True
        )
        errors = {
            name: error for name, error in zip(self._clouds, outcomes, strict=True) if error is not None
        }
        for name, error in errors.items():
            if not isinstance(error, CloudError):
                raise error
            if len(errors) == len(outcomes):
                raise error
            _log.warning(
                "a cloud does not answer: what was last read stays in force",
                cloud=name, reason=error.reason, error=error.message,
            )  # fmt: skip
        self._groups = {}
        for name, provider in self._clouds.items():
            for group in provider.node_groups():
                shown = group.id if group.id not in self._groups else f"{name}/{group.id}"
                self._groups[shown] = (provider, group.id)
        return wire.RefreshResponse()

    async def _listed(self) -> dict[str, Group]:
        if not self._groups:
            await self._refresh(None)
        of = {id(p): {group.id: group for group in p.node_groups()} for p in self._clouds.values()}
        return {
            shown: found
            for shown, (provider, group_id) in self._groups.items()
            if (found := of[id(provider)].get(group_id)) is not None
        }

    async def _group(self, shown: str) -> Group:
        if shown not in self._groups:
            await self._refresh(None)
        if shown not in self._groups:
            raise NotFound(f"no node group {shown!r}; there are: {', '.join(sorted(self._groups)) or 'none'}")
        provider, group_id = self._groups[shown]
        return await provider.group(group_id)

    async def _node_groups(self, _: Any) -> Any:
        listed = await self._listed()
        return wire.NodeGroupsResponse(nodeGroups=[_message(name, group) for name, group in listed.items()])

    async def _for_node(self, request: Any) -> Any:
        listed = await self._listed()
        for provider in self._clouds.values():
            group = await provider.node_group_for_node(request.node.providerID, dict(request.node.labels))
            if group is not None:
                shown = next(name for name, entry in self._groups.items() if entry == (provider, group.id))
                return wire.NodeGroupForNodeResponse(nodeGroup=_message(shown, listed.get(shown, group)))
        return wire.NodeGroupForNodeResponse(nodeGroup=wire.NodeGroup())

    async def _node_price(self, request: Any) -> Any:
        hours = (request.endTimestamp.ToNanoseconds() - request.startTimestamp.ToNanoseconds()) / 3.6e12
        response = await self._for_node(request)
        if not response.nodeGroup.id:  # a node that is none yet: the group whose template it is
            for group in (await self._listed()).values():
                template = await group.template()
                if template.labels.items() <= dict(request.node.labels).items():
                    response.nodeGroup.id = next(n for n, e in self._groups.items() if e[1] == group.id)
                    break
        if not response.nodeGroup.id:
            raise NotFound("no group has such a node")
        price = (await self._listed())[response.nodeGroup.id].price_per_hour
        if price is None:
            raise NotImplementedByCloud(f"group {response.nodeGroup.id} has no price")
        return wire.PricingNodePriceResponse(price=price * hours)

    async def _pod_price(self, request: Any) -> Any:
        start, end = (stamp.ToNanoseconds() / 1e9 for stamp in (request.startTimestamp, request.endTimestamp))
        asked = objects.pod_requests(request.pod_bytes)
        for provider in self._clouds.values():
            try:
                return wire.PricingPodPriceResponse(price=await provider.pod_price(asked, start, end))
            except NotImplementedByCloud:
                continue
        raise NotImplementedByCloud("no cloud has prices of pods")

    async def _gpu_label(self, _: Any) -> Any:
        labels = (provider.gpu_label() for provider in self._clouds.values())
        return wire.GPULabelResponse(label=next(filter(None, labels), ""))

    async def _gpu_types(self, _: Any) -> Any:
        response = wire.GetAvailableGPUTypesResponse()
        for provider in self._clouds.values():
            for name in await provider.gpu_types():
                response.gpuTypes[name].SetInParent()
        return response

    async def _cleanup(self, _: Any) -> Any:
        return wire.CleanupResponse()  # the clouds are let go when this server ends

    async def _target_size(self, request: Any) -> Any:
        group = await self._group(request.id)
        return wire.NodeGroupTargetSizeResponse(targetSize=await group.target_size())

    async def _increase(self, request: Any) -> Any:
        group = await self._group(request.id)
        size = await group.target_size()
        await group.increase_size(request.delta, key=_key(), expect=size)
        return wire.NodeGroupIncreaseSizeResponse()

    async def _delete(self, request: Any) -> Any:
        group = await self._group(request.id)
        await group.delete_nodes([node.providerID for node in request.nodes], key=_key())
        return wire.NodeGroupDeleteNodesResponse()

    async def _decrease(self, request: Any) -> Any:
        group = await self._group(request.id)
        size = await group.target_size()
        await group.decrease_target_size(request.delta, key=_key(), expect=size)
        return wire.NodeGroupDecreaseTargetSizeResponse()

    async def _nodes(self, request: Any) -> Any:
        return objects.instances_message(await (await self._group(request.id)).nodes())

    async def _template(self, request: Any) -> Any:
        template = await (await self._group(request.id)).template()
        name = f"template-node-for-{request.id.rpartition('/')[2]}"
        return wire.NodeGroupTemplateNodeInfoResponse(nodeBytes=objects.node_bytes(name, template))

    async def _options(self, request: Any) -> Any:
        options = await (await self._group(request.id)).options(objects.defaults_of(request))
        return wire.NodeGroupAutoscalingOptionsResponse(
            nodeGroupAutoscalingOptions=objects.options_message(options)
        )


def _message(name: str, group: Group) -> Any:
    return wire.NodeGroup(id=name, minSize=group.min_size, maxSize=group.max_size, debug=group.debug)


def _key() -> str:
    return f"externalgrpc/{uuid.uuid4()}"


def _answering(
    name: str, call: Callable[[Any], Awaitable[Any]]
) -> Callable[[Any, grpc.aio.ServicerContext], Awaitable[Any]]:
    """The call with errors as the protocol has them."""

    async def answer(request: Any, context: grpc.aio.ServicerContext) -> Any:
        try:
            return await call(request)
        except CloudError as error:
            _log.info("refused", call=name, reason=error.reason, error=error.message)
            context.set_trailing_metadata(((REASON, error.reason),))
            code = CODES.get(type(error), grpc.StatusCode.UNKNOWN)
            await context.abort(code, error.message)

    return answer
