"""ProvisioningRequests from the object to nodes that are ready, or to nothing at all."""

from __future__ import annotations

from typing import Any

from tests import waiting
from tests.e2e.provisioning.world import (
    ATOMIC,
    CHECK,
    CHECK_ALIAS,
    CLASS,
    CONSUME,
    World,
    asked,
    condition,
    false,
    kubectl,
    true,
)
from tests.e2e.sim.world import merge, send, until
from tidewright.events.decisions import SetStatus
from tidewright.events.provisioning import DecreaseNodeGroup, IncreaseNodeGroup, PlanScaleUp


async def test_an_atomic_request_of_150_nodes_is_ordered_at_once_and_tells_when_they_are_ready(
    world: World,
) -> None:
    group = await world.group("big", max=200)
    await world.start()
    await world.pod_template()
    await world.ask("train", ("worker", 150))
    found = await world.request("train", true("CapacityReady"))
    assert [c["type"] for c in found["status"]["conditions"]] == ["Accepted", "Provisioned", "CapacityReady"]
    provisioned = condition(found, "Provisioned")
    assert provisioned["reason"] == "CapacityIsProvisioned"
    assert provisioned["message"] == "Capacity is found in the cluster"
    assert await world.target(group) == 150
    await world.nodes(150)
    orders = await world.decided(IncreaseNodeGroup)
    assert [(o.target.name, o.from_size, o.size) for o in orders] == [(group, 0, 150)]
    said = await world.said("Accepted", "ScaleUpRequested")
    assert said["ScaleUpRequested"] == f"scale-up requested: {group} 0->150"
    details = found["status"]["provisioningClassDetails"]
    assert details["decision"] in {d.id for d in await world.decided(SetStatus)}
    await world.status(lambda told: all_ready(told, group, 150))
    wide = kubectl(world.cluster, "get", "provreq", "train", "-n", world.namespace, "-o", "wide")
    header, row = (line.split() for line in wide.splitlines())
    assert header == ["NAME", "CLASS", "ACCEPTED", "PROVISIONED", "FAILED", "AGE"]
    assert row[:4] == ["train", found["spec"]["provisioningClassName"], "True", "True"]


async def test_a_plan_over_two_groups_of_which_one_refuses_leaves_nothing_behind(world: World) -> None:
    good = await world.group("a-good", max=4, boot="3600")  # none of them is there when they are taken back
    await world.group("b-short", max=4, boot="3600", faults={"stock": 0})
    await world.configure(**{"balance-similar-node-groups": True})
    await world.start()
    await world.pod_template()
    await world.ask("train", ("worker", 8))
    await world.request("train", false("Provisioned", "CapacityIsNotFound"))
    ordered = await world.decided(IncreaseNodeGroup)
    assert {o.target.name.rsplit("-", 1)[0] for o in ordered} == {"a-good", "b-short"}
    await _settles_at(world, good, 0)
    assert [(o.target.name, o.size) for o in await world.decided(DecreaseNodeGroup)] == [(good, 0)]


async def test_presets_of_a_class_hold_where_the_request_says_nothing_else(world: World) -> None:
    """By an alias of the check class, which no other test uses: classes belong to the whole cluster."""
    await world.group("small", max=1)
    await world.preset(CHECK_ALIAS, {"noRetry": "true"})
    await world.start()
    await world.pod_template()
    await world.ask("preset", ("worker", 2), cls=CHECK_ALIAS)
    found = await world.request("preset", true("Failed", "CapacityIsNotFound"))
    assert condition(found, "Failed")["message"] == "CA could not find requested capacity"
    await world.ask("own", ("worker", 2), cls=CHECK_ALIAS, parameters={"noRetry": "false"})
    found = await world.request("own", false("Provisioned", "CapacityIsNotFound"))
    available = condition(found, "CapacityAvailable")
    assert (available["status"], available["reason"]) == ("False", "CapacityIsNotFound")
    assert found["spec"]["provisioningClassName"] == CHECK_ALIAS


async def test_both_versions_are_served_and_the_old_one_warns(world: World) -> None:
    await world.group("small", max=2)
    await world.start()
    await world.pod_template()
    manifest = {
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "kind": "ProvisioningRequest",
        "metadata": {"name": "old", "namespace": world.namespace},
        "spec": {
            "provisioningClassName": ATOMIC,
            "podSets": [{"count": 1, "podTemplateRef": {"name": "worker"}}],
        },
    }
    code, _, said = asked(world.cluster, "apply", "-f", "-", manifest=manifest)
    assert code == 0
    assert "Warning: autoscaling.x-k8s.io/v1beta1 ProvisioningRequest is deprecated" in said
    found = await world.request("old", true("Provisioned"))
    assert found["apiVersion"] == "autoscaling.x-k8s.io/v1"
    where = ("-n", world.namespace, "-o", "jsonpath={.apiVersion} {.status.conditions[0].type}")
    name = "provisioningrequests.v1beta1.autoscaling.x-k8s.io"
    code, read, said = asked(world.cluster, "get", name, "old", *where)
    assert read == "autoscaling.x-k8s.io/v1beta1 Accepted"
    assert "is deprecated" in said
    manifest["spec"] = {**found["spec"], "provisioningClassName": CHECK}
    code, _, said = asked(world.cluster, "apply", "-f", "-", manifest=manifest)
    assert code == 1
    assert "spec.provisioningClassName: Invalid value" in said
    assert "Value is immutable" in said


