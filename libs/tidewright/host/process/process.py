"""One OS process of Tidewright: structured logs on stderr, probes, signals, exit codes.

It runs one service, or several that live and end together: each with a connection, probes and metrics of its own.

Exit codes: 0 asked to stop; 1 failed; 2 refused configuration; 69 a dependency is not available. Who was asked to stop
has `STOP_WITHIN_S` to hand over what it has; a dependency that is away meanwhile is no failure of its.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import structlog
import uvloop

from tidewright.host.ports.tokens import BadTokens, Tokens
from tidewright.host.process import overheard
from tidewright.host.process.health import Health
from tidewright.host.process.misconfigured import Misconfigured
from tidewright.host.process.probes import Probes
from tidewright.host.process.stderr import STDERR
from tidewright.log import diagnostics, errors
from tidewright.log.redaction import redact_line

EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_UNAVAILABLE = 0, 1, 2, 69

GARBAGE = (700, 10, 10)
"""Thresholds of a service's looks for garbage: Python's own."""
STOP_WITHIN_S = 6.0
"""How long a service that was told to stop may go on, wall seconds: what is not handed over by then is on the log as
far as it matters, and decided again by whoever comes next."""
CUT_OFF_S = 1.0
"""How long a service that was cut off then may still clean up."""
CANCEL_AGAIN_S = 0.1


@dataclass(frozen=True)
class ProcessOptions:
    """What every process takes.

    Attributes:
        health_port: port of the probes; 0 takes a free one and logs it.
        log_format: `json`, or `console` for people.
        metrics_token_file: holds the tokens that callers of `/metrics` have to bring; None: only callers on
            this machine are answered.
        signing_key: file of the key that the service signs its commits with; None: they are not signed.
        trust: file of the root keys that vouch for everybody's; None: whatever is on the log is believed.
    """

    service: str
    log_level: str = "info"
    log_format: str = "json"
    health_host: str = "127.0.0.1"
    health_port: int = 0
    metrics_token_file: Path | None = None
    signing_key: Path | None = None
    trust: Path | None = None


@dataclass
class Process:
    """What a service's main function is given; several services of one process share `stop`.

    Attributes:
        stop: is set when the process is told to stop.
        drain_s: how long it goes on serving then, before the time to stop begins to count, wall seconds.
    """

    options: ProcessOptions
    health: Health
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    drain_s: float = 0.0


Main: TypeAlias = Callable[[Process], Awaitable[None]]


@dataclass(frozen=True)
class HostedService:
    """A service of a process."""

    options: ProcessOptions
    main: Main


def configure_logs(level: str, log_format: str, **bound: str) -> None:
    """Structured logs on stderr; stdout belongs to results."""
    renderer = (
        structlog.processors.JSONRenderer()
        if log_format == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty() and not os.environ.get("NO_COLOR"))
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            redact_line,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(STDERR),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(**bound)
    diagnostics.configured()
    overheard.configure()


def run(options: ProcessOptions, main: Main) -> int:
    """Run a service until it ends or is told to (SIGTERM, SIGINT), and return the exit code."""
    return run_together([HostedService(options, main)])


def run_together(services: Sequence[HostedService], loop: asyncio.AbstractEventLoop | None = None) -> int:
    """The same of several services: when one ends, all do. Logs and probes are as the first one's options have them.

    `loop` is one in which something was begun already; it is closed in the end.
    """
    options = services[0].options
    configure_logs(
        options.log_level,
        options.log_format,
        service=",".join(service.options.service for service in services),
    )
    # What is imported stays, so that no look for garbage need go through it; and each look is short, as by default.
    gc.freeze()
    gc.set_threshold(*GARBAGE)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop if loop is None else lambda: loop) as runner:
        return runner.run(_run(services))


async def _run(services: Sequence[HostedService]) -> int:
    asyncio.get_running_loop().set_exception_handler(overheard.unawaited)
    code = await _served(services)
    await _leave(code)
    return code


async def _leave(code: int) -> None:
    """Return when no task is left but ours, or end the process: the loop would wait for one that goes on for ever.

    A library's task may take its cancellation for something else (`wait_for` of Python 3.11 loses one that comes with
    an answer), so it is cancelled again.
    """
    own, loop = asyncio.current_task(), asyncio.get_running_loop()
    until = loop.time() + CUT_OFF_S
    while others := asyncio.all_tasks() - {own}:
        if loop.time() > until:
            sys.stderr.flush()
            os._exit(code)
        for task in others:
            task.cancel()
        await asyncio.wait(others, timeout=CANCEL_AGAIN_S)


async def _served(services: Sequence[HostedService]) -> int:
    logger = structlog.get_logger(__name__)
    stop, asked = asyncio.Event(), asyncio.Event()
    processes = [Process(service.options, Health(service.options.service), stop) for service in services]
    options = services[0].options

    def ask() -> None:
        asked.set()
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ask)
    probes = Probes([process.health for process in processes])
    try:
        if options.metrics_token_file is not None:
            probes.metrics_tokens = Tokens(options.metrics_token_file)
        await probes.start(options.health_host, options.health_port)
    except BadTokens as error:
        logger.error(
            "cannot start", reason="BadTokens", error=str(error), do="name another --metrics-token-file"
        )
        return EXIT_USAGE
    except OSError as error:
        logger.error(
            "the port of the probes is taken", host=options.health_host, port=options.health_port, error=str(error),
            do="pass another --health-port, or 0 for any free one",
        )  # fmt: skip
        return EXIT_UNAVAILABLE
    logger.info("started", health_port=probes.port)
    pairs = zip(services, processes, strict=True)
    work = asyncio.gather(*(_lived(service, process, asked) for service, process in pairs))
    try:
        if not await _ended(processes, work):
            logger.warning("not everything was handed over in time, stopped all the same")
            # What does not heed its cancellation is not waited for: the loop would, at its end.
            sys.stderr.flush()
            os._exit(EXIT_OK if asked.is_set() else EXIT_FAILED)
        if code := max(work.result()):
            return code
    except asyncio.CancelledError:
        if not asked.is_set():
            return EXIT_FAILED  # one has ended, and another was cut off
    finally:
        await probes.stop()
    logger.info("stopped")
    return EXIT_OK


async def _lived(service: HostedService, process: Process, asked: asyncio.Event) -> int:
    """A service's life, and its exit code; its end is that of all others of the process."""
    structlog.contextvars.bind_contextvars(service=service.options.service)
    logger = structlog.get_logger(__name__)
    try:
        await service.main(process)
    except Exception as error:  # noqa: BLE001 - the last place where it can be told
        if not asked.is_set() or not is_outage(error):
            return _failed(logger, error)
        logger.warning("stopped while the log was away", error=str(next(causes(error))))
    finally:
        process.stop.set()
    return EXIT_OK


