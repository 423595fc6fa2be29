"""Workloads of kinds that autoscalers scale and that are watched for nothing else: provisioning expects their pods.

    kinds of targets -> fact.<slot>.scaledworkload....       WorkloadObserved, as of the kinds in spread's whitelist
    refusals         -> fact.all.scaledkindrefused....       KindRefused, named like the kind

Spread reads none of it: what it knows of owners is what its whitelist says. A kind is followed while some
WatermarkPodAutoscaler has a target of it, by one watch however many have; of the last one's end all its
objects are told to be gone. A kind that spread's part follows by then is left to that, without a word, once that has told of all its
objects: what was said here stands, and is followed by what is said there. Until then, and where spread's part follows it no longer, objects
that are gone are told to be gone here.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial

import msgspec
import structlog

from tidewright.events import registry
from tidewright.events.autoscaler import WatermarkPodAutoscalerGone, WatermarkPodAutoscalerObserved
from tidewright.events.config import ConfigSet
from tidewright.events.facts import ObjectFact, WorkloadObserved
from tidewright.host.process.once import Once
from tidewright.kube.client import Kube
from tidewright.kube.customworkloads import (
    WHITELIST_CONFIG_MAP,
    BadWhitelist,
    GroupKind,
)
from tidewright.kube.discovery import Discovery, Resource
from tidewright.kube.errors import KubeError
from tidewright.kube.kinds import BY_KIND
from tidewright.log.subjects import unescape
from tidewright.watcher.appender import Appender
from tidewright.watcher.custom_workloads import KIND as SPREADS
from tidewright.watcher.follow import FactLog
from tidewright.watcher.kind_ownership import Heard
from tidewright.watcher.log_time import Stamp
from tidewright.watcher.metric_queries import custom_target
from tidewright.watcher.sayings import Sayings
from tidewright.watcher.scales import Scales
from tidewright.watcher.whitelisted import Whitelisted, whitelist_text
from tidewright.watcher.workload_watch import Seen, WorkloadWatch

SCALED = "scaled"
"""The part."""
KIND, REFUSED = "scaledworkload", "scaledkindrefused"
"""In subjects."""
WHITELIST_EVERY_S = 5.0
"""Wall seconds between two looks at what spread's whitelist says by now."""
NO_SCALE = "it has no scale subresource"

_log = structlog.get_logger(__name__)


def target_kind(fact: WatermarkPodAutoscalerObserved) -> GroupKind | None:
    """The kind that an autoscaler scales; None for one that is watched already, and where it cannot be read. Pure."""
    target = custom_target(fact.namespace, fact.spec)
    if target is None or (target.group, target.kind) in BY_KIND or target.api_version.count("/") > 1:
        return None
    return GroupKind(target.group, target.kind)


