"""A decision's name over all logs. Pure.

An id names a decision within its log: another log, of another cluster on the same cloud or of the same
one begun anew, gives the same ids again. What outlives a log, such as a cloud's memory of orders,
must not take one for the other.
"""

from __future__ import annotations

from hashlib import blake2b

from tidewright.events.base import Decision


def unique(decision: Decision) -> str:
    """The id, and a digest of when it was decided and of what was decided before: the same for every attempt."""
    history = f"{decision.at!r} {decision.prev}"
    return f"{decision.id}.{blake2b(history.encode(), digest_size=6).hexdigest()}"
