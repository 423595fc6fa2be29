"""The clouds and their node groups, polled on an interval of log time, as facts.

Each cloud has a task of its own: one that fails or hangs holds up no other. Often while something is under
way (instances being made or deleted, a size that its instances do not have yet), the less often the longer nothing of
it has changed; seldom otherwise, and ever more seldom while it, or a group of it, cannot be read. What reads as it did before gives
no fact. A group that cannot be read several times in a row is said again with the error: its last known
sizes stand, and nobody grows it meanwhile. So is a cloud.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping, Sequence

import msgspec
import structlog

from tidewright.cloud.calls import pause_s
from tidewright.cloud.errors import CloudError, Conflict, Invalid, Unavailable
from tidewright.cloud.provider import Group, Promise, Provider
from tidewright.cloud.providers import NONE, CloudSpec
from tidewright.events import registry
from tidewright.events.base import Fact
from tidewright.events.facts import ObjectFact
from tidewright.events.provisioning import CloudGone, CloudObserved, NodeGroupGone, NodeGroupObserved
from tidewright.log.clock import Clock
from tidewright.log.reader import Record
from tidewright.log.subjects import ALL, unescape
from tidewright.watcher.appender import Appender
from tidewright.watcher.claims import Claims
from tidewright.watcher.diff import digest_of, is_gone
from tidewright.watcher.follow import FactLog
from tidewright.watcher.log_time import Stamp
from tidewright.watcher.nodegroups import busy, read
from tidewright.watcher.served import Served

NODE_GROUP = "nodegroup"
CLOUD = "cloud"
READY, FAILING, ABSENT = "ready", "failing", "absent"
INTERVAL_S = 10.0
"""Log time between two polls while nothing is under way."""
BUSY_INTERVAL_S = 1.0
"""Log time between two polls while something is, soon after something has changed."""
BUSY_PART = 0.1
"""The part of the time since then that passes between two polls later on: a machine that takes minutes costs few calls."""
FLOOR_WALL_S = 0.2
"""No two polls are closer than this on the wall, however fast log time runs."""
POLL_S = 300.0
"""Wall seconds that one poll of a cloud may take, with all its calls."""
FAILURES_BEFORE_SAID = 3
"""Polls in a row that something cannot be read before that is a fact: clouds stumble."""
AGAIN_S = 60.0
"""Log time after which a cloud that only adds is said again: that its groups are still so is news there."""
READS = 3
"""Attempts to read a group within one poll."""
CONCURRENCY = 8
PART = 32
"""Groups that are told together: the first time each may cost several calls."""
NONSENSE = (ValueError, LookupError, TypeError, AttributeError, msgspec.MsgspecError)
"""What comes of an answer that says something else than it should: of one cloud or group, which stops no other."""
_OF_ONE_ANSWER = re.compile(r"(?=\S{40}|(?:[^\s\d]*\d){4})\S+")
"""Words with four digits or more, and very long ones."""
NOT_CONFIGURED = CloudObserved(at=0.0, name=NONE, state=ABSENT)

_log = structlog.get_logger(__name__)


class Names:
    """What groups are called on the log: their id, and `CLOUD/ID` where another cloud had one of that id first.

    A name that was given stays, over restarts too: it is what all that is remembered of a group goes by.
    """

    def __init__(self) -> None:
        self._names: dict[tuple[str, str], str] = {}
        self._whose: dict[str, tuple[str, str]] = {}

    def keep(self, name: str, cloud: str, group_id: str) -> None:
        """Take in what was said before."""
        self._names[cloud, group_id] = name
        self._whose[name] = (cloud, group_id)

    def name(self, cloud: str, group_id: str) -> str:
        """The name of a cloud's group."""
        known = self._names.get((cloud, group_id))
        if known is not None:
            return known
        name = group_id
        while name in self._whose:  # the second time: another cloud's own id is just this
            name = f"{cloud}/{name}"
        self.keep(name, cloud, group_id)
        return name

    def forget(self, name: str) -> None:
        """The group is gone."""
        whose = self._whose.pop(name, None)
        if whose is not None:
            self._names.pop(whose, None)


