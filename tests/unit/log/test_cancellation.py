"""A cancellation that comes together with an answer is not lost, whoever asked the client."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tidewright.log import errors
from tidewright.log.cancellation import heeded
from tidewright.log.connection import Log, Message

Ask = Callable[[Log], Awaitable[Any]]


@pytest.mark.parametrize(
    "ask",
    [
        lambda log: log.last(log.subjects.config("x")),
        lambda log: log.commit([Message(log.subjects.config("x"), b"1")]),
        lambda log: log.commit([Message(log.subjects.config(f"x{i}"), b"1") for i in range(3)]),
        lambda log: log.bounds(),
        lambda log: log.reader([log.subjects.configs]).fetch(),
    ],
    ids=["last", "append", "batch", "bounds", "fetch"],
)
async def test_a_task_cancelled_in_the_moment_of_its_answer_ends(
    log: Log, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = log.client.request

    async def answered_and_cancelled(*args: Any, **kwargs: Any) -> Any:
        answer = await request(*args, **kwargs)
        # What `wait_for` makes of a cancellation that comes together with the answer: the answer.
        current = asyncio.current_task()
        assert current is not None
        current.cancel()
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            return answer

    monkeypatch.setattr(log.client, "request", answered_and_cancelled)
    task = asyncio.ensure_future(ask(log))
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()


async def test_a_failure_that_hides_a_cancellation_is_the_cancellation() -> None:
    async def failing() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            raise errors.LogUnavailable("nobody answers") from None

    task = asyncio.create_task(heeded(failing()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_who_cleans_up_after_a_cancellation_may_still_ask(log: Log) -> None:
    found: list[int] = []

    async def working() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            found.append((await log.bounds())[1])

    task = asyncio.create_task(working())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert found == [0]  # of an empty stream


async def test_failures_stay_what_they_are() -> None:
    async def failing() -> None:
        raise errors.StoreFull("full")

    with pytest.raises(errors.StoreFull):
        await heeded(failing())