class ScaledWorkloads:
    """Everything that is watched because an autoscaler scales it."""

    def __init__(
        self,
        kube: Kube,
        discovery: Discovery,
        log: FactLog,
        appender: Appender,
        stamp: Stamp,
        *,
        max_age_s: float = 0.0,
    ) -> None:
        """`max_age_s` is the log's."""
        self._kube = kube
        self._log = log
        self._appender = appender
        self._stamp = stamp
        self._targets: dict[tuple[str, str], GroupKind] = {}
        self._users: Counter[GroupKind] = Counter()
        self._whitelisted = Whitelisted()
        self._settled: asyncio.Event | None = None
        self._sayings = Sayings(log, appender, stamp, max_age_s)
        self._scales = Scales(kube, self._say)
        self._once = Once()
        self._watch = WorkloadWatch(
            kube, discovery, log, self._sayings,
            kind=KIND, refused=REFUSED, seen=self._seen, gone=self._gone, why=why_refused, scaled=True,
        )  # fmt: skip

    @property
    def kinds(self) -> set[GroupKind]:
        """Kinds that some autoscaler scales and spread's part does not follow."""
        return {*self._users} - self._spreads_kinds

    @property
    def _spreads_kinds(self) -> set[GroupKind]:
        return {*self._whitelisted.kinds}

    def observe(self, fact: ObjectFact) -> None:
        """Learn from a fact what autoscalers and spreads there are."""
        key = fact.namespace, fact.name
        match fact:
            case WatermarkPodAutoscalerObserved():
                self._scales_now(key, target_kind(fact))
            case WatermarkPodAutoscalerGone():
                self._scales_now(key, None)
            case _:
                self._whitelisted.observe(fact)

    def _scales_now(self, autoscaler: tuple[str, str], kind: GroupKind | None) -> None:
        before = self._targets.pop(autoscaler, None)
        if kind is not None:
            self._targets[autoscaler] = kind
        if kind == before:
            return
        if kind is not None:
            self._users[kind] += 1
        if before is not None:
            self._users[before] -= 1
        self._users = +self._users
        self._whitelisted.changed.set()

    async def run(self, autoscalers: Heard | None = None) -> None:
        """Watch for ever, stepping back while another process does, or hears of the autoscalers.

        Not before they are known: of what they scale it would be said that it is gone.
        """
        if autoscalers is not None:
            self._settled = autoscalers.settled
            await autoscalers.keep(self._appender, self._own, kind=SCALED)
        await self._appender.keep(self._own, kind=SCALED)

    async def _own(self) -> None:
        if self._settled is not None:
            await self._settled.wait()
        position = await self._appender.claim()
        self._stamp.raise_to(position.at)
        await self._sayings.read_back(self._watch.patterns)
        self._scales = Scales(self._kube, self._say)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._sayings.run())
            tasks.create_task(self._scales.run())
            tasks.create_task(self._arrange(tasks))

    async def _arrange(self, tasks: asyncio.TaskGroup) -> None:
        """Keep one task per kind, for as long as it is wanted."""
        running: dict[GroupKind, asyncio.Task[None]] = {}
        arranged: set[GroupKind] | None = None
        while True:
            if self._users or self._watch.told:
                await self._read_whitelist()
            wanted = self.kinds | await self._not_taken_over()
            ended = [running.pop(kind) for kind in [*running] if kind not in wanted]
            for task in ended:
                task.cancel()
            await asyncio.gather(*ended, return_exceptions=True)
            for kind in sorted(self._watch.told - wanted) if wanted != arranged else ():
                await self._end(kind)
            arranged = wanted
            for kind in sorted(wanted - running.keys()):
                running[kind] = tasks.create_task(self._follow(kind))
            try:
                async with asyncio.timeout(WHITELIST_EVERY_S if self._users or self._watch.told else None):
                    await self._whitelisted.changed.wait()
            except TimeoutError:
                continue
            self._whitelisted.changed.clear()

    async def _read_whitelist(self) -> None:
        """As the log has it: another process may follow the ConfigMap."""
        record = await self._log.last(self._log.subjects.config(WHITELIST_CONFIG_MAP))
        event = registry.read(record.body) if record else None
        try:
            self._whitelisted.read(whitelist_text(event.data) if isinstance(event, ConfigSet) else "")
        except BadWhitelist:
            return  # spread's part says so, and leaves it as it was

    async def _not_taken_over(self) -> set[GroupKind]:
        """Kinds that spread's part follows by now, and of which it has not told all that was told here: what is gone before it has, it never saw."""
        if not self._spreads_kinds:
            return set()
        handed = self._watch.told & self._spreads_kinds
        theirs = await self._told_by_spread() if handed else {}
        return {kind for kind in handed if not self._watch.said_of(kind) <= theirs.keys()}

    async def _told_by_spread(self) -> dict[str, tuple[int, WorkloadObserved]]:
        """What spread's part told of that is not gone: by its subject here, where it lies and what it says."""
        found = {}
        async for record in self._log.last_per_subject([self._log.subjects.facts("*", SPREADS)]):
            fact = registry.read(record.body)
            if isinstance(fact, WorkloadObserved):
                slot, (_, namespace, name) = (
                    self._log.slot_of(fact.namespace),
                    self._log.subjects.parse(record.subject).rest,
                )
                subject = self._log.subjects.fact(slot, KIND, unescape(namespace), unescape(name))
                found[subject] = (record.seq, fact)
        return found

    async def _end(self, kind: GroupKind) -> None:
        """Nobody scales objects of a kind any longer; or spread's part tells of them."""
        self._scales.forget_kind(kind)
        self._watch.say_refused(kind, "")
        theirs = await self._told_by_spread() if kind in self._spreads_kinds else None
        for subject in sorted(self._watch.said_of(kind)):
            if theirs is None:
                await self._watch.gone(subject, "", kind)
            elif subject in theirs:  # else it has come since, and is followed on
                self._sayings.leave(subject)
        self._watch.forget_refusal(kind)

    async def _inherit(self, kind: GroupKind) -> None:
        """What spread's part told of a kind that it follows no longer: objects may be gone since."""
        theirs = await self._told_by_spread()
        mine = {
            record.subject: record.seq
            async for record in self._log.last_per_subject([self._log.subjects.facts("*", KIND)])
        }
        self._watch.inherit(
            {
                subject: fact
                for subject, (seq, fact) in theirs.items()
                if self._watch.is_of(subject, kind) and mine.get(subject, 0) < seq
            }
        )

    async def _follow(self, kind: GroupKind) -> None:
        """Facts about all objects of a kind that somebody scales."""
        if kind not in self._spreads_kinds:
            await self._inherit(kind)

        def missing(error: str) -> None:
            if self._once.due(str(kind), error):
                _log.warning("a kind that autoscalers scale cannot be watched", kind=str(kind), error=error)
            self._watch.say_refused(kind, error)

        await self._watch.wherever(
            kind, partial(self._scalable, kind), partial(self._watch.objects, kind), missing
        )

    async def _scalable(self, kind: GroupKind) -> Resource | str:
        place = await self._watch.served(kind)
        return place if isinstance(place, str) or place.scale else NO_SCALE

    async def _seen(self, seen: Seen) -> None:
        """Said at once where both counts stand in the usual places; else with what its scale says."""
        target = seen.fact.namespace, seen.kind, seen.fact.name
        if min(seen.counts) >= 0:
            self._scales.forget(target)  # an answer that is still awaited is about the object as it was
            await self._say(seen.subject, msgspec.structs.replace(seen.fact, selector=""))
            return
        await self._scales.read(target, seen.subject, seen.place, seen.fact)

    def _gone(self, namespace: str, kind: GroupKind, name: str) -> None:
        self._scales.forget((namespace, kind, name))

    async def _say(self, subject: str, fact: ObjectFact) -> None:
        self._sayings.say(subject, fact)


def why_refused(error: KubeError, resource: Resource) -> str:
    """Why objects may not be read; where it is for want of rights, with the rule that would give them."""
    if error.status != 403:
        return str(error)
    rule = f'{{apiGroups: ["{resource.group}"], resources: [{resource.plural}], verbs: [list, watch]}}'
    return f"{error}; let the watcher read them by a rule {rule}, in the chart among `reads`"
