"""The simulated cloud, served over HTTP without a cluster around it."""

from __future__ import annotations

from typing import Any, Self

import msgspec

from tests.answering import answering
from tests.unit.cloud.contract.bench import TIMEOUT_S, Bench, Fault
from tests.unit.cloud.contract.proxy import Proxy
from tests.unit.provisioning.cloud import SHAPE
from tidewright.cloud.calls import Calls
from tidewright.cloud.simulated.client import SimulatedProvider
from tidewright.cloud.simulated.wire import HTTP_STATUS, Refusal
from tidewright.log.clock import Clock
from tidewright.sim.cloud.config import CloudConfig, GroupConfig
from tidewright.sim.cloud.service import SimulatedCloud
from tidewright.sim.controllers.cache import Cache


class SimulatedBench(Bench):
    kind = "simulated"

    async def __aenter__(self) -> Self:
        self._now = 0.0
        unused: Any = None
        self._cloud = SimulatedCloud(CloudConfig(), Cache(), unused, clock=Clock(lambda: self._now))
        self._answering = answering(self._cloud.handle)
        upstream = await self._answering.__aenter__()
        self._proxy = await Proxy(upstream, lambda method, path, body: method != "GET").__aenter__()
        self.provider = SimulatedProvider(self._proxy.url, Calls("c", per_s=1000))
        self.short = SimulatedProvider(self._proxy.url, Calls("c", per_s=1000, timeout_s=TIMEOUT_S))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.provider.cleanup()
        await self.short.cleanup()
        await self._proxy.__aexit__()
        await self._answering.__aexit__(None, None, None)

    async def define(self, group_id: str, *, minimum: int = 0, maximum: int = 10, size: int = 0) -> str:
        config = GroupConfig(
            id=group_id, min=minimum, max=maximum, initial=size, boot="10", delete="5", template=SHAPE
        )
        self._cloud.engine.define(config, self._now)
        await self.come(group_id)
        return group_id

    async def come(self, group_id: str) -> None:
        self._now += 60.0
        self._cloud.engine.due(self._now)

    async def resize(self, group_id: str, size: int) -> None:
        delta = size - self._cloud.engine.group(group_id).target
        self._cloud.engine.increase(group_id, delta, self._now, key="somebody else")

    async def exhaust(self, group_id: str) -> None:
        group = self._cloud.engine.group(group_id)
        group.config.faults.stock = group.target

    async def remove(self, group_id: str) -> None:
        self._cloud.engine.vanish(group_id, self._now)

    def spoil(self, fault: Fault) -> None:
        refusal = Refusal(reason=fault, message="as the test wants it", retry_after_s=7.0)
        self._proxy.refusal = (HTTP_STATUS[fault], {}, msgspec.json.encode(refusal))

    def lose_answer(self) -> None:
        self._proxy.losing = True

    def hang(self) -> None:
        self._proxy.hanging = True
