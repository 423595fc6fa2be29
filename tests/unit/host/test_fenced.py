"""What a service at the edge says of a log that takes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from tidewright.host.fenced import InFlight, Part, Position
from tidewright.log.connection import Committed, Message
from tidewright.log.envelope import Writer
from tidewright.log.errors import LogUnavailable, StoreFull
from tidewright.log.reader import Record


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


async def test_it_is_forgotten_when_the_log_takes_something_again() -> None:
    server, in_flight = Server(LogUnavailable("no answer in 1 s")), InFlight()
    server.again.set()
    await committing(server, in_flight)
    assert server.failed.is_set()
    assert in_flight.problem == ""
