"""The watcher as a process: connects, makes the stream, and runs one task per part."""

from __future__ import annotations

import asyncio
import math
import os
import random
import time
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import stamina.instrumentation
import structlog
from prometheus_client import Gauge

from tidewright.cloud.calls import PER_S, TIMEOUT_S
from tidewright.cloud.providers import Surroundings, specs_of
from tidewright.events.facts import ObjectFact
from tidewright.host.loop import lookout
from tidewright.host.loop.fenced import Fenced, InFlight, begins, mind, present
from tidewright.host.process import copies, store
from tidewright.host.process.health import Health
from tidewright.host.process.process import Process
from tidewright.host.process.service import LogOptions, connect, find_stream
from tidewright.kube.client import Kube
from tidewright.kube.clusterid import cluster_id
from tidewright.kube.customworkloads import WHITELIST_CONFIG_MAP
from tidewright.kube.discovery import Discovery
from tidewright.kube.kinds import BY_NAME, KINDS, WatchedKind
from tidewright.log.clock import Clock
from tidewright.log.connection import Log
from tidewright.log.envelope import Writer
from tidewright.log.identity import Identity
from tidewright.log.install import members_of
from tidewright.watcher import passing_on
from tidewright.watcher.appender import SERVICE, Appender
from tidewright.watcher.clouds import INTERVAL_S as CLOUD_INTERVAL_S
from tidewright.watcher.clouds import NODE_GROUP, CloudsWatch
from tidewright.watcher.configuration import CONFIG, NO_SERVICES, Configuration, set_clock
from tidewright.watcher.custom_workloads import CUSTOM, CustomWorkloads
from tidewright.watcher.follow import Follower
from tidewright.watcher.incumbents.judging import QUIET_S
from tidewright.watcher.incumbents.looking import INCUMBENT, Incumbents
from tidewright.watcher.kind_ownership import Heard
from tidewright.watcher.labelscan import KIND as SLOT_LABELS
from tidewright.watcher.labelscan import LabelScanner
from tidewright.watcher.log_time import Stamp
from tidewright.watcher.modes import OperatorModes, Services
from tidewright.watcher.outbound import Hosts, own_namespace
from tidewright.watcher.pushport import NO_PUSH_OPTIONS, PushOptions, PushPort
from tidewright.watcher.recommenders import Recommenders
from tidewright.watcher.sampler import INTERVAL_S, METRIC, Sampler, Sources
from tidewright.watcher.scaled_workloads import SCALED, ScaledWorkloads
from tidewright.watcher.served import Served
from tidewright.watcher.serviceload import KIND as SERVICE_LOAD
from tidewright.watcher.serviceload import ServiceLoads
from tidewright.watcher.tls import NO_TLS, Tls

OBSERVED_HERE = frozenset({"WatermarkPodAutoscaler", "WorkloadSpread", "ShardSet"})
"""Kinds whose objects say what else is to be asked for."""
OTHERS_FIRST_S = 15.0
"""How long a kind that refers to others waits for their lists."""
INCUMBENTS_FIRST_S = 15.0
"""How long incumbents are looked for before anything is said that would be acted on."""
START_AGAIN_S = 0.5
"""So long at most one waits, wall seconds, that starts while another one does, and had its first words refused for that."""
START_S = 60.0
"""How long the API server may take to answer at the start."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the watcher takes.

    Attributes:
        cluster: names the log; one watcher fleet per cluster.
        kubeconfig: None for `KUBECONFIG` or `~/.kube/config`; not used when `in_cluster`.
        max_age_s: how long the log keeps a message, seconds; 0: as the stream says.
        external_metrics_url, resource_metrics_url: base URLs of metrics APIs; empty for the API server.
        config_map: `namespace/name` of the configuration; empty for none.
        modes: which services act, where the configuration does not say; None: as the log says.
        services: those that have a mode.
        whitelist_config_map: `namespace/name` of the ConfigMap with spread's custom workloads.
        speed: log seconds per wall second; None to follow what the log says.
        log_start: log time at which a new mapping starts; None for the wall clock's.
        clock_wall: wall time of that moment, seconds, so that others can follow the same mapping from
            their own start; None for now.
        kinds: names of the kinds to follow; empty for all.
        metrics_interval_s: log time between two samples of a metric.
        page_size: objects per page of a list.
        streaming_lists: take initial lists as watch events where the server can.
        recommender_tls: towards recommenders whose objects say nothing else.
        recommender_tls_folder: where files lie that objects may name for it; None: they may name none.
        recommender_hosts: what objects may have asked beside Services of the cluster, see `watcher.outbound`.
        cluster_name: what recommenders are told as the cluster's name; empty for `K8S_CLUSTER_NAME`.
        push: who may push metrics, and where.
        clouds: `NAME=KIND[:CONFIG]` of the clouds whose node groups are polled; empty for none.
        cloud_interval_s: log time between two polls while nothing is under way.
        cloud_config, cloud_discovery, cloud_nodes: what Cluster Autoscaler's flags say about them.
        cloud_qps: calls per second to each of them, on average.
        cloud_timeout_s: wall seconds that a call to one may take.
        incumbent_quiet_s: for how long nothing may show an incumbent before it counts as gone, wall seconds.
    """

    nats_url: str
    cluster: str
    nats_credentials: Identity | None = None
    kubeconfig: Path | None = None
    context: str | None = None
    in_cluster: bool = False
    max_age_s: float = 0.0
    external_metrics_url: str = ""
    resource_metrics_url: str = ""
    config_map: str = ""
    modes: OperatorModes | None = None
    services: Services = NO_SERVICES
    whitelist_config_map: str = f"kruise-system/{WHITELIST_CONFIG_MAP}"
    speed: float | None = None
    log_start: float | None = None
    clock_wall: float | None = None
    kinds: tuple[str, ...] = ()
    metrics_interval_s: float = INTERVAL_S
    page_size: int = 500
    streaming_lists: bool = False
    recommender_tls: Tls = NO_TLS
    recommender_tls_folder: Path | None = None
    recommender_hosts: tuple[str, ...] = ()
    cluster_name: str = ""
    push: PushOptions = NO_PUSH_OPTIONS
    clouds: tuple[str, ...] = ()
    cloud_interval_s: float = CLOUD_INTERVAL_S
    cloud_config: str = ""
    cloud_discovery: tuple[str, ...] = ()
    cloud_nodes: tuple[str, ...] = ()
    cloud_qps: float = PER_S
    cloud_timeout_s: float = TIMEOUT_S
    incumbent_quiet_s: float = QUIET_S


