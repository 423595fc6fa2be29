"""How busy our own services are, and how many replicas each has: said as facts, so that they can be sized.

Which services are looked at says the configuration (`services` of the part `shardmanager`). What a service
has folded stands in its checkpoints, the latest of each slot; the difference between two looks by the
replica that wrote it is its load.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec
import structlog

from tidewright.events import registry
from tidewright.events.config import ConfigSet
from tidewright.events.shards import ServiceLoadObserved
from tidewright.kube.client import Kube
from tidewright.kube.errors import KubeError
from tidewright.log import checkpoint as checkpoints
from tidewright.log.checkpoint import Checkpoint
from tidewright.log.errors import Unsound
from tidewright.log.reader import Record
from tidewright.log.subjects import Slot, Subjects
from tidewright.watcher.appender import Appender
from tidewright.watcher.log_time import Stamp

KIND = "serviceload"
PART = "shardmanager"
INTERVAL_S = 5.0
"""Wall seconds between two looks."""

_log = structlog.get_logger(__name__)


class CheckpointLog(Protocol):
    """What of the log is needed here."""

    slots: int

    @property
    def subjects(self) -> Subjects: ...
    def slot_of(self, namespace: str) -> Slot: ...
    async def last(self, subject: str) -> Record | None: ...


class Sized(msgspec.Struct, frozen=True):
    """A service to look at, and the Deployment that runs it."""

    service: str
    namespace: str
    deployment: str


def sized(config: Mapping[str, Any]) -> list[Sized]:
    """The services of a configuration; entries that name no Deployment are the shard manager's to refuse."""
    targets = []
    entries = config.get("services")
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, Mapping):
            continue
        namespace, _slash, name = str(entry.get("deployment") or "").partition("/")
        if entry.get("name") and namespace and name:
            targets.append(Sized(str(entry["name"]), namespace, name))
    return targets


def loads(
    before: Mapping[str, Checkpoint], after: Mapping[str, Checkpoint], elapsed_s: float
) -> tuple[float, ...]:
    """Facts folded per second by replica, the busiest first; a slot's whole load is its present owner's."""
    folded: Counter[str] = Counter()
    for slot, last in after.items():
        first = before.get(slot)
        folded[last.incarnation] += max(0, last.folded - first.folded) if first else 0
    return tuple(sorted((round(count / elapsed_s, 3) for count in folded.values()), reverse=True))


class ServiceLoads:
    """The looking, for all services of the configuration."""

    def __init__(
        self,
        kube: Kube,
        log: CheckpointLog,
        appender: Appender,
        stamp: Stamp,
        *,
        interval_s: float = INTERVAL_S,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`interval_s` is wall time between two looks."""
        self._kube, self._log, self._appender, self._stamp = kube, log, appender, stamp
        self._interval_s, self._monotonic = interval_s, monotonic
        self._seen: dict[Sized, tuple[float, dict[str, Checkpoint]]] = {}

    async def run(self) -> None:
        """Look for ever, stepping back while another process does."""
        await self._appender.keep(self._own, kind=KIND)

    async def _own(self) -> None:
        position = await self._appender.claim()
        self._stamp.raise_to(position.at)
        self._seen.clear()
        while True:
            facts = await self.look()
            if facts or not self._appender.renewal_in_s:
                at = self._stamp.now()
                messages = []
                for fact in facts:
                    subject = self._log.subjects.fact(
                        self._log.slot_of(fact.namespace), KIND, fact.namespace, fact.name
                    )
                    messages.append((subject, registry.encode(msgspec.structs.replace(fact, at=at))))
                await self._appender.say(messages, resource_version="", at=at)
            await asyncio.sleep(self._interval_s)

    async def look(self) -> list[ServiceLoadObserved]:
        """A fact, `at` 0, for each service that was looked at before."""
        record = await self._log.last(self._log.subjects.config(PART))
        config = registry.read(record.body) if record else None
        targets = sized(config.data) if isinstance(config, ConfigSet) else []
        self._seen = {target: seen for target, seen in self._seen.items() if target in targets}
        facts = []
        for target in targets:
            now, current = self._monotonic(), await self._checkpoints(target.service)
            earlier = self._seen.get(target)
            self._seen[target] = (now, current)
            if earlier is None or now <= earlier[0] or (replicas := await self._replicas(target)) is None:
                continue
            facts.append(
                ServiceLoadObserved(
                    at=0.0, namespace=target.namespace, name=target.deployment, service=target.service,
                    loads=loads(earlier[1], current, now - earlier[0]), replicas=replicas,
                )
            )  # fmt: skip
        return facts

    async def _checkpoints(self, service: str) -> dict[str, Checkpoint]:
        by_slot = {}
        for number in range(self._log.slots):
            slot = Slot(str(number))
            if (record := await self._log.last(self._log.subjects.checkpoint(slot, service))) is not None:
                with contextlib.suppress(Unsound):  # the service itself says so
                    by_slot[str(slot)] = checkpoints.usable(record)
        return by_slot

    async def _replicas(self, target: Sized) -> int | None:
        path = f"/apis/apps/v1/namespaces/{target.namespace}/deployments/{target.deployment}/scale"
        try:
            scale = msgspec.json.decode((await self._kube.request("GET", path)).body)
        except KubeError as error:
            _log.warning(
                "cannot size a service", service=target.service, deployment=f"{target.namespace}/{target.deployment}",
                reason=error.reason, error=str(error), do="correct `services` of the part shardmanager",
            )  # fmt: skip
            return None
        return int((scale.get("spec") or {}).get("replicas") or 0)
