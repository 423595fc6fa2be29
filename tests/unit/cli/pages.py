"""Every command of the tree, and its options."""

from __future__ import annotations

from functools import cache

from cyclopts import App
from cyclopts.argument import Argument

from tidewright.cli.main import application


@cache
def _application() -> App:
    return application()


def _app(chain: tuple[str, ...]) -> App:
    app = _application()
    for name in chain:
        app = app[name]
    return app


@cache
def chains() -> tuple[tuple[str, ...], ...]:
    """The names of every command that does something, as they are typed."""
    return tuple(_below(()))


@cache
def groups() -> tuple[tuple[str, ...], ...]:
    """Those of every command that has others below it."""
    return tuple(dict.fromkeys(chain[:n] for chain in chains() for n in range(len(chain))))


def _below(chain: tuple[str, ...]) -> list[tuple[str, ...]]:
    app = _app(chain)
    names = [name for name in app if not name.startswith("-")]
    if not names:
        return [chain]
    return [one for name in names for one in _below((*chain, name))]


def arguments_of(chain: tuple[str, ...]) -> list[Argument]:
    """What a command takes."""
    return [a for a in _app(chain).assemble_argument_collection(parse_docstring=True) if a.show]
