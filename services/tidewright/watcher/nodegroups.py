"""The cloud's node groups, polled on an interval of log time, as facts.

Often while something is under way (instances being made or deleted, a size that its instances do not
have yet, a group that could not be read), seldom otherwise. A group that reads as it did before gives
no fact. One that cannot be read several times in a row is said again with the error: its last known
sizes stand, and nobody grows it meanwhile.
"""

from __future__ import annotations

import asyncio
from itertools import takewhile

import msgspec
import structlog

from tidewright.cloud.errors import CloudError, NotImplementedByCloud
from tidewright.cloud.provider import Group, GroupOptions, InstanceState, NodeTemplate, Provider
from tidewright.cloud.provider import Instance as CloudInstance
from tidewright.events import registry
from tidewright.events.base import Fact
from tidewright.events.facts import ObjectFact
from tidewright.events.provisioning import (
    Instance,
    NodeGroupGone,
    NodeGroupObserved,
    TemplateNode,
)
from tidewright.kube.podspecs import amounts
from tidewright.kube.projection.capacity import for_scheduling
from tidewright.log.clock import Clock
from tidewright.log.subjects import ALL
from tidewright.watcher.appender import Appender
from tidewright.watcher.diff import digest_of, is_gone
from tidewright.watcher.follow import FactLog
from tidewright.watcher.log_time import Stamp

NODE_GROUP = "nodegroup"
INTERVAL_S = 10.0
"""Log time between two polls while nothing is under way."""
BUSY_INTERVAL_S = 1.0
"""Log time between two polls while something is."""
FLOOR_WALL_S = 0.2
"""No two polls are closer than this on the wall, however fast log time runs."""
FAILURES_BEFORE_SAID = 3
"""Polls in a row that a group cannot be read before that is a fact: clouds stumble."""
READS = 3
"""Attempts to read a group within one poll."""
CONCURRENCY = 8
MANY = 1000
"""Machines from which on a group is written shortly."""

_log = structlog.get_logger(__name__)

_STATES = {
    InstanceState.RUNNING: "running",
    InstanceState.CREATING: "creating",
    InstanceState.DELETING: "deleting",
}


async def read(group: Group) -> NodeGroupObserved:
    """One group as a fact, `at` 0.

    Raises:
        CloudError: it cannot be read.
    """
    size = await group.target_size()
    instances = await group.nodes()
    try:
        template = _template(await group.template())
    except NotImplementedByCloud:
        template = None
    options = await group.options(GroupOptions())
    price = group.price_per_hour
    fact = NodeGroupObserved(
        at=0.0,
        namespace="",
        name=group.id,
        min_size=group.min_size,
        max_size=group.max_size,
        target_size=size,
        instances=tuple(_instance(instance) for instance in instances),
        template=template,
        zero_or_max=bool(options.zero_or_max_node_scaling),
        allow_non_atomic=bool(options.allow_non_atomic_scale_up_to_max),
        max_provision_s=options.max_node_provision_s or 0.0,
        price_micro=None if price is None else round(price * 1e6),
        atomic_increase=group.atomic,
        autoprovisioned=group.autoprovisioned,
        machine_type=group.machine_type,
        zone=group.zone,
    )
    return shortened(fact) if len(instances) >= MANY else fact


def shortened(fact: NodeGroupObserved) -> NodeGroupObserved:
    """The same group with its machines without errors by state, and what their ids share written once."""
    plain = [instance for instance in fact.instances if not instance.error_class]
    ids = [instance.id for instance in plain] or [""]
    # What the first and the last in order share, all share.
    prefix = "".join(
        a for a, _ in takewhile(lambda pair: pair[0] == pair[1], zip(min(ids), max(ids), strict=False))
    )
    many: dict[str, list[str]] = {}
    for instance in plain:
        many.setdefault(instance.state, []).append(instance.id.removeprefix(prefix))
    return msgspec.structs.replace(
        fact,
        instances=tuple(instance for instance in fact.instances if instance.error_class),
        many={state: tuple(endings) for state, endings in sorted(many.items())},
        prefix=prefix,
    )


def _instance(instance: CloudInstance) -> Instance:
    error = instance.error
    return Instance(
        id=instance.id,
        state="" if instance.state is None else _STATES[instance.state],
        error_class=0 if error is None else int(error.error_class),
        error_code="" if error is None else error.code,
        error_message="" if error is None else error.message,
    )


def _template(template: NodeTemplate) -> TemplateNode:
    return TemplateNode(
        labels=template.labels,
        taints=tuple({"key": t.key, "value": t.value, "effect": t.effect} for t in template.taints),
        allocatable=amounts(template.allocatable or template.capacity),
        capacity=amounts(template.capacity),
        devices=template.devices,
        pods=tuple(for_scheduling(pod) for pod in template.static_pods),
    )


def busy(fact: NodeGroupObserved) -> bool:
    """Whether a group is not yet as it is ordered to be."""
    machines = fact.machines
    there = sum(instance.state != "deleting" for instance in machines)
    return there != fact.target_size or any(
        instance.state in ("creating", "deleting") for instance in machines
    )


