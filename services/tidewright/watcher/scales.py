"""The scale subresources of custom workloads that a spread targets: their replicas, and what selects their pods.

A custom workload says neither where its replicas stand nor how its pods are found; its scale subresource does
(WorkloadSpread specification, 3.2). It is derived from the object, so it is read again whenever the object has
changed, and said in the fact about the object. Of objects that nobody targets the scale is not asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeAlias

import msgspec
import structlog

from tidewright.events.facts import ObjectFact, WorkloadObserved
from tidewright.kube.client import Kube
from tidewright.kube.customworkloads import GroupKind
from tidewright.kube.discovery import Resource
from tidewright.kube.errors import KubeError
from tidewright.kube.projection.reading import Malformed
from tidewright.kube.projection.workloads import scale as read_scale

AT_ONCE = 8
"""Scales asked for at the same time."""
TIMEOUT_S = 10.0
AGAIN_S = 1.0
"""Wall seconds until a scale that could not be read for now is asked for again."""

Target: TypeAlias = tuple[str, GroupKind, str]
"""Namespace, kind and name of an object."""

_log = structlog.get_logger(__name__)


class _Seen(NamedTuple):
    subject: str
    place: Resource
    fact: WorkloadObserved


class Scales:
    """Custom workloads as they were seen last, and those whose scale is to be read."""

    def __init__(self, kube: Kube, say: Callable[[str, ObjectFact], Awaitable[None]]) -> None:
        """`say` takes a fact and its subject; one that was said already may come again."""
        self._kube = kube
        self._say = say
        self._targets: frozenset[Target] = frozenset()
        self._seen: dict[Target, _Seen] = {}
        self._waiting: dict[Target, None] = {}
        self._arrived = asyncio.Event()

    def follow(self, targets: frozenset[Target]) -> None:
        """These are the targets of spreads now."""
        for target in sorted(targets - self._targets):
            if target in self._seen:
                self._wait(target)
        self._targets = targets

    async def observe(self, target: Target, subject: str, place: Resource, fact: WorkloadObserved) -> None:
        """A custom workload as it is now: said at once, or with what its scale says.

        One without a scale subresource has -1 replicas, unless a path says where they are.
        """
        if not place.scale:
            await self._say(subject, msgspec.structs.replace(fact, replicas=-1, selector=""))
            return
        self._seen[target] = _Seen(subject, place, fact)
        if target in self._targets:
            self._wait(target)
        else:
            await self._say(subject, msgspec.structs.replace(fact, selector=""))

    async def read(self, target: Target, subject: str, place: Resource, fact: WorkloadObserved) -> None:
        """A custom workload as it is now, which is said with what its scale says, whoever targets it."""
        self._seen[target] = _Seen(subject, place, fact)
        self._wait(target)

    def forget(self, target: Target) -> None:
        """It is gone."""
        self._seen.pop(target, None)

    def forget_kind(self, kind: GroupKind) -> None:
        """Nobody watches its objects any more: what becomes of them is not heard of."""
        for target in [target for target in self._seen if target[1] == kind]:
            del self._seen[target]

    async def run(self) -> None:
        """Read scales until cancelled."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            while self._waiting:
                async with asyncio.TaskGroup() as reading:
                    for target in list(self._waiting)[:AT_ONCE]:
                        del self._waiting[target]
                        reading.create_task(self._read(target))

    def _wait(self, target: Target) -> None:
        self._waiting[target] = None
        self._arrived.set()

    async def _read(self, target: Target) -> None:
        namespace, kind, name = target
        seen = self._seen.get(target)
        if seen is None:
            return
        fact = msgspec.structs.replace(seen.fact, replicas=-1, selector="")
        try:
            path = seen.place.item(namespace, name, "scale")
            answer = await self._kube.request("GET", path, timeout_s=TIMEOUT_S)
            scale = read_scale(answer.body, fact.api_version, fact.kind)
            fact = msgspec.structs.replace(
                fact,
                replicas=scale.replicas,
                status_replicas=scale.status_replicas,
                selector=scale.selector,
            )
        except (KubeError, Malformed) as error:
            _log.warning(
                "a target's scale cannot be read",
                kind=str(kind),
                name=f"{namespace}/{name}",
                error=str(error),
            )
            if isinstance(error, KubeError) and error.retriable:
                asyncio.get_running_loop().call_later(AGAIN_S, self._wait, target)
                return
        if self._seen.get(target) is seen:  # else what came meanwhile waits already
            await self._say(seen.subject, fact)
