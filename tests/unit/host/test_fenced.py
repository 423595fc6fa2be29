"""What a service at the edge says of a log that takes nothing, and to whom its parts go."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from structlog.testing import capture_logs

from tests.nats_server import EmbeddedServer
from tests.property.replicas import VirtualLoop
from tests.waiting import until
from tidewright.host.loop import fenced
from tidewright.host.loop.fenced import AGAIN_MOST_S, InFlight, Part, Position, attempts, present
from tidewright.log.connection import Committed, Log, Message
from tidewright.log.envelope import Writer
from tidewright.log.errors import Conflict, LogUnavailable, StoreFull
from tidewright.log.outage import Outage
from tidewright.log.reader import Record
from tidewright.log.subjects import ALL

QUESTION_S = 1.0
"""For how long a service waits for an answer of the log."""


class Server:
    """A log that fails as often as it is told, and says when it has."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.failed = asyncio.Event()
        self.again = asyncio.Event()

    async def commit(self, messages: Sequence[Message]) -> Committed:
        if self.errors:
            self.failed.set()
            raise self.errors.pop(0)
        await self.again.wait()
        return Committed(last_seq=len(messages), count=len(messages))

    async def last(self, subject: str) -> Record | None:
        return None


def committing(server: Server, in_flight: InFlight) -> asyncio.Task[None]:
    part = Part(server, Writer("watcher"), "tw.c.checkpoint.all.watcher.pod", Position, in_flight)
    return asyncio.create_task(part.commit([], Position(at=1.0)))


@pytest.mark.parametrize("error", [LogUnavailable("no answer in 1 s"), StoreFull("the store is full")])
async def test_it_is_known_why_the_log_takes_nothing(error: Exception) -> None:
    server, in_flight = Server(error), InFlight()
    assert in_flight.problem == ""
    task = committing(server, in_flight)
    await server.failed.wait()
    await asyncio.sleep(0)  # until the attempt has told
    assert in_flight.problem == str(error)
    task.cancel()


async def test_a_full_store_is_said_once_however_many_parts_meet_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fenced, "FULL_S", 0.0)
    in_flight = InFlight()
    full = [[StoreFull(f"append on part {n}: the store is full") for _ in range(4)] for n in range(3)]
    with capture_logs() as lines:
        for errors in full:
            server = Server(*errors)
            server.again.set()
            part = Part(server, Writer("watcher"), "tw.c.checkpoint.all.watcher.pod", Position, in_flight)
            committing = asyncio.create_task(part.commit([], Position(at=1.0)))
            await server.failed.wait()
            await part.look()  # what can be read says nothing about what can be written
            if errors is full[-1]:
                await committing
            else:
                committing.cancel()
    said = [line["event"] for line in lines if line["log_level"] in ("error", "info")]
    assert said == ["the log takes nothing, messages wait", "the log takes messages again"]
    assert in_flight.problem == ""


async def test_a_refusal_behind_which_nothing_was_appended_takes_the_part_from_nobody() -> None:
    # As of a leader that the others do not hear: it holds what it could not append against what comes next.
    server, in_flight = Server(*(Conflict("wrong last sequence") for _ in range(3))), InFlight()
    server.again.set()
    part = Part(server, Writer("watcher"), "tw.c.checkpoint.all.watcher.pod", Position, in_flight)
    async with asyncio.timeout(90):
        await part.claim()
    assert not server.errors
    assert (part.position.epoch, in_flight.problem) == (1, "")


async def test_it_is_forgotten_when_the_log_takes_something_again() -> None:
    server, in_flight = Server(LogUnavailable("no answer in 1 s")), InFlight()
    server.again.set()
    await committing(server, in_flight)
    assert server.failed.is_set()
    assert in_flight.problem == ""


