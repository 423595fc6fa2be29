"""Up, down, capped, delayed, dry, by hand; metrics lost and back, pushed, and recommended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.autoscaler.world import LABELS, PATIENCE_S, Object, World, condition, says, wants
from tests.e2e.conftest import Services
from tests.waiting import until
from tidewright.events import registry
from tidewright.events.base import Decision, Event
from tidewright.events.decisions import ScaleWorkload, SetStatus
from tidewright.events.facts import MetricSampled, PodObserved
from tidewright.events.timers import TimerFired
from tidewright.host.fold.order import cause_of

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.usefixtures("running")]


async def test_it_scales_up_and_down_and_says_so(world: World) -> None:
    target = await world.deployment()
    world.measure(60)
    wpa = await world.autoscaler()
    await world.until(target, wants(6))
    found = await world.until(wpa, lambda w: w.get("status", {}).get("desiredReplicas") == 6)
    event = await world.told("Scaling", "New size: 6")
    assert event["type"] == "Normal"
    assert event["message"].endswith(f"{world.metric}{{map[app:web]}} above target")
    assert (event.get("source") or {}).get("component", event.get("reportingComponent")) == "wpa_controller"
    world.measure(20)
    await world.until(target, wants(4))
    await world.told("Scaling", "New size: 4; reason: All metrics below target")
    found = await world.until(wpa, lambda w: w["status"].get("currentReplicas") == 4)
    assert found["status"]["scalingEventsCount"] >= 2
    assert found["status"]["currentMetrics"][0]["external"]["metricName"] == world.metric


async def test_a_step_is_capped_by_its_factor_and_by_the_maximum(world: World, running: Services) -> None:
    target = await world.deployment()
    world.measure(500)
    wpa = await world.autoscaler(
        maxReplicas=4,
        scaleUpLimitFactor="50",
        upscaleForbiddenWindowSeconds=3,
        downscaleForbiddenWindowSeconds=3,
    )
    await world.until(target, wants(4))
    # On the log, since the object shows what held within the window no longer to who looks late.
    said = await decisions(running, world)
    first, second = (each for each in said if isinstance(each, ScaleWorkload))
    assert (first.replicas, second.replicas) == (3, 4)  # half of 2 more, and no further before 3 s
    assert second.at - first.at >= 3.0
    between = said[said.index(first) : said.index(second)]
    assert ("ScalingLimited", "True", "ScaleUpLimit") in shown(between)
    world.measure(50)  # 5 would do: the rate allows them, the maximum does not
    found = await world.until(wpa, says("ScalingLimited", "True", "TooManyReplicas"))
    assert "above the maximum" in condition(found, "ScalingLimited")["message"]


async def test_a_delay_is_waited_for_and_its_end_wakes_by_itself(world: World, running: Services) -> None:
    target = await world.deployment()
    # Nobody looks again for a pod that gets ready: the next sample would, and there is none. Of the Deployment's own
    # count and of its pods two watches tell, so that the pods' facts may come after a sample that came after the count.
    await until(lambda: ready_pods(running, world), lambda ready: ready == 2)
    wpa = await world.autoscaler(upscaleDelayAboveWatermarkSeconds=2)
    # Pushed once: nothing but a timer can wake the decider afterwards.
    await push(running, world, 15)
    measured, within = says("ScalingActive", "True"), says("AboveHighWatermark", "False")
    await world.until(wpa, lambda found: measured(found) and within(found))
    await push(running, world, 60)
    await world.until(target, wants(6))
    # On the log, since the delay may be over before anybody here has looked at the object.
    said = await decisions(running, world)
    (scaled,) = (each for each in said if isinstance(each, ScaleWorkload))
    above = "Value above High Watermark"
    assert ("AboveHighWatermark", "True", above) in shown(said[: said.index(scaled)])
    decided, cause = await scales(running, world)
    assert decided == scaled
    assert isinstance(cause, TimerFired)
    crossed = next(e for e in await facts(running, world) if e.series_milli == (60_000,)).at
    assert 2.0 <= decided.at - crossed < 2.5


async def push(running: Services, world: World, value: float) -> None:
    """Push the metric to the watcher."""
    port: int = running.push_port  # type: ignore[attr-defined]  # of these tests
    sample: Object = {"metric": world.metric, "namespace": world.namespace, "labels": LABELS, "value": value}
    async with aiohttp.ClientSession() as session:

        async def answered() -> tuple[int, str]:
            async with session.post(f"http://127.0.0.1:{port}/v1/metrics", json=[sample]) as answer:
                return answer.status, await answer.text()

        # Before that, the watcher has not heard of the object yet, or may say to come again (503).
        await until(
            answered,
            lambda found: found[0] == 200 and msgspec.json.decode(found[1])["used"],
            within_s=PATIENCE_S,
        )


async def decisions(running: Services, world: World) -> list[Decision]:
    """All decisions about objects of the namespace so far, in order."""
    found = await on_log(running, f"decision.*.autoscaler.*.{world.namespace}.>")
    return [event for event in found if isinstance(event, Decision)]


async def on_log(running: Services, pattern: str) -> list[Event | registry.Unknown]:
    """All events so far on subjects of a pattern, which is without the log's name, in order."""
    async with await running.log() as log, log.reader([f"{log.subjects.root}.{pattern}"]) as reader:
        return [registry.decode(record.body) async for record in reader.until_current()]


