"""Loggers for modules that a person's question needs, too: structlog is imported when the first line is written.

structlog imports rich, to print tracebacks, and both together take as long as an answer may. Most answers
say nothing on the way.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

_configuring: list[Callable[[], None]] = []
"""What to call with the first line."""


class _Logger:
    """A logger of structlog's, made at its first line."""

    __slots__ = ("_logger", "_name")

    def __init__(self, name: str) -> None:
        self._name, self._logger = name, None

    def __getattr__(self, method: str) -> Any:
        if self._logger is None:
            self._logger = _made(self._name)
        return getattr(self._logger, method)


def get_logger(name: str) -> Any:
    """As `structlog.get_logger`, whose type is Any, too."""
    return _Logger(name)


def configure_when_used(configure: Callable[[], None]) -> None:
    """Call what configures structlog: before the first line of the loggers here, or now if structlog is there already.

    Where it is configured, as in the process of a service, it stays as it is.
    """
    structlog = sys.modules.get("structlog")
    if structlog is None or getattr(
        structlog.__spec__, "_initializing", False
    ):  # by another thread, half of it
        _configuring[:] = [configure]
    elif not structlog.is_configured():
        configure()


def configured() -> None:
    """Somebody has configured structlog for the whole process: what is yet to be called is not."""
    _configuring.clear()


def _made(name: str) -> Any:
    import structlog

    while _configuring:
        _configuring.pop()()
    return structlog.get_logger(name)
