"""Custom workloads for spread: the whitelist, objects of its kinds, and replicas read at paths.

    ConfigMap      -> config.all.kruise-configuration     ConfigSet, whole
    listed kinds   -> fact.<slot>.customworkload....      WorkloadObserved: who owns whom, and what its scale says
    spreads' paths -> fact.<slot>.targetreplicas....      TargetReplicasObserved, named like the spread
    refusals       -> fact.all.kindrefused....            KindRefused, named like the kind

What is watched follows the whitelist and the spreads at once; an entry without a version is resolved by
discovery. A kind that may not be read, or that nobody serves, is said so in the facts about it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any

import msgspec
import structlog

from tidewright.events import registry
from tidewright.events.config import ConfigSet
from tidewright.events.facts import ObjectFact
from tidewright.events.spread import TargetReplicasObserved, WorkloadSpreadObserved
from tidewright.host.process.once import Once
from tidewright.kube.client import Kube
from tidewright.kube.customworkloads import (
    BUILT_IN,
    WHITELIST_CONFIG_MAP,
    WHITELIST_KEY,
    BadApiVersion,
    BadPath,
    BadWhitelist,
    GroupKind,
    Whitelist,
    group_version,
    replicas_at_paths,
)
from tidewright.kube.discovery import Discovery, Resource
from tidewright.kube.errors import KubeError
from tidewright.kube.listwatch import follow_one
from tidewright.kube.projection.reading import Bytes
from tidewright.watcher.appender import Appender
from tidewright.watcher.follow import FactLog
from tidewright.watcher.kind_ownership import Heard
from tidewright.watcher.log_time import Stamp
from tidewright.watcher.sayings import Sayings
from tidewright.watcher.scales import Scales
from tidewright.watcher.whitelisted import Whitelisted, target_of, whitelist_text
from tidewright.watcher.workload_watch import NotServed, Seen, WorkloadWatch

CUSTOM = "custom"
KIND, REPLICAS, REFUSED = "customworkload", "targetreplicas", "kindrefused"
"""Kinds in subjects: several kinds of objects share the first, so the kind is in the name."""
SPREADS_FIRST_S = 15.0
"""How long the list of spreads is waited for."""

_log = structlog.get_logger(__name__)


class Place(msgspec.Struct, frozen=True, order=True):
    """Where a spread's replicas are read: which object, and at which paths."""

    namespace: str
    spread: str
    uid: str
    group: str
    version: str
    kind: str
    name: str
    paths: tuple[str, ...]


def place_of(fact: WorkloadSpreadObserved, whitelist: Whitelist) -> Place | None:
    """Where the replicas of a spread's target are; None when its ordinary ones count (3.2). Pure."""
    target = fact.spec.get("targetRef")
    if not isinstance(target, dict):
        return None
    kind, name, api_version = (target.get(key) for key in ("kind", "name", "apiVersion"))
    if not (isinstance(kind, str) and isinstance(name, str) and isinstance(api_version, str)):
        return None
    try:
        group, version = group_version(api_version)
    except BadApiVersion:
        return None
    target_filter = fact.spec.get("targetFilter")
    given = target_filter.get("replicasPathList") if isinstance(target_filter, dict) else None
    paths = tuple(path for path in given if isinstance(path, str)) if isinstance(given, list) else ()
    entry = whitelist.entry(GroupKind(group, kind))
    if not paths and entry is not None and (entry.version in ("", version)) and entry.replicas_path:
        paths = (entry.replicas_path,)
    if not paths:
        return None
    return Place(fact.namespace, fact.name, fact.uid, group, version, kind, name, paths)


