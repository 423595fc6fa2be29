"""What was said once and stays true, said again before the log forgets it.

For parts that say few things; `diff` keeps the same book for whole kinds of objects.
"""

from __future__ import annotations

import msgspec

from tidewright.events import registry
from tidewright.events.base import Fact
from tidewright.watcher.follow import FactLog

AT_ONCE = 200


class Again:
    """When each subject was said last. Who appends on them asks `due`, and appends that too."""

    def __init__(self, log: FactLog, max_age_s: float) -> None:
        """`max_age_s` is the log's; 0: it keeps everything."""
        self._log = log
        self._max_age_s = max_age_s
        self._at: dict[str, float] = {}

    @property
    def check_s(self) -> float:
        """How often to ask, wall seconds; infinite when never."""
        return min(self._max_age_s / 30, 60.0) if self._max_age_s else float("inf")

    def said(self, subject: str, at: float) -> None:
        """It was said, for the first time or again."""
        self._at[subject] = at

    def forget(self, subject: str) -> None:
        """What was said last there needs no memory."""
        self._at.pop(subject, None)

    async def due(self, now: float) -> list[tuple[str, Fact]]:
        """What to say again at log time `now`, oldest first.

        Raises:
            LogUnavailable: the log cannot be read.
        """
        if not self._max_age_s:
            return []
        before = now - self._max_age_s / 3
        subjects = sorted((s for s, at in self._at.items() if at < before), key=self._at.__getitem__)
        again: list[tuple[str, Fact]] = []
        for subject in subjects[:AT_ONCE]:
            record = await self._log.last(subject)
            fact = registry.read(record.body) if record else None
            if isinstance(fact, Fact):
                again.append((subject, msgspec.structs.replace(fact, at=now, refresh=True)))
            else:
                self.forget(subject)
        return again
