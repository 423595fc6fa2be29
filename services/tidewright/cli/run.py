"""`tidewright run SERVICE`: one service alone, as a container would."""

from __future__ import annotations

import asyncio
import dataclasses
import math
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, Group, Parameter

import tidewright.cli.starting  # noqa: F401  # before anything that logs
from tidewright.asking.errors import BadInput, CommandError, translated
from tidewright.asking.options import LogOptions
from tidewright.asking.services import BY_NAME, SERVICES, Role, Service, load
from tidewright.cli import endpoint
from tidewright.cli.boundflags import BoundFlags
from tidewright.cli.cloudflags import CLOUDS, CloudFlags
from tidewright.cli.commands import BY_NAME as COMMANDS
from tidewright.cli.commands import with_examples
from tidewright.cli.metricsflags import MetricsFlags, SourceFlags
from tidewright.cli.modeflags import ModeFlags
from tidewright.cli.modeflags import services as deciding
from tidewright.cli.options import (
    NOT_NEGATIVE,
    POSITIVE,
    ClusterOptions,
    ProcessFlags,
    UnsignedFlags,
    named_object,
)
from tidewright.host.process.process import HostedService, Process, ProcessOptions, is_outage, run_together

THE_SERVICE = Group("Service", sort_key=0)
SPEED = Group("Speed", sort_key=6)

MaxAge = Annotated[
    float,
    Parameter(
        help="How long the log keeps a message, seconds; 0: for ever.",
        group=THE_SERVICE,
        validator=NOT_NEGATIVE,
    ),
]

app = App(name="run", help_format="plaintext", help_epilogue=COMMANDS["run"].epilogue)


@dataclasses.dataclass
class Life:
    """A service that is to be run in this process.

    Attributes:
        within: what holds while it runs.
        failure: what ended it, where that is for people.
    """

    hosted: HostedService
    within: AbstractContextManager[None]
    failure: list[CommandError]


together: ContextVar[list[Life] | None] = ContextVar("together", default=None)
"""Services that are to share this process, while their command lines are read."""


def execute(
    service: str,
    flags: UnsignedFlags,
    main: Callable[[Process], Awaitable[None]],
    within: AbstractContextManager[None] | None = None,
    loop: asyncio.AbstractEventLoop | None = None,
) -> int:
    """Run a service in this process until it is told to stop; returns the exit code. `loop` as of `run_together`."""
    import structlog

    failure: list[CommandError] = []

    async def guarded(process: Process) -> None:
        try:
            with translated():
                await main(process)
        except CommandError as error:
            if process.stop.is_set() and error.__cause__ is not None and is_outage(error.__cause__):
                raise error.__cause__ from None  # asked to stop, it fails nobody by what is away
            failure.append(error)
            structlog.get_logger(__name__).error("cannot go on", error=str(error))

    log_format = (
        flags.log_format if flags.log_format != "auto" else ("console" if sys.stderr.isatty() else "json")
    )
    options = ProcessOptions(
        service=service,
        log_level=flags.log_level,
        log_format=log_format,
        health_host=flags.health_host,
        health_port=flags.health_port,
        metrics_token_file=flags.metrics_token_file,
        signing_key=flags.signing_key if isinstance(flags, ProcessFlags) else None,
        trust=flags.trust if isinstance(flags, ProcessFlags) else None,
    )
    life = Life(HostedService(options, guarded), within or nullcontext(), failure)
    if (gathered := together.get()) is not None:
        gathered.append(life)
        return 0
    return live([life], loop)


def live(lives: Sequence[Life], loop: asyncio.AbstractEventLoop | None = None) -> int:
    """Run services in this process until one ends or they are told to stop; returns the exit code. `loop` as of `run_together`."""
    with ExitStack() as held:
        for life in lives:
            held.enter_context(life.within)
        code = run_together([life.hosted for life in lives], loop)
    return next((life.failure[0].exit_code for life in lives if life.failure), code)


@app.command(help=BY_NAME["watcher"].summary)
def watcher(
    *,
    log: LogOptions | None = None,
    cluster: ClusterOptions | None = None,
    process: ProcessFlags | None = None,
    max_age: MaxAge = 0.0,
    metrics_interval: Annotated[
        float,
        Parameter(help="Log seconds between two samples of a metric.", group=THE_SERVICE, validator=POSITIVE),
    ] = 15.0,
    clouds: CloudFlags | None = None,
    cloud_interval: Annotated[
        float,
        Parameter(help="Log seconds between two polls of a cloud at rest.", group=CLOUDS, validator=POSITIVE),
    ] = 10.0,
    whitelist_config_map: Annotated[
        str,
        Parameter(
            help="NAMESPACE/NAME of spread's whitelist of custom workloads.",
            group=THE_SERVICE,
            validator=named_object,
        ),
    ] = "kruise-system/kruise-configuration",
    speed: Annotated[
        float | None, Parameter(help="Log seconds per wall second, from now on.", group=SPEED)
    ] = None,
    log_start: Annotated[
        float | None, Parameter(help="Log time at which a new speed starts, seconds.", group=SPEED)
    ] = None,
    clock_wall: Annotated[
        float | None, Parameter(help="Wall time of that moment, seconds; now by default.", group=SPEED)
    ] = None,
    incumbent_quiet: Annotated[
        float,
        Parameter(
            help="Wall seconds without a sign of another controller at the same work after which it is gone.",
            group=THE_SERVICE,
            validator=NOT_NEGATIVE,
        ),
    ] = 60.0,
    modes: ModeFlags | None = None,
    sources: SourceFlags | None = None,
    metrics: MetricsFlags | None = None,
) -> int:
    """Read the cluster, write facts."""
    from tidewright.watcher.service import Options, run

    if speed is not None and not 0 < speed < math.inf:
        raise BadInput(f"--speed {speed:g}: log seconds per wall second, more than 0")
    for flag, moment in (("--log-start", log_start), ("--clock-wall", clock_wall)):
        if moment is not None and speed is None:
            raise BadInput(f"{flag} {moment:g} without --speed: it is where a new speed starts")
    options = Options(
        **(log or LogOptions()).of_a_service(), **(cluster or ClusterOptions()).of_a_service(),
        **dataclasses.asdict(sources or SourceFlags()), **(metrics or MetricsFlags()).options(),
        max_age_s=max_age, metrics_interval_s=metrics_interval,
        whitelist_config_map=whitelist_config_map,
        speed=speed, log_start=log_start, clock_wall=clock_wall,
        **(clouds or CloudFlags()).options(), cloud_interval_s=cloud_interval, incumbent_quiet_s=incumbent_quiet,
        modes=(modes or ModeFlags()).wanted(), services=deciding(),
    )  # fmt: skip
    return execute(
        "watcher", process or ProcessFlags(), lambda it: run(options, it), _ordering("watcher", options)
    )