class CloudReader:
    """One cloud: what is new about its groups, and about itself."""

    def __init__(
        self,
        spec: CloudSpec,
        provider: Provider,
        names: Names,
        stamp: Stamp,
        *,
        claims: Claims | None = None,
        served: Served | None = None,
        max_age_s: float = 0.0,
    ) -> None:
        """`claims`, `served`: of all clouds; None for a cloud that is alone, and where nobody serves any."""
        self.polls = 0
        self.failures = 0
        self.synced = asyncio.Event()
        self.spec = spec
        self.state = CloudObserved(
            at=0.0, name=spec.name, kind=spec.kind, promise=provider.promise.value, state=READY
        )
        """As of the last poll."""
        self.provider = provider
        self._names = names
        self._claims = claims if claims is not None else Claims()
        self._served = served if served is not None else Served()
        self._stamp = stamp
        self._max_age_s = max_age_s
        self._said: dict[str, tuple[bytes, float]] = {}
        self._last: dict[str, NodeGroupObserved] = {}
        self._unread: set[str] = set()
        """Groups whose last word cannot be read, until the cloud has been read."""
        self._failed: dict[str, tuple[int, CloudError]] = {}
        """Groups that cannot be read: how often in a row, and why."""
        self._error: CloudError | None = None
        self._failed_polls = 0
        self._changed_at = float("-inf")
        """Log time at which a group last read otherwise than before."""
        self._cloud_said: tuple[CloudObserved, float] | None = None
        self._limit = asyncio.Semaphore(CONCURRENCY)

    def keep(self, fact: NodeGroupObserved | CloudObserved) -> None:
        """Take in what was said before."""
        if isinstance(fact, CloudObserved):
            self._cloud_said = (msgspec.structs.replace(fact, at=0.0, refresh=False), fact.at)
            self.state = msgspec.structs.replace(self.state, refreshed=fact.refreshed)
        else:
            self._said[fact.name] = (digest_of(fact), fact.at)
            self._last[fact.name] = fact
            self._claims.judged(fact)

    @property
    def pause_s(self) -> tuple[float, float]:
        """How long until the next poll: seconds of log time that it may be at most, and least seconds on the wall."""
        least_s = FLOOR_WALL_S
        if self._error is not None:
            least_s = max(least_s, pause_s(self._error, self._failed_polls))
        if any(busy(fact) for fact in self._last.values() if not fact.error):
            still_s = self._stamp.now() - self._changed_at
            return min(max(BUSY_INTERVAL_S, BUSY_PART * still_s), INTERVAL_S), least_s
        again = (pause_s(error, failures) for failures, error in self._failed.values())
        return min([INTERVAL_S, *again]), least_s

    async def poll(self) -> list[ObjectFact]:
        """What is new about all groups, by name, then about the cloud; `at` 0 for what is as of when it is said."""
        return [fact async for part in self.parts() for fact in part]

    async def parts(self) -> AsyncGenerator[list[ObjectFact], None]:
        """The same part by part as it is read, so that no group waits for hundreds of others."""
        self.polls += 1
        began = self._stamp.now()
        until = asyncio.get_running_loop().time() + POLL_S
        try:
            async with asyncio.timeout_at(until):
                await self.provider.refresh()
            groups = sorted(self.provider.node_groups(), key=lambda group: group.id)
            for start in range(0, len(groups), PART):
                part = groups[start : start + PART]
                async with asyncio.timeout_at(until):
                    answers = await asyncio.gather(*map(self._ask, part))
                yield self._facts(part, answers, began)
        except TimeoutError:
            slow = Unavailable(f"cloud {self.spec.name}: not read within {POLL_S:g} s", code="Timeout")
            yield self._away(slow)
        except CloudError as error:
            yield self._away(error)
        except NONSENSE as error:
            yield self._away(_unreadable(f"cloud {self.spec.name}", error))
        else:
            there = {self._names.name(self.spec.name, group.id) for group in groups}
            was, self._unread = {*self._said, *self._unread}, set()
            yield [self.gone(name) for name in sorted(was - there)]
            self._error, self._failed_polls = None, 0
            refreshed = self.state.refreshed if self._failed else began
            self.state = msgspec.structs.replace(
                self.state, state=READY, error="", message="", refreshed=refreshed
            )
        yield self._cloud()

    def _away(self, error: CloudError) -> list[ObjectFact]:
        """The whole cloud could not be read."""
        self._error, self._failed_polls = error, self._failed_polls + 1
        if not error.retriable or self._failed_polls >= FAILURES_BEFORE_SAID or self._cloud_said is None:
            self.state = msgspec.structs.replace(
                self.state, state=FAILING, error=error.reason, message=error.message
            )
        return self._unreadable(sorted(self._said), error)

    def _cloud(self) -> list[ObjectFact]:
        now, state = self._stamp.now(), self.state
        if self._cloud_said is not None:
            said, at = self._cloud_said
            same = msgspec.structs.replace(said, refreshed=state.refreshed, message=state.message) == state
            old = bool(self._max_age_s) and now - at > self._max_age_s / 3
            looked = self.provider.promise is Promise.DELTA and state.refreshed >= said.refreshed + AGAIN_S
            if same and not looked:
                if not old:
                    return []
                self._cloud_said = (said, now)
                return [msgspec.structs.replace(said, refresh=True)]
        self._cloud_said = (state, now)
        return [state]

    def _facts(
        self, groups: Sequence[Group], answers: Sequence[NodeGroupObserved | CloudError], began: float
    ) -> list[ObjectFact]:
        facts: list[ObjectFact] = []
        for group, answer in zip(groups, answers, strict=True):
            name = self._names.name(self.spec.name, group.id)
            if isinstance(answer, CloudError):
                facts += self._unreadable([name], answer)
            else:
                self._failed.pop(name, None)
                own_id = "" if name == group.id else group.id
                fact = msgspec.structs.replace(answer, name=name, cloud=self.spec.name, id=own_id)
                fact = self._claims.judged(fact)
                if server := self._served.server(self.spec.kind, group.id):
                    fact = msgspec.structs.replace(
                        fact, error=Conflict.reason, message=self._also_served(group.id, server)
                    )
                self._last[name] = fact
                # Its size may have been read at the very beginning: an order that was answered since is not in it.
                facts += [msgspec.structs.replace(new, at=began) for new in self._if_new(fact)]
        return facts

    def _also_served(self, group_id: str, server: str) -> str:
        return (
            f"group {group_id} of cloud {self.spec.name} is served to others by {server}: end that, or leave the group"
            f" out of --cloud {self.spec.text}"
        )

    def unread(self, name: str) -> None:
        """A group whose last word cannot be read: it is said again when it is read, or that it is gone."""
        self._unread.add(name)

    def gone(self, name: str) -> NodeGroupGone:
        """Forget a group that is no longer there."""
        self._said.pop(name, None)
        self._last.pop(name, None)
        self._failed.pop(name, None)
        self._claims.gone(name)
        self._names.forget(name)
        return NodeGroupGone(at=0.0, namespace="", name=name)

    async def _ask(self, group: Group) -> NodeGroupObserved | CloudError:
        async with self._limit:
            for remaining in reversed(range(READS)):
                try:
                    return await read(group)
                except CloudError as error:
                    if not error.retriable or not remaining:
                        return error
                except NONSENSE as error:
                    return _unreadable(group.id, error)
        raise AssertionError("the last attempt returns")

    def _unreadable(self, names: list[str], error: CloudError) -> list[ObjectFact]:
        self.failures += 1
        _log.info(
            "the cloud did not answer",
            cloud=self.spec.name, groups=len(names), reason=error.reason, error=error.message,
        )  # fmt: skip
        facts: list[ObjectFact] = []
        for name in names:
            failures = self._failed.get(name, (0, error))[0] + 1
            self._failed[name] = (failures, error)
            if failures >= FAILURES_BEFORE_SAID or not error.retriable:
                known = self._last.get(name) or NodeGroupObserved(
                    at=0.0, namespace="", name=name, cloud=self.spec.name
                )
                passing = error.retriable or _lasting(known.message) == _lasting(error.message)
                same = known.error == error.reason and passing
                fact = msgspec.structs.replace(
                    known, at=0.0, refresh=False, error=error.reason,
                    message=known.message if same else error.message,  # what passes is worded otherwise each time
                )  # fmt: skip
                self._last[name] = fact
                facts += self._if_new(fact)
        return facts

    @property
    def unreadable(self) -> list[NodeGroupObserved]:
        """Groups that cannot be read, as was said."""
        return [fact for _, fact in sorted(self._last.items()) if fact.error]

    def _if_new(self, fact: NodeGroupObserved) -> list[ObjectFact]:
        digest = digest_of(fact)
        said = self._said.get(fact.name)
        now = self._stamp.now()
        old = bool(self._max_age_s) and said is not None and now - said[1] > self._max_age_s / 3
        if said is not None and said[0] == digest:
            if not old:
                return []
            fact = msgspec.structs.replace(fact, refresh=True)
        else:
            self._changed_at = now
        self._said[fact.name] = (digest, now)
        return [fact]


