"""Groups that `tidewright cloud serve` gives to somebody else: heard of by the Lease that it renews."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Final

import msgspec
import structlog

from tidewright.cloud.serving import COORDINATION, LEASE, SYSTEM, Heard
from tidewright.kube.client import Kube
from tidewright.kube.errors import KubeError
from tidewright.kube.listwatch import follow_one
from tidewright.watcher.incumbents.rivals import Look

LOOK: Final = Look(COORDINATION, "v1", "leases", "Lease", LEASE)
"""The watcher's rights derive from it."""
PATH: Final = f"/apis/{COORDINATION}/v1/namespaces/{SYSTEM}/leases"

_log = structlog.get_logger(__name__)


class _ServingMeta(msgspec.Struct):
    annotations: dict[str, str] | None = None


class _ServingLease(msgspec.Struct):
    metadata: _ServingMeta


_lease = msgspec.json.Decoder(_ServingLease)


class Served:
    """What is served, as it was heard.

    Attributes:
        looked: the cluster has answered, or will not.
    """

    def __init__(self) -> None:
        self._heard = Heard()
        self._news = asyncio.Event()
        self.looked = asyncio.Event()

    def server(self, kind: str, group_id: str) -> str:
        """Who serves a group of a cloud of this kind; empty when nobody is known to."""
        return self._heard.server(kind, group_id, time.monotonic())

    async def pause(self, seconds: float) -> None:
        """Until then, or until something else is served than before."""
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            pass

    async def run(self, kube: Kube) -> None:
        """Listen for ever."""

        def refused(error: KubeError) -> None:
            if not error.retriable:
                self.looked.set()
            if error.error_class == "forbidden":
                _log.warning(
                    "groups that are served to others may go unnoticed", right=LOOK.right, error=str(error),
                    do="grant the watcher this right, or serve no group that it has",
                )  # fmt: skip

        async for raw in follow_one(kube, PATH, query=LOOK.query, on_error=refused):
            if raw is None:
                self.take({})
            else:
                self._said(raw)
            self.looked.set()

    def _said(self, raw: bytes | msgspec.Raw) -> None:
        try:
            annotations = _lease.decode(raw).metadata.annotations
        except msgspec.MsgspecError as error:
            _log.warning("object skipped", kind="Lease", looking_for=LEASE, error=str(error))
        else:
            self.take(annotations or {})

    def take(self, annotations: Mapping[str, str]) -> None:
        """The Lease has these annotations now; none where it is gone."""
        if self._heard.lease(annotations, time.monotonic()):
            news, self._news = self._news, asyncio.Event()
            news.set()