class NodeGroups:
    """All node groups of one cloud."""

    def __init__(
        self,
        provider: Provider,
        log: FactLog,
        appender: Appender,
        stamp: Stamp,
        clock: Clock,
        *,
        interval_s: float = INTERVAL_S,
        max_age_s: float = 0.0,
    ) -> None:
        """`interval_s` is in log seconds; `max_age_s` is the log's."""
        self.polls = 0
        self.failures = 0
        self.synced = asyncio.Event()
        self._provider = provider
        self._log = log
        self._appender = appender
        self._stamp = stamp
        self._clock = clock
        self._interval_s = interval_s
        self._max_age_s = max_age_s
        self._said: dict[str, tuple[bytes, float]] = {}
        self._last: dict[str, NodeGroupObserved] = {}
        self._failed: dict[str, int] = {}
        self._limit = asyncio.Semaphore(CONCURRENCY)

    async def run(self) -> None:
        """Poll for ever, stepping back while another process does."""
        try:
            await self._appender.keep(self._own, kind=NODE_GROUP)
        finally:
            await self._provider.cleanup()

    async def _own(self) -> None:
        position = await self._appender.claim()
        self._stamp.raise_to(position.at)
        await self._read_back()
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            facts: list[ObjectFact] = []
            if loop.time() >= due:
                began = loop.time()
                facts = await self.poll()
                due = began + self._pause_s()
            if facts or not self._appender.renewal_in_s:
                await self._say(facts)
            self.synced.set()
            await asyncio.sleep(max(0.0, min(due - loop.time(), self._appender.renewal_in_s)))

    def _pause_s(self) -> float:
        """Wall seconds from one poll to the next."""
        restless = bool(self._failed) or any(map(busy, self._last.values()))
        interval_s = min(self._interval_s, BUSY_INTERVAL_S) if restless else self._interval_s
        return max(FLOOR_WALL_S, self._clock.wall_seconds(interval_s))

    async def _read_back(self) -> None:
        self._said.clear()
        self._last.clear()
        async for record in self._log.last_per_subject([self._log.subjects.facts("*", NODE_GROUP)]):
            try:
                fact = registry.decode(record.body)
            except registry.NotAnEvent as error:
                _log.warning("a last word is not readable", subject=record.subject, error=str(error))
                continue
            if isinstance(fact, Fact):
                self._stamp.raise_to(fact.at)
            if isinstance(fact, NodeGroupObserved):
                self._said[fact.name] = (digest_of(fact), fact.at)
                self._last[fact.name] = fact

    async def poll(self) -> list[ObjectFact]:
        """What is new about all groups, `at` 0, by id."""
        self.polls += 1
        try:
            await self._provider.refresh()
        except CloudError as error:
            return self._unreadable(sorted(self._said), error)
        groups = sorted(self._provider.node_groups(), key=lambda group: group.id)
        answers = await asyncio.gather(*(self._ask(group) for group in groups))
        facts: list[ObjectFact] = []
        for group, answer in zip(groups, answers, strict=True):
            if isinstance(answer, CloudError):
                facts += self._unreadable([group.id], answer)
            else:
                self._failed.pop(group.id, None)
                self._last[group.id] = answer
                facts += self._if_new(answer)
        for name in sorted(set(self._said) - {group.id for group in groups}):
            del self._said[name]
            self._last.pop(name, None)
            self._failed.pop(name, None)
            facts.append(NodeGroupGone(at=0.0, namespace="", name=name))
        return facts

    async def _ask(self, group: Group) -> NodeGroupObserved | CloudError:
        async with self._limit:
            for remaining in reversed(range(READS)):
                try:
                    return await read(group)
                except CloudError as error:
                    if not error.retriable or not remaining:
                        return error
        raise AssertionError("the last attempt returns")

    def _unreadable(self, names: list[str], error: CloudError) -> list[ObjectFact]:
        self.failures += 1
        _log.info("the cloud did not answer", groups=len(names), reason=error.reason, error=error.message)
        facts: list[ObjectFact] = []
        for name in names:
            self._failed[name] = self._failed.get(name, 0) + 1
            if self._failed[name] >= FAILURES_BEFORE_SAID:
                known = self._last.get(name) or NodeGroupObserved(at=0.0, namespace="", name=name)
                facts += self._if_new(
                    msgspec.structs.replace(known, at=0.0, refresh=False, error=error.reason)
                )
        return facts

    def _if_new(self, fact: NodeGroupObserved) -> list[ObjectFact]:
        digest = digest_of(fact)
        said = self._said.get(fact.name)
        now = self._stamp.now()
        old = bool(self._max_age_s) and said is not None and now - said[1] > self._max_age_s / 3
        if said is not None and said[0] == digest:
            if not old:
                return []
            fact = msgspec.structs.replace(fact, refresh=True)
        self._said[fact.name] = (digest, now)
        return [fact]

    async def _say(self, facts: list[ObjectFact]) -> None:
        at = self._stamp.now()
        messages = [
            (
                self._log.subjects.fact(ALL, NODE_GROUP, "", fact.name),
                registry.encode(msgspec.structs.replace(fact, at=at)),
            )
            for fact in facts
        ]
        await self._appender.say(messages, resource_version="", at=at)
        for fact in facts:
            _log.info("node group", group=fact.name, gone=is_gone(fact))
