"""What is said of a log that does not answer: once an outage, however many connections and parts of a process meet it, and that it is over.

While servers look for a leader some questions are answered and others are not, so that an answer alone does not end it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from math import inf
from typing import Final

from tidewright.log.diagnostics import get_logger
from tidewright.log.errors import LogUnavailable

OVER_S: Final = 10.0
"""Wall seconds without a failure after which the next one is another outage: longer than any pause between two attempts."""
CALM_S: Final = 2.0
"""Wall seconds without a failure after which an answer says that it is over."""

_log = get_logger(__name__)


class Outage:
    """Of one process: whoever waits is not ready and says so there, one voice says it here."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._began = self._failed_at = -inf
        self._open = self._left = False

    def met(self, waiting: str, error: Exception) -> None:
        """Something was not answered; `waiting` is what waits for it, for people. To be told each time, as it says how long it lasts."""
        if self._fails():
            _log.warning("the log does not answer, going on when it does", waiting=waiting, error=str(error))

    def explains(self, waiting: str, error: Exception) -> bool:
        """Whether an error is that the log does not answer, which is then told: nothing more is to be said of it."""
        if unavailable := isinstance(error, LogUnavailable):
            self.met(waiting, error)
        return unavailable

    @property
    def goes_on(self) -> bool:
        """Whether something was not answered lately: who is not heard of may be there."""
        return self._monotonic() - self._failed_at <= OVER_S

    def answered(self) -> None:
        """Something was answered."""
        if self._open and self._monotonic() - self._failed_at >= CALM_S:
            self._open = False
            _log.info("the log answers again", after_s=round(self._failed_at - self._began, 1))

    def leaves(self) -> bool:
        """Whether this is the first time in an outage that a server is left for another."""
        first, self._left = not self._left, True
        return first

    def _fails(self) -> bool:
        """Whether that is to be said: it is new, or was said to be over."""
        now = self._monotonic()
        new = now - self._failed_at > OVER_S
        said = self._open and not new
        if new:
            self._began, self._left = now, False
        self._failed_at, self._open = now, True
        return not said


OUTAGE: Final = Outage()
"""This process's."""