class CustomWorkloads:
    """Everything that is watched because the whitelist or a spread's paths name it."""

    def __init__(
        self,
        kube: Kube,
        discovery: Discovery,
        log: FactLog,
        appender: Appender,
        stamp: Stamp,
        *,
        config_map: str,
        max_age_s: float = 0.0,
    ) -> None:
        """`config_map` is `namespace/name` of the ConfigMap with the whitelist; `max_age_s` is the log's."""
        self._kube = kube
        self._discovery = discovery
        self._log = log
        self._appender = appender
        self._stamp = stamp
        self._config_map = config_map
        self._whitelisted = Whitelisted()
        self._listed = False
        """Whether the whitelist is known by now."""
        self._sayings = Sayings(log, appender, stamp, max_age_s)
        self._scales = Scales(kube, self._say)
        self._once = Once()
        self._watch = WorkloadWatch(
            kube, discovery, log, self._sayings, kind=KIND, refused=REFUSED, seen=self._seen, gone=self._gone
        )

    def observe(self, fact: ObjectFact) -> None:
        """Learn from a fact which spreads there are."""
        self._whitelisted.observe(fact)

    async def run(self, spreads: Heard | None = None) -> None:
        """Watch for ever, stepping back while another process does, or hears of the spreads.

        Not before they are known: of a target it would be said what nobody's target has, which spread decides on.
        """
        if spreads is not None:
            await spreads.keep(self._appender, self._own, settling_s=SPREADS_FIRST_S, kind=CUSTOM)
        await self._appender.keep(self._own, kind=CUSTOM)

    async def _own(self) -> None:
        self._listed = False
        position = await self._appender.claim()
        self._stamp.raise_to(position.at)
        await self._sayings.read_back(
            (
                *self._watch.patterns,
                self._log.subjects.facts("*", REPLICAS),
                self._log.subjects.config(WHITELIST_CONFIG_MAP),
            )
        )
        self._scales = Scales(self._kube, self._say)  # what was seen by an earlier turn may be gone since
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._sayings.run())
            tasks.create_task(self._scales.run())
            tasks.create_task(self._follow_whitelist())
            tasks.create_task(self._arrange(tasks))

    # -- what is watched -------------------------------------------------------------------------

    async def _follow_whitelist(self) -> None:
        namespace, _, name = self._config_map.rpartition("/")
        path = f"/api/v1/namespaces/{namespace or 'default'}/configmaps"
        record = await self._log.last(self._log.subjects.config(WHITELIST_CONFIG_MAP))
        known = registry.read(record.body) if record else None
        said: str | None = whitelist_text(known.data) if isinstance(known, ConfigSet) else None
        async for raw in follow_one(self._kube, path, query={"fieldSelector": f"metadata.name={name}"}):
            text = "" if raw is None else _whitelist_text(raw)
            if text != (said or ""):
                said = text
                data = {WHITELIST_KEY: text} if text else {}
                event = ConfigSet(at=0.0, name=WHITELIST_CONFIG_MAP, data=data)
                self._sayings.put(self._log.subjects.config(WHITELIST_CONFIG_MAP), event)
            try:
                self._whitelisted.read(text)
            except BadWhitelist as error:
                _log.error("the whitelist is left as it was", error=str(error), do="correct the ConfigMap")
                continue
            self._listed = True
            self._whitelisted.changed.set()

    async def _arrange(self, tasks: asyncio.TaskGroup) -> None:
        """Keep one task per kind and per place, for as long as it is wanted."""
        running: dict[GroupKind | Place, asyncio.Task[None]] = {}
        known = self._whitelisted
        while True:
            places = {key: place_of(fact, known.whitelist) for key, fact in known.spreads.items()}
            desired: dict[GroupKind | Place, Coroutine[Any, Any, None]] = {}
            targets = (target_of(fact) for fact in known.spreads.values())
            self._scales.follow(frozenset(target for target in targets if target is not None))
            kinds = known.kinds
            for kind in kinds:
                desired[kind] = self._follow_kind(kind)
            for place in places.values():
                if place is not None:
                    desired[place] = self._follow_place(place)
            for what, work in desired.items():
                if what in running:
                    work.close()
                else:
                    running[what] = tasks.create_task(work)
            for what in [w for w in running if w not in desired]:
                running.pop(what).cancel()
                if isinstance(what, GroupKind):
                    self._scales.forget_kind(what)
            for kind in sorted(self._watch.told_refused - {*kinds}) if self._listed else ():
                self._watch.say_refused(kind, "")  # nobody asks any longer
            await known.changed.wait()
            known.changed.clear()

    async def _follow_kind(self, kind: GroupKind) -> None:
        """Facts about all objects of a whitelisted kind."""

        async def find() -> Resource | str:
            return await self._watch.served(kind, self._version_of(kind))

        def missing(error: str) -> None:
            if self._once.due(str(kind), error):
                _log.warning("a whitelisted kind cannot be watched", kind=str(kind), error=error)

        await self._watch.wherever(kind, find, partial(self._watch.objects, kind), missing)

    async def _seen(self, seen: Seen) -> None:
        if seen.kind in BUILT_IN:
            await self._say(seen.subject, seen.fact)
        else:
            target = seen.fact.namespace, seen.kind, seen.fact.name
            await self._scales.observe(target, seen.subject, seen.place, seen.fact)

    def _gone(self, namespace: str, kind: GroupKind, name: str) -> None:
        self._scales.forget((namespace, kind, name))

    def _version_of(self, kind: GroupKind) -> str:
        entry = self._whitelisted.whitelist.entry(kind)
        return entry.version if entry is not None else ""

    async def _follow_place(self, place: Place) -> None:
        """Facts about the replicas of one spread's target."""
        self._sayings.said.pop(
            self._replicas_subject(place), None
        )  # another spread of this name was told, maybe
        kind = GroupKind(place.group, place.kind)
        await self._watch.wherever(
            kind,
            partial(self._watch.served, kind, place.version),
            partial(self._follow_replicas, place),
            lambda error: self._say_replicas(place, error=error),
        )

    async def _follow_replicas(self, place: Place, resource: Resource) -> None:
        def refused(error: KubeError) -> None:
            if error.status == 404:
                raise NotServed(str(error))
            if not error.retriable:
                self._say_replicas(place, error=f"{place.kind} {place.name} cannot be read: {error}")

        path, query = resource.collection(place.namespace), {"fieldSelector": f"metadata.name={place.name}"}
        async for raw in follow_one(self._kube, path, query=query, on_error=refused):
            if raw is None:
                self._say_replicas(place, 0)
            else:
                self._replicas(place, raw)

    def _replicas(self, place: Place, raw: Bytes) -> None:
        try:
            number = replicas_at_paths(msgspec.json.decode(raw), place.paths)
        except (BadPath, msgspec.DecodeError, RecursionError) as error:
            self._say_replicas(place, error=str(error))
            return
        fault = f"paths {', '.join(place.paths)} give {number}: not a number of pods" if number < 0 else ""
        self._say_replicas(place, max(number, 0), error=fault)

    # -- saying ----------------------------------------------------------------------------------

    def _say_replicas(self, place: Place, replicas: int = 0, *, error: str = "") -> None:
        fact = TargetReplicasObserved(
            at=0.0, namespace=place.namespace, name=place.spread, replicas=replicas, error=error
        )
        self._sayings.say(self._replicas_subject(place), fact)

    def _replicas_subject(self, place: Place) -> str:
        slot = self._log.slot_of(place.namespace)
        return self._log.subjects.fact(slot, REPLICAS, place.namespace, place.spread)

    async def _say(self, subject: str, fact: ObjectFact) -> None:
        self._sayings.say(subject, fact)


def _whitelist_text(raw: Bytes) -> str:
    return whitelist_text(msgspec.json.decode(raw).get("data") or {})
