"""What controllers make of workloads, as far as it can be seen without a machine: nothing here ever runs.

Each test states what the API promises of a kind; it waits for it, since controllers come after the fact.
"""

from __future__ import annotations

from typing import Any

from tests.e2e.api.client import Client, Object, deployment, pod
from tidewright.kube.errors import KubeError

TEMPLATE_SPEC = pod("x")["spec"]


async def listed(client: Client, plural: str, group: str = "", **query: str) -> list[Object]:
    found: list[Object] = (await client.get(client.path(plural, group=group), **query))["items"]
    return found


async def pods_of(client: Client, app: str, count: int) -> list[Object]:
    """The pods of an app that are not on their way out, once there are so many."""

    async def there() -> list[Object] | None:
        found = [
            one
            for one in await listed(client, "pods", labelSelector=f"app={app}")
            if "deletionTimestamp" not in one["metadata"]
        ]
        return found if len(found) == count else None

    if count == 0:
        await client.until(lambda: _none(client, app))
        return []
    found: list[Object] = await client.until(there)
    return found


async def _none(client: Client, app: str) -> bool:
    return not await listed(client, "pods", labelSelector=f"app={app}")


def controller_of(obj: Object) -> tuple[str, str]:
    owner = next(one for one in obj["metadata"]["ownerReferences"] if one.get("controller"))
    return owner["kind"], owner["name"]


async def test_a_deployment_makes_a_replica_set_and_that_makes_pods(client: Client) -> None:
    await client.create(client.path("deployments", group="apps"), deployment("d", replicas=2))
    pods = await pods_of(client, "d", 2)
    (replica_set,) = await listed(client, "replicasets", "apps")
    assert controller_of(replica_set) == ("Deployment", "d")
    digest = replica_set["metadata"]["labels"]["pod-template-hash"]
    assert replica_set["metadata"]["name"] == f"d-{digest}"
    for one in pods:
        assert controller_of(one) == ("ReplicaSet", replica_set["metadata"]["name"])
        assert one["metadata"]["name"].startswith(f"d-{digest}-")
        labels = {k: v for k, v in one["metadata"]["labels"].items() if not k.startswith("topology.")}
        assert labels == {"app": "d", "pod-template-hash": digest}  # its node's topology joins them
    path = client.path("deployments", "d", group="apps")

    async def observed() -> Object | None:
        status: Object = (await client.get(path)).get("status") or {}
        counts = [status.get(name) for name in ("replicas", "updatedReplicas", "unavailableReplicas")]
        return status if counts == [2, 2, 2] else None

    status = await client.until(observed)
    assert "readyReplicas" not in status  # zeros are left out
    assert status["observedGeneration"] == 1
    conditions = {one["type"]: one["reason"] for one in status["conditions"]}
    assert conditions["Available"] == "MinimumReplicasUnavailable"


async def test_a_new_template_is_rolled_out_within_the_surge(client: Client) -> None:
    sent = deployment("d", replicas=4)
    sent["spec"]["strategy"] = {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
    }
    await client.create(client.path("deployments", group="apps"), sent)
    await pods_of(client, "d", 4)
    change = {"spec": {"template": {"metadata": {"annotations": {"why": "again"}}}}}
    await client.merge(client.path("deployments", "d", group="apps"), change)
    await pods_of(client, "d", 5)  # one more and, since none gets ready, no further

    async def sizes() -> list[int] | None:
        found = sorted(one["spec"]["replicas"] for one in await listed(client, "replicasets", "apps"))
        return found if found == [1, 4] else None

    await client.until(sizes)
    revisions = {
        one["metadata"]["annotations"]["deployment.kubernetes.io/revision"]
        for one in await listed(client, "replicasets", "apps")
    }
    assert revisions == {"1", "2"}


async def test_pods_that_cost_least_go_first(client: Client) -> None:
    sent = deployment("r", replicas=3) | {"kind": "ReplicaSet"}
    sent["spec"]["template"]["metadata"]["labels"]["cheap"] = "yes"
    await client.create(client.path("replicasets", group="apps"), sent)
    path = client.path("replicasets", "r", group="apps")
    pods = await pods_of(client, "r", 3)
    kept = pods[1]["metadata"]["name"]
    cost = {"controller.kubernetes.io/pod-deletion-cost": "10"}
    await client.merge(
        client.path("pods", kept), {"metadata": {"annotations": cost, "labels": {"cheap": None}}}
    )

    async def seen() -> bool:  # by the controller, which looks at pods in its own time: it counts labels
        return bool((await client.get(path))["status"].get("fullyLabeledReplicas") == 2)

    await client.until(seen)
    await client.merge(path, {"spec": {"replicas": 1}})
    (left,) = await pods_of(client, "r", 1)
    assert left["metadata"]["name"] == kept


