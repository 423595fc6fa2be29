"""Groups that failed are left alone for a while. Spec 3.9, "Backoff".

The first failure backs a group off for the initial time; one after that time has passed doubles it,
up to the maximum; one during it restarts the same time. In backoff while `until >= now`. Forgotten
some hours after the last failure.
"""

from __future__ import annotations

import msgspec

RESET_S = 10_800.0
"""How long a failure counts where nothing else is configured."""


class Entry(msgspec.Struct, kw_only=True):
    """One group's failures.

    Attributes:
        until: log time until which it is left alone, inclusive.
        duration_s: how long the present backoff lasts.
        last: log time of the last failure.
        kept_s: for how long after it this is remembered at least.
    """

    until: float
    duration_s: float
    last: float
    error_class: int = 0
    code: str = ""
    message: str = ""
    kept_s: float = RESET_S

    def ended(self, now: float) -> bool:
        """Whether it may be forgotten, by what was recorded with it."""
        return self.until < now and self.last + self.kept_s < now


def after_failure(
    entry: Entry | None,
    now: float,
    *,
    initial_s: float,
    maximum_s: float,
    error_class: int = 99,
    code: str = "",
    message: str = "",
) -> Entry:
    """The entry after one more failure at `now`."""
    if entry is None:
        duration_s = initial_s
    elif entry.until < now:
        duration_s = min(entry.duration_s * 2, maximum_s)
    else:
        duration_s = entry.duration_s
    return Entry(
        until=now + duration_s,
        duration_s=duration_s,
        last=now,
        error_class=error_class,
        code=code,
        message=message,
    )


def backed_off(entry: Entry | None, now: float) -> bool:
    return entry is not None and entry.until >= now


def stale(entry: Entry, now: float, reset_s: float) -> bool:
    """Whether the last failure is so long ago that it no longer counts."""
    return entry.last + reset_s < now
