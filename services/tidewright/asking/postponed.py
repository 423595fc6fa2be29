"""Imports that a library makes only in case, and that cost more than the question: their code runs at the first use.

An answer is wanted in a fraction of a second. The NATS client imports aiohttp and multidict, for websockets alone, which
take as long as everything else that an answer takes, and all of JetStream, which a `Log` does itself. Each module that it
gets is the module itself, found as ever; nobody can tell when its code ran. (`importlib.util.LazyLoader` runs it at the next
`import` statement, which is the client's.)
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any


class _Postponed(ModuleType):
    """A module whose code has not run yet."""

    def __getattr__(self, name: str) -> Any:
        self.__class__ = ModuleType  # type: ignore[assignment]  # from here on it is as every other
        spec = self.__spec__
        if spec is not None and spec.loader is not None:
            if spec.submodule_search_locations is not None:
                self.__path__ = spec.submodule_search_locations
            spec.loader.exec_module(self)
        return getattr(self, name)


def postpone(name: str) -> None:
    """Have the code of a module run when one of its attributes is asked for; the packages around it are imported now.

    One that was imported already, or is not installed, stays as it is.
    """
    if name in sys.modules:
        return
    around, _, last = name.rpartition(".")
    package = find_spec(around) if around else None
    spec = PathFinder.find_spec(name, package.submodule_search_locations if package is not None else None)
    if spec is None:
        return
    module = module_from_spec(spec)
    module.__class__ = _Postponed
    vars(module).pop("__path__", None)  # who imports a submodule asks for it first
    sys.modules[name] = module
    if around:
        setattr(import_module(around), last, module)  # as the import system does after an import


# Whoever asks a log imports this before the NATS client, which imports them for websockets, and for what a `Log` does itself.
postpone("aiohttp")
postpone("multidict")
postpone("nats.js")
