"""One cloud of each kind, as scenes need it: groups to define, machines that become nodes, and a proxy that holds answers back.

Nodes are kept ready, and their pods run, by the kubelets of the cluster that the tests stand on; what a cloud's machines
do until they are nodes is done here.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Self

import yaml
from aiohttp import web

from tests.e2e.conftest import Services
from tests.e2e.provisioning.world import GROUP_LABEL, World
from tests.e2e.sim.world import NODES, merge, send
from tests.unit.cloud.contract.moon import MAX, MIN, Moon
from tests.unit.cloud.contract.of_aws import AwsBench, error_text, fields
from tests.unit.cloud.contract.of_clusterapi import NO_ROOM
from tests.unit.cloud.contract.proxy import Proxy
from tidewright.cloud.aws.groups import provider_id
from tidewright.cloud.clusterapi.template import PREFIX as CAPACITY
from tidewright.cloud.externalgrpc.server import CloudServer
from tidewright.cloud.kwok.config import PREFIX as KWOK
from tidewright.cloud.simulated.client import SimulatedProvider
from tidewright.kube.client import Authentication
from tidewright.kube.errors import KubeError
from tidewright.sim.options import NODE_LABEL

ROOM: Final = {"cpu": "4", "memory": "16Gi", "pods": "110"}
"""Of every machine."""
WORK_EVERY_S: Final = 0.1
AWAY: Final = "http://127.0.0.1:9"
"""Where nobody listens: every stage has such a cloud besides."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A group for a scene.

    Attributes:
        minimum, maximum: nodes.
        size: nodes that are there.
        slow: what is ordered does not come during the scene.
        refuses: orders are refused.
        exhausted: orders are taken, and the cloud has no machines for them.
    """

    minimum: int
    maximum: int
    size: int
    slow: bool
    refuses: bool
    exhausted: bool


class Stage(ABC):
    """One cloud, and services that have it.

    Attributes:
        kind: as in `--cloud NAME=KIND`.
        lacks: scenes that it has no means for, with the reason.
        proxy: between the services and the cloud; it can hold the answer to an order back.
    """

    kind: ClassVar[str]
    lacks: ClassVar[Mapping[str, str]] = {}
    proxy: Proxy

    def __init__(self, world: World, folder: Path) -> None:
        self.world = world
        self.folder = folder

    @property
    def services(self) -> Services:
        return self.world.services

    @property
    @abstractmethod
    def cloud(self) -> str:
        """`KIND:CONFIG`."""

    @abstractmethod
    async def __aenter__(self) -> Self: ...

    @abstractmethod
    async def __aexit__(self, *_: object) -> None: ...

    async def define(
        self,
        name: str,
        *,
        minimum: int = 0,
        maximum: int = 5,
        size: int = 0,
        slow: bool = False,
        refuses: bool = False,
        exhausted: bool = False,
    ) -> str:
        """Make a group of machines that only the scene's pods select; its name on the log. Arguments as `Wanted` has them, `name` is part of its id."""
        wanted = Wanted(
            minimum=minimum, maximum=maximum, size=size, slow=slow, refuses=refuses, exhausted=exhausted
        )
        return await self.make(name, wanted)

    @abstractmethod
    async def make(self, name: str, wanted: Wanted) -> str:
        """Make such a group."""

    @abstractmethod
    async def size(self, group: str) -> int:
        """What the cloud wants of a group."""

    @abstractmethod
    async def clear(self) -> None:
        """Take the scene's groups away, with their nodes."""

    async def send(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        return await send(self.world.kube, method, path, body, kind)

    async def node_objects(self) -> dict[str, dict[str, Any]]:
        """Nodes of the scene, by name."""
        listed = await self.send("GET", f"{NODES}?labelSelector={GROUP_LABEL}%3D{self.world.mark}")
        return {node["metadata"]["name"]: node for node in listed["items"]}

    def node(self, name: str, provided: str) -> dict[str, Any]:
        """A Node of the scene, as its machine would register it."""
        mark = self.world.mark
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": {NODE_LABEL: "true", GROUP_LABEL: mark, "kubernetes.io/hostname": name},
            },
            "spec": {
                "providerID": provided,
                "taints": [{"key": GROUP_LABEL, "value": mark, "effect": "NoSchedule"}],
            },
            "status": {
                "capacity": ROOM, "allocatable": ROOM,
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }  # fmt: skip