@app.command(help=BY_NAME["actuator"].summary)
def actuator(
    *,
    log: LogOptions | None = None,
    cluster: ClusterOptions | None = None,
    process: ProcessFlags | None = None,
    mode: Annotated[
        Literal["enforce", "shadow"],
        Parameter(help="shadow: write nothing, whatever the modes on the log let it.", group=THE_SERVICE),
    ] = "enforce",
    qps: Annotated[
        float, Parameter(help="Requests to the API server per second, on average.", group=THE_SERVICE)
    ] = 50.0,
    burst: Annotated[
        int,
        Parameter(help="Requests at once; 0: twice --qps.", group=THE_SERVICE, validator=NOT_NEGATIVE),
    ] = 0,
    retry_for: Annotated[
        float,
        Parameter(
            help="How long an effect is tried again, seconds.", group=THE_SERVICE, validator=NOT_NEGATIVE
        ),
    ] = 60.0,
    clouds: CloudFlags | None = None,
    allowed: BoundFlags | None = None,
) -> int:
    """Make decisions true, write outcomes."""
    from tidewright.actuator.options import Options
    from tidewright.actuator.service import run

    if qps <= 0:
        raise BadInput(f"--qps {qps:g}: requests per second, more than 0")
    options = Options(
        **(log or LogOptions()).of_a_service(), **(cluster or ClusterOptions()).of_a_service(),
        mode=mode, qps=qps, burst=burst, retry_for_s=retry_for, **(clouds or CloudFlags()).options(),
        bounds=(allowed or BoundFlags()).bounds(), endpoint_tokens=(allowed or BoundFlags()).tokens(),
    )  # fmt: skip
    return execute(
        "actuator", process or ProcessFlags(), lambda it: run(options, it), _ordering("actuator", options)
    )


def _ordering(service: str, options: Any) -> AbstractContextManager[None]:
    """For the length of the block this process has its clouds, of watcher or actuator. Raises BadInput."""
    from tidewright.cli.cloud.held import held
    from tidewright.cloud.providers import Surroundings, specs_of

    around = Surroundings(
        kubeconfig=options.kubeconfig, discovery=options.cloud_discovery, nodes=options.cloud_nodes,
        config=options.cloud_config,
    )  # fmt: skip
    return held("stack", f"tidewright run {service}", specs_of(options.clouds), around)


def _decider(service: Service) -> Callable[..., int]:
    def command(
        *, log: LogOptions | None = None, process: ProcessFlags | None = None, max_age: MaxAge = 0.0
    ) -> int:
        from tidewright.host.loop.settings import Settings
        from tidewright.host.process import service as host

        on = log or LogOptions()
        options = host.LogOptions(on.nats, on.cluster, on.identity(), max_age)
        settings = Settings(service.partition, service.follows)
        decider = load(service)
        return execute(
            service.name,
            process or ProcessFlags(),
            lambda it: host.run_decider(it, decider, options, settings),
        )

    return command


@app.command
def archiver(
    *,
    log: LogOptions | None = None,
    process: ProcessFlags | None = None,
    archive: Annotated[
        str,
        Parameter(
            help="Where segments are sealed into: a folder, file:// or s3://BUCKET/PREFIX.", group=THE_SERVICE
        ),
    ],
    key: Annotated[
        Path,
        Parameter(
            help="File of the archiver's own key, made with a new archive; FILE.pub is for who verifies.",
            group=THE_SERVICE,
        ),
    ],
    every: Annotated[
        float,
        Parameter(
            help="A message is sealed at most so many wall seconds after it was seen.",
            group=THE_SERVICE,
            validator=POSITIVE,
        ),
    ] = 60.0,
) -> int:
    """Seal the log, segment by segment, into an archive. It asks as a reader, and writes nothing on the log."""
    from tidewright.archiver.service import Options, run
    from tidewright.host.process.service import LogOptions as Wiring

    on = log or LogOptions()
    options = Options(Wiring(on.nats, on.cluster, on.identity()), archive, key, every)
    return execute("archiver", process or ProcessFlags(), lambda it: run(options, it))


app.command(endpoint.shard_labels, name="shard-labels", help=BY_NAME["shard-labels"].summary)
app.command(endpoint.spread_admission, name="spread-admission", help=BY_NAME["spread-admission"].summary)

for _service in SERVICES:
    if _service.role is Role.DECIDER:
        app.command(_decider(_service), name=_service.name, help=_service.summary)

with_examples(app, "run")
