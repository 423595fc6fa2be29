"""Kubernetes object events, written behind the work and dropped when there are too many.

Equal events about one object (same reason and message) within the window are one, and one object is spoken
about only so often: a burst, then one event per interval, as clients of a real cluster do.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Any

import msgspec
import structlog

from tidewright.kube.errors import KubeError
from tidewright.kube.times import rfc3339
from tidewright.log.clock import Clock
from tidewright.sim.controllers.objects import EVENT, ClientKind, Metadata
from tidewright.sim.controllers.writes import Writer, create

_log = structlog.get_logger(__name__)

BACKLOG = 1_000
"""Events that wait at most; what comes on top is dropped and counted."""
REMEMBERED = 10_000
BURST = 25
"""Events about one object that are written at once."""
INTERVAL_S = 300.0
"""Log seconds after which one more event about that object is written."""


class Recorder:
    """Writes object events with one task, so that they never compete much with the work itself."""

    def __init__(self, writer: Writer, clock: Clock) -> None:
        self._writer = writer
        self._clock = clock
        self._waiting: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue(BACKLOG)
        self._recent: OrderedDict[tuple[str, str, str], None] = OrderedDict()
        self._allowed: OrderedDict[str, tuple[float, float]] = (
            OrderedDict()
        )  # by uid: events left, as of when
        self._count = 0
        self.dropped = 0

    def record(
        self, kind: ClientKind[Any], about: Metadata, type_: str, *, reason: str, message: str, component: str
    ) -> None:
        """Say something about an object; never waits."""
        known = (about.uid, reason, message)
        if known in self._recent:
            return
        if not self._may_speak_of(about.uid):
            self.dropped += 1
            return
        self._recent[known] = None
        if len(self._recent) > REMEMBERED:
            self._recent.popitem(last=False)
        self._count += 1
        namespace = about.namespace or "default"
        now = rfc3339(self._clock.now())
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{about.name[:230]}.{self._suffix()}", "namespace": namespace},
            "involvedObject": {
                "apiVersion": kind.api_version,
                "kind": kind.name,
                "name": about.name,
                "namespace": about.namespace,
                "uid": about.uid,
                "resourceVersion": about.resource_version,
            },
            "type": type_,
            "reason": reason,
            "message": message[:1024],
            "source": {"component": component},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "reportingComponent": component,
            "reportingInstance": component,
        }
        try:
            self._waiting.put_nowait((namespace, event))
        except asyncio.QueueFull:
            self.dropped += 1

    def _may_speak_of(self, uid: str) -> bool:
        now = self._clock.now()
        tokens, since = self._allowed.pop(uid, (float(BURST), now))
        tokens = min(tokens + (now - since) / INTERVAL_S, float(BURST))
        self._allowed[uid] = (tokens - 1.0 if tokens >= 1.0 else tokens, now)
        if len(self._allowed) > REMEMBERED:
            self._allowed.popitem(last=False)
        return tokens >= 1.0

    def _suffix(self) -> str:
        """Sixteen hexadecimal digits, as real event names end with a time in nanoseconds."""
        return f"{(int(self._clock.now() * 1e6) * 4096 + self._count % 4096) & (2**64 - 1):016x}"

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            namespace, event = await self._waiting.get()
            try:
                await self._writer.send(
                    create(EVENT, namespace, msgspec.json.encode(event), tolerate=(403, 404, 409))
                )
            except KubeError as error:
                _log.info("an object event is dropped", name=event["metadata"]["name"], error=str(error))
