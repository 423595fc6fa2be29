"""The whole of Tidewright on one machine: the log, a cluster, and every service as its own process.

Brought up in stages, each ready before the next: nats-server, the embedded cluster, what both need to
hold (CRDs, the stream), the services. Ended in the reverse order.
"""

from __future__ import annotations

import asyncio
import math
import os
import secrets
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import structlog

from tidewright.asking.environment import variable
from tidewright.asking.errors import BadInput, Unavailable, translated
from tidewright.asking.running import Running, announced
from tidewright.asking.services import BY_NAME, DECIDERS, EVERY, Role, Service
from tidewright.cli import embedded, modeflags
from tidewright.cli.crds.choosing import Policy
from tidewright.cli.crds.installing import Outcome, install
from tidewright.cli.datafolder import DataFolder
from tidewright.cli.diskwatch import DiskWatch, limit_for
from tidewright.cli.foldermark import MadeBy
from tidewright.cli.keys.folder import KeyFolder
from tidewright.cli.supervisor import CannotStart, Fields, Program, Sink, Supervisor
from tidewright.cloud.providers import specs_of
from tidewright.console.access import CONSOLE_TOKEN
from tidewright.events import registry
from tidewright.events.config import ClockSet
from tidewright.kube.client import Kube
from tidewright.kube.clusterid import cluster_id
from tidewright.log.clock import Clock
from tidewright.log.connection import DEFAULT_SLOTS, Log
from tidewright.log.disk import size_of, space
from tidewright.log.errors import WrongStream
from tidewright.log.identity import Identity, shown
from tidewright.log.install import Plan, install_log
from tidewright.log.keyrecord import install_keys
from tidewright.log.redaction import redacted
from tidewright.watcher.modes import OperatorModes

HOST = "127.0.0.1"
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
PATIENCE_S = 30.0
"""Wall seconds for which servers that have no leader yet, or lose one, are asked again."""
TRIES = 3
KEPT_S = 7 * 86_400.0
"""How long a log that is made in a data folder keeps a message: a laptop's disk is not filled by years of samples."""
LEAST_BYTES = 64 << 20
"""Of a limit of the store: several services append, and each leaves some room."""
"""Times that a free port may turn out to be taken after all."""

CLOCK = "clock"
"""The part of the configuration that holds the `ClockSet`."""

