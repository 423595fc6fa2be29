"""`tidewright console`: the web console, beside a log that is there."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import secrets
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter

from tidewright.asking.environment import variable
from tidewright.asking.errors import BadInput, CommandError, Unavailable
from tidewright.asking.opening import FromFile, opened
from tidewright.asking.options import AskedLogOptions
from tidewright.asking.running_log import RunningLog
from tidewright.asking.source import Source
from tidewright.asking.withholding import left_out_of
from tidewright.cli import garbage
from tidewright.cli.ahead import Ahead
from tidewright.cli.options import ANY_PORT, PROCESS, Level, LogFormat, UnsignedFlags
from tidewright.console.access import CONSOLE_TOKEN, Access, Network, named
from tidewright.host.ports.tokens import Tokens, is_loopback
from tidewright.log.diagnostics import get_logger

if TYPE_CHECKING:
    from tidewright.host.process.process import Process

WHERE = Group("Where it is reached", sort_key=0)
WHO = Group("Who is let in", sort_key=5)
TICK_S = 5.0

logger = get_logger(__name__)


def console(
    *,
    listen: Annotated[
        str,
        Parameter(
            help="Address that is listened on; others than loopback need a token file or a proxy.",
            group=WHERE,
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, Parameter(help="Its port; 0 takes a free one.", group=WHERE, validator=ANY_PORT)
    ] = 0,
    host_name: Annotated[
        tuple[str, ...],
        Parameter(help="Further name under which browsers reach it. Repeatable.", group=WHERE),
    ] = (),
    token_file: Annotated[
        Path | None,
        Parameter(help="Tokens that let in, one a line, instead of the one that holds once.", group=WHO),
    ] = None,
    proxy_header: Annotated[
        str, Parameter(help="Header in which a reverse proxy names whom it has let in.", group=WHO)
    ] = "",
    proxy_from: Annotated[
        tuple[str, ...], Parameter(help="Address or network of that proxy. Repeatable.", group=WHO)
    ] = (),
    secure: Annotated[
        bool, Parameter(help="Browsers reach it over TLS alone: a proxy ends it.", group=WHO, negative="")
    ] = False,
    verify: Annotated[
        bool, Parameter(help="Verify the log in the background, with a tenth of a core at most.")
    ] = True,
    also: Annotated[
        tuple[str, ...],
        Parameter(
            help="Further cluster whose log is on the same servers; its pages are below /in/CLUSTER. Repeatable.",
            group=WHERE,
        ),
    ] = (),
    log: AskedLogOptions | None = None,
    file: FromFile = None,
    health_host: Annotated[
        str,
        Parameter(
            help="Address on which probes and metrics are served; `::` is every one, of IPv4 as well.",
            group=PROCESS,
        ),
    ] = "127.0.0.1",
    health_port: Annotated[
        int,
        Parameter(
            help="Their port; 0 takes a free one, and the log says which.", group=PROCESS, validator=ANY_PORT
        ),
    ] = 0,
    metrics_token_file: Annotated[
        Path | None,
        Parameter(
            help="Tokens that callers of /metrics bring, one a line; without it only this machine is answered.",
            group=PROCESS,
        ),
    ] = None,
    log_level: Annotated[Level, Parameter(help="Least severe level that is logged.", group=PROCESS)] = "info",
    log_format: Annotated[
        LogFormat, Parameter(help="Lines for people or JSON; auto: for people on a terminal.", group=PROCESS)
    ] = "auto",
) -> int:
    """The log in a browser: what is there and why, at any moment. It changes nothing."""
    if find_spec("jinja2") is None:  # what the extra brings
        raise CommandError("the console is not installed: it comes with `pip install 'tidewright[console]'`")
    if also:
        _refuse_beside_others(log, file)
    entrance = _entrance(listen, token_file, proxy_header, proxy_from)
    flags = UnsignedFlags(
        log_level=log_level, log_format=log_format, health_host=health_host, health_port=health_port,
        metrics_token_file=metrics_token_file,
    )  # fmt: skip

    ahead = Ahead(lambda: opened(log, file))

    async def run(process: Process) -> None:
        process.health.not_ready = "the log is not read yet"
        async with AsyncExitStack() as sources:
            from tidewright.console.apart import Turns
            from tidewright.console.server import Console, warmed

            access = _access(entrance, frozenset(), secure=secure)
            source, lists = await sources.enter_async_context(ahead.log())
            at = _places(source, also)
            others, turns = list[Console](), Turns()
            for name in also:
                on = replace(log or AskedLogOptions(), cluster=name)
                other = await sources.enter_async_context(opened(on, None))
                _found(name, other)
                verifies = _verifying(other, on, None) if verify else ((), {})
                others.append(
                    Console(other, access, verifies=verifies, under=at[name], clusters=at, turns=turns)
                )
            site = Console(
                source,
                access,
                following=file is None and not (log and log.archive),
                verifies=_verifying(source, log, file) if verify else ((), {}),
                others=tuple(others),
                clusters=at,
                turns=turns,
                made=lists,
            )
            try:
                await site.start(listen, port)
            except OSError as error:
                raise Unavailable(
                    f"--port {port}: {listen} cannot be listened on: {error.strerror or error}; 0 takes a free port"
                ) from error
            site.access.hosts = named(listen, site.port, host_name)
            _tell(site.port, listen, entrance)
            try:
                for console in (site, *site.others):
                    await warmed(console)
                process.health.not_ready = ""
                garbage.again()
                await _until(process)
            finally:
                await site.stop()

    garbage.later()
    try:
        ahead.importing(("tidewright.cli.run", "tidewright.console.server"))
        from tidewright.cli.run import execute

        return execute("console", flags, run, loop=ahead.loop)
    finally:
        garbage.again()
        ahead.abandon()


def _refuse_beside_others(log: AskedLogOptions | None, file: Path | None) -> None:
    """Refuse what has the log of one cluster alone.

    Raises:
        BadInput: such an option is given.
    """
    given = {"--log": file, "--data": log and log.data, "--archive": log and log.archive}
    for option, value in given.items():
        if value:
            raise BadInput(
                f"--also and {option} {value}: there is the log of one cluster, and further ones are on the servers of a running "
                "log; leave one of them out"
            )


def _found(name: str, source: Source) -> None:
    """See that a log is that of the cluster that was asked for: the default name stands for the stack that runs here.

    Raises:
        BadInput: it is another one's.
    """
    if isinstance(source, RunningLog) and source.log.cluster != name:
        raise BadInput(
            f"--also {name}: what is found under this name is the log of cluster {source.log.cluster}, of the stack that runs here"
        )


def _places(source: Source, also: Sequence[str]) -> dict[str, str]:
    """Clusters and where their pages are; empty where there is one.

    Raises:
        BadInput: a cluster is named twice, or has a name that no path can have.
    """
    if not also or not isinstance(source, RunningLog):
        return {}
    from tidewright.console.server import place_of

    places = {source.log.cluster: ""}
    for name in also:
        if name in places:
            raise BadInput(f"--also {name}: this cluster is named twice")
        places[name] = place_of(name)
    return places


def _verifying(
    source: Source, log: AskedLogOptions | None, file: Path | None
) -> tuple[Sequence[str], dict[str, str]]:
    """The command that verifies the same log in a child, and its environment: a URL may hold a password."""
    command = [sys.executable, "-m", "tidewright.cli.main", "verify", "-o", "json"]
    if not left_out_of(source):  # of what is left out nothing is decided again, and nothing goes on
        command.append("--resume")
    if file is not None:
        return [*command, "--log", str(file)], dict(os.environ)
    if not isinstance(source, RunningLog):
        return (), {}
    on = log or AskedLogOptions()
    command += ["--cluster", source.log.cluster, *on.identity().arguments()]
    command += ["--trust", str(on.trust)] if on.trust is not None else []
    return command, {**os.environ, variable("--nats"): source.log.url}


async def _until(process: Process) -> None:
    """Wait until the process is told to stop, and say meanwhile that the loop turns."""
    while not process.stop.is_set():
        process.health.tick()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TICK_S):
                await process.stop.wait()


@dataclass(frozen=True)
class _Entrance:
    """How people get in: one of the three."""

    once: str = ""
    told: bool = False
    tokens: Path | None = None
    header: str = ""
    proxies: tuple[Network, ...] = ()


def _entrance(listen: str, tokens: Path | None, header: str, proxies: Sequence[str]) -> _Entrance:
    """What the options ask for.

    Raises:
        BadInput: what would let in everybody, or nobody.
    """
    if header and tokens is not None:
        raise BadInput(
            "--proxy-header and --token-file: the proxy says who is let in, or the file, give one of them"
        )
    if bool(header) != bool(proxies):
        raise BadInput(
            "--proxy-header and --proxy-from: a header is believed from named addresses alone, give both"
        )
    if header:
        return _Entrance(header=header, proxies=tuple(map(_network, proxies)))
    if tokens is not None:
        return _Entrance(tokens=tokens)
    if not is_loopback(listen):
        raise BadInput(
            f"--listen {listen}: on other addresses than loopback a --token-file is needed, or --proxy-header with --proxy-from"
        )
    given = os.environ.pop(CONSOLE_TOKEN, "")
    return _Entrance(once=given or secrets.token_urlsafe(24), told=bool(given))


def _network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise BadInput(
            f"--proxy-from {text}: an address or a network, such as 10.0.0.7 or 10.0.0.0/24"
        ) from None


def _access(entrance: _Entrance, hosts: frozenset[str], *, secure: bool) -> Access:
    tokens = Tokens(entrance.tokens) if entrance.tokens is not None else None
    return Access(
        hosts,
        once=entrance.once,
        tokens=tokens,
        proxy_header=entrance.header,
        proxies=entrance.proxies,
        secure=secure,
    )


def _tell(port: int, listen: str, entrance: _Entrance) -> None:
    """Say where it is; the token goes to whoever started it, and into no log."""
    logger.info("the console listens", listen=listen, port=port)
    if entrance.told:
        return
    host = f"[{listen}]" if ":" in listen else listen
    token = f"/?token={entrance.once}" if entrance.once else "/"
    print(f"http://{host}:{port}{token}", flush=True)
    if entrance.once:
        print("The token in it lets in one browser, once.", file=sys.stderr, flush=True)