async def test_a_lost_pod_is_replaced(client: Client) -> None:
    await client.create(
        client.path("replicasets", group="apps"), deployment("r", replicas=1) | {"kind": "ReplicaSet"}
    )
    (first,) = await pods_of(client, "r", 1)
    await client.delete(client.path("pods", first["metadata"]["name"]), {"gracePeriodSeconds": 0})
    await client.gone(client.path("pods", first["metadata"]["name"]))
    (second,) = await pods_of(client, "r", 1)
    assert second["metadata"]["uid"] != first["metadata"]["uid"]


async def test_a_stateful_set_begins_with_its_first_pod(client: Client) -> None:
    sent = deployment("s", replicas=3) | {"kind": "StatefulSet"}
    sent["spec"]["serviceName"] = "s"
    await client.create(client.path("statefulsets", group="apps"), sent)
    (first,) = await pods_of(client, "s", 1)
    assert first["metadata"]["name"] == "s-0"  # and no other, since it is not ready
    labels = first["metadata"]["labels"]
    assert labels["statefulset.kubernetes.io/pod-name"] == "s-0"
    assert labels["apps.kubernetes.io/pod-index"] == "0"
    assert first["spec"]["hostname"] == "s-0"
    await client.merge(client.path("statefulsets", "s", group="apps"), {"spec": {"replicas": 0}})
    await pods_of(client, "s", 0)


def job(name: str, **spec: Any) -> Object:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": TEMPLATE_SPEC | {"restartPolicy": "Never"},
            },
            **spec,
        },
    }


async def test_a_job_runs_as_many_as_it_may_and_waits_while_suspended(client: Client) -> None:
    await client.create(
        client.path("jobs", group="batch"), job("j", completions=5, parallelism=2, suspend=True)
    )
    path = client.path("jobs", "j", group="batch")

    async def suspended() -> bool:
        conditions = ((await client.get(path)).get("status") or {}).get("conditions") or ()
        return any(one["type"] == "Suspended" and one["status"] == "True" for one in conditions)

    await client.until(suspended)
    assert not await listed(client, "pods", labelSelector="app=j")
    await client.merge(path, {"spec": {"suspend": False}})
    for one in await pods_of(client, "j", 2):
        assert controller_of(one) == ("Job", "j")
        assert one["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "j"
    for one in await pods_of(client, "j", 2):
        done = {"status": {"phase": "Succeeded"}}
        await client.merge(client.path("pods", one["metadata"]["name"], "status"), done)

    async def succeeded() -> bool:
        return bool(((await client.get(path)).get("status") or {}).get("succeeded") == 2)

    await client.until(succeeded)


async def test_a_quota_that_is_used_up_holds_pods_back(client: Client) -> None:
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "2"}}}
    await client.create(client.path("resourcequotas"), quota)

    async def counted() -> bool:
        return bool(((await client.get(client.path("resourcequotas", "q"))).get("status") or {}).get("used"))

    await client.until(counted)
    await client.create(client.path("deployments", group="apps"), deployment("d", replicas=3))
    await pods_of(client, "d", 2)

    async def refused() -> bool:
        found = await listed(client, "events", fieldSelector="reason=FailedCreate")
        return any(
            "exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2" in e["message"]
            for e in found
        )

    await client.until(refused)


async def test_events_tell_what_controllers_did(client: Client) -> None:
    await client.create(client.path("deployments", group="apps"), deployment("d", replicas=1))
    (made,) = await pods_of(client, "d", 1)
    replica_set = controller_of(made)[1]

    async def told() -> bool:
        said = {
            (e["involvedObject"]["kind"], e["reason"], e["message"]) for e in await listed(client, "events")
        }
        return {
            ("Deployment", "ScalingReplicaSet", f"Scaled up replica set {replica_set} from 0 to 1"),
            ("ReplicaSet", "SuccessfulCreate", f"Created pod: {made['metadata']['name']}"),
        } <= said

    await client.until(told)


async def test_a_namespace_has_an_account_and_gets_it_back(client: Client) -> None:
    path = client.path("serviceaccounts", "default")
    before = await client.get(path)
    await client.delete(path)

    async def back() -> bool:
        try:
            return bool((await client.get(path))["metadata"]["uid"] != before["metadata"]["uid"])
        except KubeError:
            return False

    await client.until(back)

    async def certified() -> bool:
        return any(
            one["metadata"]["name"] == "kube-root-ca.crt" for one in await listed(client, "configmaps")
        )

    await client.until(certified)
