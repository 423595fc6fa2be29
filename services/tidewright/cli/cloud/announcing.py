"""What is served is said in the cluster, for as long as it is: a stack that has the same groups leaves them alone."""

from __future__ import annotations

import asyncio
import socket
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import msgspec
import structlog

from tidewright.cloud.providers import Surroundings
from tidewright.cloud.serving import COORDINATION, LEASE, PREFIX, RENEW_S, SYSTEM, left_behind, said
from tidewright.kube.client import Kube
from tidewright.kube.errors import KubeError

PATIENCE_S: Final = 10.0
"""Wall seconds that the cluster has for an answer."""
TRIES: Final = 3
_MERGE: Final = "application/merge-patch+json"

_log = structlog.get_logger(__name__)


class Announcement:
    """One server's word in the Lease."""

    def __init__(self, kube: Kube, groups: Callable[[], Iterable[tuple[str, str]]]) -> None:
        """`groups`: kind of cloud and id of all that is served now."""
        self._kube, self._groups = kube, groups
        self._name = f"{PREFIX}{uuid.uuid4().hex[:12]}"
        self._path = f"/apis/{COORDINATION}/v1/namespaces/{SYSTEM}/leases"
        self._who = f"`tidewright cloud serve` on {socket.gethostname()}"
        self._told = ""

    async def renew(self) -> bool:
        """Say it; whether the cluster took it. Why it did not is in the log, once for each reason."""
        now = time.time()
        try:
            lease = await self._write({self._name: said(self._who, now, self._groups())})
            old = left_behind((lease.get("metadata") or {}).get("annotations") or {}, now)
            if old:
                await self._write(dict.fromkeys(old))
        except KubeError as error:
            if self._told != error.reason:
                self._told = error.reason
                _warn(error)
            return False
        self._told = ""
        return True

    async def keep(self) -> None:
        """Renew for ever."""
        while True:
            await asyncio.sleep(RENEW_S)
            await self.renew()

    async def end(self) -> None:
        """Nothing is served any more."""
        with suppress(KubeError):
            await self._write({self._name: None}, make=False)

    async def _write(self, annotations: dict[str, Any], *, make: bool = True) -> Any:
        """Change these annotations of the Lease alone, which is made where there is none."""
        metadata = {"name": LEASE, "annotations": annotations}
        for remaining in reversed(range(TRIES)):
            try:
                return await self._send("PATCH", f"{self._path}/{LEASE}", {"metadata": metadata}, _MERGE)
            except KubeError as error:
                if error.status != 404 or not make:
                    raise
            try:
                lease = {"apiVersion": f"{COORDINATION}/v1", "kind": "Lease", "metadata": metadata}
                return await self._send("POST", self._path, lease, "application/json")
            except KubeError as error:
                if error.error_class != "conflict" or not remaining:
                    raise
        raise AssertionError("the last attempt returns")

    async def _send(self, method: str, path: str, body: Any, content_type: str) -> Any:
        answer = await self._kube.request(
            method, path, body=msgspec.json.encode(body), content_type=content_type, timeout_s=PATIENCE_S
        )
        return msgspec.json.decode(answer.body)


@asynccontextmanager
async def announced(
    around: Surroundings, groups: Callable[[], Iterable[tuple[str, str]]]
) -> AsyncIterator[None]:
    """For the length of the block say in the cluster what is served. One that cannot be told does not stop it."""
    try:
        kube = await Kube.connect(around.kubeconfig, around.in_cluster, around.context)
    except KubeError as error:
        _warn(error)
        yield
        return
    async with kube:
        announcement = Announcement(kube, groups)
        await announcement.renew()
        keeping = asyncio.create_task(announcement.keep())
        try:
            yield
        finally:
            keeping.cancel()
            with suppress(asyncio.CancelledError):
                await keeping
            await announcement.end()


def _warn(error: KubeError) -> None:
    _log.warning(
        "no cluster is told what is served: a stack that has the same groups orders there, too",
        error=str(error),
        do="name the cluster (--kubeconfig, --in-cluster) and give the role of deploy/clouds/serve.yaml; or see that no stack has these groups",
    )