def shown(said: Sequence[Decision]) -> set[tuple[str, str, str]]:
    """Type, status and reason of each condition that statuses among these decisions have."""
    statuses: list[Object] = [each.status for each in said if isinstance(each, SetStatus)]
    return {
        (one["type"], one["status"], one["reason"]) for status in statuses for one in status["conditions"]
    }


async def scales(running: Services, world: World) -> tuple[ScaleWorkload, Any]:
    """The last scale of the namespace, and the event that caused it."""
    async with await running.log() as log:
        pattern = f"{log.subjects.root}.decision.*.autoscaler.deployment.{world.namespace}.>"
        record = [record async for record in log.last_per_subject([pattern])][-1]
        decided = registry.decode(record.body)
        assert isinstance(decided, ScaleWorkload)
        cause = await log.at(cause_of(decided.id)[0])
        assert cause is not None
        return decided, registry.decode(cause.body)


async def facts(running: Services, world: World) -> list[MetricSampled]:
    """The samples of the namespace so far."""
    found = await on_log(running, f"fact.*.metric.{world.namespace}.>")
    return [event for event in found if isinstance(event, MetricSampled)]


async def ready_pods(running: Services, world: World) -> int:
    """Pods of the namespace of which the log says that they are ready."""
    async with await running.log() as log:
        pattern = f"{log.subjects.root}.fact.*.pod.{world.namespace}.>"
        said = [registry.decode(record.body) async for record in log.last_per_subject([pattern])]
    return sum(isinstance(event, PodObserved) and event.ready is True for event in said)


async def test_a_pushed_sample_is_reacted_to_at_once(world: World, running: Services) -> None:
    target = await world.deployment()
    wpa = await world.autoscaler()
    await until(lambda: ready_pods(running, world), lambda ready: ready == 2)
    # Else what is heard of later has it scaled: a second pod, or the Deployment, of which other watches tell.
    await push(running, world, 15)
    measured, within = says("ScalingActive", "True"), says("AboveHighWatermark", "False")
    await world.until(wpa, lambda found: measured(found) and within(found))
    await push(running, world, 60)
    await world.until(target, wants(6))
    _, cause = await scales(running, world)
    assert isinstance(cause, MetricSampled)
    assert cause.series_milli == (60_000,)


async def test_a_dry_run_decides_and_writes_nothing(world: World) -> None:
    target = await world.deployment()
    world.measure(60)
    wpa = await world.autoscaler(dryRun=True)
    found = await world.until(wpa, lambda w: w.get("status", {}).get("desiredReplicas") == 6)
    assert condition(found, "DryRun")["reason"] == "DryRun mode enabled"
    assert (await world.get(target))["spec"]["replicas"] == 2
    assert "Scaling" not in await world.reasons()
    await world.patch(wpa, {"spec": {"dryRun": False}})
    await world.until(target, wants(6))


async def test_a_metric_that_is_lost_stops_scaling_until_it_is_back(world: World) -> None:
    target = await world.deployment(4)
    world.measure(28)
    wpa = await world.autoscaler()
    await world.until(wpa, says("ScalingActive", "True", "ValidMetricFound"))
    world.measure(None)
    found = await world.until(wpa, says("ScalingActive", "False", "FailedGetExternalMetric"))
    assert world.metric in condition(found, "ScalingActive")["message"]
    await world.told("FailedGetExternalMetric")
    await world.told("FailedComputeMetricsReplicas", world.metric)
    assert (await world.get(target))["spec"]["replicas"] == 4
    world.measure(80)
    await world.until(wpa, says("ScalingActive", "True", "ValidMetricFound"))
    await world.until(target, wants(8))


