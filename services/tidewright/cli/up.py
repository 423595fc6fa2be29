"""`tidewright up`: the log, a cluster and every service, until Ctrl-C or SIGTERM."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Group, Parameter

import tidewright.cli.starting  # noqa: F401  # before anything that logs
from tidewright.asking.environment import read
from tidewright.asking.errors import INTERRUPTED, BadInput
from tidewright.asking.options import THE_LOG, IdentityOptions
from tidewright.asking.services import EVERY, SERVICES, Role
from tidewright.cli import datafolder
from tidewright.cli.cloudflags import known_clouds
from tidewright.cli.console import Printer
from tidewright.cli.crds.choosing import POLICY_HELP, Policy
from tidewright.cli.metricsflags import SourceFlags
from tidewright.cli.modeflags import ModeFlags
from tidewright.cli.options import NOT_NEGATIVE, PORT, PROCESS, THE_CLUSTER, ClusterOptions, Level, LogFormat
from tidewright.cli.stack import Stack, StackOptions
from tidewright.cli.typed import typed
from tidewright.host.process.process import configure_logs
from tidewright.log.identity import shown

DATA = Group("Data", sort_key=0)
STORE = Group("Store", sort_key=12)
DEFINITIONS = Group("Definitions and admission", sort_key=25)


def up(
    *,
    data: Annotated[
        Path | None, Parameter(help="Data folder; by default the user's own.", group=DATA)
    ] = None,
    fresh: Annotated[
        bool, Parameter(negative="", help="Clear the folder first, if Tidewright has marked it.", group=DATA)
    ] = False,
    nats: Annotated[
        str | None,
        Parameter(help="Use this NATS server instead of starting one.", group=THE_LOG),
        read("--nats"),
    ] = None,
    who: IdentityOptions | None = None,
    nats_port: Annotated[
        int | None, Parameter(help="Port of the embedded NATS server.", group=STORE, validator=PORT)
    ] = None,
    sync_always: Annotated[
        bool, Parameter(negative="", help="Every append reaches the disk before its answer.", group=STORE)
    ] = False,
    max_age: Annotated[
        float | None,
        Parameter(
            help="How long the log keeps a message, seconds; 0: for ever. As it is; a new log in the data folder 7 days.",
            group=STORE,
            validator=NOT_NEGATIVE,
        ),
    ] = None,
    max_bytes: Annotated[
        int | None,
        Parameter(help="Size of the embedded log's store, bytes, at which it refuses more.", group=STORE),
    ] = None,
    sign: Annotated[
        bool,
        Parameter(
            negative="", help="Services sign what they write, with keys in the data folder.", group=STORE
        ),
    ] = False,
    cluster: Annotated[
        str, Parameter(help="Name of the cluster on the log.", group=THE_LOG), read("--cluster")
    ] = "local",
    slots: Annotated[
        int | None, Parameter(help="Partitions of a new log, 32 by default.", group=STORE)
    ] = None,
    at: ClusterOptions | None = None,
    api_port: Annotated[
        int | None, Parameter(help="Port of the embedded cluster.", group=THE_CLUSTER, validator=PORT)
    ] = None,
    nodes: Annotated[int, Parameter(help="Nodes of the embedded cluster.", group=THE_CLUSTER)] = 3,
    speed: Annotated[
        float | None, Parameter(help="Log seconds per wall second, embedded cluster only.", group=THE_CLUSTER)
    ] = None,
    node_groups: Annotated[
        Path | None,
        Parameter(help="YAML file with the simulated cloud's node groups.", group=THE_CLUSTER),
    ] = None,
    cloud: Annotated[
        tuple[str, ...],
        Parameter(
            help="NAME=KIND[:CONFIG] of a cloud that is there, instead. Repeatable.",
            group=THE_CLUSTER,
            validator=known_clouds,
        ),
        read("--cloud"),
    ] = (),
    crds: Annotated[
        Policy | None,
        Parameter(
            help=f"{POLICY_HELP} By default ours in the embedded cluster, missing in another one.",
            group=DEFINITIONS,
        ),
    ] = None,
    admission_url: Annotated[
        str,
        Parameter(
            help="https:// URL under which the API server reaches spread's admission here; it listens on its port.",
            group=DEFINITIONS,
        ),
    ] = "",
    modes: ModeFlags | None = None,
    sources: SourceFlags | None = None,
    services: Annotated[
        tuple[str, ...],
        Parameter(help="Services to run, with spaces or commas between them.", consume_multiple=True),
    ] = EVERY,
    console: Annotated[bool, Parameter(help="Run the web console, too, where it is installed.")] = True,
    log_level: Annotated[Level, Parameter(help="Least severe level that is shown.", group=PROCESS)] = "info",
    log_format: Annotated[
        LogFormat, Parameter(help="Lines for people or JSON; auto: for people on a terminal.", group=PROCESS)
    ] = "auto",
) -> int:
    """Bring up the log, a cluster and every service, until Ctrl-C.

    In a cluster that is there it decides and writes nothing (shadow), until it is told otherwise.
    """
    place = at or ClusterOptions()
    elsewhere = place.kubeconfig is not None or place.in_cluster or place.context is not None
    options = StackOptions(
        data=data or datafolder.default(), fresh=fresh, nats=nats, nats_credentials=(who or IdentityOptions()).identity(),
        nats_port=nats_port, sync_always=sync_always, sign=sign, max_age_s=max_age, max_bytes=max_bytes, cluster=cluster, slots=slots,
        **place.of_a_service(), modes=(modes or ModeFlags()).wanted("shadow" if elsewhere else "enforce"),
        api_port=api_port, speed=speed, services=_named(services), log_level=log_level, admission_url=admission_url, crds=crds,
        node_groups=node_groups.resolve() if node_groups else None, clouds=cloud, console=console,
        sim=("--nodes", str(nodes)), watcher=(sources or SourceFlags()).arguments(),
    )  # fmt: skip
    people = log_format == "console" or (log_format == "auto" and sys.stderr.isatty())
    configure_logs(log_level, "console" if people else "json", service="supervisor")
    printer = Printer(as_json=not people, colour=sys.stderr.isatty(), level=log_level)
    return asyncio.run(_run(options, printer))


def _named(services: Sequence[str]) -> tuple[str, ...]:
    """Each service once, in the order given; `a,b` is two.

    Raises:
        BadInput: none is named.
    """
    names = tuple(dict.fromkeys(name for given in services for name in given.replace(",", " ").split()))
    if not names:
        raise BadInput(f"--services: none is named; valid are {', '.join(EVERY)}")
    return names


async def _run(options: StackOptions, printer: Printer) -> int:
    """Run until a signal; returns the exit code."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    task = asyncio.current_task()
    up_already = False

    def on_signal() -> None:
        stop.set()
        if not up_already and task is not None:
            task.cancel()  # what has been started so far is ended on the way out

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal)
    try:
        async with Stack(options, printer) as stack:
            up_already = True
            print(_welcome(stack), flush=True)
            await _until(stop, stack)
            print("stopping", file=sys.stderr, flush=True)
    except asyncio.CancelledError:
        if not stop.is_set():
            raise
        print("interrupted before everything was up", file=sys.stderr)
        return INTERRUPTED
    return 0


