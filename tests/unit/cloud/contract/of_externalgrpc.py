"""A server of the externalgrpc protocol: ours, with a simulated cloud behind it."""

from __future__ import annotations

from typing import Self

from tests.unit.cloud.contract.bench import TIMEOUT_S
from tests.unit.cloud.contract.of_simulated import SimulatedBench
from tidewright.cloud.calls import Calls
from tidewright.cloud.externalgrpc.client import ExternalGrpcProvider
from tidewright.cloud.externalgrpc.config import GrpcConfig
from tidewright.cloud.externalgrpc.server import CloudServer


class ExternalGrpcBench(SimulatedBench):
    kind = "externalgrpc"
    skips = {
        "a_size_that_somebody_else_sets_between_look_and_order_is_a_conflict": "the protocol says differences and cannot compare: documented in docs/clouds.md",
    }

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        await self.short.cleanup()
        self._server = CloudServer({"books": self.provider})
        await self._server.start("127.0.0.1:0")
        config = GrpcConfig(address=f"127.0.0.1:{self._server.port}", grpc_timeout="30s")
        self.provider = ExternalGrpcProvider(config, Calls("c", per_s=1000))
        self.short = ExternalGrpcProvider(config, Calls("c", per_s=1000, timeout_s=TIMEOUT_S))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.provider.cleanup()
        await self.short.cleanup()
        await self._server.stop()
        await super().__aexit__()
