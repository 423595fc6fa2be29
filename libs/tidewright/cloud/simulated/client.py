"""The provider interface over the simulated cloud's HTTP, for watcher and actuator."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Self, TypeVar
from urllib.parse import quote

import aiohttp
import msgspec

from tidewright.cloud.calls import Calls
from tidewright.cloud.errors import ERRORS, CloudError, NotFound, Unavailable
from tidewright.cloud.provider import (
    GroupOptions,
    Instance,
    MachineType,
    NodeTemplate,
    Promise,
    Taint,
)
from tidewright.cloud.providers import Surroundings
from tidewright.cloud.simulated.wire import PREFIX, Creation, Deletion, GroupView, Refusal, Resize

T = TypeVar("T")


MAX_ANSWER_BYTES = 2**26
"""Of one call; a group of tens of thousands of machines is shorter."""


class _Settings(msgspec.Struct):
    gpu_label: str = ""


class _Target(msgspec.Struct):
    target: int = 0


class SimulatedGroup:
    """One group as of the provider's last refresh, or as `SimulatedProvider.group` read it."""

    def __init__(
        self, provider: SimulatedProvider, view: GroupView, creation: Creation | None = None
    ) -> None:
        self._provider = provider
        self._view = view
        self._creation = creation

    @property
    def id(self) -> str:
        return self._view.id

    @property
    def debug(self) -> str:
        view = self._view
        return f"{view.id} ({view.min}..{view.max}, target {view.target})"

    @property
    def min_size(self) -> int:
        return self._view.min

    @property
    def max_size(self) -> int:
        return self._view.max

    @property
    def autoprovisioned(self) -> bool:
        return self._view.autoprovisioned

    @property
    def atomic(self) -> bool:
        return self._view.atomic

    @property
    def price_per_hour(self) -> float | None:
        return self._view.price_per_hour

    @property
    def machine_type(self) -> str:
        return self._view.machine_type

    @property
    def zone(self) -> str:
        return self._view.zone

    @property
    def initial(self) -> int:
        return 0

    @property
    def ignored(self) -> tuple[str, ...]:
        return ()

    async def exists(self) -> bool:
        return self._creation is None

    async def target_size(self) -> int:
        return self._view.target

    async def begun(self, key: str) -> int:
        del key
        return 0

    async def increase_size(self, delta: int, *, key: str, expect: int | None = None) -> None:
        await self._call("increase", Resize(delta=delta, key=key, expect=expect))

    async def atomic_increase_size(self, delta: int, *, key: str, expect: int | None = None) -> None:
        await self._call("increase", Resize(delta=delta, key=key, expect=expect, atomic=True))

    async def delete_nodes(self, instance_ids: Sequence[str], *, key: str) -> None:
        await self._call("delete-nodes", Deletion(ids=tuple(instance_ids), key=key))

    async def force_delete_nodes(self, instance_ids: Sequence[str], *, key: str) -> None:
        await self._call("delete-nodes", Deletion(ids=tuple(instance_ids), key=key, force=True))

    async def decrease_target_size(self, delta: int, *, key: str, expect: int | None = None) -> None:
        await self._call("decrease", Resize(delta=delta, key=key, expect=expect))

    async def nodes(self) -> Sequence[Instance]:
        return await self._provider.ask("GET", f"/groups/{quote(self.id)}/instances", tuple[Instance, ...])

    async def template(self) -> NodeTemplate:
        return self._view.template

    async def options(self, defaults: GroupOptions) -> GroupOptions:
        own = {
            name: value
            for name in GroupOptions.__struct_fields__
            if (value := getattr(self._view.options, name)) is not None
        }
        return msgspec.structs.replace(defaults, **own)

    async def create(self, *, key: str) -> SimulatedGroup:
        if self._creation is None:
            return self
        body = msgspec.structs.replace(self._creation, key=key)
        view = await self._provider.ask("POST", "/groups", GroupView, body)
        return SimulatedGroup(self._provider, view)

    async def delete(self, *, key: str) -> None:
        await self._provider.ask("DELETE", f"/groups/{quote(self.id)}", dict[str, Any], query={"key": key})

    async def _call(self, what: str, body: msgspec.Struct) -> None:
        done = await self._provider.ask("POST", f"/groups/{quote(self.id)}/{what}", _Target, body)
        self._view.target = done.target


