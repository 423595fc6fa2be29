"""All clouds onto the log: each in a task of its own, what is over since the last start, and that there is none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, cast

import msgspec

from tests.unit.provisioning.cloud import Cloud, group
from tests.waiting import until
from tidewright.cloud.errors import NotImplementedByCloud, Unavailable
from tidewright.cloud.providers import CloudSpec
from tidewright.events import registry
from tidewright.events.facts import ObjectFact
from tidewright.events.provisioning import CloudGone, CloudObserved, NodeGroupGone, NodeGroupObserved
from tidewright.log.clock import Clock
from tidewright.log.subjects import ALL, Subjects
from tidewright.watcher.clouds import CloudsWatch
from tidewright.watcher.log_time import Stamp
from tidewright.watcher.nodegroups import read


class Log:
    """What was said, and what was said before: as log and appender."""

    renewal_in_s = 60.0

    def __init__(self, *before: ObjectFact) -> None:
        self.subjects = Subjects("test")
        self.before = before
        self.unread: list[tuple[str, bytes]] = []
        self.facts: list[Any] = []

    async def last_per_subject(self, filters: Sequence[str]) -> AsyncIterator[Any]:
        for fact in self.before:
            yield msgspec.defstruct("Record", ["subject", "body"])("s", registry.encode(fact))
        for subject, body in self.unread:
            yield msgspec.defstruct("Record", ["subject", "body"])(subject, body)

    async def keep(self, own: Callable[[], Awaitable[None]], **said: str) -> None:
        await own()

    async def claim(self) -> Any:
        return msgspec.defstruct("Position", [("at", float, 0.0)])()

    async def say(self, messages: Sequence[tuple[str, bytes]], **_: Any) -> None:
        self.facts += [registry.decode(body) for _, body in messages]

    def of(self, kind: type[ObjectFact]) -> list[str]:
        return [fact.name for fact in self.facts if isinstance(fact, kind)]


def watch(log: Log, **clouds: Cloud) -> CloudsWatch:
    clock = Clock(lambda: 1000.0)
    stamp = Stamp(clock.now, lambda: 0.0, lambda: 1.0)
    providers: Any = {CloudSpec(name, "books"): cloud for name, cloud in clouds.items()}
    port: Any = log
    return CloudsWatch(providers, port, port, stamp, clock)


async def test_a_cloud_that_hangs_or_fails_holds_up_no_other() -> None:
    hanging, failing, well = Cloud(group("a")), Cloud(group("b")), Cloud(group("c"))

    async def never() -> None:
        await asyncio.Event().wait()

    hanging.refresh = never  # type: ignore[method-assign]

    def refuse(name: str) -> None:
        raise Unavailable("no answer")

    failing.refuse = refuse
    log = Log()
    clouds = watch(log, hanging=hanging, failing=failing, well=well)
    work = asyncio.create_task(clouds.run())
    await until(lambda: clouds.waiting == ["hanging"] and "failing" in log.of(CloudObserved))
    assert log.of(NodeGroupObserved) == ["c"]
    assert clouds.note == "degraded: cloud failing does not answer (Unavailable)"
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    assert "cleanup" in well.calls


async def test_what_is_not_configured_any_more_is_said_to_be_gone() -> None:
    log = Log(
        CloudObserved(at=1.0, name="none", state="absent"),
        CloudObserved(at=1.0, name="west", kind="books", state="ready"),
        NodeGroupObserved(at=1.0, name="old"),
        NodeGroupObserved(at=1.0, name="w", cloud="west"),
        NodeGroupObserved(at=1.0, name="west/a", id="a", cloud="west"),
    )
    work = asyncio.create_task(watch(log, east=Cloud(group("a"), group("old"))).run())
    await until(lambda: len(log.of(NodeGroupObserved)) == 2)
    work.cancel()
    assert log.of(CloudGone) == ["none", "west"]
    assert log.of(NodeGroupGone) == ["w", "west/a"]
    assert log.of(NodeGroupObserved) == ["a", "old"]


async def test_of_what_a_newer_version_said_it_is_said_that_it_is_gone_or_what_it_is() -> None:
    log = Log()
    for kind, name, of in (
        ("nodegroup", "a", {"cloud": "east"}),
        ("nodegroup", "east/x", {"cloud": "east", "id": "x"}),
        ("nodegroup", "left", {}),
        ("nodegroup", "w", {"cloud": "west"}),
        ("nodegroup", "odd", {"cloud": 7}),
        ("cloud", "west", {}),
        ("cloud", "east", {}),
    ):
        body = {"type": f"fact.{kind}-observed.v9", "at": 1.0, "name": name} | of
        log.unread.append((log.subjects.fact(ALL, kind, "", name), msgspec.json.encode(body)))
    clouds = watch(log, east=Cloud(group("a")))
    work = asyncio.create_task(clouds.run())
    await until(lambda: not clouds.waiting)
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    assert log.of(NodeGroupObserved) == ["a"]
    assert sorted(log.of(NodeGroupGone)) == ["east/x", "left", "odd", "w"]
    assert log.of(CloudGone) == ["west"]
    assert log.of(CloudObserved) == ["east"]


async def test_no_cloud_is_said_once() -> None:
    log = Log()
    clouds = watch(log)
    work = asyncio.create_task(clouds.run())
    await until(lambda: bool(log.facts))
    work.cancel()
    (fact,) = log.facts
    assert (fact.name, fact.state) == ("none", "absent")
    assert clouds.note == "no cloud is configured"
    again = Log(fact)
    work = asyncio.create_task(watch(again).run())
    for _ in range(5):
        await asyncio.sleep(0)
    work.cancel()
    assert again.facts == []


async def test_a_group_that_grows_while_it_is_read_is_told_with_its_size_of_after() -> None:
    """With that of before an order would look as if nothing more were to come of it."""
    asked: list[str] = []

    class Growing:
        """A group whose cloud is asked for machines and size one after the other."""

        id, min_size, max_size = "g", 0, 5
        price_per_hour, atomic, autoprovisioned, machine_type, zone = None, False, False, "", ""
        ignored: tuple[str, ...] = ()
        initial = 0

        async def nodes(self) -> list[Any]:
            asked.append("nodes")
            return []

        async def target_size(self) -> int:
            return 2 * len(asked)

        async def template(self) -> Any:
            raise NotImplementedByCloud("none")

        async def options(self, defaults: Any) -> Any:
            return defaults

    assert (await read(cast("Any", Growing()))).target_size == 2


async def test_a_group_is_as_of_when_its_cloud_was_begun_to_be_read() -> None:
    """A size that was read before an order was answered, and told after it, is none that the answer is in."""
    seconds = iter(range(1000, 2000))
    clock = Clock(lambda: float(next(seconds)))
    cloud, log = Cloud(group("g")), Log()
    read_at = list[float]()

    async def refresh() -> None:
        read_at.append(clock.now())

    cloud.refresh = refresh  # type: ignore[method-assign]
    providers: Any = {CloudSpec("c", "books"): cloud}
    port: Any = log
    work = asyncio.create_task(
        CloudsWatch(providers, port, port, Stamp(clock.now, lambda: 0.0, lambda: 1.0), clock).run()
    )
    await until(lambda: bool(log.of(CloudObserved)))
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    told = {type(fact): fact.at for fact in log.facts}
    assert told[NodeGroupObserved] < read_at[0] < told[CloudObserved]
