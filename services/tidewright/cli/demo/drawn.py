"""A table that is drawn anew while a story goes on; for terminals."""

from __future__ import annotations

from typing import Self

from rich.console import Console
from rich.live import Live


class Drawn:
    """Shown from entering to leaving, and gone from the terminal then."""

    def __init__(self, *, stderr: bool) -> None:
        self._live = Live(console=Console(stderr=stderr), refresh_per_second=8, transient=True)

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(self, *arguments: object) -> None:
        self._live.__exit__(None, None, None)
