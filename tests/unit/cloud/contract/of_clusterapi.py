"""Cluster API's objects at an embedded API server, with a small infrastructure provider that acts before each look."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.unit.cloud.contract.kubernetes import KubernetesBench
from tests.unit.cloud.contract.moon import MAX, MERGE, MIN, Moon
from tests.waiting import until
from tidewright.cloud.clusterapi.client import ClusterApiProvider
from tidewright.cloud.clusterapi.config import ClusterApiConfig, Selector
from tidewright.cloud.informer import Informer
from tidewright.cloud.kubernetes import Cluster

NO_ROOM = "error creating instance: InsufficientInstanceCapacity: no more of them on the moon"


class Followed(ClusterApiProvider):
    """Looks when its informers have heard of everything: what a case has done is there then."""

    bench: ClusterApiBench

    async def refresh(self) -> None:
        await self.bench.act()
        await self.look()
        for informer in self._followed.informers:
            await until(partial(self.bench.is_heard_of, informer))
        await self.look()

    async def look(self) -> None:
        """As it is heard of so far."""
        await super().refresh()


class ClusterApiBench(Moon, KubernetesBench):
    kind = "clusterapi"
    provider: Followed

    async def send(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> Any:
        return await KubernetesBench.send(self, method, path, body, content_type)

    async def prepare(self) -> None:
        self.leftovers.extend(await self.install())
        self.provider = self.client(self.cluster())
        self.short = self.client(self.cluster(short=True))

    def client(self, cluster: Cluster, config: ClusterApiConfig | None = None) -> Followed:
        """A provider that looks when all that was done is to be seen."""
        here = (Selector(namespace=self.namespace),) if self.kubeconfig is not None else ()
        followed = Followed(config or ClusterApiConfig(selectors=here), cluster)
        followed.bench = self
        return followed

    async def is_heard_of(self, informer: Informer[Any]) -> bool:
        """Whether an informer knows all that is at the API server, and watches."""
        there = {
            it["metadata"]["name"]: it["metadata"]["resourceVersion"]
            for it in (await self.send("GET", informer.path))["items"]
        }
        known = {it.metadata.name: it.metadata.resourceVersion for it in informer.objects.values()}
        watches = any(
            target.startswith(f"{informer.path}?") and "watch=" in target for _, target, _ in self.proxy.calls
        )
        return watches and known == there

    # --- The suite's ------------------------------------------------------------------------------

    async def define(self, group_id: str, *, minimum: int = 0, maximum: int = 10, size: int = 0) -> str:
        return await self.make(
            "MachineDeployment", f"{group_id}{self.mark}", {MIN: str(minimum), MAX: str(maximum)}, size=size
        )

    async def resize(self, group_id: str, size: int) -> None:
        await self.send("PATCH", self.at(group_id), {"spec": {"replicas": size}}, MERGE)

    async def exhaust(self, group_id: str) -> None:
        self.failing[group_id] = NO_ROOM

    async def remove(self, group_id: str) -> None:
        await self.send("DELETE", self.at(group_id))