async def run(options: Options, process: Process | None = None) -> None:
    """Run until `process.stop` is set (or this task is cancelled).

    Raises:
        LogError: the log cannot be used; see its classes.
        KubeError: the cluster's configuration cannot be used, or it does not answer within `START_S`.
        ValueError: no such cloud.
        Misconfigured: tokens or certificate of pushes cannot be used.
    """
    # Retries are logged where they happen, with what they mean.
    stamina.instrumentation.set_on_retry_hooks([])
    kube = await Kube.connect(options.kubeconfig, options.in_cluster, options.context)
    external = Kube.at(options.external_metrics_url) if options.external_metrics_url else kube
    resource = Kube.at(options.resource_metrics_url) if options.resource_metrics_url else kube
    try:
        identity = await cluster_id(kube, patience_s=START_S)
        at = LogOptions(options.nats_url, options.cluster, options.nats_credentials)
        async with await connect(at, process, name=SERVICE, patience_s=START_S) as log:
            await find_stream(log, process, identity)
            if process is not None and process.stop.is_set():
                return
            # Servers without a leader, or two of three gone, pass: to end would only bring back one that waits as well.
            log.patience_s = math.inf
            options = replace(options, max_age_s=options.max_age_s or log.max_age_s)
            watcher = Watcher(options, log, Sources(kube=kube, external=external, resource=resource), process)
            try:
                async with watcher.pushes.served() if watcher.pushes else nullcontext():
                    await watcher.run(process)
            finally:
                await watcher.recommenders.close()
    finally:
        for client in {kube, external, resource}:
            await client.close()


