"""The one wait for a condition: it is bounded, and a failure says what was waited for and what was seen last.

    until       in a coroutine; what looks may be one, too
    until_now   in a thread

Both are given a condition without arguments, or what to look at and a condition on that. What a failure says of a
condition that is written as a lambda is its own text, and what the parts of it came to:

    waited 60 s for len(host.owned) == log.slots; seen last: len(host.owned) is 3, log.slots is 4
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import linecache
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import lru_cache
from types import CodeType
from typing import Any, Final, TypeVar, overload

T = TypeVar("T")

WITHIN_S: Final = 60.0
"""Surely too long: on a machine that is busy with others, too."""
EVERY_S: Final = 0.02
MOST_SHOWN: Final = 4000
"""Characters of what was seen last."""
_NOTHING: Final = object()


@overload
async def until(
    look: Callable[[], Awaitable[T]],
    holds: Callable[[T], Any] = ...,
    *,
    what: str = ...,
    within_s: float = ...,
    every_s: float = ...,
) -> T: ...


@overload
async def until(
    look: Callable[[], T],
    holds: Callable[[T], Any] = ...,
    *,
    what: str = ...,
    within_s: float = ...,
    every_s: float = ...,
) -> T: ...


async def until(
    look: Callable[[], Any],
    holds: Callable[[Any], Any] = bool,
    *,
    what: str = "",
    within_s: float = WITHIN_S,
    every_s: float = EVERY_S,
) -> Any:
    """Look until what is seen is as wanted, and hand it back.

    Args:
        look: gives what is to be seen now, or something to await that does.
        holds: says of it whether it is as wanted; by default, whether it is true.
        what: is waited for, for people; by default the text of the condition.

    Raises:
        AssertionError: it is not within `within_s` seconds of the loop's clock, also when a look takes too long.
    """
    seen: Any = _NOTHING
    awaited = False
    limit = asyncio.timeout(within_s)
    try:
        async with limit:
            while True:
                found = look()
                awaited = inspect.isawaitable(found)
                seen = await found if awaited else found
                if holds(seen):
                    return seen
                await asyncio.sleep(every_s)
    except TimeoutError as error:
        if not limit.expired():
            raise
        said = _too_late(look, holds, seen, what=what, within_s=within_s, awaited=awaited)
        raise AssertionError(said) from error


def until_now(
    look: Callable[[], T],
    holds: Callable[[T], Any] = bool,
    *,
    what: str = "",
    within_s: float = WITHIN_S,
    every_s: float = EVERY_S,
) -> T:
    """As `until`, where there is no loop.

    Raises:
        AssertionError: it is not within `within_s` seconds.
    """
    deadline = time.monotonic() + within_s
    while True:
        seen = look()
        if holds(seen):
            return seen
        if time.monotonic() > deadline:
            raise AssertionError(_too_late(look, holds, seen, what=what, within_s=within_s))
        time.sleep(every_s)


def text_of(condition: Callable[..., Any]) -> str:
    """A condition as it is written, if it is a lambda; else its name."""
    body = _body(condition.__code__) if hasattr(condition, "__code__") else None
    if body is not None:
        return ast.unparse(body)
    return str(getattr(condition, "__qualname__", repr(condition))).replace(".<locals>", "")


def _too_late(
    look: Callable[..., Any],
    holds: Callable[..., Any],
    seen: Any,
    *,
    what: str,
    within_s: float,
    awaited: bool = False,
) -> str:
    condition = look if holds is bool else holds
    body = _body(condition.__code__) if hasattr(condition, "__code__") else None
    wanted = what or text_of(condition)
    if not what and condition is not look:
        wanted += f", looking at {text_of(look)}"
    if seen is _NOTHING:
        told = "nothing yet"
    elif seen is False and body is not None and condition is look and not awaited:
        told = ", ".join(_came_to(look, body)) or repr(seen)
    else:
        told = seen if isinstance(seen, str) else repr(seen)
    if len(told) > MOST_SHOWN:
        told = f"{told[:MOST_SHOWN]}... ({len(told)} characters)"
    return f"waited {within_s:g} s for {wanted}; seen last: {told}"


@lru_cache(maxsize=16)
def _lambdas(path: str) -> list[ast.Lambda]:
    tree = ast.parse("".join(linecache.getlines(path)))
    return [node for node in ast.walk(tree) if isinstance(node, ast.Lambda)]


def _body(code: CodeType) -> ast.expr | None:
    """The expression of a lambda; None of anything else."""
    if code.co_name != "<lambda>":
        return None
    places = {(line, column) for line, _, column, _ in code.co_positions() if line is not None}
    for node in _lambdas(code.co_filename):
        body = node.body
        within = [
            place
            for place in places
            if place[1] is not None
            and (body.lineno, body.col_offset) <= place <= (body.end_lineno or 0, body.end_col_offset or 0)
        ]
        if node.lineno == code.co_firstlineno and within:
            return body
    return None


def _came_to(condition: Callable[[], Any], body: ast.expr) -> Iterator[str]:
    """What the parts of a condition are now."""
    names = dict(inspect.getclosurevars(condition).nonlocals)
    names |= {name: p.default for name, p in inspect.signature(condition).parameters.items()}
    scope = {**condition.__globals__, **names}
    for part in _parts(body):
        try:
            value = eval(compile(ast.Expression(part), "<condition>", "eval"), scope)  # a test's own code
        except Exception as error:  # noqa: BLE001  # it may hold for some parts alone: this one is told as it is
            yield f"{ast.unparse(part)} raises {error!r}"
        else:
            yield f"{ast.unparse(part)} is {value!r}"


def _parts(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.BoolOp(values=values):
            for value in values:
                yield from _parts(value)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield from _parts(operand)
        case ast.Compare(left=left, comparators=comparators):
            yield from (part for part in (left, *comparators) if not isinstance(part, ast.Constant))
        case _:
            yield node
