"""The application: routes, what is sent with every answer, and pages by their templates.

Every page is a GET, and says by its headers that nothing but our own files runs in it. A page that the script asks for
(`X-Part: main`) comes without its frame, so that scrubbing moves what it shows and nothing else.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any
from urllib.parse import quote, unquote

import msgspec
from aiohttp import web
from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from tidewright.asking.errors import BadInput, CommandError, Unavailable, translated
from tidewright.asking.questions import QUESTIONS, ROOT
from tidewright.asking.source import Source
from tidewright.console import api, charts, events, listing, objects, overview, trust, words
from tidewright.console.access import Access
from tidewright.console.apart import Apart, Turns
from tidewright.console.asked import WINDOWS, Looking, Moments
from tidewright.console.backwards import Backwards
from tidewright.console.kept import Kept
from tidewright.console.lists import TITLES, Lists
from tidewright.console.live import Live
from tidewright.console.verifying import Verifying
from tidewright.events.version import __version__
from tidewright.host.fold.explainer import Reference
from tidewright.host.ports.connections import LINGERING_S, Bounds, Site
from tidewright.log.diagnostics import get_logger

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
STATIC = {"console.css": "text/css", "console.js": "text/javascript", "icon.svg": "image/svg+xml"}
SEGMENT = "!$&'()*+,;=:@"
"""What a segment of a path may have as it is, beside letters, digits and `-._~` (RFC 3986)."""
STREAM_S = 50.0
"""For so long a browser is told of what comes, before it asks again: a request does not take longer."""
MENU = (
    ("/", "Overview"), ("/events", "Events"), ("/capacity", "Capacity"), ("/shards", "Shards"),
    ("/what-if", "What if"), ("/trust", "Trust"),
)  # fmt: skip
OPEN = frozenset({"/enter", *(f"/static/{name}" for name in STATIC)})
"""What whoever is not let in yet may have."""

logger = get_logger(__name__)

Page = Callable[[web.Request, Looking], Awaitable[tuple[str, str, Mapping[str, Any]]]]
"""Answers with the name of a template, the title, and what the template is given."""


@dataclass
class Console:
    """The console of one log.

    Attributes:
        following: something may still come on the log.
        verifies: the command that answers `verify -o json` about it, and its environment; none where nothing is verified.
        under: path below which its pages are, `/in/west`; empty for the root.
        others: the consoles of further clusters, which this one serves as well.
        clusters: the clusters of all of them and where their pages are; empty where there is one.
        made: lists of the source that were asked for before.
        turns: in which children work, of all of them together.
    """

    source: Source
    access: Access
    following: bool = True
    verifies: tuple[Sequence[str], dict[str, str]] = ((), {})
    under: str = ""
    others: tuple[Console, ...] = ()
    clusters: Mapping[str, str] = field(default_factory=dict)
    turns: Turns = field(default_factory=Turns)
    made: Lists | None = None
    _bounds: Bounds = field(default_factory=Bounds)
    _runner: web.AppRunner | None = None
    port: int = 0

    def __post_init__(self) -> None:
        self.moments = Moments(self.source, self.under)
        self.lists = self.made or Lists(self.source)
        self.backwards = Backwards(self.source)
        self.live = Live(self.source)
        self.kept = Kept(self.source)
        self.tried = Kept(self.source)
        """Runs of a child: nobody else waits for these."""
        self.apart = Apart(turns=self.turns)
        self.verifying = Verifying(self.source, *self.verifies, self.turns)
        self._background: asyncio.Task[None] | None = None
        self.templates = templates()
        self._static = {name: (files(__package__) / "static" / name).read_bytes() for name in STATIC}

    # -- serving -----------------------------------------------------------------------------------

    def application(self) -> web.Application:
        """All that is answered."""
        app = web.Application(middlewares=[self._bounds.middleware, self._guarded])
        app.router.add_get("/static/{name}", self._file)
        app.router.add_get("/enter", self._enter)
        self.add_routes(app)
        for other in self.others:
            below = web.Application()
            below.router.add_get("", self._to_its_root)
            other.add_routes(below)
            # Not as an application below this one: its prefix is compared as it is written, which a name that has to be escaped never is.
            for resource in below.router.resources():
                resource.add_prefix(routed(other.under))
                app.router.register_resource(resource)
        return app

    def add_routes(self, app: web.Application) -> None:
        """All that is said of this log."""
        app.router.add_get("/live", self._live)
        for path, page in self.pages().items():
            app.router.add_get(path, self._page(page))
        answers = api.Answers(self.source, self.moments, self.lists, self.backwards, self.verifying)
        for name, handler in answers.handlers().items():
            app.router.add_get(f"{ROOT}/{name}", self._answer(handler))

    def pages(self) -> dict[str, Page]:
        """Pages by path."""
        return {
            "/": self._overview,
            "/objects/{kind}": self._listing,
            "/object/{kind}/{namespace}/{name:.+}": self._object,
            "/events": self._events,
            "/capacity": self._capacity,
            "/shards": self._shards,
            "/what-if": self._what_if,
            "/trust": self._trust,
        }

    async def start(self, host: str, port: int) -> None:
        """Serve; port 0 takes a free one, which `port` then names.

        Raises:
            OSError: the address cannot be had.
        """
        self._runner = web.AppRunner(self.application(), access_log=None, lingering_time=LINGERING_S)
        await self._runner.setup()
        await Site(self._runner, host, port, self._bounds).start()
        self.port = self._runner.addresses[0][1]
        for console in (self, *self.others):
            console.begin()

    def begin(self) -> None:
        """Do what is done in the background, whoever looks."""
        self._background = asyncio.create_task(self.verifying.run(), name="verify in the background")

    async def end(self) -> None:
        """Do it no more."""
        if self._background is not None:
            self._background.cancel()
            await asyncio.wait([self._background])
        self.apart.close()

    async def stop(self) -> None:
        """Stop serving."""
        for console in (self, *self.others):
            await console.end()
        if self._runner is not None:
            await self._runner.cleanup()

    @property
    def _guarded(self) -> Any:
        @web.middleware
        async def guarded(
            request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
        ) -> web.StreamResponse:
            response = await self._let_in(request, handler)
            if not response.prepared:
                for name, value in HEADERS.items():
                    response.headers.setdefault(name, value)
            return response

        return guarded

    async def _let_in(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        if problem := self.access.problem(request):
            status = 405 if request.method not in ("GET", "HEAD") else 403
            return web.Response(status=status, text=f"{problem}\n")
        if request.path not in OPEN and not self.access.knows(request):
            if request.rel_url.raw_path.startswith(self._meant(request).under + ROOT):
                return web.json_response(
                    {"error": "who asks is not known: open the console's URL first"}, status=401
                )
            if given := request.query.get("token"):
                # `//name` is another host
                return self._begun(request, given, f"/{request.rel_url.raw_path.lstrip('/')}")
            return self._refused(401, "")
        try:
            return await handler(request)
        except web.HTTPException as error:
            if error.status >= 400:
                meant = self._meant(request)
                if request.rel_url.raw_path.startswith(meant.under + ROOT):
                    valid = ", ".join(question.name for question in QUESTIONS)
                    return web.json_response(
                        {"error": f"there is no such question; valid are {valid}"}, status=error.status
                    )
                return meant.problem(request, error.status, "there is no such page")
            return web.Response(status=error.status, headers={"Location": error.headers.get("Location", "/")})

    def _meant(self, request: web.Request) -> Console:
        """The console whose pages are where a path leads, whether there is such a page or not."""
        path = f"{request.rel_url.raw_path}/"
        return next((other for other in self.others if path.startswith(f"{other.under}/")), self)

    def _here(self, request: web.Request) -> str:
        """The path of a page below where those of this console are."""
        return unquote(request.rel_url.raw_path.removeprefix(self.under))

    # -- letting in --------------------------------------------------------------------------------

    async def _enter(self, request: web.Request) -> web.StreamResponse:
        """Exchange a token for a cookie: of the URL where it holds once, of a header otherwise."""
        kind, _, given = request.headers.get("Authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return self._begun(request, given.strip(), "/")
        if token := request.query.get("token"):
            return self._begun(request, token, "/")
        return self._refused(401, "")

    def _begun(self, request: web.Request, token: str, onward: str) -> web.Response:
        session = self.access.exchanged(token)
        if session is None:
            return self._refused(
                401,
                "This token does not hold, or not any more: it lets in once, and a new one is made at each start.",
            )
        query = {name: value for name, value in request.query.items() if name != "token"}
        location = request.rel_url.with_path(onward, encoded=True).with_query(query)
        response = web.Response(status=303, headers={"Location": str(location)})
        response.set_cookie(
            self.access.cookie(request), session, httponly=True, samesite="Lax", path="/", secure=self.access.secure,
            max_age=7 * 86_400,
        )  # fmt: skip
        return response

    def _refused(self, status: int, problem: str) -> web.Response:
        body = self.templates.get_template("enter.html").render(
            problem=problem, asks=self.access.tokens is not None, proxy=self.access.proxy_header
        )
        return web.Response(status=status, text=body, content_type="text/html")

    async def _to_its_root(self, request: web.Request) -> web.StreamResponse:
        """To the first page of a further cluster, from its name without the last slash."""
        location = request.rel_url.with_path(f"{request.rel_url.raw_path}/", encoded=True, keep_query=True)
        return web.Response(status=303, headers={"Location": str(location)})

    # -- answers -----------------------------------------------------------------------------------

    async def _file(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        if name not in self._static:
            raise web.HTTPNotFound
        return web.Response(
            body=self._static[name],
            content_type=STATIC[name],
            charset="utf-8",
            headers={"Cache-Control": "no-cache"},
        )

    async def _live(self, request: web.Request) -> web.StreamResponse:
        """Where the log ends, whenever it ends elsewhere, as server-sent events."""
        response = web.StreamResponse(headers={**HEADERS, "Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"retry: 1000\n\n")
        last, until = 0, time.monotonic() + STREAM_S
        async with self.live.watched() as live:
            while self.following and (remaining := until - time.monotonic()) > 0:
                moved = await live.beyond(last, min(remaining, 15.0))
                try:
                    await response.write(
                        f"data: {moved}\n\n".encode() if moved != last else b": still here\n\n"
                    )
                except ConnectionResetError:  # whoever looked has left
                    break
                last = moved
        return response

    def _page(self, page: Page) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def answered(request: web.Request) -> web.StreamResponse:
            try:
                with translated():
                    looking = await self.moments.looking(request.query)
                    if (
                        looking.at != request.query.get("at", "").strip()
                    ):  # a link shows tomorrow what is seen now
                        location = str(request.rel_url.update_query(at=looking.at))
                        return web.Response(status=303, headers={"Location": location})
                    template, title, given = await page(request, looking)
                return self._rendered(request, template, title, looking, given)
            except BadInput as error:
                return self.problem(request, 400, str(error))
            except Unavailable as error:
                return self.problem(request, 503, str(error))
            except CommandError as error:
                return self.problem(request, 500, str(error))

        return answered

    def _answer(self, handler: api.Handler) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def answered(request: web.Request) -> web.StreamResponse:
            status, error = 200, ""
            try:
                with translated():
                    answer = await handler(request.query)
            except BadInput as problem:
                status, error = 400, str(problem)
            except CommandError as problem:
                status, error = 503, str(problem)
            body = msgspec.json.encode({"error": error} if error else answer)
            return web.Response(status=status, body=body, content_type="application/json")

        return answered

    def _rendered(
        self, request: web.Request, template: str, title: str, looking: Looking, given: Mapping[str, Any]
    ) -> web.Response:
        body = self.templates.get_template(template).render(
            **given,
            title_=title, looking=looking, menu=MENU, here=self._here(request), log=self.source.name, windows=tuple(WINDOWS),
            under=self.under, clusters=self.clusters,
            frame="part.html" if request.headers.get("X-Part") == "main" else "frame.html", version=__version__,
            following=self.following, charts=charts, now=looking.moment.at, url=request.rel_url.raw_path,
            query={k: v for k, v in request.query.items() if k not in ("at", "window", "token")},
        )  # fmt: skip
        return web.Response(text=body, content_type="text/html")

    def problem(self, request: web.Request, status: int, problem: str) -> web.Response:
        """A page that says why something was not answered, with the links of this log."""
        body = self.templates.get_template("problem.html").render(
            problem=problem, status=status, menu=MENU, here=self._here(request), log=self.source.name, version=__version__,
            frame="part.html" if request.headers.get("X-Part") == "main" else "frame.html", looking=None, title_="Not answered",
            following=False, windows=(), query={}, url=request.rel_url.raw_path, under=self.under, clusters=self.clusters,
            now_="" if status == 404 or "at" not in request.query else str(request.rel_url.without_query_params("at")),
        )  # fmt: skip
        return web.Response(status=status, text=body, content_type="text/html")

    # -- pages -------------------------------------------------------------------------------------

    async def _overview(self, _: web.Request, looking: Looking) -> tuple[str, str, Mapping[str, Any]]:
        return (
            "overview.html",
            "Overview",
            await overview.page(self.source, self.lists, self.backwards, looking),
        )

    async def _listing(self, request: web.Request, looking: Looking) -> tuple[str, str, Mapping[str, Any]]:
        given = await listing.page(self.lists, looking, request.match_info["kind"])
        return "listing.html", given["title"], given

    async def _object(self, request: web.Request, looking: Looking) -> tuple[str, str, Mapping[str, Any]]:
        match = request.match_info
        asked = objects.reference(match["kind"], match["namespace"], match["name"])
        return "object.html", asked.name, await objects.page(self.source, self.moments, looking, asked)

    async def _events(self, _: web.Request, looking: Looking) -> tuple[str, str, Mapping[str, Any]]:
        return "events.html", "Events", await events.page(self.source, self.backwards, looking)

    # What decides is imported by the pages that ask it: the first page is there sooner without.

    async def _capacity(self, _: web.Request, looking: Looking) -> tuple[str, str, Mapping[str, Any]]:
        from tidewright.console import capacity

        return "capacity.html", "Capacity", await capacity.page(self.source, self.kept, self.lists, looking)

    async def _shards(self, _: web.Request, looking: Looking) -> tuple[str, str, Mapping[str, Any]]:
        from tidewright.console import shards

        return "shards.html", "Shards", await shards.page(self.source, self.kept, self.lists, looking)

    async def _what_if(self, _: web.Request, looking: Looking) -> tuple[str, str, Mapping[str, Any]]:
        from tidewright.console import what_if

        means = what_if.Means(self.source, self.moments, self.lists, self.tried, self.apart)
        return "what_if.html", "What if", await what_if.page(means, looking)

    async def _trust(self, _: web.Request, looking: Looking) -> tuple[str, str, Mapping[str, Any]]:
        return "trust.html", "Trust", await trust.page(self.source, self.verifying, looking)


def place_of(cluster: str) -> str:
    """Where the pages of a further cluster are: its name as one segment of a path, in which only what has to be is escaped.

    Raises:
        BadInput: no path can have it.
    """
    if not cluster.strip("."):
        raise BadInput(
            f"--also {cluster!r}: no path can have this name, a browser takes it for another folder; show this cluster in a console of its own"
        )
    return f"/in/{quote(cluster, safe=SEGMENT)}"


def routed(path: str) -> str:
    """A path as the router compares it: without its escapes, but for those of a slash and a percent sign."""
    return unquote(path.replace("%25", "%2525").replace("%2F", "%252F"))


def templates() -> Environment:
    """The templates of this package, which escape what they are given."""

    def source(name: str) -> str:
        return (files(__package__) / "templates" / name).read_text("utf-8")

    made = Environment(
        loader=FunctionLoader(source), autoescape=True, undefined=StrictUndefined, finalize=words.harmless,
        trim_blocks=True, lstrip_blocks=True, auto_reload=False,
    )  # fmt: skip
    made.filters.update(
        clock=words.clock,
        span=words.span,
        number=words.number,
        money=words.money,
        size=words.size,
        since=words.since,
        when=words.when,
        counted=words.counted,
    )
    made.globals.update(Reference=Reference, seconds=words.seconds, NONE=words.NONE, Markup=Markup)
    return made


async def warmed(console: Console) -> None:
    """Have the lists of the first page there before anybody asks for it."""
    with translated():
        looking = await console.moments.looking({})
        await console.lists.of_all(tuple(TITLES), looking.moment)