logger = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class StackOptions:
    """What to bring up.

    Attributes:
        data: the data folder.
        made_by: the command whose stack it is.
        fresh: clear it before, if Tidewright has marked it.
        nats: URL of a server that runs already; None starts one.
        nats_port, api_port: ports of the embedded servers; None takes those of the last run, or any.
        cluster: name of the cluster on the log.
        kubeconfig, context, in_cluster: a cluster that is there; none of them starts the embedded one.
        slots: partitions of the log; None takes those of the log that is there, or 32.
        services: names of those to run.
        sync_always: every append reaches the disk before it is answered.
        max_age_s: how long the log keeps a message, wall seconds, 0 for ever; None leaves it as it is, and has a log
            that is made in the data folder keep `KEPT_S`.
        max_bytes: how large the embedded log's store may become; None for no limit of its own.
        speed: log seconds per wall second; None leaves the clock as it is.
        log_start, clock_wall: log time and wall time at which a new speed starts; by default the
            log's present and now.
        sim: further arguments of `tidewright sim up`.
        watcher: further arguments of `tidewright run watcher`.
        modes: which services act; None: all in the embedded cluster, and none in another one.
        crds: what may be done with CustomResourceDefinitions; None: `ours` in the embedded cluster, `missing` in
            another one, where others may run a newer version on those that Tidewright created.
        admission_url: under which the API server reaches spread's admission on this machine, which
            listens on its port; with a cluster that is not ours, admission is left out without it.
        node_groups: the simulated cloud's file; None: the default groups in the embedded cluster, and
            no simulated cloud beside another one.
        clouds: `NAME=KIND[:CONFIG]` of clouds that are there; empty for the simulated one.
        sign: every service signs what it writes and believes nothing else, with keys that are made in the data
            folder. A folder that has keys goes on so.
        console: the web console runs, too, where it is installed.
        stop_within_s: wall seconds that a process has to end.
    """

    data: Path
    made_by: MadeBy = "up"
    fresh: bool = False
    nats: str | None = None
    nats_credentials: Identity | None = None
    nats_port: int | None = None
    cluster: str = "local"
    kubeconfig: Path | None = None
    context: str | None = None
    in_cluster: bool = False
    api_port: int | None = None
    services: Sequence[str] = EVERY
    slots: int | None = None
    sync_always: bool = False
    max_age_s: float | None = None
    max_bytes: int | None = None
    sign: bool = False
    speed: float | None = None
    log_start: float | None = None
    clock_wall: float | None = None
    sim: Sequence[str] = ()
    watcher: Sequence[str] = ()
    modes: OperatorModes | None = None
    crds: Policy | None = None
    admission_url: str = ""
    node_groups: Path | None = None
    clouds: tuple[str, ...] = ()
    log_level: str = "info"
    console: bool = False
    stop_within_s: float = 10.0

    def __post_init__(self) -> None:
        """Refuse what cannot be brought up."""
        if unknown := [name for name in self.services if name not in BY_NAME]:
            raise BadInput(f"--services {unknown[0]!r}: no such service: valid are {', '.join(BY_NAME)}")
        if self.speed is not None and not 0 < self.speed < math.inf:
            raise BadInput(f"--speed {self.speed:g}: log seconds per wall second, more than 0")
        if self.slots is not None and not 1 <= self.slots <= 1024:
            raise BadInput(f"--slots {self.slots}: 1 to 1024")
        if self.max_bytes is not None and self.nats:
            raise BadInput(
                f"--max-bytes {self.max_bytes} and --nats {shown(self.nats)}: the limit of a server that is there is set there"
            )
        if self.max_bytes is not None and self.max_bytes < LEAST_BYTES:
            raise BadInput(f"--max-bytes {self.max_bytes}: at least {LEAST_BYTES}, which a log begins with")
        if self.embedded_cluster:
            embedded.needed_for("the embedded cluster (name one that is there with --kubeconfig FILE)")
        if not self.nats:
            embedded.needed_for("the embedded log server (name one that is there with --nats URL)")
        try:
            if self.node_groups is not None:
                embedded.check_node_groups(self.node_groups)
            specs_of(self.clouds)
        except ValueError as error:
            raise BadInput(str(error)) from error
        if self.admission_url:
            self.admission_at()

    def admission_at(self) -> tuple[str, int]:
        """Host and port on which spread's admission listens, as its URL says. Raises BadInput."""
        try:
            url = urlsplit(self.admission_url)
            host, port = url.hostname, url.port or 443
        except ValueError:
            host, port = None, 0
        if not host or url.scheme != "https":
            raise BadInput(
                f"--admission-url {self.admission_url}: an https:// URL, as https://127.0.0.1:9443: "
                "admission listens on its port"
            )
        return (HOST if host in _LOOPBACK else "0.0.0.0"), port  # noqa: S104 - another host's name: reached from there

    @property
    def running(self) -> tuple[str, ...]:
        """Names of the services that are started.

        A webhook that the API server cannot reach would have it refuse every pod, so where it may
        not reach this machine the endpoint is started only when it is said how.
        """
        reachable = self.embedded_cluster or self.admission_url
        return tuple(n for n in self.services if reachable or BY_NAME[n].role is not Role.ENDPOINT)

    @property
    def crds_policy(self) -> Policy:
        """What may be done with CustomResourceDefinitions."""
        return self.crds or ("ours" if self.embedded_cluster else "missing")

    @property
    def wanted_modes(self) -> OperatorModes:
        """Which services act: in a cluster of somebody else's, those that are told to."""
        return self.modes or OperatorModes(mode="enforce" if self.embedded_cluster else "shadow")

    @property
    def programs_log_level(self) -> str:
        """Of the programs: at least `info`, at which they say that they have started; what is shown is less."""
        return "debug" if self.log_level == "debug" else "info"

    @property
    def embedded_cluster(self) -> bool:
        """Whether the cluster is ours to run."""
        return self.kubeconfig is None and not self.in_cluster and self.context is None


def stages(options: StackOptions) -> list[list[Service]]:
    """What is started together, one after the other; it ends in the opposite order.

    Beside a cluster that is there the watcher comes first. It is ready once it has said the modes of this start
    and has looked for incumbents: until then the log holds those of the last run, by which the actuator would
    carry out what was decided before the stop.

    Endpoints come last and end first: it takes the actuator to have them forgotten.
    """
    running = [BY_NAME[name] for name in options.running]

    def place(service: Service) -> int:
        if service.role is Role.ENDPOINT:
            return 2
        return 0 if service.role is Role.WATCHER and not options.embedded_cluster else 1

    by_place = [[service for service in running if place(service) == n] for n in range(3)]
    return [stage for stage in by_place if stage]


