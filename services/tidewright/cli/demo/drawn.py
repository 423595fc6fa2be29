"""What shows a demo's story while it goes on, and the table of those that draw it anew; for terminals."""

from __future__ import annotations

from typing import Protocol, Self, TypeVar

from rich.console import Console
from rich.live import Live

S_contra = TypeVar("S_contra", contravariant=True)


class View(Protocol[S_contra]):
    """Shows a story that grows."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
    def update(self, story: S_contra) -> None: ...


class Drawn:
    """Shown from entering to leaving, and gone from the terminal then."""

    def __init__(self, *, stderr: bool) -> None:
        self._live = Live(console=Console(stderr=stderr), refresh_per_second=8, transient=True)

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(self, *arguments: object) -> None:
        self._live.__exit__(None, None, None)