class SimulatedProvider:
    """The simulated cloud at a URL. Call `refresh` before reading groups."""

    name = "simulated"
    promise = Promise.KEY

    def __init__(self, url: str, calls: Calls | None = None) -> None:
        self._url = url.rstrip("/")
        self._calls = calls or Calls(self.name)
        self._session: aiohttp.ClientSession | None = None
        self._groups: dict[str, SimulatedGroup] = {}
        self._instances: dict[str, str] = {}
        self._settings = _Settings()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.cleanup()

    async def refresh(self) -> None:
        views = await self.ask("GET", "/groups", list[GroupView])
        self._groups = {view.id: SimulatedGroup(self, view) for view in views}
        self._settings = await self.ask("GET", "/settings", _Settings)

    def node_groups(self) -> Sequence[SimulatedGroup]:
        return [group for _, group in sorted(self._groups.items())]

    async def group(self, group_id: str) -> SimulatedGroup:
        return SimulatedGroup(self, await self.ask("GET", f"/groups/{quote(group_id)}", GroupView))

    async def node_group_for_node(self, provider_id: str, labels: Mapping[str, str]) -> SimulatedGroup | None:
        known = self._instances.get(provider_id)
        if known not in self._groups:
            await self._find_instances()
            known = self._instances.get(provider_id)
        return self._groups.get(known) if known is not None else None

    async def _find_instances(self) -> None:
        instances: dict[str, str] = {}
        for group in self.node_groups():
            for instance in await group.nodes():
                instances[instance.id] = group.id
        self._instances = instances

    async def node_price(self, template: NodeTemplate, start: float, end: float) -> float:
        for group in self.node_groups():
            if group.price_per_hour is not None and await group.template() == template:
                return group.price_per_hour * (end - start) / 3600
        raise NotFound("no group has such a node and a price")

    async def pod_price(self, requests: Mapping[str, int], start: float, end: float) -> float:
        hours = (end - start) / 3600
        # The usual list price of a core and a GiB, so that pods compare whatever the groups cost.
        return hours * (
            requests.get("cpu", 0) / 1000 * 0.033174 + requests.get("memory", 0) / 2**30 * 0.004446
        )

    async def machine_types(self) -> Sequence[MachineType]:
        return await self.ask("GET", "/machines", tuple[MachineType, ...])

    async def new_node_group(
        self,
        machine_type: str,
        *,
        group_id: str = "",
        zone: str = "",
        max_size: int = 0,
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Taint] = (),
        resources: Mapping[str, str] | None = None,
    ) -> SimulatedGroup:
        machine = next(
            (candidate for candidate in await self.machine_types() if candidate.name == machine_type), None
        )
        if machine is None:
            raise NotFound(f"no machine type {machine_type!r}")
        creation = Creation(
            machine_type=machine_type,
            id=group_id,
            zone=zone,
            max=max_size,
            labels=dict(labels or {}),
            taints=tuple(taints),
            resources=dict(resources or {}),
        )
        template = msgspec.structs.replace(
            machine.template,
            capacity={**machine.template.capacity, **creation.resources},
            labels={**machine.template.labels, **creation.labels},
            taints=(*machine.template.taints, *creation.taints),
        )
        view = GroupView(
            id=group_id,
            min=0,
            max=max_size,
            target=0,
            autoprovisioned=True,
            price_per_hour=machine.price_per_hour,
            machine_type=machine_type,
            zone=zone,
            template=template,
        )
        return SimulatedGroup(self, view, creation)

    def gpu_label(self) -> str:
        return self._settings.gpu_label

    async def gpu_types(self) -> Sequence[str]:
        label = self._settings.gpu_label
        gpu_types = {
            (await group.template()).labels[label]
            for group in self.node_groups()
            if label and label in (await group.template()).labels
        }
        return sorted(gpu_types)

    async def cleanup(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def ask(
        self,
        method: str,
        path: str,
        type_: type[T],
        body: msgspec.Struct | None = None,
        query: Mapping[str, str] | None = None,
    ) -> T:
        """One call.

        Raises:
            CloudError: as the cloud says; `Unavailable` without an answer, and for one that is garbage.
        """
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None))
        url = f"{self._url}{PREFIX}{path}"
        content = None if body is None else msgspec.json.encode(body)
        try:
            async with (
                self._calls.call(f"{method} {path}"),
                self._session.request(method, url, data=content, params=query) as answer,
            ):
                received, status = bytearray(), answer.status
                async for chunk in answer.content.iter_any():
                    received += chunk
                    if len(received) > MAX_ANSWER_BYTES:
                        raise Unavailable(f"{method} {url}: an answer of more than {MAX_ANSWER_BYTES} bytes")
        except (aiohttp.ClientError, asyncio.IncompleteReadError) as error:
            raise Unavailable(f"{method} {url}: {type(error).__name__}: {error}") from error
        try:
            if status >= 400:
                raise _refusal(msgspec.json.decode(received, type=Refusal))
            return msgspec.json.decode(received, type=type_)
        except msgspec.MsgspecError as error:
            raise Unavailable(f"{method} {url}: {status}, not an answer of a cloud: {error}") from error


def _refusal(said: Refusal) -> CloudError:
    kind = ERRORS.get(said.reason, Unavailable)
    return kind(said.message, code=said.code, retry_after_s=said.retry_after_s)


def provider(config: str, calls: Calls, around: Surroundings) -> SimulatedProvider:
    """The simulated cloud at a URL."""
    del around
    return SimulatedProvider(config, calls)
