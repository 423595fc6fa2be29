"""The watcher as a whole: a scripted cluster on one side, a real nats-server on the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.nats_server import EmbeddedServer
from tests.unit.watcher.cluster import Cluster, refusal
from tests.waiting import text_of, until
from tidewright.events import registry
from tidewright.events.autoscaler import DatadogMonitorGone, WatermarkPodAutoscalerObserved
from tidewright.events.base import Event
from tidewright.events.config import ClockSet, ConfigSet
from tidewright.events.facts import (
    MetricSampled,
    NodeObserved,
    ObjectFact,
    PodGone,
    PodObserved,
    ShapeGone,
    ShapeObserved,
    WorkloadGone,
    WorkloadObserved,
)
from tidewright.events.placement import PlacementObjectGone, PlacementObjectObserved
from tidewright.events.spread import KindRefused
from tidewright.host.loop import fenced
from tidewright.host.process.health import Health
from tidewright.host.process.process import Process, ProcessOptions
from tidewright.log.connection import Log, Message
from tidewright.log.reader import Reader
from tidewright.log.subjects import ALL
from tidewright.watcher import sampler, service
from tidewright.watcher.appender import WatchPosition
from tidewright.watcher.service import Options

PODS = "/api/v1/pods"
NODES = "/api/v1/nodes"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
WPAS = "/apis/datadoghq.com/v1alpha1/watermarkpodautoscalers"


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with Cluster().serving() as serving:
        yield serving


class Tail:
    """The facts of the log, as they come."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.events: list[Event] = []
        self.subjects: list[str] = []

    async def until(self, wanted: Callable[[Event], bool]) -> Event:
        """Read on until an event satisfies the condition."""
        found = await until(
            self._next, lambda event: event is not None and wanted(event), what=text_of(wanted), every_s=0.0
        )
        assert found is not None
        return found

    async def _next(self) -> Event | None:
        for record in await self.reader.fetch(1, timeout_s=1):
            event = registry.decode(record.body)
            assert isinstance(event, Event)
            self.events.append(event)
            self.subjects.append(record.subject)
            return event
        return None


@pytest.fixture
async def tail(log: Log) -> AsyncIterator[Tail]:
    filters = [f"{log.subjects.root}.fact.>", log.subjects.configs]
    async with log.reader(filters) as reader:
        # Its consumer is made before anybody writes: with two filters it is slow otherwise (decision record 0003).
        await reader.fetch(1, timeout_s=0.01)
        yield Tail(reader)


@asynccontextmanager
async def watching(
    cluster: Cluster, nats: EmbeddedServer, folder: Path, **options: Any
) -> AsyncIterator[None]:
    kubeconfig = cluster.kubeconfig(folder)
    async with await Log.connect(nats.url, "test", timeout_s=10.0) as log:
        await log.ensure(slots=8, max_age_s=options.pop("max_age_s", 0.0))
    task = asyncio.create_task(
        service.run(Options(nats_url=nats.url, cluster="test", kubeconfig=kubeconfig, **options))
    )
    try:
        yield
    finally:
        task.cancel()
        async with asyncio.timeout(90):
            await asyncio.gather(task, return_exceptions=True)


def is_pod(name: str, **fields: object) -> Callable[[Event], bool]:
    return lambda event: (
        isinstance(event, PodObserved)
        and event.name == name
        and all(getattr(event, field) == value for field, value in fields.items())
    )


def gone(name: str) -> Callable[[Event], bool]:
    return lambda event: isinstance(event, PodGone) and event.name == name


async def test_kinds_that_are_not_served_hold_up_nothing_and_are_told_of_when_they_are(
    cluster: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path
) -> None:
    await cluster.put(PODS, "shop", "a", status={"phase": "Pending"})
    async with watching(cluster, nats, tmp_path, kinds=("pod", "resourceslice", "deviceclass")):
        await tail.until(is_pod("a"))
        cluster.objects[SLICES] = {}
        device = {"name": "d0", "attributes": {"model": {"string": "m"}}}
        spec = {"driver": "d", "nodeName": "n", "pool": {"name": "n", "generation": 1}, "devices": [device]}
        await cluster.put(SLICES, "", "s", spec=spec)
        told = await tail.until(lambda event: isinstance(event, PlacementObjectObserved))
        assert isinstance(told, PlacementObjectObserved)
        assert (told.kind, told.name) == ("ResourceSlice", "s")
        assert told.fields["devices"] == [device]
        await cluster.drop(SLICES, "", "s")
        await tail.until(
            lambda event: isinstance(event, PlacementObjectGone) and event.kind == "ResourceSlice"
        )


