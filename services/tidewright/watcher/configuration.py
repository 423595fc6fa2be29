"""Configuration onto the log: the clock's mapping, and the parts of one ConfigMap.

Each key of the ConfigMap is one part: `autoscaler`, or `autoscaler.yaml`, holds the configuration of
the autoscaler as YAML. A part that cannot be read is left as it was, and said so. The part `modes` says which
services act, in place of the flags.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import structlog

from tidewright.events import registry
from tidewright.events.acting import MODES
from tidewright.events.base import Fact
from tidewright.events.config import ClockSet, ConfigSet, ModesSet
from tidewright.kube import expressions, yamltext
from tidewright.kube.client import Kube
from tidewright.kube.customworkloads import WHITELIST_CONFIG_MAP
from tidewright.kube.errors import KubeError
from tidewright.kube.listwatch import Deleted, Item, ListStarted, Page, list_watch
from tidewright.log.clock import Clock
from tidewright.log.subjects import ALL
from tidewright.watcher.appender import Appender
from tidewright.watcher.follow import FactLog
from tidewright.watcher.log_time import Stamp
from tidewright.watcher.modes import (
    BadModes,
    OperatorModes,
    Services,
    event_of,
    known_namespaces,
    selected,
    to_say,
)
from tidewright.watcher.modes import read as read_modes
from tidewright.watcher.resync import Again

CONFIG = "config"
CLOCK = "clock"
PRIORITY_EXPANDER = "cluster-autoscaler-priority-expander"
"""The ConfigMap with the priorities of node groups, of this name and with this key in it."""
PRIORITIES = "priorities"
MAX_EXPRESSIONS = 1000
"""Of the priorities; each is looked for in each group."""
MAX_ERROR = 1000
"""Characters of what is wrong with them."""
JUMP_CHECK_S = 1.0
NO_SERVICES = Services()
SUFFIXES = (".yaml", ".yml", ".json")

_log = structlog.get_logger(__name__)


class _ConfigMap(msgspec.Struct):
    data: dict[str, str] | None = None


_decoder = msgspec.json.Decoder(_ConfigMap)


class BadPart(ValueError):
    """A key of a ConfigMap that holds something else than is wanted."""


def priorities_of(data: dict[str, str] | None) -> ConfigSet:
    """The priorities of node groups, `at` 0, from their ConfigMap; None: there is none. Pure.

    Whatever is no map of numbers to lists of texts is handed on as the text of what is wrong: the
    expander keeps all groups then, and says so.
    """
    if data is None:
        return ConfigSet(at=0.0, name=PRIORITY_EXPANDER)
    try:
        levels = _levels(data.get(PRIORITIES, ""))
    except BadPart as error:
        problem = f"ConfigMap {PRIORITY_EXPANDER}, {error}"
        return ConfigSet(at=0.0, name=PRIORITY_EXPANDER, data={"error": problem[:MAX_ERROR]})
    return ConfigSet(at=0.0, name=PRIORITY_EXPANDER, data={PRIORITIES: levels})


def _levels(text: str) -> dict[str, list[str]]:
    """Expressions by priority.

    Raises:
        BadPart: the text is something else, or has too many of them; the message names the key and what is valid.
    """
    key, valid = f"key {PRIORITIES!r}", "a mapping of numbers to lists of regular expressions"
    try:
        parsed = yamltext.one(text, key, valid, yamltext.FROM_CLUSTER)
    except yamltext.BadYaml as error:
        raise BadPart(str(error)) from error
    if not isinstance(parsed, dict):
        raise BadPart(f"{key} holds {type(parsed).__name__}: valid is {valid}")
    levels: dict[str, list[str]] = {}
    count = 0
    for level, texts in parsed.items():
        try:
            number = int(level)
        except (TypeError, ValueError, OverflowError) as error:
            raise BadPart(f"{key} has the priority {level!r}: valid is {valid}") from error
        if not isinstance(texts, list):
            raise BadPart(f"{key}, priority {number}: {str(texts)[:40]!r} is no list: valid is {valid}")
        count += len(texts)
        if count > MAX_EXPRESSIONS:
            raise BadPart(f"{key} has more than {MAX_EXPRESSIONS} expressions: valid are fewer")
        levels[str(number)] = [str(expression) for expression in texts]
        if long := [
            expression for expression in levels[str(number)] if len(expression) > expressions.MAX_LENGTH
        ]:
            raise BadPart(
                f"{key}, priority {number}: {long[0][:40]!r}... has {len(long[0])} characters: valid are at most "
                f"{expressions.MAX_LENGTH}"
            )
    return levels


def part_of(key: str) -> str:
    """The name of a part from its key: without the suffix of a file."""
    for suffix in SUFFIXES:
        if key.endswith(suffix):
            return key.removesuffix(suffix)
    return key


def read_part(key: str, text: str) -> ConfigSet:
    """A part's event, `at` 0.

    Raises:
        BadPart: it is no YAML, or no mapping; the message names the key and the place.
    """
    try:
        data: Any = yamltext.one(text, f"key {key!r}", "a mapping of names to values", yamltext.FROM_CLUSTER)
    except yamltext.BadYaml as error:
        raise BadPart(str(error)) from error
    if data is None:
        data = {}
    if not isinstance(data, dict) or not all(isinstance(name, str) for name in data):
        raise BadPart(f"key {key!r} holds {type(data).__name__}: a mapping of names to values is expected")
    try:
        return ConfigSet(at=0.0, name=part_of(key), data=msgspec.json.decode(msgspec.json.encode(data)))
    except (TypeError, msgspec.MsgspecError) as error:
        raise BadPart(f"key {key!r} holds a value that JSON cannot: {error}") from error


def changes(known: dict[str, ConfigSet], data: dict[str, str]) -> tuple[list[ConfigSet], list[BadPart]]:
    """The parts to say, `at` 0, given those said last; what vanished becomes empty. Pure."""
    said: list[ConfigSet] = []
    bad: list[BadPart] = []
    present: set[str] = set()
    for key in sorted(data):
        present.add(part_of(key))
        try:
            part = read_part(key, data[key])
        except BadPart as error:
            bad.append(error)
            continue
        before = known.get(part.name)
        if before is None or before.data != part.data:
            said.append(part)
    for name in sorted(known):
        if name not in present and known[name].data:
            said.append(ConfigSet(at=0.0, name=name))
    return said, bad


async def set_clock(
    log: FactLog,
    appender: Appender,
    clock: Clock,
    *,
    stamp: Stamp,
    speed: float | None,
    log_start: float | None,
    clock_wall: float | None = None,
) -> None:
    """Follow the mapping on the log; start another one when a different speed is asked for.

    Args:
        log: where the mapping lies.
        appender: of part `config`, claimed.
        clock: is set to the mapping in force.
        stamp: the process's stamps.
        speed: log seconds per wall second; None to leave things as they are.
        log_start: log time at which a new mapping starts, seconds; None for the present one.
        clock_wall: wall time of that moment, seconds; None for now.
    """
    record = await log.last(log.subjects.config(CLOCK))
    recorded = registry.read(record.body) if record else None
    if isinstance(recorded, ClockSet):
        clock.set(recorded)
    if speed is not None and (speed != clock.speed or (record is None and log_start is not None)):
        wall = Clock().now() if clock_wall is None else clock_wall
        setting = ClockSet(
            at=0.0, wall=wall, log=clock.log_of(wall) if log_start is None else log_start, speed=speed
        )
        clock.set(setting)
        at = stamp.now()
        setting = msgspec.structs.replace(setting, at=at)
        await appender.say(
            [(log.subjects.config(CLOCK), registry.encode(setting))], resource_version="", at=at
        )
        _log.info("clock set", speed=speed, log=setting.log)
    stamp.rebase()


class Configuration:
    """The part `config`: the ConfigMap's parts, and jumps of the clock."""

    def __init__(
        self,
        kube: Kube,
        log: FactLog,
        appender: Appender,
        stamp: Stamp,
        *,
        config_map: str = "",
        priorities: str = f"kube-system/{PRIORITY_EXPANDER}",
        max_age_s: float = 0.0,
        modes: OperatorModes | None = None,
        services: Services = NO_SERVICES,
    ) -> None:
        """`config_map` is `namespace/name`; empty for none. `max_age_s` is the log's.

        `modes` are those of the flags; None leaves those of the log. `services` have them.

        `priorities` is `namespace/name` of the ConfigMap with the priorities of node groups.
        """
        self._kube = kube
        self._log = log
        self._appender = appender
        self._stamp = stamp
        self._config_map = config_map
        self._priorities = priorities
        self._max_age_s = max_age_s
        self._again = Again(log, max_age_s)
        self._turn = asyncio.Lock()
        self._claimed = True
        self._flags = self._wanted = modes
        self._services = services
        self._modes: ModesSet | None = None
        self._other_modes = asyncio.Event()
        self._read = not config_map
        self.looks = False
        """This process owns the part, and the modes on the log are those that are set now."""

    async def first_modes(self) -> None:
        """Say the modes of the flags before anything else is said, so that nobody acts in between.

        The namespaces of a selector are those of the log, or none, until they are seen. Where the ConfigMap
        may say otherwise, what it said last holds until it is read.
        """
        record = await self._log.last(self._log.subjects.config(MODES))
        event = registry.read(record.body) if record else None
        self._modes = event if isinstance(event, ModesSet) else None
        if self._config_map and self._modes is not None:
            self._wanted = None
        elif self._wanted is not None:
            await self._say_modes(self._wanted, known_namespaces(self._modes, self._wanted))

    async def run(self) -> None:
        """Follow for ever; the part is claimed already the first time."""
        await self._appender.keep(self._own, kind=CONFIG)

    async def _own(self) -> None:
        if not self._claimed:
            await self._appender.claim()
        self._claimed = False
        self._again = Again(self._log, self._max_age_s)
        async for record in self._log.last_per_subject([self._log.subjects.configs]):
            event = registry.read(record.body)
            if isinstance(event, ModesSet):
                self._modes = event  # another process may have said others meanwhile
            if isinstance(event, Fact) and record.subject != self._log.subjects.config(WHITELIST_CONFIG_MAP):
                self._again.said(record.subject, event.at)
        self._read, self.looks = not self._config_map, False
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._mind_the_clock())
                tasks.create_task(self._mind_the_modes())
                tasks.create_task(self._say_again())
                if self._config_map:
                    tasks.create_task(self._follow())
                if self._priorities:
                    tasks.create_task(self._follow_priorities())
        finally:
            self.looks = False

    async def _append(self, messages: list[tuple[str, bytes]], at: float) -> None:
        async with self._turn:
            await self._say(messages, at)

    async def _say(self, messages: list[tuple[str, bytes]], at: float) -> None:
        await self._appender.say(messages, resource_version="", at=at)
        for subject, _ in messages:
            if subject != self._jumps:
                self._again.said(subject, at)

    async def _say_again(self) -> None:
        """The configuration in force outlives the log's retention."""
        while self._max_age_s:
            await asyncio.sleep(self._again.check_s)
            async with self._turn:
                at = self._stamp.now()
                if due := await self._again.due(at):
                    await self._say([(subject, registry.encode(fact)) for subject, fact in due], at)

    async def _say_modes(self, desired: OperatorModes, namespaces: tuple[str, ...]) -> None:
        event = event_of(desired, namespaces, self._services)
        if not to_say(self._modes, event):
            return
        event = msgspec.structs.replace(event, at=self._stamp.now())
        await self._append([(self._log.subjects.config(MODES), registry.encode(event))], event.at)
        self._modes = event
        _log.info(
            "modes said", mode=event.mode, services=event.services, selector=event.selector,
            namespaces=len(event.namespaces),
        )  # fmt: skip

    async def _mind_the_modes(self) -> None:
        """Keep the modes on the log to what is wanted, and to the namespaces that are selected."""
        while True:
            self._other_modes.clear()
            following = asyncio.create_task(self._follow_modes(self._wanted))
            other = asyncio.create_task(self._other_modes.wait())
            try:
                await asyncio.wait({following, other}, return_when=asyncio.FIRST_COMPLETED)
                if following.done():
                    following.result()
                    await other
            finally:
                following.cancel()
                other.cancel()

    async def _follow_modes(self, desired: OperatorModes | None) -> None:
        if desired is None:
            self._modes_hold(desired)
        elif not desired.namespaces:
            await self._say_modes(desired, ())
            self._modes_hold(desired)
        else:
            async for names in selected(self._kube, desired.namespaces):
                await self._say_modes(desired, names)
                self._modes_hold(desired)

    def _modes_hold(self, desired: OperatorModes | None) -> None:
        """What is wanted is on the log: that is all, unless the ConfigMap is yet to be read, or says otherwise meanwhile."""
        if self._read and desired == self._wanted:
            self.looks = True

    def _config_is_read(self) -> None:
        if not self._read:
            self._read = True
            self._other_modes.set()

    def _take_modes(self, data: dict[str, str]) -> dict[str, str]:
        """Take the part about the modes out of the ConfigMap's data, and go by it."""
        mine = {key: text for key, text in data.items() if part_of(key) == MODES}
        desired = self._flags
        for key, text in mine.items():
            try:
                desired = read_modes(read_part(key, text).data, self._services)
            except (BadPart, BadModes) as error:
                _log.error(
                    "modes left as they were", config_map=self._config_map, key=key, error=str(error),
                    do="correct the key in the ConfigMap",
                )  # fmt: skip
                desired = self._wanted
        if desired != self._wanted:
            self._wanted = desired
            self._other_modes.set()
        return {key: text for key, text in data.items() if key not in mine}

    @property
    def _jumps(self) -> str:
        """The subject of jumps of the clock: events, which are over when they were said."""
        return self._log.subjects.fact(ALL, CLOCK, "", "watcher")

    async def _mind_the_clock(self) -> None:
        while True:
            jumped = self._stamp.jump()
            if jumped is not None:
                _log.warning("the clock jumped", from_at=jumped.from_at, to_at=jumped.to_at)
                await self._append([(self._jumps, registry.encode(jumped))], jumped.at)
            elif not self._appender.renewal_in_s:
                await self._append([], self._stamp.now())
            await asyncio.sleep(JUMP_CHECK_S)

    async def _follow(self) -> None:
        known: dict[str, ConfigSet] = {}
        async for record in self._log.last_per_subject([self._log.subjects.configs]):
            event = registry.read(record.body)
            if isinstance(event, ConfigSet) and event.name not in (WHITELIST_CONFIG_MAP, PRIORITY_EXPANDER):
                known[event.name] = event  # those are of other ConfigMaps
        namespace, _, name = self._config_map.rpartition("/")
        namespace = namespace or "default"
        source, path = f"{namespace}/{name}", f"/api/v1/namespaces/{namespace}/configmaps"

        def refused(error: KubeError) -> None:
            if not error.retriable:
                self._config_is_read()  # what the log says holds: nobody can see otherwise

        query = {"fieldSelector": f"metadata.name={name}"}
        async for item in list_watch(self._kube, path, query=query, on_error=refused):
            data = _data(item)
            if data is None:
                continue
            said, bad = changes(known, self._take_modes(data))
            self._config_is_read()
            for error in bad:
                _log.error(
                    "configuration left as it was", config_map=self._config_map, error=str(error),
                    do="correct the key in the ConfigMap",
                )  # fmt: skip
            if not said:
                continue
            at = self._stamp.now()
            stamped = [msgspec.structs.replace(part, at=at, source=source) for part in said]
            await self._append([(self._log.subjects.config(p.name), registry.encode(p)) for p in stamped], at)
            for part in stamped:
                known[part.name] = part
                _log.info("configuration said", name=part.name, config_map=self._config_map)

    async def _follow_priorities(self) -> None:
        """The priorities of node groups, from the ConfigMap that the reference reads."""
        subject = self._log.subjects.config(PRIORITY_EXPANDER)
        record = await self._log.last(subject)
        known = registry.read(record.body) if record else None
        said = known.data if isinstance(known, ConfigSet) else {}
        namespace, _, name = self._priorities.rpartition("/")
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        async for item in list_watch(self._kube, path, query={"fieldSelector": f"metadata.name={name}"}):
            data = _data(item)
            if data is None:
                continue
            part = priorities_of(data or None)
            if part.data != said:
                said, at = part.data, self._stamp.now()
                part = msgspec.structs.replace(part, at=at)
                await self._append([(subject, registry.encode(part))], at)
                _log.info("configuration said", name=part.name, config_map=self._priorities)


def _data(item: Item) -> dict[str, str] | None:
    """The ConfigMap's data as of an item of its stream; None for items that say nothing about it."""
    match item:
        case Page(objects=objects):
            return _decoder.decode(objects[0]).data or {} if objects else {}
        case Deleted():
            return {}
        case ListStarted():
            return None
    raw = getattr(item, "raw", None)
    return None if raw is None else _decoder.decode(raw).data or {}
