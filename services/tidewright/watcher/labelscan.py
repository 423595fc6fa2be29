"""Objects that no worker's selector can match: looked for page by page, and said as facts.

For every ShardSet whose workers go by a label, the objects of its source whose slot label is missing
or names no slot are listed, metadata alone, on an interval. One selector finds both: `label notin
(0,1,...)` matches objects without the label, too. What got its label in between is not in the next
page, so a scan is resumable by nature.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import structlog

from tidewright.events import registry
from tidewright.events.facts import ObjectFact
from tidewright.events.shards import (
    ShardSetGone,
    ShardSetObserved,
    SlotLabelsScanned,
    UnlabelledObject,
)
from tidewright.host.process.once import Once
from tidewright.kube.client import Kube
from tidewright.kube.discovery import Discovery
from tidewright.kube.errors import KubeError
from tidewright.kube.projection.reading import UNREADABLE
from tidewright.sharding.source import Source, identity, source_of
from tidewright.watcher.appender import Appender
from tidewright.watcher.follow import FactLog
from tidewright.watcher.kind_ownership import Heard
from tidewright.watcher.log_time import Stamp

INTERVAL_S = 10.0
"""Wall seconds between two looks."""
PAGE = 200
KIND = "slotlabels"
METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
DEFAULT_LABEL = "shards.tidewright.dev/slot"
BY_LABEL = frozenset({"propeller", "selector-flag"})
"""Injectors whose workers list by label."""
MOST_SLOTS = 256

_log = structlog.get_logger(__name__)


class LabelScan(msgspec.Struct, frozen=True):
    """What is looked for on behalf of one set."""

    namespace: str
    name: str
    source: Source
    label: str
    slots: int

    @property
    def query(self) -> dict[str, str]:
        """Of the list request."""
        lacking = f"{self.label} notin ({','.join(map(str, range(self.slots)))})"
        parts = [self.source.selector, lacking] if self.source.selector else [lacking]
        return {"labelSelector": ",".join(parts), "limit": str(PAGE)}


def wanted(fact: ShardSetObserved) -> LabelScan | None:
    """What a set wants looked for; None when its workers do not go by a label, or its spec is not readable."""
    spec = fact.spec
    workers, keyspace = (
        section if isinstance(section := spec.get(name), dict) else {} for name in ("workers", "keyspace")
    )
    source = source_of(spec)
    slots = keyspace.get("slots", 1024)
    injector = workers.get("injector")
    if not isinstance(injector, str) or injector not in BY_LABEL or not source.kind:
        return None
    if not isinstance(slots, int) or not 0 < slots <= MOST_SLOTS:
        return None
    label = str(keyspace.get("slotLabel") or DEFAULT_LABEL)
    return LabelScan(fact.namespace, fact.name, source, label, slots)


def page_of(want: LabelScan, api_version: str, body: bytes) -> SlotLabelsScanned:
    """A list's answer as a fact, with `at` 0."""
    page: dict[str, Any] = msgspec.json.decode(body)
    items = page.get("items") or ()
    meta = page.get("metadata") or {}
    objects = []
    for item in items:
        who = identity(item["metadata"], want.source.kind)
        value = (item["metadata"].get("labels") or {}).get(want.label)
        objects.append(
            UnlabelledObject(
                namespace=who.namespace, name=who.name, uid=who.uid,
                parent=who.parent, parent_uid=who.parent_uid, value=value,
            )
        )  # fmt: skip
    # A server that filters tells no count of what remains: one more at least.
    remaining = int(meta.get("remainingItemCount") or (1 if meta.get("continue") else 0))
    return SlotLabelsScanned(
        at=0.0, namespace=want.namespace, name=want.name, api_version=api_version, kind=want.source.kind,
        label=want.label, objects=tuple(objects), remaining=remaining,
    )  # fmt: skip


class LabelScanner:
    """The looking, for all sets."""

    def __init__(
        self, kube: Kube, discovery: Discovery, log: FactLog, appender: Appender, stamp: Stamp
    ) -> None:
        self._kube, self._discovery, self._log = kube, discovery, log
        self._appender, self._stamp = appender, stamp
        self._sets: dict[tuple[str, str], LabelScan] = {}
        self._once = Once()
        self._lacking: set[tuple[str, str]] = set()
        self._news = asyncio.Event()

    def observe(self, fact: ObjectFact) -> None:
        """Take a ShardSet into account."""
        key = (fact.namespace, fact.name)
        match fact:
            case ShardSetObserved():
                if (want := wanted(fact)) is None:
                    self._sets.pop(key, None)
                elif self._sets.get(key) != want:
                    self._sets[key] = want
                    self._news.set()
            case ShardSetGone():
                self._sets.pop(key, None)
                self._lacking.discard(key)

    async def run(self, sets: Heard | None = None) -> None:
        """Look for ever, stepping back while another process does, or hears of the sets."""
        if sets is not None:
            await sets.keep(self._appender, self._own, kind=KIND)
        await self._appender.keep(self._own, kind=KIND)

    async def _own(self) -> None:
        position = await self._appender.claim()
        self._stamp.raise_to(position.at)
        while True:
            self._news.clear()
            facts = [fact for key in sorted(self._sets) if (fact := await self._look(key)) is not None]
            if facts or not self._appender.renewal_in_s:
                await self._say(facts)
            # A full page was only the first: the next one follows as soon as its labels can be there.
            pause_s = 1.0 if any(f.remaining for f in facts) else INTERVAL_S
            try:
                async with asyncio.timeout(pause_s):
                    await self._news.wait()
            except TimeoutError:
                continue

    async def _look(self, key: tuple[str, str]) -> SlotLabelsScanned | None:
        want = self._sets[key]
        try:
            places = await self._discovery.resources(want.source.group, want.source.kind)
            if not places:
                return None  # its CRD may come later
            path = places[0].collection("" if want.source.all_namespaces else want.namespace)
            answer = await self._kube.request("GET", path, query=want.query, accept=METADATA_ONLY)
        except KubeError as error:
            _log.warning(
                "cannot look for objects without a slot", shard_set=f"{key[0]}/{key[1]}",
                kind=want.source.kind, reason=error.reason, error=str(error),
                do="let the watcher list them",
            )  # fmt: skip
            return None
        group, version = places[0].group, places[0].version
        try:
            fact = page_of(want, f"{group}/{version}" if group else version, answer.body)
        except UNREADABLE as error:
            # Objects of any kind: a server that does not leave out their content gives all of it.
            if times := self._once.due(key, str(error)):
                _log.warning(
                    "objects without a slot cannot be read", shard_set=f"{key[0]}/{key[1]}",
                    kind=want.source.kind, error=str(error), times=times,
                )  # fmt: skip
            return None
        if not fact.objects and key not in self._lacking:
            return None
        self._lacking.discard(key)
        if fact.objects:
            self._lacking.add(key)
        return fact

    async def _say(self, facts: list[SlotLabelsScanned]) -> None:
        at = self._stamp.now()
        messages = []
        for fact in facts:
            stamped = msgspec.structs.replace(fact, at=at)
            slot = self._log.slot_of(fact.namespace)
            subject = self._log.subjects.fact(slot, KIND, fact.namespace, fact.name)
            messages.append((subject, registry.encode(stamped)))
        await self._appender.say(messages, resource_version="", at=at)