@pytest.mark.parametrize("version", ["v1beta2", "v1beta1"])
async def test_devices_are_read_in_the_version_that_is_served(
    cluster: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path, version: str
) -> None:
    path = f"/apis/resource.k8s.io/{version}/resourceslices"
    cluster.objects[path] = {}
    content = {"attributes": {"model": {"string": "m"}}}
    device = {"name": "d0", **({"basic": content} if version == "v1beta1" else content)}
    spec = {"driver": "d", "nodeName": "n", "pool": {"name": "n", "generation": 1}, "devices": [device]}
    await cluster.put(path, "", "s", spec=spec)
    async with watching(cluster, nats, tmp_path, kinds=("resourceslice",)):
        told = await tail.until(lambda event: isinstance(event, PlacementObjectObserved))
        assert isinstance(told, PlacementObjectObserved)
        assert told.fields["devices"][0]["attributes"] == content["attributes"]
        await cluster.drop(path, "", "s")
        await tail.until(lambda event: isinstance(event, PlacementObjectGone))


async def test_what_is_there_and_what_changes_becomes_facts(
    cluster: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path, log: Log
) -> None:
    await cluster.put(PODS, "shop", "a", status={"phase": "Pending"})
    await cluster.put(NODES, "", "n", metadata={"labels": {"zone": "z"}})
    async with watching(cluster, nats, tmp_path):
        await tail.until(is_pod("a", phase="Pending"))
        assert any(isinstance(event, ShapeObserved) for event in tail.events)
        await cluster.put(PODS, "shop", "a", status={"phase": "Running"})
        fact = await tail.until(is_pod("a", phase="Running"))
        assert tail.subjects[-1] == log.subjects.fact(log.slot_of("shop"), "pod", "shop", "a")
        await cluster.drop(PODS, "shop", "a")
        assert (await tail.until(gone("a"))).at >= fact.at
        shape = await tail.until(lambda event: isinstance(event, ShapeGone))
        assert isinstance(shape, ShapeGone)
        assert tail.subjects[-1] == log.subjects.fact(log.slot_of("shop"), "shape", "shop", shape.digest)
        # Nodes come by a watch of their own.
        node = await until(
            lambda: log.last(log.subjects.fact(ALL, "node", "", "n")), lambda found: found is not None
        )
    assert node is not None
    assert isinstance(registry.decode(node.body), NodeObserved)
    stamps = [event.at for event in tail.events]
    assert stamps == sorted(stamps)


async def test_an_update_that_changes_nothing_is_no_fact(
    cluster: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path
) -> None:
    await cluster.put(PODS, "shop", "a", status={"phase": "Running"})
    async with watching(cluster, nats, tmp_path):
        await tail.until(is_pod("a"))
        await cluster.put(PODS, "shop", "a", status={"phase": "Running", "hostIP": "10.0.0.1"})
        await cluster.put(PODS, "shop", "b", status={"phase": "Running"})
        await tail.until(is_pod("b"))
    assert len([event for event in tail.events if isinstance(event, PodObserved)]) == 2


async def test_a_restart_resumes_without_listing_or_saying_again(
    cluster: Cluster, nats: EmbeddedServer, log: Log, tail: Tail, tmp_path: Path
) -> None:
    await cluster.put(PODS, "shop", "a")
    async with watching(cluster, nats, tmp_path, kinds=("pod",)):
        await tail.until(is_pod("a"))
        await until(lambda: position_of(log, "pod"), lambda found: found.resource_version)  # by a commit more
    await cluster.put(PODS, "shop", "b")
    lists = cluster.requests.count(PODS)
    async with watching(cluster, nats, tmp_path, kinds=("pod",)):
        await tail.until(is_pod("b"))
    assert [event.name for event in tail.events if isinstance(event, PodObserved)] == ["a", "b"]
    assert cluster.requests.count(PODS) == lists + 1  # the watch alone