async def _until(stop: asyncio.Event, stack: Stack) -> None:
    """Wait for a signal; a failure of the supervisor itself ends the wait, and is raised."""
    stopped, broken = asyncio.create_task(stop.wait()), asyncio.create_task(stack.supervisor.wait())
    try:
        await asyncio.wait({stopped, broken}, return_when=asyncio.FIRST_COMPLETED)
        if broken.done():
            broken.result()
    finally:
        stopped.cancel()
        broken.cancel()


def _welcome(stack: Stack) -> str:
    """What is up, where it lies, and what to type next."""
    options = stack.options
    lines = [
        *_acting(stack),
        f"  log      {shown(stack.nats_url)}, cluster {options.cluster}, kept in {stack.folder.path}"
        + (" (an existing server)" if options.nats else ""),
    ]
    if options.embedded_cluster:
        lines += [
            "  cluster  embedded; point kubectl at it:",
            f"    export KUBECONFIG={stack.kubeconfig}",
            f"    {typed('kubectl')} get nodes,wpa -A",
        ]
    else:
        lines.append(f"  cluster  {options.kubeconfig or 'in-cluster'} {options.context or ''}".rstrip())
    lines += _definitions(stack)
    if push_port := _port_of(stack, "watcher"):
        lines.append(f"  metrics  push samples with POST http://127.0.0.1:{push_port}/v1/metrics")
    lines += _asking(stack)
    if options.running != tuple(options.services):
        lines.append(
            "  spread   places no pods: --admission-url says how the API server reaches this machine"
        )
    lines.append("Ctrl-C ends it; the next start continues from there, --fresh starts anew.")
    return "\n".join(lines)


