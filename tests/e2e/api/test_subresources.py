"""Subresources: status, scale, binding and eviction."""

from __future__ import annotations

import pytest

from tests.e2e.api.client import JSON_PATCH, Client, Object, causes, deployment, pod
from tests.e2e.api.crontabs import crontab
from tidewright.kube.errors import KubeError


async def test_status_is_written_by_its_subresource_only(client: Client) -> None:
    await client.create(client.path("pods"), pod("p"))
    changed = await client.merge(client.path("pods", "p"), {"status": {"message": "no"}})
    assert "message" not in changed["status"]
    changed = await client.merge(
        client.path("pods", "p", "status"),
        {"status": {"message": "yes"}, "spec": {"activeDeadlineSeconds": 5}},
    )
    assert changed["status"]["message"] == "yes"
    assert "activeDeadlineSeconds" not in changed["spec"]
    assert changed["metadata"]["generation"] == 1


async def test_a_scale_shows_and_sets_replicas(client: Client) -> None:
    await client.create(client.path("deployments", group="apps"), deployment("d"))
    path = client.path("deployments", "d", "scale", group="apps")
    scale = await client.get(path)
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale["status"] == {"replicas": 0, "selector": "app=d"}
    await client.merge(client.path("deployments", "d", group="apps"), {"spec": {"paused": True}})
    done = await client.merge(path, {"spec": {"replicas": 3}})
    assert done["spec"] == {"replicas": 3}
    found = await client.get(client.path("deployments", "d", group="apps"))
    assert found["spec"]["replicas"] == 3
    await client.merge(path, {"spec": {"replicas": 0}})


async def test_a_scale_of_an_old_version_is_a_conflict(client: Client) -> None:
    await client.create(client.path("deployments", group="apps"), deployment("d"))
    path = client.path("deployments", "d", "scale", group="apps")
    scale = await client.get(path)
    await client.merge(client.path("deployments", "d", group="apps"), {"spec": {"paused": True}})
    with pytest.raises(KubeError) as refused:
        await client.update(path, scale | {"spec": {"replicas": 1}})
    assert (refused.value.status, refused.value.reason) == (409, "Conflict")


async def test_a_scale_cannot_be_negative(client: Client) -> None:
    await client.create(client.path("deployments", group="apps"), deployment("d"))
    with pytest.raises(KubeError) as refused:
        await client.merge(client.path("deployments", "d", "scale", group="apps"), {"spec": {"replicas": -1}})
    assert (refused.value.status, refused.value.reason) == (422, "Invalid")
    assert "must be greater than or equal to 0" in refused.value.message


async def test_custom_resources_scale(client: Client, crontabs: Object) -> None:
    group = crontabs["spec"]["group"]
    await client.create(client.path("crontabs", group=group), crontab(group, "c", replicas=2))
    status = client.path("crontabs", "c", "status", group=group)
    await client.merge(status, {"status": {"replicas": 1, "selector": "app=c"}})
    path = client.path("crontabs", "c", "scale", group=group)
    scale = await client.get(path)
    assert (scale["spec"], scale["status"]) == ({"replicas": 2}, {"replicas": 1, "selector": "app=c"})
    await client.call(
        "PATCH", path, [{"op": "replace", "path": "/spec/replicas", "value": 4}], content_type=JSON_PATCH
    )
    assert (await client.get(client.path("crontabs", "c", group=group)))["spec"]["replicas"] == 4


def binding(name: str, node: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


async def test_a_binding_gives_a_pod_its_node_once(client: Client) -> None:
    sent = pod("p")
    sent["spec"]["schedulerName"] = "nobody"  # or the scheduler may say at the same time that nothing fits
    await client.create(client.path("pods"), sent)
    done = await client.create(client.path("pods", "p", "binding"), binding("p", "no-such-node"))
    assert (done["kind"], done["status"]) == ("Status", "Success")
    found = await client.get(client.path("pods", "p"))
    assert found["spec"]["nodeName"] == "no-such-node"
    scheduled = [c["status"] for c in found["status"]["conditions"] if c["type"] == "PodScheduled"]
    assert scheduled == ["True"]
    with pytest.raises(KubeError) as refused:
        await client.create(client.path("pods", "p", "binding"), binding("p", "another"))
    assert (refused.value.status, refused.value.reason) == (409, "Conflict")
    assert "already assigned to node" in refused.value.message
    await client.delete(client.path("pods", "p"), {"gracePeriodSeconds": 0})


def eviction(name: str) -> Object:
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}


async def test_an_eviction_deletes(client: Client) -> None:
    await client.create(client.path("pods"), pod("p"))
    await client.create(client.path("pods", "p", "eviction"), eviction("p"))
    await client.gone(client.path("pods", "p"))


async def test_a_budget_refuses_an_eviction(client: Client) -> None:
    await client.create(client.path("pods"), pod("p", app="guarded"))
    await client.create(client.path("pods", "p", "binding"), binding("p", "no-such-node"))
    ready = {
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "True"}],
        }
    }
    await client.merge(client.path("pods", "p", "status"), ready)
    budget = {
        "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}},
    }
    await client.create(client.path("poddisruptionbudgets", group="policy"), budget)
    with pytest.raises(KubeError) as refused:
        await client.create(client.path("pods", "p", "eviction"), eviction("p"))
    assert (refused.value.status, refused.value.reason) == (429, "TooManyRequests")
    assert causes(refused.value) == [("", "DisruptionBudget")]
    await client.delete(client.path("poddisruptionbudgets", "b", group="policy"))
    await client.create(client.path("pods", "p", "eviction"), eviction("p"))
    await client.delete(client.path("pods", "p"), {"gracePeriodSeconds": 0})
    await client.gone(client.path("pods", "p"))


async def test_an_unknown_subresource_is_not_found(client: Client) -> None:
    await client.create(client.path("pods"), pod("p"))
    with pytest.raises(KubeError) as refused:
        await client.get(client.path("pods", "p", "nothing"))
    assert refused.value.status == 404
    assert refused.value.message == "the server could not find the requested resource"