class Stack:
    """Everything, while it runs. An async context manager."""

    def __init__(self, options: StackOptions, sink: Sink, folder: DataFolder | None = None) -> None:
        """`folder`: the data folder, where it is open already."""
        self.options = options
        self._disk = DiskWatch(options.data, options.data / "nats")
        self._watching: asyncio.Task[None] | None = None
        self.supervisor = Supervisor(self._heard(sink), stop_within_s=options.stop_within_s)
        self.nats_url = options.nats or ""
        self.kubeconfig = options.kubeconfig
        self.console_url = ""
        """Where the console lets in one browser, once; empty where none runs."""
        self.crds: list[Outcome] = []
        self.clock = Clock()
        self._slots = options.slots or DEFAULT_SLOTS
        self._new_clock = False
        self._clouds = options.clouds
        self._folder = folder
        self._said = ExitStack()

    @property
    def folder(self) -> DataFolder:
        """The open data folder.

        Raises:
            RuntimeError: before the start.
        """
        if self._folder is None:
            raise RuntimeError("the stack has not been started")
        return self._folder

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Bring everything up.

        Raises:
            CommandError: something cannot start; the message says what and why. `stop` is still owed.
        """
        if self._folder is None:
            self._folder = DataFolder.open(self.options.data, self.options.made_by, fresh=self.options.fresh)
        self._disk = DiskWatch(self._folder.path, self._folder.path / "nats")
        if full := space(self._folder.path).full:
            raise Unavailable(full)
        with translated():
            if not self.nats_url:
                self.nats_url = await self._start_nats()
            async with await self._log() as log:
                await self._continue(log)
                if self.options.embedded_cluster:
                    await self._start_cluster()
                if not self.options.embedded_cluster and self.options.node_groups is not None:
                    await self._start_cloud(self.options.node_groups)
                await self._prepare(log)
        for stage in stages(self.options):
            await self.supervisor.start(*map(self._service, stage))
        if self.options.console and find_spec("jinja2") is not None:
            await self._start_console()
        self._announce()

    async def stop(self) -> None:
        """End everything, and let go of the data folder."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
        self._said.close()
        await self.supervisor.stop()
        if self._folder is not None:
            self._folder.close()
            self._folder = None

    def _announce(self) -> None:
        """Let a plain question find this log; not where it takes more than a URL to be let in."""
        identity = self.options.nats_credentials or Identity()
        if self.options.nats and (identity != Identity() or redacted(self.nats_url) != self.nats_url):
            return
        stack = Running(
            nats=self.nats_url, cluster=self.options.cluster, data=str(self.folder.path),
            made_by=self.options.made_by, pid=os.getpid(),
        )  # fmt: skip
        self._said.enter_context(announced(stack))

    def _heard(self, sink: Sink) -> Sink:
        """A sink before which the disk's watch hears what the log's server says."""

        def hears(name: str, line: str) -> None:
            if name == "nats":
                self._disk.heard(line)
            sink(name, line)

        return hears

    async def _log(self) -> Log:
        options = self.options
        return await Log.connect(
            self.nats_url,
            options.cluster,
            credentials=options.nats_credentials,
            name="supervisor",
            timeout_s=5.0,
            patience_s=PATIENCE_S,
        )

    async def _continue(self, log: Log) -> None:
        """Slots and clock: those of the log, or others when they are asked for."""
        try:
            found_slots = await log.adopt_slots()
            self._slots = self.options.slots or found_slots
            record = await log.last(log.subjects.config(CLOCK))
        except WrongStream:
            record = None  # there is no stream yet
        recorded = registry.read(record.body) if record else None
        if isinstance(recorded, ClockSet):
            self.clock.set(recorded)
        speed, start = self.options.speed, self.options.log_start
        self._new_clock = speed is not None and (speed != self.clock.speed or start is not None)
        if speed is not None and self._new_clock:
            wall = time.time() if self.options.clock_wall is None else self.options.clock_wall
            begin = self.clock.log_of(wall) if start is None else start
            self.clock.set(ClockSet(at=begin, wall=wall, log=begin, speed=speed))

    async def _prepare(self, log: Log) -> None:
        """What the cluster and the log have to hold before a service starts."""
        options = self.options
        async with await Kube.connect(self.kubeconfig, options.in_cluster, options.context) as kube:
            await kube.request("GET", "/version", timeout_s=10.0)
            # First the log, which refuses another cluster: then nothing was written to this one.
            await install_log(
                log,
                Plan(
                    slots=self._slots, cluster_id=await cluster_id(kube), deciders=DECIDERS,
                    max_age_s=await self._max_age_s(log),
                ),
            )  # fmt: skip
            if self._keys is not None:
                self._keys.make()
                await install_keys(log, self._keys.root(), self._keys.services())
            if not options.nats:
                await log.say_store(self.folder.path / "nats")
            self.crds = await install(kube, options.crds_policy)

    async def _max_age_s(self, log: Log) -> float | None:
        """What is asked for; None leaves a log that is there as it is."""
        given = self.options.max_age_s
        if given is not None or self.options.nats or await log.settings(log.stream) is not None:
            return given
        return KEPT_S

    async def _start_nats(self) -> str:
        store = self.folder.path / "nats"
        store.mkdir(exist_ok=True)
        config = store / "nats-server.conf"
        for remaining in reversed(range(TRIES)):
            port = self.folder.port("nats", self.options.nats_port)
            self._configure_nats(store, port)
            program = Program("nats", (embedded.nats_program(), "-c", str(config)), started=_nats_started)
            if await self._started(program, retry=remaining > 0 and self.options.nats_port is None):
                break
        child = self.supervisor.last("nats")

        def restart() -> None:
            self._configure_nats(store, port)
            child.restart()

        self._disk.restart = restart
        self._watching = asyncio.create_task(self._disk.run(), name="watch the disk")
        return f"nats://{HOST}:{port}"

    def _configure_nats(self, store: Path, port: int) -> None:
        """Write the server's configuration, with a limit that lies below the end of its disk as it is now."""
        limit, asked = limit_for(space(store), size_of(store)), self.options.max_bytes
        now = asyncio.get_running_loop().time()
        if asked is not None and asked < limit:
            limit = asked
            self._disk.started(0, now)  # a start does not move a limit that was asked for
        else:
            self._disk.started(limit, now)
        (store / "nats-server.conf").write_text(
            embedded.nats_configuration(
                store, HOST, port, sync_always=self.options.sync_always, max_store_bytes=limit
            )
        )

    async def _start_cluster(self) -> None:
        options, folder = self.options, self.folder
        for remaining in reversed(range(TRIES)):
            side_port = folder.port("side", None)
            command = [
                *("sim", "up", "--port", str(folder.port("api", options.api_port))),
                *("--data", str(folder.path / "cluster"), "--write-kubeconfig", str(folder.kubeconfig)),
                *("--log-level", options.programs_log_level, "--log-format", "json", "--health-port", "0"),
                *("--side-port", str(side_port)),
                *self._cloud_file(),
                *self._clock_flags(),
                *options.sim,
            ]
            program = Program("cluster", _tidewright(*command), env={"KUBECONFIG": None})
            if await self._started(program, retry=remaining > 0 and options.api_port is None):
                break
        self.kubeconfig = folder.kubeconfig
        self._clouds = self._clouds or (f"simulated=simulated:http://{HOST}:{side_port}",)

    def _cloud_file(self) -> list[str]:
        if self.options.clouds:
            return []
        return ["--cloud", str(self.options.node_groups or embedded.default_node_groups())]

    async def _start_cloud(self, node_groups: Path) -> None:
        """The simulated cloud beside a cluster that is there; its nodes go when it ends."""
        if self.kubeconfig is None:
            raise BadInput("--node-groups beside a cluster that is there needs --kubeconfig")
        side_port = self.folder.port("side", None)
        command = [
            *("sim", "attach", "--kubeconfig", str(self.kubeconfig.resolve()), "--nodes", "0"),
            *("--cloud", str(node_groups), "--side-port", str(side_port)),
            *("--log-level", self.options.programs_log_level, "--log-format", "json", "--health-port", "0"),
            *self._clock_flags(),
        ]
        await self.supervisor.start(Program("cloud", _tidewright(*command)))
        self._clouds = (*self._clouds, f"simulated=simulated:http://{HOST}:{side_port}")

    async def _started(self, program: Program, *, retry: bool) -> bool:
        """Start a server; False when its port was taken in between and another is worth a try."""
        try:
            await self.supervisor.start(program)
        except CannotStart as error:
            if retry and "address already in use" in str(error).lower():
                await self.supervisor.stop_last()
                return False
            raise
        return True

    @property
    def _keys(self) -> KeyFolder | None:
        """The keys of the services; None where nothing is signed."""
        folder = KeyFolder((self.options.data / "keys").resolve())
        return folder if self.options.sign or folder.anchor.exists() else None

    def _service(self, service: Service) -> Program:
        options = self.options
        command = ["run", service.name, "--cluster", options.cluster]
        if options.nats_credentials is not None:
            command += options.nats_credentials.arguments()
        # Samples are pushed to the watcher's port: it is told to people, so it stays over restarts and starts.
        port = self.folder.port(service.name, None) if service.role is Role.WATCHER else 0
        command += ["--log-level", options.programs_log_level, "--log-format", "json"]
        command += ["--health-port", str(port)]
        if self._keys is not None:
            command += ["--signing-key", str(self._keys.key(service.name)), "--trust", str(self._keys.anchor)]
        # A URL may hold a password, and arguments are shown to everybody on this machine.
        env: dict[str, str | None] = {variable("--nats"): self.nats_url}
        if service.role is Role.ENDPOINT:
            if service.name == "spread-admission" and options.admission_url:
                host, port = options.admission_at()
                command += ["--host", host, "--port", str(port), "--url", options.admission_url]
            else:
                name = "admission" if service.name == "spread-admission" else service.name
                command += ["--port", str(self.folder.port(name, None))]
        if service.role in (Role.DECIDER, Role.ENDPOINT):
            env["KUBECONFIG"] = None  # they hold no cluster credentials
        else:
            if self.kubeconfig is not None:
                command += ["--kubeconfig", str(self.kubeconfig.resolve())]
            if options.context is not None:
                command += ["--context", options.context]
            if options.in_cluster:
                command += ["--in-cluster"]
            if (
                list(self._clouds) != os.environ.get(variable("--cloud"), "").split()
            ):  # which is read there, too
                command += [part for cloud in self._clouds for part in ("--cloud", cloud)]
        if service.role is Role.ENDPOINT:
            command += ["--token-file", str(self.folder.token(service.name))]
        if service.role is Role.ACTUATOR:
            for endpoint in (name for name in options.running if BY_NAME[name].role is Role.ENDPOINT):
                command += ["--endpoint-token", f"{endpoint}={self.folder.token(endpoint)}"]
        if service.role is Role.ACTUATOR and options.admission_url:
            command += ["--endpoint", f"spread-admission={options.admission_url}"]
        if service.role is Role.WATCHER:
            command += [
                *(self._clock_flags() if self._new_clock else ()),
                *options.watcher,
                *modeflags.arguments(options.wanted_modes),
            ]
        return Program(service.name, _tidewright(*command), env=env)

    async def _start_console(self) -> None:
        """Nobody's work waits for it: where it cannot start, the rest runs without."""
        options, port = self.options, self.folder.port("console", None)
        command = ["console", "--cluster", options.cluster, "--port", str(port)]
        if options.nats_credentials is not None:
            command += options.nats_credentials.arguments()
        if self._keys is not None:
            command += ["--trust", str(self._keys.anchor)]
        command += ["--log-level", options.programs_log_level, "--log-format", "json", "--health-port", "0"]
        token = secrets.token_urlsafe(24)
        env = {variable("--nats"): self.nats_url, CONSOLE_TOKEN: token, "KUBECONFIG": None}
        try:
            await self.supervisor.start(Program("console", _tidewright(*command), env=env))
        except CannotStart as error:
            logger.warning("there is no console", error=str(error))
            await self.supervisor.stop_last()
            return
        self.console_url = f"http://{HOST}:{port}/?token={token}"

    def _clock_flags(self) -> list[str]:
        setting = self.clock.setting
        if setting is None:
            return []
        flags = {"--speed": setting.speed, "--log-start": setting.log, "--clock-wall": setting.wall}
        return [part for name, value in flags.items() for part in (name, repr(value))]


def _tidewright(*arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "tidewright.cli.main", *arguments)


def _nats_started(line: str) -> Fields | None:
    return {} if "Server is ready" in line else None
