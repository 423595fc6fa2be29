"""What is said of a log that does not answer: each thing once for as long as it lasts, however often and by whomever it is met.

While servers look for a leader some questions are answered and others are not, so that an answer alone does not end it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

OVER_S: Final = 10.0
"""Wall seconds without a failure after which the next one is another outage: longer than any pause between two attempts."""


class Outage:
    """Of one connection."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._said: set[str] = set()
        self._failed_at = float("-inf")

    def is_new(self, what: str) -> bool:
        """Whether this has not been said yet of the outage that goes on; to be asked at each failure, as it says when."""
        now = self._monotonic()
        if now - self._failed_at > OVER_S:
            self._said.clear()
        self._failed_at = now
        if what in self._said:
            return False
        self._said.add(what)
        return True