async def test_what_a_newer_watcher_said_is_said_again_by_one_that_comes_back(
    cluster: Cluster, nats: EmbeddedServer, log: Log, tail: Tail, tmp_path: Path
) -> None:
    """Also of objects that have not changed since, which no watch shows."""
    for name in ("a", "b", "c"):
        await cluster.put(PODS, "shop", name)
    async with watching(cluster, nats, tmp_path, kinds=("pod",)):
        await tail.until(is_pod("c"))
    slot = log.slot_of("shop")
    newer = [
        Message(
            log.subjects.fact(slot, "pod", "shop", name),
            b'{"type":"fact.pod-observed.v9","at":1.0,"namespace":"shop","name":"%s"}' % name.encode(),
        )
        for name in ("a", "gone")
    ]
    await log.commit(newer)
    async with log.reader([log.subjects.facts("*", "pod")]) as reader:
        before = [record.seq async for record in reader.until_current()][-1]
    async with watching(cluster, nats, tmp_path, kinds=("pod",)):
        await until(
            lambda: said_since(log, before),
            lambda said: said == {("PodObserved", "a"), ("PodGone", "gone")},
        )
    assert (await answered(log, "pod")) == before, "so that nobody waits for what cannot be said at all"


async def test_shapes_of_a_newer_watcher_are_gone_when_no_pod_has_them(
    cluster: Cluster, nats: EmbeddedServer, log: Log, tail: Tail, tmp_path: Path
) -> None:
    await cluster.put(PODS, "shop", "a")
    async with watching(cluster, nats, tmp_path, kinds=("pod",)):
        await tail.until(is_pod("a"))
    shape = next(event for event in tail.events if isinstance(event, ShapeObserved))
    newer = [
        Message(
            log.subjects.fact(log.slot_of("shop"), "shape", "shop", digest),
            b'{"type":"fact.shape-observed.v9","at":1.0,"namespace":"shop","digest":"%s"}' % digest.encode(),
        )
        for digest in (shape.digest, "newer")
    ]
    seq = (await log.commit(newer)).last_seq
    lists = cluster.requests.count(PODS)
    for _ in range(2):  # the second one finds it answered, and lists nothing
        async with watching(cluster, nats, tmp_path, kinds=("pod",)):
            await until(lambda: answered(log, "pod"), lambda answered: answered == seq)
    async with log.reader([log.subjects.facts("*", "shape")], after=seq) as reader:
        said = [registry.read(record.body) async for record in reader.until_current()]
    assert [
        (type(fact).__name__, fact.digest) for fact in said if isinstance(fact, ShapeObserved | ShapeGone)
    ] == [
        ("ShapeObserved", shape.digest),
        ("ShapeGone", "newer"),
    ]
    assert lists < cluster.requests.count(PODS)


async def test_a_kind_that_is_not_served_any_more_keeps_nobody_waiting(
    cluster: Cluster, nats: EmbeddedServer, log: Log, tmp_path: Path
) -> None:
    body = b'{"type":"fact.watermarkpodautoscaler-observed.v9","at":1.0,"namespace":"shop","name":"w"}'
    subject = log.subjects.fact(log.slot_of("shop"), "watermarkpodautoscaler", "shop", "w")
    seq = (await log.commit([Message(subject, body)])).last_seq
    cluster.objects.pop(WPAS, None)
    async with watching(cluster, nats, tmp_path, kinds=("watermarkpodautoscaler",)):
        await until(lambda: answered(log, "watermarkpodautoscaler"), lambda answered: answered == seq)


async def answered(log: Log, part: str) -> int:
    return (await position_of(log, part)).answered


async def position_of(log: Log, part: str) -> WatchPosition:
    record = await log.last(log.subjects.checkpoint(ALL, "watcher", part))
    return WatchPosition(at=0.0) if record is None else msgspec.json.decode(record.body, type=WatchPosition)


async def said_since(log: Log, seq: int, kind: str = "pod") -> set[tuple[str, str]]:
    async with log.reader([log.subjects.facts("*", kind)], after=seq) as reader:
        facts = [registry.read(record.body) async for record in reader.until_current()]
    return {(type(fact).__name__, fact.name) for fact in facts if isinstance(fact, ObjectFact)}


