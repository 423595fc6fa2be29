"""CSV that people bring, line by line within bounds: a file without line ends, or without end, fills no memory."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import TextIO

MAX_LINE = 2**16
"""Characters."""
MAX_LINES = 5_000_000
"""A sample a second for two months."""


def lines(file: TextIO) -> Iterator[str]:
    """The lines of a file, for `csv.reader`.

    Raises:
        csv.Error: one is too long, or there are too many; whoever reads adds file and line.
    """
    for number in range(MAX_LINES + 1):
        line = file.readline(MAX_LINE + 1)
        if not line:
            return
        if len(line) > MAX_LINE:
            raise csv.Error(f"the line has more than {MAX_LINE} characters")
        if number == MAX_LINES:
            raise csv.Error(f"there are more than {MAX_LINES} lines")
        yield line
