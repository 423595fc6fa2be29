"""All objects of a kind by one list, where there are few of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tidewright.events.base import JsonObject

Get = Callable[[str], Awaitable[JsonObject]]
"""Reads a path of the API server. Raises KubeError."""


async def short_list(plural: str, most: int, get: Get) -> list[JsonObject] | None:
    """All objects of a kind of the cluster; None if there are more than so many: the list is not read further."""
    page = await get(f"/api/v1/{plural}?limit={most}")
    return None if (page.get("metadata") or {}).get("continue") else list(page.get("items") or ())
