"""The simulated cloud running: orders become Node objects, and HTTP serves the provider interface.

    GET    /cloud/v1/groups                       all groups
    GET    /cloud/v1/groups/{id}, /cloud/v1/groups/{id}/instances
    POST   /cloud/v1/groups/{id}/increase         `Resize`
    POST   /cloud/v1/groups/{id}/decrease         `Resize`
    POST   /cloud/v1/groups/{id}/delete-nodes     `Deletion`
    PATCH  /cloud/v1/groups/{id}/faults           any of `GroupFaults`, from now on
    PUT    /cloud/v1/groups/{id}                  `GroupConfig`: a group as its owner wants it from now on
    POST   /cloud/v1/groups                       `Creation`: an auto-provisioned group
    DELETE /cloud/v1/groups/{id}?key=             an auto-provisioned one; `force=true`: any, with its nodes
    POST   /cloud/v1/lose?id=                     the cloud takes an instance away
    GET    /cloud/v1/machines, /cloud/v1/settings

Each call may be slow, refused, or done without its answer arriving, as the group's faults say.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import structlog
from aiohttp import web

from tidewright.cloud.errors import CloudError, Invalid, NotFound, Throttled, Unavailable
from tidewright.cloud.provider import Instance, MachineType
from tidewright.cloud.simulated.wire import (
    HTTP_STATUS,
    PREFIX,
    Creation,
    Deletion,
    GroupView,
    Refusal,
    Resize,
)
from tidewright.kube.errors import KubeError
from tidewright.log import disk
from tidewright.log.clock import Clock
from tidewright.sim.cloud.config import CloudConfig, ConfigError, GroupConfig, GroupFaults, check
from tidewright.sim.cloud.engine import GROUP_LABEL, Books, Engine, Group, Machine, Step
from tidewright.sim.controllers.cache import Cache
from tidewright.sim.controllers.objects import NODE, Node
from tidewright.sim.controllers.writes import Writer, create, delete
from tidewright.sim.delays import draw, uniform
from tidewright.sim.kubelets.nodes import node_manifest
from tidewright.sim.options import Delay

_log = structlog.get_logger(__name__)

_encode = msgspec.json.encode


class _AnswerLost(Exception):
    """The call was done, and nobody will hear of it."""


class SimulatedCloud:
    """One simulated cloud.

    Args:
        config: groups, quotas, faults.
        cache: where Node objects of an earlier run are found.
        writer: creates and deletes Node objects.
        clock: log time.
        on_lost: called with the name of a node whose instance the cloud took away.
        on_deletion: called when machines are deleted, with the path and user agent of the call and their nodes.
        books: file in which orders survive a restart; None keeps them in memory.
    """

    def __init__(
        self,
        config: CloudConfig,
        cache: Cache,
        writer: Writer,
        *,
        clock: Clock,
        on_lost: Callable[[str], None] | None = None,
        on_deletion: Callable[[str, str, list[str]], None] | None = None,
        books: Path | None = None,
    ) -> None:
        self._cache = cache
        self._writer = writer
        self._clock = clock
        self._on_lost = on_lost
        self._on_deletion = on_deletion
        self._wake = asyncio.Event()
        self._calls = 0
        self._books = books
        self.engine = Engine(config, clock.now())
        if books is not None and books.exists():
            self.engine.restore(msgspec.json.decode(books.read_bytes(), type=Books))
        cache.of(NODE)

    async def run(self) -> None:
        """Boot and delete instances as they become due, until cancelled."""
        await self._cache.synced()
        for node in self._cache.of(NODE).objects.values():
            self._adopt(node)
        async with asyncio.TaskGroup() as group:
            while True:
                for step in self.engine.due(self._clock.now()):
                    group.create_task(self._take(step), name=f"cloud {step.machine.node}")
                self._wake.clear()
                due = self.engine.next_due()
                wait_s = None if due is None else max(0.0, self._clock.wall_seconds(due - self._clock.now()))
                try:
                    async with asyncio.timeout(wait_s):
                        await self._wake.wait()
                except TimeoutError:
                    continue

    def _adopt(self, node: Node) -> None:
        group = node.metadata.labels.get(GROUP_LABEL)
        if group is not None:
            zone = node.metadata.labels.get("topology.kubernetes.io/zone", "")
            self.engine.adopt(node.spec.provider_id, node.metadata.name, group, zone)

    async def _take(self, step: Step) -> None:
        """Create or delete the Node object; tried until the API server answers."""
        delay_s = 0.05
        while True:
            try:
                if step.create:
                    await self._join(step.machine)
                else:
                    await self._leave(step.machine.node)
            except KubeError as error:
                if not error.retriable:
                    _log.error("a simulated node cannot join", node=step.machine.node, error=str(error))
                    return
                _log.info(
                    "a simulated node waits for the API server", node=step.machine.node, error=str(error)
                )
                await asyncio.sleep(delay_s)
                delay_s = min(delay_s * 2, 5.0)
            else:
                return

    async def _join(self, machine: Machine) -> None:
        group = self.engine.groups.get(machine.group)
        if group is None or machine.id not in group.machines:
            return
        template = self.engine.template(group.config, machine.zone)
        manifest = node_manifest(
            machine.node,
            capacity=template.capacity,
            allocatable=template.allocatable or template.capacity,
            labels={**template.labels, GROUP_LABEL: machine.group},
            taints=[
                {"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in template.taints
            ],
            provider_id=machine.id,
            ready=False,
            now=self._clock.now(),
        )
        await self._writer.send(create(NODE, "", manifest, tolerate=(409,)))

    async def _leave(self, name: str) -> None:
        node = self._cache.of(NODE).get(("", name))
        if node is not None:
            await self._writer.send(delete(NODE, node.key, node.metadata.uid))

    # --- HTTP ---------------------------------------------------------------------------------

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request below `PREFIX`."""
        try:
            content = await self._answer(request)
        except _AnswerLost:
            if request.transport is not None:
                request.transport.abort()
            return web.Response(status=503)
        except CloudError as error:
            refusal = Refusal(
                reason=error.reason,
                message=error.message,
                code=error.code,
                retry_after_s=error.retry_after_s,
            )
            status = HTTP_STATUS[error.reason]
            return web.Response(body=_encode(refusal), status=status, content_type="application/json")
        except msgspec.MsgspecError as error:
            refusal = Refusal(reason="Invalid", message=f"{request.path}: {error}")
            return web.Response(body=_encode(refusal), status=422, content_type="application/json")
        return web.Response(body=content, content_type="application/json")

    async def _answer(self, request: web.BaseRequest) -> bytes:
        parts = request.path.removeprefix(PREFIX).strip("/").split("/")
        body = await request.read()
        match request.method, parts:
            case "GET", ["groups"]:
                return _encode([self._view(group) for _, group in sorted(self.engine.groups.items())])
            case "GET", ["machines"]:
                return _encode(self._machines())
            case "GET", ["settings"]:
                config = self.engine.config
                return _encode({"gpu_label": config.gpu_label})
            case "GET", ["groups", group_id]:
                await self._be_faulty(group_id, lossy=False)
                return _encode(self._view(self.engine.group(group_id)))
            case "GET", ["groups", group_id, "instances"]:
                await self._be_faulty(group_id, lossy=False)
                instances: list[Instance] = self.engine.instances(group_id)
                return _encode(instances)
            case "PATCH", ["groups", group_id, "faults"]:
                return self._set_faults(group_id, body)
            case "POST", ["lose"]:
                return self._lose(request.query.get("id", ""))
            case "POST", ["groups"]:
                return self._create(msgspec.json.decode(body, type=Creation))
            case "PUT", ["groups", group_id]:
                return self._define(group_id, body)
            case "DELETE", ["groups", group_id] if request.query.get("force") == "true":
                self.engine.vanish(group_id, self._clock.now())
                self._wake.set()
                self._keep()
                return b"{}"
            case "DELETE", ["groups", group_id]:
                self.engine.delete_group(group_id, key=request.query.get("key", ""))
                self._keep()
                return b"{}"
            case "POST", ["groups", group_id, call]:
                return await self._change(group_id, call, body, request.headers.get("User-Agent", ""))
        raise NotFound(f"{request.method} {request.path}: no such call")

    async def _change(self, group_id: str, call: str, body: bytes, agent: str) -> bytes:
        losing = await self._be_faulty(group_id, lossy=True)
        now = self._clock.now()
        match call:
            case "increase":
                order = msgspec.json.decode(body, type=Resize)
                self.engine.increase(
                    group_id, order.delta, now, key=order.key, expect=order.expect, atomic=order.atomic
                )
            case "decrease":
                order = msgspec.json.decode(body, type=Resize)
                self.engine.decrease(group_id, order.delta, now, key=order.key, expect=order.expect)
            case "delete-nodes":
                deletion = msgspec.json.decode(body, type=Deletion)
                machines = self.engine.group(group_id).machines
                nodes = [machines[i].node for i in deletion.ids if i in machines]
                self.engine.delete(group_id, deletion.ids, now, key=deletion.key, force=deletion.force)
                if self._on_deletion is not None:
                    self._on_deletion(f"{PREFIX}/groups/{group_id}/{call}", agent, nodes)
            case _:
                raise NotFound(f"{call}: valid are increase, decrease, delete-nodes")
        self._wake.set()
        self._keep()
        if losing:
            raise _AnswerLost
        return _encode({"target": self.engine.group(group_id).target})

    async def _be_faulty(self, group_id: str, *, lossy: bool) -> bool:
        """Be slow or refuse as the group's faults say; True when the answer is to be lost."""
        faults = self.engine.group(group_id).config.faults
        self._calls += 1
        seed, name = self.engine.config.seed, f"{group_id}/call/{self._calls}"
        delay_s = draw(Delay.parse(faults.answer_delay), seed, f"{name}/delay")
        if delay_s > 0:
            await asyncio.sleep(self._clock.wall_seconds(delay_s))
        throttled = uniform(seed, f"{name}/throttled") < faults.throttled
        failing = uniform(seed, f"{name}/failure") < faults.call_failure
        losing = lossy and uniform(seed, f"{name}/lost") < faults.lost_answer
        if not (throttled or failing or losing) or (faults.spoils is not None and faults.spoils <= 0):
            return False
        if faults.spoils is not None:
            faults.spoils -= 1
        if throttled:
            raise Throttled(f"{group_id}: too many requests", retry_after_s=1.0)
        if failing:
            raise Unavailable(f"{group_id}: internal error", code="InternalError")
        return losing

    def _define(self, group_id: str, body: bytes) -> bytes:
        config = msgspec.json.decode(body, type=GroupConfig)
        if config.id != group_id:
            raise Invalid(f"the path says group {group_id!r}, the body {config.id!r}")
        try:
            check(CloudConfig(groups=(config,)), "request")
        except ConfigError as error:
            raise Invalid(str(error)) from error
        self.engine.define(config, self._clock.now())
        self._wake.set()
        self._keep()
        return _encode(self._view(self.engine.group(group_id)))

    def _keep(self) -> None:
        """Write the books down before anybody hears that a call was done.

        Raises:
            Unavailable: the disk is full; what was done is done, and a repeat with its key finds it so.
        """
        if self._books is None:
            return
        new = self._books.with_suffix(".new")
        try:
            new.write_bytes(_encode(self.engine.books()))
            new.replace(self._books)
        except OSError as error:
            if not disk.is_full(error):
                raise
            new.unlink(missing_ok=True)
            raise Unavailable(disk.no_space(self._books.parent)) from error

    def _set_faults(self, group_id: str, body: bytes) -> bytes:
        group = self.engine.group(group_id)
        given = msgspec.json.decode(body, type=dict[str, Any])
        faults = msgspec.convert({**msgspec.to_builtins(group.config.faults), **given}, GroupFaults)
        Delay.parse(faults.answer_delay)
        group.config.faults = faults
        return _encode(faults)

    def _lose(self, instance_id: str) -> bytes:
        machine = self.engine.lose(instance_id, self._clock.now())
        if self._on_lost is not None:
            self._on_lost(machine.node)
        self._wake.set()
        self._keep()
        return _encode({"node": machine.node})

    def _create(self, creation: Creation) -> bytes:
        machine = next(
            (
                candidate
                for candidate in self.engine.config.machines
                if candidate.name == creation.machine_type
            ),
            None,
        )
        if machine is None:
            known = ", ".join(sorted(candidate.name for candidate in self.engine.config.machines)) or "none"
            raise NotFound(f"no machine type {creation.machine_type!r}; there are: {known}")
        if creation.zone and machine.zones and creation.zone not in machine.zones:
            raise Invalid(f"machine type {machine.name} is not in zone {creation.zone!r}")
        template = msgspec.structs.replace(
            machine.template,
            capacity={**machine.template.capacity, **creation.resources},
            allocatable={**machine.template.allocatable, **creation.resources}
            if machine.template.allocatable
            else {},
            labels={**machine.template.labels, **creation.labels},
            taints=(*machine.template.taints, *creation.taints),
        )
        config = GroupConfig(
            id=creation.id or f"nap-{machine.name}-{len(self.engine.groups)}",
            max=creation.max or machine.max,
            boot=machine.boot,
            delete=machine.delete,
            zones=(creation.zone,) if creation.zone else machine.zones,
            price_per_hour=machine.price_per_hour,
            machine_type=machine.name,
            template=template,
            autoprovisioned=True,
        )
        self.engine.create_group(config, key=creation.key)
        self._keep()
        return _encode(self._view(self.engine.group(config.id)))

    def _machines(self) -> list[MachineType]:
        return [
            MachineType(
                name=machine.name,
                template=machine.template,
                zones=machine.zones,
                price_per_hour=machine.price_per_hour,
            )
            for machine in sorted(self.engine.config.machines, key=lambda machine: machine.name)
        ]

    def _view(self, group: Group) -> GroupView:
        config = group.config
        return GroupView(
            id=config.id,
            min=config.min,
            max=config.max,
            target=group.target,
            atomic=config.atomic,
            autoprovisioned=config.autoprovisioned,
            price_per_hour=config.price_per_hour,
            machine_type=config.machine_type,
            zone=config.zones[0] if len(config.zones) == 1 else "",
            template=self.engine.template(config),
            options=config.options,
        )
