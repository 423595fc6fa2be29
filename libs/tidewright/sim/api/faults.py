"""Faults on request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiohttp import web

from tidewright.sim.api import errors

if TYPE_CHECKING:
    from tidewright.sim.api.http import Frontend


class Faults:
    """The rules in force."""

    def __init__(self) -> None:
        self.rules: list[Any] = []

    async def meet(self, http: web.BaseRequest, method: str, path: str, query: str) -> None:
        return None

    async def serve(self, http: web.BaseRequest, frontend: Frontend) -> web.Response:
        raise errors.path_not_found()
