"""What the benches of clouds that are Kubernetes objects share: an embedded API server behind a proxy."""

from __future__ import annotations

from typing import Any, Self

import msgspec

from tests.unit.cloud.contract.bench import TIMEOUT_S, Bench, Fault
from tests.unit.cloud.contract.proxy import Proxy
from tidewright.cloud.calls import Calls
from tidewright.cloud.kubernetes import Cluster
from tidewright.kube.client import Kube
from tidewright.sim.api.server import ApiServer

_STATUS = {
    "Throttled": (429, "TooManyRequests"),
    "Forbidden": (403, "Forbidden"),
    "Unavailable": (503, "ServiceUnavailable"),
}


class KubernetesBench(Bench):
    async def __aenter__(self) -> Self:
        self._server = ApiServer()
        await self._server.start()
        self.kube = Kube.at(self._server.url)
        self.proxy = await Proxy(self._server.url, lambda method, path, body: method != "GET").__aenter__()
        await self.prepare()
        return self

    async def prepare(self) -> None:
        """What the API server holds before, and the providers."""

    def cluster(self, *, short: bool = False) -> Cluster:
        """The API server behind the proxy, as a provider sees it."""
        calls = Calls("c", per_s=1000, timeout_s=TIMEOUT_S) if short else Calls("c", per_s=1000)
        return Cluster(calls, url=self.proxy.url)

    async def __aexit__(self, *_: object) -> None:
        await self.provider.cleanup()
        await self.short.cleanup()
        await self.kube.close()
        await self.proxy.__aexit__()
        await self._server.stop()

    async def send(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> Any:
        content = None if body is None else msgspec.json.encode(body)
        answer = await self.kube.request(method, path, body=content, content_type=content_type)
        return msgspec.json.decode(answer.body)

    def spoil(self, fault: Fault) -> None:
        code, reason = _STATUS[fault]
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code,
                  "message": "as the test wants it"}  # fmt: skip
        self.proxy.refusal = (code, {"Content-Type": "application/json"}, msgspec.json.encode(status))

    def lose_answer(self) -> None:
        self.proxy.losing = True

    def hang(self) -> None:
        self.proxy.hanging = True