async def test_a_count_set_by_hand_is_the_new_base_or_is_brought_back_inside_the_bounds(world: World) -> None:
    target = await world.deployment()
    world.measure(14)
    # Five are more than the load needs: with a short window they are two before anybody looks.
    wpa = await world.autoscaler(maxReplicas=5, minReplicas=2, downscaleForbiddenWindowSeconds=600)
    await world.until(wpa, says("ScalingActive", "True"))
    await world.patch(f"{target}/scale", {"spec": {"replicas": 9}})
    await world.until(target, wants(5))
    await world.told("Scaling", "Current number of replicas above Spec.MaxReplicas")
    await world.patch(f"{target}/scale", {"spec": {"replicas": 1}})
    await world.told("Scaling", "Current number of replicas below Spec.MinReplicas")
    await world.until(target, wants(2))
    await world.patch(f"{target}/scale", {"spec": {"replicas": 0}})
    await world.until(wpa, lambda w: condition(w, "ScalingActive")["status"] == "False")
    assert (await world.get(target))["spec"]["replicas"] == 0


async def test_a_recommender_is_asked_and_followed(world: World) -> None:
    asked: list[Object] = []

    async def answer(request: web.BaseRequest) -> web.Response:
        asked.append(await request.json())
        return web.json_response(
            {"targetReplicas": 5, "lowerBoundReplicas": 4, "upperBoundReplicas": 8, "reason": "busy"}
        )

    runner = web.ServerRunner(web.Server(answer, access_log=None))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        target = await world.deployment()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
        marks = {"highWatermark": "10", "lowWatermark": "5"}
        wpa = await world.autoscaler(recommender={"url": url, "targetType": "cpu", **marks})
        await world.until(target, wants(5))
        found = await world.until(wpa, says("ScalingActive", "True", "ValidMetricFound"))
        assert condition(found, "ScalingActive")["message"].endswith(" because: busy")
        assert asked[0]["state"] == {"desiredReplicas": 2, "currentReplicas": 2, "readyReplicas": 2}
    finally:
        await runner.cleanup()
    await world.until(wpa, says("ScalingActive", "False"))
    await world.told("FailedComputeMetricsReplicas", "failed to get the recommendation from")
    assert (await world.get(target))["spec"]["replicas"] == 5


async def test_the_series_of_the_reference_are_served(world: World, running: Services) -> None:
    await world.deployment()
    world.measure(14)
    wpa = await world.autoscaler()
    await world.until(wpa, says("ScalingActive", "True"))
    port: int = running.metrics_port  # type: ignore[attr-defined]  # of these tests

    async def series() -> dict[str, float]:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{port}/metrics") as answer,
        ):
            text = await answer.text()
        return {
            sample.name: sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.labels.get("wpa_namespace") == world.namespace
        }

    # Facts about pods come on their own: the first pass may know of one of them that is ready.
    found = await until(series, lambda told: told.get("wpa_controller_value") == 7_000)
    assert found["wpa_controller_high_watermak"] == found["wpa_controller_high_watermark"] == 10_000
    assert found["wpa_controller_scaling_active"] == 1
    assert found["wpa_controller_min_replicas"] == 1


async def test_a_resource_metric_is_summed_over_the_pods_of_its_selector(world: World) -> None:
    target = await world.deployment()
    cpu: Object = {
        "name": "cpu", "value": 4.0, "namespace": world.namespace, "selector": "app=web", "resource": True
    }  # fmt: skip
    world.cluster.push(cpu)
    body = {
        "name": "cpu",
        "metricSelector": {"matchLabels": LABELS},
        "highWatermark": "1",
        "lowWatermark": "500m",
    }
    wpa = await world.autoscaler(metrics=[{"type": "Resource", "resource": body}])
    await world.until(target, wants(4))  # 4 cores, one each
    found = await world.until(wpa, lambda w: w.get("status", {}).get("currentReplicas") == 4)
    metric = found["status"]["currentMetrics"][0]
    assert (metric["type"], metric["resource"]["name"]) == ("Resource", "cpu")
    world.cluster.push({**cpu, "value": 1.0})
    await world.until(target, lambda d: d["spec"]["replicas"] < 4)
