"""Regular expressions that users write: in the syntax of RE2, which the reference has, and in time linear in the text.

With Python's own engine an expression of ten characters can take longer than a service lives.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol, cast

import re2  # type: ignore[import-untyped]  # it has no types

MAX_LENGTH = 512
"""Characters of one expression."""
MAX_MEMORY_BYTES = 2**20
"""Of one compiled expression; the library gives up beyond it."""


class BadExpression(ValueError):
    """An expression that cannot be used; the message quotes it and says why."""


class Expression(Protocol):
    """A compiled expression."""

    def search(self, text: str) -> object | None: ...


def _options() -> re2.Options:
    options = re2.Options()
    options.log_errors = False  # they are told by whoever asked
    options.max_mem = MAX_MEMORY_BYTES
    return options


@lru_cache(maxsize=1024)
def compiled(text: str) -> Expression:
    """An expression, to be looked for anywhere in a text.

    Raises:
        BadExpression: it is none, or is too long.
    """
    if len(text) > MAX_LENGTH:
        raise BadExpression(f"{text[:40]!r}... has {len(text)} characters, at most {MAX_LENGTH}")
    try:
        return cast("Expression", re2.compile(text, _options()))
    except (re2.error, UnicodeError) as error:
        why = error.args[0] if error.args else error
        raise BadExpression(
            f"{text!r} is no regular expression (RE2): {why.decode(errors='replace') if isinstance(why, bytes) else why}"
        ) from error
