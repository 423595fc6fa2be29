"""Tables for people, and text from the log made harmless. One helper for every command.

What the log says was written by others: a name, a label or a message may hold what a terminal obeys. `plain` leaves
nothing of that in a line.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import Any

_OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""Control characters of terminals but for tab and newline, and what turns the direction of text."""

WIDEST = 10_000
"""Columns of an output that is no terminal: nothing is cut off there."""


def plain(text: str) -> str:
    """A text with what a terminal would obey written out, as in Python's strings."""
    return _OBEYED.sub(
        lambda found: f"\\x{ord(found[0]):02x}" if ord(found[0]) < 256 else f"\\u{ord(found[0]):04x}", text
    )


def as_yaml(value: Any) -> str:
    """A value as YAML; what turns the direction of text is escaped there, too."""
    import yaml

    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True)
    return yaml.safe_dump(value, sort_keys=False) if _OBEYED.search(text) else text


def cell(text: str) -> str:
    """The same for one line."""
    return plain(text.replace("\n", " ").replace("\t", " "))


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    cut: bool = True,
    header: bool = True,
    numbers: bool = False,
    least: Sequence[int] = (),
) -> str:
    """Rows under a header, as wide as they are; on a terminal cut to its width, unless not to be `cut`.

    With `numbers`, all columns but the first are numbers, and stand at the right. `least` is how wide columns are at least.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    terminal = sys.stdout.isatty()
    built = Table(box=None, pad_edge=False, show_header=header, header_style="bold", padding=(0, 3, 0, 0))
    for n, column in enumerate(columns):
        width = least[n] if least else None
        built.add_column(
            Text(column), no_wrap=True, min_width=width, justify="right" if numbers and n else "left"
        )
    for row in rows:
        built.add_row(*(Text(cell(text)) for text in row))
    across = shutil.get_terminal_size().columns if terminal and cut else WIDEST
    console = Console(width=across, force_terminal=terminal, highlight=False, markup=False, emoji=False)
    with console.capture() as captured:
        console.print(built, crop=False)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())
