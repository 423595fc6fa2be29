"""What the benches of clouds that are Kubernetes objects share: an API server behind a proxy, embedded or any other."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any, ClassVar, Self

import msgspec

from tests.unit.cloud.contract.bench import TIMEOUT_S, Bench, Fault
from tests.unit.cloud.contract.proxy import Proxy
from tidewright.cloud.calls import Calls
from tidewright.cloud.kubernetes import Cluster
from tidewright.kube.client import Authentication, Kube
from tidewright.kube.errors import KubeError
from tidewright.sim.api.server import ApiServer

_STATUS = {
    "Throttled": (429, "TooManyRequests"),
    "Forbidden": (403, "Forbidden"),
    "Unavailable": (503, "ServiceUnavailable"),
}


NODES = "/api/v1/nodes"
GONE = (404, 409)
"""What is said of something that goes, or is gone."""


class KubernetesBench(Bench):
    """Attributes:
    kubeconfig: of the cluster; None for an embedded API server of the bench's own.
    namespace: where its objects are.
    mark: in names of what belongs to no namespace, where others have such objects as well.
    leftovers: paths of what stays until all cases are done: definitions, which take a moment to make.
    """

    kubeconfig: Path | None = None
    namespace: str = "default"
    mark: str = ""
    leftovers: ClassVar[list[str]] = []

    async def __aenter__(self) -> Self:
        auth = None
        if self.kubeconfig is None:
            self._server = ApiServer()
            await self._server.start()
            self.kube, url = Kube.at(self._server.url), self._server.url
        else:
            self.kube = await Kube.connect(self.kubeconfig)
            auth = await Authentication.load(self.kubeconfig, in_cluster=False, context=None)
            url = auth.configuration.host
            self.mark = f"-{uuid.uuid4().hex[:6]}"
            self.namespace = f"tw-contract{self.mark}"
            manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
            await self.send("POST", "/api/v1/namespaces", manifest)
        self.proxy = await Proxy(url, lambda method, path, body: method != "GET", auth).__aenter__()
        await self.prepare()
        return self

    async def _leave(self) -> None:
        """Take away what was made on a cluster that is not the bench's own."""
        nodes = (await self.send("GET", NODES))["items"]
        names = [node["metadata"]["name"] for node in nodes if self.mark in node["metadata"]["name"]]
        for path in (*(f"{NODES}/{name}" for name in names), f"/api/v1/namespaces/{self.namespace}"):
            try:
                await self.send("DELETE", path)
            except KubeError as error:
                if error.status not in GONE:
                    raise

    async def prepare(self) -> None:
        """What the API server holds before, and the providers."""

    def cluster(self, *, short: bool = False) -> Cluster:
        """The API server behind the proxy, as a provider sees it."""
        calls = Calls("c", per_s=1000, timeout_s=TIMEOUT_S) if short else Calls("c", per_s=1000)
        return Cluster(calls, url=self.proxy.url)

    async def __aexit__(self, *_: object) -> None:
        await self.provider.cleanup()
        await self.short.cleanup()
        if self.kubeconfig is not None:
            await self._leave()
        await self.kube.close()
        await self.proxy.__aexit__()
        if self.kubeconfig is None:
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
