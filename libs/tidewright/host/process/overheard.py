"""What libraries and the loop say by Python's own logging: lines like our own, so that whoever reads a process's log reads one form.

Without a handler Python writes such words to stderr as they are: over several lines, with no level and no service, and with
whatever secret is in them.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Any

import structlog


class _Lines(logging.Handler):
    """Writes records as lines of ours."""

    def emit(self, record: logging.LogRecord) -> None:
        structlog.get_logger(record.name).log(
            record.levelno, record.getMessage(), library=record.name, exc_info=record.exc_info
        )


_LINES = _Lines(logging.WARNING)


def configure() -> None:
    """Have warnings and errors of Python's own logging written as structlog is configured to; safe to repeat."""
    logging.getLogger().addHandler(_LINES)


def unawaited(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """The loop's handler of errors that nobody waits for: told as ever, but for a name that was looked up in vain.

    Whoever connects gives up on a server after a while, and looks again. uvloop does not give up on the name then; its
    answer, that there is none, comes to nobody, and once for each time that was tried. That the server is away is said already.
    """
    if isinstance(context.get("exception"), socket.gaierror) and not isinstance(
        context.get("future"), asyncio.Task
    ):
        return
    loop.default_exception_handler(context)
