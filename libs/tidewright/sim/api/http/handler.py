"""From HTTP to verbs and back: the handler of every request.

A request is resolved to a kind and a verb (`request.py`), done (`reading`, `writing`, `subresources`), and
answered as the client wants it: the whole object, a table, or its metadata. What is no resource is served
from here too: discovery, version, health, OpenAPI, and what others have mounted.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import zlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from aiohttp import web
from multidict import CIMultiDict

from tidewright.sim.api import errors
from tidewright.sim.api.api import Api
from tidewright.sim.api.http import discovery, table
from tidewright.sim.api.http.answers import JSON_HEADERS, Answer
from tidewright.sim.api.http.discovery import AGGREGATED, SERVER_VERSION, MountedGroup
from tidewright.sim.api.http.faults import Dropped, Faults, Rule
from tidewright.sim.api.http.openapi import Documents
from tidewright.sim.api.http.request import JSON, Representation, Request, negotiate, parse_query, resolve
from tidewright.sim.api.http.request_log import Entry, RequestLog, digest
from tidewright.sim.api.http.streams import Stream
from tidewright.sim.api.kinds.resources import Kind
from tidewright.sim.api.store.store import Record
from tidewright.sim.api.verbs import reading, subresources, writing
from tidewright.sim.api.verbs.match import matcher
from tidewright.sim.api.verbs.reviews import review
from tidewright.sim.api.verbs.watch import Watch, bookmark_line

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
Object = dict[str, Any]

MAX_BODY_BYTES = 3 * 1024 * 1024
GZIP_FROM_BYTES = 128 * 1024
DEFAULT_WATCH_S = 2700.0
_HEADERS = dict(JSON_HEADERS)
_PLAIN_HEADERS = (("Content-Type", "text/plain; charset=utf-8"), ("X-Content-Type-Options", "nosniff"))
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class Frontend:
    """Handles the requests of one API server."""

    def __init__(self, api: Api, log: RequestLog, *, bookmark_interval_s: float) -> None:
        self._api = api
        self._log = log
        self._bookmark_interval_s = bookmark_interval_s
        self._documents = Documents(api)
        self.faults = Faults()
        self.mounts: dict[str, Handler] = {}  # by path prefix without the last slash
        self.mounted_groups: list[MountedGroup] = []
        self.watches: set[Watch] = set()
        self.on_restart: Callable[[float], None] = lambda _: None  # the server's part of a restart
        self._cache: dict[tuple[str, int], bytes] = {}

    # -- requests -----------------------------------------------------------------------------------

    def simple(self, method: str, target: str) -> bool:
        """Whether `answer` is for this request: one for a resource."""
        del method
        path = target.partition("?")[0]
        return (
            path.count("/") >= (3 if path.startswith("/api/") else 4 if path.startswith("/apis/") else 99)
            and not path.endswith("/")
            and self._mounted(path) is None
        )

    async def answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Answer a simple request; every refusal is a Status."""
        path, _, query_text = target.partition("?")
        agent = headers.get("User-Agent", "")
        rv, request = 0, None
        try:
            if self.faults.rules:
                await self.faults.meet(agent, method, path, query_text)
            query = parse_query(query_text) if query_text else {}
            request = resolve(self._api.registry, method, path, query, headers)
            if request is None:
                answer = refusal(errors.page_not_found())
            elif request.verb == "watch":
                answer = self._watch_answer(request, target, headers)
            else:
                request.body = body
                answer, rv = await self._resource(request, headers)
        except errors.ApiError as error:
            answer = refusal(error)
        except Dropped:
            answer = Answer(b"", 503, dropped=True)
        except RecursionError:
            answer = refusal(errors.bad_request("the object is nested too deeply: exceeded max depth"))
        except Exception as error:  # noqa: BLE001  # a bug here must not look like a dead server
            answer = failure(error)
        noted = request.noted if request is not None else {}
        self._note(method, target, agent, code=answer.code, body=body, rv=rv, noted=noted)
        return answer

    async def handle(self, http: web.BaseRequest) -> web.StreamResponse:
        """Answer any request that comes by way of aiohttp."""
        method, target = http.method, http._message.path  # noqa: SLF001  # the raw target, not parsed twice
        try:
            body = await self._body(http) if http.can_read_body else b""
            if self.simple(method, target) and "watch" not in target:
                return sent(await self.answer(method, target, http.headers, body), http)
        except errors.ApiError as error:
            return sent(refusal(error), http)
        response: web.StreamResponse
        path, _, query_text = target.partition("?")
        agent = http.headers.get("User-Agent", "")
        try:
            if self.faults.rules:
                await self.faults.meet(agent, method, path, query_text)
            response = await self._other_request(http, method, path, query_text, body)
        except errors.ApiError as error:
            response = sent(refusal(error), http)
        except Dropped:
            response = sent(Answer(b"", 503, dropped=True), http)
        except Exception as error:  # noqa: BLE001  # as above
            response = sent(failure(error), http)
        self._note(method, target, agent, code=response.status, body=body, rv=0)
        return response

    def _note(
        self,
        method: str,
        target: str,
        agent: str,
        *,
        code: int,
        body: bytes,
        rv: int,
        noted: dict[str, Any] | None = None,
    ) -> None:
        now_s = self._api.stamps.now_s()
        self._log.add(
            Entry(
                at=now_s, method=method, path=target, user_agent=agent, code=code, body=digest(body), rv=rv,
                noted=noted or {},
            )
        )  # fmt: skip

    @staticmethod
    async def _body(request: web.BaseRequest) -> bytes:
        length = request.content_length
        if length is not None and length > MAX_BODY_BYTES:
            raise errors.too_large(MAX_BODY_BYTES)
        try:
            return await request.read()
        except web.HTTPRequestEntityTooLarge:
            raise errors.too_large(MAX_BODY_BYTES) from None

    async def _other_request(
        self, http: web.BaseRequest, method: str, path: str, query_text: str, body: bytes
    ) -> web.StreamResponse:
        mounted = self._mounted(path)
        if mounted is not None:
            return await mounted(http)
        query = parse_query(query_text) if query_text else {}
        request = resolve(self._api.registry, method, path, query, http.headers)
        if request is None:
            return await self._other(http, method, path)
        request.body = body
        if request.verb == "watch":
            return await self._watch_by_aiohttp(http, request)
        answer, _ = await self._resource(request, http.headers)
        return sent(answer, http)

    async def _resource(self, request: Request, headers: Mapping[str, str]) -> tuple[Answer, int]:
        """The answer to a request for resources that is no watch, and the version of what it wrote."""
        version = request.kind.custom.get(request.version)
        if version is None or not version.deprecation:
            return await self._served(request, headers)
        try:
            answer, rv = await self._served(request, headers)
        except errors.ApiError as error:
            answer, rv = refusal(error), 0
        answer.headers = (*answer.headers, warned(version.deprecation))
        return answer, rv

    async def _served(self, request: Request, headers: Mapping[str, str]) -> tuple[Answer, int]:
        shape = negotiate(headers.get("Accept", ""))
        if request.verb == "list":
            return await self._list(request, shape), 0
        outcome = await self._perform(request)
        if isinstance(outcome, Answer):
            return outcome, 0
        return self._object(request, outcome, shape), outcome.record.rv if outcome.record else 0

    def _mounted(self, path: str) -> Handler | None:
        for prefix, handler in self.mounts.items():
            if path == prefix or path.startswith(prefix + "/"):
                return handler
        return None

    async def _perform(self, request: Request) -> Any:
        api = self._api
        if request.subresource:
            return await subresources.serve(api, request)
        match request.verb:
            case "get":
                return writing.Outcome(reading.get(api, request))
            case "create":
                if not request.kind.custom and request.kind.verbs == ("create",):
                    if request.kind.kind == "Binding":
                        return await subresources.bind(api, request)
                    return writing.Outcome(None, obj=review(request), code=201)
                return await writing.create(api, request)
            case "update":
                return await writing.update(api, request)
            case "patch":
                return await writing.apply_patch(api, request)
            case "delete":
                return await self._delete(request)
            case "deletecollection":
                deleted = await writing.delete_collection(api, request)
                return await self._records(request, deleted, {"resourceVersion": str(api.store.rv)})
        raise errors.method_not_allowed(request.kind.group, request.kind.plural)

    async def _delete(self, request: Request) -> writing.Outcome:
        outcome: writing.Outcome = await writing.delete(self._api, request)
        if outcome.obj is not None or outcome.record is None:
            return writing.Outcome(None, obj=outcome.obj, code=outcome.code)
        kind = request.kind
        details: Object = {"name": request.name}
        if kind.group:
            details["group"] = kind.group
        details |= {"kind": kind.plural, "uid": outcome.record.uid}
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": details,
        }
        return writing.Outcome(outcome.record, obj=status, code=outcome.code)

    # -- objects and lists --------------------------------------------------------------------------

    def _object(self, request: Request, outcome: writing.Outcome, shape: Representation) -> Answer:
        api, kind = self._api, request.kind
        if outcome.obj is None and outcome.record is not None:
            if not shape.form:
                body = api.render(kind, request.version, outcome.record)
            elif shape.table:
                include = request.query.get("includeObject", "Metadata")
                meta = {"resourceVersion": str(outcome.record.rv)}
                body = table.table(
                    api, kind, request.version, records=[outcome.record], metadata=meta, include=include
                )
            else:
                body = api.encode(table.partial(outcome.record.decode()))
        else:
            obj = outcome.obj or {}
            if obj.get("kind") not in {"Status", "Scale"} and request.kind.verbs != ("create",):
                obj = api.to_version(kind, request.version, obj)
            body = api.encode(obj)
        if not outcome.warnings and not request.warnings:
            return Answer(body, outcome.code)
        headers = list(JSON_HEADERS)
        for warning in (*outcome.warnings, *request.warnings):
            headers.append(warned(warning))
        return Answer(body, outcome.code, tuple(headers))

    async def _list(self, request: Request, shape: Representation) -> Answer:
        page = reading.list_page(self._api, request)
        meta: Object = {"resourceVersion": str(page.rv)}
        if page.next_token:
            meta["continue"] = page.next_token
            if page.remaining is not None:
                meta["remainingItemCount"] = page.remaining
        return await self._records(request, page.records, meta, shape)

    async def _records(
        self,
        request: Request,
        records: list[Record],
        meta: Object,
        shape: Representation | None = None,
    ) -> Answer:
        api, kind = self._api, request.kind
        if shape is not None and shape.table:
            include = request.query.get("includeObject", "Metadata")
            body = table.table(api, kind, request.version, records=records, metadata=meta, include=include)
        elif shape is not None and shape.form:
            head = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": meta}
            body = api.encode(head | {"items": [table.partial(record.decode()) for record in records]})
        else:
            if kind.custom or kind.converts:
                items = [api.render(kind, request.version, record) for record in records]
            else:  # items of built-in kinds do not say what they are: the list does
                typed = b'{"apiVersion":"%s","kind":"%s",' % (
                    request.api_version.encode(),
                    kind.kind.encode(),
                )
                items = [
                    b"{" + record.raw[len(typed) :] if record.raw.startswith(typed) else record.raw
                    for record in records
                ]
            head_bytes = b'{"kind":"%s","apiVersion":"%s","metadata":%s,"items":[' % (
                kind.list_name.encode(),
                request.api_version.encode(),
                api.encode(meta),
            )
            body = b"%s%s]}" % (head_bytes, b",".join(items))
        return await self._compressed(request.headers, body)

    @staticmethod
    async def _compressed(headers: Mapping[str, str], body: bytes) -> Answer:
        if len(body) < GZIP_FROM_BYTES or "gzip" not in headers.get("Accept-Encoding", ""):
            return Answer(body)
        # level 1 as the real server; in a thread, because zlib lets go of the interpreter
        packed = await asyncio.to_thread(zlib.compress, body, 1, 16 + zlib.MAX_WBITS)
        return Answer(packed, 200, (*JSON_HEADERS, ("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding")))

    # -- watch --------------------------------------------------------------------------------------

    def _watch_answer(self, request: Request, target: str, headers: Mapping[str, str]) -> Answer:
        """A watch as an answer whose stream begins when it is written."""
        watch, bookmark, timeout_s = self._watch(request, target, headers)
        self.watches.add(watch)
        stream = Stream(watch, bookmark, self._bookmark_interval_s, timeout_s, self.watches.discard)
        return Answer(b"", stream=stream)

    def _watch(
        self, request: Request, target: str, headers: Mapping[str, str]
    ) -> tuple[Watch, Callable[[], bytes] | None, float]:
        """The watch that a request asks for, already listening; its bookmarks; when it ends."""
        api, kind = self._api, request.kind
        if "watch" not in kind.verbs:
            raise errors.method_not_allowed(kind.group, kind.plural)
        shape = negotiate(headers.get("Accept", ""))
        options = reading.watch_options(api, request, DEFAULT_WATCH_S)
        selected = matcher(kind, request.query)
        stored = api.store.table(kind.table_name)
        render, sharing = self._renderer(request, kind, shape)
        watch = Watch(stored, selected, request.namespace, render, sharing)
        watch.target = target
        watch.user_agent = headers.get("User-Agent", "")
        api_version = request.api_version

        def bookmark() -> bytes:
            return bookmark_line(api_version, kind.kind, api.store.rv)

        try:
            if options.from_now or options.initial:
                watch.initial(record for record in stored.scan(request.namespace) if selected.matches(record))
                if options.initial and options.bookmarks:
                    end = bookmark_line(api_version, kind.kind, api.store.rv, initial_end=True)
                    watch.bookmark(lambda: end)
                watch.start()
            elif options.rv > api.store.rv:
                raise errors.too_old(options.rv, api.store.rv)
            else:
                watch.start(stored.since(options.rv) if options.rv else ())
        except errors.ApiError as error:
            watch.error(error)
        return watch, bookmark if options.bookmarks else None, options.timeout_s

    async def _watch_by_aiohttp(self, http: web.BaseRequest, request: Request) -> web.StreamResponse:
        watch, bookmark, timeout_s = self._watch(request, http._message.path, http.headers)  # noqa: SLF001  # as in `handle`
        response = web.StreamResponse(headers=_HEADERS)
        response.enable_chunked_encoding()
        self.watches.add(watch)
        try:
            await response.prepare(http)
            await self._stream(response, watch, bookmark, timeout_s)
        except (ConnectionError, asyncio.CancelledError):
            if http.transport is not None and not http.transport.is_closing():
                raise
        finally:
            watch.stop()
            self.watches.discard(watch)
        return response

    async def _stream(
        self,
        response: web.StreamResponse,
        watch: Watch,
        bookmark: Callable[[], bytes] | None,
        timeout_s: float,
    ) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout_s
        next_bookmark = loop.time() + self._bookmark_interval_s
        while True:
            now = loop.time()
            if now >= end:
                watch.stop()
            wait_s = min(end, next_bookmark if bookmark is not None else end) - now
            data = await watch.lines(max(wait_s, 0.0))
            if data is None:
                await response.write_eof()
                return
            if data:
                await response.write(data)
            if bookmark is not None and loop.time() >= next_bookmark:
                watch.bookmark(bookmark)
                next_bookmark = loop.time() + self._bookmark_interval_s

    def _renderer(
        self, request: Request, kind: Kind, shape: Representation
    ) -> tuple[Callable[[Record], bytes], str]:
        """How this watch shows a record, and the name under which lines may be shared (empty: not at all)."""
        api, version = self._api, request.version
        if shape.table:
            include = request.query.get("includeObject", "Metadata")
            first = [True]

            def rows(record: Record) -> bytes:
                headers, first[0] = first[0], False
                meta = {"resourceVersion": str(record.rv)}
                return table.table(
                    api, kind, version, records=[record], metadata=meta, include=include, headers=headers
                )

            return rows, ""
        if shape.form:
            return (lambda record: api.encode(table.partial(record.decode()))), "metadata:"
        return (lambda record: api.render(kind, version, record)), f"{kind.group}/{version}:"

    # -- what is no resource ----------------------------------------------------------------------

    async def _other(self, http: web.BaseRequest, method: str, path: str) -> web.StreamResponse:
        if path == "/sim/restart" or path == "/sim/faults" or path.startswith("/sim/faults/"):
            return await self.faults.serve(http, self)
        if method not in {"GET", "HEAD"}:
            raise errors.method_not_allowed("", "") if path.startswith("/api") else errors.page_not_found()
        path = path.rstrip("/") or "/"
        if path in {"/healthz", "/livez", "/readyz"} or path.startswith(("/healthz/", "/livez/", "/readyz/")):
            return web.Response(text="ok")
        if path == "/version":
            return web.Response(body=msgspec.json.encode(SERVER_VERSION), headers=_HEADERS)
        if path == "/":
            paths = ["/api", "/api/v1", "/apis", "/healthz", "/openapi/v2", "/openapi/v3", "/version"]
            return web.Response(body=msgspec.json.encode({"paths": paths}), headers=_HEADERS)
        if path.startswith("/openapi/"):
            return await self._documents.serve(http, path)
        return self._discovery(http, path)

    def _discovery(self, http: web.BaseRequest, path: str) -> web.Response:
        parts = path.split("/")[1:]
        registry, mounted = self._api.registry, self.mounted_groups
        accept = http.headers.get("Accept", "")
        document: Object | None = None
        if path in {"/api", "/apis"}:
            if AGGREGATED in accept and "v=v2" in accept.replace("v=v2beta1", ""):
                body = self._cached(
                    f"aggregated {path}",
                    lambda: discovery.aggregated(registry, mounted, core=path == "/api"),
                )
                kind = f"{JSON};g=apidiscovery.k8s.io;v=v2;as={AGGREGATED}"
                return web.Response(body=body, headers={"Content-Type": kind, "Vary": "Accept"})
            if path == "/api":
                document = discovery.core_versions(http.host)
            else:
                document = discovery.group_list(registry, mounted)
        elif parts[0] == "api" and len(parts) == 2:
            document = discovery.resource_list(registry, mounted, "", parts[1])
        elif parts[0] == "apis" and len(parts) == 2:
            document = discovery.group(registry, mounted, parts[1])
        elif parts[0] == "apis" and len(parts) == 3:
            document = discovery.resource_list(registry, mounted, parts[1], parts[2])
        if document is None:
            known = parts[0] == "api" or (parts[0] == "apis" and registry.built_in(parts[1]))
            raise errors.path_not_found() if known else errors.page_not_found()
        return web.Response(body=msgspec.json.encode(document), headers=_HEADERS)

    def resource_list(self, prefix: str) -> web.Response:
        """Discovery of one mounted group and version, by its path."""
        group, version = prefix.split("/")[2:4]
        document = discovery.resource_list(self._api.registry, self.mounted_groups, group, version)
        return web.Response(body=msgspec.json.encode(document), headers=_HEADERS)

    def _cached(self, what: str, make: Callable[[], Any]) -> bytes:
        key = (what, self._api.registry.generation + 1000 * len(self.mounted_groups))
        encoded = self._cache.get(key)
        if encoded is None:
            self._cache = {k: v for k, v in self._cache.items() if k[0] != what}
            encoded = self._cache[key] = msgspec.json.encode(make())
        return encoded

    def strike_watches(self, rule: Rule) -> int:
        """Stall or end the open watches that a fault matches; how many."""
        struck = 0
        for watch in list(self.watches):
            if rule.match.meets("WATCH", watch.target, watch.user_agent):
                struck += 1
                if rule.action.stall:
                    watch.stalled = True
                else:
                    watch.stop()
        return struck

    def restart(self, *, forget: bool, down_s: float = 0.0) -> None:
        """What clients see of a restart: all ends; with `forget`, older versions are Expired from now on."""
        self.close_watches()
        self.on_restart(down_s)
        if forget:
            self._api.store.forget_history()

    def close_watches(self) -> None:
        """End every open watch."""
        for watch in list(self.watches):
            watch.stop()


def warned(warning: str) -> tuple[str, str]:
    """The header that tells a warning."""
    text = _CONTROL.sub(" ", warning).replace("\\", "\\\\").replace('"', '\\"')
    return ("Warning", f'299 - "{text}"')


def refusal(error: errors.ApiError) -> Answer:
    """The answer that tells an error."""
    if error.plain:
        return Answer(error.body, error.code, _PLAIN_HEADERS)
    if error.retry_after_s is None:
        return Answer(error.body, error.code)
    return Answer(error.body, error.code, (*JSON_HEADERS, ("Retry-After", str(error.retry_after_s))))


def failure(error: Exception) -> Answer:
    """The answer when this server itself is wrong."""
    _report(error)
    return refusal(errors.internal(f"{type(error).__name__}: {error}"))


def sent(answer: Answer, http: web.BaseRequest) -> web.Response:
    """An answer by way of aiohttp."""
    if answer.dropped and http.transport is not None:
        http.transport.abort()
    return web.Response(body=answer.body, status=answer.code, headers=CIMultiDict(answer.headers))


def _report(error: Exception) -> None:
    import structlog

    with contextlib.suppress(Exception):
        structlog.get_logger("tidewright.sim.api").error("request failed", exc_info=error)