class Working(Stage):
    """A cloud whose machines come and go by what is done here, all the time."""

    @abstractmethod
    async def work(self) -> None:
        """Machines come and go as far as they are behind what is wanted."""

    async def begin(self) -> None:
        self._working = asyncio.create_task(self._work())

    async def end(self) -> None:
        self._working.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._working

    async def _work(self) -> None:
        while True:
            await self.work()
            await asyncio.sleep(WORK_EVERY_S)


class SimulatedStage(Stage):
    kind = "simulated"

    @property
    def cloud(self) -> str:
        return f"simulated:{self.proxy.url}"

    async def __aenter__(self) -> Self:
        self.proxy = await Proxy(self.world.cluster.side_url, _changes).__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.proxy.__aexit__()

    async def make(self, name: str, wanted: Wanted) -> str:
        faults = {"stock": 0, "stock_refuses": wanted.refuses} if wanted.refuses or wanted.exhausted else {}
        more = {"boot": "300"} if wanted.slow else {}
        return await self.world.group(
            name,
            cpu=ROOM["cpu"],
            min=wanted.minimum,
            max=wanted.maximum,
            initial=wanted.size,
            faults=faults,
            **more,
        )

    async def size(self, group: str) -> int:
        return await self.world.target(group)

    async def clear(self) -> None:
        await self.world.no_cloud()


class ExternalGrpcStage(SimulatedStage):
    """A server of ours, with the simulated cloud behind it."""

    kind = "externalgrpc"

    @property
    def cloud(self) -> str:
        return f"externalgrpc:{self.folder / 'grpc.yaml'}"

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self._server = CloudServer({"behind": SimulatedProvider(self.proxy.url)})
        await self._server.start("127.0.0.1:0")
        # Patient: an answer that is late is lost, and with it the order, as far as anybody can tell.
        config = {"address": f"127.0.0.1:{self._server.port}", "grpc_timeout": "60s"}
        (self.folder / "grpc.yaml").write_text(yaml.safe_dump(config))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.stop()
        await super().__aexit__()


class AwsStage(Working):
    """Auto Scaling groups of moto, and a bridge that makes Nodes of their instances."""

    kind = "aws"

    def __init__(self, world: World, folder: Path) -> None:
        super().__init__(world, folder)
        self._bench = AwsBench()
        self._groups: set[str] = set()
        self._one = asyncio.Lock()
        """Who takes nodes away: what is gone already would end the other's work."""
        self._slow: set[str] = set()
        self._refused: set[str] = set()

    @property
    def cloud(self) -> str:
        return f"aws:{self.folder / 'aws.yaml'}"

    async def __aenter__(self) -> Self:
        await self._bench.__aenter__()
        self.proxy = self._bench.proxy
        answer = self.proxy.answer

        def refusing(method: str, path: str, body: bytes) -> web.Response | None:
            asked = fields(body)
            if asked.get("Action") == "SetDesiredCapacity" and asked["AutoScalingGroupName"] in self._refused:
                return web.Response(status=400, text=error_text("LimitExceeded"), content_type="text/xml")
            return answer(method, path, body)

        self.proxy.answer = refusing
        config = {
            "region": "us-east-1",
            "discovery": ["asg:tag=k8s.io/cluster-autoscaler/enabled"],
            "endpoint": self.proxy.url,
        }
        (self.folder / "aws.yaml").write_text(yaml.safe_dump(config))
        await self.begin()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.end()
        await self._bench.__aexit__()

    async def make(self, name: str, wanted: Wanted) -> str:
        mark = self.world.mark
        tag = "k8s.io/cluster-autoscaler/node-template"
        group = await self._bench.define(
            f"{name}-{mark}",
            minimum=wanted.minimum,
            maximum=wanted.maximum,
            size=wanted.size,
            tags={
                f"{tag}/label/{GROUP_LABEL}": mark,
                f"{tag}/taint/{GROUP_LABEL}": f"{mark}:NoSchedule",
                f"{tag}/resources/memory": ROOM["memory"],
            },
        )
        if wanted.exhausted:
            await self._bench.exhaust(group)
        if wanted.slow or wanted.exhausted:
            self._slow.add(group)
        if wanted.refuses:
            self._refused.add(group)
        self._groups.add(group)
        return group

    async def size(self, group: str) -> int:
        (said,) = await self._described(group)
        return self._bench.orders.get(group, int(said["DesiredCapacity"]))

    async def _described(self, *groups: str) -> list[dict[str, Any]]:
        page = await self._bench.raw.describe_auto_scaling_groups(AutoScalingGroupNames=list(groups))
        described: list[dict[str, Any]] = page["AutoScalingGroups"]
        return described

    async def work(self) -> None:
        async with self._one:
            await self._bridge(sorted(self._groups))

    async def _bridge(self, groups: list[str]) -> None:
        if not groups:
            return
        for group in groups:
            if group not in self._slow:
                await self._bench.come(group)
        there = {
            one["InstanceId"]: one["AvailabilityZone"]
            for said in await self._described(*groups)
            for one in said["Instances"]
        }
        nodes = await self.node_objects()
        for name in there.keys() - nodes.keys():
            await self.send("POST", NODES, self.node(name, provider_id(there[name], name)))
        for name in nodes.keys() - there.keys():
            await self.send("DELETE", f"{NODES}/{name}")

    async def clear(self) -> None:
        async with self._one:
            gone, self._groups = self._groups, set()
            for group in gone:
                await self._bench.remove(group)
            for name in await self.node_objects():
                await self.send("DELETE", f"{NODES}/{name}")


