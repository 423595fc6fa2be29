"""A simulated cluster as something to start and stop, embedded or beside a real API server.

    async with SimCluster(SimOptions(pools=(NodePool(count=3),)), clock) as cluster:
        kube = Kube.at(cluster.url)

Embedded: an API server of ours, workload controllers, scheduler, kubelets and metrics. Attached
(`SimOptions.kubeconfig`): nodes, kubelets and metrics beside somebody else's API server, touching
only nodes that carry our label and the pods bound to them, and removing the nodes at the end.
Either way everything but the API server is a client; beside a server of this process its requests skip the
socket (`direct.py`), its watches do not.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Self

import aiohttp
import structlog

from tidewright.cloud.simulated.wire import PREFIX
from tidewright.events.config import ClockSet
from tidewright.kube.client import Kube
from tidewright.kube.errors import KubeError
from tidewright.log.clock import Clock
from tidewright.sim.api.server import ApiServer
from tidewright.sim.cloud.config import CloudConfig, load
from tidewright.sim.cloud.service import SimulatedCloud
from tidewright.sim.controllers.cache import Cache
from tidewright.sim.controllers.manager import Manager, controllers
from tidewright.sim.controllers.objects import LEASE, NODE, POD
from tidewright.sim.controllers.recorder import Recorder
from tidewright.sim.controllers.writes import Writer, create, delete
from tidewright.sim.direct import DirectKube
from tidewright.sim.kubelets.kubelets import Kubelets
from tidewright.sim.kubelets.nodes import LEASE_NAMESPACE, pool_nodes
from tidewright.sim.metrics.server import RESOURCES, VERSION, MetricsApi, SideServer
from tidewright.sim.metrics.values import Metrics
from tidewright.sim.nodefaults import PATHS, NodeFaults
from tidewright.sim.options import NODE_LABEL, NodePool, SimOptions
from tidewright.sim.scheduler.loop import Scheduler

_log = structlog.get_logger(__name__)

SYNC_TIMEOUT_S = 60.0
"""Wall seconds in which the first lists must be there."""


class SimCluster:
    """One simulated cluster.

    Attributes:
        server: the embedded API server; None when attached.
        kube: the client that all components share.
        metrics: the metrics that are served; more can be added while it runs.
        kubelets: None without kubelets.
        scheduler: None without one.
        cloud: None without one; it is served below `/cloud/v1` of `side_url`.
    """

    def __init__(
        self, options: SimOptions, clock: Clock | None = None, cloud: CloudConfig | None = None
    ) -> None:
        """Nothing is opened yet; `cloud` takes the place of the file that the options name.

        Raises:
            tidewright.sim.cloud.config.ConfigError: that file cannot be used.
            ValueError: a metric's trace or selector cannot be read.
        """
        self.options = options
        self.clock = clock if clock is not None else clock_of(options)
        self.cache = Cache()
        self.metrics = Metrics(self.cache, options.metrics)
        self.server: ApiServer | None = None
        self.kubelets: Kubelets | None = None
        self.scheduler: Scheduler | None = None
        self.cloud: SimulatedCloud | None = None
        self._cloud_config = load(options.cloud) if cloud is None and options.cloud is not None else cloud
        self.side = SideServer(
            MetricsApi(self.metrics, self.cache, self.clock), options.host, options.side_port
        )
        self._kube: Kube | None = None
        self._writer: Writer | None = None
        self._running: asyncio.Task[None] | None = None

    @property
    def attached(self) -> bool:
        return self.options.kubeconfig is not None

    @property
    def kube(self) -> Kube:
        if self._kube is None:
            raise RuntimeError("the simulated cluster is not started")
        return self._kube

    @property
    def url(self) -> str:
        """Of the API server."""
        return self.kube.url

    @property
    def side_url(self) -> str:
        """Of the server beside it: metrics APIs, `/sim/metrics`."""
        return self.side.url

    async def start(self) -> None:
        """Bring everything up; nodes exist and caches are current when it returns.

        Raises:
            KubeError: the API server cannot be used (attached).
            OSError: an address is taken.
            TimeoutError: the API server does not answer the first lists.
        """
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        options = self.options
        if options.kubeconfig is not None:
            self._kube = await Kube.connect(options.kubeconfig)
            await self._kube.request("GET", "/version")
        else:
            self.server = ApiServer(
                options.data,
                options.host,
                options.port,
                request_log_path=options.request_log,
                clock=self.clock.now,
            )
            for group, resources in RESOURCES.items():
                self.server.mount(group, VERSION, resources, self.side.metrics_api.handle)
            await self.server.start()
            # No proxy lies between us and our own server; looking for one costs a thread per request.
            session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), read_bufsize=2**20)
            self._kube = DirectKube(session, self.server)
        work = self._components(self._kube)
        await self.side.start()
        self._running = asyncio.create_task(self._run(work), name="simulated cluster")
        await self._or_fail(self.cache.synced())
        for pool in options.pools:
            await self.add_nodes(pool)
        if self.server is not None and options.write_kubeconfig is not None:
            self.server.write_kubeconfig(options.write_kubeconfig)
        _log.info("simulated cluster up", url=self.url, side_url=self.side_url, attached=self.attached)

    def _components(self, kube: Kube) -> list[tuple[str, Callable[[], Any]]]:
        options = self.options
        writer = self._writer = Writer(kube, self.cache)
        recorder = Recorder(writer, self.clock)
        work: list[tuple[str, Callable[[], Any]]] = []
        if self.attached:
            self.cache.restrict(NODE, {"labelSelector": f"{NODE_LABEL}=true"})
            self.cache.restrict(POD, {"fieldSelector": "spec.nodeName!="})
        else:
            if options.controllers:
                enabled = controllers(options.controller_manager)
                work.append(("controllers", Manager(self.cache, writer, self.clock, enabled, recorder).run))
            if options.scheduler:
                self.scheduler = Scheduler(self.cache, writer, self.clock, recorder)
                work.append(("scheduler", self.scheduler.run))
            work.append(("recorder", recorder.run))
        if options.kubelets is not None:
            self.kubelets = Kubelets(self.cache, writer, self.clock, options.kubelets)
            work.append(("kubelets", self.kubelets.run))
        if self._cloud_config is not None:
            books = options.data / "cloud.json" if options.data is not None else None
            self.cloud = SimulatedCloud(
                self._cloud_config, self.cache, writer, clock=self.clock, on_lost=self._lose,
                on_deletion=self.server.note_deletion if self.server is not None else None, books=books,
            )  # fmt: skip
            self.side.mount(PREFIX, self.cloud.handle)
            work.append(("cloud", self.cloud.run))
        faults = NodeFaults(self.kubelets, self.clock)
        for path in PATHS:
            self.side.mount(path, faults.handle)
            if self.server is not None:
                self.server.mount_path(path, faults.handle)
        # Last, when every component has made the stores that it reads.
        work.append(("cache", lambda: self.cache.run(kube)))
        return work

    def _lose(self, node: str) -> None:
        if self.kubelets is not None and node in self.kubelets.nodes:
            self.kubelets.lose(node)

    async def _run(self, work: list[tuple[str, Callable[[], Any]]]) -> None:
        async with asyncio.TaskGroup() as group:
            for name, run in work:
                group.create_task(run(), name=f"sim {name}")

    async def _or_fail(self, waiting: Any) -> None:
        """Wait for something, or raise what ended the components meanwhile."""
        assert self._running is not None  # noqa: S101 - started by the caller
        task = asyncio.ensure_future(waiting)
        done, _ = await asyncio.wait(
            {task, self._running}, timeout=SYNC_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED
        )
        if task not in done:
            task.cancel()
            if self._running in done:
                self._running.result()
            raise TimeoutError(f"{self.url}: no complete first lists within {SYNC_TIMEOUT_S:g} s")

    async def wait(self) -> None:
        """Wait until a component fails, and raise what it raised; otherwise for ever."""
        if self._running is not None:
            await asyncio.shield(self._running)

    async def add_nodes(self, pool: NodePool) -> None:
        """Create the nodes of a pool; those of ours that exist already stay.

        Raises:
            KubeError: a node cannot be created.
            ValueError: a node of that name exists and is not ours.
        """
        assert self._writer is not None  # noqa: S101 - started
        nodes = list(pool_nodes(pool, self.clock.now()))
        writer = self._writer
        sent = await asyncio.gather(*(writer.send(create(NODE, "", node, tolerate=(409,))) for node in nodes))
        for node, created in zip(nodes, sent, strict=True):
            if not created:
                await self._check_ours(node["metadata"]["name"])

    async def _check_ours(self, name: str) -> None:
        answer = await self.kube.request("GET", NODE.path(("", name)))
        if b'"' + NODE_LABEL.encode() + b'"' not in answer.body:
            raise ValueError(f"node {name} exists and is not sim's; choose another prefix for the pool")

    async def stop(self) -> None:
        """Stop everything; when attached (or asked to), remove our nodes first."""
        if self._running is not None:
            self._running.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await self._running
            self._running = None
        if self._kube is not None:
            if (self.attached or self.options.cleanup) and self._writer is not None:
                await self._clean_up(self._writer)
            await self._kube.close()
            self._kube = None
        await self.side.stop()
        if self.server is not None:
            await self.server.stop()
            self.server = None

    async def _clean_up(self, writer: Writer) -> None:
        """Remove our nodes, their leases, and the pods on them that were to go anyway."""
        nodes = [
            node
            for node in self.cache.of(NODE).objects.values()
            if node.metadata.labels.get(NODE_LABEL) == "true"
        ]
        try:
            for node in nodes:
                leaving = [
                    delete(POD, pod.key, pod.metadata.uid, grace_s=0)
                    for pod in self.cache.pods.on_node(node.metadata.name)
                    if pod.metadata.deletion_timestamp is not None
                ]
                await writer.send_all(leaving)
            await writer.send_all([delete(NODE, node.key, node.metadata.uid) for node in nodes])
            selector = {"labelSelector": f"{NODE_LABEL}=true"}
            path = LEASE.path((LEASE_NAMESPACE, ""))
            await self.kube.request("DELETE", path, query=selector)
        except KubeError as error:
            _log.warning("simulated nodes could not be removed", url=self.url, error=str(error))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()


def clock_of(options: SimOptions) -> Clock:
    """A clock that runs as the options say, from now on."""
    clock = Clock()
    if options.speed != 1.0 or options.log_start is not None:
        wall = clock.now()
        start = wall if options.log_start is None else options.log_start
        clock.set(ClockSet(at=start, wall=wall, log=start, speed=options.speed))
    return clock


async def run(options: SimOptions, ready: Callable[[SimCluster], None] | None = None) -> None:
    """Run a simulated cluster until cancelled, or until a component fails.

    Args:
        options: embedded, or attached when `kubeconfig` is set.
        ready: called once everything is up.

    Raises:
        KubeError, OSError, TimeoutError, ValueError: it cannot start; the message says why.
    """
    async with SimCluster(options) as cluster:
        if ready is not None:
            ready(cluster)
        await cluster.wait()
