"""Field managers: `metadata.managedFields`."""

from __future__ import annotations

from typing import Any

from tidewright.sim.api.request import Request

Object = dict[str, Any]


def track(request: Request, new: Object, old: Object | None, operation: str, now: str) -> None:
    """Note who set what."""
    new["metadata"].pop("managedFields", None)