async def test_what_vanished_during_downtime_is_gone_after_a_relist(
    cluster: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path
) -> None:
    await cluster.put(PODS, "shop", "a")
    await cluster.put(PODS, "shop", "b")
    async with watching(cluster, nats, tmp_path):
        await tail.until(is_pod("a"))
        if not any(map(is_pod("b"), tail.events)):
            await tail.until(is_pod("b"))
    await cluster.drop(PODS, "shop", "a")
    await cluster.forget()
    async with watching(cluster, nats, tmp_path):
        await tail.until(gone("a"))
    assert len([event for event in tail.events if is_pod("b")(event)]) == 1


async def test_410_while_watching_is_answered_by_a_relist(
    cluster: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path
) -> None:
    await cluster.put(PODS, "shop", "a")
    async with watching(cluster, nats, tmp_path):
        await tail.until(is_pod("a"))
        cluster.objects[PODS].clear()  # a deletion whose event nobody will see
        await cluster.forget()
        await tail.until(gone("a"))


async def test_a_malformed_object_is_skipped_and_the_others_go_on(
    cluster: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path
) -> None:
    await cluster.put(PODS, "shop", "bad", spec={"containers": [{"resources": {"requests": {"cpu": "?"}}}]})
    await cluster.put(PODS, "shop", "good")
    async with watching(cluster, nats, tmp_path):
        await tail.until(is_pod("good"))
    assert not any(map(is_pod("bad"), tail.events))


async def test_a_second_watcher_takes_over_and_the_first_writes_no_more(
    cluster: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path
) -> None:
    await cluster.put(PODS, "shop", "a")
    async with watching(cluster, nats, tmp_path, kinds=("pod",)):
        await tail.until(is_pod("a"))
        async with watching(cluster, nats, tmp_path, kinds=("pod",)):
            for n in range(20):
                await cluster.put(PODS, "shop", f"p{n}")
            await tail.until(is_pod("p19"))
            await cluster.put(PODS, "shop", "last")
            await tail.until(is_pod("last"))
    names = [event.name for event in tail.events if isinstance(event, PodObserved)]
    assert len(names) == len(set(names)) == 22