class _OfCloud(msgspec.Struct):
    """Of which cloud a group is, in a fact of any version."""

    cloud: str = ""
    id: str = ""


class CloudsWatch:
    """All clouds, onto the log; where there is none, just that."""

    def __init__(
        self,
        providers: Mapping[CloudSpec, Provider],
        log: FactLog,
        appender: Appender,
        stamp: Stamp,
        clock: Clock,
        *,
        interval_s: float = INTERVAL_S,
        max_age_s: float = 0.0,
        served: Served | None = None,
    ) -> None:
        """`providers` by what was configured, in its order; `interval_s` is in log seconds; `max_age_s` is the log's."""
        self._names = Names()
        claims = Claims()
        self._served = served if served is not None else Served()
        self.readers = {
            spec.name: CloudReader(
                spec, provider, self._names, stamp, claims=claims, served=self._served, max_age_s=max_age_s
            )
            for spec, provider in providers.items()
        }
        self._log = log
        self._appender = appender
        self._stamp = stamp
        self._clock = clock
        self._interval_s = interval_s
        self._max_age_s = max_age_s
        self._saying = asyncio.Lock()
        self._none_said: tuple[CloudObserved, float] | None = None

    @property
    def waiting(self) -> list[str]:
        """Clouds that have not been asked yet."""
        return [name for name, reader in self.readers.items() if not reader.synced.is_set()]

    @property
    def note(self) -> str:
        """What is not as it should be, for the readiness probe; empty when all is."""
        if not self.readers:
            return "no cloud is configured"
        texts = []
        for name, reader in self.readers.items():
            if reader.state.error:
                texts.append(f"degraded: cloud {name} does not answer ({reader.state.error})")
            elif groups := reader.unreadable:
                more = f", and {len(groups) - 1} more" if len(groups) > 1 else ""
                texts.append(
                    f"degraded: node group {groups[0].name} of cloud {name} cannot be read ({groups[0].error}){more}"
                )
        return "; ".join(texts)

    async def run(self) -> None:
        """Poll for ever, stepping back while another process does."""
        if not self.readers:
            _log.warning(
                "no cloud is configured: nodes are not ordered", do="give --cloud NAME=KIND[:CONFIG]"
            )
        try:
            await self._appender.keep(self._own, kind=NODE_GROUP)
        finally:
            for reader in self.readers.values():
                await reader.provider.cleanup()

    async def _own(self) -> None:
        position = await self._appender.claim()
        self._stamp.raise_to(position.at)
        await self._say(await self._read_back())
        async with asyncio.TaskGroup() as tasks:
            for reader in self.readers.values():
                tasks.create_task(self._follow(reader))
            tasks.create_task(self._renew())

    async def _follow(self, reader: CloudReader) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            async for facts in reader.parts():
                await self._say(facts)
            reader.synced.set()
            most_s, least_s = reader.pause_s
            wall_s = self._clock.wall_seconds(min(self._interval_s, most_s))
            await self._served.pause(max(0.0, began + max(least_s, wall_s) - loop.time()))

    async def _renew(self) -> None:
        """The checkpoint when it is due, and what a log with a max age would forget."""
        while True:
            await asyncio.sleep(min(max(self._appender.renewal_in_s, FLOOR_WALL_S), 60.0))
            again: list[ObjectFact] = []
            if self._none_said is not None and self._max_age_s:
                fact, at = self._none_said
                if self._stamp.now() - at > self._max_age_s / 3:
                    self._none_said = (fact, self._stamp.now())
                    again = [msgspec.structs.replace(fact, refresh=True)]
            if again or not self._appender.renewal_in_s:
                await self._say(again, renew=True)

    async def _read_back(self) -> Sequence[ObjectFact]:
        """What was said before; returned is what is over since: clouds that are not configured any more."""
        clouds: dict[str, CloudObserved] = {}
        groups: list[NodeGroupObserved] = []
        unread: list[Record] = []
        subjects = self._log.subjects
        patterns = [subjects.facts("*", NODE_GROUP), subjects.facts("*", CLOUD)]
        async for record in self._log.last_per_subject(patterns):
            try:
                fact = registry.decode(record.body)
            except registry.NotAnEvent as error:
                _log.warning("a last word is not readable", subject=record.subject, error=str(error))
                unread.append(record)
                continue
            if isinstance(fact, Fact):
                self._stamp.raise_to(fact.at)
            else:
                unread.append(record)
            if isinstance(fact, NodeGroupObserved):
                groups.append(fact)
            elif isinstance(fact, CloudObserved):
                clouds[fact.name] = fact
        over: list[ObjectFact] = []
        only = next(iter(self.readers.values()), None)
        for group in groups:
            # One that was said when there was one cloud is the first one's.
            reader = self.readers.get(group.cloud) if group.cloud else only
            if reader is not None:
                self._names.keep(group.name, reader.spec.name, group.id or group.name)
                reader.keep(group)
            else:
                over.append(NodeGroupGone(at=0.0, namespace="", name=group.name))
        for name, cloud in sorted(clouds.items()):
            if name in self.readers:
                self.readers[name].keep(cloud)
            elif name != NONE or self.readers:
                over.append(CloudGone(at=0.0, namespace="", name=name))
        for record in unread:
            over += self._unread(record)
        if not self.readers:
            self._none_said = (NOT_CONFIGURED, self._stamp.now())
            if NONE not in clouds:
                over.append(NOT_CONFIGURED)
        return over

    def _unread(self, record: Record) -> Sequence[ObjectFact]:
        """A last word says nothing to this version: what is there is said again by its reader; returned is what is over."""
        kind, *_, token = self._log.subjects.parse(record.subject).rest
        name = unescape(token)
        if kind == CLOUD:
            stays = name in self.readers or (name == NONE and not self.readers)
            return [] if stays else [CloudGone(at=0.0, namespace="", name=name)]
        try:
            group = msgspec.json.decode(record.body, type=_OfCloud)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            group = _OfCloud()
        reader = self.readers.get(group.cloud) if group.cloud else next(iter(self.readers.values()), None)
        if reader is None:
            return [NodeGroupGone(at=0.0, namespace="", name=name)]
        self._names.keep(name, reader.spec.name, group.id or name)
        reader.unread(name)
        return []

    async def _say(self, facts: Sequence[ObjectFact], *, renew: bool = False) -> None:
        if not facts and not renew:
            return
        async with self._saying:
            at = self._stamp.now()
            messages = [
                (
                    self._log.subjects.fact(ALL, _kind(fact), "", fact.name),
                    registry.encode(msgspec.structs.replace(fact, at=fact.at or at)),
                )
                for fact in facts
            ]
            await self._appender.say(messages, resource_version="", at=at)
        for fact in facts:
            match fact:
                case CloudObserved(error=error) if error:
                    _log.warning(
                        "a cloud does not answer: what was last read stays in force",
                        cloud=fact.name, kind=fact.kind, reason=error, error=fact.message,
                    )  # fmt: skip
                case CloudObserved() | CloudGone():
                    _log.info("cloud", cloud=fact.name, gone=is_gone(fact))
                case _:
                    _log.info("node group", group=fact.name, gone=is_gone(fact))


def _unreadable(what: str, error: Exception) -> Invalid:
    _log.warning("what a cloud says cannot be read", of=what, exc_info=error)
    return Invalid(f"{what}: what is said of it cannot be read: {error}", code=type(error).__name__)


def _lasting(message: str) -> str:
    """A message without what differs from one answer to the next: times, ids of requests, what is sealed in them."""
    return _OF_ONE_ANSWER.sub("", message)


def _kind(fact: ObjectFact) -> str:
    return CLOUD if isinstance(fact, CloudObserved | CloudGone) else NODE_GROUP
