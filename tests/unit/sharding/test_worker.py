"""A worker beside an API server that answers as it is told: joining, renewing, handing over, losing its lease."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import msgspec
import pytest

from tests.waiting import until
from tidewright.kube.client import Kube
from tidewright.kube.errors import KubeError
from tidewright.kube.listwatch import Added, Item
from tidewright.sharding import worker as workers
from tidewright.sharding.document import Document, Entry, apply, created
from tidewright.sharding.keyspace import runs, slot_of
from tidewright.sharding.member import NotOwner
from tidewright.sharding.wire import assignment_of
from tidewright.sharding.worker import Worker

SLOTS = 32


class Answer:
    def __init__(self, value: Any) -> None:
        self.body = msgspec.json.encode(value)


class Api:
    """One ShardSet and the records of its members."""

    def __init__(self) -> None:
        self.document = Document()
        apply(self.document, created(SLOTS))
        self.records: dict[str, dict[str, Any]] = {}
        self.news = asyncio.Condition()
        self.spec: dict[str, Any] = {"membership": {"leaseDuration": "30s", "renewInterval": "10s"}}
        self.failing: KubeError | None = None
        self.renewed = 0

    async def request(self, method: str, path: str, *, body: bytes | None = None, **_more: Any) -> Answer:
        if self.failing is not None:
            raise self.failing
        if method == "GET" and "/shardsets/" in path:
            return Answer({"metadata": {"uid": "set-uid"}, "spec": self.spec})
        name = path.rpartition("/")[2]
        if method == "POST":
            made = msgspec.json.decode(body or b"")
            made["metadata"]["resourceVersion"] = "1"
            self.records[made["metadata"]["name"]] = made
            await self.tell()
            return Answer(made)
        if name not in self.records:
            raise KubeError(404, "NotFound", f"{name} not found")
        found = self.records[name]
        if method == "PATCH":
            patch = msgspec.json.decode(body or b"")
            if patch["metadata"]["resourceVersion"] != found["metadata"]["resourceVersion"]:
                raise KubeError(409, "Conflict", "changed")
            found["status"] = {**found.get("status", {}), **patch["status"]}
            self.touch(found)
            self.renewed += 1
            await self.tell()
        return Answer(found)

    def touch(self, record: dict[str, Any]) -> None:
        record["metadata"]["resourceVersion"] = str(int(record["metadata"]["resourceVersion"]) + 1)

    async def tell(self) -> None:
        async with self.news:
            self.news.notify_all()

    async def decide(self, kind: str, member: str = "", slots: list[int] | None = None) -> None:
        """Append to the ledger; whoever watches sees it."""
        entry = Entry(
            kind=cast("Any", kind),
            revision=self.document.revision,
            at=0.0,
            member=member,
            slots=runs(slots or []),
        )
        apply(self.document, entry)
        await self.tell()

    async def list_watch(self, _kube: Kube, _path: str, **_more: Any) -> AsyncIterator[Item]:
        seen = -1
        while True:
            if self.document.revision != seen:
                seen = self.document.revision
                raw = msgspec.json.encode({"status": {"assignment": assignment_of(self.document)}})
                yield Added(raw)
            else:
                async with self.news:
                    await self.news.wait()

    async def until(self, holds: Callable[[], bool]) -> None:
        await until(holds)

    @property
    def record(self) -> dict[str, Any]:
        """The newest record."""
        return list(self.records.values())[-1]

    def member(self) -> str:
        spec = self.record["spec"]
        return f"{spec['member']}#{spec['incarnation']}"


class Calls:
    """The four callbacks, noted."""

    def __init__(self) -> None:
        self.said: list[tuple[str, int]] = []
        self.may_drain = asyncio.Event()
        self.may_drain.set()

    async def prepare(self, slot: int, epoch: int) -> None:
        self.said.append(("prepare", slot))

    async def activate(self, slot: int, epoch: int, checkpoint: str) -> None:
        self.said.append(("activate", slot))

    async def drain(self, slot: int, epoch: int) -> str:
        await self.may_drain.wait()
        self.said.append(("drain", slot))
        return f"at-{slot}"

    async def revoke(self, slot: int, epoch: int) -> None:
        self.said.append(("revoke", slot))


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def running(
    monkeypatch: pytest.MonkeyPatch, api: Api, calls: Calls
) -> AsyncIterator[tuple[Worker, Clock]]:
    monkeypatch.setattr(workers, "list_watch", api.list_watch)
    clock = Clock()
    worker = Worker(cast("Kube", api), calls, namespace="shop", shard_set="orders", name="a", clock=clock)
    task = asyncio.create_task(worker.run())
    await api.until(lambda: bool(api.records))
    await api.decide("join", api.member())
    yield worker, clock
    task.cancel()
    async with asyncio.timeout(90):
        await asyncio.wait({task})


def acting(api: Api) -> str:
    return str(api.record.get("status", {}).get("acting", ""))


async def test_a_worker_joins_with_the_lease_of_its_set_and_acts_on_what_it_is_granted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    api, calls = Api(), Calls()
    async with running(monkeypatch, api, calls) as (worker, clock):
        assert api.record["spec"]["leaseSeconds"] == 30.0
        assert api.record["metadata"]["ownerReferences"][0]["uid"] == "set-uid"
        await api.decide("grant", api.member(), [3, 4])
        await api.until(lambda: acting(api) == "3-4")
        assert worker.guard(3) == 1
        with pytest.raises(NotOwner, match="not held"):
            worker.guard(5)
        assert worker.slot_of("shop/x") == slot_of("shop/x", SLOTS)
        clock.now += 27.0  # the lease less the safety margin of 3 s: a stalled process
        with pytest.raises(NotOwner, match="lease ran out"):
            worker.guard(3)


async def test_an_acknowledgement_follows_the_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    api, calls = Api(), Calls()
    async with running(monkeypatch, api, calls) as (worker, _clock):
        await api.decide("grant", api.member(), [3])
        await api.until(lambda: acting(api) == "3")
        calls.may_drain.clear()
        await api.decide("drain", api.member(), [3])
        renewed = api.renewed
        worker.busy(3, 0.1)
        worker._changed.set()  # a renewal while the drain is under way
        await api.until(lambda: api.renewed > renewed)
        assert api.record["status"]["stopped"] == []
        with pytest.raises(NotOwner, match="Draining"):
            worker.guard(3)
        calls.may_drain.set()
        await api.until(lambda: bool(api.record["status"]["stopped"]))
        assert api.record["status"]["stopped"] == [{"slot": 3, "epoch": 1, "checkpoint": "at-3"}]


async def test_a_taken_lease_ends_the_incarnation_and_another_one_joins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    api, calls = Api(), Calls()
    async with running(monkeypatch, api, calls) as (worker, _clock):
        first = api.member()
        await api.decide("grant", first, [3])
        await api.until(lambda: acting(api) == "3")
        record = api.record
        record["spec"]["taken"] = True
        api.touch(record)
        worker._changed.set()  # its next renewal meets the manager's write
        await api.until(lambda: len(api.records) == 2)
        assert ("revoke", 3) in calls.said
        assert api.member() != first
        with pytest.raises(NotOwner):
            worker.guard(3)


async def test_an_api_server_that_does_not_answer_stops_the_worker_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    api, calls = Api(), Calls()
    async with running(monkeypatch, api, calls) as (worker, clock):
        await api.decide("grant", api.member(), [3])
        await api.until(lambda: acting(api) == "3")
        assert worker.member is not None
        member = worker.member
        api.failing = KubeError(0, "Timeout", "no answer")
        clock.now += 27.0
        assert [task.slot for task in member.tick(clock.now)] == [3]
        assert member.fenced
        api.failing = None


async def test_stopping_hands_everything_over_before_the_lease_is_released(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    api, calls = Api(), Calls()
    async with running(monkeypatch, api, calls) as (worker, _clock):
        await api.decide("grant", api.member(), [3])
        await api.until(lambda: acting(api) == "3")
        worker.stop()
        await api.until(lambda: bool(api.record["status"].get("leaving")))
        assert not api.record["status"]["released"]
        await api.decide("depart", api.member())
        await api.decide("drain", api.member(), [3])
        await api.until(lambda: bool(api.record["status"]["stopped"]))
        await api.decide("release", api.member(), [3])
        await api.until(lambda: bool(api.record["status"]["released"]))
        assert calls.said[-1] in (("drain", 3), ("revoke", 3))
