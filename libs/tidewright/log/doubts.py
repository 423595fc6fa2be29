"""What was not believed: counted by cause, and told once for each.

Nobody writes such messages by mistake, so the line is an alert: somebody has got at the bus.
"""

from __future__ import annotations

from collections import Counter
from typing import Protocol

from tidewright.log.belief import SAID, Cause
from tidewright.log.diagnostics import get_logger

REMEMBERED = 4096
"""Messages that are known to be counted: one that is looked up again and again counts once."""

logger = get_logger(__name__)


class Counting(Protocol):
    """What is used of a Prometheus counter with the label `cause`."""

    def labels(self, cause: str, /) -> Incremented: ...


class Incremented(Protocol):
    """One series of a counter."""

    def inc(self) -> None: ...


class Doubts:
    """What one connection has met and not believed."""

    def __init__(self) -> None:
        self.counts: Counter[Cause] = Counter()
        self.metric: Counting | None = None
        self._counted: dict[tuple[str, int], None] = {}

    def tell(self, cause: Cause, stream: str, seq: int, subject: str) -> None:
        """Count a message that is not believed; a warning the first time that a cause is met."""
        if (stream, seq) in self._counted:
            return
        if len(self._counted) >= REMEMBERED:
            del self._counted[next(iter(self._counted))]
        self._counted[stream, seq] = None
        self.counts[cause] += 1
        if self.metric is not None:
            self.metric.labels(cause.value).inc()
        if self.counts[cause] == 1:
            logger.warning(
                "a message on the log is not believed", cause=cause.value, why=SAID[cause], stream=stream, seq=seq,
                subject=subject, do="find out who can publish there; further ones are counted as "
                "tidewright_unbelieved_messages_total and not told one by one",
            )  # fmt: skip
