"""Where log lines go: standard error as it is when a line is written, not as it was when logging began."""

from __future__ import annotations

import sys
from typing import TextIO, cast


class _Stderr:
    """A stream that outlives what standard error is replaced by, and a logger that is kept for ever."""

    def write(self, text: str) -> int:
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()


STDERR = cast("TextIO", _Stderr())