class Process:
    """One process with one part, which does nothing once it has it."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.owns = asyncio.Event()
        self._writer, self._in_flight = Writer("watcher"), InFlight()
        subject = log.subjects.checkpoint(ALL, "watcher", "pod")
        self.part = Part(log, self._writer, subject, Position, self._in_flight)
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        async with present(self.log, self._writer, self._in_flight, self.log.max_age_s):
            await self.part.keep(self._own, kind="pod")

    async def _own(self) -> None:
        await self.part.claim()
        self.owns.set()
        try:
            while True:
                await asyncio.sleep(self.part.renewal_in_s)
                if not self.part.renewal_in_s:
                    await self.part.commit([], self.part.position)
        finally:
            self.owns.clear()

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


async def connected(nats: EmbeddedServer) -> Log:
    log = await Log.connect(nats.url, "test", timeout_s=10.0)
    await log.adopt_slots()
    return log


@pytest.fixture
def looking(monkeypatch: pytest.MonkeyPatch) -> None:
    """An owner looks at once whether the part is still its own."""
    monkeypatch.setattr(fenced, "LOOK_S", 0.05)


@pytest.mark.usefixtures("looking")
@pytest.mark.parametrize("how", ["killed", "stopped"])
async def test_a_part_goes_to_another_process_when_its_owner_is_not_there_and_not_before(
    nats: EmbeddedServer, log: Log, how: str
) -> None:
    first = Process(await connected(nats))
    await first.owns.wait()
    second = Process(
        await connected(nats)
    )  # who comes later takes over at once, so that it may be rolled out
    try:
        await until(lambda: second.owns.is_set() and not first.owns.is_set())
        _, end = await log.bounds()
        await asyncio.sleep(2 * fenced.ABSENT_S + 1.0)
        assert second.owns.is_set()
        assert not first.owns.is_set()
        assert await log.bounds() == (1, end)  # a living owner says nothing
        if how == "killed":
            await second.log.client.close()  # as far as the bus can tell
            second.task.cancel()
        else:
            await second.end()
        async with asyncio.timeout(90):
            await first.owns.wait()
        assert await log.bounds() == (1, end + 1)
    finally:
        for one in (first, second):
            await one.end()
            await one.log.close()


@pytest.mark.usefixtures("looking")
async def test_a_checkpoint_is_said_again_before_the_log_forgets_it(nats: EmbeddedServer, log: Log) -> None:
    await log.ensure(slots=8, max_age_s=6.0)  # who is held up for four seconds says it too late
    one = Process(await connected(nats))
    try:
        await one.owns.wait()
        claimed = one.part.position.commit
        checkpoint = log.subjects.checkpoint(ALL, "watcher", "pod")

        async def said() -> int:
            """The commits that were made, all the time with a checkpoint on the log."""
            assert await log.last(checkpoint) is not None
            return one.part.position.commit

        await until(said, lambda commits: commits >= claimed + 4)
        await until(log.bounds, lambda found: found[0] > 1)
    finally:
        await one.end()
        await one.log.close()


@pytest.mark.parametrize("down_s", [4.2, 7.8, 600.0])
def test_a_log_that_is_back_is_asked_soon_however_long_it_was_away(down_s: float) -> None:
    async def outlasted() -> float:
        loop = asyncio.get_running_loop()
        back_at = loop.time() + down_s
        async for attempt in attempts(InFlight()):
            with attempt:
                await asyncio.sleep(0.0 if loop.time() >= back_at else QUESTION_S)
                if loop.time() < back_at:
                    raise LogUnavailable("no answer")
        return loop.time() - back_at

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        assert 0.0 <= runner.run(outlasted()) <= QUESTION_S + AGAIN_MOST_S <= 1.5


async def test_however_many_questions_wait_that_the_log_does_not_answer_is_said_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fenced, "OUTAGE", Outage())

    async def asked(unanswered: int, part: InFlight | None = None) -> None:
        async for attempt in attempts(part):
            with attempt:
                if unanswered:
                    unanswered -= 1
                    raise LogUnavailable("no answer")

    with capture_logs() as logs:
        await asyncio.gather(*(asked(n) for n in (1, 2, 3)), *(asked(n, InFlight()) for n in (1, 2)))
        await asked(1)
    ours = [line["event"] for line in logs if not line["event"].startswith("stamina.")]
    assert ours == ["the log does not answer, going on when it does"]
