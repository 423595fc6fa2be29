"""OpenAPI documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

from tidewright.sim.api import errors

if TYPE_CHECKING:
    from tidewright.sim.api.api import Api


async def serve(api: Api, http: web.BaseRequest, path: str) -> web.Response:
    """Answer `/openapi/v2`, `/openapi/v3` and the documents of `/openapi/v3/...`."""
    raise errors.path_not_found()
