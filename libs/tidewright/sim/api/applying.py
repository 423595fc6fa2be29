"""Server-side apply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidewright.sim.api.request import Request
from tidewright.sim.api.writing import Outcome, create_object, modify

if TYPE_CHECKING:
    from tidewright.sim.api.api import Api


async def server_side_apply(api: Api, request: Request, applied: Any) -> Outcome:
    """Merge what a manager applies."""
    from tidewright.sim.api import errors, patch

    table = api.store.table(request.kind.table_name)
    if table.get(request.namespace, request.name) is None:
        return await create_object(api, request, applied)

    def change(old: dict[str, Any]) -> dict[str, Any]:
        new: dict[str, Any] = patch.strategic(old, applied, "", request.kind.kind)
        api.decode(request, new)
        return new

    del errors
    return await modify(api, request, change, [])