async def test_a_condition_of_another_controller_stays_as_its_writer_left_it(world: World) -> None:
    await world.group("small", max=1)
    await world.start()
    await world.pod_template()
    # Long enough to be judged, and approved, before it expires.
    await world.ask("r", ("worker", 2), parameters={"ValidUntilSeconds": "20"})
    await world.request("r", false("Provisioned", "CapacityIsNotFound"))
    theirs = {
        "type": "Approved", "status": "True", "reason": "Boss", "message": "so",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    await world.approve("r", theirs)
    found = await world.request("r", true("Failed", "Expired"))
    assert condition(found, "Approved") == theirs
    owners = {
        one["manager"]: set(one["fieldsV1"]["f:status"]["f:conditions"])
        for one in found["metadata"]["managedFields"]
        if one.get("subresource") == "status" and "f:conditions" in one["fieldsV1"]["f:status"]
    }
    ours = {key for key in owners["cluster-autoscaler"] if key.startswith("k:")}
    assert ours == {f'k:{{"type":"{kind}"}}' for kind in ("Accepted", "Provisioned", "Failed")}


async def test_two_check_requests_compete_for_the_same_room(world: World) -> None:
    await world.group("room", initial=3, min=3, max=3)
    await world.nodes(3)
    await world.start()
    await world.pod_template()
    await world.ask("first", ("worker", 2), cls=CHECK)
    await world.request("first", true("Provisioned", "CapacityIsFound"))
    await world.ask("second", ("worker", 2), cls=CHECK)
    await world.request("second", false("Provisioned", "CapacityIsNotFound"))
    await world.ask("third", ("worker", 1), cls=CHECK)
    await world.request("third", true("Provisioned", "CapacityIsFound"))
    assert await world.decided(IncreaseNodeGroup) == []


async def test_deleting_a_request_during_its_increase_takes_back_what_has_not_come(world: World) -> None:
    group = await world.group("slow", max=20, boot="3600")
    await world.start()
    await world.pod_template()
    await world.ask("train", ("worker", 12))
    await world.request("train", true("Provisioned", "CapacityIsProvisioned"))
    assert await world.target(group) == 12
    await world.kube.request("DELETE", f"{world.requests}/train")
    await _settles_at(world, group, 0)
    assert len(await world.decided(DecreaseNodeGroup)) == 1


async def test_a_workload_that_waits_as_under_kueue_runs_when_its_request_is_provisioned(
    world: World,
) -> None:
    await world.group("batch", max=10)
    await world.start()
    await world.pod_template("ppt-job-train-check-1-main")
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {
            "suspend": True, "parallelism": 4, "completions": 4,
            "template": {**world.template(), "spec": {**world.template()["spec"], "restartPolicy": "Never"}},
        },
    }  # fmt: skip
    job["spec"]["template"]["spec"]["containers"][0]["command"] = ["sleep", "600"]  # type: ignore[index]
    made = await send(world.kube, "POST", world.jobs, job)
    owner = {
        "apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": made["metadata"]["uid"],
        "controller": True, "blockOwnerDeletion": True,
    }  # fmt: skip
    asked = await world.ask(
        "job-train-check-1",
        ("ppt-job-train-check-1-main", 4),
        parameters={"ValidUntilSeconds": "3600"},
        metadata={"labels": {"kueue.x-k8s.io/managed": "true"}, "ownerReferences": [owner]},
    )
    # Kueue hands the templates over to the request by an update, after it made it.
    handed = {"apiVersion": asked["apiVersion"], "kind": asked["kind"], "name": asked["metadata"]["name"], "uid": asked["metadata"]["uid"]}  # fmt: skip
    await merge(
        world.kube,
        f"{world.templates}/ppt-job-train-check-1-main",
        {"metadata": {"ownerReferences": [handed], "labels": {"kueue.x-k8s.io/managed": "true"}}},
    )
    found = await world.request("job-train-check-1", true("Provisioned"))
    assert found["spec"] == asked["spec"]
    notes = {CONSUME: "job-train-check-1", CLASS: asked["spec"]["provisioningClassName"]}
    await merge(
        world.kube,
        f"{world.jobs}/train",
        {"spec": {"suspend": False, "template": {"metadata": {"annotations": notes}}}},
    )
    pods = await until(
        world.kube,
        world.pods,
        lambda pods: sum(bool(pod["spec"].get("nodeName")) for pod in pods.values()) == 4,
        timeout_s=60,
    )
    assert {pod["metadata"]["annotations"][CONSUME] for pod in pods.values()} == {"job-train-check-1"}
    found = await world.request("job-train-check-1", true("BookingExpired", "CapacityBookingConsumed"))
    assert condition(found, "BookingExpired")["message"] == "Capacity booking consumed: all pods scheduled"
    assert len(await world.decided(PlanScaleUp)) == 1


def all_ready(told: dict[str, Any], group: str, nodes: int) -> bool:
    """Whether the status ConfigMap says of a group that all that was ordered is there."""
    return any(
        one["name"] == group
        and one["scaleUp"]["status"] == "NoActivity"
        and one["health"]["cloudProviderTarget"]
        == one["health"]["nodeCounts"]["registered"]["ready"]
        == nodes
        for one in told["nodeGroups"]
    )


async def _settles_at(world: World, group: str, size: int) -> None:
    """Wait until the cloud wants so many nodes of a group."""
    await waiting.until(lambda: world.target(group), lambda found: found == size)