async def test_who_lost_a_kind_before_it_had_listed_it_is_ready_beside_who_has_it(
    cluster: Cluster, nats: EmbeddedServer, log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await log.bounds() == (1, 0)
    monkeypatch.setattr(fenced, "LOOK_S", 0.05)
    monkeypatch.setattr(service, "INCUMBENTS_FIRST_S", 0.0)
    kinds = ("pod",)
    (tmp_path / "first").mkdir()
    process = Process(ProcessOptions("watcher"), Health("watcher"))
    async with Cluster().serving() as slow:
        slow.answers[PODS] = lambda: refusal(500, "InternalError", "not now")
        options = Options(
            nats_url=nats.url, cluster="test", kubeconfig=slow.kubeconfig(tmp_path / "first"), kinds=kinds
        )
        first = asyncio.create_task(service.run(options, process))
        try:
            await until(lambda: PODS in slow.requests)  # it has taken the kind over
            assert "pod (" in process.health.unready
            async with watching(cluster, nats, tmp_path, kinds=kinds):
                await until(lambda: process.health.unready, lambda why: why == "")
        finally:
            process.stop.set()
            await asyncio.gather(first, return_exceptions=True)


def wpa_spec(metric: str, kind: str = "Deployment", api_version: str = "apps/v1") -> dict[str, Any]:
    external = {"metricName": metric, "metricSelector": {"matchLabels": {"app": "web"}}}
    return {
        "scaleTargetRef": {"apiVersion": api_version, "kind": kind, "name": "web"},
        "metrics": [{"type": "External", "external": external}],
    }


async def test_the_metrics_of_an_autoscaler_are_sampled_on_the_interval(
    cluster: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path
) -> None:
    path = "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/requests"
    cluster.answers[path] = {"items": [{"value": "1500m"}]}
    await cluster.put(WPAS, "shop", "w", spec=wpa_spec("requests"))
    await cluster.put(WPAS, "shop", "x", spec=wpa_spec("missing"))
    async with watching(cluster, nats, tmp_path, speed=15.0):
        await tail.until(
            lambda e: isinstance(e, MetricSampled) and e.name.startswith("external/missing") and bool(e.error)
        )
        for _ in range(5):
            await tail.until(lambda e: isinstance(e, MetricSampled) and e.series_milli == (1500,))
    samples = [event for event in tail.events if isinstance(event, MetricSampled) and event.series_milli]
    # The first one was wanted anew and asked for at once; then 15 log seconds each. A busy machine adds to that, and takes
    # from it where it was the earlier answer that came late.
    assert samples[-1].at - samples[-4].at > 15.0
    missing = next(e for e in tail.events if isinstance(e, MetricSampled) and e.error)
    assert missing.error_class == "not-found"
    kinds = [type(event) for event in tail.events]
    assert kinds.index(WatermarkPodAutoscalerObserved) < kinds.index(MetricSampled)


async def test_an_answer_without_end_is_given_up(
    cluster: Cluster,
    nats: EmbeddedServer,
    tail: Tail,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sampler, "MAX_ANSWER_BYTES", 1000)
    path = "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/requests"
    cluster.answers[path] = {"items": [{"value": "1"}] * 1000}
    await cluster.put(WPAS, "shop", "w", spec=wpa_spec("requests"))
    async with watching(cluster, nats, tmp_path):
        fact = await tail.until(lambda e: isinstance(e, MetricSampled))
    assert isinstance(fact, MetricSampled)
    assert (fact.error_class, "more than 1000 bytes" in fact.error) == ("unavailable", True)


async def test_queries_with_the_same_request_share_it(
    cluster: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path
) -> None:
    path = "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods"
    usage = {"cpu": "250m", "memory": "1Mi"}
    cluster.answers[path] = {"items": [{"metadata": {"name": "a"}, "containers": [{"usage": usage}]}]}
    spec = wpa_spec("requests")
    selector = {"matchLabels": {"app": "web"}}
    spec["metrics"] = [
        {"type": "Resource", "resource": {"name": name, "metricSelector": selector}}
        for name in ("cpu", "memory")
    ]
    await cluster.put(WPAS, "shop", "w", spec=spec)
    async with watching(cluster, nats, tmp_path):
        names: set[str] = set()
        while len(names) < 2:
            fact = await tail.until(lambda e: isinstance(e, MetricSampled))
            assert isinstance(fact, MetricSampled)
            names.add(fact.name)
    # Both were wanted anew, or the first tick came in between.
    assert cluster.requests.count(path) <= 2
    assert names == {"resource/cpu/app=web", "resource/memory/app=web"}


async def test_why_a_gate_cannot_be_read_is_said_while_monitors_cannot_be_followed(
    cluster: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path
) -> None:
    root = "/apis/datadoghq.com/v1alpha1"
    refused = refusal(403, "Forbidden", "datadogmonitors is forbidden: the watcher may not list them")
    cluster.answers[f"{root}/datadogmonitors"] = refused
    cluster.answers[f"{root}/namespaces/shop/datadogmonitors/w"] = refusal(403, "Forbidden", "not this one")
    annotations = {"wpa.datadoghq.com/lifecycle-control.enabled": "true"}
    await cluster.put(WPAS, "shop", "w", metadata={"annotations": annotations}, spec=wpa_spec("requests"))
    async with watching(cluster, nats, tmp_path, speed=150.0):
        fact = await tail.until(lambda e: isinstance(e, DatadogMonitorGone))
    assert isinstance(fact, DatadogMonitorGone)
    assert (fact.namespace, fact.name, fact.reason) == ("shop", "w", "not this one")


async def test_metrics_may_come_from_elsewhere(
    cluster: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path
) -> None:
    await cluster.put(WPAS, "shop", "w", spec=wpa_spec("requests"))
    async with Cluster().serving() as elsewhere:
        path = "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/requests"
        elsewhere.answers[path] = {"items": [{"value": "7"}]}
        async with watching(cluster, nats, tmp_path, external_metrics_url=elsewhere.url):
            await tail.until(lambda e: isinstance(e, MetricSampled) and e.series_milli == (7000,))
    assert path not in cluster.requests


async def test_the_scale_of_a_custom_target_is_polled(
    cluster: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path
) -> None:
    cluster.answers["/apis/argoproj.io"] = {"versions": [{"version": "v1alpha1"}]}
    cluster.answers["/apis/argoproj.io/v1alpha1"] = {
        "resources": [
            {"name": "rollouts", "kind": "Rollout", "namespaced": True},
            {"name": "rollouts/scale", "kind": "Scale", "namespaced": True},
        ]
    }
    scale = "/apis/argoproj.io/v1alpha1/namespaces/shop/rollouts/web/scale"
    cluster.answers[scale] = {
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": 2},
        "status": {"replicas": 2, "selector": "app=web"},
    }
    await cluster.put(WPAS, "shop", "w", spec=wpa_spec("m", "Rollout", "argoproj.io/v1alpha1"))
    await cluster.put(WPAS, "shop", "x", spec=wpa_spec("m", "Nothing", "example.com/v1"))
    async with watching(cluster, nats, tmp_path, speed=150.0):
        await tail.until(lambda e: isinstance(e, WorkloadGone) and "Nothing" in e.reason)
        if not any(isinstance(event, WorkloadObserved) for event in tail.events):
            await tail.until(lambda e: isinstance(e, WorkloadObserved) and e.replicas == 2)
        cluster.answers[scale] = refusal(404, "NotFound", "no web")
        fact = await tail.until(lambda e: isinstance(e, WorkloadGone) and e.kind == "Rollout")
        await cluster.put(WPAS, "shop", "y", spec=wpa_spec("m", "Odd", "a/b/c"))
        odd = await tail.until(lambda e: isinstance(e, WorkloadGone) and e.kind == "Odd")
    assert isinstance(fact, WorkloadGone)
    assert fact.reason.endswith("error: no web, scale not found")
    assert isinstance(odd, WorkloadGone)
    assert odd.reason.startswith("invalid API version in scale target reference: ")


async def test_a_compressed_clock_is_set_once_and_kept(
    cluster: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path
) -> None:
    async with watching(cluster, nats, tmp_path, kinds=("pod",), speed=60.0, log_start=1000.0):
        setting = await tail.until(lambda e: isinstance(e, ClockSet))
        assert isinstance(setting, ClockSet)
        assert (setting.speed, setting.log) == (60.0, 1000.0)
        await cluster.put(PODS, "shop", "a")
        fact = await tail.until(is_pod("a"))
        assert 1000.0 <= fact.at < 5000.0
    await cluster.put(PODS, "shop", "b")
    async with watching(cluster, nats, tmp_path, kinds=("pod",), speed=60.0, log_start=1000.0):
        again = await tail.until(is_pod("b"))
    assert again.at >= fact.at
    assert len([event for event in tail.events if isinstance(event, ClockSet)]) == 1


async def test_the_parts_of_the_config_map_are_said(
    cluster: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path
) -> None:
    path = "/api/v1/namespaces/ops/configmaps"
    cluster.objects[path] = {}
    await cluster.put(path, "ops", "tidewright", data={"autoscaler.yaml": "a: 1", "broken": "["})
    async with watching(cluster, nats, tmp_path, kinds=("pod",), config_map="ops/tidewright"):
        first = await tail.until(lambda e: isinstance(e, ConfigSet))
        await cluster.put(path, "ops", "tidewright", data={"autoscaler.yaml": "a: 2"})
        second = await tail.until(lambda e: isinstance(e, ConfigSet))
    assert isinstance(first, ConfigSet)
    assert isinstance(second, ConfigSet)
    assert (first.name, first.data, second.data) == ("autoscaler", {"a": 1}, {"a": 2})


async def test_last_words_are_said_again_before_the_log_forgets_them(
    cluster: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path
) -> None:
    await cluster.put(PODS, "shop", "a")
    async with watching(cluster, nats, tmp_path, kinds=("pod",), max_age_s=9.0):
        first = await tail.until(is_pod("a"))
        again = await tail.until(is_pod("a", refresh=True))
        shape = await tail.until(lambda e: isinstance(e, ShapeObserved) and e.refresh)
    assert 3.0 <= again.at - first.at < 9.0
    assert shape.at >= first.at


async def test_configuration_is_said_again_before_the_log_forgets_it(
    cluster: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path
) -> None:
    path = "/api/v1/namespaces/ops/configmaps"
    cluster.objects[path] = {}
    await cluster.put(path, "ops", "tidewright", data={"autoscaler.yaml": "a: 1"})
    async with watching(
        cluster, nats, tmp_path, kinds=("pod",), config_map="ops/tidewright", max_age_s=6.0, speed=1.5
    ):
        again = await tail.until(lambda e: isinstance(e, ConfigSet) and e.refresh)
        clock = await tail.until(lambda e: isinstance(e, ClockSet) and e.refresh)
    assert isinstance(again, ConfigSet)
    assert isinstance(clock, ClockSet)
    assert (again.data, clock.speed) == ({"a": 1}, 1.5)


SETS = "/apis/games.example.com/v1"
WHITELIST = {
    "WorkloadSpread_Watch_Custom_Workload_WhiteList": msgspec.json.encode(
        {
            "workloads": [
                {"Group": "games.example.com", "Version": "v1", "Kind": "GameSet", "replicasPath": "spec.n"}
            ]
        }
    ).decode()
}


async def test_a_whitelisted_kind_that_may_not_be_read_is_told_until_it_can_be(
    cluster: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path
) -> None:
    maps = "/api/v1/namespaces/ops/configmaps"
    cluster.objects[maps] = {}
    await cluster.put(maps, "ops", "kruise-configuration", data=WHITELIST)
    versions = [{"groupVersion": "games.example.com/v1", "version": "v1"}]
    cluster.answers["/apis/games.example.com"] = {"name": "games.example.com", "versions": versions}
    kinds = [{"name": "gamesets", "kind": "GameSet", "namespaced": True}]
    cluster.answers[SETS] = {"resources": kinds}
    cluster.objects[f"{SETS}/gamesets"] = {}
    await cluster.put(f"{SETS}/gamesets", "shop", "arena", spec={"n": 3})
    cluster.answers[f"{SETS}/gamesets"] = refusal(403, "Forbidden", "gamesets is forbidden")
    async with watching(
        cluster,
        nats,
        tmp_path,
        kinds=("pod",),
        whitelist_config_map="ops/kruise-configuration",
        max_age_s=6.0,
    ):
        refused = await tail.until(lambda e: isinstance(e, KindRefused))
        assert isinstance(refused, KindRefused)
        assert (refused.group, refused.kind) == ("games.example.com", "GameSet")
        assert "gamesets is forbidden" in refused.error
        del cluster.answers[f"{SETS}/gamesets"]
        await tail.until(lambda e: isinstance(e, KindRefused) and not e.error)
        assert any(isinstance(e, WorkloadObserved) and e.kind == "GameSet" for e in tail.events)
        await tail.until(lambda e: isinstance(e, WorkloadObserved) and e.kind == "GameSet" and e.refresh)
        if not any(isinstance(e, ConfigSet) and e.refresh for e in tail.events):
            await tail.until(lambda e: isinstance(e, ConfigSet) and e.refresh)


async def test_of_a_custom_workload_that_a_newer_watcher_said_it_is_said_that_it_is_gone(
    cluster: Cluster, nats: EmbeddedServer, log: Log, tail: Tail, tmp_path: Path
) -> None:
    maps = "/api/v1/namespaces/ops/configmaps"
    cluster.objects[maps] = {}
    await cluster.put(maps, "ops", "kruise-configuration", data=WHITELIST)
    versions = [{"groupVersion": "games.example.com/v1", "version": "v1"}]
    cluster.answers["/apis/games.example.com"] = {"name": "games.example.com", "versions": versions}
    cluster.answers[SETS] = {"resources": [{"name": "gamesets", "kind": "GameSet", "namespaced": True}]}
    cluster.objects[f"{SETS}/gamesets"] = {}
    await cluster.put(f"{SETS}/gamesets", "shop", "arena", spec={"n": 3})
    options: dict[str, Any] = {"kinds": ("pod",), "whitelist_config_map": "ops/kruise-configuration"}
    async with watching(cluster, nats, tmp_path, **options):
        await tail.until(lambda e: isinstance(e, WorkloadObserved) and e.name == "arena")
    subject = tail.subjects[-1]
    newer = [
        Message(
            subject.replace("arena", name),
            b'{"type":"fact.workload-observed.v9","at":1.0,"namespace":"shop","name":"%s","uid":"u-%s"}'
            % (name.encode(), name.encode()),
        )
        for name in ("arena", "left")
    ]
    seq = (await log.commit(newer)).last_seq
    async with watching(cluster, nats, tmp_path, **options):
        await until(
            lambda: said_since(log, seq, "customworkload"),
            lambda said: said == {("WorkloadObserved", "arena"), ("WorkloadGone", "left")},
        )
    record = await log.last(subject.replace("arena", "left"))
    assert record is not None
    gone_fact = registry.read(record.body)
    assert isinstance(gone_fact, WorkloadGone)
    assert (gone_fact.namespace, gone_fact.uid, gone_fact.kind) == ("shop", "u-left", "GameSet")
