"""What is used of kubernetes_asyncio, without all that it brings: a reader of kubeconfigs, a configuration, a session.

Its packages import every API and every model as soon as any part of them is wanted: 900 modules, 0.15 s of processor time and
37 MB in each process that speaks to a cluster. Objects never pass through its models here. So the parts that are used are
imported beneath packages whose own code is not run; who wants the rest afterwards imports it as ever.
"""

from __future__ import annotations

import importlib
import sys
from functools import cache
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any, Final, NamedTuple

_LIBRARY: Final = "kubernetes_asyncio"
_CLIENT: Final = f"{_LIBRARY}.client"


class Library(NamedTuple):
    """The parts that are used.

    Attributes:
        config: its module that reads kubeconfigs and service accounts.
        configuration: the class of what is read.
        rest: the class that makes a session of it.
    """

    config: Any
    configuration: Any
    rest: Any


class ApiClient:
    """In the place of the library's own, which needs all models, and which nobody here makes one of."""


@cache
def library() -> Library:
    """The parts that are used, imported the first time."""
    if _LIBRARY in sys.modules:
        return _parts()
    try:
        _bare(_LIBRARY)
        client: Any = _bare(_CLIENT)
        client.Configuration = importlib.import_module(f"{_CLIENT}.configuration").Configuration
        client.ApiClient = ApiClient
        return _parts()
    finally:
        for name in [name for name in sys.modules if name == _LIBRARY or name.startswith(f"{_LIBRARY}.")]:
            del sys.modules[name]


def _parts() -> Library:
    return Library(
        config=importlib.import_module(f"{_LIBRARY}.config"),
        configuration=importlib.import_module(f"{_CLIENT}.configuration").Configuration,
        rest=importlib.import_module(f"{_CLIENT}.rest").RESTClientObject,
    )


def _bare(name: str) -> ModuleType:
    """A package of which nothing is run, in its place until it is taken away.

    Raises:
        ModuleNotFoundError: there is none.
    """
    spec = find_spec(name)
    if spec is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    module = sys.modules[name] = module_from_spec(spec)
    return module
