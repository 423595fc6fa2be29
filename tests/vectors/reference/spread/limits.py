"""Limits read as the original's validation and costs read them [Q-2]."""

from __future__ import annotations

from tidewright.kube.workloadspreads.limits import Limit, percentage, share


def lenient(limit: Limit, replicas: int) -> int:
    """As `strict`, but a `%` may stand anywhere or be missing.

    Raises:
        NotALimit: what is left without `%` is no integer.
    """
    return limit if isinstance(limit, int) else share(percentage(limit), replicas)
