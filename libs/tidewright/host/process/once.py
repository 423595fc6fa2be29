"""Saying a thing once: what strangers cause a thousand times is one line in the log, and a number."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Hashable

AGAIN_S = 300.0
"""Wall time after which a cause that goes on is said again."""
KEPT = 1024
"""Causes that are remembered: they are made by strangers, too."""


class Once:
    """Which causes were said lately."""

    def __init__(self, again_s: float = AGAIN_S) -> None:
        self._again_s = again_s
        self._said: OrderedDict[Hashable, tuple[float, int]] = OrderedDict()

    def due(self, *cause: Hashable) -> int:
        """How often it has come since it was said last, this time included, if it is to be said now; else 0."""
        now = time.monotonic()
        said_at, unsaid = self._said.get(cause, (-self._again_s, 0))
        if now - said_at < self._again_s:
            self._said[cause] = (said_at, unsaid + 1)
            return 0
        self._said[cause] = (now, 0)
        self._said.move_to_end(cause)
        if len(self._said) > KEPT:
            self._said.popitem(last=False)
        return unsaid + 1
