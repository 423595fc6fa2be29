"""Faults of clouds that are reached over HTTP: a proxy that refuses, loses answers, holds them back, and hangs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Self

import aiohttp
from aiohttp import web

from tests.answering import answering
from tidewright.kube.client import Authentication

_HOP = frozenset(
    {"host", "connection", "content-length", "transfer-encoding", "content-encoding", "accept-encoding"}
)


class Proxy:
    """In front of one server.

    Attributes:
        url: where it listens.
        refusal: what the next call is answered with instead of being passed on; None passes.
        losing: the next call that changes something is passed on, and nobody hears of it.
        hanging: no call is answered.
        changes: whether a call (method, path, body) changes something.
        after: what happens in the cloud when a call (method, path) that changes something was passed on.
        answer: a call (method, path, body) that is answered here; None passes it on.
        edit: makes another answer of one (method, path, request's body, answer's body).
    """

    def __init__(
        self, upstream: str, changes: Callable[[str, str, bytes], bool], auth: Authentication | None = None
    ) -> None:
        """`auth`: of an API server, who the proxy is there."""
        self.url = ""
        self.refusal: tuple[int, dict[str, str], bytes] | None = None
        self.losing = False
        self.hanging = False
        self.calls: list[tuple[str, str, bytes]] = []
        self.edit: Callable[[str, str, bytes, bytes], bytes] = lambda method, path, body, answer: answer
        self.after: Callable[[str, str], Awaitable[None]] | None = None
        self.answer: Callable[[str, str, bytes], web.Response | None] = lambda method, path, body: None
        self._upstream = upstream.rstrip("/")
        self._changes = changes
        self._auth = auth
        self._made: asyncio.Event | None = None
        self._may_go = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._session = self._auth.session() if self._auth else aiohttp.ClientSession(auto_decompress=True)
        self._answering = answering(self._handle)
        self.url = await self._answering.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.let_go()
        await self._answering.__aexit__(None, None, None)
        await self._session.close()

    def hold(self) -> asyncio.Event:
        """The next change is made, which the event says, and its answer waits until `let_go`."""
        self._made = asyncio.Event()
        self._may_go.clear()
        return self._made

    def let_go(self) -> None:
        """What was held back is answered."""
        self._may_go.set()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        method, path = request.method, request.path_qs
        self.calls.append((method, path, body))
        if self.hanging:
            await asyncio.Event().wait()
        if self.refusal is not None:
            (status, headers, content), self.refusal = self.refusal, None
            return web.Response(status=status, headers=headers, body=content)
        changes = self._changes(method, path, body)
        if (own := self.answer(method, path, body)) is not None:
            if changes:
                await self._held()
            return self._lost(request) if changes and self.losing else own
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP}
        if self._auth is not None and (token := await self._auth.authorization()):
            headers["Authorization"] = token
        async with self._session.request(
            method, f"{self._upstream}{path}", data=body or None, headers=headers
        ) as answer:
            if answer.headers.get("Transfer-Encoding") == "chunked" and "watch=" in path:
                return await self._stream(request, answer)
            content = self.edit(method, path, body, await answer.read())
            if changes and self.after is not None:
                await self.after(method, path)
            if changes:
                await self._held()
            if changes and self.losing:
                return self._lost(request)
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in _HOP}
            return web.Response(status=answer.status, headers=kept, body=content)

    async def _held(self) -> None:
        if self._made is not None:
            self._made.set()
            self._made = None
            await self._may_go.wait()

    def _lost(self, request: web.BaseRequest) -> web.Response:
        self.losing = False
        if request.transport is not None:
            request.transport.abort()
        return web.Response(status=500)

    async def _stream(self, request: web.BaseRequest, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        response = web.StreamResponse(status=answer.status, headers={"Content-Type": answer.content_type})
        await response.prepare(request)
        async for chunk in answer.content.iter_any():
            await response.write(chunk)
        return response
