"""What a process knows of the room in the store, and what an append waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from tidewright.log.errors import LogUnavailable
from tidewright.log.room import Room

EMPTY = {"limits": {"max_storage": 1000}, "storage": 0}
FULL = {"limits": {"max_storage": 1000}, "storage": 950}


class Server:
    """Answers when it is let."""

    def __init__(self) -> None:
        self.info: Mapping[str, Any] = EMPTY
        self.answers = asyncio.Event()
        self.answers.set()
        self.asked = 0

    async def ask(self) -> Mapping[str, Any]:
        self.asked += 1
        await self.answers.wait()
        return self.info


class Clock:
    """Monotonic seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


async def turn() -> None:
    """Let other tasks run."""
    for _ in range(3):
        await asyncio.sleep(0)


async def test_the_store_is_asked_again_beside_the_appends_not_before_them() -> None:
    clock = Clock()
    server = Server()
    room = Room(server.ask, clock)
    assert await room.full() == ""
    clock.now_s += 1.5
    server.answers.clear()
    server.info = FULL
    assert await room.full() == ""  # does not wait for the answer
    assert await room.full() == ""
    await turn()
    assert server.asked == 2
    server.answers.set()
    await turn()
    assert "950 of 1000 bytes are used" in await room.full()


async def test_what_is_too_old_is_waited_for() -> None:
    clock = Clock()
    server = Server()
    room = Room(server.ask, clock)
    await room.full()
    clock.now_s += 10
    server.info = FULL
    assert "950 of 1000" in await room.full()


async def test_a_full_store_is_asked_anew_before_the_next_append() -> None:
    clock = Clock()
    server = Server()
    server.info = FULL
    room = Room(server.ask, clock)
    assert await room.full()
    clock.now_s += 1.5
    server.info = EMPTY
    assert await room.full() == ""


async def test_a_server_that_does_not_answer_is_the_next_appends_matter() -> None:
    clock = Clock()
    answers: list[Mapping[str, Any]] = [EMPTY]

    async def ask() -> Mapping[str, Any]:
        if answers:
            return answers.pop()
        raise LogUnavailable("no answer")

    room = Room(ask, clock)
    await room.full()
    clock.now_s += 1.5
    assert await room.full() == ""
    await turn()
    clock.now_s += 1
    with pytest.raises(LogUnavailable):
        await room.full()


async def test_closing_ends_a_question_under_way() -> None:
    clock = Clock()
    server = Server()
    room = Room(server.ask, clock)
    await room.full()
    clock.now_s += 1.5
    server.answers.clear()
    await room.full()
    await turn()
    await room.close()
    assert server.asked == 2