def _listed(names: list[str]) -> str:
    """Names as in a sentence."""
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)


def _acting(stack: Stack) -> list[str]:
    """In the first line what changes in the cluster and what does not, and how that is changed."""
    options, modes = stack.options, stack.options.wanted_modes
    running = ", ".join(options.running)
    deciding = [s.name for s in SERVICES if s.role is Role.DECIDER and s.name in options.running]
    acts = [name for name in deciding if modes.services.get(name, modes.mode) == "enforce"]
    rest = [name for name in deciding if name not in acts]
    where = f", and only in namespaces with {modes.namespaces}" if modes.namespaces else ""
    if not rest:
        if options.embedded_cluster and not where:
            return [f"Tidewright is up: {running}."]
        lines = [f"Tidewright is up and ACTS on this cluster{where}; --mode shadow has it decide only."]
    else:
        changed = Counter(one.kind for one in stack.crds if one.action in ("created", "updated"))
        but = ""
        if changed and not options.embedded_cluster:
            named = (f"{n} {kind}s" if n > 1 else kind for kind, n in sorted(changed.items()))
            but = f" but the {' and the '.join(named)} named below"
        nothing = f"writes nothing to this cluster{but}"
        if acts:
            verb, others = "act" if len(acts) > 1 else "acts", "are" if len(rest) > 1 else "is"
            who = f"{_listed(acts)} {verb}{where}. {_listed(rest)} {others} in SHADOW"
            go_on = "--mode enforce has all act"
            lines = [f"Tidewright is up: {who}: what is decided there {nothing}; {go_on}."]
        else:
            go_on = "--mode enforce has it act, --enforce SERVICES some"
            lines = [f"Tidewright is up in SHADOW: it decides, and {nothing}; {go_on}."]
    waiting = [name for name in acts if name not in modes.regardless]
    if waiting and not options.embedded_cluster:
        lines.append(
            "  beside   nobody acts where another controller is seen at the same work "
            f"(events --for incumbent/{waiting[0]})"
        )
    if any(argument == "--config-map" for argument in options.watcher):
        lines.append("  modes    the part modes of the ConfigMap, where there is one, says otherwise")
    return [*lines, f"  services {running}"]


def _definitions(stack: Stack) -> list[str]:
    """What was done with CustomResourceDefinitions, where it is worth a line: not of ours that were as they are."""
    lines = [outcome.line() for outcome in stack.crds if outcome.action != "kept" or outcome.unmet]
    if stack.options.embedded_cluster:
        lines = [outcome.line() for outcome in stack.crds if outcome.unmet or outcome.action == "left"]
    return [f"  {'crds' if n == 0 else '':<8} {line}" for n, line in enumerate(lines)]


def _asking(stack: Stack) -> list[str]:
    """How the log is asked, here and now."""
    options = stack.options
    where = f"--data {stack.folder.path}"
    if options.nats:
        where = f"--nats {shown(stack.nats_url)} --cluster {options.cluster}"
    looked = [f"  console  {stack.console_url} (lets in one browser, once)"] if stack.console_url else []
    return [
        *looked,
        f"  ask      {typed('tidewright')} events --follow {where}",
        "    likewise: get, explain, state, verify; while this runs also without that",
    ]


def _port_of(stack: Stack, program: str) -> int:
    """The port of a program's probes, at its start; 0 when it has none."""
    for child in stack.supervisor.children():
        if child.program.name == program and child.ready.done() and child.ready.exception() is None:
            return int(child.ready.result().get("health_port", 0))
    return 0
