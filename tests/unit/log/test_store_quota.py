"""What a process knows of the room in the store, and what an append waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.nats_server import EmbeddedServer
from tidewright.log import disk
from tidewright.log.connection import Log, Message
from tidewright.log.errors import LogUnavailable, StoreFull
from tidewright.log.store_quota import Room, place_of

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


def room_on(folder: Path) -> Room:
    room = Room(Server().ask)
    room.lies_in(place_of(folder))
    return room


def test_a_disk_of_this_machine_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = disk.Space(tmp_path, 1000, 100)
    monkeypatch.setattr(disk, "space", lambda folder: replace(found, folder=folder))
    assert room_on(tmp_path).no_space == ""
    found = replace(found, free=99)
    assert room_on(tmp_path).no_space.startswith(f"no space left on {tmp_path}: make room on that disk")
    other = Room(Server().ask)
    assert other.no_space == ""  # nothing is known
    other.lies_in(f"another-machine:{tmp_path}")
    assert other.no_space == ""


def test_a_folder_that_is_gone_hinders_nothing(tmp_path: Path) -> None:
    assert room_on(tmp_path / "gone").no_space == ""


async def test_nothing_is_sent_to_a_server_whose_disk_is_full(
    nats: EmbeddedServer, log: Log, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    await log.say_store(tmp_path)
    async with await Log.connect(nats.url, "test", timeout_s=10.0) as other:
        await other.adopt_slots()
        message = Message(other.subjects.config("x"), b"{}")
        await other.commit([message])
        _, before = await other.bounds()
        monkeypatch.setattr(disk, "space", lambda folder: disk.Space(folder, 1000, 0))
        assert other.unable.startswith(f"no space left on {tmp_path}")
        with pytest.raises(StoreFull, match=f"no space left on {tmp_path}"):
            await other.commit([message])
        assert (await other.bounds())[1] == before
        await log.ensure(8)  # an installer changes nothing about it
        await other.adopt_slots()
        assert other.unable