class Watcher:
    """All parts of one process."""

    def __init__(self, options: Options, log: Log, sources: Sources, process: Process | None = None) -> None:
        self.options = options
        self.clock = Clock()
        self.stamp = Stamp(self.clock.now, time.monotonic, lambda: self.clock.speed)
        self._log = log
        self._writer = Writer(SERVICE)
        self._in_flight = InFlight()
        self._appenders: dict[str, Appender] = {}

        def appender(part: str) -> Appender:
            return self._appenders.setdefault(part, Appender(log, self._writer, part, self._in_flight))

        self._config_appender = appender(CONFIG)
        self._configuration = Configuration(
            sources.kube,
            log,
            self._config_appender,
            self.stamp,
            config_map=options.config_map,
            max_age_s=options.max_age_s,
            modes=options.modes,
            services=options.services,
        )
        self.sampler = Sampler(
            sources,
            Discovery(sources.kube),
            log,
            appender=appender(METRIC),
            stamp=self.stamp,
            clock=self.clock,
            interval_s=options.metrics_interval_s,
            shared_metrics=options.push.shared_metrics,
        )
        self.custom = CustomWorkloads(
            sources.kube,
            Discovery(sources.kube),
            log,
            appender(CUSTOM),
            self.stamp,
            config_map=options.whitelist_config_map,
            max_age_s=options.max_age_s,
        )
        self.scaled = ScaledWorkloads(
            sources.kube,
            Discovery(sources.kube),
            log,
            appender(SCALED),
            self.stamp,
            max_age_s=options.max_age_s,
        )
        registry = process.health.metrics.registry if process else None
        self.recommenders = self.sampler.recommenders = Recommenders(
            sources.kube,
            self.sampler.scale_of,
            self.clock.now,
            cluster=options.cluster_name or os.environ.get("K8S_CLUSTER_NAME", ""),
            tls=options.recommender_tls,
            tls_folder=options.recommender_tls_folder,
            hosts=Hosts(options.recommender_hosts, ours=own_namespace()),
            registry=registry,
        )
        self.pushes = (
            PushPort(options.push, self.sampler, process, registry, entries=lambda: self._in_flight.entries)
            if process
            else None
        )
        around = Surroundings(
            kubeconfig=options.kubeconfig,
            context=options.context,
            in_cluster=options.in_cluster,
            discovery=options.cloud_discovery,
            nodes=options.cloud_nodes,
            config=options.cloud_config,
            per_s=options.cloud_qps,
            timeout_s=options.cloud_timeout_s,
        )
        self._kube = sources.kube
        self.served = Served()
        self.clouds = CloudsWatch(
            {spec: spec.provider(around) for spec in specs_of(options.clouds)},
            log,
            appender(NODE_GROUP),
            self.stamp,
            self.clock,
            interval_s=options.cloud_interval_s,
            max_age_s=options.max_age_s,
            served=self.served,
        )
        kinds = tuple(BY_NAME[name] for name in options.kinds) or KINDS
        self.labels = LabelScanner(
            sources.kube, Discovery(sources.kube), log, appender(SLOT_LABELS), self.stamp
        )
        self.incumbents = Incumbents(
            sources.kube,
            log,
            appender(INCUMBENT),
            self.stamp,
            self.clock.now,
            quiet_s=options.incumbent_quiet_s,
            max_age_s=options.max_age_s,
            metrics=registry,
        )
        self.service_loads = ServiceLoads(sources.kube, log, appender(SERVICE_LOAD), self.stamp)
        self.followers = {kind: self._follower(kind, sources.kube, appender(kind.name)) for kind in kinds}
        self.sampler.monitors_unread = self._monitors_unread
        self.sampler.unable = lambda: self._log.unable

    def _follower(self, kind: WatchedKind, kube: Kube, appender: Appender) -> Follower:
        return Follower(
            kind,
            kube,
            self._log,
            appender,
            self.stamp,
            on_fact=self._on_fact if kind.kind in OBSERVED_HERE else None,
            max_age_s=self.options.max_age_s,
            page_size=self.options.page_size,
            streaming=self.options.streaming_lists,
        )

    def _heard(self, kind: str) -> Heard | None:
        """Of a kind; None when this process does not follow it at all."""
        return next((f.heard for k, f in self.followers.items() if k.kind == kind), None)

    def _monitors_unread(self) -> bool:
        follower = self.followers.get(BY_NAME["datadogmonitor"])
        return follower is not None and follower.progress.error_class in ("forbidden", "gone", "invalid")

    def _on_fact(self, fact: ObjectFact) -> None:
        self.sampler.observe(fact)
        self.custom.observe(fact)
        self.scaled.observe(fact)
        self.labels.observe(fact)

    async def run(self, process: Process | None) -> None:
        """Run all parts until told to stop; the failure of one ends all."""
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(mind(self._log.continuity, self._in_flight))]
            if process is not None:
                running.append(tasks.create_task(self._report(process.health)))
                kept = [self._log.stream, f"KV_{members_of(self._log.stream)}"]
                series = process.health.metrics.registry
                running.append(tasks.create_task(copies.watch(self._log, kept, series)))
                running.append(tasks.create_task(store.watch(self._log, series)))
            running.append(tasks.create_task(self._be_present()))
            if process is not None:
                await process.stop.wait()
                for task in running:
                    task.cancel()

    async def _be_present(self) -> None:
        async with present(
            self._log, self._writer, self._in_flight, self.options.max_age_s, says=self._looks_at
        ):
            await self._work()

    def _looks_at(self) -> bytes:
        """What this process's entry among the members says: by it the actuator knows that it is told of all, and other
        watchers know where to pass pushes on to.
        """
        looks = {lookout.INCUMBENTS: self.incumbents.looks, lookout.MODES: self._configuration.looks}
        parts = [part for part, it_looks in looks.items() if it_looks]
        if self.pushes is not None and self.sampler.samples_here:
            parts += passing_on.said(self.pushes.address)
        return lookout.entry(parts)

    async def _work(self) -> None:
        await begins(self._log.continuity, self._in_flight, "the watcher at its start")
        await self._first_words()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._configuration.run())
            tasks.create_task(self.sampler.run(self._heard("WatermarkPodAutoscaler")))
            tasks.create_task(self.custom.run(self._heard("WorkloadSpread")))
            tasks.create_task(self.scaled.run(self._heard("WatermarkPodAutoscaler")))
            tasks.create_task(self.labels.run(self._heard("ShardSet")))
            tasks.create_task(self.service_loads.run())
            tasks.create_task(self.incumbents.run())
            tasks.create_task(self._start_clouds())
            if self.clouds.readers:
                tasks.create_task(self.served.run(self._kube))
            for kind, follower in self.followers.items():
                tasks.create_task(self._start(kind, follower))

    async def _first_words(self) -> None:
        """Say clock and modes as the options have them, where nobody has, before anything else is said."""
        while True:
            try:
                position = await self._config_appender.take()
                self.stamp.raise_to(position.at)
                await set_clock(
                    self._log,
                    self._config_appender,
                    self.clock,
                    stamp=self.stamp,
                    speed=self.options.speed,
                    log_start=self.options.log_start,
                    clock_wall=self.options.clock_wall,
                )
                await self._configuration.first_modes()
            except Fenced:  # by one that starts at the same time: what it has said meanwhile is read now
                await asyncio.sleep(random.uniform(0.0, START_AGAIN_S))  # noqa: S311 - jitter
            else:
                return

    async def _start(self, kind: WatchedKind, follower: Follower) -> None:
        if kind.after_others:
            try:
                async with asyncio.timeout(OTHERS_FIRST_S):
                    for other, it in self.followers.items():
                        if not other.after_others:
                            await it.progress.settled.wait()
            except TimeoutError:
                _log.warning("not all kinds are listed, going on", kind=kind.name)
            await self._incumbents_first()
        await follower.run()

    async def _start_clouds(self) -> None:
        await self._incumbents_first()
        if self.clouds.readers:
            try:
                async with asyncio.timeout(INCUMBENTS_FIRST_S):
                    await self.served.looked.wait()
            except TimeoutError:
                _log.warning("what is served of these clouds to others is not known, going on")
        await self.clouds.run()

    async def _incumbents_first(self) -> None:
        """Whoever decides knows of an incumbent before it knows of what both would act on."""
        try:
            async with asyncio.timeout(INCUMBENTS_FIRST_S):
                await self.incumbents.looked.wait()
        except TimeoutError:
            _log.warning("not everything is looked at that would show an incumbent, going on")

    async def _report(self, health: Health) -> None:
        """Readiness, the loop's ticks, and metrics."""
        r = health.metrics.registry
        gauges = {
            "facts": Gauge(
                "tidewright_watcher_facts", "Facts published since the start.", ["kind"], registry=r
            ),
            "unchanged": Gauge(
                "tidewright_watcher_unchanged", "Objects seen that gave no fact.", ["kind"], registry=r
            ),
            "malformed": Gauge(
                "tidewright_watcher_malformed", "Objects that could not be read.", ["kind"], registry=r
            ),
            "left_out": Gauge(
                "tidewright_watcher_left_out",
                "Annotations that were too long for a fact.",
                ["kind"],
                registry=r,
            ),
        }
        set_aside = Gauge(
            "tidewright_watcher_set_aside", "Facts that were too large for the log.", ["part"], registry=r
        )
        look_until = time.monotonic() + INCUMBENTS_FIRST_S
        while True:
            health.tick()
            for part, appender in self._appenders.items():
                set_aside.labels(part).set(appender.set_aside)
            waiting = []
            for kind, follower in self.followers.items():
                progress = follower.progress
                for name, gauge in gauges.items():
                    gauge.labels(kind.name).set(getattr(progress, name))
                # Neither a kind that the cluster does not have is waited for, nor one that another process has.
                elsewhere = self._appenders[kind.name].elsewhere is not None
                if not (progress.synced.is_set() or elsewhere or progress.error_class == "gone"):
                    waiting.append(f"{kind.name} ({progress.error_class or 'listing'})")
            gauges["facts"].labels(METRIC).set(self.sampler.samples)
            if self._appenders[NODE_GROUP].elsewhere is None:
                waiting += [f"cloud {name} (first poll)" for name in self.clouds.waiting]
            if not self.incumbents.looked.is_set() and time.monotonic() < look_until:
                waiting.append(f"{INCUMBENT} (looking)")
            listing = f"not listed yet: {', '.join(waiting)}" if waiting else ""
            health.not_ready = self._log.unable or self._in_flight.why or listing
            health.note = self.clouds.note
            self._in_flight.tell(health)
            await asyncio.sleep(0.2)
