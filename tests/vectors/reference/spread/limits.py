"""Limits: read as the original's validation and costs read them [Q-2], and as ours has them in force."""

from __future__ import annotations

from tidewright.kube.workloadspreads import limits
from tidewright.kube.workloadspreads.limits import Limit, percentage, share


def lenient(limit: Limit, replicas: int) -> int:
    """As `strict`, but a `%` may stand anywhere or be missing.

    Raises:
        NotALimit: what is left without `%` is no integer.
    """
    return limit if isinstance(limit, int) else share(percentage(limit), replicas)


def in_force(limit: Limit | None, replicas: int) -> int | None:
    """Places of a subset; none where the limit is no number, None where there is no limit."""
    if limit is None:
        return None
    try:
        return max(0, limits.strict(limit, replicas))
    except limits.NotALimit:
        return 0


def fault(limit: Limit | None) -> str:
    """Why a limit is none, as a condition says it; empty for one that is a number."""
    if limit is None:
        return ""
    try:
        return f"maxReplicas {limit!r} is negative" if limits.strict(limit, 100) < 0 else ""
    except limits.NotALimit as error:
        return str(error)
