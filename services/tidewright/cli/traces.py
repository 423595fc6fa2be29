"""`tidewright traces`: one trace from each fact to what came of it, for whatever takes OpenTelemetry."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import aclosing
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from tidewright.asking.answers.form import builtins
from tidewright.asking.errors import BadInput, CommandError, Unavailable
from tidewright.asking.events import found, wanted
from tidewright.asking.opening import FromFile, opened
from tidewright.asking.options import AskedLogOptions
from tidewright.asking.source import Source
from tidewright.asking.traces import Span, Tracer
from tidewright.events.base import Event
from tidewright.events.version import __version__

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan

AT_ONCE = 512
WITHIN_S = 1.0
"""Spans are sent together: so many, or what came within so long."""
WAITING = 20 * AT_ONCE
"""Spans that are read ahead of who takes them."""
ATTEMPTS = 5
LATEST_NS = 2**63 - 1
"""Times of spans are at most that, since the epoch."""
SERVICES = 64
"""That are remembered: names are read off the log."""


def traces(
    *,
    to: Annotated[
        str,
        Parameter(
            help="Where spans are sent, over OTLP and HTTP (http://collector:4318/v1/traces); without it they are printed, a line of JSON each."
        ),
    ] = "",
    namespace: Annotated[str, Parameter(name=["--namespace", "-n"], help="Only of this namespace.")] = "",
    since: Annotated[str, Parameter(help="From this log time on, so long ago (15m), or seq:N.")] = "",
    until: Annotated[str, Parameter(help="Up to this log time, so long ago, or seq:N.")] = "",
    follow: Annotated[
        bool, Parameter(name=["--follow", "-f"], help="Go on with what comes.", negative="")
    ] = False,
    log: AskedLogOptions | None = None,
    file: FromFile = None,
) -> int:
    """Make spans of decisions, effects and outcomes, with the fact that each began with; ids are the same at every reading."""
    if follow and until:
        raise BadInput("--follow and --until: what comes has no end, give one of them")
    if follow and file is not None:
        raise BadInput(f"--follow and --log {file}: nothing is added to a file")
    if "@" in to:
        raise BadInput(
            "--to: a user or password in an argument can be read by everybody on this machine; give it in the environment "
            "as OTEL_EXPORTER_OTLP_HEADERS (authorization=Basic%20...), and write an @ of a path as %40"
        )
    if to and not to.startswith(("http://", "https://")):
        raise BadInput(
            f"--to {_shown(to)}: the URL of a collector was expected, such as http://collector:4318/v1/traces"
        )
    sink = _Exporting(to) if to else None

    async def run() -> None:
        async with opened(log, file) as source:
            try:
                await both(source)
            except BaseExceptionGroup as group:  # of either task: what it is to people, the source knows
                raise group.exceptions[0] from None

    async def both(source: Source) -> None:
        async with asyncio.TaskGroup() as tasks:
            queue: asyncio.Queue[Span | None] = asyncio.Queue(WAITING)
            tasks.create_task(_sent(queue, sink))
            tracer = Tracer(source, await source.cluster_id())
            await _read(source, tracer, queue, (namespace, since, until, follow))
            await queue.put(None)

    asyncio.run(run())
    return 0


def _shown(url: str) -> str:
    """A URL for people: without its query, in which there may be a key."""
    return url.partition("?")[0]


async def _read(
    source: Source, tracer: Tracer, queue: asyncio.Queue[Span | None], asked: tuple[str, str, str, bool]
) -> None:
    namespace, since, until, follow = asked
    selection = await wanted(
        source, ("decision", "outcome"), namespace, about="", since=since, until=until, parked=False
    )
    tail = (
        0 if follow and not since else None
    )  # what has been is somebody else's affair, unless it is asked for
    async with aclosing(found(source, selection, follow=follow, tail=tail)) as those:
        async for record, event in those:
            if isinstance(event, Event):
                for span in await tracer.spans(record, event):
                    await queue.put(span)


async def _sent(queue: asyncio.Queue[Span | None], sink: _Exporting | None) -> None:
    """Hand spans on until the end, together with those that come right after them."""
    loop = asyncio.get_running_loop()
    ended = False
    while not ended:
        first = await queue.get()
        spans, until = [first], loop.time() + WITHIN_S
        while spans[-1] is not None and len(spans) < AT_ONCE and (left := until - loop.time()) > 0:
            try:
                spans.append(await asyncio.wait_for(queue.get(), left))
            except TimeoutError:
                break
        ended = spans[-1] is None
        complete = [span for span in spans if span is not None]
        if sink is None:
            for span in complete:
                print(json.dumps(builtins(span)), flush=True)
        elif complete:
            await sink.send(complete)


class _Exporting:
    """Spans as OpenTelemetry's library sends them.

    Raises:
        CommandError: it is not there.
    """

    def __init__(self, url: str) -> None:
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        except ModuleNotFoundError as error:
            raise CommandError(
                f"--to {_shown(url)}: this installation has no OpenTelemetry; install tidewright[traces]"
            ) from error
        self._shown = _shown(url)
        self._exporter = OTLPSpanExporter(endpoint=url, timeout=10)

    async def send(self, spans: Sequence[Span]) -> None:
        """Send spans, again when they are not taken.

        Raises:
            Unavailable: nobody took them.
        """
        from opentelemetry.sdk.trace.export import SpanExportResult

        made = [self._made(span) for span in spans]
        for attempt in range(ATTEMPTS):
            if attempt:
                await asyncio.sleep(2.0 ** (attempt - 1))
            if await asyncio.to_thread(self._exporter.export, made) is SpanExportResult.SUCCESS:
                return
        raise Unavailable(f"{self._shown} does not take spans; go on from there with --since when it does")

    def _made(self, span: Span) -> ReadableSpan:
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope
        from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

        def context(span_id: str) -> SpanContext:
            return SpanContext(
                int(span.trace_id, 16), int(span_id, 16), is_remote=False, trace_flags=TraceFlags(1)
            )

        return ReadableSpan(
            name=span.name,
            context=context(span.span_id),
            parent=context(span.parent) if span.parent else None,
            resource=_resource(span.service),
            attributes=span.attributes,
            kind=SpanKind.INTERNAL,
            status=Status(StatusCode.ERROR, span.failed) if span.failed else Status(StatusCode.UNSET),
            start_time=_nanoseconds(span.start),
            end_time=_nanoseconds(span.end),
            instrumentation_scope=InstrumentationScope("tidewright", __version__),
        )


@lru_cache(maxsize=SERVICES)
def _resource(service: str) -> Resource:
    from opentelemetry.sdk.resources import Resource

    return Resource({"service.namespace": "tidewright", "service.name": service})


def _nanoseconds(at: float) -> int:
    """A log time as spans have it, from 0 to `LATEST_NS`: what is on the log need not be a time that there is."""
    return min(round(min(max(0.0, at), LATEST_NS / 1e9) * 1e9), LATEST_NS)
