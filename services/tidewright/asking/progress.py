"""Progress on stderr, on a terminal, for what takes more than a second."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE_S = 1.0

_shown: list[str] = []
"""What a bar is shown for: a terminal takes one at a time, and what runs beside it goes without."""


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Gives a function that is told how many steps were done; it shows nothing before a second has gone by."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
        console=Console(stderr=True), transient=True,
    )  # fmt: skip
    task = bar.add_task(what, total=max(total, 1))
    started = time.monotonic()

    def advance(steps: int) -> None:
        bar.advance(task, steps)
        if not _shown and time.monotonic() - started > PATIENCE_S:
            _shown.append(what)
            bar.start()

    try:
        yield advance
    finally:
        if bar.live.is_started:
            bar.stop()
            _shown.remove(what)
