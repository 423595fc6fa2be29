"""Effects to act on, short to write."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from tidewright.actuator.allowed.bounds import Feature
from tidewright.actuator.allowed.table import ANY, Grant
from tidewright.actuator.plan import Job
from tidewright.events.base import ObjectRef
from tidewright.events.decisions import Effect, PatchObject, RecordObjectEvent, ScaleWorkload, SetStatus
from tidewright.host.loop.lookout import NOBODY

ANYTHING = Grant(service="autoscaler", feature=Feature.AUTOSCALING, effect=Effect, kinds=(ANY,))
"""For tests of how effects are made; which may be made: `tests.e2e.actuator.test_allowed`."""


def deployment(name: str = "web", uid: str = "") -> ObjectRef:
    return ObjectRef(api_version="apps/v1", kind="Deployment", namespace="shop", name=name, uid=uid)


def scale(to: int, came_from: int, name: str = "web", uid: str = "", **fields: Any) -> ScaleWorkload:
    return ScaleWorkload(
        at=1.0, id=fields.pop("id", f"{name}.{came_from}.{to}"), target=deployment(name, uid),
        replicas=to, from_replicas=came_from, **fields,
    )  # fmt: skip


def status(value: int, name: str = "web", *, urgent: bool = True) -> SetStatus:
    return SetStatus(
        at=1.0,
        id=f"{name}.status.{value}",
        target=deployment(name),
        status={"replicas": value},
        urgent=urgent,
    )


def patch(content: dict[str, Any], name: str = "web", **fields: Any) -> PatchObject:
    return PatchObject(at=1.0, id=f"{name}.patch", target=deployment(name), patch=content, **fields)


def said(message: str, name: str = "web", **fields: Any) -> RecordObjectEvent:
    return RecordObjectEvent(
        at=1.0, id=fields.pop("id", f"{name}.{message}"), target=deployment(name), event_type="Normal",
        reason=fields.pop("reason", "Scaled"), message=message, component="autoscaler", **fields,
    )  # fmt: skip


def job(seq: int, effect: Effect) -> Job:
    return Job(seq, f"tw.test.decision.0.autoscaler.deployment.shop.{seq}", effect)


class Watched:
    """A lookout that finds somebody looking, always; `found` and `lost` change that."""

    def __init__(self, *, looks: bool = True) -> None:
        self._found = asyncio.Event()
        self.since: float | None = None
        if looks:
            self.found()

    def found(self) -> None:
        self.since = time.monotonic()
        self._found.set()

    def lost(self) -> None:
        self.since = None
        self._found.clear()

    @property
    def why_not(self) -> str:
        return "" if self.since is not None else NOBODY

    async def kept(self) -> float:
        while self.since is None:
            await self._found.wait()
        return self.since

    async def run(self) -> None:
        await asyncio.Event().wait()