class KubernetesStage(Working):
    """A cloud that is objects of the cluster, which those who write them reach over a proxy.

    Attributes:
        refused: parts of paths, or of the names of new objects, whose changes are refused.
    """

    async def __aenter__(self) -> Self:
        auth = await Authentication.load(self.world.cluster.kubeconfig, in_cluster=False, context=None)
        self.proxy = await Proxy(auth.configuration.host, self.is_order, auth).__aenter__()
        self.proxy.answer = self._answer
        self.refused: set[str] = set()
        named = {"cluster": {"server": self.proxy.url}, "name": "c"}
        config = {
            "apiVersion": "v1", "kind": "Config", "clusters": [named], "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}], "current-context": "x",
        }  # fmt: skip
        self.proxied = self.folder / "proxied"
        self.proxied.write_text(yaml.safe_dump(config))
        await self.prepare()
        await self.begin()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.end()
        await self.proxy.__aexit__()
        await self.dismantle()

    async def prepare(self) -> None:
        """What is there before any group."""

    async def dismantle(self) -> None:
        """Take away what `prepare` made outside of the namespace."""

    @abstractmethod
    def is_order(self, method: str, path: str, body: bytes) -> bool:
        """Whether a request changes what the cloud is to be."""

    def _answer(self, method: str, path: str, body: bytes) -> web.Response | None:
        text = f"{path} {body.decode(errors='replace')}"
        if self.is_order(method, path, body) and any(part in text for part in self.refused):
            status = {
                "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403,
                "message": "as the test wants it",
            }  # fmt: skip
            return web.json_response(status, status=403)
        return None


class ClusterApiStage(KubernetesStage):
    """MachineDeployments, and a small infrastructure provider."""

    kind = "clusterapi"

    @property
    def cloud(self) -> str:
        return f"clusterapi:management={self.proxied},namespace={self.world.namespace}"

    def is_order(self, method: str, path: str, body: bytes) -> bool:
        return method == "PATCH" and "/machinedeployments/" in path

    async def prepare(self) -> None:
        self._moon = _Moon(self)
        self._groups: set[str] = set()
        self._one = asyncio.Lock()
        """Who makes machines: two at once would make them twice."""
        self._made = await self._moon.install()

    async def dismantle(self) -> None:
        for path in self._made:
            await self.send("DELETE", path)

    async def make(self, name: str, wanted: Wanted) -> str:
        mark = self.world.mark
        name = f"{name}-{mark}"
        group = f"MachineDeployment/{self.world.namespace}/{name}"
        if wanted.exhausted:
            self._moon.failing[group] = NO_ROOM
        if wanted.slow:
            self._moon.hanging.add(group)
        if wanted.refuses:
            self.refused.add(name)
        notes = {
            MIN: str(wanted.minimum),
            MAX: str(wanted.maximum),
            f"{CAPACITY}cpu": ROOM["cpu"],
            f"{CAPACITY}memory": ROOM["memory"],
            f"{CAPACITY}labels": f"{GROUP_LABEL}={mark}",
            f"{CAPACITY}taints": f"{GROUP_LABEL}={mark}:NoSchedule",
        }
        async with self._one:
            await self._moon.make("MachineDeployment", name, notes, size=wanted.size)
            self._groups.add(group)
        return group

    async def size(self, group: str) -> int:
        resource = await self.send("GET", self._moon.at(group))
        return int(resource["spec"].get("replicas", 0))

    async def work(self) -> None:
        async with self._one:
            for group in sorted(self._groups):
                await self._moon.come(group)

    async def clear(self) -> None:
        async with self._one:
            for group in sorted(self._groups):
                await self.send("DELETE", self._moon.at(group))  # and what it owns goes with it
            self._groups.clear()
            for name in await self.node_objects():
                await self.send("DELETE", f"{NODES}/{name}")


