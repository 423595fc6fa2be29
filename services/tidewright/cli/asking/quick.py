"""Imports that cost more than the question: what libraries import only in case is left out.

An answer is wanted in a fraction of a second. The NATS client imports aiohttp for websockets, all of
JetStream for what a `Log` does itself, and package metadata to know its own version; structlog is
imported by everybody for a warning that hardly ever comes, and imports rich for tracebacks: together
longer than everything else that an answer takes. Import this before them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any

from tidewright.host.process.stderr import STDERR


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


class _Header(StrEnum):
    """The names by which the client finds out what a message without content says."""

    STATUS = "Status"
    DESCRIPTION = "Description"
    CONSUMER_STALLED = "Nats-Consumer-Stalled"


class Later(ModuleType):
    """Stands for a module, which is imported when more of it is asked for than is known."""

    then: Callable[[ModuleType], None] | None = None
    """Done with the module when it is imported."""

    def __init__(self, name: str, **known: Any) -> None:
        super().__init__(name)
        vars(self).update(known)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.imported(), name)

    def imported(self) -> ModuleType:
        """The module itself; from here on it is what others import, too."""
        if sys.modules.get(self.__name__) is not self:
            return import_module(self.__name__)
        del sys.modules[self.__name__]
        module = import_module(self.__name__)
        if self.then is not None:
            self.then(module)
        return module


class _Logger:
    """A logger of structlog's, which is imported when there is something to say."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, method: str) -> Any:
        return getattr(_saying().get_logger(self._name), method)


@contextmanager
def later(module: Later) -> Iterator[None]:
    """Have a submodule be imported later by those that are imported now, unless it is there already."""
    name = module.__name__
    if name in sys.modules:
        yield
        return
    sys.modules[name] = module
    try:
        yield
    finally:
        del sys.modules[name]  # who imports it from here on gets the real one
    parent, _, child = name.rpartition(".")
    vars(sys.modules[parent])[child] = module


with (
    without("aiohttp", "rich", "importlib.metadata"),
    later(Later("nats.js", api=SimpleNamespace(Header=_Header))),
):
    from nats.aio import transport

sys.modules.setdefault("structlog", Later("structlog", get_logger=_Logger))


def _saying() -> ModuleType:
    found = sys.modules["structlog"]
    if isinstance(found, Later):
        with without("rich"):
            return found.imported()
    return found


def warn_only() -> None:
    """What the libraries have to say to a person who asks: warnings, and not on stdout."""

    def configure(structlog: ModuleType) -> None:
        structlog.configure(
            wrapper_class=structlog.make_filtering_bound_logger("warning"),
            logger_factory=structlog.PrintLoggerFactory(STDERR),
        )

    found = sys.modules["structlog"]
    if isinstance(found, Later):
        found.then = configure
    else:
        configure(found)


def allow_websockets() -> None:
    """Give the client back what a `ws://` address needs."""
    import aiohttp

    vars(transport)["aiohttp"] = aiohttp
