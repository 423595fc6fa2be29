"""Where log lines go: standard error as it is when a line is written, not as it was when logging began."""

from __future__ import annotations

import sys
from typing import TextIO, cast

from tidewright.log.disk import is_full


class _Stderr:
    """A stream that outlives what standard error is replaced by, and a logger that is kept for ever.

    What a full disk does not take, where it is a file, is lost: that must end nothing.
    """

    def write(self, text: str) -> int:
        try:
            return sys.stderr.write(text)
        except OSError as error:
            if not is_full(error):
                raise
            return len(text)

    def flush(self) -> None:
        try:
            sys.stderr.flush()
        except OSError as error:
            if not is_full(error):
                raise


STDERR = cast("TextIO", _Stderr())


def warnings_only() -> None:
    """What libraries have to say to a person who types a command: warnings, and not on stdout."""
    import structlog  # by commands that say nothing it is not imported

    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger("warning"),
        logger_factory=structlog.PrintLoggerFactory(STDERR),
    )