class _Moon(Moon):
    """The infrastructure of a stage."""

    def __init__(self, stage: ClusterApiStage) -> None:
        super().__init__()
        self._stage = stage
        self.namespace = stage.world.namespace

    async def send(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> Any:
        return await self._stage.send(method, path, body, content_type)

    def node(self, name: str) -> dict[str, Any]:
        return self._stage.node(name, f"moon:///{name}")


class KwokStage(KubernetesStage):
    """Node objects, and a controller that makes them ready, as kwok's does."""

    kind = "kwok"
    lacks: ClassVar[Mapping[str, str]] = {
        "what_a_cloud_has_no_more_of_is_ordered_elsewhere": "its nodes are objects: there is no end to them but the group's maximum",
    }

    @property
    def cloud(self) -> str:
        return f"kwok:{self.world.namespace}/kwok-provider-config"

    def is_order(self, method: str, path: str, body: bytes) -> bool:
        return method in ("POST", "DELETE") and path.startswith(NODES)

    async def prepare(self) -> None:
        # What is written comes from the actuator alone, whose cluster is the cloud.
        self.services.kubeconfigs["actuator"] = self.proxied
        self._templates: dict[str, dict[str, Any]] = {}
        self._maps = f"/api/v1/namespaces/{self.world.namespace}/configmaps"
        config = {
            "apiVersion": "v1alpha1", "readNodesFrom": "configmap",
            "nodegroups": {"fromNodeAnnotationKey": GROUP_LABEL}, "nodes": {"skipTaint": True},
        }  # fmt: skip
        for name, data in (
            ("kwok-provider-config", {"config": yaml.safe_dump(config)}),
            ("kwok-provider-templates", {"templates": ""}),
        ):
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
            await self.send("POST", self._maps, body)

    async def make(self, name: str, wanted: Wanted) -> str:
        if wanted.exhausted:
            raise ValueError(self.lacks["what_a_cloud_has_no_more_of_is_ordered_elsewhere"])
        group = f"{name}-{self.world.mark}"
        if wanted.refuses:
            self.refused.add(group)
        node = self.node(f"template-{group}", "")
        del node["metadata"]["labels"]["kubernetes.io/hostname"]
        # `slow` means nothing here: its machines are nodes at once, and none is still to come.
        node["metadata"]["annotations"] = {
            GROUP_LABEL: group, f"{KWOK}min-count": str(wanted.minimum), f"{KWOK}max-count": str(wanted.maximum),
        }  # fmt: skip
        for number in range(wanted.size):
            own = self.node(f"{group}-own{number}", f"kwok:{group}-own{number}")
            own["metadata"]["annotations"] = {GROUP_LABEL: group}
            await self.send("POST", NODES, own)
        self._templates[group] = node
        await self._write()
        return group

    async def _write(self) -> None:
        text = yaml.safe_dump_all(self._templates.values())
        await merge(self.world.kube, f"{self._maps}/kwok-provider-templates", {"data": {"templates": text}})

    async def size(self, group: str) -> int:
        nodes = (await self.node_objects()).values()
        return sum(node["metadata"]["annotations"].get(GROUP_LABEL) == group for node in nodes)

    async def work(self) -> None:
        for name, node in (await self.node_objects()).items():
            conditions = node.get("status", {}).get("conditions") or ()
            is_ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
            if not is_ready:
                ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
                with contextlib.suppress(KubeError):  # it may be gone by now
                    await merge(self.world.kube, f"{NODES}/{name}/status", ready)

    async def clear(self) -> None:
        self._templates.clear()
        await self._write()
        for name in await self.node_objects():
            with contextlib.suppress(KubeError):  # the actuator may be at it: nobody needs them any more
                await self.send("DELETE", f"{NODES}/{name}")


def _changes(method: str, path: str, body: bytes) -> bool:
    del path, body
    return method != "GET"


STAGES: Final[tuple[type[Stage], ...]] = (
    SimulatedStage,
    AwsStage,
    ClusterApiStage,
    ExternalGrpcStage,
    KwokStage,
)
