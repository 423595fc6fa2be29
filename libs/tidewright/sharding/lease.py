"""Lease arithmetic (section 3.5): who may act until when, and when a lease may be taken.

All times are seconds on one local clock; a stamp of another host is never compared with it. The
worker counts from before it *sent* its last successful renewal, the manager from when it last
*observed* a change: the worker's interval therefore always ends first, by both margins.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

from tidewright.kube.durations import parse_duration


class LeaseState(StrEnum):
    """How the manager regards a member's lease."""

    READY = "Ready"
    EXPIRED = "Expired"
    RELEASED = "Released"
    TAKEN = "Taken"


class LeaseTimes(msgspec.Struct, frozen=True, kw_only=True):
    """The durations of a lease, in seconds."""

    duration_s: float = 15.0
    renew_interval_s: float = 5.0
    safety_margin_s: float = 3.0
    skew_margin_s: float = 2.0

    @classmethod
    def of_spec(cls, spec: Mapping[str, Any]) -> LeaseTimes:
        """The durations that a ShardSet's spec states, the defaults where it states none.

        Raises:
            ValueError: one of them is no duration; the message names it.
        """
        given = spec.get("membership") or {}
        names = {
            "leaseDuration": "duration_s",
            "renewInterval": "renew_interval_s",
            "safetyMargin": "safety_margin_s",
            "skewMargin": "skew_margin_s",
        }
        return cls(**{own: parse_duration(str(given[name])) for name, own in names.items() if name in given})

    def act_until(self, renew_sent_at: float) -> float:
        """A member may act until here, whenever the answer to its renewal came."""
        return renew_sent_at + self.duration_s - self.safety_margin_s

    def renewed_in_time(self, previous_sent_at: float, acked_at: float) -> bool:
        """Whether a renewal's answer came while the member still acted.

        Later the member has stopped already and comes back only with a new incarnation.
        """
        return acked_at < self.act_until(previous_sent_at)

    def expires_at(self, observed_change_at: float) -> float:
        """The manager may take the lease from here on, if it has observed no further change."""
        return observed_change_at + self.duration_s + self.skew_margin_s

    def state(self, *, observed_change_at: float, now: float, released: bool = False) -> LeaseState:
        """How a manager regards a lease whose record it last saw change at `observed_change_at`.

        A manager that has just started has observed nothing before its start: that moment counts.
        """
        if released:
            return LeaseState.RELEASED
        return LeaseState.EXPIRED if now >= self.expires_at(observed_change_at) else LeaseState.READY

    def worst_gap(self, *, activation_s: float, poll_s: float) -> float:
        """The longest time without an owner after a crash, seconds."""
        return self.duration_s + self.skew_margin_s + poll_s + activation_s