async def _ended(processes: Sequence[Process], work: asyncio.Future[Any]) -> bool:
    """Whether services have ended: by themselves, or soon after they were told to. What takes longer is cut off."""
    stop = asyncio.ensure_future(processes[0].stop.wait())
    try:
        either: set[asyncio.Future[Any]] = {work, stop}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stop.cancel()
    if not work.done():
        drain_s = max(process.drain_s for process in processes)
        await asyncio.wait({work}, timeout=drain_s + STOP_WITHIN_S)
    if not work.done():
        work.cancel()
        await asyncio.wait({work}, timeout=CUT_OFF_S)
    return work.done()


def is_outage(error: BaseException) -> bool:
    """Whether nothing but the log's absence ended a service."""
    return all(isinstance(cause, errors.LogUnavailable) for cause in causes(error))


def _failed(logger: structlog.stdlib.BoundLogger, error: Exception) -> int:
    """Say why a service ends, and return its exit code. A part that runs beside others ends them in a group."""
    all_causes = list(causes(error))
    cause = next(
        (exception for exception in all_causes if isinstance(exception, errors.LogError | Misconfigured)),
        all_causes[0],
    )
    match cause:
        case errors.LogForbidden() | errors.NoUrl() | errors.WrongStream() | errors.BadKey():
            logger.error("cannot start", reason=cause.reason, error=str(cause))
            return EXIT_USAGE
        case errors.LogUnavailable():
            logger.error("cannot go on", reason=cause.reason, error=str(cause))
            return EXIT_UNAVAILABLE
        case Misconfigured():
            logger.error("cannot start", reason="Misconfigured", error=str(cause))
            return EXIT_USAGE
        case _:
            logger.error("failed", error=f"{type(cause).__name__}: {cause}", exc_info=error)
            return EXIT_FAILED


def causes(error: BaseException) -> Iterator[BaseException]:
    """An error, or those of a group and the groups in it."""
    if not isinstance(error, BaseExceptionGroup):
        yield error
        return
    for member in error.exceptions:
        yield from causes(member)
