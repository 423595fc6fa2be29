"""What is scaled: targets that go and come back, that two objects want, and of other kinds."""

from __future__ import annotations

import pytest

from tests.e2e.autoscaler.world import GROUP, LABELS, World, condition, says, template, wants

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.usefixtures("running")]


async def test_a_target_that_is_deleted_and_made_again_is_scaled_again(world: World) -> None:
    target = await world.deployment()
    world.measure(30)
    wpa = await world.autoscaler()
    await world.until(target, wants(3))
    await world.delete(target)
    found = await world.until(wpa, says("AbleToScale", "False", "FailedProcessWPA"))
    assert condition(found, "AbleToScale")["message"] == "Error happened while processing the WPA"
    await world.told("FailedProcessWPA", "scale not found")
    target = await world.made_deployment(1)
    await world.until(target, wants(3))
    await world.until(wpa, says("AbleToScale", "True"))


async def test_of_two_objects_on_one_target_the_older_acts_and_the_other_says_so(world: World) -> None:
    target = await world.deployment()
    world.measure(60)
    # Created in the same second or not: the older one, then by name.
    first = await world.autoscaler("a-first", maxReplicas=4)
    second = await world.autoscaler("b-second", maxReplicas=8)
    await world.until(target, wants(4))
    found = await world.until(second, says("AbleToScale", "False", "TargetTaken"))
    assert f"{world.namespace}/a-first" in condition(found, "AbleToScale")["message"]
    found = await world.until(first, lambda w: bool(condition(w, "AbleToScale")))
    assert condition(found, "AbleToScale")["reason"] != "TargetTaken"
    await world.delete(first)
    await world.until(target, wants(6))
    await world.until(second, lambda w: condition(w, "AbleToScale").get("reason") != "TargetTaken")


async def test_a_stateful_set_is_scaled(world: World) -> None:
    await world.make(
        world.statefulsets,
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": "web"},
            "spec": {
                "replicas": 2,
                "serviceName": "web",
                "podManagementPolicy": "Parallel",
                "selector": {"matchLabels": LABELS},
                "template": template(),
            },
        },
    )
    path = f"{world.statefulsets}/web"
    await world.until(path, lambda s: s.get("status", {}).get("readyReplicas") == 2)
    world.measure(40)
    await world.autoscaler(scaleTargetRef={"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"})
    await world.until(path, wants(4))


async def test_a_custom_resource_with_a_scale_is_scaled(world: World) -> None:
    rack = {"apiVersion": f"{GROUP}/v1", "kind": "Rack", "metadata": {"name": "web"}, "spec": {"replicas": 2}}
    made = await world.make(world.racks, rack)
    path = f"{world.racks}/web"
    await world.patch(f"{path}/status", {"status": {"replicas": 2, "selector": "app=web"}})
    owner = {
        "apiVersion": rack["apiVersion"],
        "kind": "Rack",
        "name": "web",
        "uid": made["metadata"]["uid"],
        "controller": True,
    }
    # Where service accounts are made for a namespace, a pod has to wait for its own.
    await world.until(f"/api/v1/namespaces/{world.namespace}/serviceaccounts/default", lambda _: True)
    for n in range(2):
        pod = template()
        pod["metadata"] |= {"name": f"web-{n}", "ownerReferences": [owner]}
        await world.make(world.pods, {"apiVersion": "v1", "kind": "Pod", **pod})
    for n in range(2):
        await world.until(
            f"{world.pods}/web-{n}",
            lambda p: any(
                c["type"] == "Ready" and c["status"] == "True"
                for c in p.get("status", {}).get("conditions", [])
            ),
        )
    world.measure(40)
    wpa = await world.autoscaler(scaleTargetRef={"apiVersion": f"{GROUP}/v1", "kind": "Rack", "name": "web"})
    await world.until(path, wants(4))
    await world.until(wpa, says("ScalingActive", "True"))


async def test_a_kind_that_does_not_exist_is_said(world: World) -> None:
    reference = {"apiVersion": "nothing.example.com/v1", "kind": "Nothing", "name": "web"}
    world.measure(40)
    wpa = await world.autoscaler(scaleTargetRef=reference)
    await world.until(wpa, says("AbleToScale", "False", "FailedProcessWPA"))
    await world.told("FailedProcessWPA", "unable to determine resource for scale target reference")


async def test_a_monitor_that_is_not_ok_blocks_until_it_is(world: World) -> None:
    target = await world.deployment()
    world.measure(60)
    wpa = await world.autoscaler(annotations={"wpa.datadoghq.com/lifecycle-control.enabled": "true"})
    found = await world.until(wpa, says("ScalingBlocked", "True", "FailedGetDatadogMonitor"))
    assert "not found, blocking the WPA" in condition(found, "ScalingBlocked")["message"]
    await world.told("FailedGetDatadogMonitor")
    monitor = f"{world.monitors}/web"
    await world.make(
        world.monitors,
        {"apiVersion": "datadoghq.com/v1alpha1", "kind": "DatadogMonitor", "metadata": {"name": "web"}},
    )
    await world.until(wpa, says("ScalingBlocked", "True", "DatadogMonitorNotOK"))
    await world.patch(f"{monitor}/status", {"status": {"monitorState": "Alert"}})
    await world.until(wpa, lambda w: "is in Alert state" in condition(w, "ScalingBlocked")["message"])
    assert (await world.get(target))["spec"]["replicas"] == 2
    await world.patch(f"{monitor}/status", {"status": {"monitorState": "OK"}})
    await world.until(target, wants(6))
    await world.until(wpa, says("ScalingBlocked", "False", "DatadogMonitorOK"))
    await world.patch(
        wpa, {"metadata": {"annotations": {"wpa.datadoghq.com/lifecycle-control.enabled": None}}}
    )
    await world.until(wpa, lambda w: not condition(w, "ScalingBlocked"))


async def test_an_object_that_is_deleted_leaves_its_target_alone(world: World) -> None:
    target = await world.deployment()
    world.measure(60)
    wpa = await world.autoscaler(dryRun=True)
    await world.until(wpa, lambda w: w.get("status", {}).get("desiredReplicas") == 6)
    # As the reference leaves it behind: its finalizer must not keep the object.
    finalizer = "finalizer.watermarkpodautoscaler.datadoghq.com"
    await world.patch(wpa, {"metadata": {"finalizers": [finalizer]}, "spec": {"dryRun": True}})
    await world.delete(wpa)
    await world.gone(wpa)
    assert (await world.get(target))["spec"]["replicas"] == 2


async def test_a_spec_that_cannot_be_used_is_refused_in_a_condition_and_an_event(world: World) -> None:
    target = await world.deployment()
    world.measure(600)
    wpa = await world.autoscaler(minReplicas=5, maxReplicas=3)
    found = await world.until(wpa, says("AbleToScale", "False", "FailedSpecCheck"))
    text = "requires the minimum number of replicas to be configured and inferior to the maximum"
    assert text in condition(found, "AbleToScale")["message"]
    await world.told("FailedSpecCheck", text)
    assert (await world.get(target))["spec"]["replicas"] == 2
    await world.patch(wpa, {"spec": {"minReplicas": 1}})
    await world.until(target, wants(3))
