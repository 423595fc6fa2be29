"""Imports that cost more than the question: what libraries import only in case is left out.

An answer is wanted in a fraction of a second. The NATS client imports aiohttp for websockets, and
structlog imports rich for tracebacks: together longer than everything else that an answer takes.
Import this before either of them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without(*names: str) -> Iterator[None]:
    """Have modules be absent for those that can do without them, unless they are there already."""
    absent = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type]  # None is how the import system is told
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]


with without("aiohttp", "rich"):
    import structlog
    from nats.aio import transport


def allow_websockets() -> None:
    """Give the client back what a `ws://` address needs."""
    import aiohttp

    vars(transport)["aiohttp"] = aiohttp


def warn_only() -> None:
    """What the libraries have to say to a person who asks: warnings, and not on stdout."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger("warning"),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
