"""The wait for a condition that tests share."""

from __future__ import annotations

import asyncio
import itertools
import re

import pytest

from tests.waiting import MOST_SHOWN, until, until_now


def says(text: str) -> str:
    return f"^{re.escape(text)}$"


async def test_it_hands_back_what_was_seen_when_it_is_as_wanted() -> None:
    numbers = itertools.count()

    async def awaited() -> int:
        return next(numbers)

    assert await until(lambda: next(numbers), lambda n: n == 3, every_s=0) == 3
    assert await until(awaited, lambda n: n == 6, every_s=0) == 6
    assert until_now(lambda: next(numbers), lambda n: n == 9, every_s=0) == 9


async def test_a_wait_in_vain_says_what_for_and_what_was_seen_last() -> None:
    pods, wanted = ["a"], 2
    said = says("waited 0.01 s for len(pods) == wanted; seen last: len(pods) is 1, wanted is 2")
    with pytest.raises(AssertionError, match=said):
        await until(lambda: len(pods) == wanted, within_s=0.01)
    with pytest.raises(AssertionError, match=said):
        until_now(lambda: len(pods) == wanted, within_s=0.01)
    with pytest.raises(
        AssertionError, match=says("waited 0 s for 'b' in found, looking at pods; seen last: ['a']")
    ):
        until_now(lambda: pods, lambda found: "b" in found, within_s=0)
    with pytest.raises(AssertionError, match=says("waited 0 s for two pods; seen last: ['a']")):
        until_now(lambda: pods, lambda found: len(found) == wanted, what="two pods", within_s=0)
    with pytest.raises(AssertionError, match=rf"x\.\.\. \({MOST_SHOWN + 1} characters\)$"):
        until_now(lambda: "x" * (MOST_SHOWN + 1), lambda _: False, within_s=0)


@pytest.mark.parametrize("bound", [3])
def test_each_part_of_a_condition_is_told(bound: int) -> None:
    found: dict[str, int] = {}
    said = "waited 0 s for bound == 3 and (not found or found['a'] > 1); seen last: bound is 3, "
    found["a"] = 1
    with pytest.raises(AssertionError, match=says(f"{said}found is {{'a': 1}}, found['a'] is 1")):
        until_now(lambda: bound == 3 and (not found or found["a"] > 1), within_s=0)

    def there() -> bool:
        return "b" in found

    with pytest.raises(
        AssertionError, match=r"for test_each_part_of_a_condition_is_told\.there; seen last: False"
    ):
        until_now(there, within_s=0)


async def test_what_is_awaited_is_told_as_it_came() -> None:
    async def never(count: int) -> bool:
        return count < 0

    with pytest.raises(AssertionError, match=says("waited 0.01 s for never(3); seen last: False")):
        await until(lambda: never(3), within_s=0.01)


async def test_a_look_that_never_ends_is_a_wait_in_vain() -> None:
    with pytest.raises(AssertionError, match="for an answer; seen last: nothing yet"):
        await until(asyncio.Event().wait, what="an answer", within_s=0.01)


async def test_a_time_out_of_what_looks_is_its_own() -> None:
    def look() -> bool:
        raise TimeoutError("the server's")

    with pytest.raises(TimeoutError, match="the server's"):
        await until(look)
